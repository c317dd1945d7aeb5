package papers_test

import (
	"errors"
	"flag"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"hindsight/cmd/research/papers"
)

var update = flag.Bool("update", false, "write the committed report anew from the committed tables")

// The committed report is equal to the one that the generator writes for the
// committed tables.
func TestTheCommittedReportIsGenerated(t *testing.T) {
	dir := filepath.FromSlash("../results")
	raw, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var results []*papers.Result
	for _, s := range papers.Streams() {
		_, reason, skipped := strings.Cut(string(raw), "\n- "+s.Name+": ")
		if skipped {
			reason, _, _ = strings.Cut(reason, ".\n")
			results = append(results, &papers.Result{Stream: s, Skipped: reason})
			continue
		}
		results = append(results, committed(t, dir, s, string(raw)))
	}
	report := papers.Report(papers.Plan{Learners: papers.Learners(), Baselines: true}, results)
	if *update {
		if err := os.WriteFile(filepath.Join(dir, "README.md"), []byte(report), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	got := strings.Split(report, "\n")
	want := strings.Split(string(raw), "\n")
	for i := range max(len(got), len(want)) {
		var g, w string
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			t.Fatalf("line %d of research/results/README.md: make reproduce would write\n%s\nnot\n%s", i+1, g, w)
		}
	}
}

// committed builds the result of a stream from its committed table. Only the
// report has the bandwidth.
func committed(t *testing.T, dir string, s papers.Stream, report string) *papers.Result {
	t.Helper()
	r := &papers.Result{Stream: s, Dimension: s.Source.Inputs}
	square := regexp.MustCompile(`(?m)^\| ` + s.Name + ` \| [0-9,]+ \| \d+ \| [0-9,]+ \| ([0-9.e-]+) \|`).FindStringSubmatch(report)
	if square == nil {
		t.Fatalf("the report has no bandwidth of %s", s.Name)
	}
	r.Sigma = math.Sqrt(number(t, square[1]))
	for _, row := range records(t, filepath.Join(dir, s.Name+".csv"))[1:] {
		if want := 15 + 2*len(papers.Coverages()); len(row) != want {
			t.Fatalf("%s.csv has %d columns, and make reproduce writes %d", s.Name, len(row), want)
		}
		rows := int(number(t, row[1]))
		e := papers.Entry{
			Name: row[0], Loss: row[2], Baseline: row[0] == papers.NameMean || row[0] == papers.NameLast,
			Score:  score(rows, number(t, row[3]), number(t, row[4]), number(t, row[5]), number(t, row[6])),
			Skill:  number(t, row[14]),
			Regret: number(t, row[7]), Bound: number(t, row[8]), Rate: number(t, row[11]), Rejected: row[13],
		}
		if !e.Baseline {
			e.Features, e.StateBytes = int(number(t, row[9])), uint64(number(t, row[10]))
		}
		for i, level := range papers.Coverages() {
			e.Intervals = append(e.Intervals, papers.Interval{Level: level, Inside: number(t, row[15+2*i]), Least: number(t, row[16+2*i])})
		}
		// 512 is the default size of a dictionary.
		e.DictionaryFull = (strings.HasPrefix(e.Name, papers.NameNystrom) || strings.HasPrefix(e.Name, papers.NameProsNKons)) && e.Features == 512
		r.Entries = append(r.Entries, e)
		r.Rows = max(r.Rows, rows)
	}
	r.Missing = s.Source.Rows - r.Rows
	r.Late = committedLate(t, filepath.Join(dir, "late", s.Name+".csv"))
	return r
}

// committedLate returns the committed results with late labels, if there are any.
func committedLate(t *testing.T, path string) (late []papers.Late) {
	t.Helper()
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, row := range records(t, path)[1:] {
		late = append(late, papers.Late{
			Delay: int(number(t, row[0])), Rows: int(number(t, row[1])), Loss: number(t, row[2]), ErrorRate: number(t, row[3]),
			RunningMean: number(t, row[4]), LastLabel: number(t, row[5]), Skill: number(t, row[6]),
		})
	}
	return late
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

// score builds the score of a number of rounds with the given means: of all
// rounds, and of the first KernelRows rounds.
func score(rows int, loss, errors, firstLoss, firstErrors float64) *papers.Score {
	s := papers.NewScore(nil)
	first := min(rows, papers.KernelRows)
	wrong := func(rate float64, n int) int {
		if math.IsNaN(rate) {
			return 0
		}
		return int(math.Round(rate * float64(n)))
	}
	play := func(n, wrong int, loss float64) {
		for i := range n {
			sign := 1.0
			if i < wrong {
				sign = -1
			}
			s.Add(sign, 1, loss)
		}
	}
	play(first, wrong(firstErrors, first), firstLoss)
	if rest := rows - first; rest > 0 {
		play(rest, wrong(errors, rows)-wrong(firstErrors, first), (loss*float64(rows)-firstLoss*float64(first))/float64(rest))
	}
	s.Close()
	return s
}
