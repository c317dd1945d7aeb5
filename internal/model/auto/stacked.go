package auto

import (
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/loops"
	"hindsight/internal/model/mix"
	"hindsight/internal/model/qr"
)

// stacked is a level of an output: the ML-Poly mixture b of experts; stacks, forecasters of
// the residual y − b with the features ((f_k − b)/s, residual/s, 1) of the experts' advice f;
// and the final ML-Poly mixture of the finalists, of which the stacks are the last.
type stacked struct {
	base, final *mix.Mixture
	stacks      [stacks]*qr.Factor
	// residual is the last y − b.
	residual float64
}

func newStacked(experts, finalists int) stacked {
	m := stacked{base: mix.New(experts), final: mix.New(finalists)}
	m.clearStacks()
	return m
}

// mixBase is b, whose weights are left in the scratch.
func (m *stacked) mixBase(weights, advice []float64, awake []bool) float64 {
	m.base.Weights(weights, awake)
	return mix.Mean(weights, advice)
}

// mixFinal is the prediction of the level. The weights are scratch.
func (m *stacked) mixFinal(weights, final []float64, awake []bool) float64 {
	m.final.Weights(weights[:len(final)], awake)
	return mix.Mean(weights[:len(final)], final)
}

// learn teaches the mixtures the label of what they mixed into b and the value.
func (m *stacked) learn(advice, final []float64, mixed, value, y, weight float64, awake, finalAwake []bool) {
	m.base.Update(float64(2*weight)*(mixed-y), mixed, advice, awake)
	m.final.Update(float64(2*weight)*(value-y), value, final, finalAwake)
	m.residual = y - mixed
}

func (m *stacked) visit(v *codec.Visitor) {
	m.base.Visit(v)
	m.final.Visit(v)
	for _, f := range m.stacks {
		visitFactor(v, f, stackRidge)
	}
	v.Within(2*maxReach, &m.residual)
}

// clearStacks replaces the stacks by stacks that have learned nothing.
func (m *stacked) clearStacks() {
	for i := range m.stacks {
		m.stacks[i] = qr.New(stackSize(m.base.Experts()), 1, stackRidge)
	}
}

func stackSize(experts int) int { return experts + 2 }

// stackRenewals are the schedules of the stacks over a number of experts.
func stackRenewals(experts int) (all [stacks]renewal) {
	for i, f := range stackForgettings() {
		all[i] = newRenewal(stackSize(experts), f)
	}
	return all
}

type stackScratch struct {
	// priors are the ridge predictions.
	priors    [stacks]float64
	turns     []qr.Turn
	solutions []qr.Solution
}

func newStackScratch(experts int) stackScratch {
	s := stackScratch{turns: make([]qr.Turn, stacks), solutions: make([]qr.Solution, stacks)}
	for i := range stacks {
		s.turns[i] = qr.Turn{Row: qr.NewRow(stackSize(experts) + 1), Priors: make([]float64, 1)}
		s.solutions[i] = qr.Solution{Z: qr.NewRow(stackSize(experts)), Priors: make([]float64, 1)}
	}
	return s
}

// units are what labels are measured in.
type units struct {
	// The labels of the experts are (y − offset)/scale, as of the last stage.
	offset, scale float64
	// stackScale is what the stacks measure in: the scale times a power of two, which follows the
	// deviation of the labels.
	stackScale float64
	// floor and ceiling are what advice is cut to, bottom and top what the values of levels are cut to.
	floor, ceiling, bottom, top float64
}

func (u units) scaledLabel(y float64) float64 {
	return within((y-u.offset)/u.scale, -model.MaxMagnitude, model.MaxMagnitude)
}

// label is a prediction of an expert in the caller's units, cut to floor and ceiling.
func (u units) label(scaled float64) float64 { return u.cut(float64(scaled*u.scale) + u.offset) }

func (u units) cut(prediction float64) float64 { return within(prediction, u.floor, u.ceiling) }

// value is a mixture of advice, cut to bottom and top. The cut lowers the loss of every label within them, and adds nothing
// to the potential of the mixture: 2(v − y)(v − b) <= 0 for the cut v of a mean b.
func (u units) value(mixed float64) float64 { return within(mixed, u.bottom, u.top) }

func (u units) relative(v float64) float64 {
	return within(v/u.scale, -model.MaxMagnitude, model.MaxMagnitude)
}

func (u units) stackRelative(v float64) float64 {
	return within(v/u.stackScale, -model.MaxMagnitude, model.MaxMagnitude)
}

// followed is the unit of the stacks, doubled or halved until the deviation of the labels is at
// most unitSlack times as large or as small. The experts before need no new units: a ridge is linear in
// its labels. The penalty of a stack is one of residuals in its unit, which each row has of its
// own round, and on labels that grow for ever would be none.
func (u units) followed(deviation float64) float64 {
	scale := u.stackScale
	for deviation > float64(unitSlack*scale) && scale < model.MaxMagnitude {
		scale *= 2
	}
	for float64(unitSlack*deviation) < scale && scale > leastScale {
		scale /= 2
	}
	return scale
}

// unitSlack is above what a trend makes of the first labels.
const unitSlack = 32

// stackRow writes the features ((f_k − b)/s, residual/s, 1).
func (u units) stackRow(row, advice []float64, mixed, residual float64) {
	for k, f := range advice {
		row[k] = u.stackRelative(f - mixed)
	}
	row[len(advice)] = u.stackRelative(residual)
	row[len(advice)+1] = 1
}

// stack is the prediction of a stack, given its ridge prediction p and q = zᵀA⁻¹z.
func (u units) stack(mixed, p, q float64) float64 {
	return u.cut(mixed + float64(p/(1+q)*u.stackScale))
}

// asked is what stacks predict from: the advice, the last residual, and b, which is final[0].
type asked struct {
	units
	advice, final []float64
	residual      float64
}

func (q *asked) row(row []float64) { q.stackRow(row, q.advice, q.final[0], q.residual) }

// solve writes the predictions of the stacks into final, behind b.
func (m *stacked) solve(s *stackScratch, q asked) {
	for i := range s.solutions {
		t := &s.solutions[i]
		t.Factor = m.stacks[i]
		q.row(t.Z)
	}
	qr.SolveTogether(s.solutions)
	for i, f := range stackForgettings() {
		t := &s.solutions[i]
		q.final[1+i] = q.stack(q.final[0], t.Priors[0], t.Square/f)
	}
}

// rotate teaches the stacks a round of b and of an earlier residual. The ridge predictions of
// before are left in the scratch.
func (m *stacked) rotate(
	s *stackScratch, u units, renewals *[stacks]renewal, rounds uint64, advice []float64, mixed, residual, y, weight float64,
) {
	first := s.turns[0].Row
	u.stackRow(first, advice, mixed, residual)
	first[len(first)-1] = u.stackRelative(y - mixed)
	if weight != 1 {
		loops.Scale(first, math.Sqrt(weight))
	}
	for i := range s.turns[1:] {
		copy(s.turns[1+i].Row, first)
	}
	for i, f := range stackForgettings() {
		s.turns[i].Factor, s.turns[i].Root = m.stacks[i], math.Sqrt(f)
	}
	qr.RotateTogether(s.turns)
	for i := range s.turns {
		t := &s.turns[i]
		s.priors[i] = t.Priors[0]
		renewals[i].renew(t.Factor, stackRidge, rounds, t.Row, t.Priors)
	}
}

// predicted writes the predictions of the stacks before rotate into final, behind b.
func (s *stackScratch) predicted(u units, final []float64, weight float64) {
	for i := range s.turns {
		final[1+i] = u.stack(final[0], s.priors[i]/math.Sqrt(weight), earlier(s.turns[i].Rotation, weight))
	}
}

// gain returns how much the penalized loss of the first stack would grow without the experts at, at+1, …: the
// squared length of the projection of R⁻ᵀb onto the span of their R⁻ᵀe_k. It requires
// experts ≤ len(s.solutions).
func (m *stacked) gain(s *stackScratch, at, experts int) (sum float64) {
	for i := range experts {
		t := &s.solutions[i]
		clear(t.Z)
		t.Z[at+i] = 1
		square := m.stacks[0].Solve(t.Z, t.Priors)
		for _, before := range s.solutions[:i] {
			loops.Axpy(t.Z, before.Z, -loops.Dot(t.Z, before.Z))
		}
		left := loops.Dot(t.Z, t.Z)
		if left <= float64(leastGain*square) { // The experts before say the same.
			clear(t.Z)
			continue
		}
		loops.Scale(t.Z, 1/math.Sqrt(left))
		part := loops.Dot(t.Z, m.stacks[0].Right())
		sum += float64(part * part)
	}
	return sum
}

const leastGain = 1e-9
