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

// created is a learner of a new model.
func created(t *testing.T, spec string) model.Learner {
	t.Helper()
	completed, _, err := catalog.Complete(sent(t, []byte(spec)))
	require.NoError(t, err, spec)
	l := must(catalog.New(completed))(t)
	return l
}

// waves are samples of a smooth relation with labels in [−2, 2], or of its sign.
func waves(n int, classes bool) []modeltest.Sample {
	rng := rand.New(rand.NewPCG(3, 53))
	samples := make([]modeltest.Sample, n)
	for i := range samples {
		x := []float64{rng.NormFloat64(), rng.NormFloat64()}
		y := math.Sin(2*x[0]) + math.Cos(x[1])/2 + 0.1*rng.NormFloat64()
		if y = math.Max(-2, math.Min(2, y)); classes {
			y = math.Copysign(1, y)
		}
		samples[i] = modeltest.Sample{X: x, Y: y, Weight: 1}
	}
	return samples
}

// A constant weight is a unit: learners by online Newton steps are as good with one of 1e9
// and of 1e-9 as with 1, and their figures are those times the weight. What a client is
// told does not depend on a weight that has not come.
func TestConstantWeightsDoNotDegradeNewtonSteps(t *testing.T) {
	const n = 1500
	for _, c := range []struct {
		learner string
		classes bool
	}{
		{`"fourier_kons": {"range": [-2, 2]}`, false},
		{`"fourier_kons": {}`, false},
		{`"fourier_kons": {"loss": "logistic"}`, true},
		{`"pros_n_kons": {"range": [-2, 2], "max_dictionary": 60}`, false},
		{`"kons": {"range": [-2, 2], "max_observations": 1500}`, false},
	} {
		var unit model.Stats
		first := 0.0
		for _, weight := range []float64{1, 1e-9, 1e3, 1e6, 1e9} {
			l := created(t, `{"dimension": 2, `+c.learner+`}`)
			loss, trivial, sum := 0.0, 0.0, 0.0
			for i, s := range waves(n, c.classes) {
				p := must(modeltest.Predict(l, s.X))(t)
				mean := sum / math.Max(1, float64(i))
				loss += (s.Y - p.Value) * (s.Y - p.Value)
				if c.classes { // Signs against the majority.
					loss += 4 - (s.Y-p.Value)*(s.Y-p.Value)
					if p.Value*s.Y > 0 {
						loss -= 4
					}
				}
				trivial += (s.Y - mean) * (s.Y - mean)
				sum += s.Y
				_, err := modeltest.Observe(l, s.X, s.Y, weight)
				require.NoError(t, err, "%v %v %v", c.learner, weight, i)
			}
			skill, s := 1-loss/trivial, l.Stats()
			t.Logf("%s, weight %g: skill %.4f", c.learner, weight, skill)
			if weight == 1 {
				unit, first = s, skill
				continue
			}
			assert.True(t, math.Abs(skill-first) < 1e-6 && s.CertificateOK && s.Certified == unit.Certified, "%s, weight %g: skill %.4f, with weight 1 %.4f: %+v", c.learner, weight, skill, first, s)
			for name, of := range map[string][2]float64{
				"loss": {s.Loss, unit.Loss}, "certificate": {s.Certificate, unit.Certificate}, "bound": {s.RegretBound, unit.RegretBound},
				"regret": {s.Regret, unit.Regret},
			} {
				if math.IsNaN(of[0]) && math.IsNaN(of[1]) {
					continue
				}
				assert.True(t, math.Abs(of[0]-weight*of[1]) <= 1e-6*weight*(math.Abs(of[1])+unit.Loss), "%s, weight %g: %s %g, with weight 1 %g", c.learner, weight, name, of[0], of[1])
			}
		}
	}
}

// A weight that is far above those before is the new unit: after it the learner is as good
// as one that never saw the others, and its bound holds.
func TestAHeavyWeightIsTheNewUnitOfNewtonSteps(t *testing.T) {
	const n, light = 1200, 300
	for _, learner := range []string{
		`"fourier_kons": {"range": [-2, 2]}`, `"pros_n_kons": {"range": [-2, 2], "max_dictionary": 60}`,
		`"kons": {"range": [-2, 2], "max_observations": 1200}`,
	} {
		skill := map[float64]float64{}
		for _, first := range []float64{1, 1e-7, 1e-3} {
			l := created(t, `{"dimension": 2, `+learner+`}`)
			loss, trivial := 0.0, 0.0
			for i, s := range waves(n, false) {
				p := must(modeltest.Predict(l, s.X))(t)
				if i >= n/2 {
					loss, trivial = loss+(s.Y-p.Value)*(s.Y-p.Value), trivial+s.Y*s.Y
				}
				weight := 1e9 * first
				if i >= light {
					weight = 1e9
				}
				_, err := modeltest.Observe(l, s.X, s.Y, weight)
				require.NoError(t, err, "%v %v %v", learner, i, weight)
				s := l.Stats()
				require.False(t, !s.CertificateOK || s.Certificate > s.RegretBound*(1+1e-9), "%s, round %d: %+v", learner, i, s)
			}
			skill[first] = 1 - loss/trivial
		}
		t.Logf("%s: skill of the second half with light weights before %v", learner, skill)
		assert.True(t, skill[1e-7] >= 0.9*skill[1] && skill[1e-3] >= 0.9*skill[1], "%s: %v", learner, skill)
	}
}
