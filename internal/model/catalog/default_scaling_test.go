package catalog_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/modeltest"
)

// named is the spec of a learner without anything else.
func named(t *testing.T, name string, dimension int) model.Spec {
	t.Helper()
	return sent(t, fmt.Appendf(nil, `{"dimension": %d, %q: {}}`, dimension, name))
}

// Every learner is a sensible model of raw columns by its name alone: its loss is
// below that of the mean of the labels before. Without a scaling every kernel
// learner fails on some of these.
func TestRawColumns(t *testing.T) {
	for _, stream := range []string{"bike", "energy", "energy_appliances", "casp", "air_raw"} {
		t.Run(stream, func(t *testing.T) {
			samples := modeltest.Stream(t, stream+".csv.gz", 1200)
			sum, mean, trivial := 0.0, 0.0, 0.0
			kept := samples[:0]
			for _, s := range samples {
				if s.Y == -200 { // Air quality writes it where the label is missing.
					continue
				}
				kept = append(kept, s)
				trivial += (s.Y - mean) * (s.Y - mean)
				sum += s.Y
				mean = sum / float64(len(kept))
			}
			for _, name := range model.LearnerNames() {
				if name == "rlsc" { // It takes no real labels.
					continue
				}
				loss := lossOf(t, named(t, name, len(kept[0].X)), kept)
				assert.True(t, loss < trivial, "%s: loss %g, that of the mean is %g", name, loss, trivial)
			}
		})
	}
}

// lossOf is the sum of the losses of a learner.
func lossOf(t *testing.T, spec model.Spec, samples []modeltest.Sample) (loss float64) {
	t.Helper()
	l := must(catalog.New(spec))(t)
	for _, s := range samples {
		o := must(modeltest.Observe(l, s.X, s.Y, s.Weight))(t)
		loss += o.Loss
	}
	return loss
}

// The default scaling is none that a learner cannot take: few observations, many
// inputs, columns that never change.
func TestTheDefaultScalingSuitsEverySpec(t *testing.T) {
	for _, limit := range []int{1, 2, 8, 31, 32, 33, 40} {
		spec := model.Spec{Dimension: 3, Outputs: 2, KernelAWV: &model.KernelAWV{MaxObservations: &limit}}
		l := observes(t, spec, limit)
		s := l.Stats()
		assert.True(t, s.Observations == uint64(limit) && !math.IsNaN(s.Regret), "at most %d observations: %+v", limit, s)
		assert.Equal(t, 0, model.Remaining(l), limit)
	}
	observes(t, model.Spec{Dimension: catalog.MaxDimension, FOGD: &model.FOGD{FirstOrder: model.FirstOrder{Frequencies: ptr(3)}}}, 40)
	for _, name := range model.LearnerNames() {
		for _, classes := range []int{0, 2, 5} {
			spec := named(t, name, 3)
			if classes > 0 {
				spec.Classes = &model.Classes{MaxClasses: &classes}
			}
			observes(t, spec, 60)
		}
	}
}

// The regret of every learner that knows one is known from the first observation on: of
// the mean, against the best constant, until the warm-up is learned, and then that of the
// learner, whose certificate holds.
func TestRegretIsKnownFromTheFirstObservation(t *testing.T) {
	certified := map[string]bool{
		"pkawv_taylor": true, "pkawv_nystrom": true, "fourier_awv": true, "linear_awv": true, "kernel_awv": true, "semiparametric_awv": true,
		"auto": true,
	}
	for _, name := range model.LearnerNames() {
		if name == "kons" || name == "rlsc" { // No regret is known; no real labels are taken.
			continue
		}
		l := must(catalog.New(named(t, name, 2)))(t)
		loss, mean := 0.0, 0.0
		samples := modeltest.Samples(17, 2, 60)
		for n, s := range samples {
			o := must(modeltest.Observe(l, s.X, s.Y, 1))(t)
			loss, mean = loss+o.Loss, mean+s.Y
			stats, solved := l.Stats(), l.Report(model.ReportOptions{})
			require.False(t, math.IsNaN(solved.Regret) || math.IsNaN(stats.Regret) != (stats.ReportFlops > 0), "%s after %d observations: %+v, %+v", name, n+1, stats, solved)
			if n < 31 && name != "auto" {
				best := 0.0
				for _, earlier := range samples[:n+1] {
					best += (earlier.Y - mean/float64(n+1)) * (earlier.Y - mean/float64(n+1))
				}
				if stats.Certified || math.Abs(stats.HindsightLoss-best) > 1e-9 || math.Abs(stats.Regret-(loss-best)) > 1e-9 {
					t.Fatalf("%s after %d observations: %+v, the best constant loses %g", name, n+1, stats, best)
				}
				continue
			}
			require.False(t, stats.Certified != certified[name] || !stats.CertificateOK || (stats.Certified && stats.Regret > stats.Certificate), "%s after %d observations: %+v", name, n+1, stats)
		}
	}
}

// observes teaches a learner inputs of which one column changes, one hardly does
// and the others never do, and checks that all it answers is finite.
func observes(t *testing.T, spec model.Spec, rounds int) model.Learner {
	t.Helper()
	l := must(catalog.New(spec))(t)
	x, y := make([]float64, spec.Dimension), make([]float64, max(spec.Outputs, 1))
	for i := range x {
		x[i] = float64(i)
	}
	var p model.Prediction
	var o model.Outcome
	for n := range rounds {
		x[0], x[1] = 1e6+float64(n%7), 0
		if n == rounds-10 {
			x[1] = 1e80
		}
		for j := range y {
			y[j] = float64(n % 5 * (j + 1))
		}
		require.NoError(t, l.Predict(&p, x))
		require.NoError(t, observe(l, &o, x, y, n), "%s, round %d", spec.Name(), n)
		for _, v := range append(append(append([]float64{o.Loss}, p.Values...), p.StandardErrors...), o.Predictions...) {
			require.False(t, math.IsNaN(v) || math.IsInf(v, 0), "%s, round %d: %+v, %+v", spec.Name(), n, p, o)
		}
	}
	return l
}

// observe teaches a learner its labels, or a class of as many as it takes in these
// rounds.
func observe(l model.Learner, o *model.Outcome, x, y []float64, n int) error {
	c, ok := l.(model.Classifier)
	if !ok {
		return l.Observe(o, x, y, 1)
	}
	var of model.ClassOutcome
	class := strconv.Itoa(n % 5)
	if c.CheckClass(x, class, 1) != nil {
		class = c.Classes()[0]
	}
	err := c.ObserveClass(&of, x, class, 1, nil)
	o.Predictions, o.Loss = slices.Concat(of.Prediction.Values, of.Prediction.Probabilities), of.Loss
	return err
}

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
