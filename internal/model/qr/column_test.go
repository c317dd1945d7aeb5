package qr_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model/qr"
)

// columned is a factor under test and what its passes yielded.
type columned struct {
	factor      *qr.Factor
	row, priors []float64
}

func newColumned(r, k int) *columned { return &columned{factor: qr.New(r, k, 0.3)} }

// turn prepares the turn of an observation whose class has a label of y; all others have 0.
func (c *columned) turn(z []float64, class int, y, root float64) qr.Turn {
	k := c.factor.Columns()
	c.row = append(append(c.row[:0], z...), make([]float64, k)...)
	c.row[len(z)+class] = y
	c.priors = make([]float64, k)
	return qr.Turn{Factor: c.factor, Row: c.row, Priors: c.priors, Root: root}
}

// same fails unless every number of a is that of b in every bit, and what b has
// beyond a is +0.
func same(t *testing.T, what string, a, b []float64) {
	t.Helper()
	for i, v := range b {
		want := 0.0
		if i < len(a) {
			want = a[i]
		}
		require.Equal(t, math.Float64bits(want), math.Float64bits(v), "%v %v %v %v", what, i, v, want)
	}
}

// sameFactor compares a factor that grew with one that has all its columns.
func sameFactor(t *testing.T, grown, all *qr.Factor) {
	t.Helper()
	r, k, limit := grown.Order(), grown.Columns(), all.Columns()
	a, b := grown.Packed(), all.Packed()
	require.Equal(t, r*(r+1)/2+r*k, len(a))
	for i := range r {
		same(t, fmt.Sprint("row ", i), a[:r-i+k], b[:r-i+limit])
		same(t, fmt.Sprint("right ", i), grown.Right()[i*k:(i+1)*k], all.Right()[i*limit:(i+1)*limit])
		a, b = a[r-i+k:], b[r-i+limit:]
	}
	require.Equal(t, all.LogDet(0.3), grown.LogDet(0.3), "the determinants differ")
}

// A column that comes late is the one that was there from the start, bit for bit,
// whatever rotates, discounts, solves and grows the factor, together with others
// or alone; and no other bit knows of it.
func TestALateColumnIsOneFromTheStart(t *testing.T) {
	const columns = 11
	for _, r := range []int{1, 2, 3, 7, 8, 33} {
		t.Run(fmt.Sprint(r, " features"), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(r), 5))
			grown := []*columned{newColumned(r, 1), newColumned(r, 1)}
			all := []*columned{newColumned(r, columns), newColumned(r, columns)}
			for round := range 150 {
				k := min(1+round/12, columns)
				for _, c := range grown {
					if c.factor.Columns() < k {
						c.factor.AddColumn()
					}
				}
				if round%40 == 39 {
					appendFeature(rng, append(slices.Clone(grown), all...))
				}
				z := sparse(rng, grown[0].factor.Order())
				solveBoth(t, z, grown[0].factor, all[0].factor)
				class, y := rng.IntN(k), rng.NormFloat64()
				turns := [2][]qr.Turn{}
				for n := range grown {
					root := []float64{1, 0.97}[n]
					turns[0] = append(turns[0], grown[n].turn(z, class, y, root))
					turns[1] = append(turns[1], all[n].turn(z, class, y, root))
				}
				qr.RotateTogether(turns[0])
				qr.RotateTogether(turns[1])
				for n := range grown {
					require.True(t, turns[0][n].Rotation == turns[1][n].Rotation, "round %d: %+v and %+v", round, turns[0][n].Rotation, turns[1][n].Rotation)
					same(t, "priors", grown[n].priors, all[n].priors)
					same(t, "rotated row", grown[n].row, all[n].row)
					sameFactor(t, grown[n].factor, all[n].factor)
				}
			}
			weights(t, grown[0].factor, all[0].factor)
		})
	}
}

// sparse are features some of which are 0.
func sparse(rng *rand.Rand, r int) []float64 {
	z := make([]float64, r)
	for i := range z {
		if rng.IntN(4) > 0 {
			z[i] = rng.NormFloat64()
		}
	}
	return z
}

func appendFeature(rng *rand.Rand, all []*columned) {
	a := sparse(rng, all[0].factor.Order())
	b := rng.NormFloat64()
	for _, c := range all {
		right := make([]float64, c.factor.Columns())
		right[0] = b
		c.factor.Append(slices.Clone(a), 50, right, 0.3)
	}
}

func solveBoth(t *testing.T, z []float64, grown, all *qr.Factor) {
	t.Helper()
	a, b := slices.Clone(z), slices.Clone(z)
	p, q := make([]float64, grown.Columns()), make([]float64, all.Columns())
	require.Equal(t, all.Solve(b, q), grown.Solve(a, p), "the squares differ")
	same(t, "solution", a, b)
	same(t, "predictions", p, q)
}

func weights(t *testing.T, grown, all *qr.Factor) {
	t.Helper()
	a, b := make([]float64, grown.Order()), make([]float64, all.Order())
	for column := range all.Columns() {
		grown.Weights(a, column)
		all.Weights(b, column)
		same(t, "weights", a, b)
	}
}

// A factor of no features has columns too.
func TestAddColumnWithoutFeatures(t *testing.T) {
	f := qr.New(0, 1, 1)
	f.AddColumn()
	if f.Columns() != 2 || f.Order() != 0 || len(f.Packed()) != 0 {
		t.Fatalf("%d columns, order %d", f.Columns(), f.Order())
	}
	f.Append(nil, 1, []float64{0.5, 0.25}, 1)
	assert.Equal(t, []float64{1, 0.5, 0.25}, f.Packed())
}
