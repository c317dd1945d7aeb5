package machine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine/machine"
	"hindsight/internal/engine/record"
	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/input"
)

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
