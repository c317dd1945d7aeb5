// Package echo is a gRPC server of the data path that does no work: it answers every call
// at once with a message like that of a hindsight server. What a call of it costs is what
// gRPC and the messages cost.
package echo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// New is a gRPC server that echoes. It does not listen yet.
func New(options ...grpc.ServerOption) *grpc.Server {
	s := grpc.NewServer(append(options, grpc.WaitForHandlers(true))...)
	hindsightv1.RegisterPredictionServiceServer(s, &predictions{})
	return s
}

// predictions is the data path without a model.
type predictions struct {
	hindsightv1.UnimplementedPredictionServiceServer
}

// Predict implements the service.
func (*predictions) Predict(_ context.Context, r *hindsightv1.PredictRequest) (*hindsightv1.PredictResponse, error) {
	return &hindsightv1.PredictResponse{Prediction: prediction(r)}, nil
}

// Observe implements the service.
func (*predictions) Observe(_ context.Context, r *hindsightv1.ObserveRequest) (*hindsightv1.ObserveResponse, error) {
	return &hindsightv1.ObserveResponse{Outcome: outcome(r)}, nil
}

// PredictBatch implements the service.
func (*predictions) PredictBatch(_ context.Context, r *hindsightv1.PredictBatchRequest) (*hindsightv1.PredictBatchResponse, error) {
	answer := &hindsightv1.PredictBatchResponse{}
	for range max(len(r.GetRows()), len(r.GetInputs())) {
		answer.Predictions = append(answer.Predictions, prediction(nil))
	}
	return answer, nil
}

// ObserveBatch implements the service.
func (*predictions) ObserveBatch(_ context.Context, r *hindsightv1.ObserveBatchRequest) (*hindsightv1.ObserveBatchResponse, error) {
	answer := &hindsightv1.ObserveBatchResponse{}
	for _, o := range r.GetObservations() {
		answer.Outcomes = append(answer.Outcomes, outcome(o))
	}
	return answer, nil
}

// prediction is a prediction with the fields that auto gives.
func prediction(r *hindsightv1.PredictRequest) *hindsightv1.Prediction {
	value, low, high := 0.5, 0.25, 0.75
	return &hindsightv1.Prediction{
		PredictionId: r.GetPredictionId(), Value: &value, StateSequence: 1,
		Intervals: []*hindsightv1.Interval{{Coverage: 0.9, Lower: &low, Upper: &high}},
	}
}

// outcome is an outcome with the fields that auto gives.
func outcome(r *hindsightv1.ObserveRequest) *hindsightv1.Outcome {
	value, loss := 0.5, r.GetLabel()
	return &hindsightv1.Outcome{
		Sequence: 1, Prediction: &value, Loss: &loss, ServedPrediction: &value, ServedLoss: &loss,
		RecentLoss: &loss, RecentSkill: &value,
	}
}

const readHeaderTimeout = 5 * time.Second

// Serve serves until ctx ends: gRPC at one address, the metrics of the process over HTTP
// at another. It writes its addresses to log as one line of JSON, as a hindsight server
// does.
func Serve(ctx context.Context, grpcAddress, httpAddress string, log io.Writer) error {
	listen := net.ListenConfig{}
	calls, err := listen.Listen(ctx, "tcp", grpcAddress)
	if err != nil {
		return fmt.Errorf("listen for gRPC: %w", err)
	}
	scrapes, err := listen.Listen(ctx, "tcp", httpAddress)
	if err != nil {
		return errors.Join(fmt.Errorf("listen for HTTP: %w", err), calls.Close())
	}
	registry := prometheus.NewRegistry()
	if err := errors.Join(
		registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})),
		registry.Register(collectors.NewGoCollector()),
	); err != nil {
		return errors.Join(fmt.Errorf("metrics: %w", err), calls.Close(), scrapes.Close())
	}
	server, web := New(), &http.Server{
		Handler: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), ReadHeaderTimeout: readHeaderTimeout,
	}
	group, ending := errgroup.WithContext(ctx)
	group.Go(func() error { return server.Serve(calls) })
	group.Go(func() error {
		if err := web.Serve(scrapes); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	group.Go(func() error {
		<-ending.Done()
		server.Stop()
		return web.Close()
	})
	line, err := json.Marshal(map[string]string{
		"msg": "serving", "grpc_address": calls.Addr().String(), "http_address": scrapes.Addr().String(),
	})
	if err == nil {
		_, err = fmt.Fprintf(log, "%s\n", line)
	}
	if err != nil {
		group.Go(func() error { return fmt.Errorf("tell the addresses: %w", err) })
	}
	return group.Wait()
}
