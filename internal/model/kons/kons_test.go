package kons_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/kernel"
	"hindsight/internal/model/kons"
	"hindsight/internal/model/losses"
	"hindsight/internal/model/modeltest"
)

func gaussian(sigma float64) kernel.Kernel { return kernel.Kernel{Kind: kernel.Gaussian, Sigma: sigma} }

func waves(frequencies int) feature.Map {
	return feature.NewFourier(gaussian(1), 2, frequencies, true, rand.New(rand.NewPCG(1, 1)))
}

func mapped(m feature.Map) func(x []float64) []float64 {
	return func(x []float64) []float64 {
		z := make([]float64, m.Size())
		m.Map(z, x)
		return z
	}
}

// ways are options of each loss and each way to C, by name.
func ways() map[string]kons.Options {
	return map[string]kons.Options{
		"squared":                {Alpha: 1, TrackRegret: true},
		"squared, range":         {Alpha: 0.7, Low: -0.5, High: 1.25, TrackRegret: true},
		"squared, wide range":    {Alpha: 0.1, Low: -4, High: 6},
		"logistic":               {Alpha: 0.01, Loss: losses.Logistic, Clip: 5},
		"logistic, narrow":       {Alpha: 0.1, Loss: losses.Logistic, Clip: 0.3},
		"hinge":                  {Alpha: 0.05, Loss: losses.Hinge, Clip: 1.5},
		"hinge, clip .4":         {Alpha: 0.3, Loss: losses.Hinge, Clip: 0.4},
		"squared hinge":          {Alpha: 0.01, Loss: losses.SquaredHinge, Clip: 1},
		"squared hinge, clip 3":  {Alpha: 0.3, Loss: losses.SquaredHinge, Clip: 3},
		"squared hinge, clip .4": {Alpha: 0.3, Loss: losses.SquaredHinge, Clip: 0.4},
	}
}

func nystrom(o kons.Options, set func(*kons.NystromOptions)) *kons.Nystrom {
	n := kons.NystromOptions{Options: o, Dictionary: feature.SampledOptions{
		Kernel: gaussian(1), Dimension: 2, Bound: 1e12 * o.Alpha, Mu: 0.1, Epsilon: 0.5, Beta: 1, Capacity: 512, Seed: 1,
	}}
	if set != nil {
		set(&n)
	}
	return kons.NewNystrom(n)
}

func exact(o kons.Options, set func(*kons.ExactOptions)) *kons.Exact {
	o.TrackRegret = false
	e := kons.ExactOptions{Options: o, Kernel: gaussian(1), Dimension: 2, Gamma: 1, Epsilon: 0.5, Beta: 1, Capacity: 4000, Seed: 1}
	if set != nil {
		set(&e)
	}
	return kons.NewExact(e)
}

func TestLearnersConform(t *testing.T) {
	given := [][]float64{{0, 0}, {1, 0}, {0, 1}, {1, 1}, {0, 0}}
	for _, name := range []string{"squared", "squared, range", "logistic", "squared hinge, clip 3"} {
		o := ways()[name]
		classes := func(y float64) float64 { return y }
		if o.Loss != losses.Squared {
			classes = sign
		}
		several := o
		several.Outputs = 3
		for kind, s := range map[string]modeltest.Subject{
			"newton":         {New: func() model.Learner { return kons.New(waves(5), o) }},
			"newton, 3":      {New: func() model.Learner { return kons.New(waves(4), several) }, Outputs: 3},
			"nystrom, grow":  {New: func() model.Learner { return nystrom(o, func(o *kons.NystromOptions) { o.Dictionary.Capacity = 12 }) }},
			"nystrom, given": {New: func() model.Learner { return nystrom(o, func(o *kons.NystromOptions) { o.Dictionary.Given = given }) }},
			"nystrom, 3, restart": {Outputs: 3, New: func() model.Learner {
				return nystrom(several, func(o *kons.NystromOptions) { o.Dictionary.Capacity, o.Restart = 12, true })
			}},
			"exact":       {New: func() model.Learner { return exact(o, nil) }, Grows: true},
			"exact, 3":    {New: func() model.Learner { return exact(several, nil) }, Grows: true, Outputs: 3},
			"sketched":    {New: func() model.Learner { return exact(o, func(o *kons.ExactOptions) { o.Gamma = 0.3 }) }, Grows: true},
			"sketched, 3": {New: func() model.Learner { return exact(several, func(o *kons.ExactOptions) { o.Gamma = 0.1 }) }, Grows: true, Outputs: 3},
		} {
			s.Dimension, s.Label = 2, classes
			s.Rejects = func(magnitude float64) bool { return magnitude > model.MaxMagnitude }
			t.Run(name+", "+kind, func(t *testing.T) { modeltest.Conform(t, s) })
		}
	}
}

// Over fixed features every prediction is that of eq. (1) solved densely, with weights,
// where predictions are cut too; and so are certificate, determinant and loss.
func TestNewtonIsTheDenseRecursion_ICML_2017_Eq1(t *testing.T) {
	for name, o := range ways() {
		t.Run(name, func(t *testing.T) {
			features := waves(6)
			l := kons.New(features, o)
			n := newNaive(o, mapped(features))
			for at, s := range modeltest.Samples(8, 2, 400) {
				s.Y *= 1 + float64(at)/100 // A range without a given one doubles now and then.
				if o.Loss != losses.Squared {
					s.Y = sign(s.Y + s.X[0])
				}
				p, err := modeltest.Predict(l, s.X)
				require.NoError(t, err)
				out := observe(t, l, s)
				n.observe(t, s, out.Prediction)
				require.True(t, p.Value == out.Prediction, "round %d: Predict says %g, Observe %g", at, p.Value, out.Prediction)
			}
			s := l.Stats()
			near(t, "loss", s.Loss, n.loses, 1, 1e-11)
			near(t, "log determinant", s.LogDeterminant, n.logDet, float64(len(n.m)), n.rounding())
			if s.Certified {
				near(t, "certificate", s.Certificate, n.certificate, 1, n.rounding())
			}
			assert.True(t, n.cuts != 0 || name == "squared", "nothing was cut")
			certified := o.Loss != losses.Squared || (o.High > 2)
			assert.True(t, !s.Certified || certified, "certified: %+v", s)
		})
	}
}

// An observation whose row drowns the ridge is not admitted, and one that a log holds is
// learned: what is served stays within the clip.
func TestAFloodedRidgeIsNotAdmitted(t *testing.T) {
	made := func() *kons.Exact {
		return exact(kons.Options{Alpha: 1e-2, Loss: losses.Logistic, Clip: 2}, func(o *kons.ExactOptions) { o.Kernel = polynomial() })
	}
	l, x := made(), []float64{1, 2} // Of k(x,x) = 36.
	// The first weight is the unit of all, whatever it is; the next ones are in it.
	assert.NoError(t, l.Admit(x, 1e9))
	observe(t, l, modeltest.Sample{X: x, Y: 1, Weight: 1})
	assert.NoError(t, l.Admit(x, 1e6/36))
	var field *model.FieldError
	if err := l.Admit(x, 1.01e6/36); !errors.As(err, &field) || field.Field != "weight" || !errors.Is(err, model.ErrWeightOutOfRange) {
		t.Errorf("admitted: %v", err)
	}
	for n, s := range modeltest.Samples(5, 2, 300) {
		s.Y, s.Weight = sign(s.Y), 1e9
		out := observe(t, l, s)
		require.True(t, math.Abs(out.Prediction) <= 2 && out.Loss >= 0, "round %d: %+v", n, out)
	}
	state := modeltest.State(t, l.Visit)
	assert.NoError(t, codec.Read(state, made().Visit))
}

// A learner that is full rejects, and says so before.
func TestAFullLearnerRejects(t *testing.T) {
	l := exact(kons.Options{Alpha: 1}, func(o *kons.ExactOptions) { o.Capacity = 7 })
	for n, s := range modeltest.Samples(5, 2, 7) {
		assert.Equal(t, 7-n, l.Remaining(), n)
		observe(t, l, s)
	}
	assert.ErrorIs(t, l.Check([]float64{0, 0}, []float64{1}, 1), model.ErrObservationLimit)
}

// Several outputs are as many learners of one label. Coins are drawn by output, so that
// sketches differ.
func TestOutputsAreLearnersOfTheirOwn(t *testing.T) {
	for name, o := range ways() {
		several := o
		several.Outputs = 3
		for kind, pair := range map[string][2]func() model.Learner{
			"newton": {func() model.Learner { return kons.New(waves(5), several) }, func() model.Learner { return kons.New(waves(5), o) }},
			"grow":   {func() model.Learner { return nystrom(several, nil) }, func() model.Learner { return nystrom(o, nil) }},
			"exact":  {func() model.Learner { return exact(several, nil) }, func() model.Learner { return exact(o, nil) }},
		} {
			all, ones := pair[0](), []model.Learner{pair[1](), pair[1](), pair[1]()}
			var out model.Outcome
			for n, s := range modeltest.Samples(6, 2, 120) {
				labels := []float64{s.Y, -s.Y / 3, math.Cos(9 * s.Y)}
				for j := range labels {
					if o.Loss != losses.Squared {
						labels[j] = sign(labels[j])
					}
				}
				require.NoError(t, all.Observe(&out, s.X, labels, s.Weight))
				loss := 0.0
				for j, l := range ones {
					one, err := modeltest.Observe(l, s.X, labels[j], s.Weight)
					require.NoError(t, err)
					loss += one.Loss
					require.Equal(t, out.Predictions[j], one.Prediction, "%s, %s, round %d, output %d, alone", name, kind, n, j)
				}
				near(t, "loss", out.Loss, loss, 1, 1e-14)
			}
		}
	}
}

// A dictionary that grows, whose new features are 0 in the past, has the theorem: against
// the best function, within the range, of the features as they were computed.
func TestTheoremOverAGrowingDictionary(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for name, o := range certified() {
		for kind := range 2 {
			rng := rand.New(rand.NewPCG(seed, uint64(kind)))
			l := nystrom(o, func(o *kons.NystromOptions) { o.Dictionary.Capacity = 15 })
			k := gaussian(1)
			middle, c := (o.Low+o.High)/2, (o.High-o.Low)/2+o.Clip
			samples, loss := modeltest.Samples(rng.Uint64(), 2, 200), 0.0
			var centres [][]float64
			sizes := make([]int, len(samples))
			for i := range samples {
				s := &samples[i]
				p, err := modeltest.Predict(l, s.X)
				require.NoError(t, err)
				if s.Y = middle + c*math.Tanh(2*s.X[0]); kind == 1 {
					s.Y = middle + math.Copysign(c, middle-p.Value)
				}
				if o.Loss != losses.Squared {
					s.Y = sign(s.Y)
				}
				loss += observe(t, l, *s).Loss
				if sizes[i] = l.Stats().Dictionary; sizes[i] > len(centres) {
					centres = append(centres, s.X)
				}
			}
			m := len(centres)
			gram := mat.NewSymDense(m, nil)
			for i, a := range centres {
				for j := range i + 1 {
					gram.SetSym(i, j, k.At(a, centres[j]))
				}
			}
			var chol mat.Cholesky
			require.True(t, chol.Factorize(gram), "the centres are not independent")
			var lower mat.TriDense
			chol.LTo(&lower)
			rows := map[*float64][]float64{}
			for n, s := range samples {
				row := make([]float64, m)
				for i := range sizes[n] {
					v := k.At(centres[i], s.X)
					for j := range i {
						v -= lower.At(i, j) * row[j]
					}
					row[i] = v / lower.At(i, i)
				}
				rows[&samples[n].X[0]] = row
			}
			stats := l.Stats()
			require.True(t, stats.Certified && stats.CertificateOK && stats.Certificate <= stats.RegretBound && m >= 5, "%s, %d centres: %+v", name, m, stats)
			best := minOver(o, func(x []float64) []float64 { return rows[&x[0]] }, samples, middle, c)
			if left := loss - best; !(left <= stats.Certificate*(1+1e-9)) {
				t.Errorf("%s, labels %d: loss %g, best %g: %g, certificate %g", name, kind, loss, best, left, stats.Certificate)
			} else {
				t.Logf("%s: %.4g ≤ %.4g ≤ %.4g", name, left, stats.Certificate, stats.RegretBound)
			}
		}
	}
}

// rising are samples whose weights are drawn by the logarithm from a range that rises, so
// that Ω changes again and again.
func rising(rng *rand.Rand, n int) []modeltest.Sample {
	samples := modeltest.Samples(rng.Uint64(), 2, n)
	for i := range samples {
		samples[i].Weight = math.Pow(10, -4+6*float64(i)/float64(n)+2*rng.Float64())
	}
	return samples
}

// With weights of all sizes every prediction is that of the dense recursion, in which the
// ridge follows them, at once or in many rounds; so are certificate and determinant. A state
// that is restored on the way goes on the same.
func TestTheRidgeFollowsTheWeightsDensely(t *testing.T) {
	const seeds = 3
	for name, o := range ways() {
		for kind, c := range map[string]struct {
			learner func() model.Learner
			phi     func([]float64) []float64
			raised  int
		}{
			"newton": {func() model.Learner { return kons.New(waves(6), o) }, mapped(waves(6)), 1 << 20},
			"newton, a ridge a round": {
				func() model.Learner { return kons.New(waves(6), kons.Raising(o, 1)) }, mapped(waves(6)), 1,
			},
			"exact": {
				func() model.Learner { return exact(o, func(o *kons.ExactOptions) { o.Kernel = polynomial() }) }, polynomials, 0,
			},
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				worst, resets := 0.0, 0
				for range seeds {
					seed, l, n, units := rand.Uint64(), c.learner(), newNaive(o, c.phi), map[float64]bool{}
					n.gram, n.raised = kind == "exact", c.raised
					for at, s := range rising(rand.New(rand.NewPCG(seed, 61)), 200) {
						if o.Loss != losses.Squared {
							s.Y = sign(s.Y + s.X[0])
						}
						if at == 120 {
							state := modeltest.State(t, l.Visit)
							l = c.learner()
							require.NoError(t, codec.Read(state, l.Visit), "the state is rejected")
						}
						p, err := modeltest.Predict(l, s.X)
						require.NoError(t, err)
						out := observe(t, l, s)
						n.observe(t, s, out.Prediction)
						assert.Equal(t, out.Prediction, p.Value, "round %d: Predict says, Observe", at)
						units[n.unit] = true
					}
					s := l.Stats()
					near(t, "log determinant", s.LogDeterminant, n.logDet, float64(len(n.m)), n.rounding())
					if s.Certified {
						near(t, "certificate", s.Certificate, n.certificate, 1, n.rounding())
					}
					assert.False(t, !s.CertificateOK || s.Certificate > s.RegretBound*(1+1e-9) || len(units) < 4, "%d units: %+v", len(units), s)
					require.False(t, t.Failed(), "seed %d", seed)
					if resets += n.resets; n.gram {
						resets = 1
					}
					worst = math.Max(worst, n.worst)
				}
				assert.True(t, resets != 0, "no Schur complement was replaced: the test tests nothing")
				t.Logf("largest error: %.2f of its bound, %d resets", worst, resets)
			})
		}
	}
}

// The theorem holds with αΩ of the last Ω, against the best of the functions within the
// range, for labels that are a function's, random, and against the prediction.
func TestTheoremWithWeightsOfAllSizes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for name, o := range certified() {
		for kind, raised := range []int{0, 0, 0, 1} { // The ridges follow at once or one a round.
			kind = min(kind, 2)
			t.Run(fmt.Sprint(name, ", labels ", kind, ", raised ", raised), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, uint64(kind)))
				features := waves(6)
				l := kons.New(features, kons.Raising(o, raised))
				middle, c := (o.Low+o.High)/2, (o.High-o.Low)/2+o.Clip
				samples, loss, unit := rising(rng, 250), 0.0, 0.0
				for i := range samples {
					s := &samples[i]
					p, err := modeltest.Predict(l, s.X)
					require.NoError(t, err)
					switch kind {
					case 0:
						s.Y = math.Sin(2*s.X[0] - s.X[1])
					case 1:
						s.Y = 2*rng.Float64() - 1
					default:
						s.Y = math.Copysign(1, middle-p.Value)
					}
					if s.Y = middle + c*s.Y; o.Loss != losses.Squared {
						s.Y = sign(s.Y)
					}
					loss += observe(t, l, *s).Loss
					if unit == 0 || s.Weight > 4*unit {
						unit = s.Weight
					}
				}
				stats := l.Stats()
				require.True(t, stats.Certified && stats.CertificateOK && stats.Certificate <= stats.RegretBound*(1+1e-12), "%+v", stats)
				ridged := o
				ridged.Alpha *= unit
				best := minOver(ridged, mapped(features), samples, middle, c)
				if left := loss - best; !(left <= stats.Certificate*(1+1e-9)) {
					t.Errorf("loss %g, best %g: %g, certificate %g", loss, best, left, stats.Certificate)
				} else {
					t.Logf("%.4g ≤ %.4g ≤ %.4g", left, stats.Certificate, stats.RegretBound)
				}
			})
		}
	}
}

// The regret with weights of all sizes is that against the best ridge function with αΩ,
// solved densely, when the ridges have followed at once or one a round.
func TestRegretWithWeightsOfAllSizes(t *testing.T) {
	for raised := range 2 {
		t.Run(strconv.Itoa(raised), func(t *testing.T) { regretOfAllSizes(t, raised) })
	}
}

func regretOfAllSizes(t *testing.T, raised int) {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	features, n := waves(5), 0.0
	o := kons.Options{Alpha: 0.4, Low: -2, High: 2, TrackRegret: true}
	l := kons.New(features, kons.Raising(o, raised))
	a, b := mat.NewSymDense(features.Size(), nil), mat.NewVecDense(features.Size(), nil)
	energy, loss, last := 0.0, 0.0, 0.0
	samples := rising(rand.New(rand.NewPCG(seed, 67)), 250)
	for i := 250 - features.Size(); i < len(samples); i++ {
		samples[i].Weight = 1e-3 // No change of Ω while the last ridges follow.
	}
	for _, s := range samples {
		if n == 0 || s.Weight > 4*n {
			n = s.Weight
		}
		z := mat.NewVecDense(features.Size(), mapped(features)(s.X))
		a.SymRankOne(a, s.Weight, z)
		b.AddScaledVec(b, s.Weight*s.Y, z)
		energy += s.Weight * s.Y * s.Y
		out := observe(t, l, s)
		loss, last = loss+out.Loss, out.Regret
	}
	for i := range features.Size() {
		a.SetSym(i, i, a.At(i, i)+o.Alpha*n)
	}
	var factor mat.Cholesky
	var w mat.VecDense
	factor.Factorize(a)
	require.NoError(t, factor.SolveVecTo(&w, b))
	s, smallest := l.Stats(), energy-mat.Dot(&w, b)
	near(t, "loss in hindsight", s.HindsightLoss, smallest, energy, 1e-11)
	near(t, "regret", s.Regret, loss-smallest, energy, 1e-11)
	near(t, "regret of the outcome", last, s.Regret, 0, 0)
	near(t, "regret without the penalty", l.Report(model.ReportOptions{}).RegretUnpenalized, loss-smallest+o.Alpha*n*mat.Dot(&w, &w), energy, 1e-11)
	assert.True(t, s.CertificateOK, "%+v", s)
}
