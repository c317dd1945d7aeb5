package moments_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model/codec"
	"hindsight/internal/model/moments"
)

// exact are the mean and Σω(x − mean)² in 300 bits.
func exact(numbers, weights []float64) (mean, squares float64) {
	value := func(v float64) *big.Float { return new(big.Float).SetPrec(300).SetFloat64(v) }
	total, sum, spread := value(0), value(0), value(0)
	for i, x := range numbers {
		total.Add(total, value(weights[i]))
		sum.Add(sum, new(big.Float).Mul(value(weights[i]), value(x)))
	}
	sum.Quo(sum, total)
	for i, x := range numbers {
		off := new(big.Float).Sub(value(x), sum)
		off.Mul(off, new(big.Float).Mul(off, value(weights[i])))
		spread.Add(spread, off)
	}
	mean, _ = sum.Float64()
	squares, _ = spread.Float64()
	return mean, squares
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	assert.True(t, math.Abs(got-want) <= tolerance*math.Abs(want), "%s is %.17g, want %.17g", what, got, want)
}

func TestMoments(t *testing.T) {
	const seed, count = 1, 20_000
	rng := rand.New(rand.NewPCG(seed, 2))
	for _, offset := range []float64{0, 1, 1e9} {
		var e moments.Exact
		var plain, weighted moments.Running
		numbers, ones, weights, total := make([]float64, count), make([]float64, count), make([]float64, count), 0.0
		for i := range numbers {
			numbers[i], ones[i], weights[i] = offset+rng.NormFloat64(), 1, math.Exp(3*rng.NormFloat64())
			e.Add(numbers[i], 1, float64(i+1))
			plain.Add(numbers[i], 1, float64(i+1))
			weighted.AddWeighted(numbers[i], weights[i], total)
			total += weights[i]
		}
		t.Logf("seed %d, offset %g", seed, offset)
		mean, squares := exact(numbers, ones)
		near(t, "the exact mean", e.Mean.Value(), mean, 1e-15+1e-15/math.Max(math.Abs(mean), 1e-3))
		near(t, "the exact deviation", e.Deviation(count), math.Sqrt(squares/count), 1e-12)
		rounding := 1e-9 * (1 + offset/100)
		near(t, "the mean", plain.Mean, mean, 1e-12+1e-12/math.Max(math.Abs(mean), 1e-3))
		near(t, "the sum of squares", plain.Squares, squares, rounding)
		mean, squares = exact(numbers, weights)
		near(t, "the weighted mean", weighted.Mean, mean, 1e-11+1e-11/math.Max(math.Abs(mean), 1e-3))
		near(t, "the weighted sum of squares", weighted.Squares, squares, rounding)
	}
}

func TestMomentsOfNothingAndOfOne(t *testing.T) {
	var e moments.Exact
	var r, w moments.Running
	assert.True(t, e.Deviation(0) == 0, "no numbers have a deviation of %g", e.Deviation(0))
	e.Add(1e100, 1, 1)
	r.Add(1e100, 1, 1)
	w.AddWeighted(1e100, 1e-9, 0)
	assert.True(t, e.Mean.Value() == 1e100 && e.Deviation(1) == 0 && r == (moments.Running{Mean: 1e100}) && w == r, "%+v, %+v, %+v", e, r, w)
}

// naive is a column of a table as its comment tells it: it keeps all values with what they
// count, and computes each figure anew from all of them.
type naive struct {
	now, other, block []counted
	// seen are the values in now since the last change.
	seen  []float64
	alarm float64
	// odd is the last strange value.
	odd float64
	// last is the last value that was not strange.
	last float64
	// past is the column before the last change, back the alarm of values that have returned.
	past *naive
	back float64
	// small are the last values if they are small. quiet says that they change no unit.
	small []counted
	quiet bool
}

// counted is a value that counts something. If the value was strange, or is by the deviation
// that it made, squares is what it added to Σω(x − m)².
type counted struct {
	value, counts, squares, move float64
	moved                        bool
}

func figures(values []counted) (mean, squares, total float64) {
	for _, v := range values {
		total += v.counts
		mean += v.counts * v.value
	}
	mean /= total
	for _, v := range values {
		squares += v.counts * (v.value - mean) * (v.value - mean)
	}
	return mean, squares, total
}

// deviation is 0 of a column that changes by rounding alone.
func deviation(values []counted) float64 {
	mean, squares, total := figures(values)
	for _, v := range values {
		if math.Abs(v.value-values[0].value) > 1e-15*math.Abs(mean) {
			return math.Sqrt(squares / total)
		}
	}
	return 0
}

func (n *naive) strange(x float64) bool {
	if len(n.now) == 0 || x <= slices.Max(n.seen) && x >= slices.Min(n.seen) {
		return false
	}
	mean, _, total := figures(n.now)
	s := deviation(n.now)
	return s > 0 && math.Abs(x-mean) > 12*(1+50/total)*s
}

func (n *naive) heavy() bool {
	_, squares, _ := figures(n.now)
	far := 0.0
	for _, v := range n.now {
		far += v.squares
	}
	return far > squares/2
}

func (n *naive) cut(x float64) float64 {
	if !n.strange(x) || n.heavy() {
		return x
	}
	mean, _, total := figures(n.now)
	if math.Abs(x-mean) > 120*(1+50/total)*deviation(n.now) && x != n.odd {
		return mean
	}
	if x == n.odd {
		return mean + math.Copysign(2*deviation(n.now), x-mean)
	}
	if x > mean {
		return math.Max(slices.Max(n.seen), mean+12*(1+50/total)*deviation(n.now))
	}
	return math.Min(slices.Min(n.seen), mean-12*(1+50/total)*deviation(n.now))
}

func keep(values []counted, part float64) {
	for i := range values {
		values[i].counts *= part
		values[i].squares *= part
	}
}

// returned reports whether x lies where the values before the last change lay.
func (n *naive) returned(x float64) bool {
	mean, _, _ := figures(n.past.now)
	s := deviation(n.past.now)
	return math.Abs(x-mean) <= 3*s && (s <= deviation(n.now) || n.strange(x))
}

// undo forgets the last change, or what was before it.
func (n *naive) undo() bool {
	_, _, before := figures(n.past.now)
	_, _, since := figures(n.block)
	part := 1 - 4*since/before
	if part <= 0 {
		n.past, n.back, n.quiet = nil, 0, true
		return false
	}
	keep(n.past.now, part)
	*n = naive{now: n.past.now, seen: n.past.seen, odd: n.odd, last: n.last, small: n.small, quiet: n.quiet}
	return true
}

func (n *naive) add(x, counts float64) {
	if n.past != nil && x != n.last {
		if n.returned(x) {
			n.back += counts
		} else {
			n.back = math.Max(0, n.back-2*counts)
		}
		if n.back >= 20 && n.undo() {
			return
		}
	}
	strange := n.strange(x)
	if strange && !n.heavy() {
		n.odd, n.other, n.alarm = x, append(n.other, counted{value: x, counts: counts}), n.alarm+counts
		if _, power := n.power(n.other); n.alarm >= 10 && (power || n.alarm >= 20) && !n.sentinel() {
			n.change(n.other, x)
		}
		n.alarm = math.Min(n.alarm, 20)
		return
	}
	if !strange && n.shrink(x, counts) {
		return
	}
	if !strange && (x != n.last || n.alarm == 0) {
		if n.alarm = math.Max(0, n.alarm-counts); n.alarm == 0 {
			n.other = nil
		}
	}
	move := math.Abs(x - n.last)
	if n.last = x; len(n.now) == 0 {
		move = 0
	}
	mean, before, _ := figures(n.now)
	n.seen = append(n.seen, x)
	moved := len(n.block) > 0 && n.block[len(n.block)-1].value != x
	n.now = append(n.now, counted{value: x, counts: counts, move: move})
	_, squares, total := figures(n.now)
	if len(n.now) > 1 && math.Abs(x-mean) > 12*(1+50/total)*deviation(n.now) && deviation(n.now) > 0 {
		n.now[len(n.now)-1].squares = squares - before
	}
	n.block = append(n.block, counted{value: x, counts: counts, moved: moved})
	if _, _, total := figures(n.block); total >= 1000 {
		n.compare()
	}
}

// step is the mean move.
func (n *naive) step() (mean float64) {
	_, _, total := figures(n.now)
	for _, v := range n.now {
		mean += v.counts * v.move / total
	}
	return mean
}

// shrink reports whether x ends a change to a larger unit.
func (n *naive) shrink(x, counts float64) bool {
	mean, _, _ := figures(n.now)
	switch {
	case n.quiet || x == n.last:
		return false
	case 30*math.Abs(x-n.last) > n.step() || 30*math.Abs(x) > math.Hypot(mean, deviation(n.now)):
		_, _, total := figures(n.small)
		n.small, n.quiet = nil, total >= 20
		return false
	}
	n.small = append(n.small, counted{value: x, counts: counts})
	if _, _, total := figures(n.small); total < 10 {
		return false
	}
	if _, ok := n.power(n.small); !ok {
		return false
	}
	n.quiet = true
	n.change(n.small, x)
	return true
}

// power is the power of ten between the values and others.
func (n *naive) power(to []counted) (factor float64, ok bool) {
	mean, _, _ := figures(n.now)
	own, _, _ := figures(to)
	s, all := deviation(to), deviation(n.now)
	factor = math.Pow(10, math.Round(math.Log10(math.Hypot(own, s)/math.Hypot(mean, all))))
	ratio := math.Hypot(own, s) / math.Hypot(mean, all) / factor
	return factor, factor != 1 && ratio <= 1.5 && ratio >= 1/1.5 && math.Abs(own-factor*mean) <= factor*all &&
		s <= 2*factor*all && 2*s >= factor*all
}

func (n *naive) sentinel() bool { return deviation(n.other) <= deviation(n.now)/12 }

// change makes values the present ones, of which x is the newest.
func (n *naive) change(to []counted, x float64) {
	past := &naive{now: slices.Clone(n.now), seen: n.seen}
	_, _, total := figures(n.now)
	step, all, part := n.step(), deviation(n.now), math.Min(1, 1/total)
	factor, ok := n.power(to)
	if ok {
		part = math.Min(1, 2000/total)
		for i := range n.now {
			n.now[i].value *= factor
		}
	}
	keep(n.now, part)
	for i := range n.now {
		n.now[i].squares = 0
	}
	for _, v := range to {
		v.squares = 0
		n.now = append(n.now, v)
	}
	if !ok {
		factor = deviation(n.now) / all
	}
	for i := range n.now {
		n.now[i].move = factor * step
	}
	*n = naive{now: n.now, odd: n.odd, last: x, seen: []float64{x}, past: past, quiet: n.quiet}
}

func (n *naive) compare() {
	mean, _, _ := figures(n.now)
	own, _, total := figures(n.block)
	all, s, moved := deviation(n.now), deviation(n.block), 0.0
	for _, v := range n.block {
		if v.moved {
			moved += v.counts
		}
	}
	n.past, n.back = nil, 0
	switch {
	case moved >= total/2 && own*own+s*s < 1e-4*(mean*mean+all*all):
		n.change(n.block, n.block[len(n.block)-1].value)
	case math.Abs(own-mean) > 2*all || s > 4*all:
		keep(n.now, 0.5)
	}
	n.block = nil
}

// A burst of 60 values costs a column no more than the 60 rows and the 20 after them: it has
// the mean and the deviation of a column without the burst again, and its changes together are
// the identity. A lasting change stays.
func TestABurstIsUndone(t *testing.T) {
	for name, burst := range map[string]func(rng *rand.Rand) float64{
		"another unit":     func(rng *rand.Rand) float64 { return 1000 * (10 + 3*rng.NormFloat64()) },
		"ten times":        func(rng *rand.Rand) float64 { return 700 + 30*rng.NormFloat64() },
		"noise far off":    func(rng *rand.Rand) float64 { return 1e6 * rng.Float64() },
		"a narrow plateau": func(rng *rand.Rand) float64 { return -500 + rng.Float64() },
	} {
		for _, lasts := range []int{60, 1200} {
			rng, noise := rand.New(rand.NewPCG(3, 9)), rand.New(rand.NewPCG(4, 9))
			table, clean := moments.NewTable(1), moments.NewTable(1)
			factor, shift := 1.0, 0.0
			for n := range 800 + lasts + 40 {
				x := 10 + 3*rng.NormFloat64()
				clean.Add([]float64{x}, 1)
				if n >= 800 && n < 800+lasts {
					x = burst(noise)
				}
				table.Add([]float64{x}, 1)
				for _, c := range table.Changes() {
					factor, shift = c.Factor*factor, c.Factor*shift+c.Shift
				}
			}
			undone := math.Abs(factor-1) < 1e-9 && math.Abs(shift) < 1e-6 &&
				math.Abs(table.Mean(0)-clean.Mean(0)) < 0.5 && math.Abs(table.Deviation(0)-clean.Deviation(0)) < 0.3
			if undone != (lasts == 60 || name == "another unit") {
				t.Errorf("%s of %d rows: a change of %g x + %g, mean %g, deviation %g; without it %g, %g",
					name, lasts, factor, shift, table.Mean(0), table.Deviation(0), clean.Mean(0), clean.Deviation(0))
			}
		}
	}
}

// A column that alternates between two regimes learns both: its changes end. Each change would tell
// a learner that the same values mean something else.
func TestRegimesInTurnAreNoBursts(t *testing.T) {
	for _, c := range []struct{ first, rows, every int }{{0, 6000, 30}, {0, 6000, 300}, {3000, 20000, 300}} {
		rng, table, last := rand.New(rand.NewPCG(5, 9)), moments.NewTable(1), 0
		for n := range c.first + c.rows {
			x := 5 + rng.NormFloat64()
			if n >= c.first && (n-c.first)/c.every%2 == 1 {
				x *= 100
			}
			if table.Add([]float64{x}, 1); len(table.Changes()) > 0 {
				last = n
			}
		}
		if d := table.Deviation(0); last > c.first+c.rows/2 || d < 200 || d > 300 {
			t.Errorf("%d rows of one regime, then %d rows of each in turn: the last change is at row %d, the deviation %g", c.first, c.every, last, d)
		}
	}
}

// A table has the moments, the limits and the changes of a naive one on streams that meet each
// of its rules, and a table that was restored continues with the same bits.
func TestTableIsTheNaiveOne(t *testing.T) {
	gauss := func(rng *rand.Rand, _ int) float64 { return 10 + 3*rng.NormFloat64() }
	for name, c := range map[string]struct {
		rows  int
		value func(rng *rand.Rand, n int) float64
	}{
		"steady": {2500, gauss},
		"one strange value": {1500, func(rng *rand.Rand, n int) float64 {
			if n == 700 {
				return -9999
			}
			return gauss(rng, n)
		}},
		"strange values now and then": {1500, func(rng *rand.Rand, n int) float64 {
			if rng.IntN(20) == 0 {
				return 1e4 * rng.NormFloat64()
			}
			return gauss(rng, n)
		}},
		"unit 1000 times": {1800, func(rng *rand.Rand, n int) float64 {
			if n > 700 {
				return 1000 * gauss(rng, n)
			}
			return gauss(rng, n)
		}},
		"another distribution": {1800, func(rng *rand.Rand, n int) float64 {
			if n > 700 {
				return 500 + gauss(rng, n)
			}
			return gauss(rng, n)
		}},
		"a burst in another unit": {2500, func(rng *rand.Rand, n int) float64 {
			if n >= 700 && n < 760 {
				return 1000 * gauss(rng, n)
			}
			return gauss(rng, n)
		}},
		"two bursts of two kinds": {2500, func(rng *rand.Rand, n int) float64 {
			switch {
			case n >= 700 && n < 740:
				return 500 + gauss(rng, n)/100
			case n >= 1500 && n < 1600:
				return -300 + 20*gauss(rng, n)
			}
			return gauss(rng, n)
		}},
		"regimes in turn": {2500, func(rng *rand.Rand, n int) float64 {
			if n/120%4 == 3 {
				return 100 * gauss(rng, n)
			}
			return gauss(rng, n)
		}},
		"unit 1/1000": {3500, func(rng *rand.Rand, n int) float64 {
			if n > 900 {
				return gauss(rng, n) / 1000
			}
			return gauss(rng, n)
		}},
		"unit 1/100, nights before and after": {3500, func(rng *rand.Rand, n int) float64 {
			if n > 900 && n < 1500 || n > 2500 && n < 2600 {
				return gauss(rng, n) / 100
			}
			return gauss(rng, n)
		}},
		"a rare flag": {3500, func(rng *rand.Rand, _ int) float64 {
			if rng.IntN(300) == 0 {
				return 1
			}
			return 0
		}},
		"a sentinel in bursts": {2500, func(rng *rand.Rand, n int) float64 {
			if n%700 > 650 {
				return -200
			}
			return gauss(rng, n)
		}},
		"a flag in bursts": {4500, func(_ *rand.Rand, n int) float64 {
			if n%1500 > 1470 {
				return 1
			}
			return 0
		}},
		"amounts": {2500, func(rng *rand.Rand, _ int) float64 {
			if rng.IntN(250) == 0 {
				return 50 * rng.ExpFloat64()
			}
			return 0
		}},
		"few numbers, the first nearly 0": {2500, func(rng *rand.Rand, n int) float64 {
			switch {
			case n == 40:
				return 0.01
			case rng.IntN(20) == 0:
				return 1 + rng.Float64()
			default:
				return 0
			}
		}},
		"a slow walk": {3500, func(rng *rand.Rand, n int) float64 { return float64(n)/100 + rng.NormFloat64() }},
		"a jump":      {6100, func(rng *rand.Rand, n int) float64 { return float64(n/5000)*20 + 3*rng.NormFloat64() }},
		"rounding": {300, func(rng *rand.Rand, _ int) float64 {
			if rng.IntN(2) == 0 {
				return 0.3
			}
			return 0.30000000000000004
		}},
	} {
		for _, weighted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, weighted %t", name, weighted), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(7, 21))
				table, want := moments.NewTable(1), naive{}
				for n := range c.rows {
					x, counts := c.value(rng, n), 1.0
					if weighted && n > 0 {
						counts = 1 - rng.Float64()
					}
					if n%20 == 0 || n%1000 < 5 || n%1000 > 995 {
						compareTables(t, n, &table, &want, x)
					}
					table.Add([]float64{x}, counts)
					want.add(x, counts)
					if n%97 == 0 {
						table = restored(t, &table)
					}
				}
			})
		}
	}
}

func compareTables(t *testing.T, n int, got *moments.Table, want *naive, x float64) {
	t.Helper()
	if n == 0 {
		return
	}
	mean, _, _ := figures(want.now)
	s := deviation(want.now)
	tolerance := 1e-9 * (s + 1e-3*math.Abs(mean))
	if math.Abs(got.Mean(0)-mean) > tolerance || math.Abs(got.Deviation(0)-s) > tolerance ||
		math.Abs(got.Cut(0, x)-want.cut(x)) > 100*tolerance {
		t.Fatalf("row %d: mean %.17g, deviation %.17g, %g cut to %.17g; want %.17g, %.17g, %.17g",
			n, got.Mean(0), got.Deviation(0), x, got.Cut(0, x), mean, s, want.cut(x))
	}
}

func restored(t *testing.T, table *moments.Table) moments.Table {
	t.Helper()
	v := codec.Appending(nil)
	table.Visit(&v)
	state, err := v.Appended()
	require.NoError(t, err)
	fresh := moments.NewTable(table.Columns())
	require.NoError(t, codec.Read(state, fresh.Visit))
	require.True(t, fresh.Mean(0) == table.Mean(0) && fresh.Deviation(0) == table.Deviation(0) && fresh.Cut(0, 1e9) == table.Cut(0, 1e9))
	return fresh
}
