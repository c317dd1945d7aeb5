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
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

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
