package main_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// wantHealth waits until the server says that it is of a health.
func (p *process) wantHealth(t *testing.T, want healthv1.HealthCheckResponse_ServingStatus) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stream, err := healthv1.NewHealthClient(p.connection).Watch(ctx, &healthv1.HealthCheckRequest{}, grpc.WaitForReady(true))
	for err == nil {
		var r *healthv1.HealthCheckResponse
		if r, err = stream.Recv(); err == nil && r.GetStatus() == want {
			return
		}
	}
	t.Fatalf("health is not %s: %v", want, err)
}

// batchFrom are a hundred observations of a model of 50 features.
func batchFrom(from int) *hindsightv1.ObserveBatchRequest {
	r := &hindsightv1.ObserveBatchRequest{Model: "m"}
	for n := from; n < from+100; n++ {
		r.Observations = append(r.Observations, &hindsightv1.ObserveRequest{
			Features: make([]float64, 50), ObservationId: fmt.Sprint("o-", n),
			Target: &hindsightv1.ObserveRequest_Label{Label: 1},
		})
	}
	return r
}

// takesNoModel checks that a server with a failed disk answers that no model can be created, before one is moved there.
func (p *process) takesNoModel(t *testing.T) {
	t.Helper()
	_, err := p.models.CreateModel(t.Context(), &hindsightv1.CreateModelRequest{Id: "moved", Spec: &hindsightv1.ModelSpec{Dimension: 1}, ValidateOnly: true})
	assert.Equal(t, codes.Unavailable, status.Code(err), err)
}

// fillDisk creates a model of 50 features, observes until the disk is full, and returns the number of acknowledged observations.
func (p *process) fillDisk(t *testing.T) (acknowledged int) {
	t.Helper()
	spec := &hindsightv1.ModelSpec{Dimension: 50, Scaling: unscaled(), Learner: &hindsightv1.ModelSpec_LinearAwv{LinearAwv: &hindsightv1.LinearAwv{}}}
	_, err := p.models.CreateModel(t.Context(), &hindsightv1.CreateModelRequest{Id: "m", Spec: spec})
	for acknowledged < 20_000 && err == nil {
		if _, err = p.predictor.ObserveBatch(t.Context(), batchFrom(acknowledged)); err == nil {
			acknowledged += 100
		}
	}
	require.True(t, status.Code(err) == codes.Unavailable && strings.Contains(err.Error(), "storage failed"), "%d acknowledged, then %v", acknowledged, err)
	t.Logf("%d observations before the disk was full", acknowledged)
	_, err = p.predictor.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "m", Features: make([]float64, 50), Remember: proto.Bool(false)})
	assert.NoError(t, err, "a prediction")
	p.wantHealth(t, healthv1.HealthCheckResponse_NOT_SERVING)
	return acknowledged
}

// refill sends the observations of fillDisk again: each acknowledged one is a duplicate.
func (p *process) refill(t *testing.T, acknowledged int) {
	t.Helper()
	for n := 0; n <= acknowledged; n += 100 {
		answer := must(p.predictor.ObserveBatch(t.Context(), batchFrom(n)))(t)
		for k, o := range answer.GetOutcomes() {
			require.True(t, o.GetSequence() == uint64(n+k+1) && (n >= acknowledged || o.GetDuplicate()), "observation %d of %d acknowledged: %v", n+k, acknowledged, o)
		}
	}
	p.terminate(t)
}

// A full disk, which is imitated by a limit of 2 MiB for a file. What was
// acknowledged is there, later observations are rejected with STORAGE_FAILED,
// predictions go on, and a server that is started with room learns again.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	p := launchBy(t, dir, []string{"/bin/sh", "-c", `ulimit -f 4096; exec "$0" "$@"`, binary})
	acknowledged := p.fillDisk(t)
	_, err := p.predictor.Observe(t.Context(), &hindsightv1.ObserveRequest{Model: "m", Features: make([]float64, 50), Target: &hindsightv1.ObserveRequest_Label{Label: 1}})
	assert.Equal(t, codes.Unavailable, status.Code(err), err)
	p.takesNoModel(t)
	for path, says := range map[string]string{"/metrics": "\nhindsight_store_failed 1\n", "/readyz": "the disk rejects writes: file too large\n"} {
		_, page := p.ask(t, path, "")
		assert.Contains(t, page, says, path)
	}
	p.kill(t)
	launch(t, dir).refill(t, acknowledged) // With room again.
}
