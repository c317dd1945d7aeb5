package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// temporary sets os.TempDir to a new directory of the test and returns it.
func temporary(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	return dir
}

func isEmpty(t *testing.T, dir string) bool {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(dir, "hindsight-*"))
	require.NoError(t, err)
	return len(left) == 0
}

func program(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	require.NoError(t, err)
	return path
}

func TestDemo(t *testing.T) {
	t.Setenv(actAsServer, "yes")
	dir := temporary(t)
	r := run(t, "demo", "--server", program(t), "--rounds", "300")
	require.Equal(t, 0, r.code, r)
	for _, want := range []string{"rounds  ", "300", "as good as trivial", "skill over the last 1000 rounds", "regret against the best fixed function", "round  skill  regret"} {
		assert.Contains(t, r.out, want)
	}
	for line := range strings.Lines(r.out) {
		assert.LessOrEqual(t, len([]rune(strings.TrimSpace(line))), 100, line)
	}
	assert.True(t, isEmpty(t, dir), "the temporary directory is left")
	d := document(t, 0, "demo", "--server", program(t), "--rounds", "20")
	assert.True(t, d["rounds"] == 20.0 && stat(d, "regret") != nil && d["pageUrl"] != "", "document %v", d)
}

func TestDemoTimeLimit(t *testing.T) {
	t.Setenv(actAsServer, "yes")
	d := document(t, 0, "demo", "--server", program(t), "--rounds", "3000", "--for", "50ms")
	n, _ := d["acknowledged"].(float64)
	assert.True(t, n >= 1 && n < 3000 && d["error"] == nil, "document %v", d)
}

func TestDemoFails(t *testing.T) {
	for mode, want := range map[string]string{"broken": "exit status 7: no disk", "rude": "exit status 9"} {
		t.Setenv(actAsServer, mode)
		dir := temporary(t)
		r := run(t, "demo", "--server", program(t), "--rounds", "5")
		assert.True(t, r.code == 1 && strings.Contains(r.errors, want) && isEmpty(t, dir), "%s: %+v", mode, r)
	}
	r := run(t, "demo", "--server", "/nonexistent/server")
	assert.NotEqual(t, 0, r.code, r)
}

func TestDemoInterrupted(t *testing.T) {
	t.Setenv(actAsServer, "yes")
	dir := temporary(t)
	ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
	defer cancel()
	r := runWith(ctx, "", "demo", "--server", program(t), "--rounds", "20000")
	assert.True(t, r.code == 130 && isEmpty(t, dir) && !strings.Contains(r.errors, "continue with"), "%+v", r)
}

// The demo of a cluster loses nothing when the owner is killed, and says so in one line.
func TestDemoOfACluster(t *testing.T) {
	if os.Getenv("HINDSIGHT_E2E") == "" {
		t.Skip("takes long: make test-e2e runs it")
	}
	program, err := build()
	require.NoError(t, err)
	dir := temporary(t)
	r := run(t, "demo", "--server", program, "--servers", "3", "--rounds", "600", "--for", "6s", "--json")
	var s struct {
		Acknowledged int   `json:"acknowledged"`
		Lost         *int  `json:"lost"`
		Twice        *int  `json:"learned_twice"`
		Gap          int64 `json:"gap_ms"`
		Equal        bool  `json:"digests_equal"`
	}
	err = json.Unmarshal([]byte(r.out), &s)
	require.True(t, err == nil && r.code == 0 && strings.Count(r.out, "\n") == 1, "%v, %+v", err, r)
	assert.True(t, s.Acknowledged != 0 && s.Lost != nil && *s.Lost == 0 && s.Twice != nil && *s.Twice == 0 && s.Gap > 0 && s.Equal && isEmpty(t, dir), r.out)
}

// fakeCluster is a cluster of two servers.
type fakeCluster struct {
	hindsightv1.UnimplementedClusterServiceServer
	calls []string
	// groups are the answer of GetCluster, steps those of RebalanceCluster.
	groups []*hindsightv1.Group
	steps  []string
}

func (f *fakeCluster) GetCluster(_ context.Context, r *hindsightv1.GetClusterRequest) (*hindsightv1.GetClusterResponse, error) {
	if r.GetGroup() != 0 {
		return &hindsightv1.GetClusterResponse{Group: r.GetGroup(), Servers: []*hindsightv1.Server{{Server: "b2", Address: "b:7946"}}}, nil
	}
	return &hindsightv1.GetClusterResponse{Groups: f.groups, Server: "b", Owner: "a", Servers: []*hindsightv1.Server{
		{Server: "a", Address: "a:7946", State: hindsightv1.Server_STATE_OWNER, Reachable: true, Applied: proto.Uint64(9), Version: "v1"},
		{Server: "b", Address: "b:7946", State: hindsightv1.Server_STATE_VOTER, Applied: proto.Uint64(7), Behind: proto.Uint64(2), Age: durationpb.New(3 * time.Millisecond)},
	}}, nil
}

func (f *fakeCluster) MoveOwner(_ context.Context, r *hindsightv1.MoveOwnerRequest) (*hindsightv1.MoveOwnerResponse, error) {
	if r.GetGroup() != 0 {
		f.calls = append(f.calls, fmt.Sprint("group ", r.GetGroup()))
	}
	f.calls = append(f.calls, "move "+r.GetServer())
	return &hindsightv1.MoveOwnerResponse{}, nil
}

func (f *fakeCluster) DrainServer(_ context.Context, r *hindsightv1.DrainServerRequest) (*hindsightv1.DrainServerResponse, error) {
	f.calls = append(f.calls, "drain "+r.GetServer())
	return &hindsightv1.DrainServerResponse{}, nil
}

func (f *fakeCluster) RemoveServer(_ context.Context, r *hindsightv1.RemoveServerRequest) (*hindsightv1.RemoveServerResponse, error) {
	if r.GetServer() == "a" {
		return nil, reject(codes.FailedPrecondition, "SERVER_STATE", "the owner cannot be removed")
	}
	f.calls = append(f.calls, "remove "+r.GetServer())
	return &hindsightv1.RemoveServerResponse{}, nil
}

func (f *fakeCluster) RebalanceCluster(_ context.Context, r *hindsightv1.RebalanceClusterRequest) (*hindsightv1.RebalanceClusterResponse, error) {
	f.calls = append(f.calls, "rebalance "+strings.Join(r.GetLeaving(), ","))
	if len(f.steps) == 0 {
		return &hindsightv1.RebalanceClusterResponse{}, nil
	}
	step := f.steps[0]
	f.steps = f.steps[1:]
	return &hindsightv1.RebalanceClusterResponse{Step: step, Left: uint32(len(f.steps))}, nil
}

// serve serves the cluster until the test ends, and returns its address.
func (f *fakeCluster) serve(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := grpc.NewServer()
	hindsightv1.RegisterClusterServiceServer(s, f)
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { s.Stop(); <-done })
	return l.Addr().String()
}
