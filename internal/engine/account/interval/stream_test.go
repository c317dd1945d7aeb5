package interval_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"hindsight/internal/engine/account/interval"
	"hindsight/internal/model/modeltest"
)

// coverage is what part of the labels of all but the first 200 rounds the
// intervals held, where every label comes so many rounds late.
func coverage(s *interval.State, levels []float64, residuals []float64, late int) []float64 {
	hits, waiting := make([]float64, len(levels)), []served{}
	for i, residual := range residuals {
		waiting = append(waiting, serve(s, len(levels), residual))
		if i < late {
			continue
		}
		w := waiting[i-late]
		s.Observe(interval.Round{Label: w.residual, Scale: w.sigma, Radii: w.z})
		for l := range levels {
			if half := w.sigma * max(w.z[l], 0); i-late >= 200 && -half <= w.residual && w.residual <= half {
				hits[l]++
			}
		}
	}
	for l := range hits {
		hits[l] /= float64(len(residuals) - late - 200)
	}
	return hits
}

// Coverage on published streams: over all but the first 200 rounds, and over
// every window of 500 rounds that begins after the first 500. Late labels leave
// less of it.
func TestCoverageOnStreams(t *testing.T) {
	if testing.Short() || modeltest.RaceDetector {
		t.Skip("long")
	}
	levels := []float64{0.9, 0.99}
	bars := []struct{ least, most, window float64 }{{0.895, 0.915, 0.86}, {0.987, 0.995, 0.97}}
	for _, name := range modeltest.Regressions() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, residuals := interval.New(levels), modeltest.Residuals(t, name)
			covers := coverage(s, levels, residuals, 0)
			for l, b := range bars {
				st, covered := s.Statistics(l), covers[l]
				t.Logf("%.2f: covered %.4f (all %.4f), least window %.3f, mean width %.4g, interval score %.4g",
					levels[l], covered, st.Coverage, st.LeastCoverage, st.MeanWidth, st.MeanScore)
				assert.False(t, covered < b.least || covered > b.most || st.LeastCoverage < b.window, "level %g: want coverage from %g to %g, and %g in every window", levels[l], b.least, b.most, b.window)
			}
			for _, late := range []int{1, 10, 100} {
				covers := coverage(interval.New(levels), levels, residuals, late)
				t.Logf("%d late: covered %.4f", late, covers)
				assert.False(t, covers[0] < 0.87 || covers[1] < 0.987, "labels %d late: coverage %.4f", late, covers)
			}
		})
	}
}
