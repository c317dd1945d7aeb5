package classifier_test

import (
	"bytes"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/awv"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/classifier"
	"hindsight/internal/model/codec"
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
	good := modeltest.State(t, l.Visit)
	names := []byte("class 1")
	twice := bytes.Replace(good, names, []byte("class 0"), 1)
	invalid := bytes.Replace(good, names, []byte("class \xff"), 1)
	o := options()
	o.MaxClasses = 2
	fresh := modeltest.State(t, affine(options()).Visit)
	rounds := affine(options())
	learn(t, rounds, samples(6, 1))
	// The forecaster's state of a round behind the head of none.
	mixed := slices.Concat(fresh[:8+8+72], modeltest.State(t, rounds.Visit)[8+16+7+8+72:])
	for name, c := range map[string]struct {
		o     rlsc
		state []byte
	}{
		"two of one name": {options(), twice}, "no name": {options(), invalid}, "too many classes": {o, good},
		"rounds without a class": {options(), mixed}, "nothing": {options(), nil},
	} {
		assert.Error(t, codec.Read(c.state, affine(c.o).Visit), name)
	}
}

// Of raw columns and two classes, every learner by its name alone says probabilities
// that hold: every bin of the reliability table that has 500 members or more is within
// 0.05 of what it promised.
func TestReliabilityOfEveryLearner(t *testing.T) {
	if modeltest.RaceDetector {
		t.Skip("too slow with the race detector")
	}
	hinge := model.FirstOrder{Loss: model.LossHinge}
	logistic := model.FirstOrder{Loss: model.LossLogistic}
	for _, name := range []string{"elec2.csv.gz", "ijcnn1.csv.gz"} {
		stream := modeltest.Stream(t, name, 8000)
		for what, spec := range map[string]model.Spec{
			"rlsc":            {RLSC: &model.RLSC{}},
			"rlsc, gaussian":  {RLSC: &model.RLSC{Kernel: &model.Kernel{}}},
			"linear_awv":      {LinearAWV: &model.LinearAWV{}},
			"fourier_awv":     {FourierAWV: &model.FourierAWV{}},
			"pkawv_nystrom":   {PKAWVNystrom: &model.PKAWVNystrom{MaxDictionary: ptr(60)}},
			"auto":            {},
			"fogd":            {FOGD: &model.FOGD{}},
			"fogd, hinge":     {FOGD: &model.FOGD{FirstOrder: hinge}},
			"raker, hinge":    {Raker: &model.Raker{FirstOrder: hinge}},
			"raker":           {Raker: &model.Raker{}},
			"ada_raker":       {AdaRaker: &model.AdaRaker{}},
			"ada, hinge":      {AdaRaker: &model.AdaRaker{Raker: model.Raker{FirstOrder: hinge}}},
			"fogd, logistic":  {FOGD: &model.FOGD{FirstOrder: logistic}},
			"raker, logistic": {Raker: &model.Raker{FirstOrder: logistic}},
			"ada, logistic":   {AdaRaker: &model.AdaRaker{Raker: model.Raker{FirstOrder: logistic}}},
		} {
			t.Run(name+"/"+what, func(t *testing.T) {
				t.Parallel()
				rounds := stream
				if what == "auto" { // It is the slowest by far.
					rounds = stream[:2000]
				}
				spec.Dimension, spec.Classes = len(stream[0].X), &model.Classes{}
				y := run(t, create(t, spec), rounds)
				t.Log(y)
				worst, bins := y.worst()
				assert.False(t, worst > 0.05 || bins == 0, "a bin of %d is off by %.3f", bins, worst)
			})
		}
	}
}

// run observes a stream, whose labels are the classes.
func run(t *testing.T, l model.Classifier, stream []modeltest.Sample) *tally {
	t.Helper()
	var y tally
	var o model.ClassOutcome
	for _, s := range stream {
		require.NoError(t, l.ObserveClass(&o, s.X, strconv.Itoa(int(s.Y)), 1, nil))
		y.add(&o)
	}
	s := l.Stats()
	assert.True(t, s.CertificateOK, "%+v", s)
	return &y
}

func ptr[T any](v T) *T { return &v }

// of is a spec of at most so many classes.
func of(classes int, spec model.Spec) model.Spec {
	spec.Dimension, spec.Seed = dimension, 3
	spec.Classes = &model.Classes{MaxClasses: &classes}
	return spec
}

func firstOrder(loss string) model.FirstOrder {
	return model.FirstOrder{Frequencies: ptr(4), Loss: loss}
}

// subjects are classifiers of every coding, link and scaling, and of every learner.
func subjects() map[string]model.Spec {
	none := model.Unscaled()
	running := &model.Scaling{Running: &model.RunningScaling{}}
	fourier := func(forgetting float64) *model.RLSC {
		return &model.RLSC{Kernel: &model.Kernel{}, Frequencies: ptr(6), Forgetting: &forgetting}
	}
	return map[string]model.Spec{
		"rlsc":                    of(8, model.Spec{Scaling: none, RLSC: &model.RLSC{}}),
		"rlsc, forgetting":        of(5, model.Spec{Scaling: none, RLSC: &model.RLSC{Forgetting: ptr(0.97), Recoding: ptr(1.0)}}),
		"rlsc, ridges":            of(8, model.Spec{Scaling: none, RLSC: &model.RLSC{Ridges: model.Ridges{Lambdas: []float64{0.1, 10}}}}),
		"rlsc, default":           of(6, model.Spec{RLSC: &model.RLSC{}}),
		"rlsc, long warm-up":      of(6, model.Spec{Scaling: &model.Scaling{Warmup: &model.WarmupScaling{Observations: 70}}, RLSC: &model.RLSC{}}),
		"rlsc, fixed":             of(6, model.Spec{Scaling: &model.Scaling{Fixed: &model.FixedScaling{}}, RLSC: fourier(1)}),
		"rlsc, fourier":           of(8, model.Spec{Scaling: none, RLSC: fourier(0.97)}),
		"rlsc, fourier, running":  of(6, model.Spec{Scaling: running, RLSC: fourier(1)}),
		"linear_awv, sign":        of(2, model.Spec{Scaling: none, LinearAWV: &model.LinearAWV{}}),
		"linear_awv, rest":        of(4, model.Spec{LinearAWV: &model.LinearAWV{}}),
		"fourier_awv, forgetting": of(3, model.Spec{FourierAWV: &model.FourierAWV{Frequencies: ptr(4), Forgetting: ptr(0.98)}}),
		"pkawv_taylor":            of(2, model.Spec{PKAWVTaylor: &model.PKAWVTaylor{Degree: ptr(2)}}),
		"pkawv_nystrom":           of(3, model.Spec{PKAWVNystrom: &model.PKAWVNystrom{MaxDictionary: ptr(12)}}),
		"kernel_awv":              of(3, model.Spec{KernelAWV: &model.KernelAWV{}}),
		"fogd, logistic, sign":    of(2, model.Spec{Scaling: none, FOGD: &model.FOGD{FirstOrder: firstOrder(model.LossLogistic)}}),
		"fogd, logistic, rest":    of(4, model.Spec{FOGD: &model.FOGD{FirstOrder: firstOrder(model.LossLogistic)}}),
		"fogd, squared":           of(3, model.Spec{FOGD: &model.FOGD{FirstOrder: firstOrder(model.LossSquared)}}),
		"raker, hinge":            of(2, model.Spec{Scaling: none, Raker: &model.Raker{FirstOrder: firstOrder(model.LossHinge)}}),
		"ada_raker, logistic":     of(3, model.Spec{AdaRaker: &model.AdaRaker{Raker: model.Raker{FirstOrder: firstOrder(model.LossLogistic)}}}),
		"auto, sign":              of(2, model.Spec{Auto: &model.Auto{Frequencies: ptr(4), MaxMicroseconds: ptr(20.0)}}),
		"auto, rest":              of(3, model.Spec{Auto: &model.Auto{Frequencies: ptr(4), MaxMicroseconds: ptr(5.0)}}),
	}
}

func create(tb testing.TB, spec model.Spec) model.Classifier {
	tb.Helper()
	l, err := catalog.New(spec)
	require.NoError(tb, err)
	c, ok := l.(model.Classifier)
	require.True(tb, ok, "%T of a spec of classes", l)
	return c
}

func TestConformance(t *testing.T) {
	for name, spec := range subjects() {
		t.Run(name, func(t *testing.T) {
			warm := 0
			switch {
			case spec.AdaRaker != nil:
				warm = 1100 // Its next expert then comes at 2047 or later.
			case spec.Auto != nil:
				warm = 300 // The opening of auto keeps its rows until then.
			}
			modeltest.ConformClassifier(t, modeltest.ClassSubject{
				New: func() model.Classifier { return create(t, spec) }, Dimension: dimension,
				MaxClasses: *spec.Classes.MaxClasses, Grows: spec.KernelAWV != nil, Warm: warm,
			})
		})
	}
}

// FuzzRestore: a classifier takes any bytes as its state and works, or rejects them
// and stays as it was. What it takes it encodes again as it was.
func FuzzRestore(f *testing.F) {
	specs := subjects()
	names := slices.Sorted(maps.Keys(specs))
	all := modeltest.ClassSamples(9, dimension, 2, 60)
	for kind, name := range names {
		for _, n := range []int{0, 1, 33, 60} {
			l := create(f, specs[name])
			var out model.ClassOutcome
			for _, s := range all[:n] {
				require.NoError(f, l.ObserveClass(&out, s.X, s.Class, s.Weight, nil))
			}
			state := modeltest.State(f, l.Visit)
			f.Add(byte(kind), state)
		}
	}
	f.Fuzz(func(t *testing.T, kind byte, state []byte) {
		l := create(t, specs[names[int(kind)%len(names)]])
		if codec.Read(state, l.Visit) != nil {
			return
		}
		require.Equal(t, modeltest.State(t, l.Visit), state, "what was restored is encoded otherwise")
		var p model.ClassPrediction
		var out model.ClassOutcome
		for _, s := range all[:10] {
			require.NoError(t, l.PredictClass(&p, s.X))
			accepted := l.CheckClass(s.X, s.Class, s.Weight)
			err := l.ObserveClass(&out, s.X, s.Class, s.Weight, nil)
			require.Equal(t, (accepted == nil), (err == nil), "%v %v", accepted, err)
			require.True(t, err == nil || errors.Is(err, model.ErrClassLimit) || errors.Is(err, model.ErrObservationLimit), err)
			_, _, _ = l.Stats(), l.Size(), l.Report(model.ReportOptions{EffectiveDimension: true})
		}
	})
}
