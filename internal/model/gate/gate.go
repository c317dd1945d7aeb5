// Package gate keeps labels that cannot be right away from a learner of real labels.
//
// The gate sets a label aside that lies far outside the earlier labels: the learner
// predicts its row and does not learn the row. Five such labels in a short time are a
// change, not an error: the learner then starts anew with their rows. The learner also
// starts anew when the labels shrink to a small part of their size. Rare large labels that
// the inputs foretell are events, not errors: the gate admits them from then on. It also
// admits large labels of many values that come all the time in a stable range: these are
// part of the distribution. The page docs/theory.md has the rule and its guarantees.
package gate

import (
	"fmt"
	"math"
	"slices"

	"hindsight/internal/model"
	"hindsight/internal/model/compensated"
)

// Options describe the learner behind a gate.
type Options struct {
	Dimension, Outputs int
	// Advice are the lengths that Prediction.Advice of the learner may have beside 0.
	Advice []int
	// New makes a learner that has seen nothing. All of them are the same.
	New func() model.Learner
}

// Learner is a learner behind a gate.
//
// A start is the time in which one learner learns. The learner's theorem holds for the
// learned rows of a start, because the learner has seen these rows alone, in their order.
// Regret, bound, certificate and HindsightLoss are sums over the starts: Loss also has the rows
// set aside, so that Loss − HindsightLoss is not Regret.
type Learner struct {
	o     Options
	inner model.Learner
	state
	// prediction, learned and deviations are scratch of Observe.
	prediction model.Prediction
	learned    model.Outcome
	deviations []float64
}

// state is the part of a stored state before the learner's.
type state struct {
	// rows = learned rows + rows set aside.
	rows uint64
	// epoch counts the learners. Advice of another epoch is ignored.
	epoch uint64
	// taken counts the rows of this start, without the admitted ones: purge has counted the
	// rows that it dropped. count counts the rows that the trackers have seen. Neither counts
	// a row twice: taken <= rows, count <= rows.
	taken, count uint64
	trackers     []tracker
	// large counts the rows of this start that were set aside or admitted. stretched is large
	// when a row last stretched the range of the labels set aside: stretched <= large <= rows.
	large, stretched uint64
	// weights are the weights of the rows: weights.Rows = rows.
	weights model.Weights
	// alarm is j: at restartAlarm the learner starts anew with the last `recent` rows of
	// aside. recent <= ringRows, recent <= len(aside).
	alarm  float64
	recent int
	// kept are the rows of this start before its last stage, and nil after it.
	kept []row
	// aside are the newest rows of this start that were set aside, oldest first, and that
	// the learner may learn yet: len(aside) <= asideRows.
	aside  []row
	events events
	account
}

// row is an observation that may be learned later.
type row struct {
	x, y   []float64
	weight float64
	loss   float64
	// advice is the learner's advice for the comparison, empty for a learned row.
	advice []float64
	// size is the largest |y − m|/s of the outputs when the row was set aside.
	size float64
}

// account is the loss account of all starts.
type account struct {
	// learnedLoss and asideLoss are the prequential losses of the rows that the learner
	// learned, at once or later, and of the other rows: learnedLoss + asideLoss = Stats.Loss.
	learnedLoss, asideLoss compensated.Sum
	closed                 closed
	// setAside counts the rows that were set aside, and starts the new starts. lastSetAside
	// and lastStart are the rows of the newest ones.
	setAside, lastSetAside, starts, lastStart uint64
}

// closed are the sums over the starts before this one.
type closed struct {
	loss, regret, bound, certificate, passed float64
	labelBound                               float64
	uncertified, broken                      bool
}

func (c *closed) hindsight() float64 { return c.loss - c.regret }

const (
	// Before leastKept rows of a start nothing is set aside. A stage looks at the rows of a
	// start after 4, 8, 16, … and lastStage of them.
	leastKept  = 4
	firstStage = 8
	lastStage  = 128
	// The most numbers in kept: with many inputs the last stage comes earlier.
	maxKept = 1 << 20
	// A new start learns ringRows of the asideRows newest rows that were set aside.
	ringRows  = 5
	asideRows = 16
	// A row set aside adds 1 to the alarm, a learned row subtracts relief.
	restartAlarm = 5
	relief       = 0.1
)

// last is the number of rows of the last stage. After it the trackers check the labels.
func (o Options) last() uint64 {
	last := uint64(lastStage)
	for last > firstStage && last*uint64(o.Dimension+o.Outputs) > maxKept {
		last /= 2
	}
	return last
}

// New is a gated learner that has seen nothing.
func New(o Options) *Learner {
	return &Learner{o: o, inner: o.New(), state: newState(o), deviations: make([]float64, 0, lastStage)}
}

func newState(o Options) state {
	return state{trackers: newTrackers(o.Outputs), events: newEvents(o.Dimension)}
}

func newTrackers(outputs int) []tracker {
	all := make([]tracker, outputs)
	for j := range all {
		all[j] = tracker{admitted: noSpan(), met: noSpan()}
	}
	return all
}

// Inner is the learner of this start.
func (l *Learner) Inner() model.Learner { return l.inner }

// Check asks the learner.
func (l *Learner) Check(x, y []float64, weight float64) error { return l.inner.Check(x, y, weight) }

// Predict asks the learner, and appends the epoch to its advice.
func (l *Learner) Predict(p *model.Prediction, x []float64) error {
	if err := l.inner.Predict(p, x); err != nil {
		return err
	}
	l.mark(p)
	return nil
}

func (l *Learner) mark(p *model.Prediction) {
	if len(p.Advice) > 0 {
		p.Advice = append(p.Advice, float64(l.epoch))
	}
}

// Explain asks the learner.
func (l *Learner) Explain(p *model.Prediction) []model.Part {
	inner := *p
	inner.Advice = l.current(p.Advice)
	return model.Explain(l.inner, &inner)
}

// Observe learns the observation or sets the observation aside. It costs O(d + k) beside the
// learner's Observe; at a stage and at a new start, the Observe of the rows learned again.
func (l *Learner) Observe(o *model.Outcome, x, y []float64, weight float64) error {
	return l.ObserveAdvised(o, x, y, weight, nil)
}

// ObserveAdvised is Observe of an input that was predicted before.
func (l *Learner) ObserveAdvised(o *model.Outcome, x, y []float64, weight float64, advice []float64) error {
	if err := l.Check(x, y, weight); err != nil {
		return err
	}
	return l.observe(o, x, y, weight, advice)
}

func (l *Learner) observe(o *model.Outcome, x, y []float64, weight float64, advice []float64) error {
	if size, strange := l.check(y); strange {
		return l.setAside(o, x, y, weight, size)
	}
	if err := model.ObserveAdvised(l.inner, o, x, y, weight, l.current(advice)); err != nil {
		return fmt.Errorf("gate: learn a row: %w", err)
	}
	next := l.follow(x, y, weight)
	l.settle(o, x, y, weight)
	return l.conclude(o, next)
}

// sequel is what follows a learned row.
type sequel int

const (
	goOn sequel = iota
	stageReached
	labelsShrunk
	eventsForetold
)

// follow counts a learned row, and tells what follows, whatever the learner and the outcome.
func (l *Learner) follow(x, y []float64, weight float64) sequel {
	l.rows++
	if l.weights.Add(weight) < model.Light { // It says nothing of the labels.
		return goOn
	}
	l.take(y)
	foretold := l.events.follow(x)
	switch {
	case l.stage():
		return stageReached
	case l.shrunk():
		return labelsShrunk
	case foretold && l.taken > l.o.last(): // Earlier, the rows that admit learns would skip a stage.
		return eventsForetold
	}
	return goOn
}

func (l *Learner) settle(o *model.Outcome, x, y []float64, weight float64) {
	l.learnedLoss.Add(o.Loss)
	if l.taken <= l.o.last() && l.weights.Of(weight) >= model.Light {
		l.kept = append(l.kept, row{x: slices.Clone(x), y: slices.Clone(y), weight: weight, loss: o.Loss})
	}
	o.SetAside, o.Regret = false, l.closed.regret+o.Regret
}

func (l *Learner) conclude(o *model.Outcome, next sequel) (err error) {
	switch next {
	case goOn:
		return nil
	case stageReached:
		err = l.purge()
	case labelsShrunk:
		err = l.startAnew(nil)
	case eventsForetold:
		err = l.admit(l.events.ceiling())
	}
	o.Regret = l.closed.regret + l.inner.Stats().Regret
	return err
}

func (l *Learner) current(advice []float64) []float64 {
	if n := len(advice) - 1; n > 0 && advice[n] == float64(l.epoch) {
		return advice[:n]
	}
	return nil
}

func (l *Learner) take(y []float64) {
	l.taken++
	l.track(y)
	if l.alarm = math.Max(0, l.alarm-relief); l.alarm == 0 {
		l.recent = 0
	}
}

// relearn teaches a row that the learner did not learn when the row came.
func (l *Learner) relearn(r *row) error {
	if err := l.inner.Observe(&l.learned, r.x, r.y, r.weight); err != nil {
		return fmt.Errorf("gate: learn a row: %w", err)
	}
	l.take(r.y)
	return nil
}

// check reports whether to set a label aside, and the label's size: the largest |y − m|/s.
func (l *Learner) check(y []float64) (size float64, strange bool) {
	if l.taken < l.o.last() {
		return 0, l.early(y)
	}
	for j := range l.trackers {
		t := &l.trackers[j]
		if own := t.size(y[j]); t.strange(y[j], own, l.count) {
			size, strange = math.Max(size, own), true
		}
	}
	return size, strange
}

// early reports whether one of the first labels of a start exceeds the limit of a stage by
// far. It costs a sort of the labels before.
func (l *Learner) early(y []float64) bool {
	if len(l.kept) < leastKept {
		return false
	}
	for j, v := range y {
		limit, median := l.limit(j)
		if math.Abs(v-median) > float64(limit*l.caution()) && limit > 0 {
			return true
		}
	}
	return false
}

// caution is the factor by which the limit rises while only a few rows are kept.
func (l *Learner) caution() float64 { return 1 + caution/float64(len(l.kept)) }

// track shows the trackers a label, unless the label is an admitted event: events say
// nothing of the labels beside them.
func (l *Learner) track(y []float64) {
	for j := range l.trackers {
		if t := &l.trackers[j]; l.taken > l.o.last() && t.allowed(y[j]) && t.outside(y[j], l.count) {
			l.large++
			return
		}
	}
	for j := range l.trackers {
		l.trackers[j].learn(y[j], l.count)
	}
	l.count++
}

// setAside predicts a row and does not learn the row, unless the learner starts anew with it.
func (l *Learner) setAside(o *model.Outcome, x, y []float64, weight, size float64) error {
	r, err := l.predicted(x, y, weight)
	if err != nil {
		return err
	}
	r.size = size
	o.Resize(l.o.Outputs)
	copy(o.Predictions, l.prediction.Values)
	o.Loss = r.loss
	l.rows++
	l.asideLoss.Add(r.loss)
	if l.weights.Add(weight) < model.Light { // It is no evidence of a new range of labels.
		l.pass(&r)
		l.account.setAside++
		l.lastSetAside = l.rows
		o.SetAside, o.Regret = true, l.closed.regret+l.inner.Stats().Regret
		return nil
	}
	l.alarm++
	l.keepAside(r)
	l.recent = min(l.recent+1, ringRows)
	if o.SetAside = l.alarm < restartAlarm; o.SetAside {
		err = l.leave(y)
	} else {
		ring := slices.Clone(l.aside[len(l.aside)-l.recent:])
		l.aside = l.aside[:len(l.aside)-l.recent]
		err = l.startAnew(ring)
	}
	o.Regret = l.closed.regret + l.inner.Stats().Regret
	return err
}

// leave counts the newest row of aside. It admits the rows once they are a part of the distribution.
func (l *Learner) leave(y []float64) error {
	l.account.setAside++
	l.lastSetAside = l.rows
	l.events.begin(&l.aside[len(l.aside)-1])
	l.meet(y)
	if l.distributed() {
		return l.admit(math.Inf(1))
	}
	return nil
}

// predicted is a row with the loss and the advice of the learner's present prediction.
func (l *Learner) predicted(x, y []float64, weight float64) (row, error) {
	p := &l.prediction
	if err := l.inner.Predict(p, x); err != nil {
		return row{}, fmt.Errorf("gate: predict a row that is set aside: %w", err)
	}
	r := row{x: slices.Clone(x), y: slices.Clone(y), weight: weight}
	for j, v := range y {
		r.loss += float64(weight * model.LossOf(l.inner, p.Values[j], v))
	}
	if _, ok := model.As[model.Comparator](l.inner); ok {
		r.advice = slices.Clone(p.Advice)
	}
	return r, nil
}

// keepAside keeps a row that was set aside, in place of the oldest one if asideRows are kept.
func (l *Learner) keepAside(r row) {
	if len(l.aside) == asideRows {
		l.pass(&l.aside[0])
		l.aside = slices.Delete(l.aside, 0, 1)
	}
	l.aside = append(l.aside, r)
}

func (l *Learner) pass(r *row) {
	if c, ok := model.As[model.Comparator](l.inner); ok {
		c.Pass(r.y, r.weight, r.advice)
	}
}

func (l *Learner) stage() bool {
	return l.taken >= leastKept && l.taken <= l.o.last() && l.taken&(l.taken-1) == 0
}

// purge drops the outliers of the first rows of a start. A new learner then learns the others.
func (l *Learner) purge() error {
	defer func() {
		if l.taken == l.o.last() {
			l.kept = nil
		}
	}()
	dropped := l.outliers()
	if dropped == nil {
		return nil
	}
	taken := l.taken
	l.inner, l.epoch = l.o.New(), l.epoch+1
	l.trackers, l.count = newTrackers(l.o.Outputs), 0
	var far []row
	rest := l.kept[:0]
	for i := range l.kept {
		if dropped[i] {
			far = append(far, l.kept[i])
			continue
		}
		if err := l.relearn(&l.kept[i]); err != nil {
			return err
		}
		rest = append(rest, l.kept[i])
	}
	l.kept, l.taken = rest, taken
	for _, r := range far {
		again, err := l.predicted(r.x, r.y, r.weight)
		if err != nil {
			return err
		}
		again.loss = r.loss
		l.learnedLoss.Add(-r.loss)
		l.asideLoss.Add(r.loss)
		for j, y := range r.y {
			again.size = math.Max(again.size, l.trackers[j].size(y))
		}
		l.keepAside(again)
		l.meet(r.y)
		l.account.setAside++
		l.lastSetAside = l.rows
	}
	return nil
}

// outliers marks the rows that purge drops, nil for none. A row is dropped if in one output
// u = |y − median| is above the limit; before firstStage rows, above the limit by caution.
func (l *Learner) outliers() []bool {
	var dropped []bool
	n := len(l.kept)
	for j := range l.o.Outputs {
		limit, median := l.limit(j)
		if n < firstStage {
			limit *= l.caution()
		}
		for i := range l.kept {
			if u := math.Abs(l.kept[i].y[j] - median); limit > 0 && u > limit {
				if dropped == nil {
					dropped = make([]bool, n)
				}
				dropped[i] = true
			}
		}
	}
	return dropped
}

// limit is 50 times the mean of u = |y − median| of an output over the n kept rows without
// the c largest: c = n/32 in the first start and n/5 in later ones, at least 1. An output of
// two values has a limit of 0, which means no limit.
func (l *Learner) limit(output int) (limit, median float64) {
	if l.trackers[output].twoValued() {
		return 0, 0
	}
	spared := max(1, len(l.kept)/32)
	if l.starts > 0 {
		spared = max(1, len(l.kept)/5)
	}
	u := l.deviations[:0]
	for i := range l.kept {
		u = append(u, l.kept[i].y[output])
	}
	slices.Sort(u)
	median = u[len(u)/2]
	for i, v := range u {
		u[i] = math.Abs(v - median)
	}
	slices.Sort(u)
	rest, sum := u[:len(u)-spared], 0.0
	for _, v := range rest {
		sum += v
	}
	return purgeFactor * sum / float64(len(rest)), median
}

func (l *Learner) shrunk() bool {
	for j := range l.trackers {
		if l.trackers[j].shrunk(l.count) {
			return true
		}
	}
	return false
}

// startAnew closes the start, and teaches a new learner some rows that were set aside.
func (l *Learner) startAnew(ring []row) error {
	for i := range l.aside {
		l.pass(&l.aside[i])
	}
	l.close()
	account, rows, weights, epoch := l.account, l.rows, l.weights, l.epoch
	l.inner, l.state = l.o.New(), newState(l.o)
	l.account, l.rows, l.weights, l.epoch = account, rows, weights, epoch+1
	l.starts++
	l.lastStart = rows
	return l.learnLate(ring)
}

func (l *Learner) close() {
	s, c := l.inner.Stats(), &l.closed
	c.loss += s.Loss
	c.regret += s.Regret
	c.bound += s.RegretBound
	c.certificate += s.Certificate
	c.labelBound = math.Max(c.labelBound, s.LabelBound)
	c.uncertified = c.uncertified || !s.Certified
	c.broken = c.broken || !s.CertificateOK
	if compared, ok := model.As[model.Comparator](l.inner); ok {
		c.passed += compared.Passed()
	}
}

func (l *Learner) learnLate(rows []row) error {
	for i := range rows {
		r := &rows[i]
		if err := l.relearn(r); err != nil {
			return err
		}
		l.asideLoss.Add(-r.loss)
		l.learnedLoss.Add(r.loss)
		if l.taken <= l.o.last() {
			r.advice, r.size = nil, 0
			l.kept = append(l.kept, *r)
		}
	}
	return nil
}

// admit admits and learns labels up to twice as far from m as the kept rows of at most a size.
func (l *Learner) admit(size float64) error {
	var known, others []row
	for _, r := range l.aside {
		if r.size <= size {
			known = append(known, r)
		} else {
			others = append(others, r)
		}
	}
	for _, r := range known {
		for j, y := range r.y {
			l.trackers[j].allow(y, l.count)
		}
	}
	l.aside, l.recent = others, min(l.recent, len(others))
	l.events.reset()
	taken, large := l.taken, l.large
	err := l.learnLate(known)
	l.taken, l.large = taken, large
	return err
}
