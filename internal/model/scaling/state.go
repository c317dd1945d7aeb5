package scaling

import (
	"slices"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
)

// The tag that begins the state of a scaling that is not given.
const (
	stateWarming    = 1
	stateFrozen     = 2
	stateCatchingUp = 5
	stateRunning    = 4
)

func (l *Learner) tag() uint64 {
	switch {
	case l.warm == nil && l.o.Running:
		return stateRunning
	case l.warm == nil:
		return stateFrozen
	case !l.warm.frozen:
		return stateWarming
	default:
		return stateCatchingUp
	}
}

// Limits of the numbers in a state. Observations are within model.MaxMagnitude, so that a
// deviation is from 1e-162, the root of the smallest number, to 2e100, a scale 1/(2 deviation √d).
const (
	maxLoss  = 1e280
	minScale = 1e-110
	maxScale = 1e170
)

// Visit visits the state. The state of a given scaling is the learner's. Any
// other state is a tag and, while warming up, the observations, from which all else
// follows; while catching up the scaling, the sums of the warm-up, the observations to learn
// and the learner; then the scaling, what the warm-up lost, and the learner. A running
// scaling has Σw and the moments of the inputs in place of their scaling.
func (l *Learner) Visit(v *codec.Visitor) {
	if l.o.Warmup == 0 {
		l.inner.Visit(v)
		return
	}
	tag, a := l.tag(), &l.affine
	if v.Uint64(&tag); v.Reading() {
		l.prepare(v, tag)
	}
	if v.Err() != nil {
		return
	}
	switch tag {
	case stateWarming:
		l.visitWarming(v)
		return
	case stateRunning:
		l.moments.visit(v)
	default:
		v.FloatsWithin(2*model.MaxMagnitude, a.Offset)
		v.FloatsWithin(maxScale, a.Scale)
	}
	v.FloatsWithin(2*model.MaxMagnitude, a.LabelOffset)
	v.Within(maxScale, &a.LabelScale)
	if l.warm == nil {
		v.Within(maxLoss, &l.extra, &l.owed)
	} else {
		v.Uint64(&l.warm.n)
		v.Within(maxLoss, &l.warm.own, &l.warm.loss.High, &l.warm.loss.Low)
		l.warm.best.visit(v)
		l.visitRows(v, &l.warm.rows, l.o.Warmup)
	}
	if l.inner.Visit(v); v.Reading() {
		l.check(v)
	}
}

// prepare gives a learner that has seen nothing the shape of a tag.
func (l *Learner) prepare(v *codec.Visitor, tag uint64) {
	if tag == stateWarming {
		return
	}
	running := tag == stateRunning
	if !running && tag != stateFrozen && tag != stateCatchingUp || running != l.o.Running {
		v.Corrupt("tag %d of an unknown or another kind of scaling", tag)
		return
	}
	l.affine = Affine{
		Offset: make([]float64, l.o.Dimension), Scale: make([]float64, l.o.Dimension), LabelOffset: make([]float64, l.o.Outputs),
	}
	if tag == stateCatchingUp {
		l.warm.frozen = true
	} else {
		l.warm = nil
	}
}

// visitWarming visits the observations. A learner without observations learns what it reads.
func (l *Learner) visitWarming(v *codec.Visitor) {
	rows := l.warm.rows
	if l.visitRows(v, &rows, l.o.Warmup-1); !v.Reading() {
		return
	}
	var o model.Outcome
	for _, r := range rows {
		if err := l.Observe(&o, r.x, r.y, r.weight); err != nil {
			v.Corrupt("an observation of the warm-up: %v", err)
		}
	}
}

// visitRows visits the number of rows, at most most, and the rows. It fails on a row that
// Check would reject for its numbers.
func (l *Learner) visitRows(v *codec.Visitor, rows *[]row, most int) {
	n := len(*rows)
	if v.Count(&n, 8*(l.o.Dimension+l.o.Outputs+1)); v.Reading() {
		if n > most {
			v.Corrupt("%d observations, want at most %d", n, most)
			return
		}
		*rows = make([]row, n)
		for i := range *rows {
			(*rows)[i] = newRow(l.o)
		}
	}
	for i := range *rows {
		r := &(*rows)[i]
		v.FloatsWithin(model.MaxMagnitude, r.x)
		v.FloatsWithin(model.MaxMagnitude, r.y)
		if v.Within(model.MaxWeight, &r.weight); v.Reading() {
			if err := l.checkRow(r.x, r.y, r.weight); err != nil {
				v.Corrupt("observation %d: %v", i, err)
			}
		}
	}
}

func (c *constants) visit(v *codec.Visitor) {
	if v.Within(maxLoss, &c.weight); v.Reading() && !(c.weight >= model.MinWeight) {
		v.Corrupt("constants of weight %g", c.weight)
	}
	for j := range c.outputs {
		v.Within(2*model.MaxMagnitude, &c.outputs[j].Mean)
	}
	for j := range c.outputs {
		loss := &c.outputs[j].Squares
		if v.Within(maxLoss, loss); v.Reading() && *loss < 0 {
			v.Corrupt("constants of a loss of %g", *loss)
		}
	}
}

// check rejects a scaling that no observations determine, and finds what is not stored.
func (l *Learner) check(v *codec.Visitor) {
	a, w := &l.affine, l.warm
	learned := l.inner.Stats().Observations
	moved := slices.ContainsFunc(a.LabelOffset, func(offset float64) bool { return offset != 0 })
	if !l.o.Labels && (moved || a.LabelScale != 1) {
		v.Corrupt("labels, which are not scaled, by %g after %g", a.LabelScale, a.LabelOffset)
	}
	least := a.LabelScale
	if m := l.moments; m != nil {
		if learned < uint64(l.o.Warmup) {
			v.Corrupt("%d observations, a warm-up has %d", learned, l.o.Warmup)
			return
		}
		m.weights.Rows = float64(learned)
		m.scale(a, l.o.Lists)
	} else {
		least = min(least, slices.Min(a.Scale))
	}
	if !(least >= minScale) {
		v.Corrupt("a scale of %g, want at least %g", least, minScale)
	}
	if w == nil {
		return
	}
	if backlog := len(w.rows); backlog == 0 || w.n < uint64(l.o.Warmup) || learned != w.n-uint64(backlog) ||
		model.Remaining(l.inner) < backlog {
		v.Corrupt("%d observations, of which %d are learned and %d to learn", w.n, learned, backlog)
	}
}
