package losses_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/losses"
)

func every() []losses.Loss {
	return []losses.Loss{losses.Squared, losses.Logistic, losses.Hinge, losses.SquaredHinge}
}

// The slope is the derivative of the value, which central differences approximate, and no
// chord of the value lies below it.
func TestSlopeIsThatOfTheValue(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for _, l := range every() {
		for range 2000 {
			f, y := 8*rng.Float64()-4, float64(2*rng.IntN(2)-1)
			const step = 1e-5
			if l == losses.Hinge && math.Abs(1-y*f) < 2*step {
				continue // The kink.
			}
			want := (l.Value(f+step, y) - l.Value(f-step, y)) / (2 * step)
			got := l.Slope(f, y)
			require.False(t, math.Abs(got-want) > 1e-5*(1+math.Abs(want)), "%s: the slope at %g under %g is %g, want %g", l, f, y, got, want)
			g := 8*rng.Float64() - 4
			below := l.Value(f, y) + l.Slope(f, y)*(g-f)
			require.False(t, l.Value(g, y) < below-1e-12, "%s is not convex between %g and %g under %g", l, f, g, y)
		}
	}
}

func TestScoresThatAreLarge(t *testing.T) {
	t.Parallel()
	for _, f := range []float64{-1e6, 1e6, -800, 800} {
		for _, y := range []float64{-1, 1} {
			v, s := losses.Logistic.Value(f, y), losses.Logistic.Slope(f, y)
			wantValue, wantSlope := math.Max(0, -y*f), -y*math.Max(0, math.Copysign(1, -y*f))
			assert.True(t, v == wantValue && s == wantSlope, "at %g under %g: %g, slope %g; want %g, slope %g", f, y, v, s, wantValue, wantSlope)
		}
	}
}

func TestLabels(t *testing.T) {
	t.Parallel()
	for _, l := range every() {
		assert.NoError(t, l.CheckLabels([]float64{-1, 1}, 2), l)
		if err := l.CheckLabels([]float64{0.5}, 1); l == losses.Squared {
			assert.NoError(t, err)
		} else {
			assert.ErrorIs(t, err, model.ErrLabelOutOfRange, l)
		}
	}
}
