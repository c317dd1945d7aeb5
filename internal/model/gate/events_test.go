package gate_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/auto"
	"hindsight/internal/model/modeltest"
)

// skill takes rows through a learner: 1 − its loss/that of the mean label.
func skill(t *testing.T, l model.Learner, seed uint64, rows int, draw func(rng *rand.Rand, row int) (x []float64, y float64)) float64 {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 3))
	loss, sum, squares := 0.0, 0.0, 0.0
	for row := range rows {
		x, y := draw(rng, row)
		o, err := modeltest.Observe(l, x, y, 1)
		require.NoError(t, err)
		loss, sum, squares = loss+o.Loss, sum+y, squares+y*y
	}
	return 1 - loss/(squares-sum*sum/float64(rows))
}

// flagged are labels 0 ± .001 with 1 % ones, at which an input is near 1 and else near 0.
func flagged(rng *rand.Rand, _ int) (x []float64, y float64) {
	if rng.Float64() < 0.01 {
		y = 1
	}
	return []float64{rng.Float64(), y + 0.15*rng.NormFloat64()}, y + 0.001*rng.NormFloat64()
}

// Events that inputs foretell are learned, at about the price that they have without a gate.
func TestEventsAreLearned(t *testing.T) {
	if modeltest.RaceDetector {
		t.Skip("takes streams through auto: not with the race detector")
	}
	rows, draws := 5000, uint64(1)
	if *whole {
		rows, draws = 8000, 4
	}
	for seed := range draws {
		l, o := gated(options(2)), level1(options(2))
		with, without := skill(t, l, seed, rows, flagged), skill(t, auto.New(o), seed, rows, flagged)
		s := l.Stats()
		t.Logf("skill %.3f, without a gate %.3f; %d set aside, the last at %d", with, without, s.Gate.SetAside, s.Gate.LastSetAside)
		assert.False(t, with < 0.8 || s.Gate.SetAside < 2 || s.Gate.LastSetAside > 1000 || !s.CertificateOK || s.Gate.SetAsideLoss != 0, "skill %g, want at least .8; %+v", with, s)
	}
}

// Events of several shapes are let in: a category, a range, a corner.
func TestEventsOfSeveralShapes(t *testing.T) {
	shapes := map[string]func(x []float64) bool{
		"high":     func(x []float64) bool { return x[0] > 0.98 },
		"low":      func(x []float64) bool { return x[1] < 0.02 },
		"middle":   func(x []float64) bool { return x[2] > 0.49 && x[2] < 0.51 },
		"category": func(x []float64) bool { return int(100*x[0]) == 57 },
		"corner":   func(x []float64) bool { return x[0] > 0.86 && x[1] > 0.86 },
	}
	for name, is := range shapes {
		l, _ := recorded(3, 1)
		skill(t, l, 1, 20000, func(rng *rand.Rand, _ int) ([]float64, float64) {
			x, y := []float64{rng.Float64(), rng.Float64(), rng.Float64()}, 0.001*rng.NormFloat64()
			if is(x) {
				y++
			}
			return x, y
		})
		s := l.Stats().Gate
		assert.True(t, s.LastSetAside <= 5000, "%s: %+v", name, s)
	}
}

// Errors that come at any input are set aside to the end, also where the inputs drift and
// come back. By Ville's inequality one run in 280 at most lets them in.
func TestErrorsAtAnyInputAreSetAside(t *testing.T) {
	walk, drift := 0.0, 0.0
	streams := map[string]func(rng *rand.Rand, row int) []float64{
		"drawn":   func(rng *rand.Rand, _ int) []float64 { return []float64{rng.Float64(), rng.NormFloat64()} },
		"clock":   func(_ *rand.Rand, row int) []float64 { return []float64{float64(row), float64(row % 24)} },
		"walking": func(rng *rand.Rand, _ int) []float64 { walk += rng.NormFloat64(); return []float64{walk} },
		"slow": func(rng *rand.Rand, _ int) []float64 {
			drift = 0.99*drift + rng.NormFloat64()
			return []float64{drift, rng.Float64()}
		},
	}
	runs := 25
	if *whole {
		runs = 500
	}
	for name, input := range streams {
		opened := 0
		for seed := range uint64(runs) {
			l, _ := recorded(len(input(rand.New(rand.NewPCG(1, 1)), 0)), 1)
			errors := 0
			skill(t, l, seed, 4000, func(rng *rand.Rand, row int) ([]float64, float64) {
				x, y := input(rng, row), rng.NormFloat64()
				if rng.Float64() < 0.01 {
					y, errors = -9999, errors+1
				}
				return x, y
			})
			if int(l.Stats().Gate.SetAside) < errors-6 {
				opened++
			}
		}
		if *whole {
			t.Logf("%s: let in in %d of %d runs", name, opened, runs)
		}
		assert.True(t, opened <= 1+runs/100, "%s: let in in %d of %d runs", name, opened, runs)
	}
}
