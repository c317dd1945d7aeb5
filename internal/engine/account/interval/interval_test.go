package interval_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine/account/interval"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/modeltest"
)

func levels() []float64 { return []float64{0.9, 0.99} }

// run serves and scores each residual at once.
func run(s *interval.State, residuals []float64) {
	for _, r := range residuals {
		w := serve(s, 2, r)
		s.Observe(interval.Round{Label: r, Scale: w.sigma, Radii: w.z})
	}
}

func TestNothingIsKnownBeforeItIs(t *testing.T) {
	s := interval.New(levels())
	for i := range 16 {
		require.True(t, !s.Known() && s.Scale() == 0, "an interval after %d residuals", i)
		s.Observe(interval.Round{Label: float64(i + 1)})
	}
	assert.True(t, s.Known() && s.Statistics(0).Scored == 0, "known %v, %+v", s.Known(), s.Statistics(0))
	st := s.Statistics(0)
	for _, v := range []float64{st.Coverage, st.RecentCoverage, st.LeastCoverage, st.MeanWidth, st.MeanScore} {
		assert.True(t, math.IsNaN(v), "%+v: a figure before any interval was scored", st)
	}
	zeros := interval.New(levels())
	run(zeros, make([]float64, 5000))
	assert.False(t, zeros.Known(), "an interval of no width")
	run(zeros, []float64{1, 1, 1})
	assert.True(t, zeros.Known(), "no interval after zeros and something else")
}

func TestResidualsScaledByPowersOfTwo(t *testing.T) {
	for _, power := range []int{-300, -20, 1, 64, 300} {
		a, b := interval.New(levels()), interval.New(levels())
		for i, r := range residuals(5, 3000) {
			v, w := serve(a, 2, r), serve(b, 2, math.Ldexp(r, power))
			require.True(t, math.Ldexp(v.sigma, power) == w.sigma && slices.Equal(v.z, w.z), "2^%d, round %d: %v, %v", power, i, v, w)
			a.Observe(interval.Round{Label: v.residual, Scale: v.sigma, Radii: v.z})
			b.Observe(interval.Round{Label: w.residual, Scale: w.sigma, Radii: w.z})
		}
	}
}

// An outlier of any size is forgotten: 2,000 rounds later the intervals are
// about as wide as if it had not been.
func TestOneOutlier(t *testing.T) {
	plain := residuals(6, 4000)
	for i := range plain {
		plain[i] = math.Sin(float64(i) * float64(i)) // Neither zeros nor outliers.
	}
	for _, outlier := range []float64{1e3, 1e101, math.MaxFloat64, math.Inf(-1)} {
		a, b := interval.New(levels()), interval.New(levels())
		run(a, plain[:2000])
		run(b, plain[:2000])
		b.Observe(interval.Round{Label: outlier, Scale: b.Scale(), Radii: []float64{b.Radius(0), b.Radius(1)}})
		run(a, plain[2000:])
		run(b, plain[2000:])
		for l := range levels() {
			w, v := a.Scale()*a.Radius(l), b.Scale()*b.Radius(l)
			t.Logf("%g, level %g: %.4g beside %.4g", outlier, levels()[l], v, w)
			assert.True(t, v < 1.5*w && v > w/1.5, "after %g the half width is %g, and would be %g", outlier, v, w)
		}
	}
	s := interval.New(levels())
	run(s, plain)
	before := s.AppendBinary(nil)
	s.Observe(interval.Round{Label: math.NaN(), Scale: s.Scale(), Radii: []float64{1, 1}})
	assert.Equal(t, s.AppendBinary(nil), before, "a miss that is no number is counted")
}

// finite reports whether all that a state says is a number.
func finite(s *interval.State) bool {
	ok := true
	check := func(v float64) { ok = ok && !math.IsNaN(v) && !math.IsInf(v, 0) }
	check(s.Scale())
	for l := range levels() {
		check(s.Radius(l))
		st := s.Statistics(l)
		if st.Scored > 0 {
			check(st.Coverage)
			check(st.MeanWidth)
			check(st.MeanScore)
		}
	}
	return ok
}

func TestNeverNaN(t *testing.T) {
	extremes := []float64{0, 5e-324, 1e-310, 1e-160, 1, 1e101, math.MaxFloat64, math.Inf(1)}
	for i, a := range extremes {
		for _, b := range extremes[i:] {
			s := interval.New(levels())
			for n := range 1500 {
				r := a
				if n%5 == 3 || n/300%2 == 1 {
					r = b
				}
				run(s, []float64{r})
				require.True(t, finite(s), "%g and %g, round %d: %g, %g, %+v", a, b, n, s.Scale(), s.Radius(0), s.Statistics(0))
			}
			assert.NoError(t, interval.New(levels()).Restore(s.AppendBinary(nil)), "%v %v", a, b)
		}
	}
	// What was served comes from elsewhere, and may be anything.
	s := interval.New(levels())
	run(s, residuals(1, 50))
	scored := s.Statistics(0).Scored
	for _, sigma := range []float64{-1, math.NaN(), math.Inf(1), 1e300} {
		s.Observe(interval.Round{Label: 1, Scale: sigma, Radii: []float64{1, 1}})
	}
	for _, z := range [][]float64{nil, {1}, {1, 1, 1}, {math.NaN(), 1}, {1, math.Inf(-1)}, {1e31, 1}} {
		s.Observe(interval.Round{Label: 1, Scale: 1, Radii: z})
	}
	assert.True(t, finite(s) && s.Statistics(0).Scored == scored, "intervals that no state serves were scored: %+v", s.Statistics(0))
}

func TestPanicsOnNoLevel(t *testing.T) {
	for _, level := range []float64{0, 1, -1, 2, math.NaN()} {
		func() {
			defer func() { assert.NotNil(t, recover(), "level %g is taken", level) }()
			interval.New([]float64{level})
		}()
	}
}

func TestRestoreContinues(t *testing.T) {
	all := residuals(8, 2600)
	for _, cut := range []int{0, 1, 8, 16, 17, 100, 117, 600, 1015, 1016, 2100} {
		a := interval.New(levels())
		run(a, all[:cut])
		state := a.AppendBinary(nil)
		b := interval.New(levels())
		run(b, all[:30]) // What it was is gone.
		require.NoError(t, b.Restore(state), cut)
		assert.Equal(t, b.Size(), a.Size(), cut)
		run(a, all[cut:])
		run(b, all[cut:])
		if !bytes.Equal(a.AppendBinary(nil), b.AppendBinary(nil)) || a.Radius(1) != b.Radius(1) || a.Statistics(0) != b.Statistics(0) {
			t.Errorf("after %d: the restored state goes another way", cut)
		}
	}
}

func TestRestoreRejects(t *testing.T) {
	s := interval.New(levels())
	run(s, residuals(9, 1200))
	good := s.AppendBinary(nil)
	put := func(at int, v uint64) []byte { return binary.LittleEndian.AppendUint64(slices.Clone(good[:8*at]), v) }
	rest := func(at int, v uint64) []byte { return append(put(at, v), good[8*at+8:]...) }
	// The levels begin at word 5 and have 19 words; rings follow at word 43.
	for name, data := range map[string][]byte{
		"nothing":              nil,
		"a byte less":          good[:len(good)-1],
		"a byte more":          append(slices.Clone(good), 0),
		"more scored":          rest(1, 1201),
		"none scored":          rest(1, 0),
		"too many":             rest(0, 1<<63),
		"a weight of 0":        rest(3, 0),
		"a negative mean":      rest(2, math.Float64bits(-1)),
		"no mean":              rest(4, math.Float64bits(math.NaN())),
		"a tracker at Inf":     rest(5, math.Float64bits(math.Inf(1))),
		"a negative square":    rest(11, math.Float64bits(-1)),
		"a negative unit":      rest(14, math.Float64bits(-1)),
		"more covered":         rest(18, 1199),
		"fewer covered":        rest(18, 3),
		"a window of 501":      rest(19, 501),
		"a window that is not": rest(19, 500),
		"a score above":        rest(43, math.Float64bits(17)),
		"a score below":        rest(43, math.Float64bits(-1)),
		"a bit too many":       rest(43+100+15, 1<<63),
	} {
		assert.ErrorIs(t, s.Restore(data), codec.ErrCorrupt, name)
		require.Equal(t, s.AppendBinary(nil), good, name)
	}
	assert.ErrorIs(t, interval.New([]float64{0.9}).Restore(good), codec.ErrCorrupt)
}

func FuzzRestore(f *testing.F) {
	for _, n := range []int{0, 5, 30, 1100} {
		s := interval.New(levels())
		run(s, residuals(10, n))
		f.Add(s.AppendBinary(nil))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := interval.New(levels())
		if err := s.Restore(data); err != nil {
			require.ErrorIs(t, err, codec.ErrCorrupt)
			return
		}
		require.Equal(t, s.AppendBinary(nil), data, "a state is not the bytes that it came from")
		run(s, []float64{1, 0, -1e101, 3, math.Inf(1)})
		require.True(t, finite(s), "%g, %g, %+v", s.Scale(), s.Radius(0), s.Statistics(0))
		require.NoError(t, interval.New(levels()).Restore(s.AppendBinary(nil)))
	})
}

func TestSizeAndAllocations(t *testing.T) {
	s := interval.New(levels())
	assert.Equal(t, s.Bytes(), s.Size())
	run(s, residuals(11, 20))
	t.Logf("%d bytes, before the first scored %d", s.Size(), interval.New(levels()).Size())
	assert.Equal(t, s.Bytes(), s.Size())
	if modeltest.RaceDetector {
		return
	}
	z, state := []float64{0, 0}, s.AppendBinary(nil)
	if n := testing.AllocsPerRun(1000, func() {
		z[0], z[1] = s.Radius(0), s.Radius(1)
		s.Observe(interval.Round{Label: 1, Scale: s.Scale(), Radii: z})
		s.Statistics(1)
		state = s.AppendBinary(state[:0])
	}); n != 0 {
		t.Errorf("%g allocations a round", n)
	}
}

// coverage is what part of the labels of all but the first 200 rounds the
// intervals held, where every label comes so many rounds late.
func coverage(s *interval.State, levels []float64, residuals []float64, late int) []float64 {
	hits, waiting := make([]float64, len(levels)), []served{}
	for i, residual := range residuals {
		waiting = append(waiting, serve(s, len(levels), residual))
		if i < late {
			continue
		}
		w := waiting[i-late]
		s.Observe(interval.Round{Label: w.residual, Scale: w.sigma, Radii: w.z})
		for l := range levels {
			if half := w.sigma * max(w.z[l], 0); i-late >= 200 && -half <= w.residual && w.residual <= half {
				hits[l]++
			}
		}
	}
	for l := range hits {
		hits[l] /= float64(len(residuals) - late - 200)
	}
	return hits
}

// Coverage on published streams: over all but the first 200 rounds, and over
// every window of 500 rounds that begins after the first 500. Late labels leave
// less of it.
func TestCoverageOnStreams(t *testing.T) {
	if testing.Short() || modeltest.RaceDetector {
		t.Skip("long")
	}
	levels := []float64{0.9, 0.99}
	bars := []struct{ least, most, window float64 }{{0.895, 0.915, 0.86}, {0.987, 0.995, 0.97}}
	for _, name := range modeltest.Regressions() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, residuals := interval.New(levels), modeltest.Residuals(t, name)
			covers := coverage(s, levels, residuals, 0)
			for l, b := range bars {
				st, covered := s.Statistics(l), covers[l]
				t.Logf("%.2f: covered %.4f (all %.4f), least window %.3f, mean width %.4g, interval score %.4g",
					levels[l], covered, st.Coverage, st.LeastCoverage, st.MeanWidth, st.MeanScore)
				assert.False(t, covered < b.least || covered > b.most || st.LeastCoverage < b.window, "level %g: want coverage from %g to %g, and %g in every window", levels[l], b.least, b.most, b.window)
			}
			for _, late := range []int{1, 10, 100} {
				covers := coverage(interval.New(levels), levels, residuals, late)
				t.Logf("%d late: covered %.4f", late, covers)
				assert.False(t, covers[0] < 0.87 || covers[1] < 0.987, "labels %d late: coverage %.4f", late, covers)
			}
		})
	}
}

// naiveShape goes through all rounds anew for whatever is asked. The rounds are those with an interval,
// after the first ones, whose predictions alone are known.
type naiveShape struct {
	first, predictions, scores []float64
	missed                     []bool
}

// parts are u of the knots for a prediction, after some rounds.
func (s *naiveShape) parts(value float64, rounds int) []float64 {
	before := slices.Concat(s.first, s.predictions[:rounds])
	before = before[max(0, len(before)-200):]
	rank := 0.
	for _, v := range before {
		switch {
		case v < value:
			rank += 1 / float64(len(before))
		case v == value:
			rank += 0.5 / float64(len(before))
		}
	}
	u := make([]float64, 9)
	for j := range u {
		u[j] = math.Max(0, 1-math.Abs(8*rank-float64(j)))
	}
	return u
}

func (s *naiveShape) factor(value float64) float64 {
	sums, counts, bends := make([]float64, 9), make([]float64, 9), make([]float64, 9)
	sum, count := 0., 0.
	for i, score := range s.scores {
		w := math.Pow(0.999, float64(len(s.scores)-1-i))
		sum += w * score
		count += w
		step := -0.1
		if s.missed[i] {
			step = 0.9
		}
		for j, u := range s.parts(s.predictions[i], i) {
			sums[j] += w * u * score
			counts[j] += w * u
			bends[j] = math.Max(-2, math.Min(2, bends[j]+0.02*u*step))
		}
	}
	if sum == 0 {
		return 1
	}
	size, bend := 0., 0.
	for j, u := range s.parts(value, len(s.scores)) {
		size += u * (sums[j] + 20*sum/count) / ((counts[j] + 20) * sum / count)
		bend += u * bends[j]
	}
	return size * math.Exp(bend)
}

func TestShapeEqualsNaive(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	s, n := interval.New([]float64{0.9}), &naiveShape{}
	for round := range 900 {
		value := rng.NormFloat64()
		if rng.IntN(5) == 0 {
			value = math.Round(value) // A tie, now and then.
		}
		r := interval.Round{Served: value, Label: value + math.Exp(value)*rng.NormFloat64()}
		if !s.Known() {
			n.first = append(n.first, value)
			s.Observe(r)
			continue
		}
		factor := n.factor(value)
		got, want := s.ScaleAt(value), s.Scale()*factor
		require.True(t, math.Abs(got-want) <= 1e-9*want, "round %d: %g, want %g", round, got, want)
		r.Scale, r.Radii = s.ScaleAt(value), []float64{s.Radius(0)}
		size := math.Abs(r.Label - value)
		n.predictions = append(n.predictions, value)
		n.scores = append(n.scores, math.Min(16, size/s.Scale()))
		n.missed = append(n.missed, size > r.Scale*r.Radii[0])
		s.Observe(r)
		if round%150 == 0 {
			restored := interval.New([]float64{0.9})
			require.NoError(t, restored.Restore(s.AppendBinary(nil)))
			s = restored
		}
	}
}

// Where the noise grows with the prediction, every fifth of the predictions has the coverage, and
// the intervals are narrower than with one scale for all.
func TestIntervalsFollowThePrediction(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	rows, noise := make([]float64, 20_000), make([]float64, 20_000)
	for i := range rows {
		rows[i] = math.Exp(rng.NormFloat64())
		noise[i] = 0.5 * rows[i] * rng.NormFloat64()
	}
	run := func(scale func(s *interval.State, value float64) float64) (shares []float64, width float64) {
		s := interval.New([]float64{0.9})
		bounds := slices.Sorted(slices.Values(rows))
		inside, all := make([]float64, 5), make([]float64, 5)
		for i, value := range rows {
			r := interval.Round{Served: value, Label: value + noise[i]}
			if s.Known() {
				r.Scale, r.Radii = scale(s, value), []float64{s.Radius(0)}
			}
			if s.Observe(r); i < 1000 {
				continue
			}
			at, _ := slices.BinarySearch(bounds, value)
			all[at*5/len(rows)]++
			if math.Abs(noise[i]) <= r.Scale*r.Radii[0] {
				inside[at*5/len(rows)]++
			}
		}
		for k := range inside {
			shares = append(shares, inside[k]/all[k])
		}
		return shares, s.Statistics(0).MeanWidth
	}
	shares, width := run((*interval.State).ScaleAt)
	plain, plainWidth := run(func(s *interval.State, _ float64) float64 { return s.Scale() })
	t.Logf("shares %.3f, width %.3g; of one scale %.3f, %.3g", shares, width, plain, plainWidth)
	assert.True(t, slices.Min(shares) > 0.88 && slices.Max(shares) < 0.92, "the fifths have %.3f, want .88 to .92", shares)
	assert.True(t, width < 0.9*plainWidth, "a width of %g, with one scale %g", width, plainWidth)
}
