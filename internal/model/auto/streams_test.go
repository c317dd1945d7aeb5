package auto_test

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/auto"
	"hindsight/internal/model/modeltest"
)

var whole = flag.Bool("whole", false, "measure whole streams, also with late labels, and print the figures")

// published is a stream, and what auto is held to on it: the mean squared error,
// or for labels −1 and 1 the share of errors, over the whole of it.
type published struct {
	name string
	// asIs streams are sent as they are, of the others columns and labels are
	// scaled to [0, 1].
	asIs, signs bool
	bar         float64
	// start is what it is held to in the first rounds.
	start float64
}

const startRounds = 1500

func publishedStreams() []published {
	return []published{
		{name: "air", asIs: true, bar: 0.60e-3, start: 0.49e-3},
		{name: "energy_adaraker", asIs: true, bar: 11.8e-3, start: 14.7e-3},
		{name: "air_raw", bar: 0.60e-3, start: 0.49e-3},
		{name: "energy", bar: 4.27e-3, start: 5.45e-3},
		{name: "energy_appliances", bar: 3.72e-3, start: 5.8e-3},
		{name: "bike", bar: 3.1e-3, start: 0.75e-3},
		{name: "casp", bar: 52.3e-3, start: 59e-3},
		{name: "elec2", signs: true, bar: 0.078, start: 0.046},
		{name: "ijcnn1", signs: true, bar: 0.0115, start: 0.008},
		{name: "movement", asIs: true, signs: true, bar: 0.013, start: 0.0195},
	}
}

// missingLabel is the label of the rows of air_raw that have none.
const missingLabel = -200

// samples reads a stream as hindsight-research sends it, or raw. Losses are then
// those of labels in units of their range.
func (p published) samples(t *testing.T, n int, raw bool) (samples []modeltest.Sample, unit float64) {
	t.Helper()
	for _, s := range modeltest.Stream(t, p.name+".csv.gz", -1) {
		if s.Y != missingLabel {
			samples = append(samples, s)
		}
	}
	low, high := math.Inf(1), math.Inf(-1)
	for _, s := range samples {
		low, high = math.Min(low, s.Y), math.Max(high, s.Y)
	}
	switch {
	case p.asIs || p.signs:
		unit = 1
	case raw:
		unit = high - low
	default:
		unit = 1
		for i := range samples {
			samples[i].Y = (samples[i].Y - low) / (high - low)
		}
	}
	if !p.asIs && !raw {
		modeltest.Scale(samples)
	}
	return samples[:min(n, len(samples))], unit
}

func streamed(t *testing.T) int {
	t.Helper()
	if testing.Short() || os.Getenv("HINDSIGHT_STREAMS") == "" {
		t.Skip("measures published streams: HINDSIGHT_STREAMS names their directory; not in short mode")
	}
	if *whole {
		return math.MaxInt
	}
	return startRounds
}

func defaults(dimension int) auto.Options {
	return auto.Options{Dimension: dimension, Outputs: 1, Lags: 2, Frequencies: 50, Microseconds: 500}
}

// On every published stream the defaults are as good as promised, and what is
// sent raw is within 1 % of that.
func TestStreams(t *testing.T) {
	n := streamed(t)
	for _, p := range publishedStreams() {
		t.Run(p.name, func(t *testing.T) {
			scaled := measure(t, p, n, false)
			bar := p.bar
			if !*whole {
				bar = p.start
			}
			assert.LessOrEqual(t, scaled, bar, "%g, want at most %g", scaled, bar)
			if *whole && !p.asIs {
				assert.LessOrEqual(t, measure(t, p, n, true), 1.01*scaled, scaled)
			}
		})
	}
}

// measure takes a stream through the defaults.
func measure(t *testing.T, p published, n int, raw bool) float64 {
	t.Helper()
	samples, unit := p.samples(t, n, raw)
	l := auto.NewLevel1(defaults(len(samples[0].X)))
	var o model.Outcome
	errors, loss, start := 0, 0.0, time.Now()
	for _, s := range samples {
		require.NoError(t, l.Observe(&o, s.X, []float64{s.Y}, s.Weight))
		loss += o.Loss
		if o.Predictions[0]*s.Y <= 0 {
			errors++
		}
	}
	took, count := time.Since(start), float64(len(samples))
	mean := loss / count / unit / unit
	experts, s := l.Report(model.ReportOptions{}).Experts, l.Stats()
	best := slices.MinFunc(experts[:l.Experts()], func(a, b model.Expert) int { return cmp.Compare(a.Loss, b.Loss) })
	t.Logf("raw %v: mean squared error %.4g, errors %.3f %%, best expert %.4g (%s), b %.4g, regret %.3g, certificate %.3g, bound %.3g, %.0f µs",
		raw, mean, 100*float64(errors)/count, best.Loss/count/unit/unit, best.Name, experts[l.Experts()].Loss/count/unit/unit,
		s.Regret, s.Certificate, s.RegretBound, took.Seconds()*1e6/count)
	assert.True(t, s.CertificateOK && s.Certified, "%+v", s)
	if p.signs {
		return float64(errors) / count
	}
	return mean
}

// With late labels what was served is nearly as good as the best of what the
// experts served, or better.
func TestLateLabels(t *testing.T) {
	n := streamed(t)
	for _, p := range publishedStreams() {
		if !*whole && p.name != "bike" && p.name != "elec2" {
			continue
		}
		for _, delay := range []int{1, 10, 100} {
			t.Run(fmt.Sprint(p.name, " ", delay), func(t *testing.T) {
				samples, _ := p.samples(t, n, false)
				late(t, p, samples, delay)
			})
		}
	}
}

func late(t *testing.T, p published, samples []modeltest.Sample, delay int) {
	t.Helper()
	l := auto.NewLevel1(defaults(len(samples[0].X)))
	predictions := make([]model.Prediction, delay+1)
	var o model.Outcome
	served, prequential, errors, rounds, experts := 0.0, 0.0, 0, 0, make([]float64, l.Experts())
	for n, s := range samples {
		require.NoError(t, l.Predict(&predictions[n%len(predictions)], s.X))
		if n < delay {
			continue
		}
		s, q := samples[n-delay], &predictions[(n-delay)%len(predictions)]
		require.NoError(t, l.ObserveAdvised(&o, s.X, []float64{s.Y}, 1, q.Advice))
		if q.Advice[0] == 0 {
			continue // Served before there was any label.
		}
		rounds++
		served += (q.Values[0] - s.Y) * (q.Values[0] - s.Y)
		prequential += o.Loss
		if q.Values[0]*s.Y <= 0 {
			errors++
		}
		for k, f := range l.Served(q.Advice) {
			experts[k] += (f - s.Y) * (f - s.Y)
		}
	}
	best := 0
	for k, v := range experts {
		if v < experts[best] {
			best = k
		}
	}
	count := float64(rounds)
	ratio := served / experts[best]
	t.Logf("%s, labels %d late: served %.4g, prequential %.4g, best expert %.4g (%d), ratio %.3f, errors %.2f %%",
		p.name, delay, served/count, prequential/count, experts[best]/count, best, ratio, 100*float64(errors)/count)
	limit := map[int]float64{1: 1, 10: 1, 100: 1.08}[delay]
	assert.False(t, *whole && ratio > limit, "served %g times the best expert's loss, want at most %g", ratio, limit)
	s := l.Stats()
	assert.True(t, !s.Certified && s.CertificateOK, "%+v", s)
}
