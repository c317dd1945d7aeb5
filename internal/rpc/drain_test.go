package rpc_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// A session that is open when the server drains gets the answers to what was
// read, then SHUTTING_DOWN, at once.
func TestDrainEndsSessions(t *testing.T) {
	s := serve(t)
	s.create(t, "m", linear(1))
	stream, err := s.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const calls = 200
	for n := range uint64(calls) {
		err := stream.Send(&hindsightv1.SessionRequest{CorrelationId: n, Call: &hindsightv1.SessionRequest_Observe{
			Observe: &hindsightv1.ObserveRequest{Model: "m", Features: []float64{1}, Target: label(1)},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	started := time.Now()
	limit, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		s.server.Drain(limit)
	}()
	answered := 1
	for {
		r, err := stream.Recv()
		if err != nil {
			refused(t, err, codes.Unavailable, "SHUTTING_DOWN")
			break
		}
		if r.GetOutcome().GetSequence() != r.GetCorrelationId()+1 {
			t.Fatalf("%v", r)
		}
		answered++
	}
	<-drained
	t.Logf("%d of %d calls answered", answered, calls)
	if took := time.Since(started); took > 10*time.Second {
		t.Errorf("draining took %v", took)
	}
}
