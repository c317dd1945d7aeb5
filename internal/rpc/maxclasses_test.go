package rpc_test

import (
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// A classifier whose classes nobody knows takes 64 of them. The spec says so before the model
// is made, and the rejection of one more says what to do.
func TestClassesThatNobodyKnows(t *testing.T) {
	const most = 64
	s := serve(t)
	spec := &hindsightv1.ModelSpec{Dimension: 2, Classes: &hindsightv1.Classes{}}
	price := func(given *hindsightv1.ModelSpec) *hindsightv1.ValidateSpecResponse {
		t.Helper()
		return must(s.models.ValidateSpec(t.Context(), &hindsightv1.ValidateSpecRequest{Spec: given}))(t)
	}
	// The default budget spends on two classes what 64 classes leave no time for.
	rich := &hindsightv1.ModelSpec_Auto{Auto: &hindsightv1.Auto{MaxMicroseconds: new(1e5)}}
	all := price(&hindsightv1.ModelSpec{Dimension: 2, Classes: &hindsightv1.Classes{}, Learner: rich})
	few := price(&hindsightv1.ModelSpec{Dimension: 2, Classes: &hindsightv1.Classes{MaxClasses: new(int32(2))}, Learner: rich})
	if got := all.GetSpec().GetClasses().GetMaxClasses(); got != most || all.GetStateBytes() < 4*few.GetStateBytes() || all.GetObserveFlops() < 4*few.GetObserveFlops() {
		t.Errorf("%d classes: %d bytes, %d operations; two: %d bytes, %d operations", got, all.GetStateBytes(), all.GetObserveFlops(), few.GetStateBytes(), few.GetObserveFlops())
	}
	s.create(t, "m", spec)
	batch := &hindsightv1.ObserveBatchRequest{Model: "m"}
	for n := range most {
		batch.Observations = append(batch.Observations, &hindsightv1.ObserveRequest{
			Features: []float64{float64(n % 8), float64(n / 8)}, Target: class(fmt.Sprint("class ", n)),
		})
	}
	must(s.ObserveBatch(t.Context(), batch))(t)
	_, err := s.Observe(t.Context(), &hindsightv1.ObserveRequest{Model: "m", Features: []float64{1, 2}, Target: class("another")})
	rejected(t, err, codes.FailedPrecondition, "CLASS_LIMIT", "max_classes is 64 and does not change; create a model with more")
}
