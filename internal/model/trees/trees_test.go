package trees_test

import (
	"bytes"
	"errors"
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
		{3, 150, 3000, 200, 400}, {3, 150, 0, 128, 100}, {30, 1000, 20_000, 1400, 30}, {2, 60, 100, 300, 600},
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
	p := make([]float64, trees.Kinds)
	for n := range 600 {
		sample := step(rng, n, 2)
		if n%3 == 0 {
			sample.X[n%2], sample.Y = math.Copysign(model.MaxMagnitude, sample.X[1]), math.Copysign(model.MaxMagnitude, sample.Y)
		}
		s.observe(sample, sample.Y)
		s.w.Read(s.row, s.w.Slot(0))
		s.f.Predict(p, make([]int64, trees.Kinds), s.row, sample.Y)
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
			assert.True(t, errors.Is(err, codec.ErrCorrupt) || errors.Is(err, model.ErrCorruptState), err)
			return
		}
		assert.Equal(t, data, appended(t, w.Visit, forest.Visit), "another state")
		row := make([]float64, w.Columns())
		for range 30 {
			w.Add(row, w.Count(), 1, 2, 1)
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
