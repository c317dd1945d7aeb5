package engine_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine"
	"hindsight/internal/model"
)

// The served regret that a scrape shows of a learner whose regret is solved now and
// then is of the state that was solved, as the regret is.
func TestServedRegretIsOfOneState(t *testing.T) {
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
	excess := solved.ServedRegret - solved.Regret
	require.True(t, excess != 0 && !math.IsNaN(excess), "the late labels left no trace: %g", excess)
	late(5)
	h.Each(func(l *engine.Live) {
		assert.True(t, l.Regret == solved.Regret && l.ServedRegret == solved.ServedRegret, "regret %g, served %g; want %g, %g", l.Regret, l.ServedRegret, solved.Regret, solved.ServedRegret)
	})
}

// With labels that come late the certificate is none of what was served: served regret exceeds
// it, and stays below certificate + Σ ((y−s)² − (y−ŷ)²), s the served prediction and ŷ the
// prequential one. Both are computed from the rows, by a dense system a prediction.
func TestServedCertificateOfLateLabels(t *testing.T) {
	const rounds, late = 60, 15
	lambda := 1.0
	h := start(t, files{newFS()}, newClock())
	h.create(t, "m", model.Spec{Dimension: 1, Scaling: model.Unscaled(), LinearAWV: &model.LinearAWV{Lambda: &lambda}})
	rows := make([][2]float64, rounds) // Labels near 1, of which the first late predictions say 0.
	for n := range rows {
		rows[n] = [2]float64{math.Sin(float64(n)), 1 + math.Sin(7*float64(n))/10}
	}
	var waiting []engine.Prediction
	for n := range rounds {
		p := must(h.Predict(t.Context(), "m", vectors([]float64{rows[n][0]}), engine.PredictOptions{Remember: true}))(t)
		if waiting = append(waiting, p[0]); n >= late {
			h.observe(t, "m", engine.Observation{PredictionID: waiting[n-late].ID, Labels: []float64{rows[n-late][1]}, Weight: 1})
		}
	}
	for n := rounds - late; n < rounds; n++ {
		h.observe(t, "m", engine.Observation{PredictionID: waiting[n].ID, Labels: []float64{rows[n][1]}, Weight: 1})
	}
	certificate, loss, served := 0.0, 0.0, 0.0
	for n, row := range rows {
		now, h := leastSquares(rows[:n], row[0], lambda)
		then, _ := leastSquares(rows[:max(0, n-late)], row[0], lambda)
		y := row[1]
		certificate, loss, served = certificate+y*y*h, loss+(y-now)*(y-now), served+(y-then)*(y-then)
	}
	s := h.stats(t, "m")
	want := certificate + served - loss
	if math.Abs(s.ServedCertificate-want) > 1e-9*want || math.Abs(s.ServedRegret-(served-s.HindsightLoss)) > 1e-9*served {
		t.Errorf("served certificate %g, want %g; served regret %g, want %g", s.ServedCertificate, want, s.ServedRegret, served-s.HindsightLoss)
	}
	if !s.Certified || s.ServedRegret > s.ServedCertificate || s.ServedRegret <= s.Certificate {
		t.Errorf("certificate %g, served %g; regret %g, served %g", s.Certificate, s.ServedCertificate, s.Regret, s.ServedRegret)
	}
	h.Each(func(l *engine.Live) {
		assert.True(t, l.ServedFigures == s.ServedFigures, "a scrape has %+v, want %+v", l.ServedFigures, s.ServedFigures)
	})
}

// leastSquares is what the forecaster predicts for (x, 1) after rows, with the input in A, and
// its leverage: zᵀA⁻¹b and zᵀA⁻¹z, A = λI + Σzzᵀ over the rows and z.
func leastSquares(rows [][2]float64, x, lambda float64) (prediction, leverage float64) {
	a, b, c, u, v := lambda+x*x, x, lambda+1.0, 0.0, 0.0
	for _, row := range rows {
		a, b, c = a+row[0]*row[0], b+row[0], c+1
		u, v = u+row[0]*row[1], v+row[1]
	}
	det := a*c - b*b
	w, constant := (c*x-b)/det, (a-b*x)/det // A⁻¹z.
	return w*u + constant*v, w*x + constant
}
