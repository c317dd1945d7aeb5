package comparison_test

import (
	"compress/gzip"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hindsight/cmd/research/baselines"
	"hindsight/cmd/research/comparison"
	"hindsight/cmd/research/papers"
)

// write writes a stream of two inputs. The label is their product, or its sign.
func write(t *testing.T, dir, name string, rows int, signs bool) {
	t.Helper()
	file, err := os.Create(filepath.Join(dir, name+".csv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(file)
	var text strings.Builder
	text.WriteString("x1,x2,y\n")
	for i := range rows {
		x1, x2 := 10*math.Sin(float64(i)), 10*math.Sin(1.7*float64(i)+1)
		y := x1 * x2 / 100
		if signs {
			y = math.Copysign(1, y)
		}
		fmt.Fprintf(&text, "%g,%g,%g\n", x1, x2, y)
	}
	_, err = z.Write([]byte(text.String()))
	if err := errors.Join(err, z.Close(), file.Close()); err != nil {
		t.Fatal(err)
	}
}

// stream returns a published stream.
func stream(t *testing.T, name string) papers.Stream {
	t.Helper()
	for _, s := range papers.Streams() {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("there is no stream %s", name)
	return papers.Stream{}
}

// run takes three streams through the comparison.
func run(t *testing.T) []*comparison.Result {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "casp", 150, false)
	write(t, dir, "elec2", 150, true)
	write(t, dir, "ijcnn1", 50100, true)
	bench := &comparison.Bench{Data: dir, Rows: 120}
	var results []*comparison.Result
	for _, name := range []string{"casp", "elec2", "ijcnn1"} {
		r, err := bench.Stream(t.Context(), stream(t, name))
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, r)
	}
	return results
}

// Every baseline and every learner takes all rounds. Their numbers agree with the
// ends of their curves, and the regret of a certified learner is known.
func TestStream(t *testing.T) {
	for _, r := range run(t) {
		if want := baselines.NewOnline(r.Stream.Signs, 120).Courses(); len(r.Courses) != len(want) || r.Rounds != 120 {
			t.Fatalf("%s: %d courses over %d rounds", r.Stream.Name, len(r.Courses), r.Rounds)
		}
		for _, c := range r.Courses {
			last := c.Curve[len(c.Curve)-1]
			same := last.MeanLoss == c.MeanLoss || math.IsNaN(last.MeanLoss) && math.IsNaN(c.MeanLoss)
			if len(c.Curve) != comparison.GridPoints || last.T != 120 || !same || last.ErrorRate != c.ErrorRate {
				t.Errorf("%s, %s: %d points, the last is %+v of %+v", r.Stream.Name, c.Method, len(c.Curve), last, c.MeanLoss)
			}
			if math.IsNaN(c.MeanLoss) && r.Stream.Signs {
				t.Errorf("%s, %s: the logistic loss diverges", r.Stream.Name, c.Method)
			}
		}
		if len(r.Traces) != 9 {
			t.Fatalf("%d traces", len(r.Traces))
		}
		centres := make(map[string][]int)
		for _, trace := range r.Traces {
			for _, p := range trace.Points {
				centres[trace.Name] = append(centres[trace.Name], p.Dictionary)
			}
			last := trace.Points[len(trace.Points)-1]
			if len(trace.Points) != comparison.GridPoints || last.T != 120 {
				t.Errorf("%s, %s: %d points", r.Stream.Name, trace.Name, len(trace.Points))
			}
			if strings.Contains(trace.Name, "awv") && !(last.Regret < last.MeanLoss*120) {
				t.Errorf("%s, %s: regret %v, loss %v", r.Stream.Name, trace.Name, last.Regret, last.MeanLoss*120)
			}
			if strings.Contains(trace.Name, "kons") && trace.Name != comparison.NameSketch && math.IsNaN(last.Regret) != r.Stream.Signs {
				t.Errorf("%s, %s: regret %v", r.Stream.Name, trace.Name, last.Regret)
			}
			grows := trace.Name == papers.NameNystrom || trace.Name == papers.NameProsNKons || trace.Name == comparison.NameSketch
			if grows != (last.Dictionary > 0) {
				t.Errorf("%s, %s: %d centres", r.Stream.Name, trace.Name, last.Dictionary)
			}
		}
		if !slices.Equal(centres[papers.NameNystrom], centres[papers.NameProsNKons]) {
			t.Errorf("%s: centres %v", r.Stream.Name, centres)
		}
		if split := r.Stream.Name == "ijcnn1"; split != (len(r.Accuracies) == 6) || split != (len(r.Passes) == 2) {
			t.Errorf("%s: %d sizes of NYTRO, %d steps of SIGM", r.Stream.Name, len(r.Accuracies), len(r.Passes))
		}
	}
}

// A stream without a file, or that is not served, has no result. A run ends with its
// context.
func TestStreamWithout(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "air", 10, false)
	write(t, dir, "digits", 10, false)
	bench := &comparison.Bench{Data: dir}
	for _, name := range []string{"bike", "digits"} {
		if r, err := bench.Stream(t.Context(), stream(t, name)); r != nil || err != nil {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := bench.Stream(ctx, stream(t, "air")); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// The summary has every method, and the same results give the same bytes.
func TestSave(t *testing.T) {
	results, first, second := run(t), t.TempDir(), t.TempDir()
	for _, dir := range []string{first, second} {
		for _, r := range results {
			if err := comparison.Save(dir, r); err != nil {
				t.Fatal(err)
			}
		}
		if err := comparison.SaveSummary(dir, results); err != nil {
			t.Fatal(err)
		}
	}
	summary := content(t, filepath.Join(first, comparison.Directory, "summary.csv"))
	for _, want := range []string{`casp,"RBF, σ² = 0.1",`, `elec2,"M-Forgetron, B = 50",,`, `ijcnn1,"OMKL-B, B = 100",`} {
		if !strings.Contains(summary, want) {
			t.Errorf("the summary has no %q", want)
		}
	}
	files := 0
	err := fs.WalkDir(os.DirFS(first), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		text := content(t, filepath.Join(first, name))
		if text != content(t, filepath.Join(second, name)) {
			t.Errorf("%s differs from run to run", name)
		}
		if strings.HasSuffix(name, ".svg") {
			wellFormed(t, name, text)
		}
		return nil
	})
	if err != nil || files != 3*4+3+3 {
		t.Errorf("%d files, %v", files, err)
	}
}

// wellFormed fails if a figure is no XML, or has no line.
func wellFormed(t *testing.T, name, text string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	paths := 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == "path" {
			paths++
		}
	}
	if paths < 10 || strings.Contains(text, "NaN") {
		t.Errorf("%s: %d paths", name, paths)
	}
}

func content(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// Nearest is by ratio, and leaves out courses that diverge.
func TestNearest(t *testing.T) {
	r := &comparison.Result{Rounds: 1, Courses: []comparison.Course{
		{Course: baselines.Course{Method: "a", Step: 0}, MeanLoss: 1},
		{Course: baselines.Course{Method: "a", Step: 1}, MeanLoss: 4},
		{Course: baselines.Course{Method: "a", Step: 2}, MeanLoss: math.NaN()},
		{Course: baselines.Course{Method: "b", Step: 0}, MeanLoss: 2.2},
	}}
	if step, v := r.Nearest("a", 2.2); step != 1 || v != 4 { // 2.2/1 > 4/2.2
		t.Errorf("step %d, %v", step, v)
	}
	if step, v := r.Nearest("a", 1.9); step != 0 || v != 1 {
		t.Errorf("step %d, %v", step, v)
	}
}
