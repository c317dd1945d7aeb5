package main_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// A server ends by SIGTERM while clients predict and observe, as a pod that is replaced,
// and another one begins with its directory and at its address. Health says NOT_SERVING
// before the connections end. The server exits with 0. Nothing that was acknowledged is
// lost, nothing is learned twice, and labels find the predictions that the first one made.
func TestDrainUnderLoad(t *testing.T) {
	endToEnd(t)
	const clients, each = 4, 100
	dir := t.TempDir()
	p := launch(t, dir, "--grpc-address", freePort(t))
	p.create(t)
	address, connection := p.address(), p.dial(t)
	health := must(healthv1.NewHealthClient(connection).Watch(t.Context(), &healthv1.HealthCheckRequest{}))(t)
	r, err := health.Recv()
	require.True(t, err == nil && r.GetStatus() == healthv1.HealthCheckResponse_SERVING, "health is %v, %v", r, err)
	var learned atomic.Int64
	third := make(chan struct{})
	failures := make(chan error, clients)
	for k := range clients {
		own := p.dial(t)
		go func() {
			failures <- load(t.Context(), hindsightv1.NewPredictionServiceClient(own), k, each, func() {
				if learned.Add(1) == clients*each/3 {
					close(third)
				}
			})
		}()
	}
	select {
	case <-third:
	case err := <-failures:
		t.Fatal(err)
	}
	require.NoError(t, p.command.Process.Signal(syscall.SIGTERM))
	r, err = health.Recv()
	assert.True(t, err == nil && r.GetStatus() == healthv1.HealthCheckResponse_NOT_SERVING, "after SIGTERM health is %v, %v", r, err)
	assert.NoError(t, p.await(t))
	before := learned.Load()
	p = launch(t, dir, "--grpc-address", address)
	assert.GreaterOrEqual(t, int64(p.stats(t).GetObservations()), before)
	for range clients {
		assert.NoError(t, <-failures)
	}
	assert.EqualValues(t, clients*each, p.stats(t).GetObservations())
	p.terminate(t)
}

// dial is a connection of its own to the server.
func (p *process) dial(t *testing.T) *grpc.ClientConn {
	t.Helper()
	connection := must(grpc.NewClient(p.address(), insecureTransport()))(t)
	t.Cleanup(func() { assert.NoError(t, connection.Close()) })
	return connection
}

func insecureTransport() grpc.DialOption {
	return grpc.WithTransportCredentials(insecure.NewCredentials())
}

// retry makes a call until a server answers.
func retry(call func() error) error {
	for {
		if err := call(); status.Code(err) != codes.Unavailable {
			return err
		}
	}
}

// load predicts and observes: every second observation is the label of the prediction
// before.
func load(ctx context.Context, c hindsightv1.PredictionServiceClient, k, n int, learned func()) error {
	last := ""
	for i := range n {
		x := []float64{float64(i % 7), float64(k)}
		var predicted *hindsightv1.PredictResponse
		err := retry(func() (err error) {
			predicted, err = c.Predict(ctx, &hindsightv1.PredictRequest{Model: "m", Features: x})
			return err
		})
		if err != nil {
			return fmt.Errorf("prediction %d: %w", i, err)
		}
		o := &hindsightv1.ObserveRequest{Model: "m", Target: &hindsightv1.ObserveRequest_Label{Label: 1}}
		if i%2 == 1 {
			o.PredictionId = last
		} else {
			o.Features, o.ObservationId = x, fmt.Sprint("o-", k, "-", i)
		}
		err = retry(func() error {
			_, err := c.Observe(ctx, o)
			return err
		})
		if err != nil {
			return fmt.Errorf("observation %d: %w", i, err)
		}
		learned()
		last = predicted.GetPrediction().GetPredictionId()
	}
	return nil
}
