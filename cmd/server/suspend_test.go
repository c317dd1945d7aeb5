package main_test

import (
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/rpc"
)

// reads are predictions that wait for a suspended server, and for the server after it continues.
const reads = 300

// A server that was suspended does not answer from its old state: neither the owner, which another server has replaced,
// nor a replica, which has messages of the owner in its buffers. A read sets a bound of its age, a least sequence, or
// neither: the answer of a server that is not the owner then has its age.
func TestASuspendedServer(t *testing.T) {
	all := seats(t)
	all[0].create(t)
	n := all[0].learn(t, 0, 30)
	for _, s := range all {
		s.knows(t, n)
	}
	for _, owns := range []bool{true, false} {
		var held, other *seat
		eventually(t, "every server knows the owner", func() bool {
			held, other = nil, nil
			for _, s := range all {
				if c := s.cluster(t); c.GetOwner() == c.GetServer() == owns {
					held = s
				} else {
					other = s
				}
			}
			return held != nil && other != nil
		})
		n = suspended(t, held, other, n)
	}
	for _, s := range all {
		s.terminate(t)
	}
}

// suspended suspends a server while another server learns, and returns the number of observations. The reads of the
// suspended server must then know every observation.
func suspended(t *testing.T, held, other *seat, n int) int {
	t.Helper()
	require.NoError(t, held.command.Process.Signal(syscall.SIGSTOP))
	begun := time.Now()
	eventually(t, "the others learn", func() bool {
		n = other.learn(t, n, n+3)
		return time.Since(begun) > 2*time.Second
	})
	const bound = 100 * time.Millisecond
	var reading sync.WaitGroup
	for k := range reads {
		if k == reads/2 {
			require.NoError(t, held.command.Process.Signal(syscall.SIGCONT))
		}
		request := &hindsightv1.PredictRequest{Model: "m", Features: []float64{1, 2}, Remember: proto.Bool(false)}
		switch k % 3 {
		case 0:
			request.MaxStaleness = durationpb.New(bound)
		case 1:
			request.MinSequence = uint64(n)
		}
		reading.Go(func() {
			var trailer metadata.MD
			r, err := held.predictor.Predict(t.Context(), request, grpc.Trailer(&trailer))
			switch got := r.GetPrediction().GetStateSequence(); {
			case status.Code(err) == codes.Unavailable:
			case err != nil:
				t.Error(err)
			case got < uint64(n) && (k%3 != 2 || len(trailer.Get(rpc.AgeTrailer)) == 0):
				t.Errorf("read %d: a state of %d observations, want %d; age %v", k, got, n, trailer.Get(rpc.AgeTrailer))
			}
		})
	}
	reading.Wait()
	return n
}
