package effects_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/effects"
)

// Largest tells the inputs and the values of single keys.
func TestLargest(t *testing.T) {
	o := effects.Options{Inputs: 3, Outputs: 1, MaxKeys: 1000, Kinds: effects.ColumnsEach}
	e, r, said := effects.New(o), effects.NewRow(o), make([]float64, o.Experts())
	const big = 1<<52 - 1
	rng := rand.New(rand.NewPCG(4, 4))
	for n := range uint64(2000) {
		x := []float64{float64(1 + rng.IntN(9)), float64(1 + rng.IntN(9)), big - float64(rng.IntN(9))}
		y := 0.1 * rng.NormFloat64()
		if x[2] == big {
			y -= 5
		}
		if x[0] == 7 {
			y += 3
		}
		e.Find(r, x, nil)
		e.Say(said, r, 0)
		e.Learn(r, n, 1, []float64{y}, []float64{0}, said, sloped(o))
	}
	found := e.Largest(2, 0)
	if len(found) != 2 || found[0].Input != 2 || found[0].Key != big || found[1].Input != 0 || found[1].Key != 7 ||
		found[0].Mean > -4 || found[1].Mean < 2 || found[0].Count < 150 {
		t.Errorf("%+v", found)
	}
	assert.Len(t, e.Largest(1000, 0), 27)
}

// The mean of the largest labels is a label: a row that counts next to nothing, and one that counts 1.
func TestMeansOfLargestLabels(t *testing.T) {
	const keys = 300
	o := effects.Options{Inputs: 1, Outputs: 1, MaxKeys: keys, Kinds: effects.ColumnsEach}
	e, r, said := effects.New(o), effects.NewRow(o), make([]float64, o.Experts())
	rng := rand.New(rand.NewPCG(7, 7))
	for n := range uint64(2 * keys) {
		y, counts := -model.MaxMagnitude*(0.75+0.25*rng.Float64()), 2e-18
		if n%2 == 1 {
			y, counts = model.MaxMagnitude, 1
		}
		e.Find(r, []float64{float64(1 + n/2)}, nil)
		e.Learn(r, n, counts, []float64{y}, []float64{0}, said, nil)
	}
	read := func(v *codec.Visitor) { effects.New(o).Visit(v, 2*keys) }
	require.NoError(t, codec.Read(stateOf(t, e, 2*keys), read))
}

func FuzzVisit(f *testing.F) {
	o := effects.Options{Inputs: 3, Outputs: 1, MaxKeys: 20, Kinds: effects.ColumnsEach, Sloped: 1}
	const rows = 50
	e, r, said := effects.New(o), effects.NewRow(o), make([]float64, o.Experts())
	rng := rand.New(rand.NewPCG(5, 5))
	for n := range uint64(rows) {
		x, y, v, counts := draw(rng, o)
		e.Find(r, x, nil)
		e.Say(said, r, 0)
		e.Learn(r, n, counts, y, v, said, sloped(o))
	}
	f.Add(stateOf(f, e, rows))
	f.Fuzz(func(t *testing.T, state []byte) {
		e, r, rng := effects.New(o), effects.NewRow(o), rand.New(rand.NewPCG(6, 6))
		said := make([]float64, o.Experts())
		read := codec.Reading(state)
		if e.Visit(&read, rows); read.End() != nil {
			return
		}
		require.Equal(t, state, stateOf(t, e, rows), "the state changed on its way")
		for n := range uint64(3) {
			x, y, v, counts := draw(rng, o)
			e.Find(r, x, nil)
			e.Say(said, r, 0)
			e.Learn(r, rows+n, counts, y, v, said, sloped(o))
			for _, s := range said {
				require.False(t, math.IsNaN(s), "an effect is no number")
			}
		}
	})
}

// A state with one wrong number is rejected, or a table that goes on.
func TestOneWrongNumber(t *testing.T) {
	o := effects.Options{Inputs: 3, Outputs: 1, MaxKeys: 20, Kinds: effects.ColumnsEach, Sloped: 1}
	const rows = 50
	e, r, said := effects.New(o), effects.NewRow(o), make([]float64, o.Experts())
	rng := rand.New(rand.NewPCG(5, 5))
	for n := range uint64(rows) {
		x, y, v, counts := draw(rng, o)
		e.Find(r, x, nil)
		e.Say(said, r, 0)
		e.Learn(r, n, counts, y, v, said, sloped(o))
	}
	state, rejected := stateOf(t, e, rows), 0
	wrong := []float64{0, 1, -1, 1e-300, 1e100, -1e101, 1e300, math.NaN(), math.Inf(1), math.Float64frombits(3)}
	for at := 0; at < len(state); at += 8 {
		for _, w := range wrong {
			bad := slices.Clone(state)
			binary.LittleEndian.PutUint64(bad[at:], math.Float64bits(w))
			e := effects.New(o)
			read := codec.Reading(bad)
			if e.Visit(&read, rows); read.End() != nil {
				rejected++
				continue
			}
			for n := range uint64(5) {
				x, y, v, counts := draw(rng, o)
				e.Find(r, x, nil)
				e.Say(said, r, 0)
				e.Learn(r, rows+n, counts, y, v, said, sloped(o))
				for _, s := range said {
					require.False(t, math.IsNaN(s) || math.IsInf(s, 0), "%g at %d: an effect is %g", w, at, s)
				}
			}
		}
	}
	assert.GreaterOrEqual(t, rejected, len(state)/8*3, "only %d states are rejected", rejected)
}

func stateOf(tb testing.TB, e *effects.Effects, n uint64) []byte {
	tb.Helper()
	v := codec.Appending(nil)
	e.Visit(&v, n)
	out, err := v.Appended()
	require.NoError(tb, err)
	return out
}

// A restored table goes on bit for bit, and its memory is that of the first.
func TestStatesContinue(t *testing.T) {
	for _, o := range []effects.Options{{Inputs: 1, Outputs: 1, MaxKeys: 5, Kinds: effects.ColumnsEach}, {Inputs: 4, Outputs: 2, MaxKeys: 200, Kinds: effects.ColumnsEach, Sloped: 2}} {
		rng := rand.New(rand.NewPCG(3, 3))
		all := []*effects.Effects{effects.New(o)}
		r, said := effects.NewRow(o), make([]float64, o.Experts()*o.Outputs)
		for n := range uint64(1500) {
			if n%211 == 0 {
				again := effects.New(o)
				read := codec.Reading(stateOf(t, all[0], n))
				again.Visit(&read, n)
				require.NoError(t, read.End())
				all = append(all, again)
			}
			x, y, v, counts := draw(rng, o)
			for _, e := range all {
				e.Find(r, x, nil)
				for j := range o.Outputs {
					e.Say(said[j*o.Experts():][:o.Experts()], r, j)
				}
				e.Learn(r, n, counts, y, v, said, sloped(o))
			}
		}
		for i, e := range all {
			assert.True(t, bytes.Equal(stateOf(t, e, 1500), stateOf(t, all[0], 1500)) && e.Bytes() == all[0].Bytes(), "table %d ends elsewhere", i)
		}
		assert.LessOrEqual(t, all[0].Bytes(), o.Bytes())
	}
}

// An empty table is small, whatever the most keys.
func TestTheTableGrows(t *testing.T) {
	o := effects.Options{Inputs: 3, Outputs: 1, MaxKeys: 1 << 16, Kinds: effects.ColumnsEach}
	empty, full := effects.New(o).Bytes(), o.Bytes()
	assert.True(t, empty <= 2000 && full >= 1<<16*100, "%d bytes empty, %d full", empty, full)
}
