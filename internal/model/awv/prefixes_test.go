package awv_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/awv"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/modeltest"
)

// degrees are the prefixes of a Taylor basis up to every degree.
func degrees(d, largest int) (list []awv.Prefix) {
	for m := range largest + 1 {
		list = append(list, awv.Prefix{Name: fmt.Sprint("degree_", m), Size: feature.TaylorSize(d, m, 1<<14)})
	}
	return list
}

func sizes(all ...int) (list []awv.Prefix) {
	for _, m := range all {
		list = append(list, awv.Prefix{Name: fmt.Sprint("size_", m), Size: m})
	}
	return list
}

func mixedTaylor(degree int, lambda float64, outputs int) *awv.Forecaster {
	return awv.New(feature.NewTaylor(2, 1, degree), awv.Options{Lambda: lambda, Outputs: outputs, Prefixes: degrees(2, degree)})
}

func TestPrefixesConform(t *testing.T) {
	for name, s := range map[string]modeltest.Subject{
		"degrees":               {Dimension: 2, New: func() model.Learner { return mixedTaylor(4, 0.1, 1) }},
		"degrees, two outputs":  {Dimension: 2, Outputs: 2, New: func() model.Learner { return mixedTaylor(3, 1, 2) }},
		"the largest one alone": {Dimension: 2, New: func() model.Learner { return mixedTaylor(0, 1, 1) }},
		"dictionary, history": {Dimension: 2, Rejects: tooLarge, New: func() model.Learner {
			return nystrom(func(o *awv.NystromOptions) { o.Dictionary.Capacity, o.Window, o.Prefixes = 12, 16, sizes(1, 4, 12) })
		}},
	} {
		t.Run(name, func(t *testing.T) { modeltest.Conform(t, s) })
	}
}

// polynomial is ML-Poly with every gain so far.
type polynomial struct{ gains [][]float64 }

func (p *polynomial) figures(k int) (regret, squares, largest float64) {
	for _, round := range p.gains {
		regret += round[k]
		squares += round[k] * round[k]
		for _, r := range round {
			largest = math.Max(largest, r*r)
		}
	}
	return regret, squares, largest
}

func (p *polynomial) weights(experts int) []float64 {
	w, total := make([]float64, experts), 0.0
	for k := range w {
		if regret, squares, largest := p.figures(k); regret > 0 {
			w[k] = regret / (largest + squares)
			total += w[k]
		}
	}
	for k := range w {
		if w[k] /= total; total == 0 {
			w[k] = 1 / float64(experts)
		}
	}
	return w
}

// certificate bounds the regret against expert k by the potential.
func (p *polynomial) certificate(k, experts int) float64 {
	potential := 0.0
	for j := range experts {
		if regret, squares, largest := p.figures(j); regret > 0 {
			potential += regret * regret / (largest + squares)
		}
	}
	_, squares, largest := p.figures(k)
	return math.Sqrt(potential * (largest + squares))
}

// Every degree is a forecaster of its own, solved densely, and ML-Poly mixes them. The regret
// against each degree is at most its certificate with that of the mixture.
//
// Source: PKAWV, HAL 2019, Algorithm 1 for every M; Gaillard, Stoltz and van Erven, COLT 2014.
func TestDegreesDenseOracle_HAL_2019(t *testing.T) {
	const degree, lambda = 4, 0.2
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for name, against := range adversaries() {
		for _, weights := range [][2]float64{{1, 1}, {0.1, 5}} {
			t.Run(fmt.Sprint(name, weights), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, 71))
				l, plain := mixedTaylor(degree, lambda, 1), awv.New(feature.NewTaylor(2, 1, degree), awv.Options{Lambda: lambda})
				oracles, mixture := make([]*modeltest.AWV, degree+1), polynomial{}
				for m := range oracles {
					oracles[m] = &modeltest.AWV{
						Phi: modeltest.TaylorFeatures(2, 1, m), Features: feature.TaylorSize(2, m, 1<<14), Lambda: lambda,
					}
				}
				loss := 0.0
				for n := range rounds(80) {
					x, weight := inputs(rng, n), weights[0]*math.Pow(weights[1]/weights[0], rng.Float64())
					p := must(modeltest.Predict(l, x))(t)
					y, what := against(rng, n, x, p.Value), fmt.Sprintf("round %d", n)
					advice, want := make([]float64, degree+1), 0.0
					w := mixture.weights(degree + 1)
					for m, o := range oracles {
						advice[m], _ = o.Observe(x, y, weight)
						want += w[m] * advice[m]
					}
					gains := make([]float64, degree+1)
					for m, f := range advice {
						gains[m] = 2 * weight * (want - y) * (want - f)
					}
					mixture.gains = append(mixture.gains, gains)
					loss += weight * (want - y) * (want - y)
					out := must(modeltest.Observe(l, x, y, weight))(t)
					must(modeltest.Observe(plain, x, y, weight))(t)
					near(t, what+": served", p.Value, want, 1, 1e-9)
					near(t, what+": prediction", out.Prediction, want, 1, 1e-9)
					s, energy := l.Stats(), oracles[0].Energy()
					all, certificate := oracles[degree].Figures(), math.Inf(1)
					for m, o := range oracles {
						f := o.Figures()
						own := f.Certificate + mixture.certificate(m, degree+1)
						require.False(t, loss-f.Hindsight > own+1e-9*energy, "%s: regret %g against degree %d, certificate %g", what, loss-f.Hindsight, m, own)
						certificate = math.Min(certificate, own+f.Hindsight-all.Hindsight)
					}
					near(t, what+": loss", s.Loss, loss, energy, 1e-9)
					near(t, what+": regret", s.Regret, loss-all.Hindsight, energy, 1e-9)
					near(t, what+": certificate", s.Certificate, certificate, energy, 1e-9)
					require.False(t, !s.Certified || !s.CertificateOK || s.Regret > s.Certificate+1e-9*energy || s.Certificate > s.RegretBound+1e-9*energy, "%s: %+v", what, s)
					own := plain.Stats()
					require.True(t, s.HindsightLoss == own.HindsightLoss && s.LogDeterminant == own.LogDeterminant, "%s: another factor than without the mixture: %+v, want %+v", what, s, own)
				}
				report := l.Report(model.ReportOptions{HindsightPath: true})
				w := mixture.weights(degree + 1)
				for m, e := range report.Experts {
					f := oracles[m].Figures()
					near(t, e.Name+": loss", e.Loss, f.Loss, oracles[0].Energy(), 1e-9)
					near(t, e.Name+": weight", e.Weight, w[m], 1, 1e-6)
					near(t, e.Name+": loss in hindsight", report.HindsightPath[oracles[m].Features], f.Hindsight, oracles[0].Energy(), 1e-9)
				}
				near(t, "unpenalized", report.RegretUnpenalized, loss-(oracles[degree].Figures().Loss-oracles[degree].Figures().Unpenalized), oracles[0].Energy(), 1e-8)
			})
		}
	}
}

// Two outputs are two mixtures over one factor, and so is a dictionary that grows.
func TestPrefixesOfTwoOutputs(t *testing.T) {
	both, one := mixedTaylor(3, 0.3, 2), []*awv.Forecaster{mixedTaylor(3, 0.3, 1), mixedTaylor(3, 0.3, 1)}
	var o, own model.Outcome
	for n, s := range modeltest.Samples(5, 2, 200) {
		y := []float64{s.Y, s.Y * s.X[0]}
		require.NoError(t, both.Observe(&o, s.X, y, s.Weight))
		for j, l := range one {
			require.NoError(t, l.Observe(&own, s.X, y[j:j+1], s.Weight))
			near(t, fmt.Sprintf("round %d, output %d", n, j), o.Predictions[j], own.Predictions[0], 1, 1e-12)
		}
	}
	s, a, b := both.Stats(), one[0].Stats(), one[1].Stats()
	near(t, "certificate", s.Certificate, a.Certificate+b.Certificate, 1, 1e-9)
	near(t, "regret", s.Regret, a.Regret+b.Regret, 1, 1e-9)
}

// A dictionary's prefixes are certified while it grows, with and without a history, and the
// forecaster of all centres is the one without prefixes.
func TestPrefixesOfADictionary(t *testing.T) {
	for _, window := range []int{0, 30, awv.WholeHistory} {
		for name, against := range adversaries() {
			create := func(prefixes []awv.Prefix) *awv.Nystrom {
				return nystrom(func(o *awv.NystromOptions) {
					o.Lambda, o.Dictionary.Mu, o.Dictionary.Capacity, o.Window, o.Prefixes = 0.3, 0.02, 32, window, prefixes
				})
			}
			l, plain := create(sizes(1, 2, 4, 8, 16, 32)), create(nil)
			rng := rand.New(rand.NewPCG(9, 72))
			for n := range 150 {
				x := inputs(rng, n)
				p := must(modeltest.Predict(l, x))(t)
				y, weight := against(rng, n, x, p.Value), []float64{1, 0.5, 3}[n%3]
				for _, one := range []model.Learner{l, plain} {
					must(modeltest.Observe(one, x, y, weight))(t)
				}
				s := l.Stats()
				if !s.Certified || !s.CertificateOK || s.Regret > s.Certificate*(1+1e-9)+1e-9 || s.Certificate > s.RegretBound*(1+1e-9)+1e-9 {
					t.Fatalf("%s, window %d, round %d: %+v", name, window, n, s)
				}
			}
			a, b := l.Stats(), plain.Stats()
			assert.True(t, a.Dictionary >= 10 && a.HindsightLoss == b.HindsightLoss, "%s, window %d: %+v, without prefixes %+v", name, window, a, b)
		}
	}
}

// On streams of quantities the mixture loses at most 1.02 times what the best degree loses, and
// never more than the worst.
func TestDegreesOnRealStreams(t *testing.T) {
	for _, name := range []string{"air", "bike", "casp", "energy", "energy_adaraker"} {
		t.Run(name, func(t *testing.T) {
			samples := modeltest.Stream(t, name+".csv.gz", rounds(3000))
			modeltest.Scale(samples)
			d, degree := len(samples[0].X), 2
			o := awv.Options{Lambda: 0.1, Prefixes: degrees(d, degree)}
			l := awv.New(feature.NewTaylor(d, 1, degree), o)
			for _, s := range samples {
				must(modeltest.Observe(l, s.X, s.Y, 1))(t)
			}
			var losses []float64
			for _, e := range l.Report(model.ReportOptions{}).Experts {
				losses = append(losses, e.Loss)
			}
			ratio := l.Stats().Loss / slices.Min(losses)
			t.Logf("%.4f times the loss of the best degree of %.4g", ratio, losses)
			assert.True(t, ratio <= 1.02 && l.Stats().Loss <= slices.Max(losses), "loss %g, the degrees %g", l.Stats().Loss, losses)
		})
	}
}
