package catalog_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/modeltest"
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
		require.NoError(t, err)
		assert.Equal(t, c.degree, *created.PKAWVTaylor.Degree, c)
	}
}

// With two inputs from −3 to 3 as they are, degree 8 has half of the kernel at the
// edge. The automatic degree has all of it, and two thirds of the loss at most.
func TestAutomaticDegreeUsesItsFeatures(t *testing.T) {
	loss := func(taylor *model.PKAWVTaylor) float64 {
		l := must(catalog.New(model.Spec{Dimension: 2, Scaling: model.Unscaled(), PKAWVTaylor: taylor}))(t)
		rng := rand.New(rand.NewPCG(1, 2))
		var o model.Outcome
		for range 1000 {
			x := []float64{6*rng.Float64() - 3, 6*rng.Float64() - 3}
			y := math.Sin(2*x[0])*math.Cos(x[0]) + math.Sin(2*x[1])*math.Cos(x[0]+1) + 0.1*rng.NormFloat64()
			require.NoError(t, l.Observe(&o, x, []float64{y}, 1))
		}
		return l.Stats().Loss / 1000
	}
	automatic, eight := loss(&model.PKAWVTaylor{}), loss(&model.PKAWVTaylor{Degree: ptr(8)})
	t.Logf("loss %.4f, of degree 8 %.4f", automatic, eight)
	assert.True(t, automatic < eight*2/3, "loss %g, of degree 8 %g", automatic, eight)
}

// Every degree is mixed in, without anything else that mixes or forgets.
func TestMixDegrees(t *testing.T) {
	taylor := func(set func(*model.PKAWVTaylor)) model.Spec {
		part := &model.PKAWVTaylor{Degree: ptr(3), MixDegrees: ptr(true)}
		set(part)
		return model.Spec{Dimension: 2, PKAWVTaylor: part}
	}
	for name, s := range map[string]model.Spec{
		"lambdas":           taylor(func(p *model.PKAWVTaylor) { p.Lambdas = []float64{0.1, 1} }),
		"forgetting":        taylor(func(p *model.PKAWVTaylor) { p.Forgetting = ptr(0.9) }),
		"a tiny ridge":      taylor(func(p *model.PKAWVTaylor) { p.Lambda = ptr(1e-30) }),
		"degree 64":         {Dimension: 1, PKAWVTaylor: &model.PKAWVTaylor{Degree: ptr(64), MixDegrees: ptr(true)}},
		"sizes, lambdas":    {Dimension: 1, PKAWVNystrom: &model.PKAWVNystrom{MixSizes: ptr(true), Ridges: model.Ridges{Lambdas: []float64{0.1, 1}}}},
		"sizes, forgetting": {Dimension: 1, PKAWVNystrom: &model.PKAWVNystrom{MixSizes: ptr(true), Forgetting: ptr(0.5)}},
	} {
		_, err := catalog.New(s)
		assert.ErrorIs(t, err, model.ErrInvalidSpec, name)
	}
	off, _, err := catalog.Complete(taylor(func(p *model.PKAWVTaylor) { p.MixDegrees = ptr(false) }))
	assert.True(t, err == nil && off.PKAWVTaylor.MixDegrees == nil, "a completed spec has mix_degrees %v: %v", off.PKAWVTaylor.MixDegrees, err)
	for _, s := range []model.Spec{
		taylor(func(*model.PKAWVTaylor) {}),
		{Dimension: 2, PKAWVNystrom: &model.PKAWVNystrom{MixSizes: ptr(true), MaxDictionary: ptr(20)}},
	} {
		l := must(catalog.New(s))(t)
		var o model.Outcome
		for _, sample := range modeltest.Samples(4, 2, 60) {
			require.NoError(t, l.Observe(&o, sample.X, []float64{sample.Y}, 1))
		}
		names, experts := model.WeightNames(l), l.Report(model.ReportOptions{}).Experts
		stats := l.Stats()
		assert.True(t, len(names) >= 4 && len(experts) == len(names) && experts[1].Name == names[1] && stats.Certified && stats.CertificateOK, "experts %v, %+v, stats %+v", names, experts, stats)
	}
}
