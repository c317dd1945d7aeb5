package modeltest

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
)

// Subject is a learner under test.
type Subject struct {
	// New makes the learner. All of them are the same.
	New func() model.Learner
	// Dimension is the number of inputs.
	Dimension int
	// Rejects reports whether the learner rejects inputs of a magnitude.
	Rejects func(magnitude float64) bool
	// Grows says that every observation adds to the state.
	Grows bool
	// Outputs is the number of labels; 0 is 1.
	Outputs int
	// Label turns any number into a label of the learner. nil is the identity.
	Label func(y float64) float64
	// Warm is how many rounds come before the steady state, Full how many before the state
	// stops to grow, if these are more.
	Warm, Full int
}

// labels are the labels of an observation, one per output.
func (s Subject) labels(o Sample) []float64 {
	y := make([]float64, max(s.Outputs, 1))
	for j := range y {
		y[j] = float64(o.Y * math.Cos(float64(j)))
		if s.Label != nil {
			y[j] = s.Label(y[j])
		}
	}
	return y
}

// Sample is one observation.
type Sample struct {
	X         []float64
	Y, Weight float64
}

// Conform runs the suite that every learner passes.
func Conform(t *testing.T, s Subject) {
	t.Helper()
	t.Run("predict is pure", s.predictIsPure)
	t.Run("deterministic", s.deterministic)
	t.Run("stats", s.stats)
	t.Run("restore", s.restore)
	t.Run("rejections", s.rejections)
	t.Run("streams", s.streams)
	t.Run("together", s.together)
	if s.Grows {
		return
	}
	t.Run("memory", s.memory)
	if !RaceDetector {
		t.Run("allocations", s.allocations)
	}
}

// Samples are n observations of a seed: normal inputs and labels, every fourth with a weight.
func Samples(seed uint64, dimension, n int) []Sample {
	rng := rand.New(rand.NewPCG(seed, 17))
	out := make([]Sample, n)
	for i := range out {
		x := make([]float64, dimension)
		for j := range x {
			x[j] = rng.NormFloat64()
		}
		out[i] = Sample{X: x, Y: rng.NormFloat64(), Weight: 1}
		if i%4 == 3 {
			out[i].Weight = 0.1 + float64(3*rng.Float64()) // Never fused: the same on every target.
		}
	}
	return out
}

func (s Subject) learn(t *testing.T, l model.Learner, samples []Sample) {
	t.Helper()
	var out model.Outcome
	for n, o := range samples {
		if err := l.Observe(&out, o.X, s.labels(o), o.Weight); err != nil {
			t.Fatalf("observation %d: %v", n, err)
		}
	}
}

func predict(t *testing.T, l model.Learner, x []float64) model.Prediction {
	t.Helper()
	var p model.Prediction
	if err := l.Predict(&p, x); err != nil {
		t.Fatal(err)
	}
	return p
}

// State is the state that visit appends. An error ends the test.
func State(tb testing.TB, visit func(v *codec.Visitor)) []byte {
	tb.Helper()
	state, err := codec.Append(nil, visit)
	if err != nil {
		tb.Fatal(err)
	}
	return state
}

func (s Subject) predictIsPure(t *testing.T) {
	l := s.New()
	samples := Samples(1, s.Dimension, 30)
	for n, o := range samples {
		before := State(t, l.Visit)
		first := predict(t, l, o.X)
		var group sync.WaitGroup
		for k := range 4 {
			group.Go(func() {
				var p model.Prediction
				if err := l.Predict(&p, samples[(n+k)%len(samples)].X); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if again := predict(t, l, o.X); !reflect.DeepEqual(again, first) {
			t.Fatalf("round %d: predicted %+v, then %+v", n, first, again)
		}
		if !bytes.Equal(before, State(t, l.Visit)) {
			t.Fatalf("round %d: Predict changed the state", n)
		}
		s.learn(t, l, samples[n:n+1])
	}
}

func (s Subject) deterministic(t *testing.T) {
	a, b := s.New(), s.New()
	samples := Samples(2, s.Dimension, 80)
	s.learn(t, a, samples)
	for _, o := range samples {
		predict(t, b, o.X)
		s.learn(t, b, []Sample{o})
	}
	if !bytes.Equal(State(t, a.Visit), State(t, b.Visit)) {
		t.Error("the same observations gave two states")
	}
}

func (s Subject) restore(t *testing.T) {
	samples := Samples(3, s.Dimension, 80)
	whole := s.New()
	s.learn(t, whole, samples)
	for _, at := range []int{0, 1, 37, 80} {
		first := s.New()
		s.learn(t, first, samples[:at])
		second := s.New()
		if err := codec.Read(State(t, first.Visit), second.Visit); err != nil {
			t.Fatal(err)
		}
		for _, o := range samples[:5] {
			p, q := predict(t, first, o.X), predict(t, second, o.X)
			if !reflect.DeepEqual(p, q) {
				t.Fatalf("restored at %d predicts %+v, want %+v", at, q, p)
			}
		}
		if known(first.Stats()) != known(second.Stats()) {
			t.Errorf("restored at %d: %+v, want %+v", at, second.Stats(), first.Stats())
		}
		if err := CheckStats(second); err != nil {
			t.Errorf("restored at %d: %v", at, err)
		}
		s.learn(t, second, samples[at:])
		if !bytes.Equal(State(t, second.Visit), State(t, whole.Visit)) {
			t.Errorf("restored at %d, it ends elsewhere", at)
		}
	}
	good := State(t, whole.Visit)
	for name, bad := range map[string][]byte{
		"nothing": nil, "cut": good[:len(good)-1], "too long": append(append([]byte(nil), good...), 0),
		"zeros": make([]byte, len(good)), "ones": bytes.Repeat([]byte{0xff}, len(good)),
	} {
		if err := codec.Read(bad, s.New().Visit); err == nil {
			t.Errorf("%s was restored", name)
		}
	}
}

func (s Subject) rejections(t *testing.T) {
	l := s.New()
	s.learn(t, l, Samples(4, s.Dimension, 10))
	before := State(t, l.Visit)
	x := make([]float64, s.Dimension)
	with := func(at int, v float64) []float64 {
		y := append([]float64(nil), x...)
		y[at] = v
		return y
	}
	type rejection struct {
		o    Sample
		want error
	}
	cases := map[string]rejection{
		"short":    {Sample{x[:s.Dimension-1], 1, 1}, model.ErrDimensionMismatch},
		"long":     {Sample{append(with(0, 0), 1), 1, 1}, model.ErrDimensionMismatch},
		"label -∞": {Sample{x, math.Inf(-1), 1}, model.ErrNotFinite},
		"label NaN": {
			Sample{x, math.NaN(), 1}, model.ErrNotFinite,
		},
		"label": {Sample{x, 1.1e100, 1}, model.ErrLabelOutOfRange},
	}
	for n := range x {
		for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			cases[fmt.Sprint("feature ", n, v)] = rejection{Sample{with(n, v), 1, 1}, model.ErrNotFinite}
		}
	}
	for _, w := range []float64{0, -1, 1e-10, 1e10, math.NaN(), math.Inf(1)} {
		cases[fmt.Sprint("weight ", w)] = rejection{Sample{x, 1, w}, model.ErrWeightOutOfRange}
	}
	for name, c := range cases {
		labels := make([]float64, max(s.Outputs, 1))
		for j := range labels {
			labels[j] = c.o.Y
		}
		var out model.Outcome
		err := l.Observe(&out, c.o.X, labels, c.o.Weight)
		var field *model.FieldError
		if !errors.Is(err, c.want) || !errors.As(err, &field) || field.Field == "" || field.Got == "" || field.Want == "" {
			t.Errorf("%s: %v, want a field error of %v", name, err, c.want)
		}
		if check := l.Check(c.o.X, labels, c.o.Weight); !errors.Is(check, c.want) {
			t.Errorf("%s: Check says %v", name, check)
		}
		if errors.Is(c.want, model.ErrNotFinite) && model.CheckLabel(c.o.Y) == nil {
			if err := l.Predict(&model.Prediction{}, c.o.X); !errors.Is(err, c.want) {
				t.Errorf("%s: Predict says %v", name, err)
			}
		}
		if !bytes.Equal(before, State(t, l.Visit)) {
			t.Fatalf("%s changed the state", name)
		}
	}
}

// streams: on every kind of input the certificate holds, or the learner rejects the input; no
// answer is NaN or infinite.
func (s Subject) streams(t *testing.T) {
	for name, next := range s.kinds() {
		t.Run(name, func(t *testing.T) {
			l := s.New()
			rng := rand.New(rand.NewPCG(5, 19))
			for n := range 60 {
				o := next(rng, n)
				if err := l.Check(o.X, s.labels(o), o.Weight); err != nil {
					if s.Rejects == nil || !s.Rejects(math.Abs(o.X[0])) {
						t.Fatalf("rejected %v: %v", o, err)
					}
					return
				}
				s.round(t, l, n, o)
			}
		})
	}
}

// round teaches one observation and checks every answer.
func (s Subject) round(t *testing.T, l model.Learner, n int, o Sample) {
	t.Helper()
	centres := l.Stats().Dictionary
	p := predict(t, l, o.X)
	var out model.Outcome
	if err := l.Observe(&out, o.X, s.labels(o), o.Weight); err != nil {
		t.Fatal(err)
	}
	finite(t, n, out.Loss)
	finite(t, n, p.Values...)
	finite(t, n, p.StandardErrors...)
	finite(t, n, out.Predictions...)
	if !math.IsNaN(out.Regret) { // Unknown until a report.
		finite(t, n, out.Regret)
	}
	finite(t, n, p.Leverage)
	if (p.Leverage < 0 || p.Leverage > 1) && p.Leverage != model.NoLeverage {
		t.Fatalf("round %d: leverage %g", n, p.Leverage)
	}
	if outputs := max(s.Outputs, 1); len(p.Values) != outputs || len(out.Predictions) != outputs ||
		(len(p.StandardErrors) != outputs && len(p.StandardErrors) != 0) {
		t.Fatalf("round %d: %+v and %+v of %d outputs", n, p, out, outputs)
	}
	for j, v := range p.Values {
		// Predict and Observe differ by rounding, whatever label and weight, unless Observe
		// predicts from a larger dictionary. Only kernel_awv solves again for a weight, with
		// a longer row.
		rounding := 1e-9 * math.Abs(v)
		if o.Weight != 1 {
			rounding = 1e-8 * (1 + math.Abs(v))
		}
		if l.Stats().Dictionary == centres && math.Abs(v-out.Predictions[j]) > rounding {
			t.Fatalf("round %d: Predict says %.17g, Observe %.17g", n, v, out.Predictions[j])
		}
	}
	checkTheorem(t, n, l.Stats())
	if r := l.Report(model.ReportOptions{}); !r.CertificateOK {
		t.Fatalf("round %d: the certificate fails: %+v, %+v", n, l.Stats(), r)
	}
}

func finite(t *testing.T, round int, values ...float64) {
	t.Helper()
	for n, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			t.Fatalf("round %d: value %d is %g", round, n, v)
		}
	}
}

// known replaces figures that a learner does not track by 0, so that statistics compare.
func known(s model.Stats) model.Stats {
	for _, v := range []*float64{&s.HindsightLoss, &s.Regret} {
		if math.IsNaN(*v) {
			*v = 0
		}
	}
	return s
}

// checkTheorem: regret ≤ C ≤ B² log det(A/λ), PKAWV (HAL 2019) Prop. 2.1.
func checkTheorem(t *testing.T, round int, s model.Stats) {
	t.Helper()
	s = known(s)
	finite(t, round, s.Loss, s.HindsightLoss, s.Regret, s.RegretBound, s.Certificate, s.LogDeterminant, s.LabelBound)
	if !s.CertificateOK {
		t.Fatalf("round %d: the certificate fails: %+v", round, s)
	}
	if s.Certified && (s.Regret > s.Certificate*(1+1e-12) || s.Certificate > s.RegretBound*(1+1e-9)+1e-300) {
		t.Fatalf("round %d: regret %g, certificate %g, bound %g", round, s.Regret, s.Certificate, s.RegretBound)
	}
}

// kinds are the streams of the conformance suite.
func (s Subject) kinds() map[string]func(rng *rand.Rand, n int) Sample {
	fill := func(f func(j int) float64) []float64 {
		x := make([]float64, s.Dimension)
		for j := range x {
			x[j] = f(j)
		}
		return x
	}
	normal := func(rng *rand.Rand, scale float64) []float64 {
		return fill(func(int) float64 { return scale * rng.NormFloat64() })
	}
	kinds := map[string]func(rng *rand.Rand, n int) Sample{
		"random": func(rng *rand.Rand, _ int) Sample { return Sample{normal(rng, 1), rng.NormFloat64(), 1} },
		"constant": func(*rand.Rand, int) Sample {
			return Sample{fill(func(int) float64 { return 0.5 }), 1, 1}
		},
		"zero": func(*rand.Rand, int) Sample { return Sample{make([]float64, s.Dimension), 0, 1} },
		"collinear": func(rng *rand.Rand, _ int) Sample {
			v := rng.NormFloat64()
			return Sample{fill(func(j int) float64 { return v * float64(j+1) }), v, 1}
		},
		"alternating": func(_ *rand.Rand, n int) Sample {
			return Sample{fill(func(int) float64 { return 0.5 }), float64(1 - 2*(n%2)), 1}
		},
		"weighted": func(rng *rand.Rand, n int) Sample {
			return Sample{normal(rng, 1), rng.NormFloat64(), math.Pow(10, float64(n%13)-6)}
		},
		"sparse": func(rng *rand.Rand, n int) Sample {
			return Sample{fill(func(j int) float64 {
				if j == n%s.Dimension {
					return rng.NormFloat64()
				}
				return 0
			}), 1, 1}
		},
		"huge label": func(rng *rand.Rand, n int) Sample {
			return Sample{normal(rng, 1), math.Pow(10, float64(n%100)), 1}
		},
	}
	for _, scale := range []float64{1e-300, 1e-150, 1e-20, 1e20, 1e99, 1e150, 1e300} {
		kinds[fmt.Sprint("scale ", scale)] = func(rng *rand.Rand, _ int) Sample {
			return Sample{normal(rng, scale), math.Min(scale, 1e99) * rng.NormFloat64(), 1}
		}
	}
	return kinds
}

func (s Subject) memory(t *testing.T) {
	l := s.New()
	s.learn(t, l, Samples(6, s.Dimension, max(200, s.Warm, s.Full))) // Fills every dictionary.
	stats, size := l.Stats(), len(State(t, l.Visit))
	s.learn(t, l, Samples(7, s.Dimension, 500))
	// A fit of trees under way takes less than a byte a row.
	if after := len(State(t, l.Visit)); after >= size+500 || l.Stats().StateBytes != stats.StateBytes {
		t.Errorf("the state grew from %d to %d bytes", size, after)
	}
	if low, high := float64(size)*0.9, float64(size)*4+64*float64(stats.Features)+1024; float64(stats.StateBytes) < low-256 || float64(stats.StateBytes) > high {
		t.Errorf("%d bytes reported, %d encoded", stats.StateBytes, size)
	}
}

func (s Subject) allocations(t *testing.T) {
	l := s.New()
	samples := Samples(8, s.Dimension, max(200, s.Warm))
	s.learn(t, l, samples)
	labels := s.labels(Sample{Y: 1})
	var p model.Prediction
	var o model.Outcome
	n := 0
	for name, call := range map[string]func(){
		"Predict": func() { _ = l.Predict(&p, samples[n%64].X); n++ },
		"Observe": func() { _ = l.Observe(&o, samples[n%64].X, labels, 1); n++ },
	} {
		call() // p and o get room.
		if got := testing.AllocsPerRun(500, call); got != 0 {
			t.Errorf("%s allocates %g times a round", name, got)
		}
	}
}
