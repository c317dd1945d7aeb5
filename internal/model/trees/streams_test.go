package trees_test

import (
	"flag"
	"math"
	"os"
	"testing"
	"time"

	"hindsight/internal/model"
	"hindsight/internal/model/auto"
	"hindsight/internal/model/modeltest"
	"hindsight/internal/model/trees"
)

var rounds = flag.Int("rounds", 4000, "rows of each stream, 0 for all")

// TestStreams measures each column alone on published streams, against the mixture that
// serves v.
func TestStreams(t *testing.T) {
	if testing.Short() || os.Getenv("HINDSIGHT_STREAMS") == "" {
		t.Skip("measures published streams: HINDSIGHT_STREAMS names their directory; not in short mode")
	}
	for _, name := range []string{"bike", "casp", "elec2"} {
		t.Run(name, func(t *testing.T) { measure(t, name) })
	}
}

func measure(t *testing.T, name string) {
	t.Helper()
	samples := modeltest.Stream(t, name+".csv.gz", -1)
	modeltest.Scale(samples)
	low, high := math.Inf(1), math.Inf(-1)
	for _, s := range samples {
		low, high = math.Min(low, s.Y), math.Max(high, s.Y)
	}
	for i := range samples {
		samples[i].Y = (samples[i].Y - low) / (high - low)
		if name == "elec2" {
			samples[i].Y = 2*samples[i].Y - 1
		}
	}
	if *rounds > 0 {
		samples = samples[:min(*rounds, len(samples))]
	}
	d := len(samples[0].X)
	options := auto.Options{Dimension: d, Outputs: 1, Lags: 2, Frequencies: 50, Microseconds: 500}
	for len(auto.AdviceSizes(options)) > 1 { // Until there is no room for level 2.
		options.Microseconds--
	}
	level1 := auto.New(options)
	s := newStream(trees.Options{Seed: 1, Inputs: d, Columns: allKinds()})
	var o model.Outcome
	var loss [trees.Kinds]float64
	first, took, worst := 0.0, time.Duration(0), time.Duration(0)
	predictions := make([]float64, trees.Kinds)
	for n, sample := range samples {
		if err := level1.Observe(&o, sample.X, []float64{sample.Y}, 1); err != nil {
			t.Fatal(err)
		}
		v := o.Predictions[0]
		first += (v - sample.Y) * (v - sample.Y)
		begin := time.Now()
		if n < 128 {
			for c := range predictions {
				predictions[c] = v
			}
			s.keep(sample, v)
		} else {
			s.predict(predictions, sample.X, v)
			begin = time.Now()
			s.observe(sample, v)
		}
		took, worst = took+time.Since(begin), max(worst, time.Since(begin))
		for c, p := range predictions {
			loss[c] += (p - sample.Y) * (p - sample.Y)
		}
	}
	count := float64(len(samples))
	t.Logf("%s: v1 %.5f; columns over v1: %.3f, %.3f, %.3f, %.3f; %v an observation, at most %v", name, first/count,
		loss[0]/first, loss[1]/first, loss[2]/first, loss[3]/first, took/time.Duration(len(samples)), worst)
}
