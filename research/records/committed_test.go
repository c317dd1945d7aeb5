package records_test

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"hindsight/cmd/research/records"
)

// The committed figures are those of all streams, meet every bar, and are written as they
// were read.
func TestCommittedFigures(t *testing.T) {
	path := filepath.FromSlash("../results/" + records.Name)
	r := readBack(t, path)
	if len(r.Inferred) != 3 || len(r.Beside) != 15 || len(r.Digits) != 2 || len(r.Withheld) != 8 || len(r.Reliability) != 8 {
		t.Fatalf("the committed figures are not those of all streams: %d, %d, %d, %d and %d",
			len(r.Inferred), len(r.Beside), len(r.Digits), len(r.Withheld), len(r.Reliability))
	}
	for _, b := range r.Bars() {
		if b.Met() != "yes" {
			t.Errorf("%+v", b)
		}
	}
	wantSame(t, r, path)
}

// wantSame fails the test unless Save writes results as a file has them.
func wantSame(t *testing.T, r *records.Results, path string) {
	t.Helper()
	dir := t.TempDir()
	if err := records.Save(dir, r); err != nil {
		t.Fatal(err)
	}
	got, err1 := os.ReadFile(filepath.Join(dir, records.Name))
	want, err2 := os.ReadFile(filepath.Clean(path))
	if err := errors.Join(err1, err2); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v; the figures are written as\n%s\nnot\n%s", err, got, want)
	}
}

// readBack builds the results from their figures.
func readBack(t *testing.T, path string) *records.Results {
	t.Helper()
	r := &records.Results{}
	var before []string
	for _, row := range readRows(t, path) {
		part, stream, learner, setting := row[0], row[1], row[2], row[3]
		// A row of something else than the row before begins an entry.
		fresh := before == nil || before[0] != part || before[1] != stream || before[2] != learner
		before = row
		switch part {
		case records.PartInferred:
			if fresh {
				r.Inferred = append(r.Inferred, records.Inferred{Stream: stream, Rows: int(number(t, row[5]))})
				continue
			}
			last := &r.Inferred[len(r.Inferred)-1]
			last.Columns = append(last.Columns, records.Column{Name: setting, Kind: row[4], Reason: row[5]})
		case records.PartBeside:
			if fresh {
				r.Beside = append(r.Beside, records.Beside{Stream: stream, Learner: learner})
			}
			last := &r.Beside[len(r.Beside)-1]
			side := &last.Named
			if setting == "scaled" {
				side = &last.Scaled
			}
			readSide(t, side, row)
		case records.PartDigits:
			if n := len(r.Digits); n == 0 || r.Digits[n-1].Scaling != setting {
				r.Digits = append(r.Digits, records.Digits{Scaling: setting})
			}
			readDigits(t, &r.Digits[len(r.Digits)-1], row)
		case records.PartWithheld:
			readWithheld(t, r, row)
		case records.PartReliability:
			if fresh {
				r.Reliability = append(r.Reliability, records.Reliability{Stream: stream, Learner: learner})
			}
			readReliability(t, &r.Reliability[len(r.Reliability)-1], row)
		default:
			t.Fatalf("a figure of %q", part)
		}
	}
	return r
}

func readSide(t *testing.T, s *records.Side, row []string) {
	t.Helper()
	switch row[4] {
	case "rows":
		s.Rows = int(number(t, row[5]))
	case "features":
		s.Features = int(number(t, row[5]))
	case "value":
		s.Value = number(t, row[5])
	case "skill":
		s.Skill = number(t, row[5])
	case "rounds_per_second":
		s.Rate = number(t, row[5])
	case "rejected":
		s.Rejected = row[5]
	default:
		t.Fatalf("%q", row)
	}
}

func readDigits(t *testing.T, d *records.Digits, row []string) {
	t.Helper()
	switch row[4] {
	case "rows":
		d.Rows = int(number(t, row[5]))
	case "errors":
		d.Errors = number(t, row[5])
	case "log_loss":
		d.LogLoss = number(t, row[5])
	case "brier":
		d.Brier = number(t, row[5])
	case "rounds_per_second":
		d.Rate = number(t, row[5])
	case "rejected":
		d.Rejected = row[5]
	default:
		t.Fatalf("%q", row)
	}
}

func readWithheld(t *testing.T, r *records.Results, row []string) {
	t.Helper()
	scaling, recoding, _ := strings.Cut(row[3], " ")
	switch row[4] {
	case "first":
		r.Withheld = append(r.Withheld, records.Withheld{Scaling: scaling, Recoding: number(t, recoding), First: number(t, row[5])})
	case "others":
		r.Withheld[len(r.Withheld)-1].Others = number(t, row[5])
	default:
		t.Fatalf("%q", row)
	}
}

func readReliability(t *testing.T, e *records.Reliability, row []string) {
	t.Helper()
	if row[3] != "" {
		if row[4] == "members" {
			e.Bins = append(e.Bins, records.Bin{Members: uint64(number(t, row[5]))})
		}
		bin := &e.Bins[len(e.Bins)-1]
		switch row[4] {
		case "predicted":
			bin.Predicted = number(t, row[5])
		case "found":
			bin.Found = number(t, row[5])
		}
		return
	}
	switch row[4] {
	case "rows":
		e.Rows = int(number(t, row[5]))
	case "errors":
		e.Errors = number(t, row[5])
	case "last_class":
		e.Last = number(t, row[5])
	case "log_loss":
		e.LogLoss = number(t, row[5])
	case "brier":
		e.Brier = number(t, row[5])
	case "rejected":
		e.Rejected = row[5]
	default:
		t.Fatalf("%q", row)
	}
}

// number parses a cell. An empty cell is an unknown number.
func number(t *testing.T, cell string) float64 {
	t.Helper()
	if cell == "" {
		return math.NaN()
	}
	v, err := strconv.ParseFloat(cell, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
