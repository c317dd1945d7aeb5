package auto

import (
	"cmp"
	"math"
	"slices"

	"hindsight/internal/model/codec"
	"hindsight/internal/model/exponential"
	"hindsight/internal/model/wide"
)

func (c *screen) scores(dst []float64, o Options) {
	clear(dst)
	each := o.screenPairs()
	for at, sums := range c.products {
		pair, square := at%each, c.squares[at]
		if square == 0 {
			continue
		}
		for j, sum := range sums {
			spread := 1.0
			if pair%2 == 1 { // Of |z|, whose mean square is 1.
				mean := c.magnitudes[j] / c.counted
				sum -= float64(mean * c.seconds[at])
				spread = math.Max(leastSpread, 1-float64(mean*mean))
			}
			dst[j] = math.Max(dst[j], math.Abs(sum)/math.Sqrt(float64(square*c.counted)*spread))
		}
	}
	for j := range dst {
		for output := range o.Outputs {
			dst[j] = math.Max(dst[j], math.Abs(c.wide.Weight(output, screener, j)))
		}
	}
}

const (
	leastSpread = 1e-3
	// The number of the regression that screens.
	screener = 0
)

// choose fills the slots, all of them anew or the slots of insignificant inputs, and returns the changed slots.
func (c *screen) choose(o Options, anew bool) (changed []int) {
	scores := make([]float64, o.whole)
	c.scores(scores, o)
	unit := exponential.Log(float64(o.whole)) / math.Max(1, c.counted)
	enter, leave := math.Sqrt(float64(entering*unit)), math.Sqrt(float64(leaving*unit))
	before := slices.Clone(c.slots)
	taken := make([]bool, o.whole)
	for i, j := range c.slots {
		switch {
		case i < c.from:
			taken[j] = true
		case j != none && (anew || scores[j] < leave):
			c.slots[i] = none
		case j != none:
			taken[j] = true
		}
	}
	var best []int
	for j, score := range scores {
		if !taken[j] && score >= enter {
			best = append(best, j)
		}
	}
	slices.SortStableFunc(best, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	for _, j := range best {
		at := c.weakest(scores)
		old := c.slots[at]
		if old != none && scores[j] < scores[old]+enter {
			break
		}
		c.slots[at] = j
	}
	for i, j := range before {
		if c.slots[i] != j {
			changed = append(changed, i)
		}
	}
	return changed
}

// weakest is the first empty slot, or else the slot of the least score.
func (c *screen) weakest(scores []float64) int {
	weakest := c.from
	for i, j := range c.slots[c.from:] {
		if j == none {
			return c.from + i
		}
		if scores[j] < scores[c.slots[weakest]] {
			weakest = c.from + i
		}
	}
	return weakest
}

// screenKept chooses the inputs of the levels by the kept rows, of which the regressions learn anew
// in the present units.
func (l *Learner) screenKept() {
	c := l.screen
	c.clear(l.o)
	c.wide = wide.New(l.o.wide())
	for j := range l.mixers {
		l.labelUnits(j)
	}
	for _, r := range l.kept {
		l.present(l.scratch, r.x, r.lags, r.seen)
		l.adviseWide(l.scratch)
		l.learnWide(l.scratch, r)
	}
	c.choose(l.o, true)
}

// rescreen ends a doubling of the rows after lastStage.
func (l *Learner) rescreen() {
	if l.n <= lastStage || l.n&(l.n-1) != 0 || l.n > 1<<40 {
		return
	}
	c := l.screen
	changed := c.choose(l.o, false)
	c.halve()
	if len(changed) == 0 {
		return
	}
	if l.n == uint64(len(l.kept)) {
		l.measureDistances(l.kept[len(l.kept)-lastStage:])
		l.replay()
	} else {
		for i := range l.experts {
			l.experts[i].renewInputs(changed)
		}
	}
	if l.keyed != nil {
		for j := range l.keyed.mixers {
			for _, i := range changed {
				if all := l.keyed.mixers[j].affine; len(all) > 0 {
					all[0].Renew(i, math.Sqrt(ridge))
				}
			}
		}
	}
	for _, m := range l.memories {
		m.renewInputs(changed, l)
	}
	if l.opens() && l.opening.fit != nil {
		l.opening.fit.refit(l)
		if l.opening.scaled != nil {
			l.opening.scaled.refit(l)
		}
	}
}

// halve lets the rows of the sums count half.
func (c *screen) halve() {
	c.counted /= 2
	for _, sums := range append(c.products, c.squares, c.seconds, c.magnitudes) {
		for j := range sums {
			sums[j] /= 2
		}
	}
}

// renewInputs forgets what the experts know of inputs.
func (e *expertMap) renewInputs(inputs []int) {
	m := e.features
	for _, i := range inputs {
		for _, f := range e.factors {
			f.Renew(m.waveCount+i, math.Sqrt(ridge))
		}
		for at := range m.sparse {
			if m.sparse[at].first == i || m.sparse[at].second == i {
				for _, f := range e.factors {
					f.Renew(at, math.Sqrt(ridge))
					f.Renew(len(m.sparse)+at, math.Sqrt(ridge))
				}
			}
		}
		if m.kind != affineMap {
			continue
		}
		for _, theta := range e.descents {
			for at := i; at < len(theta); at += m.size {
				theta[at] = 0
			}
		}
	}
}

// renewInputs puts the mean of its new input into every row of each column.
func (m *memory) renewInputs(inputs []int, of *Learner) {
	for _, i := range inputs {
		column := slices.Index(m.view.numbers, i)
		m.window.Renew(column, of.meanOf(i), of.scaleOf(i))
		if m.logs != nil {
			m.logs.renewInput(i, column, of.o.affine())
		}
	}
	m.forest.Renew()
}

// span are the inputs that are in slots, none of an empty slot.
func (c *screen) span(from, to int) (int, int) {
	if c.slots[from] == none {
		return 0, 0
	}
	return c.slots[from], c.slots[to-1] + 1
}

func (c *screen) visit(v *codec.Visitor, o Options) {
	for i := c.from; i < len(c.slots); i++ {
		at := c.slots[i] + 1
		v.Int(o.whole, &at)
		if v.Reading() { // Several readers write a state at once.
			c.slots[i] = at - 1
		}
	}
	v.Within(maxObservations, &c.counted)
	for _, sums := range c.products {
		v.FloatsWithin(maxEntry, sums)
	}
	for _, sums := range [...][]float64{c.squares, c.seconds, c.spread, c.magnitudes} {
		v.FloatsWithin(maxEntry, sums)
	}
	c.wide.Visit(v)
	if !v.Reading() {
		return
	}
	taken := make([]bool, o.whole)
	for _, j := range c.slots {
		if j == none {
			continue
		}
		if taken[j] {
			v.Corrupt("input %d in two slots", j)
			return
		}
		taken[j] = true
	}
	if c.counted < 0 || slices.Min(c.squares) < 0 || slices.Min(c.magnitudes) < 0 {
		v.Corrupt("sums of rows that count %g", c.counted)
	}
}
