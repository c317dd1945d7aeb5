package main_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	late := time.AfterFunc(patience, func() {
		p.grown.Broadcast()
	})
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
	p, err := tryLaunch(t, dir, by, flags...)
	if err != nil {
		t.Fatalf("the server ended: %v", err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
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
		if err != nil {
			t.Fatal(err)
		}
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
	if err := p.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Error(err)
	}
	if err := p.await(t); err == nil {
		t.Log("it had ended by itself")
	}
}

// terminate ends it as an operator would, and fails unless it exits with 0.
func (p *process) terminate(t *testing.T) {
	t.Helper()
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.await(t); err != nil {
		t.Errorf("SIGTERM: %v", err)
	}
}

func (p *process) await(t *testing.T) error {
	t.Helper()
	select {
	case err := <-p.ended:
		p.command = nil
		if closeErr := p.connection.Close(); closeErr != nil {
			t.Error(closeErr)
		}
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
	if err != nil {
		t.Fatal(err)
	}
}

func (p *process) stats(t *testing.T) *hindsightv1.ModelStats {
	t.Helper()
	r, err := p.models.GetModelStats(t.Context(), &hindsightv1.GetModelStatsRequest{Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
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
		if err != nil {
			t.Fatalf("observation %d: %v", n, err)
		}
		n += size
	}
	return n
}

// Killed at any moment, again and again, a client that retries what was not
// acknowledged ends with the state of a run that was never interrupted.
func TestKilledServerForgetsNothingAndLearnsNothingTwice(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	const rounds = 240

	calm := launch(t, t.TempDir())
	calm.create(t)
	if got := calm.learn(t, 0, rounds); got != rounds {
		t.Fatalf("the calm run stopped at %d", got)
	}
	want := calm.stats(t)
	calm.terminate(t)

	dir := t.TempDir()
	p := launch(t, dir)
	p.create(t)
	kills := 0
	for next := 0; next < rounds; kills++ {
		p.kill(t)
		p = launch(t, dir, "--snapshot-replay", "1ms")
		victim := p.command.Process
		timer := time.AfterFunc(time.Duration(10+rng.IntN(60))*time.Millisecond, func() {
			_ = victim.Kill() // It may have ended.
		})
		next = p.learn(t, next, rounds)
		timer.Stop()
	}
	p.kill(t)
	p = launch(t, dir)
	got := p.stats(t)
	if got.GetStateDigest() != want.GetStateDigest() || got.GetObservations() != uint64(rounds) || got.GetRegret() != want.GetRegret() {
		t.Errorf("after %d kills: %v\nwant %v", kills, got, want)
	}
	p.terminate(t)
	t.Logf("survived %d kills", kills)
}

// A prediction answered before the process was killed waits for its label
// after it.
func TestPredictionSurvivesKill(t *testing.T) {
	dir := t.TempDir()
	p := launch(t, dir)
	p.create(t)
	answer, err := p.predictor.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "m", Features: []float64{1, 2}})
	if err != nil {
		t.Fatal(err)
	}
	p.kill(t)
	p = launch(t, dir)
	if got := p.stats(t).GetPendingLabels(); got != 1 {
		t.Errorf("%d labels pending, want 1", got)
	}
	_, err = p.predictor.Observe(t.Context(), &hindsightv1.ObserveRequest{
		Model: "m", PredictionId: answer.GetPrediction().GetPredictionId(), Target: &hindsightv1.ObserveRequest_Label{Label: 1},
	})
	if err != nil {
		t.Error(err)
	}
}

func TestTerminateWritesSnapshotsAndEndsWell(t *testing.T) {
	dir := t.TempDir()
	p := launch(t, dir)
	p.create(t)
	p.learn(t, 0, 20)
	want := p.stats(t).GetStateDigest()
	p.terminate(t)
	files, err := filepath.Glob(filepath.Join(dir, "snapshots", "*", "*.hs"))
	if err != nil || len(files) != 1 {
		t.Errorf("snapshots %v, %v", files, err)
	}
	p = launch(t, dir)
	if s := p.stats(t); s.GetStateDigest() != want || s.GetSnapshotSequence() != 20 {
		t.Errorf("restarted as %v", s)
	}
}

func TestMetricsAndProbes(t *testing.T) {
	p := launch(t, t.TempDir())
	p.create(t)
	p.learn(t, 0, 10)
	get := func(path string) string {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.http+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		if err := errors.Join(err, r.Body.Close()); err != nil || r.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d, %v", path, r.StatusCode, err)
		}
		return string(body)
	}
	page := get("/metrics")
	labels := `{learner="pkawv_taylor",model="m"}`
	for _, line := range []string{
		"hindsight_observations_total" + labels + " 10",
		"hindsight_certificate_ok" + labels + " 1",
		fmt.Sprintf("hindsight_regret%s %v", labels, p.stats(t).GetRegret()),
		fmt.Sprintf("hindsight_regret_bound%s %v", labels, p.stats(t).GetRegretBound()),
		`hindsight_loss_total{kind="prequential",learner="pkawv_taylor",model="m"} `,
		`hindsight_loss_total{kind="served",learner="pkawv_taylor",model="m"} `,
		"hindsight_state_bytes" + labels, "hindsight_predictions_total" + labels,
		"hindsight_expired_labels_total" + labels + " 0", "hindsight_read_only" + labels + " 0",
		`hindsight_predict_seconds_bucket{learner="pkawv_taylor",model="m",le="1e-06"}`,
		`hindsight_observe_seconds_bucket{learner="pkawv_taylor",model="m",le="1e-06"}`,
		"grpc_server_handled_total", "go_goroutines", "process_open_fds", "hindsight_store_fsync_seconds",
	} {
		if !strings.Contains(page, "\n"+line) {
			t.Errorf("/metrics has no %s", line)
		}
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		get(path)
	}
	check := exec.CommandContext(t.Context(), binary, "healthcheck", "--grpc-address", p.connection.Target())
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("healthcheck: %v, %s", err, out)
	}
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
		"version":        {[]string{"version"}, 0, "dev"},
		"nobody there":   {[]string{"healthcheck", "--grpc-address", "127.0.0.1:1"}, 1, "127.0.0.1:1"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		out, err := exec.CommandContext(ctx, binary, c.arguments...).CombinedOutput()
		cancel()
		code := 0
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			code = exit.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		if code != c.code || !strings.Contains(string(out), c.says) {
			t.Errorf("%s: exit %d, %s", name, code, out)
		}
		if c.code == 2 && strings.Count(strings.TrimSpace(string(out)), "\n") > 0 {
			t.Errorf("%s: more than one line: %s", name, out)
		}
	}
}

// Two servers on one directory: the second says so.
func TestDataDirectoryIsLocked(t *testing.T) {
	dir := t.TempDir()
	launch(t, dir)
	second := exec.CommandContext(t.Context(), binary, "--data-dir", dir, "--grpc-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0")
	out, err := second.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "in use") {
		t.Errorf("%v: %s", err, out)
	}
}
