package machine_test

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine/machine"
	"hindsight/internal/engine/record"
	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
)

func spec(t *testing.T) model.Spec {
	t.Helper()
	s, _, err := catalog.Complete(model.Spec{Dimension: 2, Scaling: model.Unscaled(), LinearAWV: &model.LinearAWV{}})
	require.NoError(t, err)
	return s
}

func made(t *testing.T, learners machine.Learners) *machine.Machine {
	t.Helper()
	m, err := machine.New(spec(t), learners)
	require.NoError(t, err)
	return m
}

// records are so many observations in records of one to four.
func records(seed uint64, observations int) []record.Record {
	rng := rand.New(rand.NewPCG(seed, 3))
	var out []record.Record
	for observations > 0 {
		r := record.Record{Time: int64(len(out))}
		for range min(observations, 1+rng.IntN(4)) {
			o := record.Observation{
				Features: []float64{rng.NormFloat64(), rng.NormFloat64()}, Labels: []float64{rng.NormFloat64()}, Weight: 1,
			}
			if rng.IntN(2) == 0 {
				o.Served = &record.Served{Predictions: []float64{rng.NormFloat64()}}
			}
			r.Observations = append(r.Observations, o)
			observations--
		}
		out = append(out, r)
	}
	return out
}

func apply(t *testing.T, m *machine.Machine, all []record.Record, between func()) (answers []record.Answer) {
	t.Helper()
	for n := range all {
		said := make([]record.Answer, len(all[n].Observations))
		require.NoError(t, m.Apply(&all[n], said, between))
		answers = append(answers, said...)
	}
	return answers
}

// Apply is the learner, observation by observation, with the account of what was
// served; and a machine restored in the middle goes on bit for bit.
func TestApplyIsTheLearner(t *testing.T) {
	all := records(1, 60)
	m := made(t, catalog.New)
	pauses := 0
	answers := apply(t, m, all, func() { pauses++ })
	learner, err := catalog.New(spec(t))
	require.NoError(t, err)
	sequence, served, servedLoss := uint64(0), uint64(0), 0.0
	for _, r := range all {
		for _, o := range r.Observations {
			var out model.Outcome
			require.NoError(t, learner.Observe(&out, o.Features, o.Labels, o.Weight))
			want := record.Answer{Sequence: sequence + 1, Predictions: out.Predictions, Loss: out.Loss, Regret: out.Regret}
			if o.Served != nil {
				miss := o.Labels[0] - o.Served.Predictions[0]
				want.Served, want.ServedPredictions, want.ServedLoss = true, o.Served.Predictions, miss*miss
				if sequence > 0 { // The first is not scored.
					served, servedLoss = served+1, servedLoss+want.ServedLoss
				}
			}
			recent := answers[sequence].Recent
			assert.True(t, sequence != 0 || math.IsNaN(recent.Loss), "a recent loss of %g of no scored observation", recent.Loss)
			answers[sequence].Recent = want.Recent // Package account tests them.
			require.True(t, reflect.DeepEqual(answers[sequence], want), "answer %d is %+v, want %+v", sequence+1, answers[sequence], want)
			sequence++
		}
	}
	account := m.Summary()
	if m.Sequence() != sequence || account.Predicted != served || account.Served.Loss != servedLoss || m.Time() != all[len(all)-1].Time {
		t.Errorf("sequence %d, account %+v; want %d, %d and %g", m.Sequence(), account, sequence, served, servedLoss)
	}
	assert.Equal(t, int(sequence)-len(all), pauses)
	for _, at := range []int{0, 1, len(all) / 2, len(all)} {
		first := made(t, catalog.New)
		apply(t, first, all[:at], nil)
		s, err := first.Snapshot(nil)
		require.NoError(t, err)
		second, err := machine.Restore(spec(t), catalog.New, s)
		require.NoError(t, err)
		apply(t, second, all[at:], nil)
		a, errA := m.Snapshot(nil)
		b, errB := second.Snapshot(nil)
		if errA != nil || errB != nil || !bytes.Equal(a.Learner, b.Learner) || !bytes.Equal(a.Account, b.Account) || !bytes.Equal(a.History, b.History) || a.Sequence != b.Sequence {
			t.Errorf("restored behind record %d, it ends elsewhere: %v, %v", at, errA, errB)
		}
	}
}

// failing is a learner that does what a test asks for.
type failing struct {
	model.Learner
	panics  string
	predict float64
}

func (f *failing) in(method string) {
	if f.panics == method {
		panic("a defect")
	}
}

func (f *failing) Observe(o *model.Outcome, x, y []float64, weight float64) error {
	f.in("Observe")
	return f.Learner.Observe(o, x, y, weight)
}

func (f *failing) Predict(p *model.Prediction, x []float64) error {
	f.in("Predict")
	err := f.Learner.Predict(p, x)
	p.Values[0] += f.predict
	return err
}

func (f *failing) Check(x, y []float64, weight float64) error {
	f.in("Check")
	return f.Learner.Check(x, y, weight)
}

func (f *failing) Stats() model.Stats {
	f.in("Stats")
	return f.Learner.Stats()
}

func (f *failing) Report(o model.ReportOptions) model.Report {
	f.in("Report")
	return f.Learner.Report(o)
}

func (f *failing) AppendBinary(dst []byte) ([]byte, error) {
	f.in("AppendBinary")
	return f.Learner.AppendBinary(dst)
}

func (f *failing) Restore(state []byte) error {
	f.in("Restore")
	return f.Learner.Restore(state)
}

func (f *failing) learners(s model.Spec) (model.Learner, error) {
	f.in("New")
	l, err := catalog.New(s)
	f.Learner = l
	return f, err
}

// A panic in any method of a learner is an error of the call. One of Observe is
// the end of the machine.
func TestPanicsAreContained(t *testing.T) {
	x, y := []float64{1, 2}, []float64{1}
	all := records(2, 5)
	whole := made(t, catalog.New)
	apply(t, whole, all, nil)
	snapshot, err := whole.Snapshot(nil)
	require.NoError(t, err)
	for method, call := range map[string]func(m *machine.Machine) error{
		"Observe": func(m *machine.Machine) error {
			return m.Apply(&all[0], make([]record.Answer, len(all[0].Observations)), nil)
		},
		"Predict":      func(m *machine.Machine) error { return m.Predict(&model.ClassPrediction{}, machine.Input{Features: x}) },
		"Check":        func(m *machine.Machine) error { return m.Check(machine.Input{Features: x}, y, "", 1) },
		"Stats":        func(m *machine.Machine) error { _, err := m.Stats(); return err },
		"Report":       func(m *machine.Machine) error { _, err := m.Report(model.ReportOptions{}); return err },
		"AppendBinary": func(m *machine.Machine) error { _, err := m.Snapshot(nil); return err },
		"New": func(*machine.Machine) error {
			f := &failing{panics: "New"}
			_, err := machine.New(spec(t), f.learners)
			return err
		},
		"Restore": func(*machine.Machine) error {
			f := &failing{panics: "Restore"}
			_, err := machine.Restore(spec(t), f.learners, snapshot)
			return err
		},
	} {
		f := &failing{}
		m := made(t, f.learners)
		f.panics = method
		err := call(m)
		assert.True(t, errors.Is(err, machine.ErrPanic) && errors.Is(err, machine.ErrCorrupt), "%s panics: %v", method, err)
		f.panics = ""
		ended := m.Failed() != nil
		assert.Equal(t, (method == "Observe"), ended, method)
		err = m.Predict(&model.ClassPrediction{}, machine.Input{Features: x})
		assert.Equal(t, (err != nil), ended, "%v %v", method, err)
		s, err := m.Snapshot(nil)
		assert.Equal(t, (err != nil), ended, "%v %v %v", method, s.Sequence, err)
	}
}

// Statistics that panic leave a gap in the history, and the model learns on.
func TestHistoryWithoutStatistics(t *testing.T) {
	f := &failing{}
	m := made(t, f.learners)
	all := records(4, 30)
	f.panics = "Stats"
	apply(t, m, all[:5], nil)
	f.panics = ""
	apply(t, m, all[5:], nil)
	sequence := uint64(len(all[0].Observations))
	points := m.History().Points(0, m.Moment())
	if len(points) != 30 || m.Failed() != nil {
		t.Fatalf("%d points, %v", len(points), m.Failed())
	}
	for _, r := range all[1:5] {
		sequence += uint64(len(r.Observations))
	}
	for n, p := range points {
		told := uint64(n) >= sequence
		assert.True(t, math.IsNaN(p.Regret) != told && math.IsNaN(p.RegretBound) != told && p.Performance.Observations == float64(min(n, 1)), "point %d is %+v", n, p)
	}
}

// What is not a number is not served.
func TestNothingButNumbersIsServed(t *testing.T) {
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		f := &failing{predict: v}
		assert.ErrorIs(t, made(t, f.learners).Predict(&model.ClassPrediction{}, machine.Input{Features: []float64{1, 2}}), machine.ErrCorrupt, v)
	}
}

// A record that its learner rejects ends the machine inside of the record, where
// it has no snapshot.
func TestRecordThatCannotBeLearned(t *testing.T) {
	m := made(t, catalog.New)
	r := record.Record{Observations: []record.Observation{
		{Features: []float64{1, 2}, Labels: []float64{1}, Weight: 1},
		{Features: []float64{1}, Labels: []float64{1}, Weight: 1},
	}}
	err := m.Apply(&r, make([]record.Answer, 2), nil)
	assert.True(t, errors.Is(err, machine.ErrCorrupt) && !errors.Is(err, machine.ErrPanic), "%v", err)
	s, err := m.Snapshot(nil)
	assert.Error(t, err, s.Sequence)
	assert.Error(t, m.Apply(&r, make([]record.Answer, 2), nil), "it goes on")
}
