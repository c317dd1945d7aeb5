package raker_test

import (
	"bytes"
	"math"
	"testing"

	"hindsight/internal/model"
	"hindsight/internal/model/modeltest"
	"hindsight/internal/model/raker"
)

// suited fits a learner to the suite, which draws real labels and wants every
// answer finite: labels become those of the loss, and the regret of a round,
// which is not known here, 0.
type suited struct {
	model.Learner
	loss raker.Loss
}

func (s suited) Check(x []float64, y, weight float64) error {
	return s.Learner.Check(x, label(s.loss, y), weight)
}

func (s suited) Observe(x []float64, y, weight float64) (model.Outcome, error) {
	out, err := s.Learner.Observe(x, label(s.loss, y), weight)
	if math.IsNaN(out.Regret) {
		out.Regret = 0
	}
	return out, err
}

func TestConform(t *testing.T) {
	const dimension = 3
	maps := gaussians(1, dimension, 4)
	learners := map[string]func(o raker.Options) model.Learner{
		"fogd":  func(o raker.Options) model.Learner { return raker.NewRaker(maps[:1], o) },
		"raker": func(o raker.Options) model.Learner { return raker.NewRaker(maps, o) },
		// The suite wants a state that does not grow: it begins after slot
		// 1100, and the next expert comes at 2047 or later.
		"adaraker": func(o raker.Options) model.Learner { return aged(t, raker.NewAdaRaker(maps, o), o.Loss, dimension) },
		"cold": func(o raker.Options) model.Learner {
			o.Cold, o.BaseInterval = true, 2
			return aged(t, raker.NewAdaRaker(maps, o), o.Loss, dimension)
		},
	}
	for name, create := range learners {
		for _, l := range losses() {
			t.Run(name+" "+l.String(), func(t *testing.T) {
				modeltest.Conform(t, modeltest.Subject{
					New: func() model.Learner {
						o := raker.DefaultOptions(l, name != "raker" && name != "fogd")
						o.TrackRegret = true
						return suited{create(o), l}
					},
					Dimension: dimension,
					Refuses:   func(magnitude float64) bool { return magnitude > model.MaxMagnitude },
				})
			})
		}
	}
}

// aged is the learner after 1100 rounds.
func aged(t *testing.T, l model.Learner, loss raker.Loss, dimension int) model.Learner {
	t.Helper()
	for _, s := range modeltest.Samples(99, dimension, 1100) {
		s.Y = label(loss, s.Y)
		observe(t, l, s)
	}
	return l
}

// From the first round on, over the appearance of experts, a state restored
// in the middle ends where the whole run does, bit for bit.
func TestRestoreAcrossNewExperts(t *testing.T) {
	const dimension = 2
	maps := gaussians(1, dimension, 3)
	for _, l := range losses() {
		for _, cold := range []bool{false, true} {
			o := raker.DefaultOptions(l, true)
			o.TrackRegret, o.Cold = true, cold
			samples := modeltest.Samples(12, dimension, 140)
			whole := raker.NewAdaRaker(maps, o)
			var states [][]byte
			for _, s := range samples {
				states = append(states, state(t, whole))
				s.Y = label(l, s.Y)
				observe(t, whole, s)
			}
			for _, at := range []int{0, 1, 2, 3, 6, 7, 8, 62, 63, 64, 126, 127, 128} {
				half := raker.NewAdaRaker(maps, o)
				if err := half.Restore(states[at]); err != nil {
					t.Fatal(err)
				}
				for n := at; n < len(samples); n++ {
					if !bytes.Equal(states[n], state(t, half)) {
						t.Fatalf("%v: restored at %d, differs at %d", l, at, n)
					}
					observe(t, half, modeltest.Sample{X: samples[n].X, Y: label(l, samples[n].Y), Weight: samples[n].Weight})
				}
			}
		}
	}
}
