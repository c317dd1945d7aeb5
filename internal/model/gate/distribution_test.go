package gate_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/modeltest"
)

// Rare amounts that no input foretells are learned: the mean prediction is the mean label.
func TestRareAmountsAreLearned(t *testing.T) {
	if modeltest.RaceDetector {
		t.Skip("takes streams through auto: not with the race detector")
	}
	const rows = 12000
	amounts := map[string]func(rng *rand.Rand) float64{
		"exponential": func(rng *rand.Rand) float64 { return 15 * rng.ExpFloat64() },
		"lognormal":   func(rng *rand.Rand) float64 { return 10 * math.Exp(0.8*rng.NormFloat64()) },
		"round":       func(rng *rand.Rand) float64 { return float64(5 * (1 + rng.IntN(12))) },
		"three":       func(rng *rand.Rand) float64 { return float64(10 * (1 + rng.IntN(3))) },
	}
	learners := map[string]func() model.Learner{
		"auto": func() model.Learner {
			o := options(2)
			o.Lags, o.Frequencies = 1, 3
			return versions()[1].gated(o)
		},
		"linear": func() model.Learner {
			l, err := catalog.New(model.Spec{Dimension: 2, LabelGate: model.GateOn, LinearAWV: &model.LinearAWV{}})
			require.NoError(t, err)
			return l
		},
	}
	for learner, start := range learners {
		for name, amount := range amounts {
			for _, share := range []float64{0.02, 0.03} {
				for _, noise := range []float64{0, 0.001} {
					// Three amounts beside noise are sentinels. Auto learns the amounts with the heaviest tail alone.
					if name == "three" && noise > 0 || learner == "auto" && (name != "lognormal" || noise > 0 || share > 0.02) {
						continue
					}
					t.Run(fmt.Sprintf("%s/%s/%g/%g", learner, name, share, noise), func(t *testing.T) {
						t.Parallel()
						rng, l := rand.New(rand.NewPCG(3, 12)), start()
						predicted, truth := 0.0, 0.0
						for row := range rows {
							y := noise * rng.NormFloat64()
							if rng.Float64() < share {
								y += amount(rng)
							}
							o, err := modeltest.Observe(l, []float64{rng.Float64(), rng.NormFloat64()}, y, 1)
							require.NoError(t, err)
							if row >= rows/4 {
								predicted, truth = predicted+o.Prediction, truth+y
							}
						}
						s := l.Stats()
						t.Logf("%.3f of the mean label; %+v", predicted/truth, s.Gate)
						ratio := predicted / truth
						assert.True(t, ratio > 0.9 && ratio < 1.1 && s.CertificateOK, "mean prediction %.3f of the mean label, want .9 to 1.1; %+v", ratio, s)
					})
				}
			}
		}
	}
}

// A few values that come again and again beside other labels are sentinels.
func TestSentinelsAreNoDistribution(t *testing.T) {
	for _, sentinels := range [][]float64{{-999}, {-9999, -999}, {9999}, {-99, -999, 999}} {
		l, _ := recorded(2, 1)
		rng, sent := rand.New(rand.NewPCG(5, 13)), uint64(0)
		var o model.Outcome
		for row := range 10000 {
			y := rng.NormFloat64()
			if row%71 == 70 {
				y = sentinels[rng.IntN(len(sentinels))]
				sent++
			}
			require.NoError(t, l.Observe(&o, []float64{rng.Float64(), rng.NormFloat64()}, []float64{y}, 1))
		}
		assert.Equal(t, sent, l.Stats().Gate.SetAside, sentinels)
	}
}
