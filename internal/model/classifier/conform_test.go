package classifier_test

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/modeltest"
)

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
			state, err := l.AppendBinary(nil)
			require.NoError(f, err)
			f.Add(byte(kind), state)
		}
	}
	f.Fuzz(func(t *testing.T, kind byte, state []byte) {
		l := create(t, specs[names[int(kind)%len(names)]])
		empty := encoded(t, l)
		if err := l.Restore(state); err != nil {
			require.Equal(t, encoded(t, l), empty, "a rejected state changed the classifier")
			return
		}
		require.Equal(t, encoded(t, l), state, "what was restored is encoded otherwise")
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
