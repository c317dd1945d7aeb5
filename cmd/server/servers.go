package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/cluster"
	"hindsight/internal/engine"
	"hindsight/internal/rpc"
)

// servers implements rpc.Cluster for one group.
type servers struct {
	*cluster.Group
	host *cluster.Host
}

func (s servers) Owner() (id, address string) {
	owner, _ := s.Group.Owner()
	return cmp.Or(owner.ID, owner.Address), owner.Address
}

func (s servers) Status(ctx context.Context) *hindsightv1.GetClusterResponse {
	out := new(hindsightv1.GetClusterResponse)
	out.Owner, _ = s.Owner()
	n := s.Node()
	if n == nil {
		return out
	}
	out.Server = n.Self().ID
	members := n.Members(ctx)
	newest := uint64(0)
	for n := range members {
		newest = max(newest, members[n].Applied)
	}
	for n := range members {
		m := &members[n]
		one := &hindsightv1.Server{
			Server: m.ID, Address: m.Address, Version: m.Version, Draining: m.Draining, Reachable: m.Err == nil,
			State: hindsightv1.Server_STATE_JOINING,
		}
		switch {
		case m.ID == out.GetOwner():
			one.State = hindsightv1.Server_STATE_OWNER
		case m.Voter:
			one.State = hindsightv1.Server_STATE_VOTER
		}
		if m.Err == nil {
			behind := newest - m.Applied
			one.Applied, one.Behind = &m.Applied, &behind
			if m.Age != cluster.Unheard {
				one.Age = durationpb.New(m.Age)
			}
		}
		out.Servers = append(out.Servers, one)
	}
	slices.SortFunc(out.GetServers(), func(a, b *hindsightv1.Server) int { return strings.Compare(a.GetAddress(), b.GetAddress()) })
	return out
}

func (s servers) Server(which string) (grpc.ClientConnInterface, error) {
	conn, err := s.host.ConnTo(which)
	return conn, apiError(err)
}

func (s servers) Move(ctx context.Context, to string) error {
	n, err := s.owned()
	if err == nil {
		err = apiError(n.Move(ctx, to))
	}
	return err
}

func (s servers) Remove(ctx context.Context, which string) error {
	n, err := s.owned()
	if err == nil {
		err = s.host.MayLeave(ctx, which)
	}
	if err == nil {
		err = n.Remove(ctx, which)
	}
	return apiError(err)
}

// owned returns the node of the group, which is here only if this server can own the group.
func (s servers) owned() (*cluster.Node, error) {
	if n := s.Node(); n != nil {
		return n, nil
	}
	return nil, engine.ErrNotOwner
}

func (s servers) Drain(ctx context.Context) error { return apiError(s.host.Drain(ctx)) }

// apiError adds the error of the API to an error of package cluster.
func apiError(err error) error {
	switch {
	case errors.Is(err, cluster.ErrNoMember):
		return fmt.Errorf("%w: %w", rpc.ErrServerNotFound, err)
	case errors.Is(err, cluster.ErrOwnerStays), errors.Is(err, cluster.ErrHasGroups), errors.Is(err, cluster.ErrNotReachable),
		errors.Is(err, cluster.ErrNoSuccessor):
		return fmt.Errorf("%w: %w", rpc.ErrServerState, err)
	}
	return err
}
