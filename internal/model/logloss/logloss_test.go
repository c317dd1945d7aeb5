package logloss_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model/codec"
	"hindsight/internal/model/logloss"
)

// row is a row of a stream: its inputs, its class, its weight and what a learner below says.
type row struct {
	x          []float64
	class      int
	weight     float64
	calibrated []float64
}

// stream is a stream whose classes appear one after another. The learner below knows little.
func stream(seed uint64, numbers, keys, classes, n int) []row {
	rng := rand.New(rand.NewPCG(seed, 3))
	effect := make([]float64, 30)
	for i := range effect {
		effect[i] = 1.5 * rng.NormFloat64()
	}
	rows, seen := make([]row, n), 0
	for t := range rows {
		r := row{x: make([]float64, numbers+keys), weight: 1}
		known := min(classes, 1+t/9)
		odds := -1.0
		for j := range numbers {
			r.x[j] = 3 + 2*rng.NormFloat64()
			odds += r.x[j] - 3
		}
		for j := range keys {
			key := 1 + rng.IntN(len(effect)-1)
			r.x[numbers+j] = float64(key)
			odds += effect[key]
		}
		if rng.Float64() < 1/(1+math.Exp(-odds)) {
			r.class = 1 + rng.IntN(max(1, classes-1))
			r.x[0] += float64(r.class)
		}
		if r.class = min(r.class, known-1, seen); r.class == seen {
			seen++
		}
		if t%4 == 3 {
			r.weight = 2 * rng.Float64()
		}
		for k := range known {
			p := 0.5 + rng.Float64()
			if k == r.class {
				p++
			}
			r.calibrated = append(r.calibrated, p)
		}
		sum := 0.0
		for _, p := range r.calibrated {
			sum += p
		}
		for k := range r.calibrated {
			r.calibrated[k] /= sum
		}
		rows[t] = r
	}
	return rows
}

// run is a level with what a classifier keeps beside it.
type run struct {
	level   *logloss.Level
	scratch *logloss.Scratch
	counts  []float64
	total   float64
	answer  []float64
}

func start(o logloss.Options) *run {
	level := logloss.New(o)
	return &run{level: level, scratch: level.NewScratch()}
}

// mix is the answer, nil with fewer than two known classes.
func (r *run) mix(s row) []float64 {
	if len(r.counts) < 2 {
		return nil
	}
	r.answer = append(r.answer[:0], s.calibrated[:len(r.counts)]...)
	r.level.Mix(r.scratch, r.answer, s.x, r.counts, r.total)
	return r.answer
}

// learn learns a row that mix has predicted.
func (r *run) learn(s row, served []float64) {
	r.level.Learn(r.scratch, s.x, r.counts, r.total, s.class, s.weight, served)
	if s.class == len(r.counts) {
		r.counts = append(r.counts, 0)
	}
	r.counts[s.class] += s.weight
	r.total += s.weight
}

func (r *run) state(tb testing.TB) []byte {
	tb.Helper()
	v := codec.Appending(nil)
	r.level.Visit(&v, len(r.counts))
	out, err := v.Appended()
	require.NoError(tb, err)
	return out
}

func TestLevelIsTheNaiveLevel(t *testing.T) {
	for _, classes := range []int{2, 5} {
		l, want := start(logloss.Options{Dimension: 3, Squared: []int{0, 2}, MaxClasses: classes}), newNaive(3, classes, 0, 2)
		for n, s := range stream(uint64(classes), 3, 0, classes, 400) {
			var experts [][]float64
			if got := l.mix(s); got != nil {
				experts = want.experts(s.x, s.calibrated[:len(got)])
				for k, p := range want.mix(experts) {
					if !(math.Abs(got[k]-p) <= 1e-8) {
						t.Fatalf("%d classes, row %d: %g, want %g", classes, n, got, want.mix(experts))
					}
				}
			}
			l.learn(s, nil)
			want.learn(s.x, s.calibrated[:min(len(s.calibrated), len(want.counts))], s.class, s.weight)
		}
		least := math.Inf(1)
		for _, loss := range want.losses[:7] {
			least = math.Min(least, loss)
		}
		got, regret := l.level.Report().Regret, want.losses[7]-least
		assert.True(t, math.Abs(got-regret) <= 1e-6, "%d classes: a regret of %g, want %g", classes, got, regret)
	}
}

// Vovk (1998) with the shares of Adamskiy, Koolen, Chernov and Vovk (JMLR 2016): the regret against no expert
// exceeds ln E + ln T, whatever the rows.
func TestRegretIsWithinTheBound(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 9))
		keys := int(seed % 3)
		o := logloss.Options{Dimension: 2 + keys, MaxClasses: 2 + int(seed%4), MaxKeys: 20}
		for j := range keys {
			o.Keys = append(o.Keys, 2+j)
		}
		l := start(o)
		for n, s := range stream(seed, 2, keys, o.MaxClasses, 300) {
			if seed%2 == 0 && len(l.counts) > 1 { // An adversary takes the least probable class.
				for k, p := range l.mix(s) {
					if p < l.answer[s.class%len(l.answer)] {
						s.class = k
					}
				}
			}
			s.class = min(s.class, len(l.counts))
			s.weight = math.Exp(3 * rng.NormFloat64())
			l.mix(s)
			l.learn(s, nil)
			r := l.level.Report()
			require.True(t, r.Regret <= r.Bound+1e-9, "seed %d, row %d: a regret of %g above %g", seed, n, r.Regret, r.Bound)
		}
	}
}

// Probabilities are positive and sum to 1, whatever the rows.
func TestProbabilities(t *testing.T) {
	l := start(logloss.Options{Dimension: 3, MaxClasses: 4})
	for n, s := range stream(5, 3, 0, 4, 300) {
		if n%7 == 6 {
			s.x[n%3] = []float64{1e8, -9999, 0}[n/7%3]
		}
		sum := 0.0
		for _, p := range l.mix(s) {
			require.True(t, p > 0, "row %d: %g", n, l.answer)
			sum += p
		}
		require.True(t, len(l.counts) <= 1 || math.Abs(sum-1) <= 1e-12, "row %d: a sum of %g", n, sum)
		l.learn(s, nil)
	}
}

// What keys say is learned: the level loses less with the keys than without.
func TestEffectsOfKeys(t *testing.T) {
	losses := map[int]float64{}
	for _, keys := range []int{0, 2} {
		l := start(logloss.Options{Dimension: 3, Keys: []int{1, 2}[:keys], MaxClasses: 2, MaxKeys: 100})
		for _, s := range stream(8, 1, 2, 2, 4000) {
			s.calibrated = []float64{0.5, 0.5}
			if p := l.mix(s); p != nil && s.class < len(p) {
				losses[keys] -= math.Log(p[s.class])
			}
			l.learn(s, nil)
		}
	}
	assert.True(t, losses[2] < 0.9*losses[0], "a loss of %g with keys, %g without", losses[2], losses[0])
}

// A state restored after any row gives the same bits.
func TestRestore(t *testing.T) {
	for _, o := range []logloss.Options{
		{Dimension: 4, Keys: []int{2, 3}, MaxClasses: 2, MaxKeys: 25}, {Dimension: 4, MaxClasses: 3}, {Dimension: 200, MaxClasses: 6},
	} {
		rows := stream(4, o.Dimension-len(o.Keys), len(o.Keys), o.MaxClasses, 150)
		whole := start(o)
		for n, s := range rows {
			if n%10 == 3 {
				restored := start(o)
				restored.counts, restored.total = whole.counts, whole.total
				read := func(v *codec.Visitor) { restored.level.Visit(v, len(whole.counts)) }
				require.NoError(t, codec.Read(whole.state(t), read), n)
				whole = restored
			}
			whole.mix(s)
			whole.learn(s, nil)
		}
		plain := start(o)
		for _, s := range rows {
			plain.mix(s)
			plain.learn(s, nil)
		}
		assert.Equal(t, plain.state(t), whole.state(t), o)
	}
}

// A state with one wrong byte is rejected, or answers with probabilities.
func TestRestoreOfAWrongByte(t *testing.T) {
	o := logloss.Options{Dimension: 4, Keys: []int{2, 3}, MaxClasses: 2, MaxKeys: 25}
	rows, l := stream(4, 2, 2, 2, 120), start(o)
	for _, s := range rows[:80] {
		l.mix(s)
		l.learn(s, nil)
	}
	good, rng := l.state(t), rand.New(rand.NewPCG(1, 2))
	rejected := 0
	for range 500 {
		bad := bytes.Clone(good)
		at := rng.IntN(len(bad))
		if bad[at] = byte(rng.Uint32()); bytes.Equal(bad, good) {
			continue
		}
		other := start(o)
		other.counts, other.total = slices.Clone(l.counts), l.total
		if codec.Read(bad, func(v *codec.Visitor) { other.level.Visit(v, 2) }) != nil {
			rejected++
			continue
		}
		for _, s := range rows[80:] {
			for _, p := range other.mix(s) {
				require.True(t, p >= 0 && p <= 1, "byte %d: %g", at, other.answer)
			}
			other.learn(s, nil)
		}
	}
	assert.NotEqual(t, 0, rejected, "no state was rejected")
}

// A late label teaches the mixture what the experts said when the row was predicted.
func TestLateLabels(t *testing.T) {
	o := logloss.Options{Dimension: 4, Keys: []int{2, 3}, MaxClasses: 2, MaxKeys: 100}
	rows := stream(6, 2, 2, 2, 600)
	l := start(o)
	served := make([][]float64, len(rows))
	const delay = 20
	for n, s := range rows {
		l.mix(s)
		served[n] = l.level.Append([]float64{7, 8}, l.scratch, len(l.counts))
		if n < delay {
			continue
		}
		late := rows[n-delay]
		if late.class > len(l.counts) {
			continue
		}
		l.mix(late)
		rest, tail := l.level.Split(served[n-delay])
		require.True(t, len(rest) == 2 && rest[0] == 7 && rest[1] == 8 && (tail == nil) == (served[n-delay][len(served[n-delay])-1] < 2), "row %d: split into %g and %g", n, rest, tail)
		l.learn(late, tail)
		r := l.level.Report()
		require.True(t, r.Regret <= r.Bound+1e-9, "row %d: a regret of %g above %g", n, r.Regret, r.Bound)
	}
	now := l.level.Append(nil, l.scratch, len(l.counts))
	_, tail := l.level.Split(now)
	assert.Nil(t, tail, "advice of the present state is late")
	for _, wrong := range [][]float64{nil, {1}, {math.NaN(), math.NaN()}, {1, 2, 3}, {0, 2}, {-1, 1.5}, {5, 1e300}, append(now[:3:3], 0, 2)} {
		_, tail := l.level.Split(wrong)
		assert.Nil(t, tail, "%g is advice", wrong)
	}
}

func TestSteadyRowsAllocateNothing(t *testing.T) {
	o := logloss.Options{Dimension: 4, Keys: []int{2, 3}, MaxClasses: 2, MaxKeys: 100}
	rows := stream(6, 2, 2, 2, 400)
	l := start(o)
	for _, s := range rows {
		l.mix(s)
		l.learn(s, nil)
	}
	at := 0
	if n := testing.AllocsPerRun(200, func() {
		s := rows[200+at%200]
		at++
		l.mix(s)
		l.learn(s, nil)
	}); n > 0 {
		t.Errorf("%g allocations", n)
	}
}

func BenchmarkMixAndLearn(b *testing.B) {
	for name, o := range map[string]logloss.Options{
		"d=12/classes=2": {Dimension: 12, MaxClasses: 2}, "d=12/classes=10": {Dimension: 12, MaxClasses: 10}, "d=20/classes=100": {Dimension: 20, MaxClasses: 100},
	} {
		b.Run(name, func(b *testing.B) {
			rows, l := stream(6, o.Dimension, 0, o.MaxClasses, 2000), start(o)
			for _, s := range rows {
				l.mix(s)
				l.learn(s, nil)
			}
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				s := rows[1000+n%1000]
				l.mix(s)
				l.learn(s, nil)
			}
		})
	}
}
