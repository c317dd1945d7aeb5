package engine_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"hindsight/internal/engine"
	"hindsight/internal/model"
)

// hostile is a stream with a switch, labels of growing size, repeated inputs and weights.
func hostile(seed uint64, n int, weights bool) []engine.Observation {
	rng := rand.New(rand.NewPCG(seed, 5))
	all := make([]engine.Observation, n)
	for i := range all {
		x := []float64{rng.NormFloat64(), rng.NormFloat64()}
		if i%7 == 3 {
			x = all[i-1].Features
		}
		y := math.Sin(2*x[0]) - x[1]
		if i > n/2 {
			y = -y
		}
		if i%11 == 5 {
			y *= 3
		}
		all[i] = engine.Observation{Features: x, Labels: []float64{y}, Weight: 1}
		if weights {
			all[i].Weight = math.Exp(rng.NormFloat64()) / 4
		}
	}
	return all
}

func recent(t *testing.T, h *host) engine.Stats {
	t.Helper()
	return must(h.ModelStats(t.Context(), "m", engine.StatsOptions{Recent: true}))(t)
}

// The regret on the last rounds is the regret against ridge regression on their rows alone, by normal equations.
func TestRecentRegretIsThatOfTheRows(t *testing.T) {
	h := start(t, newDisk(), newClock())
	lambda, forgetting := 0.5, 0.95
	h.create(t, "m", model.Spec{Dimension: 2, Scaling: model.Unscaled(), LinearAWV: &model.LinearAWV{Lambda: &lambda, Forgetting: &forgetting}})
	stream := hostile(1, 150, true)
	var losses []float64
	for _, o := range stream {
		losses = append(losses, h.observe(t, "m", o)[0].Loss)
	}
	s := recent(t, h)
	require.True(t, len(s.RecentRegret) == 5 && s.RecentRegret[4].Rounds == 150, "windows %+v", s.RecentRegret)
	for k, w := range s.RecentRegret {
		assert.True(t, k >= 4 || w.Rounds == 16<<k, "window %d of %d rounds", k, w.Rounds)
		gram, right, loss, energy := mat.NewSymDense(3, []float64{lambda, 0, 0, 0, lambda, 0, 0, 0, lambda}), mat.NewVecDense(3, nil), 0.0, 0.0
		for n := 150 - w.Rounds; n < 150; n++ {
			z := mat.NewVecDense(3, append(append([]float64{}, stream[n].Features...), 1))
			weight, y := stream[n].Weight, stream[n].Labels[0]
			gram.SymRankOne(gram, weight, z)
			right.AddScaledVec(right, weight*y, z)
			loss, energy = loss+losses[n], energy+weight*y*y
		}
		var g mat.VecDense
		require.NoError(t, g.SolveVec(gram, right))
		if want := loss - (energy - mat.Dot(right, &g)); math.Abs(w.Regret()-want) > 1e-9*energy || math.Abs(w.Loss-loss) > 1e-9*loss || w.Gap != 0 {
			t.Errorf("last %d: regret %g, loss %g; want %g, %g", w.Rounds, w.Regret(), w.Loss, want, loss)
		}
	}
	assert.Nil(t, h.stats(t, "m").RecentRegret, "a report that does not ask for the recent regret has it")
}

// Rows that a label gate sets aside are no rounds, and after a restore or a cut of the log the report is of
// what the log has.
func TestRecentRegretOfLearnedRows(t *testing.T) {
	h := start(t, files{newFS()}, newClock())
	h.create(t, "m", model.Spec{Dimension: 2, LabelGate: model.GateOn, LinearAWV: &model.LinearAWV{}})
	aside := 0
	for n, o := range hostile(4, 400, false) {
		if n == 350 || n == 370 {
			o.Labels[0] = 1e6
		}
		if h.observe(t, "m", o)[0].SetAside {
			aside++
		}
	}
	s := recent(t, h)
	w := s.RecentRegret[len(s.RecentRegret)-1]
	assert.False(t, aside != 2 || w.Rounds != 398 || w.Loss > 1e6 || math.Abs(w.Regret()-s.Regret) > 1e-8*w.Loss, "%d set aside, %+v, regret %g", aside, w, s.Regret)
	must(h.RestoreModel(t.Context(), "m", 100))(t)
	s = recent(t, h)
	assert.Equal(t, 100, s.RecentRegret[len(s.RecentRegret)-1].Rounds, "after a restore %+v", s.RecentRegret)
}
