package trees_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model/codec"
	"hindsight/internal/model/trees"
	"hindsight/internal/model/window"
)

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
		"drawn inputs":        {trees.Options{Seed: 4, Inputs: 30, Deltas: 4, Keys: trees.Keys{From: 6, Effect: 8, To: 18}, Work: 40_000}, 100, 260, 0, 11, false},
		"large leaves":        {trees.Options{Seed: 5, Inputs: 3, Work: 25_000}, 1000, 1700, 0, 31, true},
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
	l := window.Layout{Inputs: o.Inputs, Deltas: o.Deltas}
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
	p.w.Fill(row, p.columns, seen, v)
	p.f.Predict(got, sums, row, v)
	want, wantSums := p.naive.predict(row, v)
	for c := range want {
		if got[c] != want[c] || sums[c] != wantSums[c] {
			t.Fatalf("row %d, column %d: %v of %d, want %v of %d", p.w.Count(), c, got[c], sums[c], want[c], wantSums[c])
		}
	}
	var eighths []int
	if rng.IntN(2) == 0 {
		eighths = []int{8, 1, 8, 4, 8}
	}
	if rng.IntN(2) == 0 {
		sums = nil
	}
	p.w.Add(p.columns, seen, y, v, counts)
	p.f.Observe(eighths, sums)
	p.naive.observe(naiveRow{x: row, label: y, served: v, counts: p.w.Counts[p.w.Slot(0)]}, eighths)
}

// restore continues with a forest that was read from the state.
func (p *pair) restore(t *testing.T) {
	t.Helper()
	state := appended(t, p.w.Visit, p.f.Visit)
	p.w = window.New(p.w.Capacity(), p.layout)
	p.f = trees.New(p.o, p.w)
	require.NoError(t, codec.Read(state, func(v *codec.Visitor) { p.w.Visit(v); p.f.Visit(v) }))
}
