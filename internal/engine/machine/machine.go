// Package machine is one model as a pure state machine: a spec, a learner, a
// sequence and an account. Records go in, answers come out. It does no I/O,
// reads no clock, takes no lock and logs nothing. All that apply the same records
// have the same state, bit for bit: the writer, recovery, a check of what is
// stored, a test.
//
// It is the one place where a learner's panic is contained. A panic of Apply ends
// the machine, any other one ends its call.
package machine

import (
	"errors"
	"fmt"
	"math"
	"runtime/debug"

	"hindsight/internal/engine/account"
	"hindsight/internal/engine/account/interval"
	"hindsight/internal/engine/record"
	"hindsight/internal/model"
	"hindsight/internal/model/codec"
)

// Sentinels.
var (
	// ErrCorrupt is a state that is not what was learned, or a record that a
	// learner of the spec cannot learn.
	ErrCorrupt = errors.New("stored state is corrupt")
	// ErrPanic is a learner that panicked. It comes with ErrCorrupt.
	ErrPanic = errors.New("the learner panicked")
)

// Machine is one model. Predict, AppendNotes, Check, Room, Stats, Summary, Size
// and Snapshot only read and may run concurrently; Apply needs exclusive access.
type Machine struct {
	spec     model.Spec
	learner  model.Learner
	sequence uint64
	account  *account.Account
	// failed is why the machine is at an end: its learner may be anywhere.
	failed error
}

// Learners makes the learner of a spec, which has learned nothing.
type Learners func(model.Spec) (model.Learner, error)

// New is a machine that has learned nothing.
func New(spec model.Spec, learners Learners) (m *Machine, err error) {
	defer contain("make the learner", &err)
	learner, err := learners(spec)
	if err != nil {
		return nil, fmt.Errorf("make the learner: %w: %w", ErrCorrupt, err)
	}
	return &Machine{spec: spec, learner: learner, account: account.New(spec.Outputs, spec.Coverage)}, nil
}

// Restore is the machine of a spec in the state that a snapshot holds.
func Restore(spec model.Spec, learners Learners, s codec.Snapshot) (m *Machine, err error) {
	defer contain("restore the learner", &err)
	kept, err := account.Decode(s.Account, spec.Outputs, spec.Coverage)
	if err != nil {
		return nil, fmt.Errorf("restore sequence %d: %w: %w", s.Sequence, ErrCorrupt, err)
	}
	if m, err = New(spec, learners); err != nil {
		return nil, err
	}
	if err := m.learner.Restore(s.Learner); err != nil {
		return nil, fmt.Errorf("restore sequence %d: %w: %w", s.Sequence, ErrCorrupt, err)
	}
	m.sequence, m.account = s.Sequence, kept
	return m, nil
}

// contain turns a panic of the learner into an error.
func contain(doing string, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%s: %w: %w: %v\n%s", doing, ErrCorrupt, ErrPanic, p, debug.Stack())
	}
}

// Sequence is how many observations were learned.
func (m *Machine) Sequence() uint64 { return m.sequence }

// Time is the time of the newest record, in nanoseconds since 1970.
func (m *Machine) Time() int64 { return m.account.Time }

// Summary tells how the model does, at a cost of O(outputs · levels).
func (m *Machine) Summary() account.Summary { return m.account.Summary() }

// Intervals are the statistics of the prediction intervals of each output.
func (m *Machine) Intervals() [][]interval.Statistics { return m.account.Intervals() }

// AppendNotes appends what is wanted back with the label of a prediction of now.
func (m *Machine) AppendNotes(dst []float64) []float64 { return m.account.AppendNotes(dst) }

// Failed is why the machine is at an end, nil while it is whole. A machine at
// an end refuses to learn, to predict and to be copied.
func (m *Machine) Failed() error { return m.failed }

// Apply learns a record, observation by observation, and writes what came of
// each to answers, which has room for all. It calls between, unless that is
// nil, between two observations: the state is whole then. What Check accepted
// is learned without failing; after an error the machine is at an end.
func (m *Machine) Apply(r *record.Record, answers []record.Answer, between func()) error {
	if m.failed != nil {
		return m.failed
	}
	said := make([]float64, len(r.Observations)*m.spec.Outputs)
	for n := range r.Observations {
		if n > 0 && between != nil {
			between()
		}
		at, end := n*m.spec.Outputs, (n+1)*m.spec.Outputs
		if err := m.learn(&r.Observations[n], &answers[n], said[at:end:end]); err != nil {
			m.failed = fmt.Errorf("sequence %d: %w", m.sequence+1, err)
			return m.failed
		}
		m.account.Time = r.Time
	}
	return nil
}

// learn takes one observation. Its prequential predictions go to said.
func (m *Machine) learn(o *record.Observation, a *record.Answer, said []float64) (err error) {
	defer contain("learn", &err)
	outcome := model.Outcome{Predictions: said}
	if err := m.observe(&outcome, o); err != nil {
		return fmt.Errorf("a logged observation cannot be learned: %w: %w", ErrCorrupt, err)
	}
	if !finite(outcome.Predictions) || math.IsNaN(outcome.Loss) {
		return fmt.Errorf("a prequential prediction of %v, a loss of %g: %w", outcome.Predictions, outcome.Loss, ErrCorrupt)
	}
	m.sequence++
	*a = record.Answer{Sequence: m.sequence, Predictions: outcome.Predictions, Loss: outcome.Loss, Regret: outcome.Regret}
	round := account.Round{Labels: o.Labels, Predictions: outcome.Predictions, Weight: o.Weight, Loss: outcome.Loss}
	if o.Served != nil {
		a.Served, a.ServedPredictions = true, o.Served.Predictions
		round.Served, round.Notes = o.Served.Predictions, o.Served.Notes
	}
	a.ServedLoss = m.account.Observe(round, m.lossOf)
	recent := m.account.Recent()
	a.RecentLoss, a.RecentSkill = recent.Served.Loss/recent.Observations, recent.Served.Skill()
	return nil
}

// observe lets the learner learn, with what it said when it was asked for a
// prediction if it wants that.
func (m *Machine) observe(outcome *model.Outcome, o *record.Observation) error {
	if advised, ok := m.learner.(model.Advised); ok && o.Served != nil {
		return advised.ObserveAdvised(outcome, o.Features, o.Labels, o.Weight, o.Served.Advice)
	}
	return m.learner.Observe(outcome, o.Features, o.Labels, o.Weight)
}

// lossOf is the learner's loss of a served prediction.
func (m *Machine) lossOf(prediction, label float64) float64 {
	if scored, ok := m.learner.(model.Scored); ok {
		return scored.LossOf(prediction, label)
	}
	miss := label - prediction
	return float64(miss * miss)
}

// finite says that numbers may be served. A learner that is whole gives no
// others.
func finite(numbers []float64) bool {
	for _, v := range numbers {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return false
		}
	}
	return true
}

// Predict answers from the present state. It fails with the errors of Check on
// x alone, and with ErrCorrupt rather than to answer what is not finite.
func (m *Machine) Predict(p *model.Prediction, x []float64) (err error) {
	if m.failed != nil {
		return m.failed
	}
	defer contain("predict", &err)
	if err := m.learner.Predict(p, x); err != nil {
		return err
	}
	if !finite(p.Values) || !finite(p.StandardErrors) || math.IsNaN(p.Leverage) {
		return fmt.Errorf("a prediction of %v, standard errors %v, leverage %g: %w", p.Values, p.StandardErrors, p.Leverage, ErrCorrupt)
	}
	return nil
}

// Check tells whether an observation may be logged. Apply then learns it. Apply
// also learns what an earlier server accepted and model.Admitter refuses.
func (m *Machine) Check(x, y []float64, weight float64) (err error) {
	if m.failed != nil {
		return m.failed
	}
	defer contain("check", &err)
	if err := m.learner.Check(x, y, weight); err != nil {
		return err
	}
	if admitter, ok := m.learner.(model.Admitter); ok {
		return admitter.Admit(x, weight)
	}
	return nil
}

// Room is how many more observations the learner takes.
func (m *Machine) Room() int {
	if bounded, ok := m.learner.(model.Bounded); ok {
		return bounded.Remaining()
	}
	return math.MaxInt
}

// Stats tells how the learner is doing, at a cost of O(r), without allocating.
func (m *Machine) Stats() (s model.Stats, err error) {
	if m.failed != nil {
		return s, m.failed
	}
	defer contain("read the statistics", &err)
	return m.learner.Stats(), nil
}

// Size is the memory that the state takes, in bytes, at a cost of O(1).
func (m *Machine) Size() uint64 {
	if m.failed != nil {
		return 0
	}
	return m.learner.Size() + m.account.Size()
}

// Snapshot is a copy of the state, without its digest, which takes longer than
// the copy. The learner's state is appended to buffer.
func (m *Machine) Snapshot(buffer []byte) (s codec.Snapshot, err error) {
	if m.failed != nil {
		return s, m.failed
	}
	defer contain("copy the state", &err)
	state, err := m.learner.AppendBinary(buffer)
	if err != nil {
		return s, fmt.Errorf("copy the state: %w", err)
	}
	return codec.Snapshot{Spec: m.spec, Sequence: m.sequence, Learner: state, Account: m.account.Append(nil)}, nil
}

// Report solves what Stats does not know. It takes up to O(r³), so that it is
// asked of a machine of its own, restored from a snapshot.
func (m *Machine) Report(o model.ReportOptions) (r model.Report, err error) {
	if m.failed != nil {
		return r, m.failed
	}
	defer contain("solve the report", &err)
	return m.learner.Report(o), nil
}
