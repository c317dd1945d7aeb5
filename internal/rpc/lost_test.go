package rpc_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// between is a network between a client and the server. Once it is deaf, it carries
// calls but no answers.
func between(t *testing.T, server string) (address string, deaf *atomic.Bool) {
	t.Helper()
	var listen net.ListenConfig
	listener := must(listen.Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	deaf = new(atomic.Bool)
	var group sync.WaitGroup
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		group.Wait()
	})
	carry := func(to, from net.Conn, lost *atomic.Bool) {
		defer func() { _, _ = to.Close(), from.Close() }() // The other direction ends too.
		buffer := make([]byte, 32<<10)
		for {
			n, err := from.Read(buffer)
			if err != nil {
				return
			}
			if lost != nil && lost.Load() {
				continue
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
	}
	group.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			var dialer net.Dialer
			upstream, err := dialer.DialContext(ctx, "tcp", server)
			if err != nil {
				_ = client.Close()
				continue
			}
			context.AfterFunc(ctx, func() { _, _ = client.Close(), upstream.Close() })
			group.Go(func() { carry(upstream, client, nil) })
			group.Go(func() { carry(client, upstream, deaf) })
		}
	})
	return listener.Addr().String(), deaf
}

// An observation whose answer was lost is sent again: it gets the first answer, and is
// learned once.
func TestLostAnswers(t *testing.T) {
	s := serve(t)
	s.create(t, "m", linear(1))
	address, deaf := between(t, s.connection.Target())
	connection := must(grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer func() { _ = connection.Close() }()
	far := hindsightv1.NewPredictionServiceClient(connection)
	must(far.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "m", Features: []float64{1}}))(t)
	deaf.Store(true)
	const calls = 40
	request := func(n int) *hindsightv1.ObserveRequest {
		return &hindsightv1.ObserveRequest{
			Model: "m", Features: []float64{float64(n)}, ObservationId: fmt.Sprint("o-", n), Target: label(float64(n % 3)),
		}
	}
	ctx, leave := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for n := range calls {
		group.Go(func() {
			_, err := far.Observe(ctx, request(n))
			assert.Equal(t, codes.Canceled, status.Code(err), "%v %v", n, err)
		})
	}
	// The callers leave once all calls are learned. A caller that leaves before may not have
	// sent its call.
	limit, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	watch := must(s.models.WatchModel(limit, &hindsightv1.WatchModelRequest{Model: "m", MaxOutcomesPerSecond: 100}))(t)
	for learned := uint64(0); learned < calls; {
		event, err := watch.Recv()
		require.NoError(t, err, "%v %v", learned, calls)
		learned = max(learned, event.GetStats().GetObservations(), event.GetOutcome().GetOutcome().GetSequence())
	}
	leave()
	group.Wait()
	sequences := map[uint64]bool{}
	for n := range calls {
		first, err := s.Observe(t.Context(), request(n))
		require.True(t, err == nil && first.GetOutcome().GetDuplicate(), "call %d again: %v, %v", n, first, err)
		again, err := s.Observe(t.Context(), request(n))
		assert.True(t, err == nil && first.String() == again.String(), "call %d a third time: %v, %v; want %v", n, again, err, first)
		sequences[first.GetOutcome().GetSequence()] = true
	}
	assert.True(t, len(sequences) == calls && !sequences[0] && !sequences[calls+1], "sequences %v", sequences)
}
