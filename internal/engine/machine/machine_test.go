package machine_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine/machine"
	"hindsight/internal/engine/record"
	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/input"
	"hindsight/internal/model/snapshot"
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

func (f *failing) Visit(v *codec.Visitor) {
	f.in("Visit")
	f.Learner.Visit(v)
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
		"Predict": func(m *machine.Machine) error { return m.Predict(&model.ClassPrediction{}, machine.Input{Features: x}) },
		"Check":   func(m *machine.Machine) error { return m.Check(machine.Input{Features: x}, y, "", 1) },
		"Stats":   func(m *machine.Machine) error { _, err := m.Stats(); return err },
		"Report":  func(m *machine.Machine) error { _, err := m.Report(model.ReportOptions{}); return err },
		"Visit":   func(m *machine.Machine) error { _, err := m.Snapshot(nil); return err },
		"New": func(*machine.Machine) error {
			f := &failing{panics: "New"}
			_, err := machine.New(spec(t), f.learners)
			return err
		},
		"Restore": func(*machine.Machine) error {
			f := &failing{panics: "Visit"}
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
	require.True(t, len(points) == 30 && m.Failed() == nil, "%d points, %v", len(points), m.Failed())
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

// counting counts how many observations the learner learns together.
type counting struct {
	model.Learner
	together int
}

func (c *counting) Together() int { return c.Learner.(model.Batched).Together() }

func (c *counting) ObserveAll(outcomes []model.Outcome, all []model.Observation) error {
	c.together += len(all)
	return c.Learner.(model.Batched).ObserveAll(outcomes, all)
}

func (c *counting) AppendWeights(dst []float64) []float64 { return model.AppendWeights(c.Learner, dst) }

func (c *counting) WeightNames() []string { return model.WeightNames(c.Learner) }

// A record of many observations leaves the bits of as many records of one: answers, learner,
// account and history. Records from some hundred observations on are learned together.
func TestRecordsOfManyAreRecordsOfOne(t *testing.T) {
	degree, categories, least := 2, 3, -1.0
	inputs := []*model.Input{
		{Name: "a", Numeric: &model.NumericInput{}},
		{Name: "b", Categorical: &model.CategoricalInput{MaxCategories: &categories}},
	}
	for name, s := range map[string]model.Spec{
		"taylor":       {Dimension: 3, Outputs: 2, PKAWVTaylor: &model.PKAWVTaylor{Degree: &degree}, Coverage: []float64{0.5, 0.9}},
		"linear":       {Dimension: 3, LinearAWV: &model.LinearAWV{}},
		"unscaled":     {Dimension: 3, Scaling: model.Unscaled(), LinearAWV: &model.LinearAWV{}},
		"named inputs": {Inputs: inputs, PKAWVTaylor: &model.PKAWVTaylor{Degree: &degree}},
		"ridges":       {Dimension: 3, LinearAWV: &model.LinearAWV{Ridges: model.Ridges{Lambdas: []float64{0.1, 1, 10}}}},
		"gated":        {Dimension: 3, LabelGate: model.GateOn, LinearAWV: &model.LinearAWV{}},
		"bounded":      {Dimension: 3, Outputs: 2, Label: &model.Label{Min: &least}, LinearAWV: &model.LinearAWV{}},
		"gated, bounded": {
			Dimension: 3, LabelGate: model.GateOn, Label: &model.Label{Min: &least}, PKAWVTaylor: &model.PKAWVTaylor{Degree: &degree},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, _, err := catalog.Complete(s)
			require.NoError(t, err)
			var counted counting
			one, err := machine.New(s, catalog.New)
			require.NoError(t, err)
			many, err := machine.New(s, func(s model.Spec) (l model.Learner, err error) {
				counted.Learner, err = catalog.New(s)
				return &counted, err
			})
			require.NoError(t, err)
			rng := rand.New(rand.NewPCG(5, 6))
			for one.Sequence() < 2500 {
				r := record.Record{Time: int64(one.Sequence())}
				for range 1 + rng.IntN(60) {
					r.Observations = append(r.Observations, observationOf(rng, s))
				}
				got, want := make([]record.Answer, len(r.Observations)), make([]record.Answer, len(r.Observations))
				require.NoError(t, many.Apply(&r, got, func() {}))
				for n := range r.Observations {
					alone := record.Record{Time: r.Time, Observations: r.Observations[n : n+1]}
					require.NoError(t, one.Apply(&alone, want[n:n+1], nil))
				}
				if fmt.Sprint(got) != fmt.Sprint(want) { // The recent figures of the first are NaN.
					t.Fatalf("after %d observations: answers %+v, one by one %+v", one.Sequence(), got, want)
				}
			}
			a, errA := one.Snapshot(nil)
			b, errB := many.Snapshot(nil)
			assert.True(t, errA == nil && errB == nil && reflect.DeepEqual(a, b), "the states differ: %v, %v", errA, errB)
			assert.GreaterOrEqual(t, counted.together, 1500, "%d observations were learned together", counted.together)
		})
	}
}

// observationOf draws an observation of a spec, of features or of a number and a category. A
// gate sets some labels aside.
func observationOf(rng *rand.Rand, s model.Spec) (o record.Observation) {
	o.Weight = 1
	if rng.IntN(3) == 0 {
		o.Weight = 0.1 + rng.Float64()
	}
	for range s.Outputs {
		label := rng.NormFloat64()
		if s.LabelGate == model.GateOn && rng.IntN(100) == 0 {
			label = 1e5 * rng.ExpFloat64()
		}
		if s.Label != nil {
			label = s.Label.Project(label)
		}
		o.Labels = append(o.Labels, label)
	}
	if rng.IntN(2) == 0 {
		o.Served = &record.Served{Predictions: append([]float64(nil), o.Labels...)}
	}
	if len(s.Inputs) > 0 {
		var r input.Record
		r.Reset(len(s.Inputs))
		if rng.IntN(5) > 0 { // Otherwise it is missing.
			r.SetNumber(0, rng.NormFloat64())
		}
		r.SetText(1, string(rune('a'+rng.IntN(5))))
		o.Inputs = r.Append(nil)
		return o
	}
	for range s.Dimension {
		o.Features = append(o.Features, rng.NormFloat64())
	}
	return o
}

// foreseeing counts how many inputs the learner predicts together.
type foreseeing struct {
	model.Learner
	together int
}

func (f *foreseeing) PredictAll(p []*model.Prediction, x [][]float64) error {
	f.together += len(x)
	return f.Learner.(model.Foreseeing).PredictAll(p, x)
}

// Predictions of many inputs are equal to the predictions of as many calls, behind a gate and bounds of labels, too. An
// input with an error is named by its place.
func TestPredictionsOfManyAreThoseOfOne(t *testing.T) {
	least := -1.0
	s, _, err := catalog.Complete(model.Spec{Dimension: 3, Auto: &model.Auto{}, Label: &model.Label{Min: &least}})
	require.NoError(t, err)
	var counted foreseeing
	m, err := machine.New(s, func(s model.Spec) (l model.Learner, err error) {
		counted.Learner, err = catalog.New(s)
		return &counted, err
	})
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(7, 8))
	r, answers := record.Record{}, make([]record.Answer, 300)
	for range answers {
		r.Observations = append(r.Observations, observationOf(rng, s))
	}
	require.NoError(t, m.Apply(&r, answers, func() {}))
	inputs, all := make([]machine.Input, 140), make([]*model.ClassPrediction, 140)
	for n := range inputs {
		inputs[n].Features, all[n] = r.Observations[n].Features, new(model.ClassPrediction)
	}
	_, err = m.PredictAll(all, inputs)
	require.NoError(t, err)
	for n, in := range inputs {
		var alone model.ClassPrediction
		err := m.Predict(&alone, in)
		require.True(t, err == nil && reflect.DeepEqual(*all[n], alone), "input %d: %+v together, %+v alone, %v", n, *all[n], alone, err)
	}
	assert.Equal(t, len(inputs), counted.together)
	inputs[133].Features = []float64{1}
	at, err := m.PredictAll(all, inputs)
	assert.True(t, at == 133 && errors.Is(err, model.ErrDimensionMismatch), "a bad input: at %d, %v", at, err)
}

var update = flag.Bool("update", false, "write the golden files anew")

// told are the points of a history, as text.
func told(m *machine.Machine) []byte {
	var out bytes.Buffer
	h := m.History()
	for _, p := range h.Points(0, m.Moment()) {
		own, served := p.Performance.Prequential, p.Performance.Served
		fmt.Fprintf(&out, "%d %d {%v {%v %v %v} {%v %v %v}} %v %v %v %d %v %v\n", p.Sequence, p.Time,
			p.Performance.Observations, own.Loss, own.RunningMean, own.LastLabel, served.Loss, served.RunningMean, served.LastLabel,
			p.Classes, p.Regret, p.RegretBound, p.Dictionary, p.Weights, p.Coverage)
	}
	fmt.Fprintln(&out, h.Marks())
	return out.Bytes()
}

// Snapshots with a history that this version wrote are read for ever: they are restored
// to the byte, tell the same, and learn on.
func TestGoldenSnapshots(t *testing.T) {
	for name, spec := range map[string]model.Spec{
		"labels": {
			Dimension: 2, Scaling: model.Unscaled(), Coverage: []float64{0.5, 0.9},
			LinearAWV: &model.LinearAWV{Ridges: model.Ridges{Lambdas: []float64{0.1, 1, 10}}},
		},
		"classes": {Dimension: 2, Scaling: model.Unscaled(), Classes: &model.Classes{}, LinearAWV: &model.LinearAWV{}},
	} {
		t.Run(name, func(t *testing.T) {
			spec, _, err := catalog.Complete(spec)
			require.NoError(t, err)
			all := records(11, 601)
			for n := range all {
				for k := range all[n].Observations {
					o := &all[n].Observations[k]
					if n > len(all)/2 {
						o.Labels[0] *= 40 // A change.
					}
					if spec.Classes != nil {
						o.Class, o.Labels, o.Served = strconv.FormatBool(o.Labels[0] > 0), nil, nil
					}
				}
			}
			path, text := filepath.Join("testdata", name+".v5.hs"), filepath.Join("testdata", name+".v5.txt")
			if *update {
				writeGolden(t, spec, func(m *machine.Machine) { apply(t, m, all, nil) }, path, text)
			}
			m := readGolden(t, spec, path, text)
			data, err := os.ReadFile(path)
			assert.True(t, err == nil && bytes.Equal(encoded(t, m), data), "written again it is another (%v)", err)
			apply(t, m, all[:100], nil)
		})
	}
}

// readGolden restores a golden snapshot, which must tell its text.
func readGolden(t *testing.T, spec model.Spec, path, text string) *machine.Machine {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	want, err := os.ReadFile(text)
	require.NoError(t, err)
	snapshot, err := snapshot.Decode(data)
	require.NoError(t, err)
	m, err := machine.Restore(spec, catalog.New, snapshot)
	require.NoError(t, err)
	assert.Equal(t, want, told(m), path)
	return m
}

func encoded(t *testing.T, m *machine.Machine) []byte {
	t.Helper()
	s, err := m.Snapshot(nil)
	require.NoError(t, err)
	s.Digest = snapshot.Digest(s.Learner)
	data, err := snapshot.Encode(s)
	require.NoError(t, err)
	return data
}

func writeGolden(t *testing.T, spec model.Spec, learn func(*machine.Machine), path, text string) {
	t.Helper()
	m, err := machine.New(spec, catalog.New)
	require.NoError(t, err)
	learn(m)
	for name, data := range map[string][]byte{path: encoded(t, m), text: told(m)} {
		require.NoError(t, os.WriteFile(name, data, 0o600))
	}
}
