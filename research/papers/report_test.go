package papers_test

import (
	"bytes"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hindsight/cmd/research/papers"
)

// entry returns the result of a learner with the same loss in every round.
func entry(name string, rows int, loss, prediction float64) papers.Entry {
	s := papers.NewScore(papers.Grid(1200, papers.GridPoints))
	for range rows {
		s.Add(prediction, 1, loss)
	}
	s.Close()
	return papers.Entry{
		Name: name, Loss: "squared", Score: s, Skill: math.NaN(), Regret: 12.345, Bound: math.NaN(),
		Rate: 12_345, StateBytes: 3 << 20, Features: 1001,
	}
}

// madeUp returns a run of three streams. One of them was skipped.
func madeUp() (papers.Plan, []*papers.Result) {
	p := papers.Plan{Rows: 1200}
	for _, name := range []string{papers.NameAuto, papers.NameLinear, papers.NameKernel, papers.NameAdaRaker} {
		p.Learners = append(p.Learners, papers.Learner{Name: name})
	}
	auto := entry(papers.NameAuto, 1200, 0.0625, 1)
	auto.Skill = 0.96875
	auto.Intervals = []papers.Interval{{Level: 0.9, Inside: 0.905, Least: 0.875}, {Level: 0.99, Inside: 0.9912, Least: math.NaN()}}
	wrong := entry(papers.NameAuto, 1200, 1, -1)
	wrong.Skill = -0.25
	linear, kernel, ada := entry(papers.NameLinear, 1200, 0.25, 1), entry(papers.NameKernel, 1000, 0.01, 1), entry(papers.NameAdaRaker, 1200, 0.125, -1)
	linear.Bound = 98.7654
	ada.Rate /= 4
	ada.DictionaryFull = true
	mean := papers.Entry{Name: papers.NameMean, Baseline: true, Loss: "squared", Score: entry("", 1200, 2, 0).Score, Skill: math.NaN(), Regret: math.NaN(), Bound: math.NaN(), Rate: math.NaN()}
	stream := papers.Stream{
		Name: "made", Title: "Made up", Notes: []string{"A note."},
		Published: []papers.Figure{{Learner: "AdaRaker, D = 50", Value: 1.3e-3, Of: papers.NameAdaRaker, Source: "Table 4"}},
	}
	signs := stream
	signs.Name, signs.Signs, signs.AsPublished, signs.Published = "signs", true, true, nil
	rejected := entry(papers.NameKernel, 0, 0, 0)
	rejected.Rejected = "rejected: OBSERVATION_LIMIT"
	rejected.Rate, rejected.Regret, rejected.Features, rejected.StateBytes = math.NaN(), math.NaN(), 0, 0
	return p, []*papers.Result{
		{Stream: stream, Rows: 1200, Missing: 7, Dimension: 3, Sigma: 0.5, Entries: []papers.Entry{auto, linear, kernel, ada, mean}, Late: []papers.Late{
			{Delay: 1, Rows: 1200, Loss: 0.5, RunningMean: 1, LastLabel: 2, Skill: 0.5, ErrorRate: math.NaN()},
			{Delay: 10, Rows: 1200, Loss: 0.75, RunningMean: 1, LastLabel: 3, Skill: 0.25, ErrorRate: math.NaN()},
		}},
		{Stream: papers.Stream{Name: "gone"}, Skipped: "its file is not there"},
		{Stream: signs, Rows: 1200, Dimension: 3, Sigma: 0.5, Entries: []papers.Entry{wrong, linear, rejected, ada, mean}, Late: []papers.Late{
			{Delay: 100, Rows: 1000, Loss: 0.5, RunningMean: 1, LastLabel: 2, Skill: 0.5, ErrorRate: 0.125},
		}},
	}
}

func TestReport(t *testing.T) {
	got := papers.Report(madeUp())
	for _, want := range []string{
		"**Only the first 1,200 rows of every stream were used.**",
		"| stream | `auto` | best other | which | running mean | last label | skill | inside 90 % | least of 500 | inside 99 % | least of 500 |",
		"| [made](made.svg) | **0.0625** | 0.125 | `ada_raker` | 2.00 | – | 0.969 | 90.50 % | 87.50 % | 99.12 % | – |",
		"| [signs](signs.svg) | 100.00 % | **0.00 %** | `linear_awv` | 100.00 % | – | -0.250 | – | – | – | – |",
		"| stream | rows | delay | loss | errors | running mean | last label | skill |",
		"| [made](made.svg) | 1,200 | 1 | 0.500 | – | 1.00 | 2.00 | 0.500 |\n| [made](made.svg) | 1,200 | 10 | 0.750 | – | 1.00 | 3.00 | 0.250 |\n" +
			"| [signs](signs.svg) | 1,000 | 100 | 0.500 | 12.50 % | 1.00 | 2.00 | 0.500 |\n",
		// The number of the kernel is smaller, but it covers fewer rows.
		"| learner | [made](made.svg) | [signs](signs.svg) |\n| --- | ---: | ---: |\n| `auto` | **0.0625** | 100.00 % |\n| `linear_awv` | 0.250 | **0.00 %** |\n" +
			"| `kernel_awv` | 0.0100 | – |\n| `ada_raker` | 0.125 | 100.00 % |\n| running mean | 2.00 | 100.00 % |\n| last label | – | – |\n| paper's AdaRaker | 0.0013 | – |\n",
		"| made | 1,200 | 3 | 7 | 0.25 | each column |",
		"| signs | 1,200 | 3 | 0 | 0.25 | by the publishers |",
		"- `made`: A note.\n", "| made | AdaRaker, D = 50 | 0.0013 | Table 4 |",
		"[all numbers](made.csv)", "(made.svg)", "(made_steps.svg)",
		"## Not run\n\n- gone: its file is not there.",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if again := papers.Report(madeUp()); again != got {
		t.Error("the same results make another report")
	}
	if strings.Contains(got, "NaN") {
		t.Errorf("NaN in\n%s", got)
	}
}

func TestSave(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "results")
	_, results := madeUp()
	for _, r := range results {
		if err := papers.Save(dir, r); err != nil {
			t.Fatal(err)
		}
	}
	table := records(t, filepath.Join(dir, "made.csv"))
	if len(table) != 6 || table[2][0] != "linear_awv" || table[2][3] != "0.25" || table[2][4] != "" || table[4][12] != "0.25" || table[5][7] != "" {
		t.Errorf("table %q", table)
	}
	if got := strings.Join(table[1][14:], " "); got != "0.96875 0.905 0.875 0.9912 " || strings.Join(table[0][14:], " ") != "skill coverage_0.9 least_of_500_0.9 coverage_0.99 least_of_500_0.99" {
		t.Errorf("skill and intervals %q", got)
	}
	late := records(t, filepath.Join(dir, "late", "made.csv"))
	if len(late) != 3 || strings.Join(late[2], " ") != "10 1200 0.75  1 3 0.25" {
		t.Errorf("late labels %q", late)
	}
	signs := records(t, filepath.Join(dir, "signs.csv"))
	if signs[3][3] != "" || signs[3][4] != "" || signs[3][13] != "rejected: OBSERVATION_LIMIT" || signs[4][4] != "1" {
		t.Errorf("table %q", signs)
	}
	curves := records(t, filepath.Join(dir, "curves", "made.csv"))
	if got := curves[1]; got[0] != "auto" || got[1] != "6" || got[2] != "0.0625" || got[3] != "" {
		t.Errorf("curve begins %q", got)
	}
	if got := len(curves); got != 1+200+200+167+200+200 {
		t.Errorf("%d rows of curves", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "gone.csv")); !os.IsNotExist(err) {
		t.Errorf("of a skipped stream: %v", err)
	}
}

func records(t *testing.T, path string) [][]string {
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
	return all
}

// Every learner has a line in the figure of its family, and in no other. The baselines
// and auto are in both.
func TestDraw(t *testing.T) {
	_, results := madeUp()
	for _, r := range []*papers.Result{results[0], results[2]} {
		r.Entries = append(r.Entries, entry(papers.NameFourierKons+".running", 1200, 0.5, 1))
		for _, f := range papers.Families() {
			var first, second bytes.Buffer
			if err := errors.Join(papers.Draw(&first, r, f), papers.Draw(&second, r, f)); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(first.Bytes(), second.Bytes()) {
				t.Error("the same result makes another figure")
			}
			text := first.String()
			steps := f.Suffix == "_steps"
			for want, there := range map[string]bool{
				"round t (rows of the stream)": true, "sans-serif": true, "1,000": true, f.Title: true,
				">auto<": true, ">running mean<": true, ">linear_awv<": !steps, ">ada_raker<": steps, ">fourier_kons.running<": steps,
				"mean loss (scaled label²)": !r.Stream.Signs,
			} {
				if strings.Contains(text, want) != there {
					t.Errorf("%s%s: %q should be there: %v", r.Stream.Name, f.Suffix, want, there)
				}
			}
			d := xml.NewDecoder(&first)
			for {
				if _, err := d.Token(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// The figures of both families together have a line of every learner.
func TestEveryLearnerIsDrawn(t *testing.T) {
	r := &papers.Result{Stream: papers.Stream{Name: "made"}, Rows: 1200}
	for i, l := range papers.Learners() {
		r.Entries = append(r.Entries, entry(l.Name, 1200, float64(i+1), 1))
	}
	var both bytes.Buffer
	for _, f := range papers.Families() {
		var one bytes.Buffer
		if err := papers.Draw(&one, r, f); err != nil {
			t.Fatal(err)
		}
		both.Write(one.Bytes())
	}
	for _, l := range papers.Learners() {
		want := 1
		if l.Name == papers.NameAuto {
			want = 2
		}
		if n := strings.Count(both.String(), ">"+l.Name+"<"); n != want {
			t.Errorf("%s has %d lines, want %d", l.Name, n, want)
		}
	}
}
