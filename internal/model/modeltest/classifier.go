package modeltest

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
)

// ClassSubject is a classifier under test.
type ClassSubject struct {
	// New makes the classifier. All of them are the same.
	New func() model.Classifier
	// Dimension is the number of inputs.
	Dimension int
	// MaxClasses is the largest number of classes.
	MaxClasses int
	// Grows says that every observation adds to the state.
	Grows bool
	// Warm is how many rounds come before the steady state.
	Warm int
}

// ClassSample is one observation of a class.
type ClassSample struct {
	X      []float64
	Class  string
	Weight float64
}

// ClassSamples are n observations of at most so many classes. Every twelfth round a class
// appears, with a mean of its own. Every fourth observation has a weight.
func ClassSamples(seed uint64, dimension, classes, n int) []ClassSample {
	rng := rand.New(rand.NewPCG(seed, 23))
	out := make([]ClassSample, n)
	for i, s := range Samples(seed, dimension, n) {
		k := rng.IntN(min(1+i/12, classes))
		s.X[k%dimension] += float64(2 - 4*(k/dimension))
		out[i] = ClassSample{s.X, fmt.Sprint("class ", k), s.Weight}
	}
	return out
}

// ConformClassifier runs the suite that every classifier passes: the suite of learners, with
// classes for labels, and the suite of classes.
func ConformClassifier(t *testing.T, s ClassSubject) {
	t.Helper()
	t.Run("as a learner", func(t *testing.T) {
		Conform(t, Subject{
			New: func() model.Learner { return s.numeric() }, Dimension: s.Dimension,
			Rejects: func(v float64) bool { return v > model.MaxMagnitude }, Grows: s.Grows, Warm: s.Warm,
		})
	})
	t.Run("predicting a class is pure", s.pure)
	t.Run("probabilities", s.probabilities)
	t.Run("restore in the middle of growth", s.growth)
	t.Run("names", s.names)
	t.Run("rejected classes", s.rejected)
	t.Run("advice", s.advice)
	t.Run("any bytes", s.anyBytes)
}

func (s ClassSubject) samples(seed uint64, n int) []ClassSample {
	return ClassSamples(seed, s.Dimension, min(s.MaxClasses, 6), n)
}

// LearnClasses teaches a classifier.
func LearnClasses(t *testing.T, l model.Classifier, samples []ClassSample) {
	t.Helper()
	var o model.ClassOutcome
	for n, s := range samples {
		if err := l.ObserveClass(&o, s.X, s.Class, s.Weight, nil); err != nil {
			t.Fatalf("observation %d: %v", n, err)
		}
	}
}

// PredictClass asks a classifier.
func PredictClass(t *testing.T, l model.Classifier, x []float64) model.ClassPrediction {
	t.Helper()
	var p model.ClassPrediction
	if err := l.PredictClass(&p, x); err != nil {
		t.Fatal(err)
	}
	return p
}

func (s ClassSubject) pure(t *testing.T) {
	l := s.New()
	samples := s.samples(1, 80)
	for n, o := range samples {
		before := State(t, l.Visit)
		first := PredictClass(t, l, o.X)
		var group sync.WaitGroup
		for k := range 3 {
			group.Go(func() {
				other := samples[(n+k)%len(samples)]
				var p model.ClassPrediction
				if err := l.PredictClass(&p, other.X); err != nil {
					t.Error(err)
				}
				if err := l.CheckClass(other.X, "class 0", 1); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if again := PredictClass(t, l, o.X); !reflect.DeepEqual(again, first) {
			t.Fatalf("round %d: predicted %+v, then %+v", n, first, again)
		}
		if !bytes.Equal(before, State(t, l.Visit)) {
			t.Fatalf("round %d: PredictClass changed the state", n)
		}
		LearnClasses(t, l, samples[n:n+1])
	}
}

// probabilities: the sum is 1; the probability of a single class is 1, any other is above 0
// and below 1. The outcome has the prediction before, and the loss of its raw values.
func (s ClassSubject) probabilities(t *testing.T) {
	l := s.New()
	numbers := map[string]int{}
	var reused model.ClassPrediction
	var o model.ClassOutcome
	for n, c := range s.samples(2, 150) {
		dictionary := l.Stats().Dictionary
		if err := l.PredictClass(&reused, c.X); err != nil {
			t.Fatal(err)
		}
		p := PredictClass(t, l, c.X)
		checkProbabilities(t, n, p, l.Classes())
		if !reflect.DeepEqual(p.Probabilities, append([]float64(nil), reused.Probabilities...)) || p.Class != reused.Class {
			t.Fatalf("round %d: %+v, reused %+v", n, p, reused)
		}
		if err := l.ObserveClass(&o, c.X, c.Class, c.Weight, nil); err != nil {
			t.Fatal(err)
		}
		checkProbabilities(t, n, o.Prediction, p.Classes)
		if _, known := numbers[c.Class]; !known {
			numbers[c.Class] = len(numbers)
		}
		if o.Class != numbers[c.Class] || l.Classes()[o.Class] != c.Class || len(l.Classes()) != len(numbers) {
			t.Fatalf("round %d: class %d of %v is %q", n, o.Class, l.Classes(), c.Class)
		}
		// A round in which the dictionary grows predicts from the larger dictionary.
		if l.Stats().Dictionary != dictionary {
			continue
		}
		values := o.Prediction.Values
		if loss := c.Weight * l.LossOfClass(values, o.Class); math.Abs(loss-o.Loss) > 1e-9*(1+o.Loss) {
			t.Fatalf("round %d: a loss of %g, that of %v under %d is %g", n, o.Loss, values, o.Class, loss)
		}
		if len(values) != len(p.Values) {
			t.Fatalf("round %d: raw values %v, predicted %v", n, values, p.Values)
		}
		for j, v := range values {
			if c.Weight == 1 && math.Abs(v-p.Values[j]) > 1e-9*(1+math.Abs(v)) {
				t.Fatalf("round %d: raw values %v, predicted %v", n, values, p.Values)
			}
		}
	}
}

func checkProbabilities(t *testing.T, round int, p model.ClassPrediction, classes []string) {
	t.Helper()
	k, sum := len(classes), 0.0
	for _, v := range p.Probabilities {
		sum += v
		if !(v > 0) || (k == 1) != (v == 1) {
			t.Fatalf("round %d: a probability of %g of %d classes", round, v, k)
		}
	}
	if k > 0 && math.Abs(sum-1) > 1e-12 {
		t.Fatalf("round %d: probabilities sum to %.17g", round, sum)
	}
	if len(p.Probabilities) != k || !reflect.DeepEqual(append([]string{}, p.Classes...), append([]string{}, classes...)) {
		t.Fatalf("round %d: %+v of classes %v", round, p, classes)
	}
	if (p.Class == model.NoClass) != (k == 0) || p.Class < model.NoClass || p.Class >= k || p.Probability != 0 {
		t.Fatalf("round %d: %+v", round, p)
	}
	for _, v := range append(append(p.Values[:len(p.Values):len(p.Values)], p.StandardErrors...), p.Leverage) {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			t.Fatalf("round %d: %+v", round, p)
		}
	}
}

func (s ClassSubject) growth(t *testing.T) {
	all := s.samples(3, 100)
	whole := s.New()
	LearnClasses(t, whole, all)
	end := State(t, whole.Visit)
	for at := 0; at < len(all); at += 1 + at/14 {
		first, second := s.New(), s.New()
		LearnClasses(t, first, all[:at])
		if err := codec.Read(State(t, first.Visit), second.Visit); err != nil {
			t.Fatalf("after %d: %v", at, err)
		}
		if p, q := PredictClass(t, first, all[at].X), PredictClass(t, second, all[at].X); !reflect.DeepEqual(p, q) {
			t.Fatalf("after %d: %+v, want %+v", at, q, p)
		}
		if err := CheckStats(second); err != nil {
			t.Fatalf("after %d: %v", at, err)
		}
		LearnClasses(t, second, all[at:])
		if !bytes.Equal(State(t, second.Visit), end) {
			t.Fatalf("restored after %d, it ends elsewhere", at)
		}
	}
}

// names: with other names the state differs in the names alone, and predictions by number
// are equal. A prediction does not change when classes appear.
func (s ClassSubject) names(t *testing.T) {
	l, renamed := s.New(), s.New()
	var seen []string
	var held []model.ClassPrediction
	for _, c := range s.samples(5, 120) {
		other := c
		other.Class = strings.Replace(c.Class, "class", "ΣΛx", 1) // As long.
		p, q := PredictClass(t, l, c.X), PredictClass(t, renamed, c.X)
		if p.Class != q.Class || fmt.Sprint(p.Probabilities, p.Values) != fmt.Sprint(q.Probabilities, q.Values) {
			t.Fatalf("%+v, renamed %+v", p, q)
		}
		seen, held = append(seen, fmt.Sprint(p)), append(held, p)
		LearnClasses(t, l, []ClassSample{c})
		LearnClasses(t, renamed, []ClassSample{other})
	}
	for n, p := range held {
		if fmt.Sprint(p) != seen[n] {
			t.Fatalf("%s became %+v", seen[n], p)
		}
	}
	want := bytes.ReplaceAll(State(t, l.Visit), []byte("class"), []byte("ΣΛx"))
	if !bytes.Equal(State(t, renamed.Visit), want) {
		t.Error("renaming changes more than names")
	}
}

// rejected: an invalid class, a class too many and a real label are rejected and leave the
// state as it is. A known class is accepted.
func (s ClassSubject) rejected(t *testing.T) {
	l := s.New()
	x := make([]float64, s.Dimension)
	name := func(k int) string { return fmt.Sprint("class ", k) }
	for k := range s.MaxClasses {
		LearnClasses(t, l, []ClassSample{{x, name(k), 1}})
	}
	before := State(t, l.Visit)
	for class, want := range map[string]error{
		"": model.ErrInvalidClass, strings.Repeat("x", model.MaxClassBytes+1): model.ErrInvalidClass,
		"\xff": model.ErrInvalidClass, name(s.MaxClasses): model.ErrClassLimit,
	} {
		var field *model.FieldError
		err := l.ObserveClass(&model.ClassOutcome{}, x, class, 1, nil)
		if !errors.Is(err, want) || !errors.As(err, &field) || field.Field != "class" {
			t.Errorf("%q: %v, want %v", class, err, want)
		}
		if check := l.CheckClass(x, class, 1); !errors.Is(check, want) {
			t.Errorf("%q: CheckClass says %v", class, check)
		}
	}
	for _, err := range []error{l.Check(x, []float64{1}, 1), l.Observe(&model.Outcome{}, x, []float64{1}, 1)} {
		if !errors.Is(err, model.ErrLabelKind) {
			t.Errorf("a real label: %v", err)
		}
	}
	for k := range s.MaxClasses {
		if err := l.CheckClass(x, name(k), 1); err != nil {
			t.Errorf("a class that is known: %v", err)
		}
	}
	if !bytes.Equal(before, State(t, l.Visit)) {
		t.Error("a rejection changed the state")
	}
}

// advice: present advice, and numbers that are no advice, change nothing.
func (s ClassSubject) advice(t *testing.T) {
	plain, advised, nonsense := s.New(), s.New(), s.New()
	var o model.ClassOutcome
	for n, c := range s.samples(6, 120) {
		LearnClasses(t, plain, []ClassSample{c})
		p := PredictClass(t, advised, c.X)
		if err := advised.ObserveClass(&o, c.X, c.Class, c.Weight, p.Advice); err != nil {
			t.Fatal(err)
		}
		if err := nonsense.ObserveClass(&o, c.X, c.Class, c.Weight, []float64{1, math.NaN(), -1e300}[:n%4%3]); err != nil {
			t.Fatal(err)
		}
	}
	if want := State(t, plain.Visit); !bytes.Equal(State(t, advised.Visit), want) || !bytes.Equal(State(t, nonsense.Visit), want) {
		t.Error("advice of now, or of no state, ends elsewhere")
	}
}

// anyBytes: a classifier rejects a state with a changed byte, or restores the state and works.
func (s ClassSubject) anyBytes(t *testing.T) {
	l := s.New()
	LearnClasses(t, l, s.samples(7, 70))
	good := State(t, l.Visit)
	rng := rand.New(rand.NewPCG(8, 29))
	next := s.samples(9, 3)
	taken, states := 0, 300
	if RaceDetector {
		states = 60
	}
	for n := range states {
		bad := bytes.Clone(good)
		at := rng.IntN(min(len(bad), 50<<(n%8)))
		bad[at] = byte(rng.Uint32())
		other := s.New()
		if err := codec.Read(bad, other.Visit); err != nil {
			continue
		}
		if taken++; !bytes.Equal(bad, State(t, other.Visit)) {
			t.Fatalf("byte %d: what was restored is encoded otherwise", at)
		}
		var o model.ClassOutcome
		for _, c := range next {
			p := PredictClass(t, other, c.X)
			checkProbabilities(t, n, p, other.Classes())
			if other.CheckClass(c.X, c.Class, c.Weight) != nil {
				continue
			}
			if err := other.ObserveClass(&o, c.X, c.Class, c.Weight, nil); err != nil {
				t.Fatalf("byte %d: observe what CheckClass accepts: %v", at, err)
			}
		}
		_, _, _ = other.Stats(), other.Size(), other.Report(model.ReportOptions{})
	}
	if taken == 0 || taken == states {
		t.Errorf("%d of %d states taken", taken, states)
	}
}

// numeric is a classifier as a learner of real labels for the suite of learners. The class
// follows from the size of the label. The prediction is the probability of the first class.
type numeric struct {
	model.Classifier
	o     model.ClassOutcome
	names []string
	pool  sync.Pool
}

func (s ClassSubject) numeric() *numeric {
	names := []string{"a", "b", "c", "d", "e"}
	n := &numeric{Classifier: s.New(), names: names[:min(len(names), s.MaxClasses)]}
	n.pool.New = func() any { return new(model.ClassPrediction) }
	return n
}

func (n *numeric) class(y float64) string {
	most := len(n.names) - 1
	return n.names[int(math.Min(math.Max(math.Floor(y)+float64((most+1)/2), 0), float64(most)))]
}

func first(p *model.ClassPrediction) float64 {
	if len(p.Probabilities) == 0 {
		return 0
	}
	return p.Probabilities[0]
}

func (n *numeric) Predict(p *model.Prediction, x []float64) error {
	c := n.pool.Get().(*model.ClassPrediction) //nolint:forcetypeassert // The pool holds nothing else.
	defer n.pool.Put(c)
	if err := n.PredictClass(c, x); err != nil {
		return err
	}
	p.Resize(1)
	p.Values[0], p.StandardErrors, p.Leverage = first(c), p.StandardErrors[:0], c.Leverage
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
