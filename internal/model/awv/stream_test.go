package awv_test

import (
	"bufio"
	"compress/gzip"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"hindsight/internal/model/awv"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/modeltest"
)

// data finds the benchmark streams beside the checkout.
func data(t *testing.T, name string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the test")
		}
		dir = parent
	}
	path := filepath.Join(filepath.Dir(dir), "shared", "data", name)
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		t.Skipf("the benchmark stream %s is not here", name)
	}
	return path
}

// rows reads the first n rows, the target last, inputs min-max scaled.
func rows(t *testing.T, path string, n int) (x [][]float64, y []float64) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(unzipped)
	lines.Scan()
	for len(x) < n && lines.Scan() {
		var row []float64
		for cell := range strings.SplitSeq(lines.Text(), ",") {
			v, err := strconv.ParseFloat(cell, 64)
			if err != nil {
				t.Fatal(err)
			}
			row = append(row, v)
		}
		x, y = append(x, row[:len(row)-1]), append(y, row[len(row)-1])
	}
	for j := range x[0] {
		low, high := math.Inf(1), math.Inf(-1)
		for _, r := range x {
			low, high = math.Min(low, r[j]), math.Max(high, r[j])
		}
		for _, r := range x {
			if r[j] -= low; high > low {
				r[j] /= high - low
			}
		}
	}
	return x, y
}

// On real streams every loss equals that of the same recursion with dense
// matrices: A_t kept whole, solved anew at every round.
func TestRealStreamsAgreeWithDenseRecursion(t *testing.T) {
	n := 2000
	if testing.Short() || modeltest.RaceDetector {
		n = 150
	}
	for _, name := range []string{"energy_adaraker.csv.gz", "casp.csv.gz"} {
		t.Run(name, func(t *testing.T) {
			x, y := rows(t, data(t, name), n)
			d := len(x[0])
			taylor := feature.NewTaylor(d, 1, 2)
			r := taylor.Size()
			learner, phi := awv.New(taylor, 1), modeltest.TaylorFeatures(d, 1, 2)
			a, b := mat.NewSymDense(r, nil), mat.NewVecDense(r, nil)
			for i := range r {
				a.SetSym(i, i, 1)
			}
			worst := 0.0
			for s := range x {
				z := mat.NewVecDense(r, phi(x[s]))
				a.SymRankOne(a, 1, z)
				var c mat.Cholesky
				if !c.Factorize(a) {
					t.Fatal("not positive definite")
				}
				var w mat.VecDense
				if err := c.SolveVecTo(&w, b); err != nil {
					t.Fatal(err)
				}
				miss := y[s] - mat.Dot(z, &w)
				b.AddScaledVec(b, y[s], z)
				out, err := learner.Observe(x[s], y[s], 1)
				if err != nil {
					t.Fatal(err)
				}
				worst = math.Max(worst, math.Abs(out.Loss-miss*miss)/(1+miss*miss))
			}
			t.Logf("largest deviation over %d rounds: %.2g", len(x), worst)
			if worst > 1e-8 {
				t.Errorf("losses deviate by %g", worst)
			}
		})
	}
}
