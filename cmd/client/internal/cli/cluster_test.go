package cli_test

import (
	"context"
	"encoding/json"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// fakeCluster is a cluster of two servers.
type fakeCluster struct {
	hindsightv1.UnimplementedClusterServiceServer
	calls []string
}

func (f *fakeCluster) GetCluster(context.Context, *hindsightv1.GetClusterRequest) (*hindsightv1.GetClusterResponse, error) {
	return &hindsightv1.GetClusterResponse{Server: "b", Owner: "a", Servers: []*hindsightv1.Server{
		{Server: "a", Address: "a:7946", State: hindsightv1.Server_STATE_OWNER, Reachable: true, Applied: proto.Uint64(9), Version: "v1"},
		{Server: "b", Address: "b:7946", State: hindsightv1.Server_STATE_VOTER, Applied: proto.Uint64(7), Behind: proto.Uint64(2), Age: durationpb.New(3 * time.Millisecond)},
	}}, nil
}

func (f *fakeCluster) MoveOwner(_ context.Context, r *hindsightv1.MoveOwnerRequest) (*hindsightv1.MoveOwnerResponse, error) {
	f.calls = append(f.calls, "move "+r.GetServer())
	return &hindsightv1.MoveOwnerResponse{}, nil
}

func (f *fakeCluster) DrainServer(_ context.Context, r *hindsightv1.DrainServerRequest) (*hindsightv1.DrainServerResponse, error) {
	f.calls = append(f.calls, "drain "+r.GetServer())
	return &hindsightv1.DrainServerResponse{}, nil
}

func (f *fakeCluster) RemoveServer(_ context.Context, r *hindsightv1.RemoveServerRequest) (*hindsightv1.RemoveServerResponse, error) {
	if r.GetServer() == "a" {
		return nil, refuse(codes.FailedPrecondition, "SERVER_STATE", "the owner cannot be removed")
	}
	f.calls = append(f.calls, "remove "+r.GetServer())
	return &hindsightv1.RemoveServerResponse{}, nil
}

func TestCluster(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f, s := &fakeCluster{}, grpc.NewServer()
	hindsightv1.RegisterClusterServiceServer(s, f)
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	defer func() { s.Stop(); <-done }()
	// The first address of the list does not answer.
	address := "127.0.0.1:1," + l.Addr().String()
	for _, c := range []struct {
		args []string
		code int
		want []string
	}{
		{[]string{"status"}, 0, []string{"owner", "a:7946", "voter", "3ms", "v1"}},
		{[]string{"move"}, 0, []string{"moved"}},
		{[]string{"move", "b"}, 0, []string{"moved b"}},
		{[]string{"move", "b", "c"}, 2, nil},
		{[]string{"drain", "a"}, 0, []string{"drained a"}},
		{[]string{"drain"}, 2, []string{"SERVER is missing"}},
		{[]string{"remove", "b"}, 2, []string{"--yes"}},
		{[]string{"remove", "b", "--yes"}, 0, []string{"removed b"}},
		{[]string{"remove", "a", "--yes"}, 1, []string{"SERVER_STATE"}},
	} {
		r := run(t, append([]string{"--address", address, "cluster"}, c.args...)...)
		for _, part := range c.want {
			if !strings.Contains(r.out+r.errors, part) {
				t.Errorf("%v: %q is not in:\n%s%s", c.args, part, r.out, r.errors)
			}
		}
		if r.code != c.code {
			t.Errorf("%v: exit %d, want %d: %s", c.args, r.code, c.code, r.errors)
		}
	}
	if want := []string{"move ", "move b", "drain a", "remove b"}; !slices.Equal(f.calls, want) {
		t.Errorf("calls %v, want %v", f.calls, want)
	}
	stdout := run(t, "--address", address, "cluster", "status", "-o", "json").out
	var document struct {
		Owner   string `json:"owner"`
		Servers []struct {
			Behind int `json:"behind"`
		} `json:"servers"`
	}
	if err := json.Unmarshal([]byte(stdout), &document); err != nil || document.Owner != "a" || document.Servers[1].Behind != 2 {
		t.Errorf("%v: %s", err, stdout)
	}
}
