//go:build unix

package main_test

import (
	"os"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// learnAll is learn up to the end, however often the servers elect an owner again.
func (s *seat) learnAll(t *testing.T, n, end int) {
	t.Helper()
	eventually(t, "all observations are acknowledged", func() bool {
		n = s.learn(t, n, end)
		return n == end
	})
}

// A server that has lost its disk takes no part in an election before the other servers have admitted it anew.
// Two servers acknowledge what the third, suspended one does not know. One of the two loses its disk and starts beside
// the third one: both together have lost acknowledged observations, so neither becomes the owner until the other one
// of the two is back. Then all three have every observation, once.
func TestAWipedServerElectsNobody(t *testing.T) {
	endToEnd(t)
	all := seats(t)
	all[0].create(t)
	all[0].learnAll(t, 0, 20)
	for _, s := range all {
		s.knows(t, 20)
	}
	owner := all[0].cluster(t).GetOwner()
	var behind *seat // A server that is not the owner.
	var ahead []*seat
	for _, s := range all {
		if behind == nil && s.cluster(t).GetServer() != owner {
			behind = s
			continue
		}
		ahead = append(ahead, s)
	}
	signal := func(sent syscall.Signal) {
		if err := behind.command.Process.Signal(sent); err != nil {
			t.Fatal(err)
		}
	}
	signal(syscall.SIGSTOP)
	const end = 520
	ahead[0].learnAll(t, 20, end)
	ahead[0].kill(t)
	wiped := ahead[1]
	wiped.kill(t)
	if err := os.RemoveAll(wiped.dir); err != nil {
		t.Fatal(err)
	}
	signal(syscall.SIGCONT)
	behind.kill(t)
	behind.launch(t)
	wiped.launch(t)
	// An election takes less than a second where one can be won.
	for until := time.Now().Add(3 * time.Second); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		for _, s := range []*seat{behind, wiped} {
			if o := s.cluster(t).GetOwner(); o != "" {
				t.Fatalf("%s is the owner", o)
			}
			if _, err := s.predictor.Observe(t.Context(), observation(end)); status.Code(err) != codes.Unavailable {
				t.Fatalf("an observation beside lost ones: %v", err)
			}
		}
	}
	ahead[0].launch(t)
	for _, s := range all {
		s.knows(t, end)
		vote(t, s, 3)
		eventually(t, "the server is ready", func() bool { return s.ready(t) == 200 })
	}
	for n := range end {
		o, err := wiped.predictor.Observe(t.Context(), observation(n))
		if err != nil || !o.GetOutcome().GetDuplicate() {
			t.Fatalf("observation %d again: %v, %v", n, o, err)
		}
	}
	for _, s := range all {
		if got := s.stats(t).GetObservations(); got != end {
			t.Errorf("%d observations, want %d", got, end)
		}
	}
	// The admitted server counts: with it the servers survive the loss of another one.
	behind.kill(t)
	wiped.learnAll(t, end, end+30)
}

// A label that was acknowledged is learned once, and waits nowhere, when its owner dies before the next commit.
func TestTheOwnerDiesAfterAnAnswer(t *testing.T) {
	endToEnd(t)
	all := seats(t)
	all[0].create(t)
	for n := range 4 {
		var owner, other *seat
		eventually(t, "an owner is known", func() bool {
			owner, other = nil, nil
			for _, s := range all {
				if c := s.cluster(t); c.GetOwner() == c.GetServer() {
					owner = s
				} else {
					other = s
				}
			}
			return owner != nil && other != nil
		})
		o := observation(n)
		label := &hindsightv1.ObserveRequest{Model: "m", PredictionId: o.GetObservationId(), Target: o.GetTarget()}
		eventually(t, "the label is acknowledged", func() bool {
			_, err := owner.predictor.Predict(t.Context(), &hindsightv1.PredictRequest{
				Model: "m", Features: o.GetFeatures(), PredictionId: o.GetObservationId(),
			})
			if err == nil {
				_, err = owner.predictor.Observe(t.Context(), label)
			}
			if err != nil && status.Code(err) != codes.Unavailable {
				t.Fatal(err)
			}
			return err == nil
		})
		owner.kill(t)
		if n%2 == 0 { // All servers start again.
			for _, s := range all {
				s.kill(t)
			}
			for _, s := range all {
				s.launch(t)
			}
			other = owner
		} else {
			owner.launch(t)
		}
		eventually(t, "the label is a duplicate", func() bool {
			r, err := other.predictor.Observe(t.Context(), label)
			if err != nil && status.Code(err) != codes.Unavailable {
				t.Fatal(err)
			}
			if err == nil && !r.GetOutcome().GetDuplicate() {
				t.Fatalf("the label of prediction %d is learned again at %d", n, r.GetOutcome().GetSequence())
			}
			return err == nil
		})
		for k, s := range all {
			s.knows(t, n+1)
			if got := s.stats(t); got.GetPendingLabels() != 0 || got.GetObservations() != uint64(n)+1 {
				t.Errorf("after %d answers server %d has %d observations, and %d predictions wait", n+1, k, got.GetObservations(), got.GetPendingLabels())
			}
		}
	}
}
