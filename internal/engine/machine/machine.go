// Package machine implements one model as a pure state machine: a spec, a learner, a
// sequence and an account. Records go in, answers come out. A machine does no I/O,
// reads no clock, takes no lock and logs nothing. Machines that apply the same records
// have the same state, bit for bit, in the writer, in recovery, in a check and in tests.
//
// A machine contains the panics of its learner. A panic in Apply stops the machine, a panic
// in another method fails the call.
package machine

import (
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"slices"

	"hindsight/internal/engine/account"
	"hindsight/internal/engine/account/history"
	"hindsight/internal/engine/account/interval"
	"hindsight/internal/engine/record"
	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/input"
	"hindsight/internal/model/regret"
	"hindsight/internal/model/snapshot"
)

// Sentinels.
var (
	// ErrCorrupt: the state is not the one that was learned, or a record cannot be learned
	// by a learner of the spec.
	ErrCorrupt = errors.New("stored state is corrupt")
	// ErrPanic: the learner panicked. ErrPanic comes with ErrCorrupt.
	ErrPanic = errors.New("the learner panicked")
)

// Machine is one model. Apply needs exclusive access; the other methods only read
// and may run concurrently.
type Machine struct {
	spec    model.Spec
	learner model.Learner
	// squared: the learner is scored by the squared loss.
	squared  bool
	sequence uint64
	account  *account.Account
	// encoder is nil without named inputs.
	encoder *encoder
	// classifier is the learner, nil unless labels are classes.
	classifier *classifier
	history    *history.History
	// moment is scratch of Apply.
	moment history.Moment
	// failed is the panic or error that stopped the machine. After it, the state of the
	// learner is undefined and must be loaded from the log again.
	failed error
	// rows take what is learned, nil unless a report asks for it.
	rows *regret.Rows
	code []float64
}

// Record makes rows take what the machine learns from here on.
func (m *Machine) Record(rows *regret.Rows) { m.rows = rows }

// Learners makes a new learner of a spec.
type Learners func(model.Spec) (model.Learner, error)

// New returns a machine that has learned nothing.
func New(spec model.Spec, learners Learners) (m *Machine, err error) {
	defer contain("make the learner", &err)
	learner, err := learners(spec)
	if err != nil {
		return nil, fmt.Errorf("make the learner: %w: %w", ErrCorrupt, err)
	}
	m = &Machine{spec: spec, learner: learner, squared: spec.SquaredLoss(), encoder: newEncoder(spec)}
	if m.classifier, err = newClassifier(spec, learner); err != nil {
		return nil, err
	}
	m.account = account.New(outputs(spec), spec.Coverage, spec.Label)
	m.history = history.New(m.shape(), 0, m.account.Counts(nil))
	return m, nil
}

// outputs returns the number of real labels that the account sees: 0 for a classifier.
func outputs(spec model.Spec) int {
	if spec.Classes != nil {
		return 0
	}
	return spec.Outputs
}

// Restore returns the machine of a spec in the state of a snapshot.
func Restore(spec model.Spec, learners Learners, s snapshot.Snapshot) (m *Machine, err error) {
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

func (m *Machine) restore(s snapshot.Snapshot) (err error) {
	if err = codec.Read(s.Account, m.visitAccount); err != nil {
		return fmt.Errorf("account: %w", err)
	}
	if m.history, err = history.Decode(s.History, m.shape(), m.sequence, m.account.Counts(nil)); err != nil {
		return err
	}
	return codec.Read(s.Learner, m.visitState)
}

// visitState visits the state of the encoder of named inputs after its length, then the state of
// the learner.
func (m *Machine) visitState(v *codec.Visitor) {
	if m.encoder != nil {
		v.Part(m.encoder.Visit)
	}
	m.learner.Visit(v)
}

// visitAccount visits the account. The account of a classifier has its length before it, and the
// account of classes behind it.
func (m *Machine) visitAccount(v *codec.Visitor) {
	if m.classifier == nil {
		m.account.Visit(v)
		return
	}
	v.Part(m.account.Visit)
	m.classifier.account.Visit(v)
}

func contain(doing string, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%s: %w: %w: %v\n%s", doing, ErrCorrupt, ErrPanic, p, debug.Stack())
	}
}

// Sequence returns the number of observations learned.
func (m *Machine) Sequence() uint64 { return m.sequence }

// Time returns the time of the newest record, in nanoseconds since 1970.
func (m *Machine) Time() int64 { return m.account.Time }

// Summary sums up the account, at a cost of O(outputs · levels).
func (m *Machine) Summary() account.Summary { return m.account.Summary() }

// Intervals returns the statistics of the prediction intervals of each output.
func (m *Machine) Intervals() [][]interval.Statistics { return m.account.Intervals() }

// AppendNotes appends the notes of the values of a prediction made now and of its spread, which the
// account wants back with the label.
func (m *Machine) AppendNotes(dst, values []float64, spread float64) []float64 {
	if m.classifier != nil {
		return m.classifier.account.AppendNotes(dst)
	}
	return m.account.AppendNotes(dst, values, spread)
}

// Failed returns the error that stopped the machine, or nil. A stopped machine fails to
// learn, to predict and to be copied.
func (m *Machine) Failed() error { return m.failed }

// Apply learns a record, and writes the answers of its observations to
// answers[:len(r.Observations)]. It learns as many observations together as the learner takes,
// with the bits of one by one. Apply calls between, unless nil, before each but the first of
// them, when the state is consistent. Apply learns every observation that Check accepted. An
// error stops the machine.
func (m *Machine) Apply(r *record.Record, answers []record.Answer, between func()) error {
	if m.failed != nil {
		return m.failed
	}
	m.account.Time = r.Time
	width := outputs(m.spec)
	predictions := make([]float64, len(r.Observations)*width)
	for n := 0; n < len(r.Observations); {
		if n > 0 && between != nil {
			between()
		}
		end := min(n+m.together(), len(r.Observations))
		if err := m.learn(r.Observations[n:end], answers[n:end], predictions[n*width:end*width]); err != nil {
			m.failed = fmt.Errorf("sequence %d: %w", m.sequence+1, err)
			return m.failed
		}
		n = end
	}
	return nil
}

// together is how many observations the machine learns together at most. They end at the next
// complete point of the history, which takes the learner's statistics.
func (m *Machine) together() int {
	if m.classifier != nil || m.rows != nil {
		return 1
	}
	return int(min(m.history.Left(), uint64(model.Together(m.learner))))
}

// learn learns observations, one or at most together. It writes the prequential predictions to
// predictions.
func (m *Machine) learn(all []record.Observation, answers []record.Answer, predictions []float64) (err error) {
	defer contain("learn", &err)
	if len(all) > 1 {
		return m.learnAll(all, answers, predictions)
	}
	o := &all[0]
	x := o.Features
	if m.encoder != nil {
		if x, err = m.encoder.decode(o.Inputs); err != nil {
			return err
		}
	}
	if m.rows != nil {
		m.rows.Begin(m.learner, x)
	}
	if m.classifier != nil {
		err = m.learnClass(o, x, &answers[0])
	} else {
		err = m.learnLabels(o, x, &answers[0], predictions)
	}
	if err == nil && m.rows != nil {
		m.recordRow(o, x, &answers[0])
	}
	if err == nil && m.encoder != nil {
		m.encoder.Learn(&m.encoder.record)
	}
	return err
}

// recordRow shows rows an observation that was learned, or set aside.
func (m *Machine) recordRow(o *record.Observation, x []float64, a *record.Answer) {
	labels := o.Labels
	if m.classifier != nil {
		coding, ok := m.learner.(regret.Coding)
		if !ok {
			return
		}
		m.code = coding.AppendCode(m.code[:0], m.classifier.outcome.Class)
		labels = m.code
	}
	if a.SetAside {
		m.rows.Follow(m.learner)
		return
	}
	m.rows.End(m.learner, x, labels, o.Weight, a.Loss)
}

func (m *Machine) learnAll(all []record.Observation, answers []record.Answer, predictions []float64) error {
	observations, outcomes := make([]model.Observation, len(all)), make([]model.Outcome, len(all))
	width := len(predictions) / len(all)
	for n := range all {
		o := &all[n]
		observations[n] = model.Observation{X: o.Features, Y: o.Labels, Weight: o.Weight}
		outcomes[n].Predictions = predictions[n*width : (n+1)*width : (n+1)*width]
		if m.encoder != nil {
			x, err := m.encoder.decode(o.Inputs)
			if err != nil {
				return err
			}
			observations[n].X = slices.Clone(x)
			m.encoder.Learn(&m.encoder.record)
		}
	}
	if err := model.ObserveAll(m.learner, outcomes, observations); err != nil {
		return unlearnable(err)
	}
	for n := range all {
		if err := m.accountFor(&all[n], &outcomes[n], &answers[n]); err != nil {
			return err
		}
	}
	return nil
}

func (m *Machine) learnLabels(o *record.Observation, x []float64, a *record.Answer, predictions []float64) error {
	outcome := model.Outcome{Predictions: predictions}
	if err := m.observe(&outcome, o, x); err != nil {
		return unlearnable(err)
	}
	return m.accountFor(o, &outcome, a)
}

func (m *Machine) accountFor(o *record.Observation, outcome *model.Outcome, a *record.Answer) error {
	if !finite(outcome.Predictions) || math.IsNaN(outcome.Loss) {
		return fmt.Errorf("a prequential prediction of %v, a loss of %g: %w", outcome.Predictions, outcome.Loss, ErrCorrupt)
	}
	m.sequence++
	*a = record.Answer{
		Sequence: m.sequence, Predictions: outcome.Predictions, Loss: outcome.Loss, Regret: outcome.Regret, SetAside: outcome.SetAside,
	}
	round := account.Round{
		Labels: o.Labels, Predictions: outcome.Predictions, Weight: o.Weight, Loss: outcome.Loss,
		SquaredLoss: m.squared, SetAside: outcome.SetAside,
	}
	if o.Served != nil {
		a.Served, a.ServedPredictions = true, o.Served.Predictions
		round.Served, round.Notes = o.Served.Predictions, o.Served.Notes
		for j, y := range o.Labels {
			a.ServedLoss += float64(o.Weight * m.lossOf(o.Served.Predictions[j], y))
		}
		round.ServedLoss = a.ServedLoss
	}
	scored, changed := m.account.Observe(round, m.lossOf)
	if o.LeaderLoss != nil && scored.Observations > 0 {
		m.account.Pair(outcome.Loss - *o.LeaderLoss)
	}
	m.record(&scored, nil, changed)
	recent := m.account.Recent()
	a.Recent.Loss, a.Recent.Skill = recent.MeanLoss(&recent.Served), recent.Served.Skill()
	return nil
}

func unlearnable(err error) error {
	return fmt.Errorf("a logged observation cannot be learned: %w: %w", ErrCorrupt, err)
}

// observe lets the learner learn, with the advice of the served prediction if the learner
// uses advice.
func (m *Machine) observe(outcome *model.Outcome, o *record.Observation, x []float64) error {
	if advised, ok := m.learner.(model.Advised); ok && o.Served != nil {
		return advised.ObserveAdvised(outcome, x, o.Labels, o.Weight, o.Served.Advice)
	}
	return m.learner.Observe(outcome, x, o.Labels, o.Weight)
}

func (m *Machine) lossOf(prediction, label float64) float64 {
	return model.LossOf(m.learner, prediction, label)
}

func finite(numbers []float64) bool {
	for _, v := range numbers {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return false
		}
	}
	return true
}

// Input has the features of a prediction or an observation or, for a machine with named
// inputs, an accepted record.
type Input struct {
	Features []float64
	Record   *input.Record
}

func (m *Machine) features(in Input) (x []float64, buffer *[]float64) {
	if m.encoder == nil {
		return in.Features, nil
	}
	buffer = m.encoder.take()
	*buffer = m.encoder.Encode((*buffer)[:0], in.Record)
	return *buffer, buffer
}

func (m *Machine) release(buffer *[]float64) {
	if buffer != nil {
		m.encoder.buffers.Put(buffer)
	}
}

// Predict predicts from the present state. It fails with the errors of Check on
// the input, and with ErrCorrupt if a number is not finite.
func (m *Machine) Predict(p *model.ClassPrediction, in Input) (err error) {
	if m.failed != nil {
		return m.failed
	}
	defer contain("predict", &err)
	x, buffer := m.features(in)
	defer m.release(buffer)
	if m.classifier != nil {
		if err = m.classifier.learner.PredictClass(p, x); p.Classes == nil {
			p.Classes = []string{} // Only a regression has nil.
		}
	} else {
		p.Class = model.NoClass
		err = m.learner.Predict(&p.Prediction, x)
	}
	if err != nil {
		return m.named(err)
	}
	return checkNumbers(p)
}

func checkNumbers(p *model.ClassPrediction) error {
	if !finite(p.Values) || !finite(p.Parametric) || !finite(p.StandardErrors) || math.IsNaN(p.Leverage) || !finite(p.Probabilities) {
		return fmt.Errorf("a prediction of %v, of %v by the parametric part, standard errors %v, leverage %g, probabilities %v: %w",
			p.Values, p.Parametric, p.StandardErrors, p.Leverage, p.Probabilities, ErrCorrupt)
	}
	return nil
}

// maxTogether bounds the inputs that PredictAll encodes at a time.
const maxTogether = 128

// PredictAll is Predict of every input. With an error it returns the place of its input.
func (m *Machine) PredictAll(p []*model.ClassPrediction, in []Input) (at int, err error) {
	for at < len(in) {
		end := min(at+maxTogether, len(in))
		if m.predictTogether(p[at:end], in[at:end]) == nil {
			at = end
		}
		for ; at < end; at++ { // Predict finds the input that has an error.
			if err := m.Predict(p[at], in[at]); err != nil {
				return at, err
			}
		}
	}
	return 0, nil
}

var errAlone = errors.New("inputs to predict one by one")

func (m *Machine) predictTogether(p []*model.ClassPrediction, in []Input) (err error) {
	if m.failed != nil || m.classifier != nil || len(in) == 1 {
		return errAlone
	}
	defer contain("predict", &err)
	all, x := make([]*model.Prediction, len(in)), make([][]float64, len(in))
	for n := range in {
		var buffer *[]float64
		x[n], buffer = m.features(in[n])
		defer m.release(buffer)
		p[n].Class, all[n] = model.NoClass, &p[n].Prediction
	}
	err = model.PredictAll(m.learner, all, x)
	for n := 0; n < len(p) && err == nil; n++ {
		err = checkNumbers(p[n])
	}
	return err
}

// Explain returns what each family of experts and each key contribute to a prediction of the present state.
// It costs a Predict for each input with keys.
func (m *Machine) Explain(p *model.Prediction, in Input) (parts []model.Part, err error) {
	if m.failed != nil {
		return nil, m.failed
	}
	defer contain("explain", &err)
	parts = model.Explain(m.learner, p)
	at := slices.IndexFunc(parts, func(p model.Part) bool { return p.Family == model.FamilyKeys })
	if at < 0 || m.encoder == nil {
		return parts, nil
	}
	schema := m.encoder.Schema()
	for i := range schema.Len() {
		if _, ok := schema.Key(i); !ok {
			continue
		}
		without := model.ClassPrediction{Prediction: model.Prediction{Horizon: p.Horizon}}
		value := *in.Record.At(i)
		in.Record.SetText(i, noCategory)
		err := m.Predict(&without, in)
		*in.Record.At(i) = value
		if err != nil {
			return nil, fmt.Errorf("explain input %q: %w", schema.Name(i), err)
		}
		part := model.KeyPart{Input: schema.Name(i), Contributions: slices.Clone(p.Values)}
		for j, v := range without.Values {
			part.Contributions[j] -= v
		}
		parts[at].Keys = append(parts[at].Keys, part)
	}
	return parts, nil
}

// noCategory equals no text of a request, because texts are UTF-8. A missing value has the key of the text "\xff", so
// noCategory has two bytes.
const noCategory = "\xff\xff"

// Check returns an error if an observation must not be logged. Apply learns every other
// observation, unless its class exceeds ClassRoom by then. Apply also learns observations
// that an earlier server accepted and model.Admitter rejects. Labels are nil for a
// classifier.
func (m *Machine) Check(in Input, labels []float64, class string, weight float64) (err error) {
	if m.failed != nil {
		return m.failed
	}
	defer contain("check", &err)
	x, buffer := m.features(in)
	defer m.release(buffer)
	if m.classifier != nil {
		err = m.classifier.learner.CheckClass(x, class, weight)
	} else {
		err = m.learner.Check(x, labels, weight)
	}
	if err == nil {
		err = model.Admit(m.learner, x, weight)
	}
	if err != nil {
		return m.named(err)
	}
	return nil
}

// Room returns the number of observations that the learner can still learn.
func (m *Machine) Room() int { return model.Remaining(m.learner) }

// Stats returns the learner's statistics, at a cost of O(r), without allocating.
func (m *Machine) Stats() (s model.Stats, err error) {
	if m.failed != nil {
		return s, m.failed
	}
	defer contain("read the statistics", &err)
	return m.learner.Stats(), nil
}

// Size returns the memory of the state in bytes, at a cost of O(1).
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

// Snapshot copies the state. It appends the learner's state to buffer, and leaves the digest
// empty, because a digest takes longer than the copy.
func (m *Machine) Snapshot(buffer []byte) (s snapshot.Snapshot, err error) {
	if m.failed != nil {
		return s, m.failed
	}
	defer contain("copy the state", &err)
	s = snapshot.Snapshot{Spec: m.spec, Sequence: m.sequence, History: m.history.Append(nil)}
	if s.Learner, err = codec.Append(buffer, m.visitState); err == nil {
		s.Account, err = codec.Append(nil, m.visitAccount)
	}
	if err != nil {
		return snapshot.Snapshot{}, fmt.Errorf("copy the state: %w", err)
	}
	return s, nil
}

// Report solves for the figures that Stats lacks, in up to O(r³). Callers restore a machine
// of their own for it.
func (m *Machine) Report(o model.ReportOptions) (r model.Report, err error) {
	if m.failed != nil {
		return r, m.failed
	}
	defer contain("solve the report", &err)
	return m.learner.Report(o), nil
}
