package raker_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"hindsight/internal/model"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/kernel"
	"hindsight/internal/model/loops"
	"hindsight/internal/model/losses"
	"hindsight/internal/model/modeltest"
	"hindsight/internal/model/raker"
)

// The setting of the figures: D = 50 frequencies, P = 3 kernels, d = 25 inputs, and
// the 13 experts that an AdaRaker has after 4096 rounds.
const (
	benchDimension, benchFrequencies = 25, 50
	benchExperts, benchRounds        = 13, 4096
)

func fourierMaps() []feature.Map {
	var maps []feature.Map
	rng := rand.New(rand.NewPCG(61, 62))
	for _, square := range []float64{0.1, 1, 10} {
		k := kernel.Kernel{Kind: kernel.Gaussian, Sigma: math.Sqrt(square)}
		maps = append(maps, feature.NewFourier(k, benchDimension, benchFrequencies, true, rng))
	}
	return maps
}

// way is something done with one observation, which Observe does or did.
type way struct {
	name string
	run  func(s *modeltest.Sample)
}

// ways are Observe of the learners, and its parts alone.
func ways(b *testing.B, samples []modeltest.Sample) []way {
	b.Helper()
	maps := fourierMaps()
	size := maps[0].Size()
	z, v := make([]float64, len(maps)*size), make([]float64, len(maps)*size*benchDimension/2)
	theta := make([]float64, benchExperts*len(z))
	rng := rand.New(rand.NewPCG(63, 64))
	for i := range v {
		v[i] = rng.NormFloat64()
	}
	for i := range theta {
		theta[i] = 1e-3 * rng.NormFloat64()
	}
	list := []way{
		{"product and sincos of the standard library", func(s *modeltest.Sample) { productAndSincos(z, v, s.X) }},
		{"maps", func(s *modeltest.Sample) { mapAll(maps, z, s.X) }},
		{"products with weights", func(*modeltest.Sample) { products(theta, z, size) }},
		{"gradient steps", func(*modeltest.Sample) { steps(theta, z, size) }},
	}
	for _, learner := range []struct {
		name              string
		adaptive, tracked bool
	}{
		{"raker", false, false},
		{"raker tracked", false, true},
		{"adaraker", true, false},
		{"adaraker tracked", true, true},
	} {
		o := raker.DefaultOptions(losses.Squared, learner.adaptive)
		o.TrackRegret = learner.tracked
		var l model.Learner = raker.NewRaker(maps, o)
		if learner.adaptive {
			l = raker.NewAdaRaker(maps, o)
		}
		var out model.Outcome
		label := make([]float64, 1)
		observe := func(s *modeltest.Sample) {
			label[0] = s.Y
			if err := l.Observe(&out, s.X, label, 1); err != nil {
				b.Fatal(err)
			}
		}
		for n := range benchRounds {
			observe(&samples[n%len(samples)])
		}
		var p model.Prediction
		list = append(list, way{learner.name + " observe", observe})
		if !learner.tracked {
			list = append(list, way{learner.name + " predict", func(s *modeltest.Sample) {
				if err := l.Predict(&p, s.X); err != nil {
					b.Fatal(err)
				}
			}})
		}
	}
	return list
}

// These are functions of their own: in the body of b.Loop the compiler would keep
// every variable alive.

// productAndSincos is what the maps cost before they were vectorised.
func productAndSincos(z, v, x []float64) {
	half := len(z) / 2
	for i := range half {
		row := v[i*len(x):][:len(x)]
		angle := 0.0
		for j, u := range row {
			angle += float64(u * x[j])
		}
		z[i], z[half+i] = math.Sincos(angle)
	}
}

func mapAll(maps []feature.Map, z, x []float64) {
	for _, m := range maps {
		m.Map(z[:m.Size()], x)
		z = z[m.Size():]
	}
}

func products(theta, z []float64, size int) {
	total := 0.0
	for e := 0; e < len(theta); e += len(z) {
		for p := 0; p < len(z); p += size {
			total += loops.Dot(theta[e+p:e+p+size], z[p:p+size])
		}
	}
	if math.IsNaN(total) {
		panic("NaN")
	}
}

func steps(theta, z []float64, size int) {
	for e := 0; e < len(theta); e += len(z) {
		for p := 0; p < len(z); p += size {
			loops.Descend(theta[e+p:e+p+size], z[p:p+size], 1-1e-5, 1e-6)
		}
	}
}

func BenchmarkRound(b *testing.B) {
	samples := modeltest.Samples(1, benchDimension, 1024)
	for _, w := range ways(b, samples) {
		b.Run(w.name, func(b *testing.B) {
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				w.run(&samples[n%len(samples)])
			}
		})
	}
}

// BenchmarkRatios compares Observe with its parts in turns of 64 rounds, by
// medians, so that what else a machine does meanwhile falls on all alike.
func BenchmarkRatios(b *testing.B) {
	const rounds = 64
	samples := modeltest.Samples(1, benchDimension, rounds)
	list := ways(b, samples)
	times := make([][]float64, len(list))
	for b.Loop() {
		for i, w := range list {
			start := time.Now()
			for n := range samples {
				w.run(&samples[n])
			}
			times[i] = append(times[i], float64(time.Since(start).Nanoseconds())/rounds)
		}
	}
	median := map[string]float64{}
	for i, w := range list {
		slices.Sort(times[i])
		median[w.name] = times[i][len(times[i])/2]
		b.Logf("%-45s %8.0f ns", w.name, median[w.name])
	}
	before, maps := median["product and sincos of the standard library"], median["maps"]
	parts := maps + median["products with weights"]
	observe, tracking := median["adaraker observe"], median["adaraker tracked observe"]-median["adaraker observe"]
	b.ReportMetric(observe/before, "observe/before")
	b.ReportMetric(tracking/before, "tracking/before")
	b.ReportMetric(observe/parts, "observe/(maps+products)")
	b.ReportMetric(observe/(parts+median["gradient steps"]), "observe/(maps+products+steps)")
	b.ReportMetric(tracking/parts, "tracking/(maps+products)")
}
