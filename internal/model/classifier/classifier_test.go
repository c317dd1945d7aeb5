package classifier_test

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/awv"
	"hindsight/internal/model/classifier"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/modeltest"
)

const dimension = 3

func affine(o rlsc) *classifier.Learner { return newRLSC(feature.NewAffine(dimension), o) }

func options() rlsc { return rlsc{Lambda: 0.3, Recoding: 0.5, MaxClasses: 8, Forgetting: 1} }

// rlsc are the options of regularised least squares classification.
type rlsc struct {
	Lambda, Recoding float64
	MaxClasses       int
	Forgetting       float64
}

// forecaster makes one of so many outputs.
func (o rlsc) forecaster(features feature.Map) func(outputs int) model.Learner {
	return func(outputs int) model.Learner {
		return awv.New(features, awv.Options{Lambda: o.Lambda, Outputs: outputs, Indicators: true, Forgetting: o.Forgetting})
	}
}

func (o rlsc) options(create func(outputs int) model.Learner) classifier.Options {
	return classifier.Options{
		MaxClasses: o.MaxClasses, Indicators: true, Recoding: o.Recoding, Forgetting: o.Forgetting, New: create,
	}
}

func newRLSC(features feature.Map, o rlsc) *classifier.Learner {
	return classifier.New(o.options(o.forecaster(features)))
}

type sample = modeltest.ClassSample

// samples are n observations of six classes that appear one after the other.
func samples(seed uint64, n int) []sample { return modeltest.ClassSamples(seed, dimension, 6, n) }

func learn(t *testing.T, l model.Classifier, samples []sample) {
	t.Helper()
	modeltest.LearnClasses(t, l, samples)
}

func encoded(t *testing.T, l model.Learner) []byte {
	t.Helper()
	state, err := l.AppendBinary(nil)
	require.NoError(t, err)
	return state
}

func predict(t *testing.T, l model.Classifier, x []float64) model.ClassPrediction {
	t.Helper()
	var p model.ClassPrediction
	require.NoError(t, l.PredictClass(&p, x))
	return p
}

// No class is known at first, then one.
func TestTheFirstClasses(t *testing.T) {
	l := affine(options())
	x := []float64{1, 2, 3}
	p := predict(t, l, x)
	assert.False(t, p.Class != model.NoClass || p.Name() != "" || len(p.Classes) != 0 || len(p.Probabilities) != 0 || p.Leverage <= 0, "%+v, want no class", p)
	var raw model.Prediction
	err := l.Predict(&raw, x)
	assert.True(t, err == nil && len(raw.Values) == 0 && len(raw.StandardErrors) == 0, "%+v, %v, want no score", raw, err)
	var o model.ClassOutcome
	require.NoError(t, l.ObserveClass(&o, x, "α", 2, nil))
	if o.Class != 0 || o.Prediction.Class != model.NoClass || math.Abs(o.Loss-2) > 1e-15 || len(o.Prediction.Classes) != 0 {
		t.Errorf("%+v, want class 0, which was not known, at a loss of 2", o)
	}
	p = predict(t, l, x)
	assert.True(t, p.Class == 0 && p.Name() == "α" && p.Probabilities[0] == 1, "%+v, want α for certain", p)
	require.NoError(t, l.ObserveClass(&o, x, "β", 1, nil))
	assert.True(t, o.Class == 1 && o.Prediction.Name() == "α" && len(o.Prediction.Classes) == 1, "%+v, want class 1 where α was predicted", o)
}

// Restore rejects what no observations lead to.
func TestRestoreRejects(t *testing.T) {
	l := affine(options())
	learn(t, l, samples(6, 60))
	good := encoded(t, l)
	names := []byte("class 1")
	twice := bytes.Replace(good, names, []byte("class 0"), 1)
	invalid := bytes.Replace(good, names, []byte("class \xff"), 1)
	o := options()
	o.MaxClasses = 2
	few := affine(o)
	fresh := encoded(t, affine(options()))
	rounds := affine(options())
	learn(t, rounds, samples(6, 1))
	// The forecaster's state of a round behind the head of none.
	mixed := slices.Concat(fresh[:8+8+72], encoded(t, rounds)[8+16+7+8+72:])
	for name, c := range map[string]struct {
		l     *classifier.Learner
		state []byte
	}{
		"two of one name": {l, twice}, "no name": {l, invalid}, "too many classes": {few, good},
		"rounds without a class": {l, mixed}, "nothing": {l, nil},
	} {
		before := encoded(t, c.l)
		assert.Error(t, c.l.Restore(c.state), name)
		assert.Equal(t, encoded(t, c.l), before, name)
	}
	assert.NoError(t, l.Restore(fresh))
}
