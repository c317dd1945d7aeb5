package raker_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model/feature"
	"hindsight/internal/model/losses"
	"hindsight/internal/model/modeltest"
	"hindsight/internal/model/raker"
)

// naive is Algorithm 1 to the letter, with plain weights, and the losses and
// gradients written out once more.
type naive struct {
	o     raker.Options
	theta [][]float64
	w     []float64
	// lost is Σω(C(f_p,y)+λ‖θ_p‖²), slopes is Σω²‖∇‖² of the gradients of these losses.
	lost, slopes []float64
}

func newNaive(maps []feature.Map, o raker.Options) *naive {
	n := &naive{o: o}
	for _, m := range maps {
		n.theta = append(n.theta, make([]float64, m.Size()))
		n.w = append(n.w, 1/float64(len(maps)))
		n.lost, n.slopes = append(n.lost, 0), append(n.slopes, 0)
	}
	return n
}

func (n *naive) clone() *naive {
	c := &naive{o: n.o, w: slices.Clone(n.w), lost: slices.Clone(n.lost), slopes: slices.Clone(n.slopes)}
	for _, theta := range n.theta {
		c.theta = append(c.theta, append([]float64(nil), theta...))
	}
	return c
}

func inner(a, b []float64) float64 {
	s := 0.0
	for i := range a {
		s += a[i] * b[i]
	}
	return s
}

func (n *naive) predict(z [][]float64) float64 {
	total, f := 0.0, 0.0
	for _, w := range n.w {
		total += w
	}
	for p := range z {
		f += n.w[p] / total * inner(n.theta[p], z[p])
	}
	return f
}

func naiveLoss(l losses.Loss, f, y float64) float64 {
	switch l {
	case losses.Logistic:
		return math.Log(1 + math.Exp(-y*f))
	case losses.Hinge:
		return max(0, 1-y*f)
	default:
		return (f - y) * (f - y)
	}
}

func naiveSlope(l losses.Loss, f, y float64) float64 {
	switch {
	case l == losses.Logistic:
		return -y * math.Exp(-y*f) / (1 + math.Exp(-y*f))
	case l == losses.Squared:
		return 2 * (f - y)
	case y*f < 1:
		return -y
	default:
		return 0
	}
}

func (n *naive) update(z [][]float64, y, weight, step float64) {
	for p := range z {
		f := inner(n.theta[p], z[p])
		loss := weight * (naiveLoss(n.o.Loss, f, y) + n.o.Lambda*inner(n.theta[p], n.theta[p]))
		n.w[p] *= math.Exp(-n.o.WeightStep * loss)
		n.lost[p] += loss
		for i, v := range n.theta[p] {
			gradient := weight * (naiveSlope(n.o.Loss, f, y)*z[p][i] + 2*n.o.Lambda*v)
			n.slopes[p] += gradient * gradient
			n.theta[p][i] = v - step*gradient
		}
	}
}

// span is an interval of slots [first, last].
type span struct{ first, last int }

// spans lists the intervals of length 2^j that start at multiples of 2^j,
// from 2^j on, and hold slot t, shortest first.
func spans(t int) []span {
	var active []span
	for length := 1; length <= t; length *= 2 {
		for first := length; first <= t; first += length {
			if first+length-1 >= t {
				active = append(active, span{first, first + length - 1})
			}
		}
	}
	return active
}

// naiveAda is Algorithm 2 to the letter: one Raker for every interval, in a
// map of all that ever were.
type naiveAda struct {
	maps   []feature.Map
	o      raker.Options
	rakers map[span]*naive
	h      map[span]float64
	t      int
}

func (a *naiveAda) step(i span) float64 {
	return min(a.o.StepCap, a.o.Step/math.Sqrt(float64(i.last-i.first+1)))
}

// meta is the step in the exponent of h: at most 1/2, as the paper's steps are.
func (a *naiveAda) meta(i span) float64 { return min(0.5, a.step(i)) }

func (a *naiveAda) observe(z [][]float64, y, weight float64) float64 {
	a.t++
	total, f := 0.0, 0.0
	said := map[span]float64{}
	for _, i := range spans(a.t) {
		if i.first == a.t {
			a.h[i] = a.step(i)
			a.rakers[i] = newNaive(a.maps, a.o)
			length := i.last - i.first + 1
			if before := a.rakers[span{i.first - length, i.first - 1}]; before != nil && !a.o.Cold {
				a.rakers[i] = before.clone()
			}
		}
		said[i] = a.rakers[i].predict(z)
		f += a.h[i] * said[i]
		total += a.h[i]
	}
	f /= total
	for _, i := range spans(a.t) {
		r := weight * (naiveLoss(a.o.Loss, f, y) - naiveLoss(a.o.Loss, said[i], y))
		if i.first == a.t {
			a.h[i] = a.step(i)
		} else {
			a.h[i] *= math.Exp(a.meta(i) * r)
		}
		a.rakers[i].update(z, y, weight, a.step(i))
	}
	return f
}

func features(maps []feature.Map, x []float64) [][]float64 {
	var z [][]float64
	for _, m := range maps {
		z = append(z, make([]float64, m.Size()))
		m.Map(z[len(z)-1], x)
	}
	return z
}

// samples are labelled for the loss, with weights that no guard touches.
func samples(l losses.Loss, n int) []modeltest.Sample {
	s := modeltest.Samples(11, 3, n)
	for i := range s {
		s[i].Y = label(l, math.Sin(2*s[i].X[0])+0.3*s[i].Y)
		s[i].Weight = min(s[i].Weight, 1)
	}
	return s
}

func TestRakerIsAlgorithm1_JMLR_2019(t *testing.T) {
	for _, kernels := range []int{1, 3} {
		for _, l := range everyLoss() {
			t.Run(fmt.Sprint(kernels, l), func(t *testing.T) {
				o := options(l)
				maps := gaussians(4, 3, 5)[:kernels]
				r, n := raker.NewRaker(maps, o), newNaive(maps, o)
				for round, s := range samples(l, 300) {
					z := features(maps, s.X)
					want := n.predict(z)
					out := observe(t, r, s)
					wantLoss := s.Weight * naiveLoss(l, want, s.Y)
					require.False(t, math.Abs(out.Prediction-want) > 1e-10 || math.Abs(out.Loss-wantLoss) > 1e-10, "round %d: %+v, want %g at %g", round, out, want, wantLoss)
					n.update(z, s.Y, s.Weight, o.Step)
				}
				total := 0.0
				for _, w := range n.w {
					total += w
				}
				for p, w := range r.Weights(0) {
					assert.False(t, math.Abs(w-n.w[p]/total) > 1e-10, "kernel %d weighs %g, want %g", p, w, n.w[p]/total)
				}
			})
		}
	}
}

func TestAdaRakerIsAlgorithm2_JMLR_2019(t *testing.T) {
	for _, cold := range []bool{true, false} {
		for _, l := range everyLoss() {
			t.Run(fmt.Sprint(l, " cold ", cold), func(t *testing.T) {
				o := options(l)
				o.Cold = cold
				if l != losses.Squared {
					o.Step, o.StepCap = 5, 3
				}
				maps := gaussians(4, 3, 5)
				a := raker.NewAdaRaker(maps, o)
				n := &naiveAda{maps: maps, o: o, rakers: map[span]*naive{}, h: map[span]float64{}}
				worst := 0.0
				for round, s := range samples(l, 300) {
					p, err := modeltest.Predict(a, s.X)
					require.NoError(t, err)
					want := n.observe(features(maps, s.X), s.Y, s.Weight)
					out := observe(t, a, s)
					require.Equal(t, p.Value, out.Prediction, "round %d: Predict says, Observe", round)
					worst = max(worst, math.Abs(out.Prediction-want))
					require.False(t, worst > 1e-10, "round %d: predicts %g, want %g", round, out.Prediction, want)
				}
				t.Logf("largest deviation %.2g", worst)
			})
		}
	}
}

// Figure 2: at slot 7 the active intervals are [7,7], [6,7] and [4,7]; of
// each length one is active from slot 2^j on.
func TestIntervals_JMLR_Figure2(t *testing.T) {
	o := options(losses.Squared)
	a := raker.NewAdaRaker(gaussians(1, 1, 2), o)
	for slot := 1; slot <= 300; slot++ {
		got, want := a.Experts(0), spans(slot)
		require.Equal(t, len(want), len(got), "%v %v", slot, want)
		total := 0.0
		for j, e := range got {
			assert.True(t, e.Start == uint64(want[j].first) && e.Length == uint64(want[j].last-want[j].first+1), "slot %d, expert %d: %+v, want %v", slot, j, e, want[j])
			assert.InDelta(t, min(0.3, 0.4/math.Sqrt(float64(e.Length))), e.Step, 1e-15, "%v %v", slot, j)
			total += e.Weight
		}
		assert.InDelta(t, 1, total, 1e-12, "slot %d: weights sum to %g", slot, total)
		assert.True(t, slot != 7 || fmt.Sprint(want) == "[{7 7} {6 7} {4 7}]", "slot 7: %v", want)
		observe(t, a, modeltest.Sample{X: []float64{float64(slot)}, Y: 1, Weight: 1})
	}
}
