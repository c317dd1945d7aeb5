package effects_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
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

// stream draws rows of inputs, in which the label depends on the first input and on the pair of
// the first two. Some values are missing, and some rows are light.
func draw(rng *rand.Rand, o effects.Options) (x, y, v []float64, counts float64) {
	for range o.Inputs {
		x = append(x, float64(rng.IntN(12)))
	}
	for j := range o.Outputs {
		effect := math.Sin(3*x[0]) + float64(j)
		if o.Inputs > 1 {
			effect += 2 * math.Sin(5*x[0]*x[1])
		}
		y, v = append(y, effect+.3*rng.NormFloat64()), append(v, float64(j)+.3*rng.NormFloat64())
	}
	counts = []float64{1, 1, .5, 1e-4}[rng.IntN(4)]
	return x, y, v, counts
}

// TestNaive compares the table with maps through evictions, sleep and trials.
func TestNaive(t *testing.T) {
	for _, o := range []effects.Options{
		{Inputs: 1, Outputs: 2, MaxKeys: 7, Kinds: effects.ColumnsEach, Sloped: 1, Numbers: 3},
		{Inputs: 2, Outputs: 1, MaxKeys: 100, Kinds: effects.ColumnsEach, Sloped: 1},
		{Inputs: 3, Outputs: 1, MaxKeys: 300, Kinds: effects.ColumnsEach},
		{Inputs: 10, Outputs: 2, MaxKeys: 500, Kinds: effects.ColumnsEach, Sloped: 2, Numbers: 2},
	} {
		t.Run(fmt.Sprint(o), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(o.Inputs), 36))
			e, plain, r := effects.New(o), newNaive(o), effects.NewRow(o)
			said, columns, slept := make([]float64, o.Experts()), make([]float64, o.Columns()), 0
			for row := range 2600 {
				x, y, v, counts := draw(rng, o)
				numbers := make([]float64, o.Numbers)
				for i := range numbers {
					numbers[i] = 2 * rng.NormFloat64()
				}
				e.Find(r, x, numbers)
				var served []float64
				for j := range o.Outputs {
					e.Say(said, r, j)
					near(t, row, "effects", said, plain.say(x, j))
					e.Fill(columns, r, j, uint64(row), 0.5)
					near(t, row, "columns", columns, plain.fill(x, j, row, 0.5))
					for _, s := range said {
						served = append(served, v[j]+s)
					}
				}
				for j, before := range sloped(o) {
					got := make([]float64, o.Products())
					e.SayProducts(got, r, j, v[j], before)
					want, _ := plain.products(x, numbers, j, v[j], before)
					near(t, row, "products", got, want[:len(got)])
				}
				e.Learn(r, uint64(row), counts, y, v, served, sloped(o))
				plain.learn(x, numbers, row, counts, y, v, served)
				require.True(t, e.Keys() == len(plain.keys), "row %d: %d keys, want %d", row, e.Keys(), len(plain.keys))
				for _, wakes := range plain.wakes {
					slept += min(wakes, 1)
				}
			}
			assert.True(t, o.Inputs != 10 || slept != 0, "no source slept")
		})
	}
}

func near(t *testing.T, row int, what string, got, want []float64) {
	t.Helper()
	require.Equal(t, len(want), len(got), "%v %v", row, what)
	for i := range got {
		require.True(t, math.Abs(got[i]-want[i]) <= 1e-9*(1+math.Abs(want[i])), "row %d: %s %d: %g, want %g", row, what, i, got[i], want[i])
	}
}

// one learns labels of one key, with v = 0, and returns the effects of the variants.
func one(weights, labels []float64) []float64 {
	o := effects.Options{Inputs: 1, Outputs: 1, MaxKeys: 1, Kinds: effects.ColumnsEach}
	e, r, said := effects.New(o), effects.NewRow(o), make([]float64, o.Experts())
	for n, y := range labels {
		e.Find(r, []float64{5}, nil)
		e.Say(said, r, 0)
		e.Learn(r, uint64(n), weights[n], []float64{y}, []float64{0}, said, sloped(o))
	}
	e.Find(r, []float64{5}, nil)
	e.Say(said, r, 0)
	return said
}

// Without drift the mean of a key is that of ridge regression: Σωy/(Σω + 1/s_0). With a large
// drift it is close to the last label.
func TestOneKey(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		var weights, labels []float64
		sum, total := 0.0, 0.0
		for range 1 + rng.IntN(30) {
			w, y := rng.Float64(), rng.NormFloat64()
			weights, labels = append(weights, w), append(labels, y)
			sum, total = sum+w*y, total+w
		}
		said := one(weights, labels)
		for i, s := range []float64{.1, 1, 10} {
			require.InDelta(t, sum/(total+1/s), said[i], 1e-12, i)
		}
		for i := range weights {
			weights[i] = 1
		}
		last := labels[len(labels)-1]
		labels = append(labels, last, last)
		weights = append(weights, 1, 1)
		said = one(weights, labels)
		require.False(t, math.Abs(said[5]-last) > 0.1*(1+math.Abs(slices.Max(labels))), "the largest drift says %g after %g", said[5], labels)
	}
}

// The residuals of keys add up: after many rows without drift e is the effect of the row.
func TestEffectsAdd(t *testing.T) {
	o := effects.Options{Inputs: 2, Outputs: 1, MaxKeys: 1000, Kinds: effects.ColumnsEach}
	e, r, said := effects.New(o), effects.NewRow(o), make([]float64, o.Experts())
	rng := rand.New(rand.NewPCG(2, 2))
	for n := range 20_000 {
		x := []float64{float64(1 + rng.IntN(20)), float64(1 + rng.IntN(20))}
		y := math.Sin(3*x[0]) + math.Cos(2*x[1])
		e.Find(r, x, nil)
		e.Say(said, r, 0)
		require.False(t, n > 15_000 && math.Abs(said[1]-y) > 0.05, "row %d: %v say %g, want %g", n, x, said[1], y)
		e.Learn(r, uint64(n), 1, []float64{y}, []float64{0}, said, sloped(o))
	}
}

// Slopes of numbers and factors of two keys leave less than half of what effects alone leave.
func TestProductsLearn(t *testing.T) {
	for name, c := range map[string]struct {
		o     effects.Options
		label func(a, b int, x float64) float64
		of    int
	}{
		"slopes":  {effects.Options{Inputs: 1, Numbers: 1}, func(a, _ int, x float64) float64 { return math.Sin(float64(5*a)) * x }, 2},
		"factors": {effects.Options{Inputs: 2}, func(a, b int, _ float64) float64 { return 2 * math.Sin(float64(5*a)) * math.Cos(float64(7*b)) }, 3},
	} {
		t.Run(name, func(t *testing.T) {
			o := c.o
			o.Outputs, o.Sloped, o.MaxKeys = 1, 1, 1000
			rng := rand.New(rand.NewPCG(36, 1))
			e, r, said, products := effects.New(o), effects.NewRow(o), make([]float64, o.Experts()), make([]float64, o.Products())
			single, product := 0.0, 0.0
			const rows = 8000
			for n := range uint64(rows) {
				a, b, x := rng.IntN(50), rng.IntN(50), rng.NormFloat64()
				y := c.label(a, b, x) + .1*rng.NormFloat64()
				e.Find(r, []float64{float64(a + 1), float64(b + 1)}[:o.Inputs], []float64{x}[:o.Numbers])
				e.Say(said, r, 0)
				e.SayProducts(products, r, 0, 0, effects.Labels{Deviation: 1})
				if n >= rows/2 {
					single += (y - said[1]) * (y - said[1])
					product += (y - products[c.of]) * (y - products[c.of])
				}
				e.Learn(r, n, 1, []float64{y}, []float64{0}, said, []effects.Labels{{Deviation: 1}})
			}
			require.Less(t, product, single/2)
			t.Log(product / single)
		})
	}
}

// Largest returns the inputs and the values of single keys.
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
