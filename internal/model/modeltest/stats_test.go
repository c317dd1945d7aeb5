package modeltest_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/kernel"
	"hindsight/internal/model/losses"
	"hindsight/internal/model/modeltest"
	"hindsight/internal/model/raker"
)

func tracked() model.Learner {
	o := raker.DefaultOptions(losses.Squared, false)
	o.TrackRegret = true
	rng := rand.New(rand.NewPCG(1, 2))
	k := kernel.Kernel{Kind: kernel.Gaussian, Sigma: 1}
	return raker.New([]feature.Map{feature.NewFourier(k, 2, 8, true, rng)}, o)
}

// solving is a learner whose Stats solves for the regret.
type solving struct{ model.Learner }

func (s solving) Stats() model.Stats {
	stats, report := s.Learner.Stats(), s.Report(model.ReportOptions{})
	stats.Regret, stats.HindsightLoss, stats.ReportFlops = report.Regret, report.HindsightLoss, 0
	return stats
}

// allocating is a learner whose Size allocates.
type allocating struct{ model.Learner }

func (a allocating) Size() uint64 {
	copied, _ := a.AppendBinary(nil) // It does not fail for a learner in memory.
	return a.Learner.Size() + uint64(len(copied)-cap(copied[:len(copied):len(copied)]))
}

// differing is a learner whose Stats knows another regret than its Report.
type differing struct{ solving }

func (d differing) Stats() model.Stats {
	stats := d.solving.Stats()
	stats.Regret++
	return stats
}

// The suite fails learners that break what it is for.
func TestTheSuiteFindsWhatIsWrong(t *testing.T) {
	good := tracked()
	for _, s := range modeltest.Samples(1, 2, 20) {
		_, err := modeltest.Observe(good, s.X, s.Y, s.Weight)
		require.NoError(t, err)
	}
	assert.NoError(t, modeltest.CheckStats(good))
	assert.NoError(t, modeltest.CheckReport(good))
	assert.Error(t, modeltest.CheckStats(solving{good}), "a Stats that solves passes")
	assert.Error(t, modeltest.CheckStats(allocating{good}), "a Size that allocates passes")
	assert.Error(t, modeltest.CheckReport(differing{solving{good}}), "two regrets pass")
}
