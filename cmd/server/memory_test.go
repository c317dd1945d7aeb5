package main_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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

var (
	soakFor     = flag.Duration("soak", 5*time.Second, "how long models that do not fit into memory are used")
	soakClients = flag.Int("soak-clients", 12, "clients of the soak")
	soakModels  = flag.Int("soak-models", 16, "models of the soak, without those that follow them")
	soakWide    = flag.Int("soak-wide", 2000, "inputs of a model of the soak: its state takes half of their square, in doubles")
	soakServer  = flag.String("soak-server", "", "another server program to soak")
	soakSeed    = flag.Uint64("soak-seed", 1, "seed of the clients' choices")
)

// soak is clients that use more models than fit into memory.
type soak struct {
	*process
	wide                   int
	calls, rejected, hurts atomic.Int64
}

// The memory of a server stays within a tenth of --memory-limit while clients predict,
// observe, report, copy, export, compare, restore, delete and bring back models whose
// states take several times the limit.
func TestMemoryLimitHolds(t *testing.T) {
	endToEnd(t)
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	const limit = 256 << 20
	program := binary
	if *soakServer != "" {
		program = *soakServer
	}
	s := &soak{process: launchBy(t, t.TempDir(), []string{program}, "--memory-limit", strconv.Itoa(limit)), wide: *soakWide}
	t.Logf("seed %d", *soakSeed)
	for n := range *soakModels {
		s.make(t, fmt.Sprint("m", n), "")
		if n%4 == 0 {
			s.make(t, fmt.Sprint("f", n), fmt.Sprint("m", n))
		}
	}
	t.Logf("%d models: %d MB resident, %.0f MB accounted", *soakModels, s.status(t, "VmHWM")>>20, s.gauge(t, "hindsight_models_memory_bytes")/(1<<20))
	ctx, cancel := context.WithTimeout(t.Context(), *soakFor)
	defer cancel()
	var clients sync.WaitGroup
	for client := range *soakClients {
		clients.Go(func() {
			for rng := rand.New(rand.NewPCG(*soakSeed, uint64(client))); ctx.Err() == nil; {
				s.call(ctx, t, rng)
			}
		})
	}
	clients.Wait()
	peak := s.status(t, "VmHWM")
	t.Logf("%d calls, %d rejected as overloaded, %d met what another had changed: %d MB at most, of %d; %.0f loads", s.calls.Load(),
		s.rejected.Load(), s.hurts.Load(), peak>>20, limit>>20, s.gauge(t, "hindsight_model_wakes_total"))
	assert.LessOrEqual(t, peak, int64(limit/10*11), "%d MB resident, want at most a tenth more than %d", peak>>20, limit>>20)
	assert.GreaterOrEqual(t, s.calls.Load()-s.rejected.Load(), s.rejected.Load())
	s.terminate(t)
}

// make creates a model of some megabytes, which follows another one unless that is empty.
func (s *soak) make(t *testing.T, id, follows string) {
	t.Helper()
	_, err := s.models.CreateModel(t.Context(), &hindsightv1.CreateModelRequest{Id: id, Follows: follows, Spec: &hindsightv1.ModelSpec{
		Dimension: int32(s.wide), Scaling: unscaled(), Learner: &hindsightv1.ModelSpec_LinearAwv{LinearAwv: &hindsightv1.LinearAwv{}},
	}})
	require.NoError(t, err)
}

// status is a size of the process, in bytes, as Linux tells it.
func (s *soak) status(t *testing.T, what string) int64 {
	t.Helper()
	data := must(os.ReadFile(fmt.Sprintf("/proc/%d/status", s.command.Process.Pid)))(t)
	_, rest, _ := strings.Cut(string(data), what+":")
	kilobytes := must(strconv.ParseInt(strings.Fields(rest)[0], 10, 64))(t)
	return kilobytes << 10
}

// call does one random thing.
func (s *soak) call(ctx context.Context, t *testing.T, rng *rand.Rand) {
	t.Helper()
	id := fmt.Sprint("m", rng.IntN(*soakModels))
	x := make([]float64, s.wide)
	for n := range x {
		x[n] = rng.NormFloat64()
	}
	var err error
	switch at := rng.IntN(100); {
	case at < 40:
		_, err = s.predictor.Predict(ctx, &hindsightv1.PredictRequest{Model: id, Features: x})
	case at < 70:
		_, err = s.predictor.Observe(ctx, &hindsightv1.ObserveRequest{Model: id, Features: x, Target: &hindsightv1.ObserveRequest_Label{Label: rng.NormFloat64()}})
	case at < 78:
		_, err = s.models.GetModelStats(ctx, &hindsightv1.GetModelStatsRequest{Model: id})
	case at < 84:
		_, err = s.models.SnapshotModel(ctx, &hindsightv1.SnapshotModelRequest{Model: id})
	case at < 87:
		err = s.export(ctx, id)
	case at < 92:
		_, err = s.models.CompareModels(ctx, &hindsightv1.CompareModelsRequest{Model: fmt.Sprint("f", rng.IntN(*soakModels)/4*4)})
	case at < 94:
		_, err = s.models.RestoreModel(ctx, &hindsightv1.RestoreModelRequest{Model: id, Sequence: new(uint64(rng.IntN(5)))})
	default:
		if _, err = s.models.DeleteModel(ctx, &hindsightv1.DeleteModelRequest{Model: id}); err == nil {
			_, _ = s.models.CompareModels(ctx, &hindsightv1.CompareModelsRequest{Model: "f" + id[1:]})
		}
		_, err = s.models.UndeleteModel(ctx, &hindsightv1.UndeleteModelRequest{Model: id})
	}
	s.calls.Add(1)
	switch code := status.Code(err); {
	case err == nil || ctx.Err() != nil || code == codes.DeadlineExceeded: // The end may reach the server first.
	case code == codes.ResourceExhausted || code == codes.Unavailable:
		s.rejected.Add(1)
	case code == codes.NotFound || code == codes.FailedPrecondition || code == codes.OutOfRange || code == codes.Aborted:
		s.hurts.Add(1) // It is deleted, or has learned less.
	default:
		t.Errorf("%s: %v", id, err)
	}
}

func (s *soak) export(ctx context.Context, id string) error {
	stream, err := s.models.ExportModel(ctx, &hindsightv1.ExportModelRequest{Model: id})
	for err == nil {
		_, err = stream.Recv()
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

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
