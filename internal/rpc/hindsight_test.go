package rpc_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// path asks for the statistics with the losses in hindsight of the first features.
func (s *service) path(t *testing.T, id string) *hindsightv1.ModelStats {
	t.Helper()
	r := must(s.models.GetModelStats(t.Context(), &hindsightv1.GetModelStatsRequest{Model: id, IncludeHindsightPath: true}))(t)
	return r.GetStats()
}

// The regret against the kernel's space, between the regret and the loss, and the losses in hindsight are there for
// those who ask.
func TestFiguresThatAreAskedFor(t *testing.T) {
	s := serve(t)
	s.create(t, "m", &hindsightv1.ModelSpec{
		Dimension: 2, Scaling: unscaled(), Learner: &hindsightv1.ModelSpec_PkawvTaylor{PkawvTaylor: &hindsightv1.PkawvTaylor{}},
	})
	for n := range 40 {
		x := []float64{math.Sin(float64(n)), math.Cos(float64(n * n))}
		must(s.Observe(t.Context(), &hindsightv1.ObserveRequest{Model: "m", Features: x, Target: label(x[0] - 2*x[1])}))(t)
	}
	asked := must(s.models.GetModelStats(t.Context(), &hindsightv1.GetModelStatsRequest{Model: "m", IncludeRegretRkhs: true}))(t).GetStats()
	r := asked.RegretRkhs
	assert.False(t, r == nil || *r < asked.GetRegret() || *r > asked.GetLossSum(), "%v: the regret is %g, the loss %g", r, asked.GetRegret(), asked.GetLossSum())
	if st := s.path(t, "m"); st.RegretRkhs != nil || len(st.GetHindsightPath()) != int(st.GetFeatures())+1 || len(asked.GetHindsightPath()) > 0 {
		t.Errorf("not asked for: %v, %v; asked for: %v", st.RegretRkhs, asked.GetHindsightPath(), st.GetHindsightPath())
	}
}
