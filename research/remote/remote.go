// Package remote makes models on a server for the time of a measurement.
package remote

import (
	"context"
	"fmt"
	"math"
	"time"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
	"hindsight/cmd/research/markdown"
)

// BatchRows is how many rounds one ObserveBatch carries.
const BatchRows = 128

// Server is a server that is measured. It is safe for concurrent use if Now and Say
// are.
type Server struct {
	// Models and Predictions are the services of the server.
	Models      hindsightv1.ModelServiceClient
	Predictions hindsightv1.PredictionServiceClient
	// Run is the prefix of the model ids. Every model is deleted after its run.
	Run string
	// Timeout bounds every call.
	Timeout time.Duration
	// Now is the clock.
	Now func() time.Time
	// Say reports progress; it may be nil.
	Say func(format string, args ...any)
}

// Report reports progress, if somebody listens.
func (s *Server) Report(format string, args ...any) {
	if s.Say != nil {
		s.Say(format, args...)
	}
}

// Create creates a model and returns its spec with every default filled in.
func (s *Server) Create(ctx context.Context, id string, spec *hindsightv1.ModelSpec) (*hindsightv1.ModelSpec, error) {
	var created *hindsightv1.CreateModelResponse
	err := s.Call(ctx, func(ctx context.Context) (err error) {
		created, err = s.Models.CreateModel(ctx, &hindsightv1.CreateModelRequest{Id: id, Spec: spec})
		return err
	})
	return created.GetModel().GetSpec(), err
}

// Remove removes a model at once, also when ctx has ended.
func (s *Server) Remove(ctx context.Context, id string) error {
	return s.Call(context.WithoutCancel(ctx), func(ctx context.Context) error {
		_, err := s.Models.DeleteModel(ctx, &hindsightv1.DeleteModelRequest{Model: id, Purge: true})
		return err
	})
}

// ObserveBatch observes rows as one batch. It returns an outcome for each row, and the
// time of the call.
func (s *Server) ObserveBatch(ctx context.Context, id string, rows []*hindsightv1.ObserveRequest) ([]*hindsightv1.Outcome, time.Duration, error) {
	var answer *hindsightv1.ObserveBatchResponse
	start := s.Now()
	err := s.Call(ctx, func(ctx context.Context) (err error) {
		answer, err = s.Predictions.ObserveBatch(ctx, &hindsightv1.ObserveBatchRequest{Model: id, Observations: rows})
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	elapsed := s.Now().Sub(start)
	if got := len(answer.GetOutcomes()); got != len(rows) {
		return nil, 0, fmt.Errorf("the server answered %d outcomes to %d observations", got, len(rows))
	}
	return answer.GetOutcomes(), elapsed, nil
}

// Stats returns the statistics of a model.
func (s *Server) Stats(ctx context.Context, id string) (*hindsightv1.ModelStats, error) {
	var answer *hindsightv1.GetModelStatsResponse
	err := s.Call(ctx, func(ctx context.Context) (err error) {
		answer, err = s.Models.GetModelStats(ctx, &hindsightv1.GetModelStatsRequest{Model: id})
		return err
	})
	return answer.GetStats(), err
}

// Call makes one call within the timeout.
func (s *Server) Call(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	return do(ctx)
}

// Rejected describes the rejection of a server after a number of rounds, without
// names that differ from run to run. An error that is not a rejection is returned.
func Rejected(err error, rows int) (string, error) {
	rejected := client.FromError(err)
	if rejected == nil {
		return "", err
	}
	reason := rejected.Reason
	if reason == "" || reason == "SHUTTING_DOWN" || reason == "STORAGE_FAILED" {
		return "", err
	}
	if rows == 0 {
		return "rejected: " + reason, nil
	}
	return fmt.Sprintf("rejected after %s rows: %s", markdown.Thousands(rows), reason), nil
}

// Known returns a number, NaN if it is absent.
func Known(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}
