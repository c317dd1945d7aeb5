package raker_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/modeltest"
	"hindsight/internal/model/raker"
)

func TestConform(t *testing.T) {
	const dimension = 3
	maps := gaussians(1, dimension, 4)
	learners := map[string]func(o raker.Options) model.Learner{
		"fogd":     func(o raker.Options) model.Learner { return raker.NewRaker(maps[:1], o) },
		"raker":    func(o raker.Options) model.Learner { return raker.NewRaker(maps, o) },
		"adaraker": func(o raker.Options) model.Learner { return raker.NewAdaRaker(maps, o) },
		"switches": func(o raker.Options) model.Learner {
			o.TrackSwitches = true
			return raker.NewAdaRaker(maps, o)
		},
		"cold": func(o raker.Options) model.Learner {
			o.Cold, o.BaseInterval = true, 2
			return raker.NewAdaRaker(maps, o)
		},
	}
	for name, create := range learners {
		for n, l := range everyLoss() {
			outputs := 1 + (n+len(name))%2 // Each loss and each learner has both.
			t.Run(fmt.Sprint(name, " ", l, ", ", outputs), func(t *testing.T) {
				modeltest.Conform(t, modeltest.Subject{
					New: func() model.Learner {
						o := raker.DefaultOptions(l, name != "raker" && name != "fogd")
						o.TrackRegret, o.Outputs = true, outputs
						return create(o)
					},
					Dimension: dimension, Outputs: outputs,
					Label:   func(y float64) float64 { return label(l, y) },
					Rejects: func(magnitude float64) bool { return magnitude > model.MaxMagnitude },
					// Of an AdaRaker the next expert then comes at 2047 or later.
					Warm: 1100,
				})
			})
		}
	}
}

// From the first round on, over the appearance of experts, a state restored
// in the middle ends where the whole run does, bit for bit.
func TestRestoreAcrossNewExperts(t *testing.T) {
	const dimension = 2
	maps := gaussians(1, dimension, 3)
	for _, l := range everyLoss() {
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
				require.NoError(t, half.Restore(states[at]))
				for n := at; n < len(samples); n++ {
					require.True(t, bytes.Equal(states[n], state(t, half)), "%v: restored at %d, differs at %d", l, at, n)
					observe(t, half, modeltest.Sample{X: samples[n].X, Y: label(l, samples[n].Y), Weight: samples[n].Weight})
				}
			}
		}
	}
}
