package raker_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"hindsight/internal/model"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/losses"
	"hindsight/internal/model/modeltest"
	"hindsight/internal/model/raker"
)

// partition is the whole interval set of §4.1: of every length B·2^j, without
// overlap, one after the other, from block 2^j on. Slots and blocks count from 1.
func partition(base, horizon int) []span {
	var all []span
	for length := base; ; length *= 2 {
		// Block 2^j starts after 2^j − 1 blocks of base slots.
		first := (length/base-1)*base + 1
		if first > horizon {
			return all
		}
		for ; first <= horizon; first += length {
			all = append(all, span{first, first + length - 1})
		}
	}
}

// Figure 2 and eq. (30), for base intervals of 1 and of 3 slots: at every slot
// the experts are the intervals of the set that hold it, each with the step
// min(cap, η0/√|I|); on an interval's first slot its weight is η again, and at
// slot 2^j, where all of them start, the weights are as the steps.
func TestActiveIntervals_JMLR_Figure2_Eq30(t *testing.T) {
	const horizon = 200
	for _, base := range []int{1, 3} {
		t.Run(fmt.Sprint("base ", base), func(t *testing.T) {
			o := options(losses.Squared)
			o.BaseInterval, o.Step, o.StepCap = base, 0.9, 0.35
			a := raker.NewAdaRaker(gaussians(1, 1, 2), o)
			set := partition(base, horizon)
			rng := rand.New(rand.NewPCG(1, 2))
			together := 0
			for slot := 1; slot <= horizon; slot++ {
				active := map[span]bool{}
				for _, i := range set {
					if i.first <= slot && slot <= i.last {
						active[i] = true
					}
				}
				steps, starting := 0.0, 0
				got := a.Experts(0)
				for _, e := range got {
					i := span{int(e.Start), int(e.Start + e.Length - 1)}
					require.True(t, active[i], "slot %d: an expert on %v, active are %v", slot, i, active)
					delete(active, i)
					want := math.Min(0.35, 0.9/math.Sqrt(float64(e.Length)))
					assert.False(t, math.Abs(e.Step-want) > 1e-15, "slot %d, %v: step %g, want %g", slot, i, e.Step, want)
					steps += e.Step
					if i.first == slot {
						starting++
					}
				}
				require.LessOrEqual(t, len(active), 0, "slot %d: no expert on %v", slot, active)
				blocks := (slot-1)/base + 1
				assert.True(t, len(got) == 1+int(math.Log2(float64(blocks))), "slot %d: %d experts", slot, len(got))
				if starting == len(got) {
					together++
					for _, e := range got {
						want := e.Step / steps
						assert.False(t, math.Abs(e.Weight-want) > 1e-12, "slot %d, length %d: weight %g, want %g", slot, e.Length, e.Weight, want)
					}
				}
				observe(t, a, modeltest.Sample{X: []float64{rng.NormFloat64()}, Y: rng.NormFloat64(), Weight: 1})
			}
			assert.Equal(t, 1+int(math.Log2(float64((horizon-1)/base+1))), together)
		})
	}
}

// Appendix C, after Daniely et al. (2015, Lemma 5): any interval is a sequence of
// experts' intervals, of which the lengths at least double, and then at least
// halve. The experts that AdaRaker has are enough for that.
func TestIntervalsCoverAnyOther_JMLR_AppendixC(t *testing.T) {
	const horizon = 130
	longest := map[int]map[int]bool{} // Lengths by first slot.
	a := raker.NewAdaRaker(gaussians(1, 1, 2), options(losses.Squared))
	for slot := 1; slot <= horizon; slot++ {
		longest[slot] = map[int]bool{}
		for _, e := range a.Experts(0) {
			if int(e.Start) == slot {
				longest[slot][int(e.Length)] = true
			}
		}
		observe(t, a, modeltest.Sample{X: []float64{1}, Y: 1, Weight: 1})
	}
	for first := 1; first <= horizon; first++ {
		for last := first; last <= horizon; last++ {
			var lengths []int
			for at := first; at <= last; {
				best := 0
				for length := range longest[at] {
					if length > best && at+length-1 <= last {
						best = length
					}
				}
				require.True(t, best != 0, "[%d,%d]: no expert starts at %d", first, last, at)
				lengths = append(lengths, best)
				at += best
			}
			n := 1
			for n < len(lengths) && lengths[n] >= 2*lengths[n-1] {
				n++
			}
			if n < len(lengths) && lengths[n] == lengths[n-1] {
				n++ // The two sequences may meet in two of the same length.
			}
			for ; n < len(lengths); n++ {
				require.True(t, 2*lengths[n] <= lengths[n-1], "[%d,%d]: lengths %v", first, last, lengths)
			}
		}
	}
}

// bounded are observations with small labels, so that losses stay below 1, or
// of the classes: (as2).
func bounded(l losses.Loss, seed uint64, n int) []modeltest.Sample {
	out := modeltest.Samples(seed, 3, n)
	rng := rand.New(rand.NewPCG(seed, 8))
	for i := range out {
		y := 0.2*math.Sin(2*out[i].X[0]) + 0.05*rng.NormFloat64()
		if i > n/2 {
			y = -y // The best function changes: regret is real.
		}
		out[i].Y, out[i].Weight = math.Max(-0.25, math.Min(0.25, y)), 1
		if l != losses.Squared {
			out[i].Y = label(l, y)
		}
	}
	return out
}

// comparators are functions θ: zero, random ones, and the ridge functions.
func comparators(t *testing.T, m feature.Map, samples []modeltest.Sample, rng *rand.Rand) [][]float64 {
	t.Helper()
	r := m.Size()
	out := [][]float64{make([]float64, r)}
	for range 6 {
		theta := make([]float64, r)
		for i := range theta {
			theta[i] = math.Exp(rng.NormFloat64()) * rng.NormFloat64()
		}
		out = append(out, theta)
	}
	for _, lambda := range []float64{1e-3, 0.1, 2, 30} {
		a, y := mat.NewDense(len(samples)+r, r, nil), mat.NewVecDense(len(samples)+r, nil)
		for i, s := range samples {
			m.Map(a.RawRowView(i), s.X)
			y.SetVec(i, s.Y)
		}
		for i := range r {
			a.Set(len(samples)+i, i, math.Sqrt(lambda))
		}
		var theta mat.VecDense
		require.NoError(t, theta.SolveVec(a, y))
		out = append(out, theta.RawVector().Data)
	}
	return out
}

// Lemma 3, eq. (46), for a single kernel, every loss and many comparators θ:
//
//	Σ C(f_t,y_t) − Σ C(θ·z_t,y_t) ≤ ‖θ‖²/2η + η/2 Σ‖∇_t‖², ∇_t = C'(f_t,y_t) z_t
//
// without the penalty, which the printed lemma has in every round.
func TestRegretOfDescent_JMLR_Lemma3(t *testing.T) {
	for _, l := range everyLoss() {
		t.Run(l.String(), func(t *testing.T) {
			tightest := math.Inf(1)
			for seed := range uint64(3) {
				for _, step := range []float64{0.02, 0.1, 0.4} {
					m := newFourier(seed, 3, 8, 1)
					r := raker.NewRaker([]feature.Map{m}, raker.Options{Loss: l, Step: step, WeightStep: 0.5})
					stream := bounded(l, seed, 200)
					loss, gradients, z := 0.0, 0.0, make([]float64, m.Size())
					for _, s := range stream {
						out := observe(t, r, s)
						m.Map(z, s.X)
						slope := naiveSlope(l, out.Prediction, s.Y)
						loss += naiveLoss(l, out.Prediction, s.Y)
						gradients += slope * slope * inner(z, z)
					}
					for n, theta := range comparators(t, m, stream, rand.New(rand.NewPCG(seed, 4))) {
						best := 0.0
						for _, s := range stream {
							m.Map(z, s.X)
							best += naiveLoss(l, inner(theta, z), s.Y)
						}
						bound := inner(theta, theta)/(2*step) + step/2*gradients
						tightest = math.Min(tightest, bound-(loss-best))
						assert.False(t, loss-best > bound+1e-9, "seed %d, step %g, comparator %d: regret %g, bound %g", seed, step, n, loss-best, bound)
					}
				}
			}
			t.Logf("the bound is kept by %.3g", tightest)
		})
	}
}

// Lemma 4, eq. (55), and Lemma 1, eq. (27), for three kernels: with η the step
// of θ and of the weights, losses at most 1, and for every kernel p and θ
//
//	Σ C(Σ w̄_p f_p, y) ≤ Σ C(f_p,y) + η Σ_t Σ_q w̄_q C(f_q,y)² + ln P/η
//	                  ≤ Σ C(θ·z_p,y) + ln P/η + ‖θ‖²/2η + ηL²T/2 + ηT
//
// where f_p is what a Raker of the kernel p alone says, and L the largest
// gradient.
func TestRegretOfKernels_JMLR_Lemma1_Lemma4(t *testing.T) {
	const rounds = 200
	tightest := math.Inf(1)
	for seed := range uint64(3) {
		for _, step := range []float64{0.05, 0.2, 0.45} {
			maps := gaussians(seed, 3, 8)
			o := raker.Options{Loss: losses.Squared, Step: step, WeightStep: step}
			r := raker.NewRaker(maps, o)
			var alone []*raker.Raker
			for n := range maps {
				alone = append(alone, raker.NewRaker(maps[n:n+1], o))
			}
			stream := bounded(losses.Squared, 10+seed, rounds)
			loss, squares, largest, each := 0.0, 0.0, 0.0, make([]float64, len(maps))
			for round, s := range stream {
				weights, mixed := r.Weights(0), 0.0
				for p, l := range alone {
					out := observe(t, l, s)
					require.False(t, out.Loss > 1, "seed %d, round %d: loss %g, the lemma wants at most 1", seed, round, out.Loss)
					mixed += weights[p] * out.Prediction
					squares += weights[p] * out.Loss * out.Loss
					each[p] += out.Loss
					largest = math.Max(largest, 2*math.Abs(out.Prediction-s.Y))
				}
				out := observe(t, r, s)
				require.False(t, math.Abs(out.Prediction-mixed) > 1e-12, "seed %d, round %d: %g, the kernels alone mix to %g", seed, round, out.Prediction, mixed)
				loss += out.Loss
			}
			hedge := math.Log(float64(len(maps))) / step
			for p, m := range maps {
				bound := each[p] + step*squares + hedge
				tightest = math.Min(tightest, bound-loss)
				assert.False(t, loss > bound+1e-9, "seed %d, step %g, kernel %d: loss %g, bound %g", seed, step, p, loss, bound)
				z := make([]float64, m.Size())
				for n, theta := range comparators(t, m, stream, rand.New(rand.NewPCG(seed, 5))) {
					best := 0.0
					for _, s := range stream {
						m.Map(z, s.X)
						best += naiveLoss(losses.Squared, inner(theta, z), s.Y)
					}
					bound := hedge + inner(theta, theta)/(2*step) + step*largest*largest*rounds/2 + step*rounds
					tightest = math.Min(tightest, bound-loss+best)
					assert.False(t, loss-best > bound+1e-9, "seed %d, step %g, kernel %d, comparator %d: regret %g, bound %g", seed, step, p, n, loss-best, bound)
				}
			}
		}
	}
	t.Logf("the bounds are kept by %.3g", tightest)
}

// Eqs. (25) and (26): regret is the loss less the best kernel's, at several
// rounds of a stream, with a dense solve for each kernel, and the best of three
// is the best of each alone. A round's prediction is that of the learner before.
func TestRegretIsAgainstTheBestKernel_JMLR_Eq25_Eq26(t *testing.T) {
	for seed := range uint64(3) {
		for _, lambda := range []float64{1e-4, 0.3} {
			maps := gaussians(20+seed, 3, 5)
			o := options(losses.Squared)
			o.TrackRegret, o.Lambda, o.BaseInterval = true, lambda, 2
			learners := map[string]model.Learner{"raker": raker.NewRaker(maps, o), "ada_raker": raker.NewAdaRaker(maps, o)}
			for p := range maps {
				learners[fmt.Sprint("fogd ", p)] = raker.NewRaker(maps[p:p+1], o)
			}
			loss, energy := map[string]float64{}, 0.0
			stream := modeltest.Samples(30+seed, 3, 160)
			for n, s := range stream {
				energy += s.Weight * s.Y * s.Y
				for name, l := range learners {
					said, err := modeltest.Predict(l, s.X)
					require.NoError(t, err)
					observe(t, l, s)
					loss[name] += s.Weight * (s.Y - said.Value) * (s.Y - said.Value)
				}
				if n != 0 && n != 7 && n != 40 && n != len(stream)-1 {
					continue
				}
				best := math.Inf(1)
				alone := map[string]float64{}
				for p, m := range maps {
					h, _, _ := ridge(t, m, stream[:n+1], lambda)
					alone[fmt.Sprint("fogd ", p)] = h
					best = math.Min(best, h)
				}
				for name, l := range learners {
					want, single := alone[name]
					if !single {
						want = best
					}
					st, r, slack := l.Stats(), l.Report(model.ReportOptions{}), 1e-9*energy
					if !(math.Abs(r.HindsightLoss-want) <= slack && math.Abs(st.Loss-loss[name]) <= slack && math.Abs(r.Regret-(loss[name]-want)) <= slack) {
						t.Errorf("seed %d, λ = %g, round %d, %s: %+v, %+v, want loss %g and hindsight %g", seed, lambda, n, name, st, r, loss[name], want)
					}
				}
			}
		}
	}
}

// §3.2, eq. (24): the printed gradient 2y exp(yf)/(1+exp(yf)) is exactly twice that of
// the model printed above it, Pr(y=1) = 1/(1+exp f). The score of that model is −f of
// the loss served here, so that at −f it is −2 times the slope here.
func TestPrintedLogisticGradientIsTwiceItsModel_JMLR_Eq24(t *testing.T) {
	printed := func(f, y float64) float64 { return 2 * y * math.Exp(y*f) / (1 + math.Exp(y*f)) }
	likelihood := func(f, y float64) float64 { // Pr(y) under the printed model.
		one := 1 / (1 + math.Exp(f))
		if y > 0 {
			return one
		}
		return 1 - one
	}
	const h = 1e-5
	for _, y := range []float64{-1, 1} {
		for f := -4.0; f <= 4; f += 0.25 {
			slope := (math.Log(likelihood(f-h, y)) - math.Log(likelihood(f+h, y))) / (2 * h)
			assert.InDelta(t, 2*slope, printed(f, y), 1e-8, "%v %v %v", f, y, slope)
			if served := losses.Logistic.Slope(f, y); math.Abs(printed(-f, y)+2*served) > 1e-14 {
				t.Errorf("f = %g, y = %g: printed %g at −f, served %g", f, y, printed(-f, y), served)
			}
		}
	}
}
