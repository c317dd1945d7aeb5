package rpc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/auth"
	"hindsight/internal/engine"
	"hindsight/internal/model"
)

// Errors of ClusterService.
var (
	// ErrNoCluster: the server has no cluster.
	ErrNoCluster = errors.New("this server is not in a cluster")
	// ErrServerNotFound: the cluster has no such server.
	ErrServerNotFound = errors.New("the cluster has no such server")
	// ErrServerState: the server's state in the cluster does not allow the call.
	ErrServerState = errors.New("the state of the server does not allow this")
)

// Cluster is what the server needs to know of the servers with the same models. One of them, the
// owner, makes all changes. Its methods may be called concurrently.
type Cluster interface {
	// Owns reports whether this server is the owner.
	Owns() bool
	// Conn is a connection to the cluster port of the owner. It waits for an owner until the
	// context ends.
	Conn(ctx context.Context) (grpc.ClientConnInterface, error)
	// Age bounds how old the state of this server is; 0 if it is the owner.
	Age() time.Duration
	Status() ClusterStatus
	// Move makes the server with an id or an address the owner, or any voter if the name is empty.
	// Drain moves ownership away from a server, Remove ends its membership. The owner alone can.
	// Their errors are ErrServerNotFound, ErrServerState or engine.ErrNotOwner.
	Move(ctx context.Context, server string) error
	Drain(ctx context.Context, server string) error
	Remove(ctx context.Context, server string) error
}

// ClusterStatus is the cluster as one server knows it.
type ClusterStatus struct {
	// Server is the id of this server. Owner is that of the owner, empty while there is none, and
	// OwnerAddress is its cluster address.
	Server, Owner, OwnerAddress string
	Servers                     []ClusterServer
}

// ClusterServer is one server of a cluster.
type ClusterServer struct {
	ID, Address, Version string
	Voter                bool
	// Reachable, Applied, Behind and Age are nil if this server does not know.
	Reachable       *bool
	Applied, Behind *uint64
	Age             *time.Duration
}

// clusters serves ClusterService. cluster is nil without one.
type clusters struct {
	hindsightv1.UnimplementedClusterServiceServer
	cluster Cluster
}

// group refuses groups that do not exist.
func group(n uint32) error {
	if n == 0 {
		return nil
	}
	return &model.FieldError{Field: "group", Err: engine.ErrInvalidRequest, Got: fmt.Sprint(n), Want: "0, the only group"}
}

func (c *clusters) GetCluster(_ context.Context, r *hindsightv1.GetClusterRequest) (*hindsightv1.GetClusterResponse, error) {
	if err := group(r.GetGroup()); err != nil || c.cluster == nil {
		return &hindsightv1.GetClusterResponse{}, err
	}
	s := c.cluster.Status()
	response := &hindsightv1.GetClusterResponse{Server: s.Server, Owner: s.Owner}
	for n := range s.Servers {
		response.Servers = append(response.Servers, serverToProto(&s.Servers[n], s.Owner))
	}
	return response, nil
}

func serverToProto(s *ClusterServer, owner string) *hindsightv1.Server {
	out := &hindsightv1.Server{
		Server: s.ID, Address: s.Address, Version: s.Version, Reachable: s.Reachable, Applied: s.Applied, Behind: s.Behind,
		State: hindsightv1.Server_STATE_JOINING,
	}
	if s.Age != nil {
		out.Age = durationpb.New(*s.Age)
	}
	switch {
	case s.ID == owner:
		out.State = hindsightv1.Server_STATE_OWNER
	case s.Voter:
		out.State = hindsightv1.Server_STATE_VOTER
	}
	return out
}

// change makes a change of the cluster. A principal that is limited to some models may not,
// because the change is about all of them.
func (c *clusters) change(ctx context.Context, groupNumber uint32, server string, required bool, do func(Cluster) error) error {
	if p := auth.FromContext(ctx); !p.SeesAll() {
		return fmt.Errorf("%w: %s is limited to some models, and the servers have all of them", auth.ErrScope, p.Name)
	}
	if err := group(groupNumber); err != nil {
		return err
	}
	if required && server == "" {
		return &model.FieldError{Field: "server", Err: engine.ErrInvalidRequest, Got: "nothing", Want: "the id or the address of a server"}
	}
	if c.cluster == nil {
		return ErrNoCluster
	}
	return do(c.cluster)
}

func (c *clusters) MoveOwner(ctx context.Context, r *hindsightv1.MoveOwnerRequest) (*hindsightv1.MoveOwnerResponse, error) {
	err := c.change(ctx, r.GetGroup(), r.GetServer(), false, func(c Cluster) error { return c.Move(ctx, r.GetServer()) })
	if err != nil {
		return nil, err
	}
	return &hindsightv1.MoveOwnerResponse{Group: r.GetGroup()}, nil
}

func (c *clusters) DrainServer(ctx context.Context, r *hindsightv1.DrainServerRequest) (*hindsightv1.DrainServerResponse, error) {
	err := c.change(ctx, r.GetGroup(), r.GetServer(), true, func(c Cluster) error { return c.Drain(ctx, r.GetServer()) })
	if err != nil {
		return nil, err
	}
	return &hindsightv1.DrainServerResponse{Group: r.GetGroup()}, nil
}

func (c *clusters) RemoveServer(ctx context.Context, r *hindsightv1.RemoveServerRequest) (*hindsightv1.RemoveServerResponse, error) {
	err := c.change(ctx, r.GetGroup(), r.GetServer(), true, func(c Cluster) error { return c.Remove(ctx, r.GetServer()) })
	if err != nil {
		return nil, err
	}
	return &hindsightv1.RemoveServerResponse{Group: r.GetGroup()}, nil
}
