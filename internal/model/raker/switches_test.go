package raker_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/losses"
	"hindsight/internal/model/modeltest"
	"hindsight/internal/model/raker"
)

// ends are the rounds that a learner has marked, and the last one: multiples of a length that
// doubles when there would be 16.
func ends(rounds int) []int {
	length := 64
	for rounds/length >= 16 {
		length *= 2
	}
	var all []int
	for end := length; end < rounds; end += length {
		all = append(all, end)
	}
	return append(all, rounds)
}

// The benchmark of Theorem 3 changes its function at most m times. Its loss is the least over all
// choices of switches among the marks, each piece solved densely from its rows.
func TestSwitchingRegret_JMLR_Thm3(t *testing.T) {
	maps := gaussians(60, 3, 3)[:2]
	o := options(losses.Squared)
	o.TrackRegret, o.TrackSwitches = true, true
	stream := switching(61, 1100)
	l := raker.NewAdaRaker(maps, o)
	loss, energy := 0.0, 0.0
	for n, s := range stream {
		loss += observe(t, l, s).Loss
		energy += s.Weight * s.Y * s.Y
		rounds := n + 1
		if rounds != 1 && rounds != 64 && rounds != 300 && rounds != 1024 && rounds != 1100 {
			continue
		}
		at := append([]int{0}, ends(rounds)...)
		pieces := make([][]float64, len(at))
		for i := range at {
			pieces[i] = make([]float64, len(at))
			for j := i + 1; j < len(at); j++ {
				pieces[i][j] = math.Inf(1)
				for _, m := range maps {
					h, _, _ := ridge(t, m, stream[at[i]:at[j]], o.Lambda)
					pieces[i][j] = math.Min(pieces[i][j], h)
				}
			}
		}
		got := l.Report(model.ReportOptions{})
		if len(got.SwitchingRegret) != len(at)-1 || math.Abs(got.SwitchingRegret[0]-got.Regret) > 1e-9*energy {
			t.Fatalf("round %d: %v of %d pieces, regret %g", rounds, got.SwitchingRegret, len(at)-1, got.Regret)
		}
		for m, regret := range got.SwitchingRegret {
			assert.InDelta(t, loss-cheapest(pieces, 0, m), regret, 1e-9*energy, "%v %v", rounds, m)
		}
		last := len(got.SwitchingRegret) - 1
		assert.True(t, rounds <= 600 || got.SwitchingRegret[1] > got.SwitchingRegret[0] && got.SwitchingRegret[last] >= got.SwitchingRegret[1], "round %d: %v", rounds, got.SwitchingRegret)
	}
	state, err := l.AppendBinary(nil)
	require.NoError(t, err)
	restored := raker.NewAdaRaker(maps, o)
	require.NoError(t, restored.Restore(state))
	for _, s := range modeltest.Samples(1, 3, 100) {
		observe(t, l, s)
		observe(t, restored, s)
	}
	a, b := l.Report(model.ReportOptions{}).SwitchingRegret, restored.Report(model.ReportOptions{}).SwitchingRegret
	for m := range a {
		assert.True(t, a[m] == b[m], "%d switches: %g, restored %g", m, a[m], b[m])
	}
}

// cheapest is the least loss from end i on with at most m switches, by trying all.
func cheapest(pieces [][]float64, i, m int) float64 {
	last := len(pieces) - 1
	least := pieces[i][last]
	for j := i + 1; j < last && m > 0; j++ {
		least = math.Min(least, pieces[i][j]+cheapest(pieces, j, m-1))
	}
	return least
}
