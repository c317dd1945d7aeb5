package comparison_test

import (
	"encoding/csv"
	"errors"
	"flag"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"hindsight/cmd/research/baselines"
	"hindsight/cmd/research/comparison"
	"hindsight/cmd/research/papers"
)

var update = flag.Bool("update", false, "write the committed figures and summary anew from the committed tables")

// The committed summary and figures are those that the generator writes for the committed
// tables.
func TestTheCommittedSummaryIsGenerated(t *testing.T) {
	dir := filepath.FromSlash("../results")
	var results []*comparison.Result
	for _, s := range papers.Streams() {
		if r := committed(t, filepath.Join(dir, comparison.Directory), s); r != nil {
			results = append(results, r)
		}
	}
	if len(results) != 10 {
		t.Errorf("%d streams", len(results))
	}
	written := t.TempDir()
	if *update {
		written = dir
	}
	for _, r := range results {
		if err := comparison.Save(written, r); err != nil {
			t.Fatal(err)
		}
	}
	if err := comparison.SaveSummary(written, results); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"summary.csv", "air.csv", "ijcnn1_accuracy.csv", "ijcnn1_sigm.csv"} {
		if content(t, filepath.Join(written, comparison.Directory, name)) != content(t, filepath.Join(dir, comparison.Directory, name)) {
			t.Errorf("make compare would write another %s; run this test with -update", name)
		}
	}
}

// committed reads the result of a stream from its tables, nil if it has none.
func committed(t *testing.T, dir string, s papers.Stream) *comparison.Result {
	t.Helper()
	table := records(t, filepath.Join(dir, s.Name+".csv"))
	if table == nil {
		return nil
	}
	r := &comparison.Result{Stream: s}
	for _, row := range table {
		c := comparison.Course{Course: baselines.Course{Method: row[0], Step: baselines.NoStep}, MeanLoss: number(t, row[3]), ErrorRate: number(t, row[4])}
		if row[1] != "" {
			c.Step = baselines.Stated + int(math.Round(math.Log10(number(t, row[1]))))
		}
		r.Rounds = int(number(t, row[2]))
		r.Courses = append(r.Courses, c)
	}
	learners := map[string]bool{
		papers.NameLinear: true, papers.NameTaylor: true, papers.NameNystrom: true, papers.NameFourier: true, papers.NameRaker: true, papers.NameAdaRaker: true,
		papers.NameFourierKons: true, papers.NameProsNKons: true, comparison.NameSketch: true,
	}
	for _, row := range records(t, filepath.Join(dir, "curves", s.Name+".csv")) {
		p := papers.Point{T: int(number(t, row[1])), MeanLoss: number(t, row[2]), ErrorRate: number(t, row[3])}
		if !learners[row[0]] {
			for i, c := range r.Courses {
				if c.Method == row[0] && (c.Step == baselines.Stated || c.Step == baselines.NoStep) {
					r.Courses[i].Curve = append(r.Courses[i].Curve, p)
				}
			}
			continue
		}
		if n := len(r.Traces); n == 0 || r.Traces[n-1].Name != row[0] {
			r.Traces = append(r.Traces, comparison.Trace{Name: row[0]})
		}
		size := 0
		if row[5] != "" {
			size = int(number(t, row[5]))
		}
		last := &r.Traces[len(r.Traces)-1]
		last.Points = append(last.Points, comparison.TracePoint{Point: p, Regret: number(t, row[4]), Dictionary: size})
	}
	for _, row := range records(t, filepath.Join(dir, s.Name+"_accuracy.csv")) {
		r.Accuracies = append(r.Accuracies, baselines.Accuracy{
			M: int(number(t, row[0])), Few: number(t, row[1]), Many: number(t, row[2]), Ridge: number(t, row[3]), Lambda: number(t, row[4]),
		})
	}
	for _, row := range records(t, filepath.Join(dir, s.Name+"_sigm.csv")) {
		r.Passes = append(r.Passes, baselines.Passes{Step: row[0], Passes: number(t, row[1]), Verdict: baselines.Verdict{Hinge: number(t, row[2]), Errors: number(t, row[3])}})
	}
	return r
}

// records reads a table without its head, nil if there is none.
func records(t *testing.T, path string) [][]string {
	t.Helper()
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(file).ReadAll()
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	return rows[1:]
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
