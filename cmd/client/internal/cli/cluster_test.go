package cli_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
