package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
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
		return nil, refuse(codes.FailedPrecondition, "SERVER_STATE", "the owner cannot be removed")
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

// A cluster of several groups shows its groups, and how many of them each server has and owns.
func TestClusterOfGroups(t *testing.T) {
	f := &fakeCluster{steps: []string{"moved group 2", "moved the owner of group 1"}, groups: []*hindsightv1.Group{
		{Group: 1, Owner: "a:7946", Servers: []string{"a:7946", "b:7946"}, Age: durationpb.New(7 * time.Millisecond)},
		{Group: 2, Owner: "a:7946", Servers: []string{"a:7946"}},
	}}
	address := f.serve(t)
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"status"}, []string{"GROUPS  OWNS\n", "v1       2       2\n", "1       0\n", "1      a:7946  7ms  a:7946 b:7946\n"}},
		{[]string{"status", "-o", "csv"}, []string{",version,groups,owns\n", ",v1,2,2\n"}},
		{[]string{"status", "--group", "2"}, []string{"b2"}},
		{[]string{"move", "--group", "2", "b"}, []string{"moved b"}},
		{[]string{"rebalance", "--leaving", "b", "--leaving", "c:7946"}, []string{
			"moved group 2; 1 left\nmoved the owner of group 1; 0 left\nbalanced: 2 groups; a server has at most 2, and owns at most 2\n",
		}},
		{[]string{"rebalance", "-o", "json"}, []string{`"done":"balanced"`, `"most_owned":2`}},
	} {
		r := run(t, append([]string{"--address", address, "cluster"}, c.args...)...)
		for _, part := range c.want {
			if r.code != 0 || !strings.Contains(r.out, part) {
				t.Errorf("%v: exit %d, %q is not in:\n%s%s", c.args, r.code, part, r.out, r.errors)
			}
		}
	}
	if want := []string{"group 2", "move b", "rebalance b,c:7946", "rebalance b,c:7946", "rebalance b,c:7946", "rebalance "}; !slices.Equal(f.calls, want) {
		t.Errorf("calls %v, want %v", f.calls, want)
	}
}

// serve serves the cluster until the test ends, and returns its address.
func (f *fakeCluster) serve(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	hindsightv1.RegisterClusterServiceServer(s, f)
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { s.Stop(); <-done })
	return l.Addr().String()
}

func TestCluster(t *testing.T) {
	f := &fakeCluster{}
	// The first address of the list does not answer.
	address := "127.0.0.1:1," + f.serve(t)
	for _, c := range []struct {
		args []string
		code int
		want []string
	}{
		{[]string{"status"}, 0, []string{"owner", "a:7946", "voter", "3ms", "v1"}},
		{[]string{"move"}, 0, []string{"moved"}},
		{[]string{"move", "b"}, 0, []string{"moved b"}},
		{[]string{"move", "b", "c"}, 2, nil},
		{[]string{"move", "--from", "a"}, 0, []string{"drained a"}},
		{[]string{"move", "b", "--from", "a"}, 2, []string{"give no other server"}},
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
