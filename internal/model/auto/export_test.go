package auto

import (
	"slices"

	"hindsight/internal/model"
	"hindsight/internal/model/loops"
	"hindsight/internal/model/qr"
)

// Experts is K.
func (l *Learner) Experts() int { return l.plan.experts() }

// Served is what the experts of the only output predicted, of the advice.
func (l *Learner) Served(advice []float64) []float64 {
	a := l.read(advice)
	_, experts, _, _ := a.level1.of(0)
	return experts
}

// LabelScale is s of an output.
func (l *Learner) LabelScale(output int) float64 { return l.mixers[output].scale }

// PlanCosts are the multiply-adds and the experts of every plan.
func PlanCosts(o Options) (flops []uint64, experts []int) {
	for _, p := range plans() {
		flops, experts = append(flops, o.observeFlops(p)), append(experts, p.experts())
	}
	return flops, experts
}

// NewLevel1 is a learner without a lineup and without an opening.
func NewLevel1(o Options) *Learner { return newLearner(o, lineup{}, 0) }

// NewLevels is a learner without an opening.
func NewLevels(o Options) *Learner { return newLearner(o, o.lineup(), 0) }

// Level1Cost is the most that a learner without a lineup and without an opening costs.
func Level1Cost(o Options) model.Cost { return o.numeric().cost(lineup{}, 0) }

// Said is what the experts of level 2 and its finalists said in advice of the only output: v
// and the experts of both levels; v, b and the stacks; and the prediction. It is not ok while
// level 2 sleeps.
func (l *Learner) Said(numbers []float64) (experts, final []float64, value float64, ok bool) {
	a := l.read(numbers)
	_, level1, _, v := a.level1.of(0)
	experts = append([]float64{v}, level1...)
	if !l.awake() {
		return experts, nil, v, false
	}
	_, lineup, final, value := a.level2.of(0)
	return append(experts, lineup...), final, value, true
}

// KeyExperts is the number of experts of the keys of an output.
func (l *Learner) KeyExperts() int { return l.o.keyExperts() }

// SaidKeyed are v and what the experts of the keys said in advice of the only output, and u.
func (l *Learner) SaidKeyed(numbers []float64) (said []float64, u float64) {
	a := l.read(numbers)
	said = make([]float64, 1+l.o.keyExperts())
	return said, a.keyPredictions(said, 0)
}

// KeyMeans are the features of the forecasters from mean labels and counts, of the advice, and the unit of labels.
func (l *Learner) KeyMeans(advice []float64) (z []float64, scale float64) {
	columns, _, _ := l.read(advice).keyed.of(0)
	s, u := newKeyAffineScratch(l.o), l.mixers[0].units
	s.fill(s.features[0], make([]float64, l.o.affine()), columns, u)
	return s.row(1, 0, len(columns)), u.scale
}

// KeyAdvice is where the numbers of the keys are in advice.
func (l *Learner) KeyAdvice() (from, to int) {
	from = 1 + len(l.lags) + l.o.Outputs*l.level1Block.size()
	return from, from + l.o.Outputs*l.o.keyedBlock().size()
}

// Opened are the levels, the ridges and the opening of an output, of the advice.
func (l *Learner) Opened(advice []float64, output int) (said []float64, answer float64, ok bool) {
	a := l.read(advice)
	if len(a.opening) == 0 {
		return nil, a.levels(output), false
	}
	said = make([]float64, 1+l.ridges)
	answer = a.opened(output, said)
	return said, answer, true
}

// LeaveOneOut are the leave-one-out losses of a ridge regression on rows of features, with all
// features and with the leading ones, or an error.
func LeaveOneOut(rows [][]float64, labels, weights []float64, leading int, lambda float64) (all, lead float64, err error) {
	order := len(rows[0])
	p := problem{
		order: order, leading: leading, outputs: len(labels) / len(rows), labels: labels, weights: weights,
		rows: make([]float64, (len(rows)+loops.Rows)*order),
	}
	for i, row := range rows {
		copy(p.rows[i*order:], row)
	}
	p.normal()
	factor, err := p.solve(lambda)
	if err != nil {
		return 0, 0, err
	}
	all, lead = p.leaveOneOut(factor, len(rows))
	return all, lead, nil
}

// RefitFlops are the multiply-adds of a refit on n rows as planned, and what the budget allows.
func RefitFlops(o Options, n, lambda int) (flops, budget float64, tried, checked int) {
	p := o.planRefit(n, lambda)
	if p.checked == 0 {
		return 0, 0, 0, 0
	}
	r, k := float64(o.ridgeOrder()), float64(o.Outputs)
	tried = p.last - p.first + 1
	flops = float64(n)*(r*r/2+r*k) + float64(tried)*(r*r*r/6+k*r*r)
	if tried > 1 {
		flops += float64(tried*p.checked) * (r*r/2 + r*k)
	}
	return flops, 2 * flopsPerMicrosecond * o.Microseconds, tried, p.checked
}

// Ridges is the number of ridge regressions of the opening.
func Ridges(o Options) int { return o.ridges() }

// FollowedUnit is the unit of the stacks after labels of a deviation.
func FollowedUnit(unit, deviation float64) float64 {
	return units{stackScale: unit}.followed(deviation)
}

// Slots are the inputs in the slots of the levels, −1 of an empty one, or nil without screening.
func (l *Learner) Slots() []int {
	if l.screen == nil {
		return nil
	}
	return append([]int(nil), l.screen.slots...)
}

// NearRest reports whether the neighbors of the only output rest.
func (l *Learner) NearRest() bool { return l.memories[0].nearRest(l.n) }

// NearSaid is what the neighbors and b said, of the advice.
func (l *Learner) NearSaid(numbers []float64) (near []float64, b float64) {
	a := l.read(numbers)
	_, lineup, final, _ := a.level2.of(0)
	return lineup[len(l.lineup.columns):][:3], final[1]
}

// StackGain learns rows with labels. It returns the gain of the experts from at on, and what a stack explains with
// and without them.
func StackGain(rows [][]float64, labels []float64, at, experts int) (gain, all, without float64) {
	order := len(rows[0])
	m, rest := newStacked(order-2, 1), qr.New(order-experts, 1, stackRidge)
	for i, z := range rows {
		row := append(slices.Clone(z), labels[i])
		rest.Rotate(slices.Delete(slices.Clone(row), at, at+experts), make([]float64, 1))
		m.stacks[0].Rotate(row, make([]float64, 1))
	}
	s := newStackScratch(order - 2)
	return m.gain(&s, at, experts), m.stacks[0].Explained(0), rest.Explained(0)
}

// Cells exports cells.
type Cells struct{ *cells }

func NewCells(numbers int) Cells { return Cells{newCells(numbers)} }

// CellBytes exports cellBytes.
func CellBytes(numbers int) uint64 { return cellBytes(numbers) }

// Predict returns the predictions of the experts at z.
func (c Cells) Predict(z []float32) (said [cellExperts]float64) {
	c.predict(said[:], c.find(nil, z))
	return said
}

// Learn learns a row of z.
func (c Cells) Learn(z []float32, targets [cellTargets]float64, counts float64) {
	c.learn(c.find(nil, z), targets, counts)
}

// Weights are those of the corners around z, by grids.
func (c Cells) Weights(z []float32) (weights [][]float64) {
	for n, a := range c.find(nil, z) {
		if n%(1<<len(z)) == 0 {
			weights = append(weights, nil)
		}
		last := len(weights) - 1
		weights[last] = append(weights[last], a.weight)
	}
	return weights
}
