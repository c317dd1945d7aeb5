package trees_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/modeltest"
	"hindsight/internal/model/trees"
	"hindsight/internal/model/window"
)

// step is a stream with steps, a wave and a trend.
func step(rng *rand.Rand, n, d int) modeltest.Sample {
	x := make([]float64, d)
	for j := range x {
		x[j] = rng.NormFloat64()
	}
	wave := x[d-1]
	x[0] = math.Floor(3 * x[0]) // Equal values.
	y := math.Sin(3*wave) + 0.1*rng.NormFloat64() + 1e-4*float64(n)
	if x[0] > 1 {
		y += 2
	}
	return modeltest.Sample{X: x, Y: y, Weight: 1}
}

func appended(tb testing.TB, visits ...func(v *codec.Visitor)) []byte {
	tb.Helper()
	v := codec.Appending(nil)
	for _, visit := range visits {
		visit(&v)
	}
	out, err := v.Appended()
	require.NoError(tb, err)
	return out
}

// fed feeds rounds of a stream.
func fed(o trees.Options, capacity, rounds int) (s *stream, rng *rand.Rand) {
	s, rng = newStream(o), rand.New(rand.NewPCG(1, 2))
	if capacity > 0 {
		s.w = window.New(capacity, s.layout)
		s.f = trees.New(o, s.w)
	}
	for n := range rounds {
		if sample := step(rng, n, o.Inputs); n < 128 {
			s.keep(sample, 0.5)
		} else {
			s.observe(sample, 0.5)
		}
	}
	return s, rng
}

// A forest restored at any round, also inside a fit and between cut points, continues bit
// for bit.
func TestARestoredForestContinues(t *testing.T) {
	for _, c := range []struct{ d, capacity, work, rounds, stretch int }{
		{3, 150, 3000, 200, 200}, {3, 150, 0, 128, 100}, {30, 1000, 20_000, 1400, 30}, {2, 60, 100, 300, 300}, {3, 1500, 20_000, 1000, 30},
	} {
		o := trees.Options{Seed: 7, Inputs: c.d, Columns: allKinds(), Work: c.work}
		s, rng := fed(o, c.capacity, c.rounds)
		other := &stream{}
		*other = *s
		got, want := make([]float64, trees.Kinds), make([]float64, trees.Kinds)
		for n := range c.stretch {
			before := appended(t, s.w.Visit, s.f.Visit)
			other.w = window.New(c.capacity, s.layout)
			other.f = trees.New(o, other.w)
			require.NoError(t, codec.Read(before, func(v *codec.Visitor) { other.w.Visit(v); other.f.Visit(v) }))
			require.True(t, bytes.Equal(before, appended(t, other.w.Visit, other.f.Visit)), "round %d: another state", n)
			sample := step(rng, n, c.d)
			for range 1 + n%3 {
				s.predict(want, sample.X, 0.25)
				other.predict(got, sample.X, 0.25)
				require.True(t, slices.Equal(got, want), "round %d: %v, want %v", n, got, want)
				s.observe(sample, 0.25)
				other.observe(sample, 0.25)
			}
			require.True(t, bytes.Equal(appended(t, s.w.Visit, s.f.Visit), appended(t, other.w.Visit, other.f.Visit)), "round %d: another state after it", n)
		}
	}
}

// Trees learn what a mean cannot.
func TestTreesLearn(t *testing.T) {
	o := trees.Options{Seed: 1, Inputs: 5, Columns: allKinds()}
	s, rng := fed(o, 0, 1500)
	p, loss, variance := make([]float64, trees.Kinds), make([]float64, trees.Kinds), 0.0
	for n := range 500 {
		sample := step(rng, 1500+n, o.Inputs)
		s.predict(p, sample.X, 0.7)
		for c := range p {
			loss[c] += (p[c] - sample.Y) * (p[c] - sample.Y) / 500
		}
		variance += (0.7 - sample.Y) * (0.7 - sample.Y) / 500
		s.observe(sample, 0.7)
	}
	t.Logf("losses %.3f of %.3f", loss, variance)
	for c, l := range loss {
		assert.LessOrEqual(t, l, 0.25*variance, "column %d: %g of %g", c, l, variance)
	}
}

// Labels and inputs of any magnitude keep every number finite.
func TestExtremes(t *testing.T) {
	o := trees.Options{Inputs: 2, Columns: allKinds()}
	s, rng := fed(o, 200, 200)
	p, sums := make([]float64, trees.Kinds), make([]int64, trees.Kinds)
	for n := range 600 {
		sample := step(rng, n, 2)
		if n%3 == 0 {
			sample.X[n%2], sample.Y = math.Copysign(model.MaxMagnitude, sample.X[1]), math.Copysign(model.MaxMagnitude, sample.Y)
		}
		s.observe(sample, sample.Y)
		s.w.Read(s.row, s.w.Slot(0))
		s.f.Sum(sums, s.row)
		s.f.Predict(p, sums, s.row, sample.Y)
		for _, v := range p {
			require.True(t, !math.IsNaN(v) && !math.IsInf(v, 0), "round %d: %v", n, p)
		}
	}
	state := appended(t, s.w.Visit, s.f.Visit)
	w := window.New(200, s.layout)
	f := trees.New(o, w)
	assert.NoError(t, codec.Read(state, func(v *codec.Visitor) { w.Visit(v); f.Visit(v) }))
}

func TestNothingAllocates(t *testing.T) {
	o := trees.Options{Inputs: 4, Columns: allKinds()}
	s, rng := fed(o, 300, 500)
	sample, p := step(rng, 1, 4), make([]float64, trees.Kinds)
	assert.EqualValues(t, 0, testing.AllocsPerRun(1000, func() { s.predict(p, sample.X, 1); s.observe(sample, 1) }))
}

// What a forest reads, it appends.
func FuzzVisit(f *testing.F) {
	o := trees.Options{Inputs: 1, Columns: []trees.Kind{trees.Labels, trees.Changes}, Work: 200}
	const capacity = 20
	for _, rounds := range []int{128, 150, 171, 200} {
		s, _ := fed(o, capacity, rounds)
		f.Add(appended(f, s.w.Visit, s.f.Visit))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		w := window.New(capacity, window.Layout{Inputs: 1})
		forest := trees.New(o, w)
		err := codec.Read(data, func(v *codec.Visitor) { w.Visit(v); forest.Visit(v) })
		if err != nil {
			assert.ErrorIs(t, err, codec.ErrCorrupt)
			return
		}
		assert.Equal(t, data, appended(t, w.Visit, forest.Visit), "another state")
		row := make([]float64, w.Columns())
		for range 30 {
			w.Add(row, w.Count(), 0, 1, 2, 1)
			forest.Observe(nil, nil)
		}
	})
}

func benchmarked(b *testing.B) (*stream, *rand.Rand, trees.Options) {
	b.Helper()
	o := trees.Options{Inputs: 12, Columns: allKinds()}
	s, rng := fed(o, 0, 9000)
	b.ReportAllocs()
	return s, rng, o
}

func BenchmarkObserve(b *testing.B) {
	s, rng, o := benchmarked(b)
	samples := make([]modeltest.Sample, 1000)
	for n := range samples {
		samples[n] = step(rng, n, o.Inputs)
	}
	n := 0
	for b.Loop() {
		s.observe(samples[n%len(samples)], 1)
		n++
	}
}

func BenchmarkPredict(b *testing.B) {
	s, rng, o := benchmarked(b)
	samples, p := make([]modeltest.Sample, 1000), make([]float64, trees.Kinds)
	for n := range samples {
		samples[n] = step(rng, n, o.Inputs)
	}
	n := 0
	for b.Loop() {
		s.predict(p, samples[n%len(samples)].X, 1)
		n++
	}
}

func BenchmarkRestore(b *testing.B) {
	s, _, o := benchmarked(b)
	state := appended(b, s.w.Visit, s.f.Visit)
	b.SetBytes(int64(len(state)))
	for b.Loop() {
		w := window.New(s.w.Capacity(), s.layout)
		f := trees.New(o, w)
		require.NoError(b, codec.Read(state, func(v *codec.Visitor) { w.Visit(v); f.Visit(v) }))
	}
}

// Trees beside effects learn what the effects leave, from the inputs that are no columns of keys:
// their predictions differ by the effects of rows whose other inputs are equal.
func TestBesideEffects(t *testing.T) {
	layout := window.Layout{Inputs: 5}
	w := window.New(2000, layout)
	offsets, units := make([]float64, 6), make([]float64, 6)
	for j := range units {
		units[j] = 2
	}
	w.Begin(offsets, units)
	f := trees.New(trees.Options{
		Seed: 1, Inputs: 5, Columns: []trees.Kind{trees.Beside}, Keys: trees.Keys{From: 1, Effect: 3, To: 4},
	}, w)
	rng := rand.New(rand.NewPCG(1, 1))
	row, columns := make([]float32, layout.Columns()), make([]float64, layout.Columns())
	predict := func() float64 {
		p, sums := make([]float64, 1), make([]int64, 1)
		w.Fill(row, columns, w.Count(), 0, 0)
		f.Sum(sums, row)
		f.Predict(p, sums, row, 0)
		return p[0]
	}
	loss := 0.0
	for n := range 4000 {
		x, first, second := rng.Float64(), rng.NormFloat64(), rng.NormFloat64()
		copy(columns, []float64{x, first, second, first, 0})
		y := first + second
		if x > 0.5 {
			y += 3
		}
		if n >= 3000 {
			loss += (predict() - y) * (predict() - y) / 1000
			before := predict()
			columns[1], columns[3] = columns[1]+0.5, 7
			got := predict() - before
			require.False(t, math.Abs(got-0.5) > 1e-5, "row %d: an effect of 0.5 more changes the prediction by %g", n, got)
			columns[1], columns[3] = first, first
		}
		w.Add(columns, w.Count(), 0, y, 0, 1)
		f.Observe(nil, nil)
	}
	assert.False(t, loss > 0.05, "a loss of %g", loss)
}

// histogram has rows of the largest sums, equal bins, empty bins, and a number of cut points.
func histogram(rng *rand.Rand, count, edges int) (h [trees.GroupSize]int64, total int64) {
	scale := int64(1) << (8 + rng.IntN(40))
	for range count {
		residual := rng.Int64N(2*scale) - scale
		packed := trees.Pack(residual)
		if rng.IntN(20) == 0 {
			packed = trees.Pack(1 << 60)
		}
		for lane := range trees.Lanes {
			bin := rng.IntN(edges + 1)
			if lane == 1 {
				bin = bin / 16 * 5
			}
			h[trees.Lanes*bin+lane] += packed
		}
		total += packed
	}
	return h, total
}

func TestLoopsEqualTheirTwins(t *testing.T) {
	rng, registers := rand.New(rand.NewPCG(5, 6)), modeltest.Registers(t)
	for round := range 2000 {
		registers(round / 2)
		edges := 63 - round%2*rng.IntN(64)
		h, total := histogram(rng, 1+rng.IntN(1<<rng.IntN(14)), edges)
		for _, least := range []float64{1, 2, 5} {
			got, want := trees.Best(&h, edges, total, least), trees.BestGo(&h, edges, total, least)
			require.True(t, got == want, "round %d: best split %+v, want %+v", round, got, want)
		}
		other, _ := histogram(rng, 100, 63)
		a, b := h, h
		trees.Derive(&a, &other)
		trees.DeriveGo(&b, &other)
		require.True(t, a == b, "round %d: another difference", round)
		const slots = 300
		packed, rows := make([]int64, slots), make([]uint16, rng.IntN(slots))
		var codes [trees.Lanes][]uint8
		for lane := range codes {
			codes[lane] = make([]uint8, slots)
			for i := range codes[lane] {
				codes[lane][i] = uint8(trees.Lanes * rng.IntN(64))
			}
		}
		for i := range packed {
			packed[i] = rng.Int64()
		}
		for i := range rows {
			rows[i] = uint16(rng.IntN(slots))
		}
		got, want := h, h
		trees.AddRows(&got, rows, packed, &codes)
		trees.AddRowsGo(&want, rows, packed, &codes)
		require.True(t, got == want, "round %d: another histogram", round)
	}
}

func TestLeavesEqualTheirTwin(t *testing.T) {
	for _, capacity := range []int{97, 1000} {
		s, _ := fed(trees.Options{Inputs: 3, Columns: allKinds()}, capacity, 1053)
		open := 0
		for column := range trees.Kinds {
			for number := range trees.Trees {
				got, want, exact := s.f.Leaves(column, number)
				require.True(t, slices.EqualFunc(got, want, slices.Equal), "column %d, tree %d: %v, want %v", column, number, got, want)
				if !exact {
					open++
				}
			}
		}
		assert.True(t, open != 0 && open != trees.Kinds*trees.Trees, "%d trees have cut points that are not present", open)
	}
}

func BenchmarkAddRows(b *testing.B) {
	const slots = 8192
	rng := rand.New(rand.NewPCG(5, 6))
	packed, rows := make([]int64, slots), make([]uint16, slots)
	var codes [trees.Lanes][]uint8
	for lane := range codes {
		codes[lane] = make([]uint8, slots)
		for i := range codes[lane] {
			codes[lane][i] = uint8(trees.Lanes * rng.IntN(64))
		}
	}
	for i := range rows {
		rows[i] = uint16(i)
	}
	var h [trees.GroupSize]int64
	for b.Loop() {
		trees.AddRows(&h, rows, packed, &codes)
	}
}

// mixedRow writes the inputs of a row: numbers, flags, ties, a constant, and equal columns.
func mixedRow(rng *rand.Rand, inputs []float64) {
	for j := range inputs {
		switch j % 6 {
		case 0, 5:
			inputs[j] = rng.NormFloat64()
		case 1:
			inputs[j] = float64(rng.IntN(2))
		case 2:
			inputs[j] = 1e6 + 0.09375*float64(rng.IntN(5)) // Neighbors in single precision.
		case 3:
			inputs[j] = 7
		case 4:
			inputs[j] = inputs[0] // A split of either column is as good.
		}
	}
}

// The forest has the bits of the naive forest, on rows of weights, with labels that come late,
// while the window slides, and with restores in the middle of fits and of cut points.
func TestForestIsTheNaiveForest(t *testing.T) {
	for name, c := range map[string]struct {
		o              trees.Options
		capacity, rows int
		late, restores int
		weighted       bool
	}{
		"a small window":      {trees.Options{Seed: 1, Inputs: 5, Work: 20_000}, 60, 450, 0, 5, false},
		"all work at once":    {trees.Options{Seed: 2, Inputs: 2, Deltas: 1}, 40, 160, 0, 0, false},
		"weights, late":       {trees.Options{Seed: 3, Inputs: 6, Deltas: 3, Work: 9000}, 150, 500, 9, 7, true},
		"drawn inputs":        {trees.Options{Seed: 4, Inputs: 30, Deltas: 4, Keyed: true, Keys: trees.Keys{From: 6, Effect: 8, To: 18}, Work: 40_000}, 100, 260, 0, 11, false},
		"large leaves":        {trees.Options{Seed: 5, Inputs: 3, Work: 25_000}, 1000, 1700, 0, 31, true},
		"two chunks of rows":  {trees.Options{Seed: 7, Inputs: 3, Work: 5000}, 1100, 1900, 3, 29, true},
		"fits of many rounds": {trees.Options{Seed: 6, Inputs: 24, Keys: trees.Keys{From: 22, Effect: 23, To: 24}, Work: 1600}, 1000, 2500, 2, 41, false},
	} {
		t.Run(name, func(t *testing.T) {
			c.o.Columns = allKinds()
			p := newPair(c.o, c.capacity)
			rng := rand.New(rand.NewPCG(c.o.Seed, 8))
			inFits, inCuts := 0, 0
			for n := range c.rows {
				mixedRow(rng, p.columns[:c.o.Inputs])
				counts := 1.0
				if c.weighted && n%3 == 0 {
					counts = math.Max(1e-4, rng.Float64())
				}
				p.step(t, rng, uint64(max(0, n-c.late)), counts)
				if c.restores > 0 && n%c.restores == 0 {
					if fits, cuts := p.f.Job(); fits {
						inFits++
					} else if cuts {
						inCuts++
					}
					p.restore(t)
				}
			}
			t.Logf("%d trees, %d restores in fits, %d in cut points", p.naive.done, inFits, inCuts)
			assert.True(t, p.naive.done >= 5 && (c.restores <= 0 || inFits != 0), "%d trees, %d restores in fits: too few", p.naive.done, inFits)
		})
	}
}

// pair is a forest with the naive one.
type pair struct {
	o       trees.Options
	layout  window.Layout
	w       *window.Window
	f       *trees.Forest
	naive   *naiveForest
	columns []float64
}

func newPair(o trees.Options, capacity int) *pair {
	l := window.Layout{Inputs: o.Inputs, Deltas: o.Deltas, Keyed: o.Keyed}
	p := &pair{o: o, layout: l, w: window.New(capacity, l), columns: make([]float64, l.Columns())}
	offsets, units := make([]float64, o.Inputs+1), make([]float64, o.Inputs+1)
	for j := range units {
		offsets[j], units[j] = 0.25, 1.5
	}
	p.w.Begin(offsets, units)
	p.f, p.naive = trees.New(o, p.w), newNaiveForest(o, p.w)
	return p
}

// step predicts and learns the row in the columns, whose prediction knew seen labels.
func (p *pair) step(t *testing.T, rng *rand.Rand, seen uint64, counts float64) {
	t.Helper()
	x := p.columns[:p.layout.Inputs]
	v := 0.5 * x[0]
	y := math.Abs(x[0]) + x[1]*x[1] + 0.3*rng.NormFloat64()
	if len(x) > 2 && x[2] > 1e6+0.2 {
		y++
	}
	row, got, sums := make([]float32, len(p.columns)), make([]float64, len(p.o.Columns)), make([]int64, len(p.o.Columns))
	after := uint64(0)
	if p.o.Keyed {
		after = seen - min(seen, p.w.Count()%5)
	}
	p.w.Fill(row, p.columns, seen, after, v)
	p.f.Sum(sums, row)
	p.f.Predict(got, sums, row, v)
	want, wantSums := p.naive.predict(row, v)
	var rows [trees.Abreast][]float32
	var abreast, alone [trees.Abreast][]int64
	for n := range rows {
		rows[n], abreast[n] = slices.Concat(row[n%len(row):], row[:n%len(row)]), make([]int64, len(sums))
		_, alone[n] = p.naive.predict(rows[n], v)
	}
	p.f.SumAbreast(&abreast, &rows, make([]float32, trees.Abreast*len(row)))
	require.Equal(t, alone, abreast)
	for c := range want {
		require.True(t, got[c] == want[c] && sums[c] == wantSums[c], "row %d, column %d: %v of %d, want %v of %d", p.w.Count(), c, got[c], sums[c], want[c], wantSums[c])
	}
	var shares []int
	if rng.IntN(2) == 0 {
		shares = []int{64, 1, 64, 32, 64}
	}
	if rng.IntN(2) == 0 {
		sums = nil
	}
	p.w.Add(p.columns, seen, after, y, v, counts)
	p.f.Observe(shares, sums)
	p.naive.observe(naiveRow{x: row, label: y, served: v, counts: p.w.Counts[p.w.Slot(0)]}, shares)
}

// restore continues with a forest that was read from the state.
func (p *pair) restore(t *testing.T) {
	t.Helper()
	state := appended(t, p.w.Visit, p.f.Visit)
	p.w = window.New(p.w.Capacity(), p.layout)
	p.f = trees.New(p.o, p.w)
	require.NoError(t, codec.Read(state, func(v *codec.Visitor) { p.w.Visit(v); p.f.Visit(v) }))
}
