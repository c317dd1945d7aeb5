package kons_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"hindsight/internal/model"
	"hindsight/internal/model/kons"
	"hindsight/internal/model/losses"
	"hindsight/internal/model/modeltest"
)

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
							state, err := l.AppendBinary(nil)
							require.NoError(t, err)
							l = c.learner()
							require.NoError(t, l.Restore(state), "the state is rejected")
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
