package gate

import (
	"math"
	"slices"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
)

// Visit visits the state of the gate, then the state of the learner.
func (l *Learner) Visit(v *codec.Visitor) {
	l.visit(v, l.o)
	l.inner.Visit(v)
}

// Limits of a state. Labels are within 1e100, and predictions of any learner within 1e120.
const (
	maxRows   = 1 << 53
	maxLabel  = 4 * model.MaxMagnitude
	maxAdvice = 1e150
	maxSum    = 1e290
	maxSize   = 1e280 // Of a label in scales, which may be as small as the smallest number.
	// A fortune grows by less than 100 a round, and earlier ones are at least poorest.
	maxFortune = 1e200
)

func (s *state) visit(v *codec.Visitor, o Options) {
	c, kept, aside := &s.closed, len(s.kept), len(s.aside)
	v.Uint64(&s.rows, &s.epoch, &s.taken, &s.count, &s.large, &s.stretched)
	v.Int(ringRows, &s.recent)
	v.Int(lastStage, &kept)
	v.Int(asideRows, &aside)
	v.Uint64(&s.setAside, &s.lastSetAside, &s.starts, &s.lastStart)
	v.Bool(&c.uncertified, &c.broken)
	v.Within(restartAlarm, &s.alarm)
	v.Within(maxRows*model.MaxWeight, &s.weights.Sum)
	v.Within(maxSum, &s.learnedLoss.High, &s.learnedLoss.Low, &s.asideLoss.High, &s.asideLoss.Low)
	v.Within(maxSum, &c.loss)
	v.Float(&c.regret)
	v.Within(maxSum, &c.bound, &c.certificate, &c.passed)
	v.Within(maxAdvice, &c.labelBound)
	if v.Reading() {
		s.weights.Rows = float64(s.rows)
		s.kept, s.aside = make([]row, kept), make([]row, aside)
		s.check(v, o)
	}
	for j := range s.trackers {
		s.trackers[j].visit(v)
	}
	for i := range s.kept {
		s.kept[i].visit(v, o)
	}
	for i := range s.aside {
		s.aside[i].visit(v, o)
	}
	s.events.visit(v)
}

func (s *state) check(v *codec.Visitor, o Options) {
	c, kept, aside := &s.closed, uint64(len(s.kept)), len(s.aside)
	switch {
	case s.rows > maxRows || s.epoch > maxRows || s.taken > s.rows || s.count > s.rows:
		v.Corrupt("%d rows, %d learners, %d rows of this start, %d of them tracked", s.rows, s.epoch, s.taken, s.count)
	case s.large > s.rows || s.stretched > s.large:
		v.Corrupt("%d large labels of %d rows, the range stretched at %d", s.large, s.rows, s.stretched)
	case kept > o.last() || kept > s.taken || s.recent > aside:
		v.Corrupt("%d rows kept, %d aside, %d of them recent", kept, aside, s.recent)
	case s.setAside > maxRows || s.lastSetAside > s.rows || s.starts > s.rows || s.lastStart > s.rows:
		v.Corrupt("%d rows set aside until row %d, %d starts until row %d of %d",
			s.setAside, s.lastSetAside, s.starts, s.lastStart, s.rows)
	case s.alarm < 0:
		v.Corrupt("an alarm of %g", s.alarm)
	case s.weights.Sum < 0 || s.rows > 0 && !(s.weights.Sum > 0):
		v.Corrupt("weights of %g together of %d rows", s.weights.Sum, s.rows)
	case !(math.IsNaN(c.regret) || math.Abs(c.regret) <= maxSum): // A regret that a learner does not know is NaN.
		v.Corrupt("a regret of %g over the starts", c.regret)
	}
}

func (t *tracker) visit(v *codec.Visitor) {
	v.Within(maxLabel, &t.mean, &t.near, &t.far)
	v.Within(maxLabel, &t.moves, &t.last, &t.values[0], &t.values[1])
	v.Within(maxLabel, &t.admitted.low, &t.admitted.high, &t.met.low, &t.met.high)
	v.Uint64(&t.distinct, &t.repeats)
	if v.Reading() && (t.near < 0 || t.far < 0 || t.moves < 0 || t.moves > 1 || t.distinct > 3 || t.repeats > maxRows) {
		v.Corrupt("a tracker of %g, %g, %g and %d values", t.near, t.far, t.moves, t.distinct)
	}
}

func (r *row) visit(v *codec.Visitor, o Options) {
	if v.Reading() {
		r.x, r.y = make([]float64, o.Dimension), make([]float64, o.Outputs)
	}
	v.FloatsWithin(model.MaxMagnitude, r.x)
	v.FloatsWithin(model.MaxMagnitude, r.y)
	v.Within(maxSum, &r.weight, &r.loss, &r.size)
	advice := len(r.advice)
	if v.Int(o.mostAdvice(), &advice); !v.Reading() {
		v.Floats(r.advice)
		return
	}
	if err := model.CheckWeight(r.weight); err != nil {
		v.Corrupt("a row: %v", err)
	}
	if advice == 0 {
		return
	}
	if !slices.Contains(o.Advice, advice) {
		v.Corrupt("a row with advice of %d numbers, want %d", advice, o.Advice)
	}
	r.advice = make([]float64, advice)
	v.FloatsWithin(maxAdvice, r.advice)
}

func (e *events) visit(v *codec.Visitor) {
	d, waiting, earlier := e.dimension(), len(e.pending), len(e.earlier)
	v.Uint64(&e.seen)
	v.Int(half/spacing, &waiting)
	v.Int(asideRows, &earlier)
	v.Within(maxSum, &e.least)
	if v.Reading() {
		if e.seen > maxRows || e.least < 0 || (d == 0 && (e.seen > 0 || waiting+earlier > 0)) {
			v.Corrupt("%d inputs, %d to be compared, %d compared", e.seen, waiting, earlier)
		}
		e.pending, e.earlier = make([]pending, waiting), make([][]float64, earlier)
		for i := range e.pending {
			e.pending[i].x = make([]float64, d)
		}
		for i := range e.earlier {
			e.earlier[i] = make([]float64, d)
		}
	}
	v.FloatsWithin(maxFortune, e.fortunes)
	for i := range e.pending {
		p := &e.pending[i]
		v.Int(half-1, &p.since)
		v.FloatsWithin(model.MaxMagnitude, p.x)
	}
	for _, x := range e.earlier {
		v.FloatsWithin(model.MaxMagnitude, x)
	}
	v.FloatsWithin(model.MaxMagnitude, e.window[:min(e.seen, compared)*uint64(d)])
	for _, fortune := range e.fortunes {
		if v.Reading() && fortune < poorest {
			v.Corrupt("a fortune of %g", fortune)
		}
	}
}
