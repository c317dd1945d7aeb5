package main_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/servertest"
)

// patience ends the wait for a process that hangs. A process on a busy machine takes less.
const patience = 5 * time.Minute

// binary is the server as it is shipped, built once.
var binary string

func TestMain(m *testing.M) {
	if peers, ok := os.LookupEnv(peersOf); ok {
		os.Exit(actAsServer(peers))
	}
	if err := flag.Set("test.parallel", "3"); err != nil { // The tests wait for servers more than they work.
		panic(err)
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "hindsight-server-test-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(dir) }()
		if binary, err = servertest.Program(context.Background(), "../..", dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

// endToEnd skips a test that takes long, unless HINDSIGHT_E2E is set: make test-e2e sets it.
func endToEnd(t *testing.T) {
	t.Helper()
	if os.Getenv("HINDSIGHT_E2E") == "" {
		t.Skip("takes long: make test-e2e runs it")
	}
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for !holds() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("not in time: " + what)
		}
	}
}

// process is a running server.
type process struct {
	command    *exec.Cmd
	connection *grpc.ClientConn
	http       string
	ended      chan error
	predictor  hindsightv1.PredictionServiceClient
	models     hindsightv1.ModelServiceClient
	mu         sync.Mutex
	lines      []string   // What it has logged.
	grown      *sync.Cond // Of mu: a line was added.
}

// said is what the process has logged so far.
func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

// logged waits until n lines of the log have a text, and returns how many have it.
func (p *process) logged(t *testing.T, text string, n int) (count int) {
	t.Helper()
	late := time.AfterFunc(patience, func() { p.grown.Broadcast() })
	defer late.Stop()
	began := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		count = 0
		for _, line := range p.lines {
			if strings.Contains(line, text) {
				count++
			}
		}
		if count >= n {
			return count
		}
		if time.Since(began) >= patience {
			t.Fatalf("the log has %q %d times, want %d:\n%s", text, count, n, strings.Join(p.lines, "\n"))
		}
		p.grown.Wait()
	}
}

// launch starts a server on the directory and waits until it serves.
func launch(t *testing.T, dir string, flags ...string) *process {
	t.Helper()
	return launchBy(t, dir, []string{binary}, flags...)
}

// launchBy is launch by a command that ends in the server's.
func launchBy(t *testing.T, dir string, by []string, flags ...string) *process {
	t.Helper()
	p := must(tryLaunch(t, dir, by, flags...))(t)
	return p
}

// tryLaunch is launchBy for a server that may end before it serves.
func tryLaunch(t *testing.T, dir string, by []string, flags ...string) (*process, error) {
	t.Helper()
	arguments := append([]string{"--data-dir", dir, "--grpc-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0"}, flags...)
	arguments = append(by[1:], arguments...)
	p := &process{command: exec.CommandContext(context.WithoutCancel(t.Context()), by[0], arguments...), ended: make(chan error, 1)}
	p.grown = sync.NewCond(&p.mu)
	p.command.SysProcAttr = attributes()
	stderr, err := p.command.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, p.command.Start())
	serving := make(chan [2]string, 1)
	go func() {
		for scanner := bufio.NewScanner(stderr); scanner.Scan(); {
			var line struct {
				Msg         string `json:"msg"`
				GRPCAddress string `json:"grpc_address"`
				HTTPAddress string `json:"http_address"`
			}
			p.mu.Lock()
			p.lines = append(p.lines, scanner.Text())
			p.grown.Broadcast()
			p.mu.Unlock()
			if json.Unmarshal(scanner.Bytes(), &line) == nil && line.Msg == "serving" {
				serving <- [2]string{line.GRPCAddress, line.HTTPAddress}
			}
		}
		if err := p.command.Wait(); err != nil {
			p.ended <- fmt.Errorf("%w: %s", err, p.said())
			return
		}
		p.ended <- nil
	}()
	select {
	case addresses := <-serving:
		p.http = "http://" + addresses[1]
		p.connection, err = grpc.NewClient(addresses[0], grpc.WithTransportCredentials(insecure.NewCredentials()))
		require.NoError(t, err)
	case err := <-p.ended:
		return p, err
	case <-time.After(patience):
		t.Fatal("the server does not serve")
	}
	p.predictor = hindsightv1.NewPredictionServiceClient(p.connection)
	p.models = hindsightv1.NewModelServiceClient(p.connection)
	t.Cleanup(func() { p.kill(t) })
	return p, nil
}

// kill ends the process with SIGKILL, if it runs.
func (p *process) kill(t *testing.T) {
	t.Helper()
	if p.command == nil {
		return
	}
	err := p.command.Process.Kill()
	assert.True(t, err == nil || errors.Is(err, os.ErrProcessDone), err)
	if err := p.await(t); err == nil {
		t.Log("it had ended by itself")
	}
}

// terminate ends it as an operator would, and fails unless it exits with 0.
func (p *process) terminate(t *testing.T) {
	t.Helper()
	require.NoError(t, p.command.Process.Signal(syscall.SIGTERM))
	assert.NoError(t, p.await(t))
}

func (p *process) await(t *testing.T) error {
	t.Helper()
	select {
	case err := <-p.ended:
		p.command = nil
		assert.NoError(t, p.connection.Close())
		return err
	case <-time.After(patience):
		t.Fatal("the server does not end")
		return nil
	}
}

func unscaled() *hindsightv1.Scaling {
	return &hindsightv1.Scaling{Kind: &hindsightv1.Scaling_None{None: &hindsightv1.NoScaling{}}}
}

func (p *process) create(t *testing.T) {
	t.Helper()
	degree := int32(3)
	_, err := p.models.CreateModel(t.Context(), &hindsightv1.CreateModelRequest{Id: "m", Spec: &hindsightv1.ModelSpec{
		Dimension: 2, Scaling: unscaled(), Learner: &hindsightv1.ModelSpec_PkawvTaylor{PkawvTaylor: &hindsightv1.PkawvTaylor{Degree: &degree}},
	}})
	require.NoError(t, err)
}

func (p *process) stats(t *testing.T) *hindsightv1.ModelStats {
	t.Helper()
	r := must(p.models.GetModelStats(t.Context(), &hindsightv1.GetModelStatsRequest{Model: "m"}))(t)
	return r.GetStats()
}

// observation n of the stream that every run learns.
func observation(n int) *hindsightv1.ObserveRequest {
	rng := rand.New(rand.NewPCG(uint64(n), 1))
	return &hindsightv1.ObserveRequest{
		Model: "m", Features: []float64{rng.NormFloat64(), rng.NormFloat64()}, ObservationId: fmt.Sprint("o-", n),
		Target: &hindsightv1.ObserveRequest_Label{Label: rng.NormFloat64()},
	}
}

// learn sends observations from n on until the server goes away, by batches
// and alone, predicting some of them first. It returns the first one that was
// not acknowledged.
func (p *process) learn(t *testing.T, n, end int) int {
	t.Helper()
	for n < end {
		o := observation(n)
		size := 1
		var err error
		switch {
		case n%5 == 0 && n+3 <= end:
			size = 3
			batch := &hindsightv1.ObserveBatchRequest{Model: "m"}
			for k := range size {
				batch.Observations = append(batch.Observations, observation(n+k))
			}
			_, err = p.predictor.ObserveBatch(t.Context(), batch)
		case n%3 == 0:
			// The prediction's id is the observation's, so that both runs
			// learn the same whatever was lost between the two calls.
			_, err = p.predictor.Predict(t.Context(), &hindsightv1.PredictRequest{
				Model: "m", Features: o.GetFeatures(), PredictionId: o.GetObservationId(),
			})
			if status.Code(err) == codes.AlreadyExists {
				err = nil // Observed before the crash.
			}
			if err == nil {
				_, err = p.predictor.Observe(t.Context(), o)
			}
		default:
			_, err = p.predictor.Observe(t.Context(), o)
		}
		if status.Code(err) == codes.Unavailable {
			return n
		}
		require.NoError(t, err, n)
		n += size
	}
	return n
}

func TestTerminateWritesSnapshotsAndEndsWell(t *testing.T) {
	dir := t.TempDir()
	p := launch(t, dir)
	p.create(t)
	p.learn(t, 0, 20)
	want := p.stats(t).GetStateDigest()
	p.terminate(t)
	files, err := filepath.Glob(filepath.Join(dir, "snapshots", "*", "*.hs"))
	assert.True(t, err == nil && len(files) == 1, "snapshots %v, %v", files, err)
	p = launch(t, dir)
	s := p.stats(t)
	assert.True(t, s.GetStateDigest() == want && s.GetSnapshotSequence() == 20, "restarted as %v", s)
}

func TestMetricsAndProbes(t *testing.T) {
	p := launch(t, t.TempDir())
	p.create(t)
	p.learn(t, 0, 10)
	code, page := p.ask(t, "/metrics", "")
	require.EqualValues(t, http.StatusOK, code)
	labels := `{learner="pkawv_taylor",model="m"}`
	for _, line := range []string{
		"hindsight_observations_total" + labels + " 10",
		"hindsight_certificate_ok" + labels + " 1",
		fmt.Sprintf(`hindsight_regret{kind="prequential",learner="pkawv_taylor",model="m"} %v`, p.stats(t).GetRegret()),
		fmt.Sprintf("hindsight_regret_bound%s %v", labels, p.stats(t).GetRegretBound()),
		`hindsight_loss_total{kind="prequential",learner="pkawv_taylor",model="m"} `,
		`hindsight_loss_total{kind="served",learner="pkawv_taylor",model="m"} `,
		"hindsight_state_bytes" + labels, "hindsight_predictions_total" + labels,
		"hindsight_expired_labels_total" + labels + " 0", "hindsight_read_only" + labels + " 0",
		`hindsight_predict_seconds_bucket{learner="pkawv_taylor",model="m",le="1e-06"}`,
		`hindsight_observe_seconds_bucket{learner="pkawv_taylor",model="m",le="1e-06"}`,
		"grpc_server_handled_total", "go_goroutines", "process_open_fds", "hindsight_store_fsync_seconds",
	} {
		assert.Contains(t, page, "\n"+line, line)
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		code, body := p.ask(t, path, "")
		assert.EqualValues(t, http.StatusOK, code, "%v %v", path, body)
	}
	command(t, 0, "healthcheck", "--grpc-address", p.connection.Target())
}

func TestBadCalls(t *testing.T) {
	for name, c := range map[string]struct {
		arguments []string
		code      int
		says      string
	}{
		"bad value":      {[]string{"--durability", "perhaps"}, 2, "durability"},
		"unknown flag":   {[]string{"--nonsense"}, 2, "nonsense"},
		"no such config": {[]string{"--config", "/does/not/exist.yaml"}, 2, "exist.yaml"},
		"help":           {[]string{"--help"}, 0, "--data-dir"},
		"nobody there":   {[]string{"healthcheck", "--grpc-address", "127.0.0.1:1"}, 1, "127.0.0.1:1"},
	} {
		out := command(t, c.code, c.arguments...)
		assert.Contains(t, out, c.says, name)
		assert.True(t, c.code != 2 || strings.Count(strings.TrimSpace(out), "\n") <= 0, "%s: more than one line: %s", name, out)
	}
	// A build outside a repository has no version of the module.
	assert.Regexp(t, `^(v\d+\.\d+\.\d+\S*|\(devel\)|dev)\n$`, command(t, 0, "version"))
}

// Two servers on one directory: the second says so.
func TestDataDirectoryIsLocked(t *testing.T) {
	dir := t.TempDir()
	launch(t, dir)
	assert.Contains(t, command(t, 1, "--data-dir", dir, "--grpc-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0"), "in use")
}

// must returns v. An error ends the test.
func must[T any](v T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		require.NoError(tb, err)
		return v
	}
}
