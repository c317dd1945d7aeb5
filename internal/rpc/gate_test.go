package rpc_test

import (
	"math"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// A label that cannot be right is set aside and counted, and a retry gets the same answer.
func TestLabelsSetAside(t *testing.T) {
	s := serve(t)
	s.create(t, "m", &hindsightv1.ModelSpec{Dimension: 1})
	observe := func(n int, y float64) *hindsightv1.Outcome {
		r := must(s.Observe(t.Context(), &hindsightv1.ObserveRequest{
			Model: "m", ObservationId: strconv.Itoa(n), Features: []float64{math.Sin(float64(n))}, Target: label(y),
		}))(t)
		return r.GetOutcome()
	}
	const bad = 200
	for n := range bad {
		o := observe(n, math.Sin(3*math.Sin(float64(n)))+0.1*math.Cos(float64(n*n)))
		require.False(t, o.GetSetAside(), "observation %d: %v", n, o)
	}
	first, again := observe(bad, 1e6), observe(bad, 1e6)
	assert.False(t, !first.GetSetAside() || first.GetSequence() != bad+1 || first.GetLoss() < 0.9e12 || first.GetDuplicate() || !again.GetDuplicate(), "%v, then %v", first, again)
	again.Duplicate = false
	assert.True(t, proto.Equal(first, again), "%v, then %v", first, again)
	r := must(s.models.GetModelStats(t.Context(), &hindsightv1.GetModelStatsRequest{Model: "m"}))(t)
	g := r.GetStats().GetLabelGate()
	assert.False(t, g.GetSetAside() != 1 || g.GetLastSetAside() != bad+1 || g.GetShare() != 1./(bad+1) || g.GetSetAsideLoss() < 0.9e12 || g.GetStarts() != 0 || g.RegretBeside == nil, g)
}
