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
	"hindsight/internal/engine/account/history"
	"hindsight/internal/engine/account/interval"
	"hindsight/internal/engine/record"
	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/input"
)

// Sentinels.
var (
	// ErrCorrupt is a state that is not what was learned, or a record that a
	// learner of the spec cannot learn.
	ErrCorrupt = errors.New("stored state is corrupt")
	// ErrPanic is a learner that panicked. It comes with ErrCorrupt.
	ErrPanic = errors.New("the learner panicked")
)

// Machine is one model. Apply needs exclusive access; all other methods only read
// and may run concurrently.
type Machine struct {
	spec     model.Spec
	learner  model.Learner
	sequence uint64
	account  *account.Account
	// encoder is nil without named inputs.
	encoder *encoder
	// classifier is the learner, nil unless labels are classes.
	classifier *classifier
	history    *history.History
	// moment is scratch of Apply.
	moment history.Moment
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
	m = &Machine{spec: spec, learner: learner, encoder: newEncoder(spec)}
	if m.classifier, err = newClassifier(spec, learner); err != nil {
		return nil, err
	}
	m.account = account.New(outputs(spec), spec.Coverage)
	m.beginHistory()
	return m, nil
}

// outputs is how many real labels the account sees: none of a classifier.
func outputs(spec model.Spec) int {
	if spec.Classes != nil {
		return 0
	}
	return spec.Outputs
}

// Restore is the machine of a spec in the state that a snapshot holds.
func Restore(spec model.Spec, learners Learners, s codec.Snapshot) (m *Machine, err error) {
	defer contain("restore the learner", &err)
	if m, err = New(spec, learners); err != nil {
		return nil, err
	}
	m.sequence = s.Sequence
	if err := m.restore(s); err != nil {
		return nil, fmt.Errorf("restore sequence %d: %w: %w", s.Sequence, ErrCorrupt, err)
	}
	return m, nil
}

// restore reads the parts of a snapshot. The state of an encoder goes before that
// of the learner, the account of classes behind the account, each after a length.
func (m *Machine) restore(s codec.Snapshot) (err error) {
	state, kept := s.Learner, s.Account
	if m.encoder != nil {
		var own []byte
		if own, state, err = split(state); err != nil {
			return err
		}
		if err := m.encoder.Restore(own); err != nil {
			return fmt.Errorf("inputs: %w", err)
		}
	}
	if m.classifier != nil {
		var own []byte
		if kept, own, err = split(kept); err != nil {
			return err
		}
		if err := m.classifier.account.Restore(own); err != nil {
			return fmt.Errorf("classes: %w", err)
		}
	}
	if m.account, err = account.Decode(kept, outputs(m.spec), m.spec.Coverage); err != nil {
		return err
	}
	if err := m.restoreHistory(s.History); err != nil {
		return err
	}
	return m.learner.Restore(state)
}

// appendPart appends a length and so many bytes.
func appendPart(dst []byte, part func([]byte) ([]byte, error)) ([]byte, error) {
	at := len(dst)
	dst, err := part(codec.AppendUint64(dst, 0))
	if err == nil {
		codec.AppendUint64(dst[:at], uint64(len(dst)-at-8))
	}
	return dst, err
}

// split reads what appendPart wrote, and what follows it.
func split(data []byte) (part, rest []byte, err error) {
	r := codec.NewReader(data)
	n := r.Uint64()
	if r.Err() == nil && n > uint64(r.Len()) {
		return nil, nil, fmt.Errorf("a part of %d bytes in %d: %w", n, r.Len(), codec.ErrCorrupt)
	}
	part = r.Bytes(int(n))
	rest = r.Bytes(r.Len())
	return part, rest, r.Err()
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
func (m *Machine) AppendNotes(dst []float64) []float64 {
	if m.classifier != nil {
		return m.classifier.account.AppendNotes(dst)
	}
	return m.account.AppendNotes(dst)
}

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
	m.account.Time = r.Time
	width := outputs(m.spec)
	said := make([]float64, len(r.Observations)*width)
	for n := range r.Observations {
		if n > 0 && between != nil {
			between()
		}
		at, end := n*width, (n+1)*width
		if err := m.learn(&r.Observations[n], &answers[n], said[at:end:end]); err != nil {
			m.failed = fmt.Errorf("sequence %d: %w", m.sequence+1, err)
			return m.failed
		}
	}
	return nil
}

// learn takes one observation. Its prequential predictions go to said.
func (m *Machine) learn(o *record.Observation, a *record.Answer, said []float64) (err error) {
	defer contain("learn", &err)
	x := o.Features
	if m.encoder != nil {
		if x, err = m.encoder.decode(o.Inputs); err != nil {
			return fmt.Errorf("a logged record cannot be encoded: %w: %w", ErrCorrupt, err)
		}
	}
	if m.classifier != nil {
		err = m.learnClass(o, x, a)
	} else {
		err = m.learnLabels(o, x, a, said)
	}
	if err == nil && m.encoder != nil {
		m.encoder.Learn(&m.encoder.record)
	}
	return err
}

func (m *Machine) learnLabels(o *record.Observation, x []float64, a *record.Answer, said []float64) error {
	outcome := model.Outcome{Predictions: said}
	if err := m.observe(&outcome, o, x); err != nil {
		return unlearnable(err)
	}
	if !finite(outcome.Predictions) || math.IsNaN(outcome.Loss) {
		return fmt.Errorf("a prequential prediction of %v, a loss of %g: %w", outcome.Predictions, outcome.Loss, ErrCorrupt)
	}
	m.sequence++
	*a = record.Answer{
		Sequence: m.sequence, Predictions: outcome.Predictions, Loss: outcome.Loss, Regret: outcome.Regret, SetAside: outcome.SetAside,
	}
	round := account.Round{Labels: o.Labels, Predictions: outcome.Predictions, Weight: o.Weight, Loss: outcome.Loss, SetAside: outcome.SetAside}
	if o.Served != nil {
		a.Served, a.ServedPredictions = true, o.Served.Predictions
		round.Served, round.Notes = o.Served.Predictions, o.Served.Notes
		for j, y := range o.Labels {
			a.ServedLoss += float64(o.Weight * m.lossOf(o.Served.Predictions[j], y))
		}
		round.ServedLoss = a.ServedLoss
	}
	judged, changed := m.account.Observe(round, m.lossOf)
	m.record(&judged, nil, changed)
	recent := m.account.Recent()
	a.RecentLoss, a.RecentSkill = recent.Served.Loss/recent.Observations, recent.Served.Skill()
	return nil
}

func unlearnable(err error) error {
	return fmt.Errorf("a logged observation cannot be learned: %w: %w", ErrCorrupt, err)
}

// observe lets the learner learn, with what it said when it was asked for a
// prediction if it wants that.
func (m *Machine) observe(outcome *model.Outcome, o *record.Observation, x []float64) error {
	if advised, ok := m.learner.(model.Advised); ok && o.Served != nil {
		return advised.ObserveAdvised(outcome, x, o.Labels, o.Weight, o.Served.Advice)
	}
	return m.learner.Observe(outcome, x, o.Labels, o.Weight)
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

// Input is what is predicted or learned: features or, of a machine with named
// inputs, a settled record.
type Input struct {
	Features []float64
	Record   *input.Record
}

// Predict answers from the present state. It fails with the errors of Check on
// the input alone, and with ErrCorrupt rather than to answer what is not finite.
func (m *Machine) Predict(p *model.ClassPrediction, in Input) (err error) {
	if m.failed != nil {
		return m.failed
	}
	defer contain("predict", &err)
	x := in.Features
	if m.encoder != nil {
		buffer := m.encoder.take()
		defer m.encoder.buffers.Put(buffer)
		*buffer = m.encoder.Encode((*buffer)[:0], in.Record)
		x = *buffer
	}
	if m.classifier != nil {
		if err = m.classifier.learner.PredictClass(p, x); p.Classes == nil {
			p.Classes = []string{} // A classifier has classes, be it none.
		}
	} else {
		p.Class = model.NoClass
		err = m.learner.Predict(&p.Prediction, x)
	}
	if err != nil {
		return m.named(err)
	}
	if !finite(p.Values) || !finite(p.Parametric) || !finite(p.StandardErrors) || math.IsNaN(p.Leverage) || !finite(p.Probabilities) {
		return fmt.Errorf("a prediction of %v, of %v by the parametric part, standard errors %v, leverage %g, probabilities %v: %w",
			p.Values, p.Parametric, p.StandardErrors, p.Leverage, p.Probabilities, ErrCorrupt)
	}
	return nil
}

// Check tells whether an observation may be logged. Apply then learns it, unless
// a class is one too many by then: see ClassRoom. Apply also learns what an
// earlier server accepted and model.Admitter refuses. Labels are nil of a
// classifier.
func (m *Machine) Check(in Input, labels []float64, class string, weight float64) (err error) {
	if m.failed != nil {
		return m.failed
	}
	defer contain("check", &err)
	x := in.Features
	if m.encoder != nil {
		buffer := m.encoder.take()
		defer m.encoder.buffers.Put(buffer)
		*buffer = m.encoder.Encode((*buffer)[:0], in.Record)
		x = *buffer
	}
	if m.classifier != nil {
		err = m.classifier.learner.CheckClass(x, class, weight)
	} else {
		err = m.learner.Check(x, labels, weight)
	}
	if err != nil {
		return m.named(err)
	}
	if admitter, ok := m.learner.(model.Admitter); ok {
		return m.named(admitter.Admit(x, weight))
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
	size := m.learner.Size() + m.account.Size() + m.history.Size()
	if m.encoder != nil {
		size += m.encoder.Size()
	}
	if m.classifier != nil {
		size += m.classifier.account.Size()
	}
	return size
}

// Snapshot is a copy of the state, without its digest, which takes longer than
// the copy. The learner's state is appended to buffer.
func (m *Machine) Snapshot(buffer []byte) (s codec.Snapshot, err error) {
	if m.failed != nil {
		return s, m.failed
	}
	defer contain("copy the state", &err)
	state := buffer
	if m.encoder != nil {
		if state, err = appendPart(state, m.encoder.AppendBinary); err != nil {
			return s, fmt.Errorf("copy the state of the inputs: %w", err)
		}
	}
	if state, err = m.learner.AppendBinary(state); err != nil {
		return s, fmt.Errorf("copy the state: %w", err)
	}
	s = codec.Snapshot{Spec: m.spec, Sequence: m.sequence, Learner: state, History: m.appendHistory()}
	if m.classifier == nil {
		s.Account = m.account.Append(nil)
		return s, nil
	}
	s.Account, err = appendPart(nil, func(dst []byte) ([]byte, error) { return m.account.Append(dst), nil })
	s.Account = m.classifier.account.AppendBinary(s.Account)
	return s, err
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
