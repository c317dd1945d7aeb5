package auto

import (
	"hindsight/internal/model/compensated"
	"hindsight/internal/model/ledger"
	"hindsight/internal/model/mix"
)

// Experts of an output are numbered as level 2 has them: 0 is v, 1 to K the experts of
// level 1, the lineup and the experts of the keys follow. With keys, expert 0 is u in place of v.
// The ridges of the opening come last.

// keyAt is the number of the first expert of the keys.
func (l *Learner) keyAt() int { return 1 + l.plan.experts() + l.lineup.experts() }

// ridgeAt is the number of the first ridge.
func (l *Learner) ridgeAt() int { return l.keyAt() + l.o.keyExperts() }

// compare is the number of experts of an output.
func (l *Learner) compare() int { return l.ridgeAt() + l.ridges }

// compared is the comparison of level 2 of an output with v (e = 0), or with an expert e > K of the lineup.
func (l *Learner) compared(output, e int) *ledger.Comparison {
	of, f := l.level2[output].account.experts, l.lineup.experts()
	if e == 0 {
		return &of[f]
	}
	return &of[e-1-l.plan.experts()]
}

// regretOf is the regret of an output against expert e: against an expert of level 1 the sum
// of the regrets against v and of v. Against an expert of either level the regret against the
// levels is added.
func (l *Learner) regretOf(output, e int) float64 {
	if r := e - l.ridgeAt(); r >= 0 {
		return l.opening.outputs[output].account.experts[1+r].Regret.Value()
	}
	regret := l.openingRegret(output)
	if e > l.plan.experts() && e < l.keyAt() {
		return regret + l.compared(output, e).Regret.Value()
	}
	if l.awake() {
		regret += l.compared(output, 0).Regret.Value()
	}
	if l.keyed != nil && e > 0 {
		regret += l.keyed.mixers[output].compared(e - l.keyAt()).Regret.Value()
	}
	if e > 0 && e < l.keyAt() {
		regret += l.mixers[output].account.experts[e-1].Regret.Value()
	}
	return regret
}

// best is the expert of an output with the largest regret, of level 1 and the opening while
// level 2 sleeps. Ridges that never predict again do not count.
func (l *Learner) best(output int) int {
	k := l.plan.experts()
	first := 1 + l.mixers[output].account.best(k)
	best, after := first, 1+k
	if l.awake() {
		best, after = 0, l.keyAt()
	}
	largest := l.regretOf(output, best)
	consider := func(e int) {
		if r := l.regretOf(output, e); r > largest {
			best, largest = e, r
		}
	}
	consider(first)
	for e := 1 + k; e < after; e++ {
		consider(e)
	}
	for e := l.keyAt(); e < l.ridgeAt(); e++ {
		consider(e)
	}
	for r := range l.ridges {
		if l.opens() {
			consider(l.ridgeAt() + r)
		}
	}
	return best
}

// promise is the certificate and the bound of ML-Poly of the regret of an output against
// expert e: of the opening against the levels or against a ridge; of the final mixture of level 2 against v, of the final mixture of level 1 against
// b, and of b against the expert; or of the final mixture of level 2 against its b, and of b.
func (l *Learner) promise(output, e int) (certificate, bound float64) {
	add := func(m *mix.Mixture, expert int) {
		certificate += m.Certificate(m.Potential(), expert)
		bound += m.Bound(expert)
	}
	if l.ridges > 0 {
		m, r := l.opening.outputs[output].mix, e-l.ridgeAt()
		if add(m, max(0, 1+r)); r >= 0 {
			return certificate, bound
		}
	}
	if e > l.plan.experts() && e < l.keyAt() {
		add(l.level2[output].final, 1)
		add(l.level2[output].base, e+l.o.keyExperts())
		return certificate, bound
	}
	if l.keyed != nil && e > 0 {
		add(l.keyed.mixers[output].mixture, max(0, 1+e-l.keyAt()))
	}
	if e > 0 && e < l.keyAt() {
		add(l.mixers[output].final, 0)
		add(l.mixers[output].base, e-1)
	}
	if l.awake() {
		add(l.level2[output].final, 0)
	}
	return certificate, bound
}

func (l *Learner) loss(output int) float64 {
	if l.awake() {
		return l.level2[output].account.loss.Value() + l.openingRegret(output)
	}
	if l.keyed != nil {
		return l.keyed.mixers[output].account.loss.Value() + l.openingRegret(output)
	}
	return l.mixers[output].account.loss.Value() + l.openingRegret(output)
}

func (l *Learner) reconciles(output int) bool {
	return l.mixers[output].account.reconciles(l.plan.experts()) &&
		(l.keyed == nil || l.keyed.mixers[output].account.reconciles(l.o.keyExperts())) &&
		(l.lineup.empty() || l.level2[output].account.reconciles(l.lineup.experts())) &&
		(l.ridges == 0 || l.opening.outputs[output].account.openingReconciles())
}

// said is what expert e of an output predicted. A lineup that slept says v, and a ridge after
// the opening what the levels say.
func (l *Learner) said(a *advice, output, e int) float64 {
	_, experts, _, _ := a.level1.of(output)
	switch r := e - l.ridgeAt(); {
	case r >= 0 && len(a.opening) > 0 && a.seen >= firstFit:
		return a.opening[output*(l.ridges+1)+r]
	case r >= 0:
		return a.levels(output)
	case e > 0 && e <= len(experts):
		return experts[e-1]
	case e >= l.keyAt():
		_, said, _ := a.keyed.of(output)
		return said[e-l.keyAt()]
	case e > 0 && len(a.level2.numbers) > 0:
		_, lineup, _, _ := a.level2.of(output)
		return lineup[e-1-len(experts)]
	default:
		return a.base(output)
	}
}

// passed is the loss of expert e of an output on the rows that a gate did not admit.
func (l *Learner) passed(output, e int) *compensated.Sum {
	switch k := l.plan.experts(); {
	case e >= l.ridgeAt():
		return &l.opening.outputs[output].passed[e-l.ridgeAt()]
	case e == 0:
		return &l.level2[output].passed[0]
	case e <= k:
		return &l.mixers[output].passed[e-1]
	case e >= l.keyAt():
		return &l.keyed.mixers[output].passed[e-l.keyAt()]
	default:
		return &l.level2[output].passed[e-k]
	}
}

// Pass adds a row that was predicted and that a gate did not admit to the losses of the
// experts. Numbers are the Prediction.Advice of the row. Pass needs exclusive access.
func (l *Learner) Pass(y []float64, weight float64, numbers []float64) {
	a := l.read(numbers)
	first, after := 1, l.compare()
	if !l.lineup.empty() {
		first = 0
	}
	for j := range l.mixers {
		for e := first; e < after; e++ {
			l.passed(j, e).Add(squared(l.said(&a, j, e), y[j], weight))
		}
	}
}

// Passed is the loss, on the passed rows, of each output's best expert on the learned rows.
func (l *Learner) Passed() float64 {
	total := 0.0
	for j := range l.mixers {
		total += l.passed(j, l.best(j)).Value()
	}
	return total
}

// HindsightOf is the loss of the best experts on one such row.
func (l *Learner) HindsightOf(y []float64, weight float64, numbers []float64) float64 {
	total, a := 0.0, l.read(numbers)
	for j := range l.mixers {
		total += squared(l.said(&a, j, l.best(j)), y[j], weight)
	}
	return total
}
