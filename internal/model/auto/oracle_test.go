package auto_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/auto"
	"hindsight/internal/model/modeltest"
)

// observation is a row of a stream of several outputs.
type observation struct {
	x, y   []float64
	weight float64
}

// compare takes observations through the learner and the naive one, each label
// so many rounds late, and holds every prediction to 1e-8 of the labels' size.
func compare(t *testing.T, o auto.Options, rows []observation, delay int) {
	t.Helper()
	l, n := auto.NewLevel1(o), newNaive(o)
	predictions, said := make([]model.Prediction, delay+1), make([]*served, delay+1)
	var out model.Outcome
	size, signs := 0.0, true
	for _, r := range rows {
		for _, y := range r.y {
			size, signs = math.Max(size, math.Abs(y)), signs && math.Abs(y) == 1
		}
	}
	near := func(round int, what string, got, want []float64) {
		t.Helper()
		for j := range want {
			require.True(t, math.Abs(got[j]-want[j]) <= 1e-8*size, "round %d: %s %d is %.15g, want %.15g", round, what, j, got[j], want[j])
		}
	}
	for round, r := range rows {
		at := round % len(predictions)
		p := &predictions[at]
		require.NoError(t, l.Predict(p, r.x))
		said[at] = n.predict(r.x, n.lags())
		near(round, "prediction", p.Values, said[at].values)
		if signs && o.Outputs == 1 && round > 0 {
			near(round, "probability", []float64{p.Probability}, []float64{said[at].probability})
		}
		if round < delay {
			continue
		}
		r, at = rows[round-delay], (round-delay)%len(predictions)
		want := n.observe(r.x, r.y, r.weight, said[at])
		require.NoError(t, l.ObserveAdvised(&out, r.x, r.y, r.weight, predictions[at].Advice))
		near(round, "outcome", out.Predictions, want)
	}
}

// The learner is what the naive one computes: dense systems solved anew each
// round, every mean and deviation summed over all rows.
func TestNaive(t *testing.T) {
	for name, c := range map[string]struct {
		outputs, lags, rounds, delay int
		label                        func(y float64) float64
		weighted                     bool
		joint                        []auto.Span
	}{
		"plain":              {outputs: 1, lags: 2, rounds: 500},
		"joint inputs":       {outputs: 1, lags: 2, rounds: 300, joint: []auto.Span{{From: 1, To: 3}}},
		"all joint":          {outputs: 1, lags: 1, rounds: 200, joint: []auto.Span{{From: 0, To: 1}, {From: 1, To: 3}}},
		"no lags":            {outputs: 1, rounds: 200},
		"weights":            {outputs: 1, lags: 2, rounds: 300, weighted: true},
		"two outputs":        {outputs: 2, lags: 1, rounds: 250},
		"late":               {outputs: 1, lags: 2, rounds: 300, delay: 1},
		"very late, weights": {outputs: 2, lags: 2, rounds: 250, delay: 20, weighted: true},
		"very late":          {outputs: 1, lags: 2, rounds: 250, delay: 20},
		"classes":            {outputs: 1, lags: 2, rounds: 300, label: func(y float64) float64 { return math.Copysign(1, y) }},
		"late classes":       {outputs: 1, lags: 3, rounds: 200, delay: 3, label: func(y float64) float64 { return math.Copysign(1, y) }},
	} {
		t.Run(name, func(t *testing.T) {
			var rows []observation
			rng, last := rand.New(rand.NewPCG(1, 2)), 0.0
			rounds := c.rounds
			if modeltest.RaceDetector {
				rounds = 140 // The detector slows dense systems down.
			}
			for n := range rounds {
				r := observation{x: []float64{100 + 7*rng.NormFloat64(), rng.Float64(), float64(n / 50)}, weight: 1}
				last = 0.8*last + math.Sin(5*r.x[1]) + 0.3*rng.NormFloat64()
				for j := range c.outputs {
					y := last + float64(j)*r.x[0]
					if c.label != nil {
						y = c.label(y)
					}
					r.y = append(r.y, y)
				}
				if c.weighted {
					r.weight = math.Exp(rng.NormFloat64())
					if n%9 == 4 {
						r.weight = model.MinWeight
					}
				}
				rows = append(rows, r)
			}
			compare(t, auto.Options{
				Dimension: 3, Outputs: c.outputs, Lags: c.lags, Frequencies: 5, Microseconds: 1e6, Seed: 9,
				Joint: c.joint,
			}, rows, c.delay)
		})
	}
}

// On published streams too, over their first 2,000 rounds.
func TestNaiveStreams(t *testing.T) {
	if testing.Short() {
		t.Skip("solves dense systems: not in short mode")
	}
	for _, name := range []string{"air", "elec2"} {
		t.Run(name, func(t *testing.T) {
			samples := modeltest.Stream(t, fmt.Sprint(name, ".csv.gz"), 2000)
			var rows []observation
			for _, s := range samples {
				rows = append(rows, observation{x: s.X, y: []float64{s.Y}, weight: 1})
			}
			compare(t, auto.Options{
				Dimension: len(samples[0].X), Outputs: 1, Lags: 2, Frequencies: 4, Microseconds: 1e6, Seed: 5,
			}, rows, 0)
		})
	}
}
