package model_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
)

func label(least, most float64, integer bool) *model.Label {
	l := &model.Label{Integer: integer}
	if !math.IsInf(least, 0) {
		l.Min = &least
	}
	if !math.IsInf(most, 0) {
		l.Max = &most
	}
	return l
}

// A projection onto a convex set only helps: no prediction moves away from a possible label,
// and no interval loses one.
func TestProjectionOnlyHelps(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		least, most := math.Round(10*rng.NormFloat64()), math.Inf(1)
		if rng.IntN(2) == 0 {
			most = least + 1 + float64(rng.IntN(20))
		}
		if rng.IntN(4) == 0 {
			least = math.Inf(-1)
		}
		l := label(least, most, rng.IntN(2) == 0)
		y := l.Project(20 * rng.NormFloat64())
		if l.Integer {
			y = math.Round(y)
		}
		require.NoError(t, l.Check([]float64{y}), l)
		v := 30 * rng.NormFloat64()
		p := l.Project(v)
		require.True(t, math.Abs(p-y) <= math.Abs(v-y) && l.Project(p) == p, "%v: %g moves to %g, away from %g", l, v, p, y)
		half := 10 * rng.Float64() * rng.Float64()
		lower, upper := l.ProjectInterval(v-half, v+half)
		require.False(t, v-half <= y && y <= v+half && !(lower <= y && y <= upper), "%v: [%g, %g] becomes [%g, %g] and loses %g", l, v-half, v+half, lower, upper, y)
		require.False(t, !(lower <= upper) || l.Check([]float64{lower, upper}) != nil || upper-lower > 2*half+1e-9, "%v: [%g, %g] becomes [%g, %g]", l, v-half, v+half, lower, upper)
	}
}

func TestLabelsThatAreNotPossible(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		label  *model.Label
		labels []float64
		want   string
	}{
		{label(0, math.Inf(1), false), []float64{-0.5}, "label: got -0.5, want a number of at least 0, as spec.label says"},
		{label(math.Inf(-1), 3, true), []float64{1, 4}, "labels[1]: got 4, want a whole number of at most 3, as spec.label says"},
		{label(0, 1, false), []float64{1.5}, "label: got 1.5, want a number from 0 to 1, as spec.label says"},
		{&model.Label{Integer: true}, []float64{1.5}, "label: got 1.5, want a whole number, as spec.label says"},
	} {
		err := c.label.Check(c.labels)
		assert.True(t, err != nil && err.Error() == c.want && errors.Is(err, model.ErrLabelOutOfRange), "got %v, want %s", err, c.want)
	}
}
