package auto

import (
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/compensated"
	"hindsight/internal/model/loops"
	"hindsight/internal/model/neighbors"
	"hindsight/internal/model/qr"
)

const (
	// The final mixture of level 2 mixes v, b, the stacks and the tops.
	level2Finalists = 2 + stacks + tops
	tops            = 2
	// The features of a top are of the mean label, v and the stacks, and 1.
	topSize = 3 + stacks
)

// topRidges are λ of the tops.
func topRidges() [tops]float64 { return [...]float64{3, 30} }

// level2 is level 2 of an output. Its experts are v, the prediction of level 1; the K experts
// of level 1; and the F experts of the lineup. Its finalists are v, b, the stacks and the tops.
type level2 struct {
	stacked
	// tops are forecasters of the residual of b with the features (f − b)/s of the mean label, v and
	// the stacks f, and 1. A convex mixture draws no noisy b to the mean label, and a top does.
	tops [tops]*qr.Factor
	// account compares level 2 with each expert of the lineup and with each finalist.
	account account
	// passed are the losses of v and of the lineup on the rows that a gate before the learner
	// did not admit.
	passed []compensated.Sum
}

func newLevel2(o Options, l lineup) *level2 {
	m := &level2{
		stacked: newStacked(o.level2Experts(o.plan(), l), level2Finalists), account: newAccount(l.experts() + level2Finalists),
		passed: make([]compensated.Sum, 1+l.experts()),
	}
	for i, ridge := range topRidges() {
		m.tops[i] = qr.New(topSize, 1, ridge)
	}
	return m
}

// topRow writes the features of the tops, given the experts and the other finalists.
func (u units) topRow(row, experts, final []float64) {
	row[0], row[1] = u.stackRelative(experts[1+meanBaseline]-final[1]), u.stackRelative(final[0]-final[1])
	for i := 2; i < 2+stacks; i++ {
		row[i] = u.stackRelative(final[i] - final[1])
	}
	row[topSize-1] = 1
}

// finish writes the predictions of the tops behind the other finalists.
func (m *level2) finish(s *level2Scratch, u units, experts, final []float64) {
	for i, top := range m.tops {
		u.topRow(s.top[:topSize], experts, final)
		square := top.Solve(s.top[:topSize], s.topPrior)
		final[2+stacks+i] = u.stack(final[1], s.topPrior[0], square)
	}
}

// learnTops teaches the tops what the finalists predicted of a row. Counts is its ω, so that a row of a huge weight teaches
// no more than one row.
func (m *level2) learnTops(s *level2Scratch, u units, experts, final []float64, y, counts float64) {
	for _, top := range m.tops {
		u.topRow(s.top, experts, final)
		s.top[topSize] = u.stackRelative(y - final[1])
		if counts != 1 {
			loops.Scale(s.top, math.Sqrt(counts))
		}
		top.Rotate(s.top, s.topPrior)
	}
}

func (m *level2) visit(v *codec.Visitor) {
	m.stacked.visit(v)
	for i, ridge := range topRidges() {
		visitFactor(v, m.tops[i], ridge)
	}
	m.account.visit(v)
	for k := range m.passed {
		visitSum(v, &m.passed[k])
	}
}

type level2Scratch struct {
	memory memoryScratch
	query  query
	// present is the present advice of level 2, without numbers if there is none. near are what the
	// neighbors say beside v, by outputs.
	present block
	near    []float64
	stack   stackScratch
	// experts and final are the predictions of the experts and of the finalists, by outputs.
	experts, final, weights []float64
	// residuals are the last y − b, 0 of a prediction that is not fresh.
	residuals []float64
	// scales and units are the scales and units of level 1 before the label.
	scales []float64
	units  []units
	// top is a row of a top with its label.
	top, topPrior []float64
}

func newLevel2Scratch(o Options, l lineup) *level2Scratch {
	k := o.level2Experts(o.plan(), l)
	return &level2Scratch{
		memory: newMemoryScratch(o, l), stack: newStackScratch(k),
		experts: make([]float64, k*o.Outputs), final: make([]float64, level2Finalists*o.Outputs), weights: make([]float64, k),
		top: make([]float64, topSize+1), topPrior: make([]float64, 1),
		residuals: make([]float64, o.Outputs), near: make([]float64, l.parts()*o.Outputs), scales: make([]float64, o.view().near()), units: make([]units, o.Outputs),
	}
}

// measure notes the units of level 1.
func (l *Learner) measure(s *level2Scratch) {
	for i := range s.scales {
		s.scales[i] = 1
		if i < len(l.view.numbers) {
			s.scales[i] = l.scaleOf(l.view.numbers[i])
		}
	}
	for j := range s.units {
		s.units[j] = l.mixers[j].units
	}
}

// nearOf is what the neighbors say of an output beside v.
func (s *level2Scratch) nearOf(output int) []float64 {
	k := len(s.near) / len(s.units)
	return s.near[output*k:][:k]
}

func (l *Learner) expertsOf(s *scratch, output int) []float64 {
	k := len(s.level2.weights)
	return s.level2.experts[output*k:][:k]
}

func (l *Learner) lineupOf(experts []float64) []float64 {
	return experts[1+l.plan.experts()+l.o.keyExperts():]
}

func (l *Learner) keysOf(experts []float64) []float64 {
	return experts[1+l.plan.experts():][:l.o.keyExperts()]
}

// queryLineup writes the predictions of an output's experts but the lineup, and the query of the lineup, given the
// predictions of level 1.
func (l *Learner) queryLineup(s *scratch, output int) {
	k, experts, q := l.plan.experts(), l.expertsOf(s, output), &s.level2.query
	experts[0] = s.base(output)
	copy(experts[1:], s.advice[output*k:][:k])
	if s.keyed != nil {
		q.columns = s.keyed.columnsOf(output)
		copy(l.keysOf(experts), s.keyed.predictionsOf(output)[1:])
		l.view.keyScales(s.level2.scales, s.level2.units[output])
	}
	q.after, q.affine = 0, s.affine
	if s.keyed != nil {
		q.after = s.keyed.after
	}
	q.x, q.scales, q.seen, q.v, q.units = s.inner, s.level2.scales, s.seen, experts[0], s.level2.units[output]
	l.memories[output].present(&s.level2.memory, q)
}

// consult writes the predictions of the lineup for the query, and v and b into final.
func (l *Learner) consult(s *scratch, output int) (final []float64) {
	experts, q := l.expertsOf(s, output), &s.level2.query
	near, known := s.level2.nearOf(output), len(s.level2.present.numbers) > 0
	if known {
		copy(near, s.level2.present.near(output))
	}
	l.memories[output].advise(l.lineupOf(experts), &s.level2.memory, q, near, known)
	if l.lineup.keys {
		l.adviseTreeKeys(s.keyed, experts, output)
	}
	final = s.level2.final[output*level2Finalists:][:level2Finalists]
	var awake []bool
	rest := l.memories[output].nearRest(s.seen)
	if rest {
		awake = l.nearAsleep
	}
	final[0], final[1] = experts[0], l.level2[output].mixBase(s.level2.weights, experts, awake)
	if rest {
		near := l.lineupOf(experts)[len(l.lineup.columns):][:neighbors.Experts]
		for e := range near {
			near[e] = final[1]
		}
	}
	return final
}

// sleep ends a round of level 1 alone. The last of them wakes level 2.
func (l *Learner) sleep(o *model.Outcome, r row) {
	for j, v := range o.Predictions {
		l.level2[j].account.sleep(squared(v, r.y[j], r.weight))
	}
	l.served = append(l.served, o.Predictions...)
	if l.n < lastStage {
		return
	}
	served := l.served
	l.served = nil
	for j := range l.level2 {
		m := newMemory(l.o, l.lineup, j)
		m.begin(l, j, served)
		l.memories = append(l.memories, m)
	}
}

func (l *Learner) learnLevel2(o *model.Outcome, r row, served *advice) {
	if served == nil || len(served.level2.numbers) > 0 {
		l.level2Rounds++
	}
	o.Loss, o.Regret = 0, 0
	for j := range l.level2 {
		o.Loss += l.learnLevel2Output(o, j, r, served)
		o.Regret += l.regretOf(j, l.best(j))
	}
}

// learnLevel2Output mixes the experts of an output, learns its label, and returns the loss.
func (l *Learner) learnLevel2Output(o *model.Outcome, j int, r row, served *advice) float64 {
	s, y := l.scratch, r.y[j]
	u, memory, unit := l.level2[j], l.memories[j], s.level2.units[j]
	l.queryLineup(s, j)
	final, experts := l.consult(s, j), l.expertsOf(s, j)
	memory.credit(&s.level2.memory, l.n, l.lineupOf(s.level2.weights))
	if memory.lineup.neighbors && l.n%trialPeriod == trialRounds && l.nearNeeded(u, unit) {
		memory.nearUsed = l.n
	}
	if served == nil {
		u.rotate(&s.level2.stack, unit, &l.level2Renewals, l.level2Rounds, experts, final[1], u.residual, y, r.weight)
		s.level2.stack.predicted(unit, final[1:], r.weight)
	} else {
		u.solve(&s.level2.stack, asked{unit, experts, final[1:], u.residual})
	}
	u.finish(s.level2, unit, experts, final)
	value := unit.value(u.mixFinal(s.level2.weights, final, nil))
	o.Predictions[j] = value
	loss := squared(value, y, r.weight)
	u.account.add(y, r.weight, loss, l.lineupOf(experts), final, complete)
	v := experts[0]
	switch {
	case served == nil:
		s.answers[j] = value
	case len(served.level2.numbers) > 0:
		// From here on the served predictions are mixed.
		var residual float64
		residual, final, s.answers[j] = l.servedOf(experts, j, served)
		u.rotate(&s.level2.stack, unit, &l.level2Renewals, l.level2Rounds, experts, final[1], residual, y, r.weight)
		v = final[0]
	default:
		v = served.base(j) // Level 2 slept, and learns from v alone.
	}
	if l.view.keys > 0 && (served == nil || len(served.level2.numbers) > 0) {
		s.keyed.bases[l.o.Outputs+j] = l.treeBase(s.keyed, experts, j)
	}
	if served == nil || len(served.level2.numbers) > 0 {
		u.learnTops(s.level2, unit, experts, final, y, r.counts)
		u.learn(experts, final, final[1], s.answers[j], y, r.weight, nil, nil)
	}
	memory.learn(&s.level2.memory, &s.level2.query, v, y, r)
	return loss
}

// nearNeeded reports whether the first stack, which forgets nothing, would lose more than a thousandth of the loss without
// the neighbors. Neighbors of no use seem to save more than chance times the mean loss once in 130 times.
func (l *Learner) nearNeeded(u *level2, unit units) bool {
	const least, chance = 1e-3, 12
	at := 1 + l.plan.experts() + l.o.keyExperts() + len(l.lineup.columns)
	mean := u.account.loss.Value() / float64(l.n)
	gain := u.gain(&l.scratch.level2.stack, at, neighbors.Experts)
	return float64(float64(gain*unit.stackScale)*unit.stackScale) > float64(mean*math.Max(chance, least*float64(l.n)))
}

// servedOf writes the served predictions of an output's experts.
func (l *Learner) servedOf(experts []float64, output int, served *advice) (residual float64, final []float64, value float64) {
	_, level1, _, _ := served.level1.of(output)
	residual, lineup, final, value := served.level2.of(output)
	experts[0] = served.base(output)
	copy(experts[1:], level1)
	if l.keyed != nil {
		_, keys, _ := served.keyed.of(output)
		copy(l.keysOf(experts), keys)
	}
	copy(l.lineupOf(experts), lineup)
	return residual, final, value
}
