package raker_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/losses"
	"hindsight/internal/model/modeltest"
	"hindsight/internal/model/raker"
)

// sgm are the options of SGM.
type sgm struct {
	decay   float64
	average bool
	lambda  float64
}

func sgms() []sgm {
	return []sgm{{0.5, false, 0}, {0, true, 0}, {0.25, true, 0}, {1, true, 1e-3}, {0, false, 0}}
}

// FOGD with a decay and an average is the loop of the stochastic gradient method: the
// average is of the iterates before their steps, by the steps.
//
// Source: Camoriano, thesis (2017), eq. (6.4).
func TestFOGDIsSGM_Camoriano_Eq64(t *testing.T) {
	for _, l := range everyLoss() {
		for _, c := range sgms() {
			t.Run(fmt.Sprint(l, c), func(t *testing.T) {
				o := options(l)
				o.Decay, o.Average, o.Lambda, o.Step = c.decay, c.average, c.lambda, 0.4
				maps := gaussians(4, 3, 5)[:1]
				learner := raker.NewRaker(maps, o)
				w := make([]float64, maps[0].Size())
				weighted, steps := make([]float64, len(w)), 0.0
				worst := 0.0
				for round, s := range samples(l, 400) {
					z := features(maps, s.X)[0]
					said := w
					if c.average {
						said = make([]float64, len(w))
						for i := range said {
							if steps > 0 {
								said[i] = weighted[i] / steps
							}
						}
					}
					want := inner(said, z)
					p, err := modeltest.Predict(learner, s.X)
					require.NoError(t, err)
					out := observe(t, learner, s)
					worst = max(worst, math.Abs(p.Value-want), math.Abs(out.Prediction-want),
						math.Abs(out.Loss-s.Weight*naiveLoss(l, want, s.Y)))
					step := s.Weight * 0.4 * math.Pow(float64(round+1), -c.decay)
					steps += step
					slope := naiveSlope(l, inner(w, z), s.Y)
					for i, v := range w {
						weighted[i] += step * v
						w[i] = v - step*(slope*z[i]+2*c.lambda*v)
					}
				}
				t.Logf("largest deviation %.2g", worst)
				assert.LessOrEqual(t, worst, 1e-11, "predictions or losses deviate by %g", worst)
			})
		}
	}
}

// The stable limit cuts a step that decays too, and the average weighs what was taken.
func TestSGMStepsAreStable(t *testing.T) {
	o := options(losses.Squared)
	o.Step, o.Decay, o.Average, o.Lambda = 1e9, 0.1, true, 0
	l := raker.NewRaker(gaussians(2, 2, 8)[:1], o)
	for n, s := range modeltest.Samples(5, 2, 3000) {
		out := observe(t, l, modeltest.Sample{X: s.X, Y: math.Sin(s.X[0]), Weight: math.Pow(10, float64(n%19)-9)})
		require.LessOrEqual(t, math.Abs(out.Prediction), 100.0, "round %d: %g", n, out.Prediction)
	}
}

func TestSGMConforms(t *testing.T) {
	const dimension = 3
	maps := gaussians(1, dimension, 4)[:1]
	for n, l := range everyLoss() {
		for k, c := range sgms() {
			outputs := 1 + (n+k)%2 // Each loss and each kind has both.
			t.Run(fmt.Sprint(l, c, ", ", outputs), func(t *testing.T) {
				modeltest.Conform(t, modeltest.Subject{
					New: func() model.Learner {
						o := raker.DefaultOptions(l, false)
						o.TrackRegret, o.Outputs = true, outputs
						o.Decay, o.Average, o.Lambda = c.decay, c.average, c.lambda
						return raker.NewRaker(maps, o)
					},
					Dimension: dimension, Outputs: outputs,
					Label:   func(y float64) float64 { return label(l, y) },
					Rejects: func(magnitude float64) bool { return magnitude > model.MaxMagnitude },
				})
			})
		}
	}
}

// What is not used takes no memory: an average is r + 1 numbers an output, a decay none.
func TestSGMStateIsWhatItUses(t *testing.T) {
	maps := gaussians(1, 2, 4)[:1]
	size := func(decay float64, average bool) (encoded int, told uint64) {
		o := options(losses.Squared)
		o.Outputs, o.Decay, o.Average = 2, decay, average
		l := raker.NewRaker(maps, o)
		return len(state(t, l)), l.Size()
	}
	plain, plainTold := size(0, false)
	added := 2 * (maps[0].Size() + 1)
	for _, c := range []struct {
		decay   float64
		average bool
		numbers int
	}{{0.5, false, 0}, {0, true, added}, {0.5, true, added}} {
		got, told := size(c.decay, c.average)
		assert.True(t, got == plain+8*c.numbers && told == plainTold+8*uint64(c.numbers), "%+v: %d and %d bytes, %d and %d without", c, got, told, plain, plainTold)
	}
}

// Options that have no meaning are rejected.
func TestSGMIsOfOneKernel(t *testing.T) {
	maps := gaussians(1, 2, 4)
	for name, create := range map[string]func(o raker.Options){
		"average of kernels": func(o raker.Options) { o.Average = true; raker.NewRaker(maps, o) },
		"decay of kernels":   func(o raker.Options) { o.Decay = 0.5; raker.NewRaker(maps, o) },
		"AdaRaker":           func(o raker.Options) { o.Average = true; raker.NewAdaRaker(maps[:1], o) },
		"AdaRaker, decay":    func(o raker.Options) { o.Decay = 0.5; raker.NewAdaRaker(maps[:1], o) },
		"growing steps":      func(o raker.Options) { o.Decay = -0.5; raker.NewRaker(maps[:1], o) },
	} {
		func() {
			defer func() { assert.NotNil(t, recover(), "%s was made", name) }()
			create(options(losses.Squared))
		}()
	}
}

// What docs/theory.md says of the two options: of rows without an order in time, as those
// of casp, a step that decays and an average lose less than a constant step does; on a
// stream that drifts, as air, they lose more.
func TestSGMOnStreams(t *testing.T) {
	for _, c := range []struct {
		name string
		// sigma is the root of the mean squared distance of two rows.
		sigma float64
		// helps says that both options lose less.
		helps bool
	}{{"casp.csv.gz", 0.53, true}, {"air.csv.gz", 0.9, false}} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() || modeltest.RaceDetector {
				t.Skip("long")
			}
			stream := modeltest.Stream(t, c.name, -1)
			modeltest.Scale(stream)
			top := 0.0
			for _, s := range stream {
				top = max(top, s.Y)
			}
			mean := func(step, decay float64, average bool) float64 {
				o := raker.DefaultOptions(losses.Squared, false)
				o.Step, o.Decay, o.Average, o.Lambda, o.TrackRegret = step, decay, average, 0, false
				l := raker.NewRaker([]feature.Map{newFourier(1, len(stream[0].X), 50, c.sigma)}, o)
				for _, s := range stream {
					observe(t, l, modeltest.Sample{X: s.X, Y: s.Y / top, Weight: 1})
				}
				return l.Stats().Loss / float64(len(stream))
			}
			constant, decays, averages := mean(0.25, 0, false), mean(0.25, 0.25, false), mean(0.5, 0, true)
			t.Logf("constant %.4g, decay %.4g, average %.4g", constant, decays, averages)
			assert.Equal(t, []bool{c.helps, c.helps}, []bool{decays < constant, averages < constant}, "constant %g, decay %g, average %g", constant, decays, averages)
		})
	}
}
