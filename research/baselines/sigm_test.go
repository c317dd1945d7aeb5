package baselines_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"hindsight/cmd/research/baselines"
)

// Passes of SIGM make the steps of Algorithm 1 of the thesis, section 6.2, computed
// from scratch with the same draws: f = Σ over the steps so far, each a kernel of
// its own.
func TestSIGM(t *testing.T) {
	const n = 60
	random := rand.New(rand.NewPCG(8, 8))
	x := inputs(random, n, 2)
	y := labels(random, baselines.Logistic, x)
	kernel := baselines.Gaussian(0.36)
	for name, step := range map[string]func(int) float64{"constant": baselines.ConstantStep(n), "decaying": baselines.DecayingStep} {
		s, alpha := baselines.NewSample(kernel, x, y), make(baselines.Fit, n)
		draws := rand.New(rand.NewPCG(9, 9))
		for pass := range 5 {
			s.Pass(alpha, pass*n, step, draws)
		}
		draws = rand.New(rand.NewPCG(9, 9))
		type atom struct {
			at     []float64
			weight float64
		}
		var atoms []atom
		f := func(z []float64) (v float64) {
			for _, a := range atoms {
				v += a.weight * kernel.Value(a.at, z)
			}
			return v
		}
		for k := 1; k <= 5*n; k++ {
			j := draws.IntN(n)
			slope := 0.0 // of max(0, 1 − y f)
			if y[j]*f(x[j]) < 1 {
				slope = -y[j]
			}
			eta := 1 / math.Sqrt(n)
			if name == "decaying" {
				eta = 0.25 / math.Sqrt(float64(k))
			}
			atoms = append(atoms, atom{x[j], -eta * slope})
		}
		rows := inputs(random, 40, 2)
		signs := labels(random, baselines.Logistic, rows)
		hinge, wrong := 0.0, 0.0
		for i, z := range rows {
			hinge += max(0, 1-signs[i]*f(z)) / 40
			if signs[i]*f(z) <= 0 {
				wrong += 1.0 / 40
			}
		}
		got := s.Check(rows, signs, make(baselines.Fit, n), alpha)
		near(t, name+": hinge loss", got[1].Hinge, hinge, 1e-9)
		near(t, name+": errors", got[1].Errors, wrong, 1e-9)
		near(t, "hinge loss of 0", got[0].Hinge, 1, 1e-12)
		near(t, "errors of 0", got[0].Errors, 1, 1e-12)
	}
}

// On a sample that is a function of its inputs both experiments find it, the same
// at every run, and they end with their context.
func TestSplit(t *testing.T) {
	random := rand.New(rand.NewPCG(10, 10))
	s := baselines.Split{}
	for len(s.X) < 400 { // As wide as some kernels, so that their matrix is regular.
		x := []float64{20*random.Float64() - 10, 20*random.Float64() - 10}
		s.X, s.Y = append(s.X, x), append(s.Y, math.Copysign(1, x[0]+x[1]))
	}
	s.TestX, s.TestY, s.X, s.Y = s.X[300:], s.Y[300:], s.X[:300], s.Y[:300]
	all, err := baselines.Accuracies(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	again, err := baselines.Accuracies(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if last := all[len(all)-1]; len(all) != 8 || all[0].M != 2 || last.M != 256 {
		t.Errorf("%d sizes", len(all))
	}
	for i, a := range all {
		if a != again[i] {
			t.Errorf("%+v, then %+v", a, again[i])
		}
	}
	if last := all[len(all)-1]; last.Ridge >= all[0].Ridge || last.Few >= all[0].Few {
		t.Errorf("errors %+v with many centres, %+v with two", last, all[0])
	}
	passes, err := baselines.SIGM(t.Context(), s)
	if err != nil || len(passes) != 2 {
		t.Fatalf("%d results, %v", len(passes), err)
	}
	for _, p := range passes {
		if p.Errors > 0.15 || p.Hinge > 0.8 || p.Passes < 1 || p.Passes > baselines.SigmPasses {
			t.Errorf("%+v", p)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := baselines.Accuracies(ended, s); !errors.Is(err, context.Canceled) {
		t.Errorf("NYTRO: %v", err)
	}
	if _, err := baselines.SIGM(ended, s); !errors.Is(err, context.Canceled) {
		t.Errorf("SIGM: %v", err)
	}
}
