package classes_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine/account/classes"
)

// ranked are observations of two classes with the probability of class 1, on the lower ends of
// eighths of log-odds.
func ranked(seed uint64, n int, share float64) (p []float64, class []int) {
	rng := rand.New(rand.NewPCG(seed, 7))
	for range n {
		k := 0
		if rng.Float64() < share {
			k = 1
		}
		odds := math.Floor(8*(2*float64(k)-1+2*rng.NormFloat64()))/8 + 1./16
		p, class = append(p, 1/(1+math.Exp(-odds))), append(class, k)
	}
	return p, class
}

// The area under the curve is the share of pairs in order, and F1 that of the best threshold.
func TestRankingIsItsDefinition(t *testing.T) {
	for _, share := range []float64{0.02, 0.4, 0.9} {
		p, class := ranked(4, 1500, share)
		a := classes.New(2)
		a.Observe(classes.Round{Class: 0, Prequential: classes.Prediction{Class: -1}})
		a.Observe(classes.Round{Class: 1, Prequential: classes.Prediction{Class: 0, Probabilities: []float64{1}}})
		assert.Nil(t, a.Summary().Ranking, "a ranking of no probabilities")
		for i := range p {
			a.Observe(classes.Round{Class: class[i], Prequential: classes.Prediction{Probabilities: []float64{1 - p[i], p[i]}}})
		}
		got := a.Summary().Ranking
		want := 1
		if share > 0.5 {
			want = 0
		}
		pairs, ordered, best := 0.0, 0.0, 0.0
		of := func(i int) float64 { // The probability of the rarer class.
			if want == 0 {
				return 1 - p[i]
			}
			return p[i]
		}
		for i := range p {
			found, said, all := 0.0, 0.0, 0.0
			for j := range p {
				if class[i] == want && class[j] != want {
					pairs++
					switch {
					case of(i) > of(j):
						ordered++
					case of(i) == of(j):
						ordered += 0.5
					}
				}
				if class[j] == want {
					all++
				}
				if of(j) >= of(i) {
					said++
					if class[j] == want {
						found++
					}
				}
			}
			best = math.Max(best, 2*found/(said+all))
		}
		if got == nil || got.Class != want || !(math.Abs(got.AUC-ordered/pairs) <= 1e-12) || !(math.Abs(got.F1-best) <= 1e-12) {
			t.Fatalf("share %g: %+v, want class %d, AUC %g, F1 %g", share, got, want, ordered/pairs, best)
		}
		found, said, all := 0.0, 0.0, 0.0
		for j := range p {
			if class[j] == want {
				all++
			}
			if of(j) >= got.Threshold {
				said++
				if class[j] == want {
					found++
				}
			}
		}
		if !(math.Abs(got.Precision-found/said) <= 1e-12) || !(math.Abs(got.Recall-found/all) <= 1e-12) {
			t.Errorf("share %g: %+v, want a precision of %g, a recall of %g", share, got, found/said, found/all)
		}
	}
}

// A third class ends the ranking.
func TestRankingOfThreeClasses(t *testing.T) {
	a := classes.New(3)
	for n := range 30 {
		a.Observe(classes.Round{Class: n % 2, Prequential: classes.Prediction{Probabilities: []float64{0.5, 0.5}}})
	}
	require.NotNil(t, a.Summary().Ranking, "no ranking of two classes")
	restored := classes.New(3)
	if err := restored.Restore(a.AppendBinary(nil)); err != nil || *restored.Summary().Ranking != *a.Summary().Ranking {
		t.Errorf("restored: %v, %+v", err, restored.Summary().Ranking)
	}
	a.Observe(classes.Round{Class: 2, Prequential: classes.Prediction{Probabilities: []float64{0.5, 0.5}}})
	assert.Nil(t, a.Summary().Ranking)
}
