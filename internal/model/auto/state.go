package auto

import (
	"math"
	"slices"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/compensated"
	"hindsight/internal/model/ledger"
	"hindsight/internal/model/qr"
)

// Visit visits the state. The state has neither the frequencies, which follow from the spec, nor
// the number of rows that are kept, which follows from the number of observations.
func (l *Learner) Visit(v *codec.Visitor) { l.visit(v, l) }

// Limits of the numbers of a state. Scaled labels are within 1e100, weights below 1e9,
// scaled inputs below 1e6.
const (
	maxObservations = 1 << 53
	leastDiagonal   = 1e-5 // Of √λ: a ridge falls to λ/1000.
	maxEntry        = 1e120
	maxDistance     = 1e12
	maxReach        = 5 * model.MaxMagnitude // Of advice.
)

func (l *state) visit(v *codec.Visitor, of *Learner) {
	o := of.o
	v.Uint64(&l.n)
	v.Bool(&l.late)
	v.Uint64(&l.stackRounds)
	v.Uint64(&l.lagged)
	if v.Reading() && (l.n > maxObservations || l.stackRounds > l.n || l.lagged > min(l.n, laggedRows)) {
		v.Corrupt("%d observations, %d rounds of stacks, %d rows with lags", l.n, l.stackRounds, l.lagged)
	}
	v.Within(maxObservations*model.MaxWeight, &l.weights.Sum, &l.counted)
	if v.Reading() {
		l.weights.Rows = float64(l.n)
		if l.weights.Sum < 0 || l.counted < 0 || l.n > 0 && !(min(l.weights.Sum, l.counted) > 0) {
			v.Corrupt("weights of %g together, that count %g, of %d observations", l.weights.Sum, l.counted, l.n)
		}
	}
	l.inputs.visit(v)
	l.labels.visit(v)
	v.FloatsWithin(model.MaxMagnitude, l.lags)
	if v.Reading() && l.n < of.keptEnd() {
		l.kept = make([]row, l.n)
	}
	for i := range l.kept {
		l.kept[i].visit(v, uint64(i), o)
	}
	if v.Err() == nil && l.screen != nil {
		l.screen.visit(v, of.o)
	}
	if v.Err() == nil {
		l.opening.visit(v, of, l.n)
	}
	l.bandwidths.visit(v)
	for i := range l.experts {
		for _, f := range l.experts[i].factors {
			visitFactor(v, f, ridge)
		}
		for _, theta := range l.experts[i].descents {
			v.FloatsWithin(maxEntry, theta)
		}
	}
	for j := range l.mixers {
		l.mixers[j].visit(v, l.n, l.counted)
	}
	if v.Err() == nil && l.keyed != nil {
		l.keyed.visit(v, l.n, of.o)
	}
	if v.Err() == nil && !of.lineup.empty() {
		l.visitLevel2(v, of)
	}
}

func (l *state) visitLevel2(v *codec.Visitor, of *Learner) {
	for _, u := range l.level2 {
		u.visit(v)
	}
	v.Uint64(&l.level2Rounds)
	if v.Reading() {
		if l.level2Rounds > l.n {
			v.Corrupt("%d rounds of stacks of level 2, %d observations", l.level2Rounds, l.n)
		}
		if l.n < lastStage {
			l.served = make([]float64, int(l.n)*of.o.Outputs)
		} else {
			for j := range of.o.Outputs {
				l.memories = append(l.memories, newMemory(of.o, of.lineup, j))
			}
		}
	}
	v.FloatsWithin(maxReach, l.served)
	for _, m := range l.memories {
		if v.Err() == nil {
			m.visit(v, l.n)
		}
	}
	if v.Err() == nil && l.stale != nil {
		l.visitStale(v)
	}
}

// visit visits the row after at others.
func (r *row) visit(v *codec.Visitor, at uint64, o Options) {
	if v.Reading() {
		r.x, r.y = make([]float64, o.inputs()), make([]float64, o.Outputs)
		r.lags = make([]float64, o.remembered()*o.Outputs)
	}
	v.FloatsWithin(model.MaxMagnitude, r.x)
	v.FloatsWithin(model.MaxMagnitude, r.y)
	v.FloatsWithin(model.MaxMagnitude, r.lags)
	r.visitKeyed(v, o)
	v.Uint64(&r.seen)
	v.Float(&r.weight, &r.counts)
	if v.Reading() && (r.seen > at || r.after > r.seen || model.CheckWeight(r.weight) != nil || !(r.counts > 0 && r.counts <= 1)) {
		v.Corrupt("row %d after %d labels with a weight of %g that counts %g", at, r.seen, r.weight, r.counts)
	}
}

func (b *bandwidths) visit(v *codec.Visitor) {
	v.Within(maxDistance, &b.median, &b.lagged)
	v.FloatsWithin(maxDistance, b.sparse)
	if !v.Reading() {
		return
	}
	for _, distance := range append([]float64{b.median, b.lagged}, b.sparse...) {
		if distance < leastDistance {
			v.Corrupt("a bandwidth is %g", distance)
		}
	}
}

func visitFactor(v *codec.Visitor, f *qr.Factor, lambda float64) {
	f.Visit(v, leastDiagonal*math.Sqrt(lambda), maxEntry)
}

func (m *mixer) visit(v *codec.Visitor, n uint64, counted float64) {
	m.stacked.visit(v)
	v.Bool(&m.signs)
	v.Within(2*model.MaxMagnitude, &m.low, &m.high, &m.atLow, &m.atHigh, &m.mean, &m.recent, &m.offset, &m.scale, &m.stackScale)
	m.calibration.visit(v)
	m.account.visit(v)
	m.reach.visit(v)
	for k := range m.passed {
		visitSum(v, &m.passed[k])
	}
	if v.Reading() {
		m.check(v, n, counted)
	}
}

// check rejects ranges that no n labels have, and finds what advice is cut to.
func (m *mixer) check(v *codec.Visitor, n uint64, counted float64) {
	most := math.Max(math.Abs(m.low), math.Abs(m.high))
	switch {
	case !(m.atLow >= 0 && m.atHigh >= 0 && math.Max(m.atLow, m.atHigh) <= float64(n)):
		v.Corrupt("labels that count %g and %g at the ends of their range after %d labels", m.atLow, m.atHigh, n)
	case m.low > m.high || most > model.MaxMagnitude || (n == 0 && most != 0):
		v.Corrupt("labels from %g to %g", m.low, m.high)
	case m.signs && n > 0 && most != 1:
		v.Corrupt("signs from %g to %g", m.low, m.high)
	case !(m.scale >= leastScale && m.stackScale >= leastScale/2):
		v.Corrupt("label scales of %g and %g", m.scale, m.stackScale)
	}
	if m.cutAfter(n, counted); n > 0 && !(m.lowest <= m.floor && m.highest >= m.ceiling) {
		v.Corrupt("advice from %g to %g within %g to %g", m.floor, m.ceiling, m.lowest, m.highest)
	}
}

func (a *account) visit(v *codec.Visitor) {
	for _, s := range [...]*compensated.Sum{&a.loss, &a.before, &a.early} {
		visitSum(v, s)
	}
	for k := range a.experts {
		visitSum(v, &a.experts[k].Hindsight)
	}
	for k := range a.experts {
		visitSum(v, &a.experts[k].Regret)
	}
}

func visitSum(v *codec.Visitor, s *compensated.Sum) { v.Within(ledger.MaxSum, &s.High, &s.Low) }

func (r *reach) visit(v *codec.Visitor) {
	v.FloatsWithin(maxReach, r.above[:])
	v.FloatsWithin(maxReach, r.below[:])
	v.Within(maxReach, &r.lowest, &r.highest)
	if v.Reading() && (slices.Min(r.above[:]) < 0 || slices.Min(r.below[:]) < 0) {
		v.Corrupt("overshoots of %g above and %g below", r.above, r.below)
	}
}

// visit rejects a curvature that is less than the prior's beyond rounding.
func (c *calibration) visit(v *codec.Visitor) {
	const leastCurvature, most = 0.99 * priorWeight, 1e12
	v.Within(maxSlope, &c.slope, &c.shift)
	v.Within(most, &c.aa, &c.ac, &c.cc)
	if v.Reading() && !(c.aa >= leastCurvature && c.cc >= leastCurvature &&
		float64(c.aa*c.cc)-float64(c.ac*c.ac) >= leastCurvature*leastCurvature) {
		v.Corrupt("a calibration of curvature %g, %g, %g", c.aa, c.ac, c.cc)
	}
}
