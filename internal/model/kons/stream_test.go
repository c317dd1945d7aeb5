package kons_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"

	"hindsight/internal/model"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/kons"
	"hindsight/internal/model/losses"
	"hindsight/internal/model/modeltest"
)

// table reads the first rows of a stream with inputs, and labels that are no signs, on
// [0, 1] by the whole of it. It answers the bandwidth of research/results too: σ² is the mean
// squared distance of two rows, and σ has two digits.
func table(t *testing.T, name string, rows int, scaled bool) (samples []modeltest.Sample, sigma float64) {
	t.Helper()
	samples = modeltest.Stream(t, name+".csv.gz", -1)
	if testing.Short() || modeltest.RaceDetector {
		t.Skip("long")
	}
	if scaled {
		modeltest.Scale(samples)
		low, high, signs := math.Inf(1), math.Inf(-1), true
		for _, s := range samples {
			low, high, signs = math.Min(low, s.Y), math.Max(high, s.Y), signs && math.Abs(s.Y) == 1
		}
		for i := range samples {
			if !signs {
				samples[i].Y = (samples[i].Y - low) / (high - low)
			}
		}
	}
	n, distance := float64(len(samples)), 0.0
	for j := range samples[0].X {
		mean, squares := 0.0, 0.0
		for _, s := range samples {
			mean += s.X[j] / n
		}
		for _, s := range samples {
			squares += (s.X[j] - mean) * (s.X[j] - mean) / n
		}
		distance += 2 * squares
	}
	sigma = math.Sqrt(distance)
	digits := math.Pow(10, 1-math.Floor(math.Log10(sigma)))
	if rows < 0 {
		rows = len(samples)
	}
	return samples[:rows], math.Round(sigma*digits) / digits
}

func drawn(seed uint64, sigma float64, d int) feature.Map {
	return feature.NewFourier(gaussian(sigma), d, 50, true, rand.New(rand.NewPCG(seed, 0x666f7572)))
}

// The defaults over 50 frequencies lose no more than this on the streams of
// research/results: the loss of what has a range, errors of what is a class. The features of
// another seed change the second digit.
func TestNewtonOnRealStreams(t *testing.T) {
	classes := kons.Options{Alpha: 0.01, Loss: losses.Logistic, Clip: 5}
	for _, c := range []struct {
		name    string
		o       kons.Options
		scaled  bool
		largest float64
	}{
		{"air", kons.Options{Alpha: 1, High: 1, TrackRegret: true}, false, 0.95e-3},
		{"elec2", classes, true, 0.12},
		{"ijcnn1", classes, true, 0.045},
	} {
		t.Run(c.name, func(t *testing.T) {
			samples, sigma := table(t, c.name, -1, c.scaled)
			l := kons.New(drawn(1, sigma, len(samples[0].X)), c.o)
			squared, wrong := modeltest.Scores(t, l, samples)
			got := squared
			if c.o.Loss != losses.Squared {
				got = wrong
			}
			s := l.Stats()
			t.Logf("%.5g; %+v", got, s)
			assert.True(t, got <= c.largest && s.Certified && s.CertificateOK, "%.5g, want at most %g; %+v", got, c.largest, s)
		})
	}
}

// A dictionary that joins new features to what was learned does better than one that
// starts anew with each. PROS-N-KONS (NeurIPS 2017) starts anew.
func TestNystromOnRealStreams(t *testing.T) {
	samples, sigma := table(t, "elec2", 12_000, true)
	errors := map[bool]float64{}
	for _, restart := range []bool{false, true} {
		l := nystrom(kons.Options{Alpha: 0.01, Loss: losses.Logistic, Clip: 5}, func(o *kons.NystromOptions) {
			o.Dictionary.Kernel, o.Dictionary.Dimension, o.Restart = gaussian(sigma), len(samples[0].X), restart
		})
		_, errors[restart] = modeltest.Scores(t, l, samples)
		t.Logf("restart %v: %.4f, %+v", restart, errors[restart], l.Stats())
	}
	assert.True(t, errors[false] <= 0.1 && errors[true] > errors[false], "errors %v, want at most 0.1 of the one that grows", errors)
}

// Over 500 rounds of real streams every learner takes the steps of eq. (1) as they are
// solved densely. The exact learner has a kernel with few features, so that
// there is a dense solution.
func TestRealStreamsAgreeWithDenseRecursion(t *testing.T) {
	const rounds = 500
	quadratic := func(x []float64) []float64 {
		z := []float64{1}
		for i, v := range x {
			z = append(z, math.Sqrt2*v, v*v)
			for _, w := range x[:i] {
				z = append(z, math.Sqrt2*v*w)
			}
		}
		return z
	}
	for _, c := range []struct {
		name   string
		scaled bool
		o      kons.Options
	}{
		{"casp", true, kons.Options{Alpha: 1, TrackRegret: true}},
		{"elec2", true, kons.Options{Alpha: 0.01, Loss: losses.Logistic, Clip: 5}},
		{"air", false, kons.Options{Alpha: 1, High: 1}},
		{"ijcnn1", true, kons.Options{Alpha: 0.01, Loss: losses.SquaredHinge, Clip: 1}},
	} {
		samples, sigma := table(t, c.name, rounds, c.scaled)
		d := len(samples[0].X)
		few := min(d, 8) // Inputs of the exact learner.
		fixed := feature.NewFourier(gaussian(sigma), d, 25, true, rand.New(rand.NewPCG(1, 2)))
		grown := feature.NewNystrom(gaussian(sigma), d, 1e12)
		for name, each := range map[string]struct {
			l      model.Learner
			phi    func(x []float64) []float64
			inputs int
		}{
			"newton": {kons.New(fixed, c.o), mapped(fixed), d},
			"grow": {nystrom(c.o, func(o *kons.NystromOptions) {
				o.Dictionary.Kernel, o.Dictionary.Dimension, o.Dictionary.Capacity = gaussian(sigma), d, 40
			}), mapped(grown), d},
			"exact":    {exact(c.o, func(o *kons.ExactOptions) { o.Kernel, o.Dimension = polynomial(), few }), quadratic, few},
			"sketched": {exact(c.o, func(o *kons.ExactOptions) { o.Kernel, o.Dimension, o.Gamma = polynomial(), few, 0.1 }), quadratic, few},
		} {
			t.Run(c.name+", "+name, func(t *testing.T) {
				before := 0
				n := newNaive(c.o, each.phi)
				n.gram = each.inputs == few
				if name == "sketched" {
					n.enters = func() bool { return each.l.Stats().Dictionary > before }
				}
				for _, s := range samples {
					s.X, s.Weight = s.X[:each.inputs], 1
					before = each.l.Stats().Dictionary
					got := observe(t, each.l, s).Prediction
					if name == "grow" && each.l.Stats().Dictionary > grown.Size() {
						grown.Grow(s.X)
					}
					n.observe(t, s, got)
				}
				t.Logf("largest error over %d rounds: %.2g of its bound; condition %.2g, %d cuts, %d centres",
					rounds, n.worst, n.condition, n.cuts, each.l.Stats().Dictionary)
			})
		}
	}
}
