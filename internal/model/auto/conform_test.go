package auto_test

import (
	"math"
	"testing"

	"hindsight/internal/model"
	"hindsight/internal/model/auto"
	"hindsight/internal/model/modeltest"
)

func options(dimension, outputs int) auto.Options {
	return auto.Options{Dimension: dimension, Outputs: outputs, Lags: 2, Frequencies: 5, Microseconds: 500, Seed: 3}
}

func TestConformance(t *testing.T) {
	for name, c := range map[string]struct {
		o     auto.Options
		label func(float64) float64
	}{
		"one output":  {o: options(3, 1)},
		"two outputs": {o: options(2, 2)},
		"joint": {o: auto.Options{
			Dimension: 4, Outputs: 1, Lags: 2, Frequencies: 5, Microseconds: 500, Seed: 3, Joint: []auto.Span{{From: 1, To: 4}},
		}},
		"no lags":  {o: auto.Options{Dimension: 2, Outputs: 1, Frequencies: 4, Microseconds: 500}},
		"cheapest": {o: auto.Options{Dimension: 2, Outputs: 1, Lags: 1, Frequencies: 4, Microseconds: 1e-9}},
		"classes": {o: options(2, 1), label: func(y float64) float64 {
			if math.IsNaN(y) || math.Abs(y) > model.MaxMagnitude {
				return y
			}
			return math.Copysign(1, y)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			modeltest.Conform(t, modeltest.Subject{
				New: func() model.Learner { return auto.NewLevel1(c.o) }, Dimension: c.o.Dimension, Outputs: c.o.Outputs,
				Rejects: func(v float64) bool { return v > model.MaxMagnitude }, Label: c.label, Warm: 200,
			})
		})
	}
}
