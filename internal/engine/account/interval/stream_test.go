package interval_test

import (
	"testing"

	"hindsight/internal/engine/account/interval"
	"hindsight/internal/model/modeltest"
)

// Coverage on published streams: over all but the first 200 rounds, and over
// every window of 500 rounds that begins after the first 500.
func TestCoverageOnStreams(t *testing.T) {
	if testing.Short() || modeltest.RaceDetector {
		t.Skip("long")
	}
	levels := []float64{0.9, 0.99}
	bars := []struct{ least, most, window float64 }{{0.895, 0.915, 0.86}, {0.987, 0.995, 0.97}}
	for _, name := range modeltest.Regressions() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := interval.New(levels)
			var hits, total [2]float64
			for i, residual := range modeltest.Residuals(t, name) {
				w := serve(s, 2, residual)
				s.Observe(residual, w.sigma, w.z)
				if i < 200 {
					continue
				}
				for l := range levels {
					total[l]++
					if half := w.sigma * max(w.z[l], 0); -half <= residual && residual <= half {
						hits[l]++
					}
				}
			}
			for l, b := range bars {
				st, covered := s.Statistics(l), hits[l]/total[l]
				t.Logf("%.2f: covered %.4f (all %.4f), least window %.3f, mean width %.4g, interval score %.4g",
					levels[l], covered, st.Coverage, st.LeastCoverage, st.MeanWidth, st.MeanScore)
				if covered < b.least || covered > b.most || st.LeastCoverage < b.window {
					t.Errorf("level %g: want coverage from %g to %g, and %g in every window", levels[l], b.least, b.most, b.window)
				}
			}
		})
	}
}
