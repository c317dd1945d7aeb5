package catalog_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
)

// The degree that is left to the server is the largest that fits and is useful where
// the inputs are.
func TestAutomaticDegree(t *testing.T) {
	running, warmup := &model.Scaling{Running: &model.RunningScaling{}}, &model.Scaling{Warmup: &model.WarmupScaling{Observations: 40}}
	for _, c := range []struct {
		dimension, ceiling int
		scaling            *model.Scaling
		sigma              float64
		degree             int
	}{
		{1, 512, nil, 1, 8},
		{2, 512, nil, 1, 8},
		{2, 512, running, 1, 8},
		{2, 512, warmup, 1, 8},
		{2, 512, nil, 100, 8},
		{1, 512, model.Unscaled(), 1, 33},
		{2, 512, model.Unscaled(), 1, 30},
		{2, 4096, model.Unscaled(), 1, 33},
		{3, 512, &model.Scaling{Fixed: &model.FixedScaling{}}, 1, 12},
		{4, 512, model.Unscaled(), 1, 8},
		{5, 512, model.Unscaled(), 1, 6},
		{1, 512, nil, 0.3, 39},
		{1, 512, model.Unscaled(), 0.1, 40},
		{1, 512, model.Unscaled(), 1e-30, 40},
		{1, 512, model.Unscaled(), 3, 8},
		{1, 5, model.Unscaled(), 1, 4},
	} {
		given := model.Spec{Dimension: c.dimension, Scaling: c.scaling, PKAWVTaylor: &model.PKAWVTaylor{Sigma: &c.sigma, MaxFeatures: &c.ceiling}}
		created, _, err := catalog.Complete(given)
		if err != nil {
			t.Fatal(err)
		}
		if got := *created.PKAWVTaylor.Degree; got != c.degree {
			t.Errorf("%+v: degree %d", c, got)
		}
	}
}

// With two inputs from −3 to 3 as they are, degree 8 has half of the kernel at the
// edge. The automatic degree has all of it, and two thirds of the loss at most.
func TestAutomaticDegreeUsesItsFeatures(t *testing.T) {
	loss := func(taylor *model.PKAWVTaylor) float64 {
		l, err := catalog.New(model.Spec{Dimension: 2, Scaling: model.Unscaled(), PKAWVTaylor: taylor})
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(1, 2))
		var o model.Outcome
		for range 1000 {
			x := []float64{6*rng.Float64() - 3, 6*rng.Float64() - 3}
			y := math.Sin(2*x[0])*math.Cos(x[0]) + math.Sin(2*x[1])*math.Cos(x[0]+1) + 0.1*rng.NormFloat64()
			if err := l.Observe(&o, x, []float64{y}, 1); err != nil {
				t.Fatal(err)
			}
		}
		return l.Stats().Loss / 1000
	}
	automatic, eight := loss(&model.PKAWVTaylor{}), loss(&model.PKAWVTaylor{Degree: ptr(8)})
	t.Logf("loss %.4f, of degree 8 %.4f", automatic, eight)
	if !(automatic < eight*2/3) {
		t.Errorf("loss %g, of degree 8 %g", automatic, eight)
	}
}
