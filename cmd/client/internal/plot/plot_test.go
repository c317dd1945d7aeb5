package plot_test

import (
	"bytes"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"hindsight/cmd/client/internal/plot"
)

var update = flag.Bool("update", false, "write the golden curve anew")

func TestCurve(t *testing.T) {
	ys := make([]float64, 500)
	for n := range ys {
		ys[n] = math.Sqrt(float64(n)) * 3
	}
	var b bytes.Buffer
	err := plot.Curves(&b, [][]float64{ys}, plot.Options{Width: 60, Height: 8, Title: "regret", X: "round", First: "1", Last: "500"})
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "curve.txt")
	if *update {
		if err := os.WriteFile(golden, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("drawn\n%s\nwant\n%s", b.String(), want)
	}
}

func TestCurveKeepsItsWidth(t *testing.T) {
	for _, ys := range [][]float64{{1}, {2, 2, 2}, {-1e-9, 1e9}, {1, math.NaN(), 3, math.Inf(1), 2}} {
		for _, width := range []int{0, 30, 200} {
			var b bytes.Buffer
			if err := plot.Curves(&b, [][]float64{ys}, plot.Options{Width: width, Height: 5}); err != nil {
				t.Fatal(err)
			}
			for line := range strings.SplitSeq(b.String(), "\n") {
				if n := utf8.RuneCountInString(line); width > 40 && n > width {
					t.Errorf("%v: a line of %d in a width of %d", ys, n, width)
				}
			}
		}
	}
	if err := plot.Curves(&bytes.Buffer{}, [][]float64{{math.NaN()}}, plot.Options{}); !errors.Is(err, plot.ErrEmpty) {
		t.Errorf("nothing to draw: %v", err)
	}
}

// Each curve has its name beside its end, and no two names share a row.
func TestNamesOfCurves(t *testing.T) {
	rising, same, gap := []float64{0, 1, 2}, []float64{0, 2, 2}, []float64{2, 0, math.NaN()}
	curves := [][]float64{rising, same, gap}
	o := plot.Options{Width: 60, Height: 5, Names: []string{"rising", "same & <so>", "gap"}}
	var drawn bytes.Buffer
	if err := plot.Curves(&drawn, curves, o); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(drawn.String(), "\n")
	for row, name := range []string{"rising", "same & <so>", "", "", "gap"} {
		if !strings.HasSuffix(lines[row], name) || utf8.RuneCountInString(lines[row]) > o.Width {
			t.Errorf("row %d is %q, want the name %q", row, lines[row], name)
		}
	}
}
