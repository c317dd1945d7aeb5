package awv_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/awv"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/kernel"
	"hindsight/internal/model/modeltest"
)

// weighted is a stream whose weights are drawn by the logarithm, from least to most.
func weighted(rng *rand.Rand, n int, smallest, largest float64) []modeltest.Sample {
	samples := make([]modeltest.Sample, n)
	for i := range samples {
		x := []float64{rng.NormFloat64(), rng.NormFloat64()}
		samples[i] = modeltest.Sample{
			X: x, Y: 3*math.Sin(2*x[0]) - x[1] + rng.NormFloat64(),
			Weight: smallest * math.Pow(largest/smallest, rng.Float64()),
		}
	}
	return samples
}

// Observe scores the prediction that Predict returned just before, whatever the weight of the observation, for every
// learner: the weight is known afterwards.
func TestWeightsDoNotChangeWhatIsScored(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	lambdas := []float64{0.01, 0.1, 1}
	centres := [][]float64{{0, 0}, {1, 0}, {0, 1}, {-1, 1}}
	fourier := feature.NewFourier(gaussian(1), 2, 5, true, rand.New(rand.NewPCG(1, 2)))
	for name, learner := range map[string]func() model.Learner{
		"linear_awv":   func() model.Learner { return awv.New(feature.NewAffine(2), awv.Options{Lambda: 0.1}) },
		"pkawv_taylor": func() model.Learner { return awv.New(feature.NewTaylor(2, 1, 4), awv.Options{Lambda: 0.1}) },
		"forgetting": func() model.Learner {
			return awv.New(feature.NewTaylor(2, 1, 3), awv.Options{Lambda: 0.1, Forgetting: 0.9})
		},
		"kernel_awv": func() model.Learner {
			return awv.NewKernel(awv.KernelOptions{Kernel: gaussian(1), Dimension: 2, Lambda: 0.1, Capacity: 200})
		},
		"pkawv_nystrom": func() model.Learner {
			return nystrom(func(o *awv.NystromOptions) {
				o.Dictionary.Kernel, o.Lambda, o.Dictionary.Given = gaussian(1), 0.1, centres
			})
		},
		"lambdas": func() model.Learner { return awv.NewRidges(fourier, awv.Options{}, lambdas) },
		"degrees": func() model.Learner { return mixedTaylor(3, 0.1, 1) },
		"lambdas of pkawv_nystrom": func() model.Learner {
			return nystrom(func(o *awv.NystromOptions) {
				o.Dictionary.Kernel, o.Lambda, o.Dictionary.Given, o.Lambdas = gaussian(1), 0.1, centres, lambdas
			})
		},
		"semiparametric_awv": func() model.Learner {
			return awv.NewSemiparametric(feature.NewSemiparametric([]int{0, 1}, 1, fourier), awv.Options{Lambda: 0.1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 41))
			for _, weights := range [][2]float64{{0.01, 0.01}, {1e-6, 1e6}, {0.5, 2.5}} {
				l, loss := learner(), 0.0
				for n, s := range weighted(rng, 150, weights[0], weights[1]) {
					p := must(modeltest.Predict(l, s.X))(t)
					o := must(modeltest.Observe(l, s.X, s.Y, s.Weight))(t)
					what := fmt.Sprintf("weights %v, round %d of weight %g", weights, n, s.Weight)
					scale := 1e-3
					if name == "kernel_awv" && weights[1] == 1e6 {
						scale = 10 // Its rows round by some ε ω/λ, 2e-9, of a label.
					}
					near(t, what+": prediction", o.Prediction, p.Value, scale, 1e-9)
					miss := s.Y - p.Value
					// What rounds a prediction by δ rounds its loss by 2ω|y − p|δ.
					near(t, what+": loss", o.Loss, s.Weight*miss*miss, s.Weight*max(1, 2*scale*math.Abs(miss)), 1e-9)
					loss += s.Weight * miss * miss
				}
				s := l.Stats()
				near(t, fmt.Sprintf("weights %v: loss sum", weights), s.Loss, loss, 0, 1e-9)
				assert.True(t, s.CertificateOK, "weights %v: %+v", weights, s)
			}
		})
	}
}

// With weights below 2 regret ≤ Σ ω y² q/(2+q−ω) ≤ max y²/(2−ω) · log det(A/λ), by dense
// solutions, for labels that are random and such that make the regret of the round as
// large as it may be. Rounds of larger weights add their own regret, if positive, to both.
func TestCertificateOfWeightsDenseOracle(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	laplacian := kernel.Kernel{Kind: kernel.Laplacian, Sigma: 1.5}
	worst := 0.0
	for name, c := range map[string]struct {
		aMap   feature.Map
		lambda float64
	}{
		"linear":  {feature.NewAffine(2), 0.3},
		"taylor":  {feature.NewTaylor(2, 1, 3), 0.1},
		"fourier": {feature.NewFourier(laplacian, 2, 6, false, rand.New(rand.NewPCG(5, 6))), 1},
	} {
		for _, weights := range [][2]float64{{0.01, 0.01}, {1e-5, 1}, {0.3, 1.999}, {1.9, 1.9}, {0.3, 3}, {1, 1e4}} {
			t.Run(fmt.Sprint(name, weights), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, 43))
				for _, worstLabels := range []bool{false, true} {
					l := awv.New(c.aMap, awv.Options{Lambda: c.lambda})
					o := &modeltest.AWV{Phi: mapped(c.aMap), Features: c.aMap.Size(), Lambda: c.lambda}
					for n, s := range weighted(rng, 60, weights[0], weights[1]) {
						said := o.Predict(s.X, 1)
						if worstLabels && math.Abs(said.Prediction) > 1e-3 && s.Weight < 1.99 {
							// The y of which ŷ is the worst answer: −(ω−1)y = (2+q−ω)ŷ.
							if s.Y = 2 * rng.NormFloat64(); math.Abs(s.Weight-1) > 0.2 {
								s.Y = -(2 + said.Q - s.Weight) * said.Prediction / (s.Weight - 1)
								s.Y = math.Max(-5, math.Min(5, s.Y))
							}
						}
						out := must(modeltest.Observe(l, s.X, s.Y, s.Weight))(t)
						prediction, loss := o.Observe(s.X, s.Y, s.Weight)
						what := fmt.Sprintf("round %d, weight %g", n, s.Weight)
						near(t, what+": prediction", out.Prediction, prediction, 1, 1e-9)
						near(t, what+": loss", out.Loss, loss, s.Weight, 1e-9)
						f, got := o.Figures(), l.Stats()
						near(t, what+": loss sum", got.Loss, f.Loss, o.Energy(), 1e-9)
						near(t, what+": hindsight", got.HindsightLoss, f.Hindsight, o.Energy(), 1e-9)
						near(t, what+": regret", got.Regret, f.Regret, o.Energy(), 1e-9)
						require.True(t, got.Certified && got.CertificateOK, "%s: %+v", what, got)
						near(t, what+": certificate", got.Certificate, f.Certificate, o.Energy(), 1e-9)
						near(t, what+": bound", got.RegretBound, f.Bound, o.Energy(), 1e-9)
						slack := 1e-9 * o.Energy()
						require.False(t, f.Regret > f.Certificate+slack || f.Certificate > f.Bound+slack, "%s: regret %g, certificate %g, bound %g", what, f.Regret, f.Certificate, f.Bound)
						worst = math.Max(worst, f.Regret/f.Certificate)
					}
				}
			})
		}
	}
	assert.GreaterOrEqual(t, worst, 0.5, "regret is at most %g of the certificate: the labels do nothing", worst)
}

// Beyond a weight of 2+q no bound holds beforehand: the label is 0, the prediction is not, and
// the regret of the round is any multiple of y²h. The certificate grows by that regret, and
// further rounds of weight 1 by y²h.
func TestHeavyWeightsAreCertifiedAfterwards(t *testing.T) {
	l := awv.New(feature.NewAffine(1), awv.Options{Lambda: 1})
	for range 1000 {
		must(modeltest.Observe(l, []float64{1}, 1, 1))(t)
	}
	before := l.Stats()
	must(modeltest.Observe(l, []float64{1}, 0, 100))(t)
	after := l.Stats()
	growth := after.Regret - before.Regret
	assert.False(t, !after.Certified || !after.CertificateOK || !(growth > 5) || math.Abs(after.Certificate-before.Certificate-growth) > 1e-9, "before %+v, after %+v", before, after)
	for range 10 {
		must(modeltest.Observe(l, []float64{1}, 1, 1))(t)
	}
	after = l.Stats()
	assert.True(t, after.Certified && after.CertificateOK && after.LabelBound == before.LabelBound, "%+v", after)
	state := modeltest.State(t, l.Visit)
	again := awv.New(feature.NewAffine(1), awv.Options{Lambda: 1})
	if err := codec.Read(state, again.Visit); err != nil || again.Stats() != after {
		t.Errorf("restored %+v, want %+v (%v)", again.Stats(), after, err)
	}
}

// The figures of a constant weight: what is scored is what is served.
func TestConstantWeightIsScoredAsServed(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 47))
	l := awv.New(feature.NewAffine(2), awv.Options{Lambda: 0.1})
	served, prequential := 0.0, 0.0
	const n, weight = 1000, 0.01
	for range n {
		x := []float64{rng.NormFloat64(), rng.NormFloat64()}
		y := x[0] - 2*x[1] + 0.1*rng.NormFloat64()
		p := must(modeltest.Predict(l, x))(t)
		o := must(modeltest.Observe(l, x, y, weight))(t)
		served += (y - p.Value) * (y - p.Value) / n
		prequential += (y - o.Prediction) * (y - o.Prediction) / n
	}
	s := l.Stats()
	t.Logf("mean squared error %.4f served, %.4f prequential; regret %.4f, certificate %.4f", served, prequential, s.Regret, s.Certificate)
	near(t, "mean squared error", prequential, served, 0, 1e-12)
	near(t, "loss", s.Loss, weight*n*served, 0, 1e-12)
}

// The place of the next round of a history is what the rounds that are kept
// imply. Another place, which once made Observe panic, is rejected.
func TestRestoreRejectsAPlaceOutsideTheHistory(t *testing.T) {
	const dimension = 2
	for _, window := range []int{0, 5, awv.WholeHistory} {
		for _, rounds := range []int{0, 3, 5, 7, 10} {
			t.Run(fmt.Sprintf("window %d, %d rounds", window, rounds), func(t *testing.T) {
				o := awv.NystromOptions{
					Options: awv.Options{Lambda: 1}, Window: window, // Never full.
					Dictionary: feature.SampledOptions{Kernel: gaussian(1), Dimension: dimension, Mu: 0.1, Epsilon: 0.5, Beta: 1, Capacity: 16},
				}
				l := awv.NewNystrom(o)
				samples := modeltest.Samples(4, dimension, rounds+3)
				for _, s := range samples[:rounds] {
					must(modeltest.Observe(l, s.X, s.Y, s.Weight))(t)
				}
				good := modeltest.State(t, l.Visit)
				kept := rounds
				if window != awv.WholeHistory {
					kept = min(rounds, window)
				}
				// The state ends with the place and the rounds: input, label, weight.
				at := len(good) - 8*kept*(dimension+2) - 8
				right := binary.LittleEndian.Uint64(good[at:])
				for place := range uint64(12) {
					state := append([]byte(nil), good...)
					binary.LittleEndian.PutUint64(state[at:], place)
					restored := awv.NewNystrom(o)
					err := codec.Read(state, restored.Visit)
					assert.Equal(t, (place == right), (err == nil), "place %d, want %d: %v", place, right, err)
					if err != nil {
						continue
					}
					for _, s := range samples[rounds:] {
						require.NoError(t, restored.Observe(&model.Outcome{}, s.X, []float64{s.Y}, s.Weight))
					}
				}
			})
		}
	}
}

// A whole history is freed once the dictionary is full: no later round needs it.
// The learner still predicts as eq. (4) has it, and no longer grows.
func TestAFullDictionaryFreesTheHistory(t *testing.T) {
	const dimension, centres, rounds = 2, 6, 300
	o := awv.NystromOptions{
		Options: awv.Options{Lambda: 0.4}, Window: awv.WholeHistory, Frees: true,
		Dictionary: feature.SampledOptions{Kernel: gaussian(1), Dimension: dimension, Mu: 0.1, Epsilon: 0.5, Beta: 1, Capacity: centres},
	}
	l, dense := awv.NewNystrom(o), &modeltest.Nystrom{Kernel: gaussian(1).At, Lambda: 0.4}
	full := uint64(0)
	for n, s := range modeltest.Samples(4, dimension, rounds) {
		before := l.Stats().Dictionary
		out := must(modeltest.Observe(l, s.X, s.Y, s.Weight))(t)
		m := l.Stats().Dictionary
		if m > before {
			dense.Grow(s.X)
		}
		near(t, fmt.Sprint("prediction ", n), out.Prediction, dense.Observe(s.X, s.Y, s.Weight), 1, 1e-8)
		switch {
		case m < centres:
		case full == 0:
			full = l.Size()
		case l.Size() != full:
			t.Fatalf("%d bytes after %d rounds, %d when the dictionary was full", l.Size(), n+1, full)
		}
	}
	o.Window = centres // A round a centre, the fewest possible.
	cost := awv.NystromCost(o).StateBytes
	assert.True(t, full != 0 && full <= cost, "%d bytes when the dictionary is full, the cost says %d", full, cost)
	good := modeltest.State(t, l.Visit)
	if at := len(good) - 16; binary.LittleEndian.Uint64(good[at:]) != 0 || binary.LittleEndian.Uint64(good[at+8:]) != 0 {
		t.Fatalf("the state ends with %x, want no rounds", good[at:])
	}
	restored := awv.NewNystrom(o)
	require.NoError(t, codec.Read(good, restored.Visit))
	if again, err := codec.Append(nil, restored.Visit); err != nil || !bytes.Equal(again, good) || restored.Size() != full {
		t.Errorf("another state of %d bytes, %v", restored.Size(), err)
	}
}

// A full history with a window is a whole one for the rounds of the window, bit for bit,
// and that of the window for all. Its rounds are freed with the last centre, and any state
// restores.
func TestABoundedHistoryIsThatOfItsWindow(t *testing.T) {
	const dimension, window, centres, rounds = 2, 12, 24, 400
	learner := func(window int, frees bool) *awv.Nystrom {
		return awv.NewNystrom(awv.NystromOptions{
			Options: awv.Options{Lambda: 0.4}, Window: window, Frees: frees,
			Dictionary: feature.SampledOptions{Kernel: gaussian(1), Dimension: dimension, Mu: 0.5, Epsilon: 0.5, Beta: 1, Capacity: centres},
		})
	}
	l, whole, last := learner(window, true), learner(awv.WholeHistory, true), learner(window, false)
	late, freed := false, false
	for n, s := range modeltest.Samples(4, dimension, rounds) {
		before := l.Stats().Dictionary
		var outcomes [3]model.Outcome
		for k, each := range []*awv.Nystrom{l, whole, last} {
			require.NoError(t, each.Observe(&outcomes[k], s.X, []float64{s.Y}, s.Weight))
		}
		m := l.Stats().Dictionary
		late = late || n > window && m > before
		got := outcomes[0].Predictions[0]
		want := outcomes[1].Predictions[0]
		require.True(t, n > window || got == want, "round %d of the window: %v, with the whole history %v", n, got, want)
		want = outcomes[2].Predictions[0]
		require.True(t, got == want, "round %d: %v, with the window %v", n, got, want)
		if m == centres && !freed {
			freed = true
			got, kept := l.Size(), last.Size()
			assert.True(t, got < kept, "%d bytes with a full dictionary, %d with the window", got, kept)
		}
		state := modeltest.State(t, l.Visit)
		restored := learner(window, true)
		require.NoError(t, codec.Read(state, restored.Visit), n)
		l = restored
		require.True(t, bytes.Equal(modeltest.State(t, l.Visit), state), "round %d: restored, it is another", n)
	}
	assert.True(t, late && freed, "centres after the window: %t, freed: %t: nothing is tested", late, freed)
}
