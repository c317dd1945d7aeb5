package auto_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/auto"
	"hindsight/internal/model/modeltest"
)

// secondBars are the mean squared errors, or for labels −1 and 1 the shares of errors, of
// whole streams through the second version, and their ratio to the first version's.
func secondBars() map[string]struct{ bar, ratio float64 } {
	return map[string]struct{ bar, ratio float64 }{
		"air": {0.55e-3, 1}, "air_raw": {0.55e-3, 1}, "energy": {4.2e-3, 1.005}, "energy_adaraker": {11.66e-3, 1.005},
		"energy_appliances": {3.66e-3, 1.005}, "bike": {1.3e-3, 0.5}, "casp": {36.5e-3, 0.75}, "elec2": {0.068, 0.95},
		"ijcnn1": {0.0085, 0.7}, "movement": {0.0124, 1.01},
	}
}

// TestLevel2Streams compares the two versions: with -whole on whole streams against their
// bars, else in the first rounds, in which the second version is not worse by more than 1 %.
func TestLevel2Streams(t *testing.T) {
	n := streamed(t)
	for _, p := range publishedStreams() {
		t.Run(p.name, func(t *testing.T) {
			samples, unit := p.samples(t, n, false)
			o := defaults(len(samples[0].X))
			first, firstTime := follow(t, auto.NewLevel1(o), samples, p.signs)
			second, secondTime := follow(t, auto.New(o), samples, p.signs)
			first, second = first/unit/unit, second/unit/unit
			bars := secondBars()[p.name]
			t.Logf("%d rows, d = %d: %.5g, first version %.5g, ratio %.3f; time ratio %.1f", len(samples), o.Dimension, second, first, second/first, secondTime/firstTime)
			ratio := second / first
			assert.False(t, ratio > 1.01 || (*whole && (second > bars.bar || ratio > bars.ratio)), "%g, want at most %g and a ratio of %g", second, bars.bar, bars.ratio)
		})
	}
}

// follow is the mean loss of a stream, or the share of errors, and the seconds it took. The
// certificate holds in the end.
func follow(t *testing.T, l model.Learner, samples []modeltest.Sample, signs bool) (loss, seconds float64) {
	t.Helper()
	began, errors := time.Now(), 0
	var out model.Outcome
	for _, s := range samples {
		require.NoError(t, l.Observe(&out, s.X, []float64{s.Y}, 1))
		if (out.Predictions[0] >= 0) != (s.Y >= 0) {
			errors++
		}
	}
	seconds = time.Since(began).Seconds()
	stats := l.Stats()
	if !stats.CertificateOK || stats.Regret > stats.Certificate || stats.Certificate > stats.RegretBound {
		t.Errorf("regret %g, certificate %g, bound %g, holds: %t", stats.Regret, stats.Certificate, stats.RegretBound, stats.CertificateOK)
	}
	if signs {
		return float64(errors) / float64(len(samples)), seconds
	}
	return math.Max(0, stats.Loss) / float64(len(samples)), seconds
}
