package records_test

import (
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hindsight/cmd/research/records"
)

// madeUp returns results with every part, some unknown numbers and a rejection.
func madeUp() *records.Results {
	bins := make([]records.Bin, 10)
	bins[0] = records.Bin{Members: 1500, Predicted: 0.0254, Found: 0.125}
	bins[9] = records.Bin{Members: 499, Predicted: 0.95, Found: 0.5}
	return &records.Results{
		Rows: 1200, Skipped: []string{"ijcnn1"},
		Inferred: []records.Inferred{{Stream: "bike", Rows: 17379, Columns: []records.Column{{Name: "hr", Kind: "category", Reason: "24 different integers"}}}},
		Beside: []records.Beside{
			{
				Stream: "bike", Learner: "auto",
				Named:  records.Side{Rows: 1200, Features: 1480, Value: 0.00225, Skill: 0.75, Rate: 12_340},
				Scaled: records.Side{Rows: 1200, Features: 475, Value: 0.0025, Skill: -0.5, Rate: 5000},
			},
			{
				Stream: "bike+dteday", Learner: "auto",
				Named:  records.Side{Rows: 1200, Features: 20, Value: 0.005, Skill: 0.75, Rate: 1},
				Scaled: records.Side{Rows: 1200, Features: 475, Value: 0.0025, Skill: -0.5, Rate: 5000},
			},
			{
				Stream: "elec2", Learner: "linear_awv",
				Named:  records.Side{Value: math.NaN(), Skill: math.NaN(), Rate: math.NaN(), Rejected: "rejected: INVALID_SPEC"},
				Scaled: records.Side{Rows: 1200, Features: 9, Value: 0.25, Skill: math.NaN(), Rate: 5000},
			},
		},
		Digits: []records.Digits{
			{Scaling: "running", Rows: 1200, Errors: 0.03, LogLoss: 0.155, Brier: 0.05, Rate: 5000},
			{Scaling: "min-max", Rows: 1200, Errors: 0.025, LogLoss: 0.1, Brier: 0.04, Rate: 6000},
		},
		Withheld: []records.Withheld{
			{Scaling: "running", Recoding: 0.25, First: 0.5, Others: 0.01},
			{Scaling: "running", Recoding: 0.5, First: math.NaN(), Others: math.NaN()},
		},
		Reliability: []records.Reliability{
			{Stream: "elec2", Learner: "rlsc", Rows: 1200, Errors: 0.2, Last: 0.15, LogLoss: 0.5, Brier: 0.25, Bins: bins},
			{Stream: "elec2", Learner: "fogd", Errors: math.NaN(), Last: math.NaN(), LogLoss: math.NaN(), Brier: math.NaN(), Rejected: "rejected: INVALID_SPEC"},
		},
	}
}

func TestBars(t *testing.T) {
	var got []string
	for _, b := range madeUp().Bars() {
		got = append(got, b.What+" | "+b.Asked+" | "+b.Measured+" | "+b.Met())
	}
	want := []string{
		"loss of bike by named columns / scaled by hand, `auto` | at most 1 | 0.900 | yes",
		"errors of digits, scaling running | at most 2.5 % | 3.00 % | **no**",
		"errors of digits, scaling min-max | at most 2.5 % | 2.50 % | yes",
		"errors on the first 20 of a withheld digit, recoding ½, scaling running | at most 25 % | – | not measured",
		"largest distance of a bin with 500 members from its probability, elec2, `rlsc` | at most 0.05 | 0.10 | **no**",
		"largest distance of a bin with 500 members from its probability, elec2, `fogd` | at most 0.05 | – | not measured",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// The file has all that a run measured.
func TestSave(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	if err := records.Save(dir, madeUp()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, records.Name)
	wantSame(t, readBack(t, path), path)
}

// readRows reads a CSV file without its header.
func readRows(t *testing.T, path string) [][]string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // it was only read
	all, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(all[0], ","); got != "part,stream,learner,setting,measure,value" {
		t.Fatalf("the header is %s", got)
	}
	return all[1:]
}
