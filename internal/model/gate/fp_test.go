package gate_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"hindsight/internal/model"
	"hindsight/internal/model/gate"
)

func TestErrorsAtAnyInput(t *testing.T) {
	for _, stream := range []string{"sin", "air", "bike", "energy", "casp", "elec2"} {
		samples := clean(t, stream, rows)
		low, high := math.Inf(1), math.Inf(-1)
		for _, s := range samples {
			low, high = math.Min(low, s.Y), math.Max(high, s.Y)
		}
		opened := 0
		const runs = 200
		for seed := range uint64(runs) {
			rng := rand.New(rand.NewPCG(seed, 1))
			l := gate.New(gate.Options{Dimension: len(samples[0].X), Outputs: 1, New: func() model.Learner { return &recorder{outputs: 1} }})
			var o model.Outcome
			errors, aside := 0, 0
			for _, s := range samples {
				y := s.Y
				bad := rng.Float64() < 0.01
				if bad {
					y = -999 * (high - low)
					errors++
				}
				if err := l.Observe(&o, s.X, []float64{y}, 1); err != nil {
					t.Fatal(err)
				}
				if bad && o.SetAside {
					aside++
				}
			}
			if aside < errors-5 {
				opened++
				t.Logf("%s seed %d: %d of %d %+v", stream, seed, aside, errors, l.Stats().Gate)
			}
		}
		t.Logf("%s: opened %d of %d", stream, opened, runs)
	}
}

func TestClean(t *testing.T) {
	for _, stream := range []string{"sin", "air", "bike", "energy", "casp", "elec2", "air_raw", "energy_adaraker", "energy_appliances", "ijcnn1", "movement"} {
		samples := clean(t, stream, 1<<30)
		if stream == "sin" {
			samples = samples[:100000]
		}
		l := gate.New(gate.Options{Dimension: len(samples[0].X), Outputs: 1, New: func() model.Learner { return &recorder{outputs: 1} }})
		var o model.Outcome
		for _, s := range samples {
			if err := l.Observe(&o, s.X, []float64{s.Y}, 1); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("%s %d %+v", stream, len(samples), l.Stats().Gate)
	}
}
