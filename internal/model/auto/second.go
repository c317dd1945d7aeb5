package auto

import (
	"slices"
	"sync"

	"hindsight/internal/model"
	"hindsight/internal/model/mix"
)

// Second is the second version of the learner: a Learner is its level 1, and level 2 mixes
// the prediction v of level 1 and its experts with trees, neighbors and crosses. Level 2
// sleeps for the first lastStage rows: until then the prediction is v.
type Second struct {
	o      Options
	lineup lineup
	first  *Learner
	view   view
	// renewals are those of the stacks of level 2.
	renewals [stacks]renewal
	// upperBytes and memoryBytes are the memory of level 2 beside what it keeps of the first
	// rows, and of what the lineup knows.
	upperBytes, memoryBytes uint64
	secondState
	own  *secondScratch
	pool sync.Pool
}

// secondState is the stored state beside that of level 1.
type secondState struct {
	uppers []*upper
	// served are the predictions v of the first rows, by outputs, and nil once level 2 is
	// awake.
	served []float64
	// memories are nil while level 2 sleeps.
	memories []*memory
	// rounds counts the rows that the stacks have learned.
	rounds uint64
}

// HasSecond tells whether the budget has room for the experts that level 2 adds.
func HasSecond(o Options) bool { return o.lineup().experts() > 0 }

// NewSecond is a learner that has seen nothing. It panics if an option is out of its range or
// HasSecond(o) is false.
func NewSecond(o Options) *Second {
	if !HasSecond(o) {
		panic("auto: a second version without experts of its own")
	}
	l := &Second{o: o, lineup: o.lineup(), first: New(o), view: o.view()}
	l.renewals = stackRenewals(o.secondExperts(l.lineup))
	l.upperBytes, l.memoryBytes = o.upperBytes(l.lineup), o.memoryBytes(l.lineup)
	l.secondState = l.newState()
	l.own = l.newScratch()
	l.pool.New = func() any { return l.newScratch() }
	return l
}

func (l *Second) newState() secondState {
	s := secondState{uppers: make([]*upper, l.o.Outputs)}
	for j := range s.uppers {
		s.uppers[j] = newUpper(l.o, l.lineup)
	}
	return s
}

// secondScratch is the scratch of one prediction, and holds its result.
type secondScratch struct {
	// first is the scratch of level 1.
	first  *scratch
	memory memoryScratch
	query  query
	stack  stackScratch
	// experts and final are the predictions of the experts and of the finalists, by outputs.
	experts, final, weights, values []float64
	// scales and units are those of level 1 before the label.
	scales []float64
	units  []units
}

func (l *Second) newScratch() *secondScratch {
	o, k := l.o, l.o.secondExperts(l.lineup)
	s := &secondScratch{
		first: l.first.newScratch(), memory: newMemoryScratch(o, l.lineup), stack: newStackScratch(k),
		experts: make([]float64, k*o.Outputs), final: make([]float64, secondFinalists*o.Outputs),
		weights: make([]float64, k), values: make([]float64, o.Outputs),
		scales: make([]float64, l.view.near()), units: make([]units, o.Outputs),
	}
	return s
}

func (l *Second) awake() bool { return l.memories != nil }

// Check tells whether Observe would accept the observation.
func (l *Second) Check(x, y []float64, weight float64) error { return l.first.Check(x, y, weight) }

// Predict allocates nothing once its scratch is warm.
func (l *Second) Predict(p *model.Prediction, x []float64) error {
	if !l.awake() {
		return l.first.Predict(p, x)
	}
	if err := model.CheckFeatures(x, l.o.Dimension, model.MaxMagnitude); err != nil {
		return err
	}
	s := l.pool.Get().(*secondScratch) //nolint:forcetypeassert // The pool holds nothing else.
	defer l.pool.Put(s)
	l.first.answer(s.first, x)
	l.note(s)
	for j, u := range l.uppers {
		final := l.consult(s, s.first, x, j)
		u.solve(&s.stack, s.units[j], l.expertsOf(s, j), final[1:])
		s.values[j] = l.mixFinal(s, u, final)
	}
	p.Resize(l.o.Outputs)
	copy(p.Values, s.values)
	p.StandardErrors, p.Leverage = p.StandardErrors[:0], model.NoLeverage
	if l.o.Outputs == 1 && l.first.mixers[0].signs {
		p.Probability = l.uppers[0].calibration.probability(s.values[0])
	}
	p.Advice = l.appendAdvice(l.first.appendAdvice(p.Advice, s.first), s)
	return nil
}

// note notes the units of level 1.
func (l *Second) note(s *secondScratch) {
	for i := range s.scales {
		s.scales[i] = 1
		if i < len(l.view.numbers) {
			s.scales[i] = l.first.inputs.scale[l.view.numbers[i]]
		}
	}
	for j := range s.units {
		s.units[j] = l.first.mixers[j].units
	}
}

func (l *Second) expertsOf(s *secondScratch, output int) []float64 {
	k := len(s.weights)
	return s.experts[output*k:][:k]
}

// lineupOf is the lineup's part of the experts' predictions.
func (l *Second) lineupOf(experts []float64) []float64 { return experts[1+l.first.plan.experts():] }

// consult writes the predictions of an output's experts, given those of level 1 in its
// scratch, and v and b into final.
func (l *Second) consult(s *secondScratch, first *scratch, x []float64, output int) (final []float64) {
	k, experts, q := l.first.plan.experts(), l.expertsOf(s, output), &s.query
	experts[0] = first.values[output]
	copy(experts[1:], first.advice[output*k:][:k])
	q.x, q.scales, q.seen, q.v, q.units = x, s.scales, first.seen, experts[0], s.units[output]
	l.memories[output].advise(l.lineupOf(experts), &s.memory, q)
	u := l.uppers[output]
	u.base.Weights(s.weights, nil)
	final = s.final[output*secondFinalists:][:secondFinalists]
	final[0], final[1] = experts[0], mix.Mean(s.weights, experts)
	return final
}

// mixFinal is the prediction of an output.
func (l *Second) mixFinal(s *secondScratch, u *upper, final []float64) float64 {
	u.final.Weights(s.weights[:secondFinalists], nil)
	return mix.Mean(s.weights[:secondFinalists], final)
}

// Observe allocates at the stages alone.
func (l *Second) Observe(o *model.Outcome, x, y []float64, weight float64) error {
	if err := l.Check(x, y, weight); err != nil {
		return err
	}
	l.learn(o, row{x: x, y: y, weight: weight}, nil, nil)
	return nil
}

// ObserveAdvised is Observe of an input that was predicted before, as Learner.ObserveAdvised
// on both levels: the lineup learns with the lags and v of the served prediction, and the
// mixtures and the stacks of level 2 learn from the predictions that were served, unless
// level 2 slept.
func (l *Second) ObserveAdvised(o *model.Outcome, x, y []float64, weight float64, numbers []float64) error {
	if err := l.Check(x, y, weight); err != nil {
		return err
	}
	r := row{x: x, y: y, weight: weight}
	if size := l.first.adviceSize(); len(numbers) >= size {
		a, ok := l.first.stale(numbers[:size])
		if second := numbers[size:]; ok && l.possible(a, second) {
			l.learn(o, r, &a, second)
			return nil
		}
	}
	l.learn(o, r, nil, nil)
	return nil
}

// learn learns an observation, given the advice of both levels if it is stale. The advice of
// level 2 is empty if level 2 slept.
func (l *Second) learn(o *model.Outcome, r row, served *advice, second []float64) {
	first, s := l.first, l.own
	l.note(s)
	rows := first.kept
	if served == nil {
		first.present(first.own, r.x, first.lags, first.n)
	} else {
		first.late = true
		first.present(first.own, r.x, served.lags, served.seen)
	}
	if r.seen = first.own.seen; !l.awake() {
		r.lags = slices.Clone(first.own.lags)
	}
	first.learn(o, r, served)
	r.counts = first.weights.Of(r.weight)
	if !l.awake() {
		l.sleep(o, r, rows)
		return
	}
	if served == nil || len(second) > 0 {
		l.rounds++
	}
	o.Loss, o.Regret = 0, 0
	for j := range l.uppers {
		o.Loss += l.learnOutput(s, j, r, served, second)
		o.Predictions[j] = s.values[j]
		o.Regret += l.regret(j)
	}
}

// regret is the regret of an output against its best expert.
func (l *Second) regret(output int) float64 {
	u, m, k := l.uppers[output], &l.first.mixers[output], l.first.plan.experts()
	return u.regretOf(m, u.best(m, k), k)
}

// sleep ends a round of level 1 alone, rows being those before. The last of them wakes level 2.
func (l *Second) sleep(o *model.Outcome, r row, rows []row) {
	for j, v := range o.Predictions {
		l.uppers[j].account.sleep(squared(v, r.y[j], r.weight))
	}
	l.served = append(l.served, o.Predictions...)
	if l.first.n < lastStage {
		return
	}
	served := l.served
	l.served = nil
	for j := range l.uppers {
		l.uppers[j].calibration = l.first.mixers[j].calibration
		m := newMemory(l.o, l.lineup, j)
		m.begin(l.first, j, append(rows[:lastStage-1:lastStage-1], r), served, &l.own.memory)
		l.memories = append(l.memories, m)
	}
}

// learnOutput mixes the experts of an output, learns its label, and returns the loss.
func (l *Second) learnOutput(s *secondScratch, j int, r row, served *advice, second []float64) float64 {
	u, memory, own, y := l.uppers[j], l.memories[j], s.units[j], r.y[j]
	final, experts := l.consult(s, l.first.own, r.x, j), l.expertsOf(s, j)
	memory.credit(&s.memory, l.first.n, l.lineupOf(s.weights))
	if served == nil {
		u.rotate(&s.stack, own, &l.renewals, l.rounds, experts, final[1], u.residual, y, r.weight)
		s.stack.predicted(own, final[1:], r.weight)
	} else {
		u.solve(&s.stack, own, experts, final[1:])
	}
	value := l.mixFinal(s, u, final)
	s.values[j] = value
	loss := squared(value, y, r.weight)
	u.account.add(y, r.weight, loss, l.lineupOf(experts), final)
	v, said := experts[0], value
	if served != nil {
		_, _, _, v = served.of(j)
		said = v
		if len(second) > 0 {
			// From here on the served predictions are mixed.
			var residual float64
			residual, final, said = l.servedOf(s, j, served, second)
			u.rotate(&s.stack, own, &l.renewals, l.rounds, experts, final[1], residual, y, r.weight)
		}
	}
	if served == nil || len(second) > 0 {
		u.base.Update(float64(2*r.weight)*(final[1]-y), final[1], experts, nil)
		u.final.Update(float64(2*r.weight)*(said-y), said, final, nil)
		u.residual = y - final[1]
	}
	if l.first.mixers[j].signs {
		u.calibration.learn(said, y, r.weight)
	}
	memory.learn(&s.memory, &s.query, v, y, r)
	return loss
}
