package history_test

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

	"hindsight/internal/engine/account"
	"hindsight/internal/engine/account/classes"
	"hindsight/internal/engine/account/history"
	"hindsight/internal/model/codec"
)

// round is an observation with what was to be told after it.
type round struct {
	performance account.Performance
	classes     *classes.Performance
	after       history.Moment
}

func figures(rng *rand.Rand) account.Figures {
	scale := math.Exp(20 * rng.NormFloat64())
	return account.Figures{Loss: scale * rng.Float64(), RunningMean: scale * rng.Float64(), LastLabel: scale * rng.Float64()}
}

func classFigures(rng *rand.Rand) classes.Figures {
	return classes.Figures{
		Errors: float64(rng.IntN(2)), LogLoss: rng.ExpFloat64(), Brier: 2 * rng.Float64(),
		Majority: float64(rng.IntN(2)), Last: float64(rng.IntN(2)),
	}
}

// rounds are n rounds of a model whose experts become more, up to too many.
func rounds(seed uint64, shape history.Shape, n int) []round {
	rng := rand.New(rand.NewPCG(seed, 7))
	all := make([]round, n)
	counts := make([]uint64, 0, 1+shape.Levels)
	if shape.Levels > 0 {
		counts = counts[:1+shape.Levels]
	}
	for i := range all {
		r := &all[i]
		r.performance = account.Performance{Observations: 1, Prequential: figures(rng), Served: figures(rng)}
		if i%9 == 0 { // The first, and labels that were set aside.
			r.performance = account.Performance{}
		}
		if shape.Classes {
			r.performance.Prequential.RunningMean, r.performance.Prequential.LastLabel = 0, 0
			r.performance.Served.RunningMean, r.performance.Served.LastLabel = 0, 0
			r.classes = &classes.Performance{Observations: r.performance.Observations}
			if r.classes.Observations > 0 {
				r.classes.Prequential, r.classes.Served = classFigures(rng), classFigures(rng)
			}
		}
		if i > 20 && shape.Levels > 0 {
			counts[0]++
			for level := range shape.Levels {
				counts[1+level] += uint64(rng.IntN(2))
			}
		}
		r.after = history.Moment{
			Time: int64(i)*1_000_000_007 - 5_000_000_000, Regret: rng.NormFloat64(), RegretBound: 1e5 * rng.Float64(),
			Dictionary: i / 3, Counts: append([]uint64(nil), counts...),
		}
		if i < 30 {
			r.after.Regret, r.after.RegretBound = math.NaN(), math.NaN()
		}
		for k := range min(i/100, 70) {
			r.after.Weights = append(r.after.Weights, rng.Float64()/float64(k+1))
		}
	}
	return all
}

func observe(h *history.History, all []round) {
	for i := range all {
		if h.Observe(&all[i].performance, all[i].classes) {
			h.Complete(&all[i].after)
		}
	}
}

// naive are the points of all rounds, made from scratch: of the least power of two of
// observations of which there are fewer than 256.
func naive(all []round, shape history.Shape) []history.Point {
	stride := 1
	for len(all)/stride >= history.MaxPoints {
		stride *= 2
	}
	var points []history.Point
	for from := 0; from < len(all); from += stride {
		part := all[from:min(from+stride, len(all))]
		p := history.Point{Sequence: uint64(from + len(part)), Moment: part[len(part)-1].after}
		before := make([]uint64, len(p.Counts))
		if from > 0 {
			before = all[from-1].after.Counts
		}
		for _, r := range part {
			p.Performance.Add(r.performance)
			if shape.Classes {
				if p.Classes == nil {
					p.Classes = new(classes.Performance)
				}
				p.Classes.Add(*r.classes)
			}
		}
		for level := range shape.Levels {
			p.Coverage = append(p.Coverage, float64(p.Counts[1+level]-before[1+level])/float64(p.Counts[0]-before[0]))
		}
		p.Weights = p.Weights[:min(len(p.Weights), history.MaxExperts)]
		p.Counts = nil
		points = append(points, p)
	}
	return points
}

// numbers are those of a point that are rounded.
func numbers(p *history.Point) []float64 {
	of := func(f account.Figures) []float64 { return []float64{f.Loss, f.RunningMean, f.LastLabel} }
	out := append(of(p.Performance.Prequential), of(p.Performance.Served)...)
	out = append(out, p.Performance.Observations, p.Regret, p.RegretBound, float64(p.Dictionary))
	if p.Classes != nil {
		out = append(out, p.Classes.Observations)
		for _, f := range []classes.Figures{p.Classes.Prequential, p.Classes.Served} {
			out = append(out, f.Errors, f.LogLoss, f.Brier, f.Majority, f.Last)
		}
	}
	return append(out, p.Coverage...)
}

// differs says where two histories differ by more than a rounding a doubling.
func differs(got, want []history.Point) string {
	if len(got) != len(want) {
		return fmt.Sprintf("%d points, want %d", len(got), len(want))
	}
	const digits = 1e-5
	for n := range got {
		a, b := &got[n], &want[n]
		if a.Sequence != b.Sequence || a.Time != b.Time || a.Dictionary != b.Dictionary || (a.Classes == nil) != (b.Classes == nil) {
			return fmt.Sprintf("point %d is %+v, want %+v", n, a, b)
		}
		x, y := numbers(a), numbers(b)
		if len(x) != len(y) || len(a.Weights) != len(b.Weights) {
			return fmt.Sprintf("point %d has %d numbers and %d weights, want %d and %d", n, len(x), len(a.Weights), len(y), len(b.Weights))
		}
		for k, w := range a.Weights {
			if math.Abs(w-b.Weights[k]) > 1.0/(1<<16) {
				return fmt.Sprintf("point %d: weight %d is %g, want %g", n, k, w, b.Weights[k])
			}
		}
		for i := range x {
			if math.IsNaN(x[i]) != math.IsNaN(y[i]) || math.Abs(x[i]-y[i]) > digits*math.Abs(y[i]) {
				return fmt.Sprintf("point %d: number %d is %g, want %g", n, i, x[i], y[i])
			}
		}
	}
	return ""
}

func shapes() map[string]history.Shape {
	return map[string]history.Shape{
		"labels": {}, "levels": {Levels: 3}, "classes": {Classes: true},
	}
}

// begin is a history of nothing.
func begin(shape history.Shape, from uint64) *history.History {
	if shape.Levels == 0 {
		return history.New(shape, from, nil)
	}
	return history.New(shape, from, make([]uint64, 1+shape.Levels))
}

// Of any number of rounds the points are those that are made of all rounds from
// scratch: at most 256, each observation in one.
func TestHistoryIsThatOfAllRounds(t *testing.T) {
	t.Parallel()
	for name, shape := range shapes() {
		all := rounds(1, shape, 20_000)
		h := begin(shape, 0)
		for n := range len(all) + 1 {
			if n < 20 || n%97 == 0 || n >= 254 && n <= 258 || n >= 510 && n <= 514 || n == len(all) {
				var now *history.Moment
				if n > 0 {
					now = &all[n-1].after
				}
				got := h.Points(0, now)
				require.True(t, len(got) <= history.MaxPoints && h.Sequence() == uint64(n), "%s: %d points of %d rounds", name, len(got), h.Sequence())
				what := differs(got, naive(all[:n], shape))
				require.True(t, what == "", "%s, %d rounds: %s", name, n, what)
				sum := 0.0
				for _, p := range got {
					sum += p.Performance.Observations
				}
				require.True(t, sum == float64(n-(n+8)/9), "%s: the points are of %g scored rounds of %d", name, sum, n)
			}
			if n < len(all) {
				observe(h, all[n:n+1])
			}
		}
	}
}

// most are counts that no history exceeds.
func most(shape history.Shape) []uint64 {
	if shape.Levels == 0 {
		return nil
	}
	counts := make([]uint64, 1+shape.Levels)
	for i := range counts {
		counts[i] = 1 << 50
	}
	return counts
}

// What is not the history of the model at hand is rejected.
func TestDecodeRejects(t *testing.T) {
	t.Parallel()
	shape := history.Shape{Levels: 1}
	all := rounds(7, shape, 600)
	h := begin(shape, 0)
	observe(h, all)
	data, counts := h.Append(nil), all[len(all)-1].after.Counts
	_, err := history.Decode(data, shape, 600, counts)
	require.NoError(t, err)
	// The places of from, stride, points, experts, the first row and the open point.
	const row = 33
	open := row + 4*150*(5+7+2+3)
	put := func(at int, v uint64) func([]byte) {
		return func(b []byte) { binary.LittleEndian.PutUint64(b[at:], v) }
	}
	word := func(n int, v float32) func([]byte) {
		return func(b []byte) { binary.LittleEndian.PutUint32(b[row+4*n:], uint32(math.Float64bits(float64(v))>>32)) }
	}
	for what, spoil := range map[string]func([]byte){
		"a version": func(b []byte) { b[0] = 9 }, "from": put(1, 1), "an endless sequence": put(1, 1<<63),
		"no stride": put(9, 0), "a stride of 3": put(9, 3), "points of 1": put(9, 1), "256 points": put(17, 256),
		"few long points": put(17, 100), "too many experts": put(25, 65),
		"a regret": word(2, float32(math.Inf(1))), "a dictionary of parts": word(4, 1.5), "a dictionary below 0": word(4, -1),
		"more scored than there are": word(5, 5), "scored in part": word(5, 1.5), "scored below 0": word(5, -1),
		"a loss": word(6, float32(math.NaN())), "more held than scored": word(13, 3),
		"an open point of 2": put(open, 2), "scored of nothing": put(open+8, math.Float64bits(1)), "sums of nothing": put(open+16, math.Float64bits(1)),
		"a sum": put(open+16, math.Float64bits(math.NaN())), "counts before": put(open+8*8, counts[0]+1), "changes": put(open+8*10, 101),
	} {
		bad := slices.Clone(data)
		spoil(bad)
		_, err := history.Decode(bad, shape, 600, counts)
		assert.ErrorIs(t, err, codec.ErrCorrupt, what)
	}
	h.Mark(history.Mark{Sequence: 601})
	for _, bad := range [][]byte{h.Append(nil), data} {
		_, err := history.Decode(bad, shape, 599, counts)
		assert.ErrorIs(t, err, codec.ErrCorrupt)
	}
	_, err = history.Decode(h.Append(nil), shape, 600, counts)
	assert.ErrorIs(t, err, codec.ErrCorrupt)
}

// A history that is written and read goes on bit for bit. One that is cut, or has a
// byte more, is rejected.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for name, shape := range shapes() {
		all := rounds(2, shape, 5000)
		for _, n := range []int{0, 1, 7, 255, 256, 257, 511, 512, 1024, 1777, 4999} {
			a := begin(shape, 0)
			observe(a, all[:n])
			for k := range n / 20 {
				a.Mark(history.Mark{Sequence: uint64(k + 1), Time: int64(-k), Rise: k%3 == 0})
			}
			data := a.Append(nil)
			b, err := history.Decode(data, shape, uint64(n), most(shape))
			require.NoError(t, err, "%v %v", name, n)
			require.True(t, bytes.Equal(b.Append(nil), data) && len(b.Marks()) == min(n/20, history.MaxMarks), "%s, %d rounds: read and written it is another", name, n)
			observe(a, all[n:])
			observe(b, all[n:])
			require.True(t, bytes.Equal(a.Append(nil), b.Append(nil)), "%s, %d rounds: it goes on otherwise", name, n)
			for cut := 0; cut < len(data); cut += 1 + len(data)/50 {
				_, err := history.Decode(data[:cut], shape, uint64(n), most(shape))
				require.ErrorIs(t, err, codec.ErrCorrupt, "%v %v %v", name, cut, len(data))
			}
			_, err = history.Decode(append(data, 0), shape, uint64(n), most(shape))
			require.ErrorIs(t, err, codec.ErrCorrupt, "%s, a byte too many", name)
		}
	}
}

// A clone, and the points that were read, stay as they are.
func TestCloneStays(t *testing.T) {
	t.Parallel()
	shape := history.Shape{Levels: 2}
	all := rounds(3, shape, 3000)
	h := begin(shape, 0)
	observe(h, all[:700])
	h.Mark(history.Mark{Sequence: 5})
	clone, before := h.Clone(), h.Append(nil)
	points := clone.Points(0, &all[699].after)
	observe(h, all[700:])
	h.Mark(history.Mark{Sequence: 6})
	what := differs(clone.Points(0, &all[699].after), points)
	assert.True(t, what == "" && bytes.Equal(clone.Append(nil), before), "a clone went on with its original: %s", what)
}

// A history that begins later is of the observations from there on. Points after a
// sequence are the last ones.
func TestFromAndAfter(t *testing.T) {
	t.Parallel()
	shape := history.Shape{Levels: 1}
	all := rounds(4, shape, 1500)
	const from = 700
	h := history.New(shape, from, all[from-1].after.Counts)
	observe(h, all[from:])
	whole := h.Points(0, &all[len(all)-1].after)
	first, last := whole[0], whole[len(whole)-1]
	if first.Sequence != from+4 || last.Sequence != 1500 || h.Completed() != 1500 {
		t.Fatalf("from %d to %d, complete to %d", first.Sequence, last.Sequence, h.Completed())
	}
	for _, after := range []uint64{0, from, from + 3, from + 4, 1000, 1499, 1500, 2000} {
		got := h.Points(after, nil)
		for len(whole) > 0 && whole[0].Sequence <= after {
			whole = whole[1:]
		}
		assert.Equal(t, "", differs(got, whole), after)
	}
}

// The newest 100 changes are kept.
func TestMarks(t *testing.T) {
	t.Parallel()
	h := begin(history.Shape{}, 0)
	for k := range uint64(250) {
		h.Mark(history.Mark{Sequence: k, Time: int64(k), Rise: k%2 == 0})
		marks := h.Marks()
		if want := min(k+1, history.MaxMarks); uint64(len(marks)) != want || marks[0].Sequence != k+1-want || marks[want-1].Sequence != k {
			t.Fatalf("after %d changes there are %d, from %d to %d", k+1, len(marks), marks[0].Sequence, marks[len(marks)-1].Sequence)
		}
	}
}

// In the steady state an observation allocates nothing, and the memory stays as it is.
func TestSteadyState(t *testing.T) {
	for name, shape := range shapes() {
		all := rounds(5, shape, 9000)
		h := begin(shape, 0)
		observe(h, all)
		size, n := h.Size(), 0
		if allocated := testing.AllocsPerRun(3000, func() {
			r := &all[len(all)-1-n%1000]
			n++
			if h.Observe(&r.performance, r.classes) {
				h.Complete(&all[len(all)-1].after)
			}
		}); allocated != 0 {
			t.Errorf("%s: %g allocations an observation", name, allocated)
		}
		assert.Equal(t, size, h.Size(), name)
		t.Logf("%s, %d experts: %d bytes", name, history.MaxExperts, size)
	}
	// A model of few observations takes little.
	few := begin(history.Shape{}, 0)
	observe(few, rounds(6, history.Shape{}, 5))
	assert.LessOrEqual(t, few.Size(), uint64(700))
}

// Sums of any losses that an account may hold stay numbers.
func TestLargeNumbers(t *testing.T) {
	t.Parallel()
	h := begin(history.Shape{}, 0)
	large := account.Figures{Loss: 1e230, RunningMean: 1e230, LastLabel: 1e-300}
	r := round{performance: account.Performance{Observations: 1, Prequential: large, Served: large}}
	r.after.Regret, r.after.RegretBound = math.Inf(1), math.NaN()
	for range 5000 {
		observe(h, []round{r})
	}
	_, err := history.Decode(h.Append(nil), history.Shape{}, 5000, nil)
	assert.NoError(t, err)
	for _, p := range h.Points(0, &r.after) {
		loss := p.Performance.Served.Loss / p.Performance.Observations
		require.True(t, math.Abs(loss-1e230) < 1e225 && math.IsNaN(p.Regret) && math.IsNaN(p.RegretBound), "%+v", p)
	}
}

// FuzzDecode looks for bytes that break the decoder, or that it takes and cannot go on
// from.
func FuzzDecode(f *testing.F) {
	for _, shape := range shapes() {
		for _, n := range []int{0, 3, 600} {
			h := begin(shape, 9)
			observe(h, rounds(8, shape, n))
			h.Mark(history.Mark{Sequence: 3, Rise: true})
			f.Add(h.Append(nil), shape.Classes, uint8(shape.Levels), uint64(9+n))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, classifier bool, levels uint8, sequence uint64) {
		shape := history.Shape{Classes: classifier, Levels: int(levels % 9)}
		h, err := history.Decode(data, shape, sequence, most(shape))
		if err != nil {
			require.ErrorIs(t, err, codec.ErrCorrupt)
			return
		}
		require.Equal(t, data, h.Append(nil), "read and written it is another")
		all := rounds(9, shape, 50)
		for i := range all {
			all[i].after.Counts = most(shape)
		}
		observe(h, all)
		points := h.Points(0, &all[len(all)-1].after)
		require.True(t, len(points) != 0 && len(points) <= history.MaxPoints && points[len(points)-1].Sequence == h.Sequence(), "%d points", len(points))
	})
}
