package auto_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/auto"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/effects"
	"hindsight/internal/model/modeltest"
)

// visits are observations of users in cities: the label has an effect of each and a wave of the
// number between the keys.
func visits(seed uint64, n int) []observation {
	rng := rand.New(rand.NewPCG(seed, 36))
	users, cities := make([]float64, 60), make([]float64, 10)
	for i := range users {
		users[i] = rng.NormFloat64()
	}
	for i := range cities {
		cities[i] = rng.NormFloat64()
	}
	rows := make([]observation, n)
	for i := range rows {
		u, c, x := rng.IntN(len(users)), rng.IntN(len(cities)), rng.NormFloat64()
		y := users[u] + cities[c] + math.Sin(2*x) + 0.2*rng.NormFloat64()
		rows[i] = observation{x: []float64{float64(1000 + u), x, float64(c)}, y: []float64{y}, weight: 0.5 + rng.Float64()}
	}
	return rows
}

func keyOptions() auto.Options {
	return auto.Options{
		Dimension: 3, Outputs: 1, Lags: 1, Frequencies: 5, Microseconds: 500,
		Keys: []auto.Key{{Feature: 0}, {Feature: 2}},
	}
}

// Keys are learned from the first rows on, with and without a lineup: the loss of rows 100 to
// 300 is far below the loss without the keys.
func TestKeysAreLearnedEarly(t *testing.T) {
	plain := keyOptions()
	plain.Keys = nil
	loss := func(l *auto.Learner) float64 {
		total := 0.0
		for n, r := range visits(1, 400) {
			out := observe(t, l, r)
			if n >= 200 {
				total += (out.Predictions[0] - r.y[0]) * (out.Predictions[0] - r.y[0])
			}
		}
		return total
	}
	without := loss(auto.New(plain))
	for name, l := range map[string]*auto.Learner{"both levels": auto.New(keyOptions()), "level 1": auto.NewLevel1(keyOptions())} {
		assert.LessOrEqual(t, loss(l), 0.5*without, "%v %v", name, without)
	}
}

// Level 1 is that of the inputs without the keys, bit for bit, wherever the keys are.
func TestLevel1SeesNoKeys(t *testing.T) {
	o := keyOptions()
	o.Dimension, o.Joint, o.Cycles, o.Flags = 8, []auto.Span{{From: 3, To: 5}}, []int{5}, []int{7}
	plain := auto.Options{
		Dimension: 6, Outputs: 1, Lags: 1, Frequencies: 5, Microseconds: 500,
		Joint: []auto.Span{{From: 1, To: 3}}, Cycles: []int{3}, Flags: []int{5},
	}
	l, p := auto.New(o), auto.New(plain)
	rng := rand.New(rand.NewPCG(5, 5))
	for n, r := range visits(2, 300) {
		k, turn := rng.IntN(2), 2*math.Pi*rng.Float64()
		numbers := []float64{r.x[1], float64(k), float64(1 - k), math.Sin(turn), math.Cos(turn), float64(rng.IntN(2))}
		x := slices.Concat([]float64{r.x[0], numbers[0], r.x[2]}, numbers[1:])
		a, b := predict(t, l, x), predict(t, p, numbers)
		require.Equal(t, p.Served(b.Advice), l.Served(a.Advice), n)
		observe(t, l, observation{x: x, y: r.y, weight: r.weight})
		observe(t, p, observation{x: numbers, y: r.y, weight: r.weight})
	}
}

// TestNaiveKeyed: u is the ML-Poly mixture of plain sums of v and the experts of the keys, from
// the second row on, whether labels come at once or late. The forecasters of y − v from mean labels and counts are naive ones.
func TestNaiveKeyed(t *testing.T) {
	for _, late := range []int{0, 7} {
		l := auto.New(keyOptions())
		experts := l.KeyExperts()
		poly := &naivePoly{regrets: make([]float64, 1+experts), squares: make([]float64, 1+experts)}
		type waiting struct {
			row    observation
			advice []float64
			said   []float64
			u      float64
			labels int
		}
		var all []waiting
		labels, low, high := 0, math.Inf(1), math.Inf(-1)
		for n, r := range visits(3, 500) {
			p := predict(t, l, r.x)
			said, u := l.SaidKeyed(p.Advice)
			require.InDelta(t, poly.mix(said, len(said)), u, 1e-9, "%v %v", late, n)
			all = append(all, waiting{r, p.Advice, said, u, labels})
			for k, forgetting := range []float64{0.99, 0.97} {
				if n <= 200 || n%25 > 0 {
					break
				}
				z, scale := l.KeyMeans(p.Advice)
				d := newDense(0, len(z), 1, 0.01, forgetting)
				for _, w := range all[:labels] {
					z, _ := l.KeyMeans(w.advice)
					d.learn(z, []float64{(w.row.y[0] - w.said[0]) / scale}, w.row.weight)
				}
				for j := (len(z) + 1) / 2; j < len(z); j++ { // A count.
					mean := d.a[0][j] / d.a[0][0]
					room := 3 * math.Sqrt(d.a[j][j]/d.a[0][0]-mean*mean)
					z[j] = math.Max(mean-room, math.Min(mean+room, z[j]))
				}
				want := math.Max(low, math.Min(high, said[0]+d.predict(z)[0]*scale))
				require.InDelta(t, want, said[len(said)-3+2*k], 1e-6, "row %d, forgetting %g", n, forgetting)
			}
			if n < late {
				continue
			}
			w := all[n-late]
			var out model.Outcome
			require.NoError(t, l.ObserveAdvised(&out, w.row.x, w.row.y, w.row.weight, w.advice))
			low, high = math.Min(low, w.row.y[0]), math.Max(high, w.row.y[0])
			if w.labels > 0 {
				poly.learn(2*w.row.weight*(w.u-w.row.y[0]), w.u, w.said, len(w.said))
			}
			labels++
			s := l.Stats()
			require.True(t, s.CertificateOK, "%d late, row %d: the certificate fails: %+v", late, n, s)
		}
	}
}

// A learner with keys, restored at any row, goes on bit for bit, with labels that come late.
func TestKeysContinue(t *testing.T) {
	const late = 5
	o := keyOptions()
	o.MaxKeys = 40 // Keys are evicted.
	whole, rows := auto.New(o), visits(4, 400)
	var restored []*auto.Learner
	var advice [][]float64
	for n, r := range rows {
		if n%37 == 0 || n == 8 || n == 127 || n == 128 || n == 129 {
			l := auto.New(o)
			require.NoError(t, codec.Read(encoded(t, whole), l.Visit), n)
			restored = append(restored, l)
		}
		p := predict(t, whole, r.x)
		sizes := auto.AdviceSizes(o)
		require.True(t, slices.Contains(sizes, len(p.Advice)), "row %d: advice of %d numbers, want %v", n, len(p.Advice), sizes)
		advice = append(advice, p.Advice)
		if n < late {
			continue
		}
		for _, l := range append(restored, whole) {
			var out model.Outcome
			r := rows[n-late]
			require.NoError(t, l.ObserveAdvised(&out, r.x, r.y, r.weight, advice[n-late]))
		}
	}
	for i, l := range restored {
		assert.Equal(t, encoded(t, whole), encoded(t, l), i)
	}
}

// Advice with any number of the keys out of its range is no advice.
func TestForgedKeys(t *testing.T) {
	o := keyOptions()
	rows := visits(5, 203)
	base := auto.New(o)
	for _, r := range rows[:200] {
		observe(t, base, r)
	}
	p := predict(t, base, rows[200].x)
	observe(t, base, rows[201])
	state := encoded(t, base)
	learned := func(advice []float64) []byte {
		l := auto.New(o)
		require.NoError(t, codec.Read(state, l.Visit))
		var out model.Outcome
		require.NoError(t, l.ObserveAdvised(&out, rows[200].x, rows[200].y, 1, advice))
		return encoded(t, l)
	}
	plain := learned(nil)
	require.False(t, bytes.Equal(plain, learned(p.Advice)), "true advice is not learned")
	from, to := base.KeyAdvice()
	for i := from; i < to; i++ {
		for _, bad := range []float64{math.NaN(), math.Inf(1), 1e90, -1e90} {
			forged := slices.Clone(p.Advice)
			forged[i] = bad
			require.True(t, bytes.Equal(plain, learned(forged)), "number %d of the advice, forged to %g, was learned", i, bad)
		}
	}
}

// Importances count keys, and the effects of keys are reported with their inputs and values.
func TestKeysMatter(t *testing.T) {
	l := auto.New(keyOptions())
	rows := visits(6, 2500)
	for _, r := range rows {
		observe(t, l, r)
	}
	of := map[int]float64{}
	gain := 0.0
	for _, i := range l.Report(model.ReportOptions{Importances: true}).Importances {
		gain += i.Gain
		if i.Name == "" {
			of[i.From] += i.Permutation
		}
	}
	assert.True(t, of[0] >= 0.2 && of[2] >= 0.2 && math.Abs(gain-1) <= 1e-9, "importances of %v, gains of %g together", of, gain)
	effects := l.Report(model.ReportOptions{}).Effects
	require.Len(t, effects, 10)
	mean, count := 0.0, 0.0
	e := effects[0]
	for _, r := range rows {
		if uint64(r.x[e.Feature]) == e.Key {
			mean, count = mean+r.y[0], count+1
		}
	}
	if e.Feature == 1 || math.Abs(mean/count-e.Value) > 0.5 || math.Abs(e.Value) < 1 || e.Observations > count || e.Observations < 0.8*count {
		t.Errorf("the largest effect is %+v, the mean of %g rows is %g", e, count, mean/count)
	}
	if !slices.IsSortedFunc(effects, func(a, b model.Effect) int {
		if math.Abs(a.Value) >= math.Abs(b.Value) {
			return -1
		}
		return 1
	}) {
		t.Errorf("effects in no order: %+v", effects)
	}
}

// The memory of keys grows with their number, and Cost bounds it.
func TestKeyMemory(t *testing.T) {
	o := keyOptions()
	o.MaxKeys = 5000
	l := auto.New(o)
	rng := rand.New(rand.NewPCG(7, 7))
	before := uint64(0)
	for n := range 6000 {
		r := observation{x: []float64{float64(1 + n), rng.Float64(), float64(1 + n%5)}, y: []float64{rng.Float64()}, weight: 1}
		observe(t, l, r)
		if n == 200 {
			before = l.Size()
		}
	}
	most := auto.Cost(o).StateBytes
	after := l.Size()
	assert.True(t, after >= before+4000*100 && after <= most, "%d bytes after 200 keys, %d after 5000, at most %d", before, after, most)
	state := encoded(t, l)
	assert.LessOrEqual(t, uint64(len(state)), most, "a state of %d bytes, at most %d", len(state), most)
}

func FuzzKeysRestore(f *testing.F) {
	o := keyOptions()
	o.Frequencies, o.Microseconds, o.MaxKeys = 2, 1, 20
	for _, n := range []int{0, 5, 60, 150} {
		l := auto.New(o)
		for _, r := range visits(8, n) {
			var out model.Outcome
			_ = l.Observe(&out, r.x, r.y, r.weight)
		}
		state, err := codec.Append(nil, l.Visit)
		require.NoError(f, err)
		f.Add(state)
	}
	f.Fuzz(func(t *testing.T, state []byte) {
		l := auto.New(o)
		if codec.Read(state, l.Visit) != nil {
			return
		}
		again, err := codec.Append(nil, l.Visit)
		require.True(t, err == nil && bytes.Equal(again, state), "the state changed on its way: %v", err)
		var out model.Outcome
		for _, r := range visits(9, 3) {
			err := l.Observe(&out, r.x, r.y, r.weight)
			require.True(t, err == nil && !math.IsNaN(out.Predictions[0]), "a restored learner predicts %v: %v", out, err)
		}
	})
}

// Rows that a gate did not admit count in the loss of the best expert, one of the keys included.
func TestPassedKeys(t *testing.T) {
	for name, l := range map[string]*auto.Learner{"both levels": auto.New(keyOptions()), "level 1": auto.NewLevel1(keyOptions())} {
		rows := visits(10, 301)
		for _, r := range rows[:300] {
			observe(t, l, r)
		}
		p, y := predict(t, l, rows[300].x), []float64{50}
		want := l.HindsightOf(y, 2, p.Advice)
		l.Pass(y, 2, p.Advice)
		got := l.Passed()
		assert.True(t, got == want && want >= 100, "%s: a passed loss of %g, want %g", name, got, want)
		again := auto.New(keyOptions())
		if name == "level 1" {
			again = auto.NewLevel1(keyOptions())
		}
		if err := codec.Read(encoded(t, l), again.Visit); err != nil || again.Passed() != want {
			t.Errorf("%s: a restored passed loss of %g, want %g: %v", name, again.Passed(), want, err)
		}
	}
}

// A state with one wrong number is rejected, or a learner that goes on with numbers.
func TestOneWrongNumberOfKeys(t *testing.T) {
	o := keyOptions()
	o.Frequencies, o.Microseconds, o.MaxKeys = 2, 1, 20
	l := auto.NewLevel1(o)
	rows := visits(11, 43)
	for _, r := range rows[:40] {
		observe(t, l, r)
	}
	state, rejected, step := encoded(t, l), 0, 40
	if modeltest.Long() {
		step = 8
	}
	for at := 0; at < len(state); at += step {
		for _, w := range []float64{-1, 1e-300, 1e99, -1e300, math.NaN()} {
			bad := slices.Clone(state)
			binary.LittleEndian.PutUint64(bad[at:], math.Float64bits(w))
			again := auto.NewLevel1(o)
			if codec.Read(bad, again.Visit) != nil {
				rejected++
				continue
			}
			for _, r := range rows[40:] {
				p := predict(t, again, r.x)
				require.False(t, math.IsNaN(p.Values[0]) || math.IsInf(p.Values[0], 0), "%g at %d: the learner predicts %g", w, at, p.Values[0])
				observe(t, again, r)
			}
		}
	}
	assert.GreaterOrEqual(t, rejected, len(state)/step, "only %d states are rejected", rejected)
}

// Many keys have fewer kinds of columns, or none, and wide inputs have no affine experts: the
// learner continues from its state, and its certificate holds.
func TestManyKeys(t *testing.T) {
	for _, keys := range []int{30, 130, 1100} {
		o := auto.Options{Dimension: keys + 1, Outputs: 1, Lags: 1, Frequencies: 3, Microseconds: 500}
		for k := range keys {
			o.Keys = append(o.Keys, auto.Key{Feature: 1 + k})
		}
		rng := rand.New(rand.NewPCG(12, uint64(keys)))
		l, again := auto.New(o), auto.New(o)
		for n := range 160 {
			x := make([]float64, o.Dimension)
			x[0] = rng.NormFloat64()
			for k := range keys {
				x[1+k] = float64(rng.IntN(3))
			}
			r := observation{x: x, y: []float64{x[0] + x[1] + 0.1*rng.NormFloat64()}, weight: 1}
			p := predict(t, l, x)
			require.True(t, slices.Contains(auto.AdviceSizes(o), len(p.Advice)), "%d keys, row %d: advice of %d numbers", keys, n, len(p.Advice))
			observe(t, l, r)
			if n%53 == 0 || n == 140 {
				again = auto.New(o)
				require.NoError(t, codec.Read(encoded(t, l), again.Visit), "%v %v", keys, n)
			} else {
				observe(t, again, r)
			}
		}
		s := l.Stats()
		assert.True(t, s.CertificateOK && bytes.Equal(encoded(t, l), encoded(t, again)) && l.Size() <= auto.Cost(o).StateBytes, "%d keys: %+v, or another state", keys, s)
		l.Report(model.ReportOptions{Importances: true})
	}
}

// TestEffectsLearnWhatWasServed: a table that learns the served v and experts of advice says what
// the learner's experts add to v, with labels that come late.
func TestEffectsLearnWhatWasServed(t *testing.T) {
	const late = 9
	l := auto.NewLevel1(keyOptions())
	o := effects.Options{Inputs: 2, Outputs: 2, MaxKeys: auto.DefaultMaxKeys, Kinds: effects.ColumnsEach}
	table, row, experts := effects.New(o), effects.NewRow(o), o.Experts()
	type pending struct {
		observation
		advice, said []float64
	}
	var all []pending
	low, high, compared := math.Inf(1), math.Inf(-1), 0
	said := make([]float64, 2*experts)
	var weights model.Weights
	for n, r := range visits(13, 400) {
		p := predict(t, l, r.x)
		served, _ := l.SaidKeyed(p.Advice)
		table.Find(row, []float64{r.x[0], r.x[2]}, nil)
		table.Say(said, row, 0)
		for i, e := range said[:experts] {
			if want := served[0] + e; want > low && want < high && n > late {
				compared++
				require.InDelta(t, want, served[1+i], 1e-9, "row %d: expert %d says %g, want %g", n, i, served[1+i], want)
			}
		}
		all = append(all, pending{r, p.Advice, served})
		if n < late {
			continue
		}
		w, learned := all[n-late], uint64(n-late)
		var out model.Outcome
		require.NoError(t, l.ObserveAdvised(&out, w.x, w.y, w.weight, w.advice))
		counts := weights.Add(w.weight)
		table.Find(row, []float64{w.x[0], w.x[2]}, nil)
		copy(said, w.said[1:])
		table.Say(said[experts:], row, 1)
		for i := range said[experts:] {
			said[experts+i] += w.said[0]
		}
		table.Learn(row, learned, counts, []float64{w.y[0], w.y[0]}, []float64{w.said[0], w.said[0]}, said, nil)
		low, high = math.Min(low, w.y[0]), math.Max(high, w.y[0])
	}
	assert.GreaterOrEqual(t, compared, 3000, "%d predictions compared", compared)
}

// Keys that other inputs identify have effects and no columns: the window, the trees and the
// neighbors are those without keys.
func TestEncodedKeysHaveNoColumns(t *testing.T) {
	o := keyOptions()
	plain, keyed := auto.Cost(o), o
	keyed.Keys = nil
	for _, key := range o.Keys {
		keyed.Keys = append(keyed.Keys, auto.Key{Feature: key.Feature, Encoded: true})
	}
	encoded := auto.Cost(keyed)
	assert.True(t, encoded.StateBytes < plain.StateBytes && encoded.ObserveFlops < plain.ObserveFlops, "encoded keys cost %+v, others %+v", encoded, plain)
	rows, l := visits(9, 2000), auto.New(keyed)
	without := keyed
	without.Keys = nil
	m := auto.New(without)
	var with, bare float64
	for n, r := range rows {
		a := observe(t, l, r)
		b := observe(t, m, r)
		if n >= 1000 {
			with, bare = with+a.Loss, bare+b.Loss
		}
	}
	assert.True(t, with < 0.8*bare, "the loss with encoded keys is %g, with numbers in their place %g", with, bare)
}

// The weights of all experts sum to 1 while trees and keys have a part of them.
func TestWeightsOfKeysAndTrees(t *testing.T) {
	l := auto.New(keyOptions())
	both := 0
	for n, r := range visits(6, 2500) {
		observe(t, l, r)
		if n%10 != 0 {
			continue
		}
		total, keys, trees := 0.0, 0.0, 0.0
		for _, e := range l.Report(model.ReportOptions{}).Experts {
			total += e.Weight
			switch {
			case strings.HasPrefix(e.Name, "keys/"):
				keys += e.Weight
			case strings.HasPrefix(e.Name, "trees/"):
				trees += e.Weight
			}
		}
		require.InDelta(t, 1, total, 1e-9, "row %d: the weights sum to %g", n, total)
		if keys > 0 && trees > 0 {
			both++
		}
	}
	assert.NotEqual(t, 0, both, "trees and keys never have weights together")
}
