package classifier_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/awv"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/classifier"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/kernel"
	"hindsight/internal/model/modeltest"
	"hindsight/internal/model/scaling"
)

// A class that appears late is one from the start, bit for bit, behind every scaling:
// in the middle of a warm-up, while its learner catches up, and after it.
func TestALateClassIsOneFromTheStartThroughScaling(t *testing.T) {
	o := options()
	for name, s := range map[string]scaling.Options{
		"running": {Warmup: 32, Running: true}, "warm-up": {Warmup: 20}, "long warm-up": {Warmup: 70},
		"fixed": {Fixed: scaling.Affine{Offset: []float64{1, 0, -1}, Scale: []float64{1, 2, 0.5}, LabelScale: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			create := func(outputs int) *scaling.Learner {
				s := s
				s.Dimension, s.Outputs, s.InputLimit, s.Forgetting = dimension, outputs, model.MaxMagnitude, 1
				s.Fixed.LabelOffset = make([]float64, outputs)
				s.New = o.forecaster(feature.NewAffine(dimension))
				return scaling.New(s)
			}
			l := classifier.New(o.options(func(outputs int) model.Learner { return create(outputs) }))
			all := samples(14, 200)
			const classes = 6
			f := create(classes)
			var want model.Prediction
			var out model.Outcome
			var got model.ClassOutcome
			for n, s := range all {
				require.NoError(t, f.Predict(&want, s.X))
				p, known := predict(t, l, s.X), len(l.Classes())
				require.True(t, fmt.Sprint(p.Values) == fmt.Sprint(want.Values[:known]), "round %d: %v, want %v", n, p.Values, want.Values)
				require.NoError(t, l.ObserveClass(&got, s.X, s.Class, s.Weight, nil))
				y := make([]float64, classes)
				y[got.Class] = 1
				require.NoError(t, f.Observe(&out, s.X, y, s.Weight))
				same := got.Regret == out.Regret || math.IsNaN(got.Regret) && math.IsNaN(out.Regret)
				require.True(t, got.Loss == out.Loss && same && fmt.Sprint(got.Prediction.Values) == fmt.Sprint(out.Predictions[:known]), "round %d: %+v, want %+v", n, got, out)
				require.True(t, len(l.Classes()) != classes || bytes.HasSuffix(modeltest.State(t, l.Visit), modeltest.State(t, f.Visit)), "round %d: the learner is another", n)
				require.True(t, l.Stats().Loss == f.Stats().Loss, "round %d: %+v, want %+v", n, l.Stats(), f.Stats())
			}
			require.Len(t, l.Classes(), classes)
		})
	}
}

// without is a spec of one real label.
func without(t *testing.T, spec model.Spec) model.Learner {
	t.Helper()
	spec.Classes = nil
	if spec.Auto != nil {
		spec.LabelGate = model.GateOff // A classifier has none.
	}
	l, err := catalog.New(spec)
	require.NoError(t, err)
	return l
}

// unscaled are the learners, of labels as they are.
func unscaled(loss string) map[string]model.Spec {
	none := model.Unscaled()
	specs := map[string]model.Spec{
		"fogd":      {Scaling: none, FOGD: &model.FOGD{FirstOrder: firstOrder(loss)}},
		"raker":     {Scaling: none, Raker: &model.Raker{FirstOrder: firstOrder(loss)}},
		"ada_raker": {Scaling: none, AdaRaker: &model.AdaRaker{Raker: model.Raker{FirstOrder: firstOrder(loss)}}},
	}
	if loss != model.LossSquared {
		return specs
	}
	specs["linear_awv"] = model.Spec{Scaling: none, LinearAWV: &model.LinearAWV{}}
	specs["linear_awv, warm-up"] = model.Spec{
		Scaling: &model.Scaling{Warmup: &model.WarmupScaling{Observations: 40, Labels: ptr(false)}}, LinearAWV: &model.LinearAWV{},
	}
	specs["fourier_awv"] = model.Spec{Scaling: none, FourierAWV: &model.FourierAWV{Frequencies: ptr(6), Forgetting: ptr(0.98)}}
	specs["pkawv_taylor"] = model.Spec{Scaling: none, PKAWVTaylor: &model.PKAWVTaylor{Degree: ptr(2)}}
	specs["pkawv_nystrom"] = model.Spec{Scaling: none, PKAWVNystrom: &model.PKAWVNystrom{MaxDictionary: ptr(20)}}
	specs["kernel_awv"] = model.Spec{Scaling: none, KernelAWV: &model.KernelAWV{}}
	specs["auto"] = model.Spec{Auto: &model.Auto{Frequencies: ptr(4), MaxMicroseconds: ptr(20.0)}}
	return specs
}

// Two classes are what the learner says of labels -1 and 1, bit for bit: its values,
// losses and regrets, and the class is the sign, unless auto's level of log loss decides. A label that comes late, with the advice
// of its prediction, too.
func TestTwoClassesAreTheSign(t *testing.T) {
	for _, loss := range []string{model.LossSquared, model.LossLogistic, model.LossHinge} {
		for name, spec := range unscaled(loss) {
			t.Run(loss+"/"+name, func(t *testing.T) {
				spec = of(2, spec)
				l, plain := create(t, spec), without(t, spec)
				var got model.ClassOutcome
				var want model.Outcome
				var late struct {
					s           sample
					class       float64
					advice, raw []float64
				}
				for n, s := range modeltest.ClassSamples(19, dimension, 2, 250) {
					p := predict(t, l, s.X)
					var raw model.Prediction
					require.NoError(t, plain.Predict(&raw, s.X))
					if fmt.Sprint(p.Values, p.StandardErrors, p.Leverage, p.Advice[:len(raw.Advice)]) != fmt.Sprint(raw.Values, raw.StandardErrors, raw.Leverage, raw.Advice) {
						t.Fatalf("round %d: %+v, want %+v", n, p, raw)
					}
					require.True(t, name == "auto" || len(p.Classes) != 2 || (p.Class == 1) == (raw.Values[0] > 0), "round %d: class %d of %v", n, p.Class, raw.Values)
					y := 1.0
					if s.Class == "class 0" {
						y = -1
					}
					advice, rawAdvice := p.Advice, raw.Advice
					if n%5 == 2 && n > 20 { // This one comes later, the one before now.
						late.s, s = s, late.s
						late.class, y = y, late.class
						late.advice, advice = slices.Clone(advice), late.advice
						late.raw, rawAdvice = slices.Clone(rawAdvice), late.raw
					}
					if s.X == nil {
						continue
					}
					require.NoError(t, l.ObserveClass(&got, s.X, s.Class, s.Weight, advice))
					observe := func() error { return plain.Observe(&want, s.X, []float64{y}, s.Weight) }
					if advised, ok := plain.(model.Advised); ok && advice != nil {
						observe = func() error { return advised.ObserveAdvised(&want, s.X, []float64{y}, s.Weight, rawAdvice) }
					}
					require.NoError(t, observe())
					same := got.Regret == want.Regret || math.IsNaN(got.Regret) && math.IsNaN(want.Regret)
					require.True(t, got.Prediction.Values[0] == want.Predictions[0] && got.Loss == want.Loss && same, "round %d: %+v, want %+v", n, got, want)
					require.Equal(t, model.LossOf(plain, raw.Values[0], y), l.LossOfClass(raw.Values, got.Class), "round %d: a loss", n)
				}
				assert.True(t, bytes.HasSuffix(modeltest.State(t, l.Visit), modeltest.State(t, plain.Visit)), "the learner is another")
			})
		}
	}
}

// More classes are as many learners, each of the labels of its class against all others,
// over the same features: for the first-order learners bit for bit, for the others to
// rounding. The class is the one of the largest prediction.
func TestMoreClassesAreLearnersOneAgainstTheRest(t *testing.T) {
	const classes = 4
	for _, loss := range []string{model.LossSquared, model.LossLogistic, model.LossHinge} {
		for name, spec := range unscaled(loss) {
			if name == "auto" || name == "pkawv_nystrom" {
				continue // What they learn of the inputs depends on the labels of all.
			}
			t.Run(loss+"/"+name, func(t *testing.T) {
				tolerance := 1e-11
				if spec.FOGD != nil || spec.Raker != nil || spec.AdaRaker != nil {
					tolerance = 0
				}
				spec = of(classes, spec)
				l := create(t, spec)
				var each []model.Learner
				for range classes {
					each = append(each, without(t, spec))
				}
				var got model.ClassOutcome
				var want model.Outcome
				for n, s := range modeltest.ClassSamples(20, dimension, classes, 250) {
					require.NoError(t, l.ObserveClass(&got, s.X, s.Class, s.Weight, nil))
					best, largest, sum := model.NoClass, math.Inf(-1), 0.0
					for k, one := range each {
						y := -1.0
						if k == got.Class {
							y = 1
						}
						require.NoError(t, one.Observe(&want, s.X, []float64{y}, s.Weight))
						v := got.Prediction.Values[k]
						require.False(t, math.Abs(v-want.Predictions[0]) > tolerance*(1+math.Abs(v)), "round %d, class %d: %.17g, want %.17g", n, k, v, want.Predictions[0])
						sum += want.Loss
						if k < len(got.Prediction.Classes) && v > largest {
							best, largest = k, v
						}
					}
					require.Equal(t, best, got.Prediction.Class, "round %d: class of %v", n, got.Prediction.Values)
					require.False(t, math.Abs(got.Loss-sum) > 1e-10*(1+sum), "round %d: a loss of %g, want %g", n, got.Loss, sum)
				}
				if s := l.Stats(); s.Certified {
					summed := 0.0
					for _, one := range each {
						summed += one.Stats().RegretBound
					}
					near(t, "bound", s.RegretBound, summed, 1e-9)
				}
			})
		}
	}
}

// What an inner learner can besides, a classifier can: a limit of observations, and
// rejecting what spoils it.
func TestLimitsOfTheLearner(t *testing.T) {
	spec := of(3, model.Spec{Scaling: model.Unscaled(), KernelAWV: &model.KernelAWV{MaxObservations: ptr(5)}})
	l := create(t, spec)
	all := samples(21, 6)
	for n, s := range all[:5] {
		require.Equal(t, 5-n, model.Remaining(l), n)
		learn(t, l, []sample{s})
	}
	assert.Error(t, l.CheckClass(all[5].X, all[5].Class, 1), "an observation too many is accepted")
	plain := without(t, spec)
	got, want := model.Admit(l, all[0].X, 1e9), model.Admit(plain, all[0].X, 1e9)
	assert.Equal(t, fmt.Sprint(want), fmt.Sprint(got), "admitted: %v, want %v", got, want)
	assert.EqualValues(t, math.MaxInt, model.Remaining(create(t, of(2, model.Spec{LinearAWV: &model.LinearAWV{}}))))
}

// choosing is rlsc that chooses its recoding.
func choosing(o rlsc) *classifier.Learner {
	options := o.options(o.forecaster(feature.NewAffine(dimension)))
	options.Recoding, options.ChooseRecoding = 0, true
	return classifier.New(options)
}

// The chosen recoding is the largest of 0, 0.1, … 1 that would have decided as many observations
// of frequent classes right as 0: all of them decided anew in each round, by dense forecasters.
// Camoriano, thesis, §7.6.3.
func TestTheRecodingOfRLSC_Thesis763(t *testing.T) {
	for _, forgetting := range []float64{1, 0.97} {
		o := options()
		o.Forgetting = forgetting
		l, n := choosing(o), newNaive(o)
		type decided struct {
			scores, counts []float64
			class          int
			weight         float64
		}
		var past []decided
		right := func(a float64) (sum float64) {
			for age, d := range past {
				total := 0.0
				for _, c := range d.counts {
					total += c
				}
				best, largest := 0, math.Inf(-1)
				for k, c := range d.counts {
					if v := d.scores[k] * math.Pow(total/c, a); v > largest {
						best, largest = k, v
					}
				}
				if d.class >= 0 && best == d.class && d.counts[d.class]*2*float64(len(d.counts)) >= total {
					sum += d.weight * math.Pow(forgetting, float64(len(past)-age))
				}
			}
			return sum
		}
		var chosen [11]int
		for round, s := range samples(21, 150) {
			s.Weight = 1 + float64(round%2)/2
			scores := make([]float64, len(n.names))
			for k := range scores {
				scores[k] = n.oracles[k].Predict(s.X, 1).Prediction
			}
			d := decided{scores, append([]float64(nil), n.counts...), number(n.names, s.Class), s.Weight}
			learn(t, l, []sample{s})
			n.observe(s)
			if len(scores) < 2 || d.class == len(scores) {
				d = decided{class: -1} // No decision between known classes.
			}
			past = append(past, d)
			want := 0
			for i, least := 10, right(0); i > 0 && want == 0; i-- {
				if right(float64(i)/10) >= least-1e-9 {
					want = i
				}
			}
			chosen[want]++
			got := *l.Report(model.ReportOptions{}).Recoding
			require.True(t, got == float64(want)/10, "forgetting %g, round %d: %g, want %d/10", forgetting, round, got, want)
			n.o.Recoding = float64(want) / 10
			var now []float64
			for k := range n.names {
				now = append(now, n.oracles[k].Predict(s.X, 1).Prediction)
			}
			p := predict(t, l, s.X)
			best, coded := n.class(now)
			require.True(t, p.Class == best || math.Abs(coded[p.Class]-coded[best]) <= 1e-9, "round %d: class %d of %v", round, p.Class, coded)
		}
		assert.True(t, chosen[0] != 150 && chosen[10] != 150, "chosen %v", chosen)
		fresh, state := choosing(o), modeltest.State(t, l.Visit)
		err := codec.Read(state, fresh.Visit)
		assert.True(t, err == nil && bytes.Equal(modeltest.State(t, fresh.Visit), state), "restored: %v", err)
	}
}

// With one class in ten the chosen recoding makes no more than 1.05 times the mistakes of none
// (a recoding of 0.5 three times as many), and misses less of the rare class.
func TestTheChosenRecodingOnARealStream(t *testing.T) {
	stream := modeltest.Stream(t, "ijcnn1.csv.gz", 8000)
	errors := func(recoding *float64) int {
		y := run(t, create(t, model.Spec{
			Dimension: len(stream[0].X), RLSC: &model.RLSC{Kernel: &model.Kernel{}, Recoding: recoding},
		}), stream)
		t.Log(y)
		return y.errors
	}
	none, half, chosen := errors(ptr(0.0)), errors(ptr(0.5)), errors(nil)
	assert.True(t, 100*chosen <= 105*none && half >= 2*chosen, "errors %d, without recoding %d, with 0.5 %d", chosen, none, half)
}

// Scores of several ridges are, for each class, the mixture by ML-Poly of dense forecasters that
// learn its indicator from the start. The certificate bounds the regret against the best ridge.
func TestRidgesOfRLSCAreDenseForecastersMixed(t *testing.T) {
	lambdas := []float64{0.05, 1, 30}
	o := options()
	l := classifier.New(o.options(func(outputs int) model.Learner {
		return awv.NewRidges(feature.NewAffine(dimension), awv.Options{Outputs: outputs, Indicators: true}, lambdas)
	}))
	ridges := make([]*naive, len(lambdas))
	for i, lambda := range lambdas {
		own := o
		own.Lambda = lambda
		ridges[i] = newNaive(own)
	}
	type poly struct {
		regret, square [3]float64
		largest        float64
	}
	mixes, total := make([]poly, o.MaxClasses), 0.0
	weightsOf := func(p *poly) (w [3]float64) {
		sum := 0.0
		for i, r := range p.regret {
			if r > 0 {
				w[i] = r / (p.largest + p.square[i])
			}
			sum += w[i]
		}
		for i := range w {
			if w[i] /= sum; sum == 0 {
				w[i] = 1.0 / 3
			}
		}
		return w
	}
	var out model.ClassOutcome
	for round, s := range samples(23, 150) {
		s.Weight = 1
		class := number(ridges[0].names, s.Class)
		var scores [3][]float64
		for i, n := range ridges {
			scores[i], _ = n.observe(s)
		}
		require.NoError(t, l.ObserveClass(&out, s.X, s.Class, 1, nil))
		for k := range mixes {
			p, mixed, y := &mixes[k], 0.0, 0.0
			for i, w := range weightsOf(p) {
				mixed += w * scores[i][k]
			}
			if k == class {
				y = 1
			}
			if k < len(out.Prediction.Values) {
				near(t, fmt.Sprint("round ", round, ", score of class ", k), out.Prediction.Values[k], mixed, 1e-9)
			}
			total += (mixed - y) * (mixed - y)
			for i := range p.regret {
				r := 2 * (mixed - y) * (mixed - scores[i][k])
				p.regret[i] += r
				p.square[i] += r * r
				p.largest = math.Max(p.largest, r*r)
			}
		}
	}
	hindsight := math.Inf(1)
	for _, n := range ridges {
		sum := 0.0
		for _, oracle := range n.oracles {
			sum += oracle.Figures().Hindsight
		}
		hindsight = math.Min(hindsight, sum)
	}
	stats := l.Stats()
	near(t, "loss", stats.Loss, total, 1e-9)
	near(t, "hindsight loss", stats.HindsightLoss, hindsight, 1e-9)
	assert.False(t, !stats.Certified || !stats.CertificateOK || stats.Regret > stats.Certificate || stats.Certificate > stats.RegretBound, "%+v", stats)
}

// fourier is a learner over frequencies of a Gaussian kernel whose σ² is the mean
// squared distance of the inputs.
func fourier(stream []modeltest.Sample, frequencies int, seed uint64, o rlsc) *classifier.Learner {
	rng := rand.New(rand.NewPCG(seed, 1))
	square := 0.0
	const pairs = 5000
	for range pairs {
		a, b := stream[rng.IntN(len(stream))].X, stream[rng.IntN(len(stream))].X
		for j, v := range a {
			square += (v - b[j]) * (v - b[j]) / pairs
		}
	}
	k := kernel.Kernel{Kind: kernel.Gaussian, Sigma: math.Sqrt(square)}
	return newRLSC(feature.NewFourier(k, len(stream[0].X), frequencies, true, rng), o)
}

// tally checks prequential predictions. Bins are of the probability of class 1 where
// there are two classes, and of the most probable class where there are more.
type tally struct {
	rounds, errors  int
	loss, brier     float64
	members         [10]int
	promised, found [10]float64
}

func (y *tally) add(o *model.ClassOutcome) {
	y.rounds++
	p := o.Prediction.Probabilities
	if o.Class != o.Prediction.Class {
		y.errors++
	}
	if o.Class >= len(p) || len(p) < 2 {
		return
	}
	y.loss -= math.Log(p[o.Class])
	scored := 1
	for k, v := range p {
		if len(p) > 2 && v > p[scored] {
			scored = k
		}
		miss := v
		if k == o.Class {
			miss--
		}
		y.brier += miss * miss
	}
	bin := min(int(10*p[scored]), 9)
	y.members[bin]++
	y.promised[bin] += p[scored]
	if scored == o.Class {
		y.found[bin]++
	}
}

// worst is the largest distance of a bin with at least 500 members from what it
// promised, and how many such bins there are.
func (y *tally) worst() (worst float64, bins int) {
	for b, n := range y.members {
		if n >= 500 {
			worst = math.Max(worst, math.Abs(y.found[b]-y.promised[b])/float64(n))
			bins++
		}
	}
	return worst, bins
}

func (y *tally) String() string {
	n := float64(y.rounds)
	worst, bins := y.worst()
	var text strings.Builder
	fmt.Fprintf(&text, "errors %.2f %%, log-loss %.4f, Brier score %.4f, worst bin of %d %.3f:",
		100*float64(y.errors)/n, y.loss/n, y.brier/n, bins, worst)
	for b, members := range y.members {
		if members > 0 {
			fmt.Fprintf(&text, " %d at %.3f %+.3f", members, y.promised[b]/float64(members), (y.found[b]-y.promised[b])/float64(members))
		}
	}
	return text.String()
}

// Ten digits are told apart with 200 frequencies, recoded or not, with probabilities
// that hold. Inputs are scaled to [0, 1].
func TestDigits(t *testing.T) {
	if modeltest.RaceDetector {
		t.Skip("too slow with the race detector")
	}
	stream := modeltest.Stream(t, "digits.csv.gz", -1)
	modeltest.Scale(stream)
	for _, a := range []float64{0, 0.5} {
		y := run(t, fourier(stream, 200, 1, rlsc{Lambda: 0.01, Recoding: a, MaxClasses: 256}), stream)
		t.Logf("a = %g: %s", a, y)
		assert.LessOrEqual(t, y.errors, y.rounds*25/1000, "a = %g: %d errors in %d rounds", a, y.errors, y.rounds)
		worst, bins := y.worst()
		assert.False(t, worst > 0.05 || bins == 0, "a = %g: a bin of %d is off by %.3f", a, bins, worst)
	}
	y := run(t, newRLSC(feature.NewAffine(len(stream[0].X)), rlsc{Lambda: 1, MaxClasses: 10}), stream)
	t.Logf("affine: %s", y)
	assert.LessOrEqual(t, y.errors, y.rounds*8/100, "affine: %d errors in %d rounds", y.errors, y.rounds)
}

// A digit that is withheld for 3,000 rounds is found among its first 20 with a = ½,
// at little cost afterwards. Mean of four digits.
func TestAWithheldDigitIsFound(t *testing.T) {
	if modeltest.RaceDetector {
		t.Skip("too slow with the race detector")
	}
	stream := modeltest.Stream(t, "digits.csv.gz", -1)
	modeltest.Scale(stream)
	const withheld, early = 3000, 20
	for _, c := range []struct{ a, wrong, others float64 }{{0, 1, 0.03}, {0.5, 0.25, 0.03}} {
		var missed, seen, errors, after float64
		for _, digit := range []int{0, 3, 6, 9} {
			l := fourier(stream, 200, 2, rlsc{Lambda: 0.01, Recoding: c.a, MaxClasses: 10})
			came := 0
			var o model.ClassOutcome
			for n, s := range stream {
				own := int(s.Y) == digit
				if own && n < withheld {
					continue
				}
				require.NoError(t, l.ObserveClass(&o, s.X, strconv.Itoa(int(s.Y)), 1, nil))
				wrong := 0.0
				if o.Class != o.Prediction.Class {
					wrong = 1
				}
				switch {
				case own && came < early:
					came++
					seen++
					missed += wrong
				case !own && n >= withheld:
					after++
					errors += wrong
				}
			}
		}
		t.Logf("a = %g: %.0f %% of the first %d wrong, %.1f %% of the others", c.a, 100*missed/seen, early, 100*errors/after)
		assert.False(t, missed > c.wrong*seen || errors > c.others*after, "a = %g: %g of %g wrong, %g of %g others", c.a, missed, seen, errors, after)
	}
}
