package rpc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/engine"
)

// Errors of ClusterService.
var (
	ErrNoCluster      = errors.New("this server is not in a cluster")
	ErrServerNotFound = errors.New("the cluster has no server with this id or address")
	// ErrServerState: the server's state in the cluster does not allow the call.
	ErrServerState = errors.New("the state of the server does not allow this")
)

// Cluster has the servers of a group. They keep the same models. One server, the owner, makes all
// changes. The methods may be called concurrently. A server that has no copy of the group also has
// its Cluster: there Confirm is false, and Age is the longest duration.
type Cluster interface {
	Ownership
	Membership
}

// Ownership finds the owner.
type Ownership interface {
	// Confirm reports whether this server is the owner, and no other server has been the owner before
	// the call. A server that has heard from a majority a moment ago asks no other server.
	Confirm(ctx context.Context) bool
	// Conn returns a connection to the cluster port of the owner. It waits for an owner until the
	// context ends.
	Conn(ctx context.Context) (grpc.ClientConnInterface, error)
	// Owner returns the id and the cluster address of the owner, empty while this server knows no
	// owner.
	Owner() (id, address string)
	// Turned returns a channel that closes when the owner may have changed since the call.
	Turned() <-chan struct{}
	// Age bounds the age of the state of this server.
	Age() time.Duration
}

// Membership shows and changes the members.
type Membership interface {
	// Status asks the members. The owner is empty while this server knows no owner.
	Status(ctx context.Context) *hindsightv1.GetClusterResponse
	// Addresses returns the addresses of the members as this server knows them. It asks no member.
	Addresses() []string
	// Server returns a connection to the cluster port of a member, named by id or address. For this
	// server the connection is nil.
	Server(server string) (grpc.ClientConnInterface, error)
	// Move makes a member the owner, or any voter if the name is empty. Remove ends a membership.
	// Only the owner can do either. Both fail with ErrServerNotFound, ErrServerState or
	// engine.ErrNotOwner.
	Move(ctx context.Context, server string) error
	Remove(ctx context.Context, server string) error
	// Drain moves the ownership of all groups away from this server for the rest of its life.
	Drain(ctx context.Context) error
}

// clusters serves ClusterService. A server without a cluster has a nil forwarding.
type clusters struct {
	hindsightv1.UnimplementedClusterServiceServer
	groups  hosts
	forward *forwarding
}

func (c *clusters) group(n uint32) (Group, error) {
	g, exists := c.groups.Numbered(n)
	if exists {
		return g, nil
	}
	want := "0, the only group"
	if all := c.groups.All(); len(all) > 1 {
		want = fmt.Sprintf("0, the group of all servers, or a group of models up to %d", all[len(all)-1].Number)
	}
	return g, engine.Invalid("group", strconv.FormatUint(uint64(n), 10), want)
}

func (c *clusters) GetCluster(ctx context.Context, r *hindsightv1.GetClusterRequest) (*hindsightv1.GetClusterResponse, error) {
	g, err := c.group(r.GetGroup())
	if err != nil || g.Cluster == nil {
		return &hindsightv1.GetClusterResponse{}, err
	}
	response := g.Cluster.Status(ctx)
	response.Group = r.GetGroup()
	if all := c.groups.All(); r.GetGroup() == 0 && len(all) > 1 {
		for _, g := range all {
			response.Groups = append(response.Groups, groupToProto(g))
		}
	}
	return response, nil
}

func groupToProto(g Group) *hindsightv1.Group {
	out := &hindsightv1.Group{Group: g.Number, Servers: g.Cluster.Addresses()}
	_, out.Owner = g.Cluster.Owner()
	if age := g.Cluster.Age(); age != math.MaxInt64 {
		out.Age = durationpb.New(age)
	}
	return out
}

func (c *clusters) change(number uint32, do func(Cluster) error) error {
	g, err := c.group(number)
	if err != nil {
		return err
	}
	if g.Cluster == nil {
		return ErrNoCluster
	}
	return do(g.Cluster)
}

func (c *clusters) changeServer(group uint32, server string, do func(Cluster) error) error {
	switch {
	case group != 0:
		return engine.Invalid("group", strconv.FormatUint(uint64(group), 10), "0: the call concerns all groups of the server")
	case server == "":
		return engine.Invalid("server", "nothing", "the id or the address of a server")
	}
	return c.change(0, do)
}

func (c *clusters) MoveOwner(ctx context.Context, r *hindsightv1.MoveOwnerRequest) (*hindsightv1.MoveOwnerResponse, error) {
	response := &hindsightv1.MoveOwnerResponse{Group: r.GetGroup()}
	return response, c.change(r.GetGroup(), func(c Cluster) error { return c.Move(ctx, r.GetServer()) })
}

func (c *clusters) DrainServer(ctx context.Context, r *hindsightv1.DrainServerRequest) (*hindsightv1.DrainServerResponse, error) {
	return new(hindsightv1.DrainServerResponse), c.changeServer(r.GetGroup(), r.GetServer(), func(cluster Cluster) error {
		conn, err := cluster.Server(r.GetServer())
		switch {
		case err != nil:
			return err
		case conn == nil:
			return cluster.Drain(ctx)
		case c.forward.member:
			return fmt.Errorf("%w here: %s", ErrServerNotFound, r.GetServer())
		}
		_, err = hindsightv1.NewClusterServiceClient(conn).DrainServer(c.forward.outgoing(ctx, Group{}), r)
		return err
	})
}

func (c *clusters) RemoveServer(ctx context.Context, r *hindsightv1.RemoveServerRequest) (*hindsightv1.RemoveServerResponse, error) {
	remove := func(cluster Cluster) error { return cluster.Remove(ctx, r.GetServer()) }
	return new(hindsightv1.RemoveServerResponse), c.changeServer(r.GetGroup(), r.GetServer(), remove)
}

func (c *clusters) RebalanceCluster(ctx context.Context, r *hindsightv1.RebalanceClusterRequest) (*hindsightv1.RebalanceClusterResponse, error) {
	response := new(hindsightv1.RebalanceClusterResponse)
	return response, c.change(0, func(Cluster) error {
		step, left, err := c.groups.Rebalance(ctx, r.GetLeaving())
		response.Step, response.Left = step, uint32(max(left, 0))
		return err
	})
}
