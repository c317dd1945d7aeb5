package rlsc_test

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"hindsight/internal/model"
	"hindsight/internal/model/awv"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/kernel"
	"hindsight/internal/model/modeltest"
	"hindsight/internal/model/rlsc"
)

const dimension = 3

func affine(o rlsc.Options) *rlsc.Learner { return rlsc.New(feature.NewAffine(dimension), o) }

func options() rlsc.Options {
	return rlsc.Options{Lambda: 0.3, Recoding: 0.5, MaxClasses: 8, Forgetting: 1}
}

// sample is one observation of a class.
type sample struct {
	x      []float64
	class  string
	weight float64
}

// samples are n observations of classes that appear one after the other, the next
// after every twelfth round, each with a mean of its own. Some have a weight.
func samples(seed uint64, n int) []sample {
	rng := rand.New(rand.NewPCG(seed, 23))
	out := make([]sample, n)
	for i, s := range modeltest.Samples(seed, dimension, n) {
		k := rng.IntN(min(1+i/12, 6))
		s.X[k%dimension] += float64(2 - 4*(k/dimension))
		out[i] = sample{s.X, "class " + strconv.Itoa(k), s.Weight}
	}
	return out
}

func learn(t *testing.T, l *rlsc.Learner, samples []sample) {
	t.Helper()
	var o model.ClassOutcome
	for n, s := range samples {
		if err := l.ObserveClass(&o, s.x, s.class, s.weight, nil); err != nil {
			t.Fatalf("observation %d: %v", n, err)
		}
	}
}

func encoded(t *testing.T, l model.Learner) []byte {
	t.Helper()
	state, err := l.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func predict(t *testing.T, l *rlsc.Learner, x []float64) model.ClassPrediction {
	t.Helper()
	var p model.ClassPrediction
	if err := l.PredictClass(&p, x); err != nil {
		t.Fatal(err)
	}
	return p
}

// numeric lets the conformance suite, which speaks of real labels, teach classes.
// A label's class is one of five by its size. The prediction is the probability of
// the first class.
type numeric struct {
	*rlsc.Learner
	o     model.ClassOutcome
	class func(y float64) string
}

func newNumeric(l *rlsc.Learner) *numeric {
	names := []string{"a", "b", "c", "d", "e"}
	return &numeric{Learner: l, class: func(y float64) string {
		return names[int(math.Min(math.Max(math.Floor(y), -2), 2))+2]
	}}
}

func first(p *model.ClassPrediction) float64 {
	if len(p.Probabilities) == 0 {
		return 0
	}
	return p.Probabilities[0]
}

func (n *numeric) Predict(p *model.Prediction, x []float64) error {
	var c model.ClassPrediction
	c.Probabilities = p.Advice // Kept for its room.
	if err := n.PredictClass(&c, x); err != nil {
		return err
	}
	p.Resize(1)
	p.Values[0], p.StandardErrors, p.Leverage, p.Advice = first(&c), p.StandardErrors[:0], c.Leverage, c.Probabilities
	return nil
}

func (n *numeric) Check(x, y []float64, weight float64) error {
	if err := model.CheckLabels(y, 1); err != nil {
		return err
	}
	return n.CheckClass(x, n.class(y[0]), weight)
}

func (n *numeric) Observe(o *model.Outcome, x, y []float64, weight float64) error {
	if err := n.Check(x, y, weight); err != nil {
		return err
	}
	if err := n.ObserveClass(&n.o, x, n.class(y[0]), weight, nil); err != nil {
		return err
	}
	o.Resize(1)
	o.Predictions[0], o.Loss, o.Regret = first(&n.o.Prediction), n.o.Loss, n.o.Regret
	return nil
}

func TestConformance(t *testing.T) {
	fourier := func() awv.Map {
		return feature.NewFourier(kernel.Kernel{Kind: kernel.Gaussian, Sigma: 1}, dimension, 20, true, rand.New(rand.NewPCG(1, 1)))
	}
	for name, o := range map[string]rlsc.Options{
		"plain": options(), "forgetting": {Lambda: 0.1, Recoding: 1, MaxClasses: 5, Forgetting: 0.97},
	} {
		for what, features := range map[string]func() awv.Map{
			"affine": func() awv.Map { return feature.NewAffine(dimension) }, "fourier": fourier,
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				modeltest.Conform(t, modeltest.Subject{
					New:       func() model.Learner { return newNumeric(rlsc.New(features(), o)) },
					Dimension: dimension, Refuses: func(v float64) bool { return v > model.MaxMagnitude },
				})
			})
		}
	}
}

// Restored in the middle of growth, before and after every new class, a learner
// continues bit for bit.
func TestRestoreInTheMiddleOfGrowth(t *testing.T) {
	for _, forgetting := range []float64{1, 0.98} {
		o := options()
		o.Forgetting = forgetting
		all := samples(3, 100)
		whole := affine(o)
		learn(t, whole, all)
		for at := range all {
			first := affine(o)
			learn(t, first, all[:at])
			second := affine(o)
			learn(t, second, samples(4, 30)) // It forgets what it was.
			if err := second.Restore(encoded(t, first)); err != nil {
				t.Fatalf("after %d: %v", at, err)
			}
			if p, q := predict(t, first, all[at].x), predict(t, second, all[at].x); !reflect.DeepEqual(p, q) {
				t.Fatalf("after %d: %+v, want %+v", at, q, p)
			}
			if err := modeltest.CheckStats(second); err != nil {
				t.Fatalf("after %d: %v", at, err)
			}
			learn(t, second, all[at:])
			if !bytes.Equal(encoded(t, second), encoded(t, whole)) {
				t.Fatalf("restored after %d, it ends elsewhere", at)
			}
		}
	}
}

// An outcome that is reused and one that is not hold the same, and what a
// prediction holds stays as it is when classes appear.
func TestPredictionsStayAsTheyAre(t *testing.T) {
	l, all := affine(options()), samples(5, 90)
	learn(t, l, all[:30])
	p := predict(t, l, all[0].x)
	names := append([]string(nil), p.Classes...)
	classes := l.Classes()
	learn(t, l, all[30:])
	if !reflect.DeepEqual(p.Classes, names) || !reflect.DeepEqual(classes, names) || len(l.Classes()) <= len(names) {
		t.Errorf("%v and %v, want %v of %v", p.Classes, classes, names, l.Classes())
	}
}

// No class is known at first, then one.
func TestTheFirstClasses(t *testing.T) {
	l := affine(options())
	x := []float64{1, 2, 3}
	p := predict(t, l, x)
	if p.Class != model.NoClass || p.Name() != "" || len(p.Classes) != 0 || len(p.Probabilities) != 0 || p.Leverage <= 0 {
		t.Errorf("%+v, want no class", p)
	}
	var raw model.Prediction
	if err := l.Predict(&raw, x); err != nil || len(raw.Values) != 0 || len(raw.StandardErrors) != 0 {
		t.Errorf("%+v, %v, want no score", raw, err)
	}
	var o model.ClassOutcome
	if err := l.ObserveClass(&o, x, "α", 2, nil); err != nil {
		t.Fatal(err)
	}
	if o.Class != 0 || o.Prediction.Class != model.NoClass || math.Abs(o.Loss-2) > 1e-15 || len(o.Prediction.Classes) != 0 {
		t.Errorf("%+v, want class 0, which was not known, at a loss of 2", o)
	}
	if p = predict(t, l, x); p.Class != 0 || p.Name() != "α" || p.Probabilities[0] != 1 {
		t.Errorf("%+v, want α for certain", p)
	}
	if err := l.ObserveClass(&o, x, "β", 1, nil); err != nil {
		t.Fatal(err)
	}
	if o.Class != 1 || o.Prediction.Name() != "α" || len(o.Prediction.Classes) != 1 {
		t.Errorf("%+v, want class 1 where α was predicted", o)
	}
}

// A class too many is refused, and one that is known is not; so is what is no class,
// and a real label. What is refused changes nothing.
func TestRefusals(t *testing.T) {
	o := options()
	o.MaxClasses = 2
	l := affine(o)
	x := make([]float64, dimension)
	learn(t, l, []sample{{x, "a", 1}, {x, "b", 1}, {x, "a", 1}})
	before := encoded(t, l)
	for name, c := range map[string]struct {
		sample
		want  error
		field string
	}{
		"too many": {sample{x, "c", 1}, model.ErrClassLimit, "class"},
		"empty":    {sample{x, "", 1}, model.ErrInvalidClass, "class"},
		"long":     {sample{x, strings.Repeat("x", model.MaxClassBytes+1), 1}, model.ErrInvalidClass, "class"},
		"bytes":    {sample{x, "\xff", 1}, model.ErrInvalidClass, "class"},
		"short":    {sample{x[:2], "a", 1}, model.ErrDimensionMismatch, "features"},
		"NaN":      {sample{[]float64{0, math.NaN(), 0}, "a", 1}, model.ErrNotFinite, "features[1]"},
		"weight":   {sample{x, "a", 0}, model.ErrWeightOutOfRange, "weight"},
	} {
		var field *model.FieldError
		err := l.ObserveClass(&model.ClassOutcome{}, c.x, c.class, c.weight, nil)
		if !errors.Is(err, c.want) || !errors.As(err, &field) || field.Field != c.field {
			t.Errorf("%s: %v, want %v of %s", name, err, c.want, c.field)
		}
		if check := l.CheckClass(c.x, c.class, c.weight); !errors.Is(check, c.want) {
			t.Errorf("%s: Check says %v", name, check)
		}
	}
	for _, err := range []error{l.Check(x, []float64{1}, 1), l.Observe(&model.Outcome{}, x, []float64{1}, 1)} {
		if !errors.Is(err, model.ErrLabelKind) {
			t.Errorf("a real label: %v", err)
		}
	}
	if err := l.CheckClass(x, "b", 1); err != nil {
		t.Errorf("a class that is known: %v", err)
	}
	if !bytes.Equal(before, encoded(t, l)) {
		t.Error("a refusal changed the state")
	}
}

// Restore refuses what no observations lead to.
func TestRestoreRefuses(t *testing.T) {
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
		l     *rlsc.Learner
		state []byte
	}{
		"two of one name": {l, twice}, "no name": {l, invalid}, "too many classes": {few, good},
		"rounds without a class": {l, mixed}, "nothing": {l, nil},
	} {
		before := encoded(t, c.l)
		if err := c.l.Restore(c.state); err == nil {
			t.Errorf("%s was restored", name)
		}
		if !bytes.Equal(before, encoded(t, c.l)) {
			t.Errorf("%s changed the state", name)
		}
	}
	if err := l.Restore(fresh); err != nil {
		t.Error(err)
	}
}

// FuzzRestore: a learner takes any bytes as its state and works, or refuses them
// and stays as it was. What it takes it encodes again as it was.
func FuzzRestore(f *testing.F) {
	all := samples(9, 60)
	for _, n := range []int{0, 1, 5, 30, 60} {
		for _, forgetting := range []float64{1, 0.9} {
			o := options()
			o.Forgetting = forgetting
			l := affine(o)
			var out model.ClassOutcome
			for _, s := range all[:n] {
				if err := l.ObserveClass(&out, s.x, s.class, s.weight, nil); err != nil {
					f.Fatal(err)
				}
			}
			state, err := l.AppendBinary(nil)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(forgetting < 1, state)
		}
	}
	f.Fuzz(func(t *testing.T, forgets bool, state []byte) {
		o := options()
		if forgets {
			o.Forgetting = 0.9
		}
		l := affine(o)
		empty := encoded(t, l)
		if err := l.Restore(state); err != nil {
			if !bytes.Equal(empty, encoded(t, l)) {
				t.Fatal("a refused state changed the learner")
			}
			return
		}
		if !bytes.Equal(state, encoded(t, l)) {
			t.Fatal("what was restored is encoded otherwise")
		}
		var p model.ClassPrediction
		var out model.ClassOutcome
		for _, s := range all[:10] {
			if err := l.PredictClass(&p, s.x); err != nil {
				t.Fatal(err)
			}
			if err := l.ObserveClass(&out, s.x, s.class, s.weight, nil); err != nil && !errors.Is(err, model.ErrClassLimit) {
				t.Fatal(err)
			}
			_, _, _ = l.Stats(), l.Size(), l.Report(model.ReportOptions{EffectiveDimension: true})
		}
	})
}
