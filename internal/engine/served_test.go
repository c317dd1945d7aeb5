package engine_test

import (
	"math"
	"testing"

	"hindsight/internal/engine"
	"hindsight/internal/model"
)

// The served regret that a scrape shows of a learner whose regret is solved now and
// then is of the state that was solved, as the regret is.
func TestServedRegretIsOfOneState(t *testing.T) {
	onBackends(t, func(t *testing.T, newDisk func() disk) {
		t.Helper()
		h := start(t, newDisk(), newClock())
		h.create(t, "m", model.Spec{Dimension: 1, Scaling: model.Unscaled(), AdaRaker: &model.AdaRaker{}})
		late := func(n int) {
			var waiting []engine.Prediction
			for range n { // Served before any of their labels came.
				p := must(h.Predict(t.Context(), "m", vectors([]float64{1}), engine.PredictOptions{Remember: true}))(t)
				waiting = append(waiting, p[0])
			}
			for _, p := range waiting {
				h.observe(t, "m", engine.Observation{PredictionID: p.ID, Labels: []float64{1}, Weight: 1})
			}
		}
		late(5)
		solved := h.stats(t, "m")
		if excess := solved.ServedRegret - solved.Regret; excess == 0 || math.IsNaN(excess) {
			t.Fatalf("the late labels left no trace: %g", excess)
		}
		late(5)
		h.Each(func(l *engine.Live) {
			if l.Regret != solved.Regret || l.ServedRegret != solved.ServedRegret {
				t.Errorf("regret %g, served %g; want %g, %g", l.Regret, l.ServedRegret, solved.Regret, solved.ServedRegret)
			}
		})
	})
}
