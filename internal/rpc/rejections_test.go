package rpc_test

import (
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/rpc"
)

// counted counts rejections.
type counted struct {
	mu sync.Mutex
	by map[string]int
}

func (c *counted) count(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.by[reason]++
}

// Rejections are counted by their reason, and every counted reason is among Reasons.
func TestRejectionsAreCounted(t *testing.T) {
	c := &counted{by: map[string]int{}}
	s := serve(t, func(o *rpc.Options) { o.Rejected = c.count })
	s.create(t, "m", linear(1))
	if _, err := s.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "none"}); err == nil {
		t.Error("a model that is not there predicts")
	}
	if _, err := s.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "m", Features: []float64{1, 2}}); err == nil {
		t.Error("two features of one")
	}
	for model, want := range map[string]codes.Code{"none": codes.NotFound, "m": codes.OK} {
		_, err := s.Observe(t.Context(), &hindsightv1.ObserveRequest{Model: model, Features: []float64{1}, Target: label(1)})
		if status.Code(err) != want {
			t.Errorf("%s: %v", model, err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	want := map[string]int{"MODEL_NOT_FOUND": 2, "DIMENSION_MISMATCH": 1}
	known := rpc.Reasons()
	for reason, n := range c.by {
		if want[reason] != n || !slices.Contains(known, reason) {
			t.Errorf("%s was counted %d times, want %d", reason, n, want[reason])
		}
	}
	if len(c.by) != len(want) {
		t.Errorf("counted %v, want %v", c.by, want)
	}
	if slices.Sort(known); len(slices.Compact(known)) != len(rpc.Reasons()) || !slices.Contains(known, "UNAUTHENTICATED") {
		t.Errorf("reasons %v", known)
	}
}
