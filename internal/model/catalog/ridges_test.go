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

// What is told of the ridges, and of fewer features, is in the caller's units.
func TestRidgesAreToldInTheUnitsOfTheLabels(t *testing.T) {
	lambdas := model.Ridges{Lambdas: []float64{0.1, 1, 10}}
	scaled := &model.Scaling{Fixed: &model.FixedScaling{LabelScale: ptr(0.25)}}
	var reports []model.Report
	for _, scaling := range []*model.Scaling{model.Unscaled(), scaled} {
		l := must(catalog.New(model.Spec{Dimension: 2, Scaling: scaling, LinearAWV: &model.LinearAWV{Ridges: lambdas}}))(t)
		for _, s := range modeltest.Samples(3, 2, 60) {
			must(modeltest.Observe(l, s.X, s.Y, s.Weight))(t)
		}
		reports = append(reports, l.Report(model.ReportOptions{HindsightPath: true}))
	}
	// A power of two loses no bit.
	if a, b := reports[0], reports[1]; len(a.Experts) != 3 || len(a.HindsightPath) != 4 ||
		!slices.Equal(a.Experts, b.Experts) || !slices.Equal(a.HindsightPath, b.HindsightPath) {
		t.Errorf("%+v, with scaled labels %+v", a, b)
	}
}

// The mixture of ridges is certified for classes, with two and with more.
func TestRidgesOfClassesAreCertified(t *testing.T) {
	for _, classes := range []int{2, 3} {
		l, err := catalog.New(model.Spec{
			Dimension: 2, Scaling: model.Unscaled(), Classes: &model.Classes{MaxClasses: &classes},
			FourierAWV: &model.FourierAWV{Ridges: model.Ridges{Lambdas: []float64{0.1, 1}}},
		})
		require.NoError(t, err)
		var o model.ClassOutcome
		for n, s := range modeltest.Samples(5, 2, 80) {
			require.NoError(t, l.(model.Classifier).ObserveClass(&o, s.X, strconv.Itoa(n%classes), math.Min(s.Weight, 1), nil))
		}
		s := l.Stats()
		assert.True(t, s.Certified && s.CertificateOK && s.Regret <= s.Certificate, "%d classes: %+v", classes, s)
	}
}

// Names of inputs are the numbers of all their features, in any order, and the completed
// spec has them in that of the declarations.
func TestParametricInputsAreTheirFeatures(t *testing.T) {
	spec := func(s model.SemiparametricAWV) model.Spec {
		s.Frequencies = ptr(4)
		return model.Spec{SemiparametricAWV: &s, Inputs: []*model.Input{
			{Name: "load", Numeric: &model.NumericInput{}},
			{Name: "city", Categorical: &model.CategoricalInput{MaxCategories: ptr(2)}},
			{Name: "price", Numeric: &model.NumericInput{}, Missing: model.MissingReject},
		}}
	}
	for _, names := range [][]string{{"city", "price"}, {"price", "city"}} {
		given := slices.Clone(names)
		named, _, err := catalog.Complete(spec(model.SemiparametricAWV{ParametricInputs: given}))
		require.NoError(t, err)
		got := named.SemiparametricAWV
		assert.True(t, slices.Equal(got.ParametricInputs, []string{"city", "price"}) && got.Parametric == nil && slices.Equal(given, names), "%v, given %v, became %+v", names, given, got)
		// The features of load are 0 and 1, those of city 2 to 5.
		numbered, _, err := catalog.Complete(spec(model.SemiparametricAWV{Parametric: []int{2, 3, 4, 5, 6}}))
		require.NoError(t, err)
		var states [][]byte
		for _, s := range []model.Spec{named, numbered} {
			l := must(catalog.New(s))(t)
			for _, s := range modeltest.Samples(6, 7, 60) {
				must(modeltest.Observe(l, s.X, s.Y, s.Weight))(t)
			}
			state := modeltest.State(t, l.Visit)
			states = append(states, state)
			w := l.Report(model.ReportOptions{}).Weights
			assert.True(t, len(w) == 6 && w[0].Input == 2 && w[4].Input == 6 && w[5].Input == model.NoInput, "%v: weights %v", names, w)
		}
		assert.Equal(t, states[1], states[0], names)
	}
}

// The parametric part of a semiparametric model is told in the caller's units, by the
// numbers of the caller's features, however they are scaled.
func TestTheParametricPartIsInTheUnitsOfTheCaller(t *testing.T) {
	for name, scaling := range map[string]*model.Scaling{
		"none":    model.Unscaled(),
		"fixed":   {Fixed: &model.FixedScaling{Offset: []float64{1, 2, 3}, Scale: []float64{2, 0.1, 5}, LabelOffset: []float64{-4}, LabelScale: ptr(0.3)}},
		"warmup":  {Warmup: &model.WarmupScaling{Observations: 50}},
		"running": nil,
	} {
		l, err := catalog.New(model.Spec{Dimension: 3, Scaling: scaling, SemiparametricAWV: &model.SemiparametricAWV{
			Parametric: []int{0, 2}, ParametricLambda: ptr(1e-9), Frequencies: ptr(4),
		}})
		require.NoError(t, err)
		for _, s := range modeltest.Samples(6, 3, 800) {
			must(modeltest.Observe(l, s.X, 3*s.X[0]-2*s.X[2]+5, 1))(t)
		}
		r, tolerance := l.Report(model.ReportOptions{}), 1e-6
		if name == "running" { // The scaling moved while it learned.
			tolerance = 0.2
		}
		want := []model.Weight{{Input: 0, Value: 3}, {Input: 2, Value: -2}, {Input: model.NoInput, Value: 5}}
		require.False(t, len(r.Weights) != len(want) || r.ParametricShare == nil || *r.ParametricShare < 0.9 || *r.ParametricShare > 1, "%s: %+v", name, r)
		for k, w := range want {
			got := r.Weights[k]
			assert.True(t, got.Input == w.Input && math.Abs(got.Value-w.Value) <= tolerance, "%s: weight %d is %+v, want %+v", name, k, got, w)
		}
	}
}

// A range away from 0 is one about 0: predictions are moved with it, and losses, regret
// and certificate are the same, from the first round on.
func TestARangeIsMovedWithItsLabels(t *testing.T) {
	const by = 100
	for _, learner := range []string{
		`"fourier_kons": {"range": [%g, %g]}`,
	} {
		for _, scaling := range []string{`{"none": {}}`, `{"running": {}}`, `{"warmup": {"observations": 40}}`} {
			spec := func(low, high float64) string {
				return fmt.Sprintf(`{"dimension": 2, "scaling": %s, `+learner+`}`, scaling, low, high)
			}
			near, far := created(t, spec(-1, 1)), created(t, spec(by-1, by+1))
			for n, s := range modeltest.Samples(9, 2, 150) {
				y, weight := math.Sin(s.Y), math.Min(s.Weight, 1)
				p := must(modeltest.Predict(far, s.X))(t)
				if n == 0 && p.Value != by {
					t.Errorf("%s: the first prediction is %g, want %d", spec(by-1, by+1), p.Value, by)
				}
				want := must(modeltest.Observe(near, s.X, y, weight))(t)
				got := must(modeltest.Observe(far, s.X, y+by, weight))(t)
				if math.Abs(got.Prediction-by-want.Prediction) > 1e-9 || math.Abs(got.Loss-want.Loss) > 1e-9 {
					t.Fatalf("%s, round %d: %+v, about 0 %+v", spec(by-1, by+1), n, got, want)
				}
			}
			a, b := near.Stats(), far.Stats()
			for name, pair := range map[string][2]float64{
				"regret": {a.Regret, b.Regret}, "certificate": {a.Certificate, b.Certificate}, "bound": {a.RegretBound, b.RegretBound},
			} {
				if !(math.Abs(pair[0]-pair[1]) <= 1e-7*(1+math.Abs(pair[0]))) {
					t.Errorf("%s: %s %g, about 0 %g", spec(by-1, by+1), name, pair[1], pair[0])
				}
			}
			if a.Certified != b.Certified || !b.CertificateOK || !(b.Certificate < 200) {
				t.Errorf("%s: %+v, about 0 %+v", spec(by-1, by+1), b, a)
			}
			t.Logf("%s: certificate %.4g, regret %.4g", spec(by-1, by+1), b.Certificate, b.Regret)
		}
	}
}

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
	const n = 600
	for _, c := range []struct {
		learner string
		classes bool
	}{
		{`"fourier_kons": {"range": [-2, 2]}`, false},
		{`"fourier_kons": {}`, false},
		{`"fourier_kons": {"loss": "logistic"}`, true},
		{`"pros_n_kons": {"range": [-2, 2], "max_dictionary": 60}`, false},
		{`"kons": {"range": [-2, 2], "max_observations": 600}`, false},
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
