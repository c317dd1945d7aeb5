package auto_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/auto"
	"hindsight/internal/model/modeltest"
)

// naiveUpper is level 2 as docs/theory.md tells it, given what its experts say: ML-Poly of
// plain sums, and stacks of dense matrices that are solved anew for every prediction.
type naiveUpper struct {
	base, final *naivePoly
	stacks      []*dense
	tops        []*dense
	residual    float64
}

func newNaiveUpper(experts int) *naiveUpper {
	u := &naiveUpper{
		base:  &naivePoly{regrets: make([]float64, experts), squares: make([]float64, experts)},
		final: &naivePoly{regrets: make([]float64, 7), squares: make([]float64, 7)},
		tops:  []*dense{newDense(-1, 6, 1, 3, 1), newDense(-1, 6, 1, 30, 1)},
	}
	for _, f := range []float64{1, 0.999, 0.99} {
		u.stacks = append(u.stacks, newDense(-1, experts+2, 1, 3, f))
	}
	return u
}

// topRow are the features of the tops.
func (u *naiveUpper) topRow(experts, final []float64, scale float64) []float64 {
	b := final[1]
	return []float64{(experts[1] - b) / scale, (final[0] - b) / scale, (final[2] - b) / scale, (final[3] - b) / scale, (final[4] - b) / scale, 1}
}

// predict is v, b, the stacks and the tops, their mixture, and the features of the stacks.
func (u *naiveUpper) predict(experts []float64, scale float64, cut func(float64) float64) (final []float64, value float64, z []float64) {
	b := u.base.mix(experts, len(experts))
	for _, f := range experts {
		z = append(z, (f-b)/scale)
	}
	z = append(z, u.residual/scale, 1)
	final = []float64{experts[0], b}
	for _, s := range u.stacks {
		final = append(final, cut(b+scale*s.predict(z)[0]))
	}
	for _, top := range u.tops {
		final = append(final, cut(b+scale*top.predict(u.topRow(experts, final, scale))[0]))
	}
	return final, u.final.mix(final, len(final)), z
}

func (u *naiveUpper) learn(experts, final, z []float64, value, scale, y, weight, counts float64) {
	b := final[1]
	u.base.learn(2*weight*(b-y), b, experts, len(experts))
	u.final.learn(2*weight*(value-y), value, final, len(final))
	for _, s := range u.stacks {
		s.learn(z, []float64{(y - b) / scale}, weight)
	}
	for _, top := range u.tops {
		top.learn(u.topRow(experts, final, scale), []float64{(y - b) / scale}, counts)
	}
	u.residual = y - b
}

// Level 2 mixes as the naive level 2 mixes, and its regret is that of plain sums.
func TestNaiveUpper(t *testing.T) {
	o := auto.Options{Dimension: 2, Outputs: 1, Lags: 1, Frequencies: 5, Microseconds: 500}
	l, rng := auto.NewLevels(o), rand.New(rand.NewPCG(1, 5))
	var upper *naiveUpper
	var p model.Prediction
	var out model.Outcome
	low, high, total := math.Inf(1), math.Inf(-1), 0.0
	var regrets []float64
	for row := range 900 {
		x := []float64{rng.Float64(), rng.NormFloat64()}
		y := math.Floor(4*x[0]) + math.Sin(2*x[1]) + 0.1*rng.NormFloat64()
		weight := 0.5 + rng.Float64()
		total += weight
		require.NoError(t, l.Predict(&p, x))
		experts, final, value, awake := l.Said(p.Advice)
		if awake {
			if upper == nil {
				upper = newNaiveUpper(len(experts))
				regrets = append(regrets, make([]float64, len(experts)-len(regrets))...)
			}
			scale := l.LabelScale(0)
			want, mixed, z := upper.predict(experts, scale, func(v float64) float64 { return math.Max(low, math.Min(high, v)) })
			for i, f := range append(slices.Clone(final), value) {
				require.InDelta(t, append(slices.Clone(want), mixed)[i], f, 1e-7*(high-low), "%v %v", row, i)
			}
			upper.learn(experts, final, z, value, scale, y, weight, math.Min(1, weight*float64(row+1)/total))
		} else {
			regrets = append(regrets, make([]float64, len(experts)-len(regrets))...)
		}
		low, high = math.Min(low, y), math.Max(high, y)
		for e, f := range experts {
			if e >= 1 && e <= 3 && row == 0 || e > 3 && row < 8 {
				continue // Asleep.
			}
			regrets[e] += weight * ((value-y)*(value-y) - (f-y)*(f-y))
		}
		require.NoError(t, l.Observe(&out, x, []float64{y}, weight))
		compared := regrets
		if row < 128 { // v is what level 1 says.
			compared = regrets[1:]
		}
		require.InDelta(t, slices.Max(compared), out.Regret, 1e-9*(1+l.Stats().Loss), row)
	}
	require.NotNil(t, upper, "level 2 slept")
}

// TestStackGain: what the stack gains by experts is what it explains more than a stack without them, also
// where two of them say the same.
func TestStackGain(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	for _, same := range []bool{false, true} {
		var rows [][]float64
		var labels []float64
		for range 400 {
			z := make([]float64, 9)
			for i := range z {
				z[i] = rng.NormFloat64()
			}
			z[1] += z[4]
			if same {
				z[5] = z[4] + 1e-3*rng.NormFloat64()
			}
			rows, labels = append(rows, z), append(labels, z[0]+z[3]-2*z[5]+rng.NormFloat64())
		}
		gain, all, without := auto.StackGain(rows, labels, 3, 3)
		want := all - without
		assert.False(t, math.Abs(gain-want) > 1e-7*want, "a gain of %g, want %g", gain, want)
	}
}

// rebuild is a stage.
func (n *naive) rebuild() {
	k := n.o.Outputs
	n.units.offset, n.units.scale = make([]float64, k), make([]float64, k)
	for j := range k {
		labels := n.pick(func(r naiveRow) float64 { return r.y[j] })
		mean, square := momentsOf(labels, n.counts())
		n.units.offset[j], n.units.scale[j] = mean, math.Sqrt(square)
		if square == 0 {
			n.units.scale[j] = math.Max(math.Abs(mean), 1)
		}
		signs := true
		for _, y := range labels {
			signs = signs && math.Abs(y) == 1
		}
		if signs {
			n.units.offset[j], n.units.scale[j] = 0, 1
		}
	}
	var rows [][]float64
	for _, r := range n.rows {
		rows = append(rows, n.columns(r.x, r.lags))
	}
	d := n.o.Dimension
	n.units.median = median(rows, func(j int) float64 { return indicator(j < d) })
	n.units.lagged = median(rows, func(j int) float64 { return indicator(j < d) + 64*indicator(j >= d) })
	n.units.sparse = nil
	for _, f := range n.sparse {
		n.units.sparse = append(n.units.sparse, median(rows, func(j int) float64 {
			return indicator(j == int(f[0]) || j == int(f[1]))
		}))
	}
	n.forecasters, n.descents = nil, nil
	for kind := range 5 {
		r := d + n.o.Lags*k + 1
		if kind > 0 {
			r += 2 * n.o.Frequencies
		}
		for _, f := range []float64{1, 0.999, 0.99} {
			n.forecasters = append(n.forecasters, newDense(kind, r, 2*k, 0.01, f))
		}
	}
	for kind := 1; kind < 5; kind++ {
		for _, step := range []float64{0.1, 0.5} {
			n.descents = append(n.descents, &naiveDescent{kind: kind, step: step, theta: matrix(k, 2*n.o.Frequencies)})
		}
	}
	for _, out := range n.outputs {
		out.stacks = nil
		for _, f := range []float64{1, 0.999, 0.99} {
			out.stacks = append(out.stacks, newDense(-1, 43, 1, 3, f))
		}
	}
	for _, r := range n.rows {
		n.learnExperts(r)
	}
}

func indicator(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// joint are the inputs that column j is joint with, nil if there are none.
func (n *naive) joint(j int) *auto.Span {
	for _, span := range n.o.Joint {
		if j >= span.From && j < span.To {
			return &span
		}
	}
	return nil
}

// indicated is false of a joint column of x whose indicator fewer than eight of at least 300 rows have had.
func (n *naive) indicated(column int, x []float64) bool {
	span := n.joint(column)
	if span == nil {
		return true
	}
	at := slices.IndexFunc(x[span.From:span.To], func(v float64) bool { return v != 0 })
	if at < 0 {
		return true
	}
	count, rows := 0.0, 0.0
	for _, r := range n.rows {
		count += r.counts * r.x[span.From+at] * r.x[span.From+at]
		rows += r.counts
	}
	return rows < 300 || count >= 8-1e-9
}

// median is the median distance between rows, columns weighted by their
// squares.
func median(rows [][]float64, weight func(column int) float64) float64 {
	var all []float64
	for i, a := range rows {
		for _, b := range rows[:i] {
			sum := 0.0
			for j := range a {
				sum += weight(j) * (a[j] - b[j]) * (a[j] - b[j])
			}
			all = append(all, math.Sqrt(sum))
		}
	}
	sort.Float64s(all)
	if m := all[len(all)/2]; m > 1e-9 {
		return m
	}
	return 1
}

// observation is a row of a stream of several outputs.
type observation struct {
	x, y   []float64
	weight float64
}

// compare takes observations through the learner and the naive one, each label
// so many rounds late, and holds every prediction to 1e-8 of the labels' size.
func compare(t *testing.T, o auto.Options, rows []observation, delay int) {
	t.Helper()
	l, n := auto.NewLevel1(o), newNaive(o)
	predictions, said := make([]model.Prediction, delay+1), make([]*served, delay+1)
	var out model.Outcome
	size, signs := 0.0, true
	for _, r := range rows {
		for _, y := range r.y {
			size, signs = math.Max(size, math.Abs(y)), signs && math.Abs(y) == 1
		}
	}
	near := func(round int, what string, got, want []float64) {
		t.Helper()
		for j := range want {
			require.True(t, math.Abs(got[j]-want[j]) <= 1e-8*size, "round %d: %s %d is %.15g, want %.15g", round, what, j, got[j], want[j])
		}
	}
	for round, r := range rows {
		at := round % len(predictions)
		p := &predictions[at]
		require.NoError(t, l.Predict(p, r.x))
		said[at] = n.foresee(r.x)
		near(round, "prediction", p.Values, said[at].values)
		if signs && o.Outputs == 1 && round > 0 {
			near(round, "probability", []float64{p.Probability}, []float64{said[at].probability})
		}
		if round < delay {
			continue
		}
		r, at = rows[round-delay], (round-delay)%len(predictions)
		want := n.observe(r.x, r.y, r.weight, said[at])
		require.NoError(t, l.ObserveAdvised(&out, r.x, r.y, r.weight, predictions[at].Advice))
		near(round, "outcome", out.Predictions, want)
	}
}

// foresee shows no lags until eight rows had some, if eight rows had none.
func (n *naive) foresee(x []float64) *served {
	lagged, lags := 0, n.lags()
	for _, r := range n.rows {
		lagged += min(len(r.lags), 1)
	}
	if n.o.Lags > 0 && lagged < 8 && len(n.rows)-lagged >= 8 {
		return n.predict(x, lags, nil)
	}
	return n.predict(x, lags, lags)
}

// The learner is what the naive one computes: dense systems solved anew each
// round, every mean and deviation summed over all rows.
func TestNaive(t *testing.T) {
	for name, c := range map[string]struct {
		outputs, lags, rounds, delay int
		label                        func(y float64) float64
		weighted                     bool
		joint                        []auto.Span
		rare                         bool
	}{
		"plain":              {outputs: 1, lags: 2, rounds: 500},
		"joint inputs":       {outputs: 1, lags: 2, rounds: 300, joint: []auto.Span{{From: 1, To: 3}}},
		"all joint":          {outputs: 1, lags: 1, rounds: 200, joint: []auto.Span{{From: 0, To: 1}, {From: 1, To: 3}}},
		"rare categories":    {outputs: 1, lags: 1, rounds: 380, joint: []auto.Span{{From: 1, To: 3}}, rare: true},
		"no lags":            {outputs: 1, rounds: 200},
		"weights":            {outputs: 1, lags: 2, rounds: 300, weighted: true},
		"two outputs":        {outputs: 2, lags: 1, rounds: 250},
		"late":               {outputs: 1, lags: 2, rounds: 300, delay: 1},
		"very late, weights": {outputs: 2, lags: 2, rounds: 250, delay: 20, weighted: true},
		"very late":          {outputs: 1, lags: 2, rounds: 250, delay: 20},
		"mostly 0, weights":  {outputs: 1, lags: 2, rounds: 300, weighted: true, label: func(y float64) float64 { return math.Max(0, y-2) }},
		"mostly 0, late":     {outputs: 1, lags: 1, rounds: 300, delay: 9, label: func(y float64) float64 { return math.Min(0, 2-y) }},
		"classes":            {outputs: 1, lags: 2, rounds: 300, label: func(y float64) float64 { return math.Copysign(1, y) }},
		"late classes":       {outputs: 1, lags: 3, rounds: 200, delay: 3, label: func(y float64) float64 { return math.Copysign(1, y) }},
	} {
		t.Run(name, func(t *testing.T) {
			var rows []observation
			rng, last := rand.New(rand.NewPCG(1, 2)), 0.0
			rounds := c.rounds
			if modeltest.RaceDetector {
				rounds = 140 // The detector slows dense systems down.
			}
			for n := range rounds {
				r := observation{x: []float64{100 + 7*rng.NormFloat64(), rng.Float64(), float64(n / 50)}, weight: 1}
				if c.rare { // Also all zero, and a column that changes late.
					r.x = []float64{float64(n / 350), indicator(n%3 == 0), indicator(n%60 == 59)}
				}
				last = 0.8*last + math.Sin(5*r.x[1]) + 0.3*rng.NormFloat64()
				for j := range c.outputs {
					y := last + float64(j)*r.x[0]
					if c.label != nil {
						y = c.label(y)
					}
					r.y = append(r.y, y)
				}
				if c.weighted {
					r.weight = math.Exp(rng.NormFloat64())
					if n%9 == 4 {
						r.weight = model.MinWeight
					}
				}
				rows = append(rows, r)
			}
			compare(t, auto.Options{
				Dimension: 3, Outputs: c.outputs, Lags: c.lags, Frequencies: 5, Microseconds: 1e6, Seed: 9,
				Joint: c.joint,
			}, rows, c.delay)
		})
	}
}
