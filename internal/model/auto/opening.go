package auto

import (
	"math"

	"hindsight/internal/model/codec"
	"hindsight/internal/model/compensated"
	"hindsight/internal/model/mix"
)

const openingRows = 300

// opening answers the first rows of a stream: the ML-Poly mixture of the prediction of the
// levels and of ridge regressions whose λ is chosen by leave-one-out, the last one a scaledFit. The levels know nothing
// of the opening, and answer alone when it has ended. The regret against an expert of the
// levels is the regret against the levels plus the regret of the levels. Until firstFit rows the ridge
// regressions sleep.
type opening struct {
	// fit and scaled are nil before firstFit rows and after the end.
	fit     *ridgeFit
	scaled  *scaledFit
	outputs []openingOutput
}

// openingOutput is the opening of an output. Its experts are the levels and the ridges.
type openingOutput struct {
	mix *mix.Mixture
	// account compares the opening with its experts.
	account account
	// passed are the losses of the ridges on the rows that a gate did not admit.
	passed []compensated.Sum
}

// ridges is the number of ridge regressions of the opening, 0 without an opening: with lags,
// without, and the scaled one.
func (o Options) ridges() int {
	switch {
	case o.ridgeOrder() > mostOrder || openingRows*(o.inputs()+o.Outputs) > maxKept ||
		o.planRefit(firstFit, firstLambda).checked == 0:
		return 0
	case o.lags() == 0:
		return 1 + o.scaledRidges()
	default:
		return 2 + o.scaledRidges()
	}
}

// plainRidges is the number of ridge regressions that are not scaled.
func (l *Learner) plainRidges() int { return max(0, l.ridges-l.o.scaledRidges()) }

func (l *Learner) ridgeNames() []string {
	from := 2 - l.plainRidges()
	return []string{"affine/leave_one_out/lags", "affine/leave_one_out", "affine/leave_one_out/scaled"}[from:][:l.ridges]
}

func (o Options) newOpening(ridges int) (p opening) {
	if ridges == 0 {
		return p
	}
	for range o.Outputs {
		p.outputs = append(p.outputs, openingOutput{
			mix: mix.New(1 + ridges), account: newAccount(1 + ridges), passed: make([]compensated.Sum, ridges),
		})
	}
	return p
}

// openingBytes is the memory of the mixtures and the accounts of an opening.
func (o Options) openingBytes(ridges int) uint64 {
	if ridges == 0 {
		return 0
	}
	return uint64(o.Outputs)*(mix.Bytes(1+ridges)+8*uint64(13+8*(1+ridges)+12)) + 8*uint64(2*o.ridgeOrder())
}

func (l *Learner) opens() bool { return l.ridges > 0 && l.n < openingRows }

func (l *Learner) keptEnd() uint64 {
	if l.ridges > 0 {
		return uint64(max(openingRows, l.o.last()))
	}
	return uint64(l.o.last())
}

type openingScratch struct {
	// solved is R⁻ᵀz, row a row with its labels.
	solved, row, priors []float64
	// scaled and scaledRow are solved and row of the scaled fit.
	scaled, scaledRow []float64
	// said are the predictions of the experts by outputs, and answers their mixtures.
	said, answers []float64
	weights       []float64
	// units are the units of level 1 before the label.
	units []units
	// awake are the experts before firstFit rows.
	awake []bool
}

func (l *Learner) newOpeningScratch() openingScratch {
	k, r, experts := l.o.Outputs, l.o.ridgeOrder(), 1+l.ridges
	if l.ridges == 0 {
		return openingScratch{}
	}
	s := openingScratch{
		solved: make([]float64, r), row: make([]float64, r+k), priors: make([]float64, k),
		said: make([]float64, experts*k), answers: make([]float64, k),
		weights: make([]float64, experts), units: make([]units, k), awake: make([]bool, experts),
		scaled: make([]float64, l.o.scaledOrder()), scaledRow: make([]float64, l.o.scaledOrder()+1),
	}
	s.awake[0] = true
	return s
}

func (s *openingScratch) of(output int) []float64 {
	experts := len(s.weights)
	return s.said[output*experts:][:experts]
}

// ask writes the predictions of the ridges for the input whose lags are in the scratch.
func (l *Learner) ask(s *scratch) {
	o, k := &s.opening, l.o.Outputs
	clear(o.said)
	for j := range o.units {
		o.units[j] = l.mixers[j].units
	}
	f := l.opening.fit
	if f == nil {
		return
	}
	f.fill(l, o.solved, s.inner, s.lags[:l.o.lags()*k], s.seen)
	f.factor.Solve(o.solved, o.priors)
	plain := l.plainRidges()
	for at := 1; at <= plain; at++ {
		if at == plain {
			leadingSums(o.priors, f.factor, o.solved, l.o.leading())
		}
		for j, v := range o.priors {
			o.of(j)[at] = l.mixers[j].cut(f.label(j, v))
		}
	}
	if f := l.opening.scaled; f != nil {
		l.fillScaled(s)
		o.said[l.ridges] = l.mixers[0].cut(f.say(o.scaled, o.priors))
	}
}

// fillScaled writes what the scaled fit reads of the input in the scratch into the scratch of the opening.
func (l *Learner) fillScaled(s *scratch) {
	var columns []float64
	if s.keyed != nil {
		columns = s.keyed.columns
	}
	l.opening.scaled.fill(l, s.opening.scaled, s.inner, s.lags[:l.o.lags()], columns, s.seen)
}

// open mixes the predictions of the levels and of the ridges of an output, before n rows.
func (l *Learner) open(s *scratch, output int, levels float64, n uint64) {
	o := &s.opening
	said := o.of(output)
	said[0] = levels
	o.answers[output] = levels
	if n >= firstFit {
		m := l.opening.outputs[output].mix
		m.Weights(o.weights, nil)
		o.answers[output] = o.units[output].value(mix.Mean(o.weights, said))
	}
}

// learnOpening learns a row that the levels have learned, with the predictions of the ridges
// in the scratch. Before the row there were n rows.
func (l *Learner) learnOpening(predictions []float64, r row, served *advice, n uint64) (loss float64) {
	s := l.scratch
	for j := range l.mixers {
		l.open(s, j, predictions[j], n)
		u, said, answer := &l.opening.outputs[j], s.opening.of(j), s.opening.answers[j]
		predictions[j] = answer
		missed := squared(answer, r.y[j], r.weight)
		u.account.addOpening(r.y[j], r.weight, missed, said, n)
		loss += missed
		seen := n
		if served != nil {
			seen = served.seen
			answer = served.opened(j, said)
		}
		if seen > 0 {
			awake := s.opening.awake
			if seen >= firstFit {
				awake = nil
			}
			u.mix.Update(float64(2*r.weight)*(answer-r.y[j]), answer, said, awake)
		}
		s.answers[j] = answer
	}
	l.fitOpening(s, r)
	return loss
}

func (l *Learner) fitOpening(s *scratch, r row) {
	p, k := &l.opening, l.o.Outputs
	switch {
	case l.n == openingRows:
		p.fit, p.scaled = nil, nil
		return
	case l.n < firstFit:
		return
	case p.fit == nil:
		l.beginFits()
	}
	weight := float64(r.weight*float64(l.n)) / l.weights.Sum
	if f := p.scaled; f != nil && (!refitDue(l.n) || !f.refit(l)) {
		l.fillScaled(s)
		f.rotate(&s.opening, s.opening.scaled, r.y[0], weight)
	}
	if refitDue(l.n) && p.fit.refit(l) {
		return
	}
	p.fit.fill(l, s.opening.solved, s.inner, s.lags[:l.o.lags()*k], r.seen)
	p.fit.rotate(&s.opening, s.opening.solved, r.y, weight)
}

func (l *Learner) beginFits() {
	l.opening.fit = l.o.newRidgeFit()
	if l.ridges > l.plainRidges() {
		l.opening.scaled = l.o.newScaledFit()
	}
}

// addOpening accounts for a row of an opening after n rows.
func (a *account) addOpening(y, weight, loss float64, said []float64, n uint64) {
	a.loss.Add(loss)
	if n == 0 {
		a.before.Add(loss)
	}
	if n < firstFit {
		a.early.Add(loss)
	}
	for k, v := range said {
		if (k == 0 && n == 0) || (k > 0 && n < firstFit) {
			continue
		}
		hindsight := squared(v, y, weight)
		a.experts[k].Hindsight.Add(hindsight)
		a.experts[k].Regret.Add(loss - hindsight)
	}
}

func (a *account) openingReconciles() bool {
	loss := a.loss.Value()
	for k := range a.experts {
		slept := a.early.Value()
		if k == 0 {
			slept = a.before.Value()
		}
		hindsight, regret := a.experts[k].Hindsight.Value(), a.experts[k].Regret.Value()
		if !(math.Abs(slept+hindsight+regret-loss) <= tolerance*(loss+hindsight)) {
			return false
		}
	}
	return true
}

// openingRegret is the regret of an output against the levels.
func (l *Learner) openingRegret(output int) float64 {
	if l.ridges == 0 {
		return 0
	}
	return l.opening.outputs[output].account.experts[0].Regret.Value()
}

// visit visits the opening after n rows.
func (p *opening) visit(v *codec.Visitor, of *Learner, n uint64) {
	for j := range p.outputs {
		u := &p.outputs[j]
		u.mix.Visit(v)
		u.account.visit(v)
		for k := range u.passed {
			visitSum(v, &u.passed[k])
		}
	}
	if v.Reading() && len(p.outputs) > 0 && n >= firstFit && n < openingRows {
		of.beginFits()
	}
	if v.Err() == nil && p.fit != nil {
		p.fit.visit(v)
	}
	if v.Err() == nil && p.scaled != nil {
		p.scaled.visit(v)
	}
}

// openingWeights writes the weights of the levels and of the ridges in the prediction of an
// output.
func (l *Learner) openingWeights(dst []float64, output int) {
	clear(dst)
	dst[0] = 1
	if l.opening.fit != nil {
		l.opening.outputs[output].mix.Weights(dst, nil)
	}
}
