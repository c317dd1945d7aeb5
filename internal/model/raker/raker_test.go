package raker_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/losses"
	"hindsight/internal/model/modeltest"
	"hindsight/internal/model/raker"
)

// fourier is a random feature map of its own: z = [sin Vx; cos Vx]/√D, the
// rows of V in orthogonal blocks, for the Gaussian kernel of bandwidth sigma.
type fourier struct {
	v     *mat.Dense
	scale float64
}

func newFourier(seed uint64, dimension, frequencies int, sigma float64) *fourier {
	rng := rand.New(rand.NewPCG(seed, 3))
	v := mat.NewDense(frequencies, dimension, nil)
	for start := 0; start < frequencies; start += dimension {
		g := mat.NewDense(dimension, dimension, nil)
		g.Apply(func(int, int, float64) float64 { return rng.NormFloat64() }, g)
		var qr mat.QR
		qr.Factorize(g)
		var q mat.Dense
		qr.QTo(&q)
		for i := start; i < min(start+dimension, frequencies); i++ {
			length := 0.0
			for range dimension {
				n := rng.NormFloat64()
				length += n * n
			}
			for j := range dimension {
				v.Set(i, j, math.Sqrt(length)/sigma*q.At(i-start, j))
			}
		}
	}
	return &fourier{v: v, scale: 1 / math.Sqrt(float64(frequencies))}
}

func (f *fourier) Dimension() int      { _, d := f.v.Dims(); return d }
func (f *fourier) Size() int           { n, _ := f.v.Dims(); return 2 * n }
func (f *fourier) InputLimit() float64 { return model.MaxMagnitude }
func (f *fourier) Bytes() uint64       { return uint64(4 * f.Size() * f.Dimension()) }

func (f *fourier) Map(z, x []float64) {
	n := len(z) / 2
	for i := range n {
		angle := 0.0
		for j, v := range f.v.RawRowView(i) {
			angle += float64(v * x[j])
		}
		s, c := math.Sincos(angle)
		z[i], z[n+i] = f.scale*s, f.scale*c
	}
}

// gaussians are maps of the kernels σ² ∈ {0.1, 1, 10}.
func gaussians(seed uint64, dimension, frequencies int) []feature.Map {
	var maps []feature.Map
	for n, s := range []float64{0.1, 1, 10} {
		maps = append(maps, newFourier(seed+uint64(n), dimension, frequencies, math.Sqrt(s)))
	}
	return maps
}

func everyLoss() []losses.Loss { return []losses.Loss{losses.Squared, losses.Logistic, losses.Hinge} }

// label makes a label of the loss.
func label(l losses.Loss, y float64) float64 {
	if l == losses.Squared || math.IsNaN(y) || math.Abs(y) > model.MaxMagnitude {
		return y
	}
	return math.Copysign(1, y)
}

func options(l losses.Loss) raker.Options {
	return raker.Options{Loss: l, Step: 0.4, StepCap: 0.3, WeightStep: 0.5, Lambda: 0.01}
}

func observe(t *testing.T, l model.Learner, s modeltest.Sample) modeltest.Outcome {
	t.Helper()
	out, err := modeltest.Observe(l, s.X, s.Y, s.Weight)
	require.NoError(t, err)
	return out
}

// The slope of every loss is its difference quotient.
func TestSlopesAreDerivatives(t *testing.T) {
	const h = 1e-6
	for _, l := range everyLoss() {
		for _, y := range []float64{-1, 1} {
			for f := -4.05; f < 4; f += 0.1 {
				want := (l.Value(f+h, y) - l.Value(f-h, y)) / (2 * h)
				got := l.Slope(f, y)
				assert.False(t, math.Abs(got-want) > 1e-8, "%v at f=%g, y=%g: slope %g, difference quotient %g", l, f, y, got, want)
			}
		}
		// Far out nothing overflows.
		for _, f := range []float64{-1e100, -800, 800, 1e100} {
			v, s := l.Value(f, 1), l.Slope(f, 1)
			assert.False(t, math.IsNaN(v+s) || math.IsInf(v+s, 0), "%v at %g: value %g, slope %g", l, f, v, s)
		}
	}
	assert.InDelta(t, math.Ln2, losses.Logistic.Value(0, 1), 1e-16)
}

// One step of a Raker of one kernel goes down the gradient of the whole loss,
// C(θ·z, y) + λ‖θ‖², taken by finite differences in θ.
func TestStepIsTheGradientOfTheLoss(t *testing.T) {
	const step, lambda, h = 0.2, 0.05, 1e-6
	for _, l := range everyLoss() {
		t.Run(l.String(), func(t *testing.T) {
			m := newFourier(5, 2, 3, 1)
			r := raker.NewRaker([]feature.Map{m}, raker.Options{Loss: l, Step: step, WeightStep: 1, Lambda: lambda})
			theta, z := make([]float64, m.Size()), make([]float64, m.Size())
			for n, s := range modeltest.Samples(3, 2, 40) {
				y := label(l, s.Y)
				m.Map(z, s.X)
				whole := func(theta []float64) float64 {
					f, norm := 0.0, 0.0
					for i, v := range theta {
						f += v * z[i]
						norm += v * v
					}
					return l.Value(f, y) + lambda*norm
				}
				gradient := make([]float64, len(theta))
				for i := range theta {
					up, down := append([]float64(nil), theta...), append([]float64(nil), theta...)
					up[i] += h
					down[i] -= h
					gradient[i] = (whole(up) - whole(down)) / (2 * h)
				}
				for i := range theta {
					theta[i] -= step * gradient[i]
				}
				observe(t, r, modeltest.Sample{X: s.X, Y: y, Weight: 1})
				want := 0.0
				for i, v := range theta {
					want += v * z[i]
				}
				got, err := modeltest.Predict(r, s.X)
				require.True(t, err == nil && math.Abs(got.Value-want) <= 1e-7, "round %d: predicts %g, want %g (%v)", n, got.Value, want, err)
			}
		})
	}
}

// Regret is against the best ridge function of the best kernel, solved here
// by QR from all that was seen.
func TestRegretAgainstDenseSolver(t *testing.T) {
	maps := gaussians(7, 3, 6)
	o := options(losses.Squared)
	o.TrackRegret = true
	for name, l := range map[string]model.Learner{"raker": raker.NewRaker(maps, o), "adaraker": raker.NewAdaRaker(maps, o)} {
		t.Run(name, func(t *testing.T) {
			samples := modeltest.Samples(9, 3, 200)
			loss := 0.0
			for _, s := range samples {
				out := observe(t, l, s)
				require.True(t, math.IsNaN(out.Regret), "the regret of a round is %g, want unknown", out.Regret)
				loss += s.Weight * (s.Y - out.Prediction) * (s.Y - out.Prediction)
			}
			best, unpenalized, dimension := math.Inf(1), 0.0, 0.0
			for _, m := range maps {
				h, penalty, d := ridge(t, m, samples, o.Lambda)
				if h < best {
					best, unpenalized, dimension = h, loss-(h-penalty), d
				}
			}
			s, r := l.Stats(), l.Report(model.ReportOptions{EffectiveDimension: true})
			for what, v := range map[string][2]float64{
				"loss": {s.Loss, loss}, "hindsight": {r.HindsightLoss, best}, "regret": {r.Regret, loss - best},
				"unpenalized":         {r.RegretUnpenalized, unpenalized},
				"effective dimension": {r.EffectiveDimension, dimension},
			} {
				assert.True(t, math.Abs(v[0]-v[1]) <= 1e-9*math.Abs(v[1]), "%s %.15g, want %.15g", what, v[0], v[1])
			}
			assert.False(t, s.Certified || s.RegretBound != 0 || s.Certificate != 0 || !s.CertificateOK || !r.CertificateOK || !(r.Regret > 0), "%+v, %+v", s, r)
			assert.True(t, math.IsNaN(s.Regret) && math.IsNaN(s.HindsightLoss) && s.ReportFlops == uint64(len(maps))*12*12*12/3, "statistics solve, or do not say what it costs: %+v", s)
		})
	}
}

// ridge is min_θ Σ w(y−θ·z)² + λ‖θ‖² by least squares on [√w z; √λ I], its
// λ‖θ‖², and Σ σ²/(σ²+λ) of the singular values.
func ridge(t *testing.T, m feature.Map, samples []modeltest.Sample, lambda float64) (loss, penalty, dimension float64) {
	t.Helper()
	r, n := m.Size(), len(samples)
	a, y := mat.NewDense(n+r, r, nil), mat.NewVecDense(n+r, nil)
	for i, s := range samples {
		row := a.RawRowView(i)
		m.Map(row, s.X)
		for j := range row {
			row[j] *= math.Sqrt(s.Weight)
		}
		y.SetVec(i, math.Sqrt(s.Weight)*s.Y)
	}
	var svd mat.SVD
	svd.Factorize(a.Slice(0, n, 0, r), mat.SVDNone)
	for _, v := range svd.Values(nil) {
		dimension += v * v / (v*v + lambda)
	}
	for i := range r {
		a.Set(n+i, i, math.Sqrt(lambda))
	}
	var theta, miss mat.VecDense
	require.NoError(t, theta.SolveVec(a, y))
	miss.MulVec(a, &theta)
	miss.SubVec(y, &miss)
	return mat.Dot(&miss, &miss), lambda * mat.Dot(&theta, &theta), dimension
}

// Without tracking, and for losses that have no closed form, nothing is said
// of regret.
func TestUntrackedRegretIsNotKnown(t *testing.T) {
	for _, l := range everyLoss() {
		o := options(l)
		o.TrackRegret = l != losses.Squared
		a := raker.NewAdaRaker(gaussians(1, 2, 3), o)
		observe(t, a, modeltest.Sample{X: []float64{1, 2}, Y: 1, Weight: 1})
		s, r := a.Stats(), a.Report(model.ReportOptions{EffectiveDimension: true})
		for what, v := range map[string]float64{
			"regret": s.Regret, "hindsight loss": s.HindsightLoss, "reported regret": r.Regret,
			"reported hindsight loss": r.HindsightLoss, "unpenalized": r.RegretUnpenalized, "effective dimension": r.EffectiveDimension,
		} {
			assert.True(t, math.IsNaN(v), "%v: %s is %g", l, what, v)
		}
		assert.True(t, s.Loss != 0 && s.ReportFlops == 0 && r.CertificateOK, "%v: %+v, %+v", l, s, r)
	}
}

// Steps and weights that would make plain gradient descent explode stay
// bounded: on a repeated observation the prediction reaches the label, up to
// the ridge.
func TestExtremeStepsAreBounded(t *testing.T) {
	for _, l := range everyLoss() {
		for _, step := range []float64{1e-3, 0.5, 0.99, 30, 1e9} {
			for _, weight := range []float64{model.MinWeight, 1, 1e3, model.MaxWeight} {
				o := raker.Options{Loss: l, Step: step, StepCap: step, WeightStep: 0.5, Lambda: 1e-4}
				a := raker.NewAdaRaker(gaussians(2, 2, 4), o)
				for n := range 300 {
					out := observe(t, a, modeltest.Sample{X: []float64{0.3, float64(n % 2)}, Y: 1, Weight: weight})
					v := out.Prediction + out.Loss
					require.False(t, math.IsNaN(v) || math.IsInf(v, 0), "%v, step %g, weight %g, round %d: %+v", l, step, weight, n, out)
					require.False(t, l == losses.Squared && math.Abs(out.Prediction) > 3, "step %g, weight %g, round %d: predicts %g for labels of 1", step, weight, n, out.Prediction)
				}
				assert.True(t, a.Stats().CertificateOK, "%v, step %g, weight %g: %+v", l, step, weight, a.Stats())
			}
		}
	}
}

// A weight above 1 carries a step no further than to the label.
func TestWeightDoesNotOvershoot(t *testing.T) {
	o := raker.Options{Loss: losses.Squared, Step: 0.1, WeightStep: 0.5, Lambda: 0}
	r := raker.NewRaker(gaussians(2, 2, 4)[:1], o)
	observe(t, r, modeltest.Sample{X: []float64{1, 2}, Y: 5, Weight: 1e6})
	p, err := modeltest.Predict(r, []float64{1, 2})
	assert.True(t, err == nil && math.Abs(p.Value-5) <= 1e-12, "predicts %g, want 5 (%v)", p.Value, err)
}

// Labels outside of a class are rejected with a field error.
func TestClassLabels(t *testing.T) {
	for _, l := range everyLoss()[1:] {
		a := raker.NewAdaRaker(gaussians(1, 2, 3), options(l))
		before := modeltest.State(t, a.Visit)
		for _, y := range []float64{0, 0.5, 2, -1.0000001, 1e100} {
			_, err := modeltest.Observe(a, []float64{1, 2}, y, 1)
			var field *model.FieldError
			assert.True(t, errors.Is(err, model.ErrLabelOutOfRange) && errors.As(err, &field) && field.Field == "label", "%v: label %g: %v", l, y, err)
		}
		assert.Equal(t, modeltest.State(t, a.Visit), before, l)
	}
}

// States of another learner or shape, or with numbers out of range, are
// rejected.
func TestRestoreRejectsOthers(t *testing.T) {
	maps := gaussians(1, 2, 3)
	o := options(losses.Squared)
	tracked := o
	tracked.TrackRegret = true
	states := map[string][]byte{}
	learners := map[string]func() model.Learner{
		"raker":    func() model.Learner { return raker.NewRaker(maps, o) },
		"one":      func() model.Learner { return raker.NewRaker(maps[:1], o) },
		"tracked":  func() model.Learner { return raker.NewRaker(maps, tracked) },
		"adaraker": func() model.Learner { return raker.NewAdaRaker(maps, o) },
		"adatrack": func() model.Learner { return raker.NewAdaRaker(maps, tracked) },
	}
	for name, create := range learners {
		l := create()
		for _, s := range modeltest.Samples(1, 2, 20) {
			observe(t, l, s)
		}
		states[name] = modeltest.State(t, l.Visit)
	}
	for name, create := range learners {
		for from, b := range states {
			l := create()
			err := codec.Read(b, l.Visit)
			assert.True(t, (err == nil) == (name == from), "%s from %s: %v", name, from, err)
		}
		// No byte of a number can make it NaN and pass.
		for at := 32; at+8 <= len(states[name]); at += 8 {
			bad := append([]byte(nil), states[name]...)
			for i := range 8 {
				bad[at+i] = 0xff
			}
			assert.Error(t, codec.Read(bad, create().Visit), "%v %v", name, at)
		}
	}
}

// A learner says what its own loss makes of a prediction.
func TestLossOf(t *testing.T) {
	for _, l := range everyLoss() {
		var scored model.Scored = raker.NewAdaRaker(gaussians(1, 2, 3), options(l))
		got, want := scored.LossOf(0.25, -1), naiveLoss(l, 0.25, -1)
		assert.False(t, math.Abs(got-want) > 1e-15, "%v: loss %g, want %g", l, got, want)
	}
}

func TestWrongOptionsPanic(t *testing.T) {
	good := options(losses.Squared)
	maps := gaussians(1, 2, 3)
	for n, change := range []func(o *raker.Options){
		func(o *raker.Options) { o.Step = 0 },
		func(o *raker.Options) { o.Step = math.NaN() },
		func(o *raker.Options) { o.StepCap = math.Inf(1) },
		func(o *raker.Options) { o.WeightStep = -1 },
		func(o *raker.Options) { o.Lambda = -1e-9 },
		func(o *raker.Options) { o.Loss = 3 },
	} {
		o := good
		change(&o)
		assert.True(t, panics(func() { raker.NewAdaRaker(maps, o) }), "options %d made a learner", n)
	}
	assert.True(t, panics(func() { raker.NewRaker(nil, good) }), "no maps made a learner")
	assert.True(t, panics(func() { raker.NewRaker(append(gaussians(1, 3, 3), maps...), good) }), "maps of two dimensions made a learner")
}

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

// What is reported is near what is encoded, and below the cost that the spec
// names.
func TestCostBoundsTheState(t *testing.T) {
	for _, tracked := range []bool{false, true} {
		t.Run(fmt.Sprint("tracked ", tracked), func(t *testing.T) {
			o := options(losses.Squared)
			o.TrackRegret = tracked
			maps := gaussians(1, 2, 10)
			sizes, mapBytes := []int{20, 20, 20}, maps[0].Bytes()*3
			r, a := raker.NewRaker(maps, o), raker.NewAdaRaker(maps, o)
			o.Adaptive = false
			if got, want := r.Stats().StateBytes, raker.Cost(sizes, mapBytes, o).StateBytes; got != want {
				t.Errorf("a Raker takes %d bytes, costs %d", got, want)
			}
			for _, s := range modeltest.Samples(1, 2, 300) {
				observe(t, a, s)
			}
			o.Adaptive = true
			got, most := a.Stats().StateBytes, raker.Cost(sizes, mapBytes, o).StateBytes
			encoded := uint64(len(modeltest.State(t, a.Visit)))
			assert.True(t, got >= encoded && got <= most, "%d bytes encoded, %d reported, at most %d", encoded, got, most)
		})
	}
}

// switching labels change their function halfway, and have weights of at most 1.
func switching(seed uint64, n int) []modeltest.Sample {
	all := bounded(losses.Squared, seed, n)
	for i := range all {
		all[i].Weight = []float64{1, 0.4, 0.9}[i%3]
	}
	return all
}

// The certificate of the report is what the learner lost beyond the best kernel's descent, and
// the bound of eq. (46) on this descent, for θ̂ solved densely and gradients written out:
//
//	loss − L_p + ‖θ̂‖²/2η + (η/2) Σω²‖∇_p‖² + λ(Ω−1)‖θ̂‖²
//
// of AdaRaker the least over its experts. No regret exceeds it.
func TestCertificateOfDescent_JMLR_Lemma1_Eq46(t *testing.T) {
	const rounds = 300
	for seed := range uint64(3) {
		maps := gaussians(40+seed, 3, 5)
		o := options(losses.Squared)
		o.TrackRegret = true
		stream := switching(50+seed, rounds)
		r, a := raker.NewRaker(maps, o), raker.NewAdaRaker(maps, o)
		n, ada := newNaive(maps, o), &naiveAda{maps: maps, o: o, rakers: map[span]*naive{}, h: map[span]float64{}}
		loss, adaLoss, weights, energy := 0.0, 0.0, 0.0, 0.0
		for round, s := range stream {
			z := features(maps, s.X)
			miss, adaMiss := s.Y-n.predict(z), s.Y-ada.observe(z, s.Y, s.Weight)
			n.update(z, s.Y, s.Weight, o.Step)
			loss, adaLoss = loss+s.Weight*miss*miss, adaLoss+s.Weight*adaMiss*adaMiss
			weights, energy = weights+s.Weight, energy+s.Weight*s.Y*s.Y
			observe(t, r, s)
			observe(t, a, s)
			for name, l := range map[string]model.Learner{"raker": r, "ada_raker": a} {
				got := l.Report(model.ReportOptions{})
				require.False(t, !got.CertificateOK || got.Regret > got.Certificate, "seed %d, round %d, %s: regret %g, certificate %g", seed, round, name, got.Regret, got.Certificate)
			}
		}
		best, norm, p := math.Inf(1), 0.0, 0
		for k, m := range maps {
			if h, penalty, _ := ridge(t, m, stream, o.Lambda); h < best {
				best, norm, p = h, penalty/o.Lambda, k
			}
		}
		of := func(n *naive, step float64) float64 {
			return -n.lost[p] + norm/(2*step) + step/2*n.slopes[p] + o.Lambda*(weights-1)*norm
		}
		least := math.Inf(1)
		for _, i := range spans(rounds) {
			least = math.Min(least, of(ada.rakers[i], ada.step(i)))
		}
		for name, c := range map[string]struct {
			got  model.Report
			want float64
		}{"raker": {r.Report(model.ReportOptions{}), loss + of(n, o.Step)}, "ada_raker": {a.Report(model.ReportOptions{}), adaLoss + least}} {
			assert.False(t, math.Abs(c.got.Certificate-c.want) > 1e-9*(energy+math.Abs(c.want)), "seed %d, %s: %g, want %g", seed, name, c.got.Certificate, c.want)
			t.Logf("seed %d, %s: regret %.3g, certificate %.3g", seed, name, c.got.Regret, c.got.Certificate)
		}
	}
}

// A step that is cut, a decay, an average and cold experts have no certificate.
func TestDescentsWithoutACertificate(t *testing.T) {
	plain := options(losses.Squared)
	plain.TrackRegret = true
	maps := gaussians(1, 3, 5)[:1]
	cut, decay, average, cold, unsolved := plain, plain, plain, plain, plain
	cut.Step, decay.Decay, average.Average, cold.Cold, unsolved.TrackRegret = 50, 0.5, true, true, false
	for name, l := range map[string]model.Learner{
		"cut": raker.NewRaker(maps, cut), "decay": raker.NewRaker(maps, decay), "average": raker.NewRaker(maps, average),
		"cold": raker.NewAdaRaker(maps, cold), "unsolved": raker.NewRaker(maps, unsolved),
	} {
		for _, s := range switching(2, 20) {
			observe(t, l, s)
		}
		got := l.Report(model.ReportOptions{}).Certificate
		assert.True(t, math.IsNaN(got), "%s: %g", name, got)
	}
}
