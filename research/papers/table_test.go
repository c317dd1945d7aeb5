package papers_test

import (
	"compress/gzip"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hindsight/cmd/research/papers"
)

// place writes the file of a stream.
func place(t *testing.T, dir, name, content string) {
	t.Helper()
	file, err := os.Create(filepath.Join(dir, name+".csv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(file)
	_, err = z.Write([]byte(content))
	if err := errors.Join(err, z.Close(), file.Close()); err != nil {
		t.Fatal(err)
	}
}

// learner returns the learner of that name.
func learner(t *testing.T, name string) papers.Learner {
	t.Helper()
	for _, l := range papers.Learners() {
		if l.Name == name {
			return l
		}
	}
	t.Fatalf("no learner %s", name)
	return papers.Learner{}
}

func TestLoadScales(t *testing.T) {
	dir := t.TempDir()
	place(t, dir, "raw", "x1,x2,y\n2,7,10\n4,7,-200\n6,7,30\n3,7,20\n")
	table, err := papers.Load(dir, papers.Stream{Name: "raw", SkipMissing: true}, 2)
	if err != nil {
		t.Fatal(err)
	}
	if table.Missing != 1 || len(table.Y) != 2 || table.Dimension() != 2 {
		t.Fatalf("%+v", table)
	}
	if table.Unit != 20 {
		t.Errorf("a label of 1 is %v in the file, want 20", table.Unit)
	}
	// The range covers the whole file without the row that has no label. The
	// constant becomes 0.
	if table.X[0][0] != 0 || table.X[1][0] != 1 || table.X[0][1] != 0 || table.Y[0] != 0 || table.Y[1] != 1 {
		t.Errorf("scaled to %v, %v", table.X, table.Y)
	}
	mean := (0 + 1 + 0.25) / 3
	distance := 2 * (mean*mean + (1-mean)*(1-mean) + (0.25-mean)*(0.25-mean)) / 3
	if math.Abs(table.Mean[0]-mean) > 1e-15 || math.Abs(table.Sigma-math.Sqrt(distance)) > 0.005 {
		t.Errorf("mean %v, sigma %v; want %v, about %v", table.Mean, table.Sigma, mean, math.Sqrt(distance))
	}
	for _, name := range []string{papers.NameTaylor, papers.NameSemiparametric} {
		if x := table.Inputs(1, learner(t, name)); math.Abs(x[0]-(1-mean)) > 1e-15 || table.X[1][0] != 1 {
			t.Errorf("%s: centred %v, of %v", name, x, table.X[1])
		}
	}
	if x := table.Inputs(1, learner(t, papers.NameLinear)); x[0] != 1 {
		t.Errorf("not centred %v", x)
	}
}

func TestLoadKeepsWhatIsPublishedScaled(t *testing.T) {
	dir := t.TempDir()
	place(t, dir, "s", "x1,y\n-3,1\n5,-1\n")
	table, err := papers.Load(dir, papers.Stream{Name: "s", Signs: true, AsPublished: true}, 0)
	if err != nil || table.X[0][0] != -3 || table.X[1][0] != 5 || table.Y[1] != -1 {
		t.Errorf("%+v, %v", table, err)
	}
	// Labels that are signs are not scaled.
	table, err = papers.Load(dir, papers.Stream{Name: "s", Signs: true}, 0)
	if err != nil || table.X[0][0] != 0 || table.X[1][0] != 1 || table.Y[1] != -1 {
		t.Errorf("%+v, %v", table, err)
	}
}

func TestLoadRejects(t *testing.T) {
	dir := t.TempDir()
	if _, err := papers.Load(dir, papers.Stream{Name: "absent"}, 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
	for name, c := range map[string]struct{ content, want string }{
		"three": {"x1,y\n1,1\n2,3\n", "only -1 and +1"},
		"pair":  {"x1,y1,y2\n1,1,1\n", "2 labels a row"},
		"none":  {"x1,y\n1,-200\n", "no row has a label"},
		"text":  {"x1,y\n1,one\n", "line 2, column 2 (y)"},
	} {
		place(t, dir, name, c.content)
		_, err := papers.Load(dir, papers.Stream{Name: name, Signs: name == "three", SkipMissing: true}, 0)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
