package raker_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"hindsight/internal/model/losses"
	"hindsight/internal/model/modeltest"
	"hindsight/internal/model/raker"
)

// A state holds the second moments of all rounds, those that wait for a pass too,
// with the bits that one pass a round gives; and goes on from any round with the
// bits of the whole run. There are 70 features, more than are settled at a time.
func TestMomentsHaveTheBitsOfOnePassARound(t *testing.T) {
	const dimension, rounds = 3, 20
	maps := gaussians(9, dimension, 35)[:2]
	o := raker.DefaultOptions(losses.Squared, false)
	o.TrackRegret = true
	samples := modeltest.Samples(17, dimension, rounds)
	whole := raker.NewRaker(maps, o)
	plain := make([][]float64, len(maps))
	var states [][]byte
	for n := range rounds + 1 {
		states = append(states, state(t, whole))
		// A tag, a shape of three numbers and an account of six.
		rest := states[n][10*8:]
		for p, m := range maps {
			r := m.Size()
			if plain[p] == nil {
				plain[p] = make([]float64, r*(r+1)/2)
			}
			for at, want := range plain[p] {
				got := binary.LittleEndian.Uint64(rest[8*at:])
				require.Equal(t, math.Float64bits(want), got, "after %d rounds, kernel %d: moment %d is %g, want %g", n, p, at, math.Float64frombits(got), want)
			}
			rest = rest[8*(len(plain[p])+r):]
		}
		if n == rounds {
			break
		}
		observe(t, whole, samples[n])
		for p, z := range features(maps, samples[n].X) {
			at := 0
			for i, v := range z {
				for _, w := range z[i:] {
					plain[p][at] += float64(float64(samples[n].Weight*v) * w)
					at++
				}
			}
		}
	}
	for from, s := range states {
		half := raker.NewRaker(maps, o)
		require.NoError(t, half.Restore(s))
		for n := from; n < rounds; n++ {
			observe(t, half, samples[n])
		}
		require.True(t, bytes.Equal(state(t, half), states[rounds]), "restored after %d rounds, it ends elsewhere", from)
	}
}
