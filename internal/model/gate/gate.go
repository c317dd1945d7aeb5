// Package gate keeps labels that cannot be right away from a learner. It is put
// in front of any learner of real labels.
//
// A label that lies far outside what the labels did so far is set aside: its row is
// predicted and judged, but the learner does not see it. Five of them in a
// short time are no error but a change: the learner then starts anew with these rows.
// So it does when the labels shrink to a small part of what they were. Labels that are
// rare and large, and that the inputs foretell, are no errors either: they are learned,
// then and from then on. The page docs/theory.md has the rule, and what is guaranteed.
package gate

import (
	"fmt"
	"math"
	"slices"

	"hindsight/internal/model"
	"hindsight/internal/model/compensated"
)

// Options say what is gated.
type Options struct {
	// Dimension and Outputs are the learner's.
	Dimension, Outputs int
	// Advice is the length of Prediction.Advice of the learner.
	Advice int
	// New makes a learner that has seen nothing, every time the same.
	New func() model.Learner
}

// comparator is a learner that can tell its regret on rows that it predicted and did not
// learn. Advice is what Prediction.Advice held for the row.
type comparator interface {
	// Pass takes such a row into the losses of the learner's experts.
	Pass(y []float64, weight float64, advice []float64)
	// Passed is the loss, over the rows that were passed, of the expert that has lost least
	// on the rows that were learned.
	Passed() float64
	// HindsightOf is the loss of that expert on one row.
	HindsightOf(y []float64, weight float64, advice []float64) float64
}

// Learner is a learner behind a gate.
//
// A start is the time in which one learner learns. Within a start, the learner has seen
// exactly the rows that were learned, in the order in which they were learned, so that
// what its theorem says holds of these rows. Regret, bound and certificate are sums over
// the starts. HindsightLoss counts the learner's own loss wherever no comparator was
// learned: Regret = Loss − HindsightLoss.
type Learner struct {
	o     Options
	inner model.Learner
	state
	// prediction, learned and deviations are scratch of Observe.
	prediction model.Prediction
	learned    model.Outcome
	deviations []float64
}

// state is what AppendBinary writes before the learner's state.
type state struct {
	// rows counts the observations: learned + set aside.
	rows uint64
	// epoch counts the learners that were made. Advice of another epoch is ignored.
	epoch uint64
	// taken counts the rows of this start, count those of them that the trackers
	// have seen: count <= taken <= rows.
	taken, count uint64
	trackers     []tracker
	// alarm is j: at restartAlarm the learner starts anew with the last `recent` rows of
	// aside. recent <= ringRows, recent <= len(aside).
	alarm  float64
	recent int
	// kept are the rows of this start before its last stage; nil after it.
	kept []row
	// aside are the newest rows set aside of this start, oldest first, which may be
	// learned yet: len(aside) <= asideRows.
	aside  []row
	events events
	account
}

// row is an observation that may be learned later.
type row struct {
	x, y   []float64
	weight float64
	// loss is that of the prequential prediction.
	loss float64
	// advice is what the learner advised, for the comparison. It is empty for a row that
	// was learned.
	advice []float64
	// size is the largest |y − m|/s of the outputs when the row was set aside.
	size float64
}

// account is what the starts have lost.
type account struct {
	// learnedLoss and asideLoss are the prequential losses of the rows that were learned,
	// at once or later, and of those that were not. Their sum is Stats.Loss.
	learnedLoss, asideLoss compensated.Sum
	// closed are the sums over the starts before this one.
	closed closed
	// setAside counts the rows that were set aside, lastSetAside is the newest one, and
	// starts counts the new starts, lastStart is the row of the newest one.
	setAside, lastSetAside, starts, lastStart uint64
}

// closed are sums over the starts that are over.
type closed struct {
	loss, regret, bound, certificate, passed float64
	labelBound                               float64
	uncertified, broken                      bool
}

const (
	// Before leastKept rows of a start nothing is set aside. Its rows are looked at anew
	// after 4, 8, 16, … and lastStage of them.
	leastKept  = 4
	firstStage = 8
	lastStage  = 128
	// The most numbers of the rows that are kept: with many inputs the last stage
	// comes earlier.
	maxKept = 1 << 20
	// A new start learns ringRows rows. Of the rows that were set aside, asideRows are kept.
	ringRows  = 5
	asideRows = 16
	// The learner starts anew when the alarm reaches restartAlarm. A row set aside adds
	// 1, a row learned takes relief.
	restartAlarm = 5
	relief       = 0.1
)

// last is the number of rows of the last stage. The gate opens its eyes after it.
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
		all[j] = newTracker()
	}
	return all
}

// Check tells whether Observe would accept the observation.
func (l *Learner) Check(x, y []float64, weight float64) error { return l.inner.Check(x, y, weight) }

// Predict answers from the learner. Its advice has the epoch behind it.
func (l *Learner) Predict(p *model.Prediction, x []float64) error {
	if err := l.inner.Predict(p, x); err != nil {
		return err
	}
	if len(p.Advice) > 0 {
		p.Advice = append(p.Advice, float64(l.epoch))
	}
	return nil
}

// Observe learns the observation, or sets it aside. It costs what the learner's Observe
// does and O(d + k); in the first 128 rows of a start, and when the learner starts anew, as
// much as these rows cost.
func (l *Learner) Observe(o *model.Outcome, x, y []float64, weight float64) error {
	return l.ObserveAdvised(o, x, y, weight, nil)
}

// ObserveAdvised is Observe of an input that was predicted before.
func (l *Learner) ObserveAdvised(o *model.Outcome, x, y []float64, weight float64, advice []float64) error {
	if err := l.Check(x, y, weight); err != nil {
		return err
	}
	size, strange := l.judge(y)
	if strange {
		return l.setAside(o, x, y, weight, size)
	}
	if err := l.learn(o, x, y, weight, l.current(advice)); err != nil {
		return err
	}
	l.rows++
	l.learnedLoss.Add(o.Loss)
	if l.taken <= l.o.last() {
		l.kept = append(l.kept, row{x: slices.Clone(x), y: slices.Clone(y), weight: weight, loss: o.Loss})
	}
	foretold := l.events.follow(x)
	var err error
	switch {
	case l.stage():
		err = l.purge()
	case l.shrunk():
		err = l.startAnew(nil)
	case foretold && l.taken > l.o.last(): // Before, the rows that admit learns would skip a stage.
		err = l.admit()
	default:
		o.SetAside, o.Regret = false, l.closed.regret+o.Regret
		return nil
	}
	o.SetAside, o.Regret = false, l.closed.regret+l.inner.Stats().Regret
	return err
}

// current is the learner's part of advice that this learner gave, or nil.
func (l *Learner) current(advice []float64) []float64 {
	if n := len(advice) - 1; n > 0 && advice[n] == float64(l.epoch) {
		return advice[:n]
	}
	return nil
}

// learn lets the learner and the trackers learn a row.
func (l *Learner) learn(o *model.Outcome, x, y []float64, weight float64, advice []float64) error {
	if err := model.ObserveAdvised(l.inner, o, x, y, weight, advice); err != nil {
		return fmt.Errorf("gate: learn a row: %w", err)
	}
	l.taken++
	l.track(y)
	if l.alarm = math.Max(0, l.alarm-relief); l.alarm == 0 {
		l.recent = 0
	}
	return nil
}

// relearn lets the learner learn a row that it did not learn when the row came.
func (l *Learner) relearn(r *row) error {
	return l.learn(&l.learned, r.x, r.y, r.weight, nil)
}

// judge tells whether a label is to be set aside, and its size: the largest |y − m|/s.
func (l *Learner) judge(y []float64) (size float64, strange bool) {
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

// early tells whether one of the first labels of a start towers over those before it, by
// far more than a stage would drop. It costs a sort of these labels.
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

// caution is by how much more a label has to stand out among the few that are kept.
func (l *Learner) caution() float64 { return 1 + caution/float64(len(l.kept)) }

// track shows the trackers a label, unless it is one of the events that are let in: these
// say nothing of the labels beside them.
func (l *Learner) track(y []float64) {
	for j := range l.trackers {
		if t := &l.trackers[j]; l.taken > l.o.last() && t.allowed(y[j]) && t.outside(y[j], l.count) {
			return
		}
	}
	for j := range l.trackers {
		l.trackers[j].learn(y[j], l.count)
	}
	l.count++
}

// setAside predicts a row and does not learn it, unless it is the one at which the
// learner starts anew.
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
	l.alarm++
	l.asideLoss.Add(r.loss)
	l.keepAside(r)
	l.recent = min(l.recent+1, ringRows)
	if l.alarm >= restartAlarm {
		ring := slices.Clone(l.aside[len(l.aside)-l.recent:])
		l.aside = l.aside[:len(l.aside)-l.recent]
		if err := l.startAnew(ring); err != nil {
			return err
		}
		o.SetAside = false
	} else {
		l.account.setAside++
		l.lastSetAside = l.rows
		l.events.begin(&l.aside[len(l.aside)-1])
		o.SetAside = true
	}
	o.Regret = l.closed.regret + l.inner.Stats().Regret
	return nil
}

// predicted is a row with what the learner predicts of it now.
func (l *Learner) predicted(x, y []float64, weight float64) (row, error) {
	p := &l.prediction
	if err := l.inner.Predict(p, x); err != nil {
		return row{}, fmt.Errorf("gate: predict a row that is set aside: %w", err)
	}
	r := row{x: slices.Clone(x), y: slices.Clone(y), weight: weight}
	for j, v := range y {
		r.loss += float64(weight * l.LossOf(p.Values[j], v))
	}
	if _, ok := l.inner.(comparator); ok {
		r.advice = slices.Clone(p.Advice)
	}
	return r, nil
}

// keepAside keeps a row that was set aside. The oldest one is compared, and let go.
func (l *Learner) keepAside(r row) {
	if len(l.aside) == asideRows {
		l.pass(&l.aside[0])
		l.aside = slices.Delete(l.aside, 0, 1)
	}
	l.aside = append(l.aside, r)
}

// pass takes a row that will not be learned into the comparison.
func (l *Learner) pass(r *row) {
	if c, ok := l.inner.(comparator); ok {
		c.Pass(r.y, r.weight, r.advice)
	}
}

// stage tells whether the first rows of a start are looked at.
func (l *Learner) stage() bool {
	return l.taken >= leastKept && l.taken <= l.o.last() && l.taken&(l.taken-1) == 0
}

// purge drops, of the first rows of a start, those that are far from the others. If there
// are some, a new learner learns the others, at most 128.
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
		l.account.setAside++
		l.lastSetAside = l.rows
	}
	return nil
}

// outliers marks the rows that purge drops, nil if there are none. A row is dropped if in
// one output u = |y − median| is above the limit; before 8 rows, far above it.
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

// limit is 50 times the mean of all u = |y − median| of an output but the c largest, over
// the n rows that are kept: c = n/32 in the first start and n/5 in later ones, 1 at least.
// It is 0 if no label is far.
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

// shrunk tells whether the labels have shrunk to a small part of what they were.
func (l *Learner) shrunk() bool {
	for j := range l.trackers {
		if l.trackers[j].shrunk(l.count) {
			return true
		}
	}
	return false
}

// startAnew closes the start, and lets a new learner learn some rows, which had been set
// aside.
func (l *Learner) startAnew(ring []row) error {
	for i := range l.aside {
		l.pass(&l.aside[i])
	}
	l.close()
	account, rows, epoch := l.account, l.rows, l.epoch
	l.inner, l.state = l.o.New(), newState(l.o)
	l.account, l.rows, l.epoch = account, rows, epoch+1
	l.starts++
	l.lastStart = rows
	return l.learnLate(ring)
}

// close adds what the learner of this start has to say of itself to the starts before.
func (l *Learner) close() {
	s, c := l.inner.Stats(), &l.closed
	c.loss += s.Loss
	c.regret += s.Regret
	c.bound += s.RegretBound
	c.certificate += s.Certificate
	c.labelBound = math.Max(c.labelBound, s.LabelBound)
	c.uncertified = c.uncertified || !s.Certified
	c.broken = c.broken || !s.CertificateOK
	if compared, ok := l.inner.(comparator); ok {
		c.passed += compared.Passed()
	}
}

// learnLate learns rows that had been set aside.
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

// admit lets events in: the labels up to twice as far as those that showed that the inputs
// foretell them. Those that are kept are learned now.
func (l *Learner) admit() error {
	var known, others []row
	for _, r := range l.aside {
		if r.size <= l.events.ceiling() {
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
	return l.learnLate(known)
}
