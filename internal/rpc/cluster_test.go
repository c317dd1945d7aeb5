package rpc_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/status"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// Every server shows the cluster, and changes of the cluster go to the owner.
func TestClusterService(t *testing.T) {
	p := servePair(t)
	ctx := t.Context()
	r, err := p.replica.cluster.GetCluster(ctx, &hindsightv1.GetClusterRequest{})
	require.True(t, err == nil && r.GetOwner() == "a" && r.GetServer() == "b" && len(r.GetServers()) == 3, "%v, %v", r, err)
	var states []string
	for _, s := range r.GetServers() {
		states = append(states, s.GetState().String())
	}
	assert.Equal(t, []string{"STATE_OWNER", "STATE_VOTER", "STATE_JOINING"}, states)
	_, err = p.replica.cluster.MoveOwner(ctx, &hindsightv1.MoveOwnerRequest{Server: "b"})
	// Both servers of the pair say that they are b: the other one refuses to be a.
	_, drainErr := p.replica.cluster.DrainServer(ctx, &hindsightv1.DrainServerRequest{Server: "a"})
	assert.Equal(t, "SERVER_NOT_FOUND", reason(status.Convert(drainErr)), drainErr)
	_, removeErr := p.replica.cluster.RemoveServer(ctx, &hindsightv1.RemoveServerRequest{Server: "c"})
	require.NoError(t, errors.Join(err, removeErr))
	_, err = p.replica.cluster.DrainServer(ctx, &hindsightv1.DrainServerRequest{Server: "b"})
	if here, there := []string{"drain "}, []string{"move b", "remove c"}; err != nil || !slices.Equal(p.ofOwner.calls, there) || !slices.Equal(p.ofReplica.calls, here) {
		t.Errorf("%v: the owner made %v, want %v; the other %v, want %v", err, p.ofOwner.calls, there, p.ofReplica.calls, here)
	}
	for want, err := range map[string]error{
		"SERVER_NOT_FOUND": second(p.replica.cluster.RemoveServer(ctx, &hindsightv1.RemoveServerRequest{Server: "x"})),
		"INVALID_REQUEST":  second(p.replica.cluster.DrainServer(ctx, &hindsightv1.DrainServerRequest{})),
		"NO_CLUSTER":       second(serve(t).cluster.MoveOwner(ctx, &hindsightv1.MoveOwnerRequest{})),
	} {
		assert.Equal(t, want, reason(status.Convert(err)), err)
	}
	_, err = p.replica.cluster.GetCluster(ctx, &hindsightv1.GetClusterRequest{Group: 1})
	assert.Equal(t, "INVALID_REQUEST", reason(status.Convert(err)), "group 1: %v", err)
	r, err = serve(t).cluster.GetCluster(ctx, &hindsightv1.GetClusterRequest{})
	assert.True(t, err == nil && len(r.GetServers()) == 0, "without a cluster: %v, %v", r, err)
}

func second[T any](_ T, err error) error { return err }
