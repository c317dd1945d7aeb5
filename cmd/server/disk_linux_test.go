package main_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// A file system of its own is full. What was acknowledged is there, nothing more is,
// predictions go on, health and readiness say so. When there is room again the server ends
// to be started again, and learns on.
func TestFullFileSystem(t *testing.T) {
	const dimension = 50
	mounted := t.TempDir()
	if err := syscall.Mount("none", mounted, "tmpfs", 0, "size=100m"); err != nil {
		t.Skipf("a tmpfs cannot be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(mounted, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	dir, ballast := filepath.Join(mounted, "data"), filepath.Join(mounted, "ballast")
	p := launch(t, dir)
	spec := &hindsightv1.ModelSpec{Dimension: dimension, Scaling: unscaled(), Learner: &hindsightv1.ModelSpec_LinearAwv{LinearAwv: &hindsightv1.LinearAwv{}}}
	if _, err := p.models.CreateModel(t.Context(), &hindsightv1.CreateModelRequest{Id: "m", Spec: spec}); err != nil {
		t.Fatal(err)
	}
	// Others take the disk, but for less than a megabyte.
	var usage syscall.Statfs_t
	if err := syscall.Statfs(mounted, &usage); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ballast, make([]byte, int64(usage.Bavail)*usage.Bsize-1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	acknowledged := 0
	var err error
	for acknowledged < 20_000 && err == nil {
		if _, err = p.predictor.ObserveBatch(t.Context(), batchFrom(acknowledged)); err == nil {
			acknowledged += 100
		}
	}
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "storage failed") {
		t.Fatalf("%d acknowledged, then %v", acknowledged, err)
	}
	p.wantHealth(t, healthv1.HealthCheckResponse_NOT_SERVING)
	for path, want := range map[string]int{"/healthz": http.StatusOK, "/readyz": http.StatusServiceUnavailable} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.http+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if err := answer.Body.Close(); err != nil || answer.StatusCode != want {
			t.Errorf("%s: %d, %v", path, answer.StatusCode, err)
		}
	}
	if _, err := p.predictor.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "m", Features: make([]float64, dimension), Remember: proto.Bool(false)}); err != nil {
		t.Errorf("a prediction: %v", err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := p.await(t); err == nil || !strings.Contains(err.Error(), "has room again") {
		t.Errorf("with room the server ended with %v", err)
	}
	p = launch(t, dir)
	for n := 0; n <= acknowledged; n += 100 {
		answer, err := p.predictor.ObserveBatch(t.Context(), batchFrom(n))
		if err != nil {
			t.Fatal(err)
		}
		for k, o := range answer.GetOutcomes() {
			if o.GetSequence() != uint64(n+k+1) || n < acknowledged && !o.GetDuplicate() {
				t.Fatalf("observation %d of %d acknowledged: %v", n+k, acknowledged, o)
			}
		}
	}
	p.terminate(t)
	t.Logf("%d observations before the disk was full", acknowledged)
}
