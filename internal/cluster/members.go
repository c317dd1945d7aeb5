package cluster

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"slices"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	clusterv1 "hindsight/api/proto/hindsight/cluster/v1"
	"hindsight/internal/cluster/consensus"
	"hindsight/internal/engine/storage"
)

// memberServer answers calls of the other servers.
type memberServer struct {
	clusterv1.UnimplementedMemberServiceServer
	h *Host
}

// node returns this server's part of a group, as Group.call does.
func (s memberServer) node(ctx context.Context, group uint32) (n *Node, in context.Context, done func(), err error) {
	g := s.h.Group(group)
	if g == nil {
		return nil, nil, nil, status.Errorf(codes.InvalidArgument, "group %d does not exist", group)
	}
	if n, in, done = g.call(ctx); n == nil {
		return nil, nil, nil, status.Errorf(codes.NotFound, "this server is no member of group %d", group)
	}
	return n, in, done, nil
}

// joined returns the node of a member, or only of the owner, as node does.
func (s memberServer) joined(ctx context.Context, group uint32, owner bool) (n *Node, l *consensus.Log, in context.Context, done func(), err error) {
	if n, in, done, err = s.node(ctx, group); err != nil {
		return nil, nil, nil, nil, err
	}
	switch l = n.consensus.Load(); {
	case l == nil:
		err = status.Error(codes.Unavailable, "this server is not a member yet")
	case owner && !l.Owns():
		err = status.Error(codes.Unavailable, "another server owns the group")
	default:
		return n, l, in, done, nil
	}
	done()
	return nil, nil, nil, nil, err
}

func (s memberServer) Hello(ctx context.Context, r *clusterv1.HelloRequest) (*clusterv1.HelloResponse, error) {
	n, _, done, err := s.node(ctx, r.GetGroup())
	if err != nil {
		return nil, err
	}
	defer done()
	out, err := n.describe(r.GetId())
	if err == nil && r.GetAll() {
		for _, g := range s.h.Groups() {
			if hosted := g.describe(); hosted != nil {
				out.Hosted = append(out.Hosted, hosted)
			}
		}
	}
	return out, err
}

// describe returns the group as this server knows it, nil if this server is no member.
func (g *Group) describe() *clusterv1.HostedGroup {
	l := g.log()
	if l == nil {
		return nil
	}
	out := &clusterv1.HostedGroup{Group: g.number, Members: peersOf(l.Members())}
	if owner, ok := l.Owner(); ok {
		out.OwnerAddress = owner.Address
	}
	return out
}

func peersOf(members []Member) []*clusterv1.Peer {
	out := make([]*clusterv1.Peer, len(members))
	for k, m := range members {
		out[k] = &clusterv1.Peer{Address: m.Address, Voter: m.Voter}
	}
	return out
}

func (n *Node) describe(to string) (*clusterv1.HelloResponse, error) {
	out := &clusterv1.HelloResponse{
		Id: n.self.ID, Address: n.self.Address, Data: n.data, Servers: n.host.founders(), AgeMs: -1,
		Draining: n.host.draining.Load(), Version: n.o.Version, Groups: uint32(n.o.Groups),
		TimeNs: n.o.Now().UnixNano(), Format: n.host.format(), Writes: storage.Format,
		Spread: n.host.spread.Load(),
	}
	l := n.consensus.Load()
	if l == nil {
		var err error
		if out.Member, err = consensus.Exists(n.storage); err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		return out, nil
	}
	members := l.Members()
	out.Member = slices.ContainsFunc(members, func(m Member) bool { return m.ID == n.self.ID })
	out.Known, out.Members = l.Knows(to), peersOf(members)
	if owner, ok := l.Owner(); ok {
		out.OwnerId, out.OwnerAddress = owner.ID, owner.Address
	}
	out.Applied = l.Applied()
	if age := l.Age(); age != Unheard {
		out.AgeMs = age.Milliseconds()
	}
	return out, nil
}

func (s memberServer) Join(ctx context.Context, r *clusterv1.JoinRequest) (*clusterv1.JoinResponse, error) {
	n, l, ctx, done, err := s.joined(ctx, r.GetGroup(), true)
	if err != nil {
		return nil, err
	}
	defer done()
	// The address must be the joining server's, because admit removes another member at the same address.
	said, err := s.h.hello(ctx, r.GetGroup(), r.GetAddress())
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	if said.GetId() != r.GetId() {
		return nil, status.Errorf(codes.FailedPrecondition, "the server at %s has the id %s, want %s", r.GetAddress(), said.GetId(), r.GetId())
	}
	n.joining.Lock()
	defer n.joining.Unlock()
	if said.GetWrites() < n.local.Format() {
		return nil, status.Errorf(codes.FailedPrecondition, "%s: %s reads at most format %d, the group has format %d: start version %s or a newer one on it",
			ErrNewer, r.GetAddress(), said.GetWrites(), n.local.Format(), n.o.Version)
	}
	if err := n.admit(ctx, l, Member{ID: r.GetId(), Address: r.GetAddress(), Voter: r.GetCurrent() && n.mayVote(l.Members())}); err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return &clusterv1.JoinResponse{}, nil
}

func (s memberServer) OpenGroup(_ context.Context, r *clusterv1.OpenGroupRequest) (*clusterv1.OpenGroupResponse, error) {
	if r.GetGroup() == 0 || s.h.Group(r.GetGroup()) == nil {
		return nil, status.Errorf(codes.InvalidArgument, "group %d does not exist", r.GetGroup())
	}
	select {
	case s.h.opening <- r.GetGroup():
		return &clusterv1.OpenGroupResponse{}, nil
	default:
		return nil, status.Error(codes.Unavailable, "this server opens many groups")
	}
}

func (s memberServer) LeaveGroup(ctx context.Context, r *clusterv1.LeaveGroupRequest) (*clusterv1.LeaveGroupResponse, error) {
	n, in, done, err := s.node(ctx, r.GetGroup())
	if status.Code(err) == codes.NotFound {
		return &clusterv1.LeaveGroupResponse{}, nil
	} else if err != nil {
		return nil, err
	}
	defer done()
	if r.GetGroup() > 0 && errors.Is(n.checkRemoved(in), ErrRemoved) {
		n.fail(ErrRemoved)
	}
	return &clusterv1.LeaveGroupResponse{}, nil
}

func (s memberServer) ChangeGroup(ctx context.Context, r *clusterv1.ChangeGroupRequest) (*clusterv1.ChangeGroupResponse, error) {
	n, _, ctx, done, err := s.joined(ctx, r.GetGroup(), true)
	if err != nil {
		return nil, err
	}
	defer done()
	if r.GetOwn() != "" {
		err = n.Move(ctx, r.GetOwn())
	} else {
		err = n.Remove(ctx, r.GetRemove())
	}
	switch {
	case errors.Is(err, consensus.ErrNotKnown), errors.Is(err, storage.ErrNotOwner): // Another server may own the group now.
		return nil, status.Error(codes.Unavailable, err.Error())
	case errors.Is(err, ErrNoMember) && r.GetRemove() != "": // An earlier call has removed it.
	case err != nil:
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return &clusterv1.ChangeGroupResponse{}, nil
}

// admit makes a server a member, or updates a member. The caller holds joining.
func (n *Node) admit(ctx context.Context, l *consensus.Log, m Member) error {
	for _, old := range l.Members() {
		switch {
		case old.ID == m.ID && old.Address == m.Address && (old.Voter || !m.Voter):
			return nil
		case old.ID == m.ID:
			m.Voter = m.Voter || old.Voter
		case old.Address == m.Address:
			// The old member has lost its directory, and the new member runs in its place.
			n.log.Info("a new member replaces the member at its address", zap.String("address", m.Address), zap.String("old", old.ID), zap.String("new", m.ID))
			if err := l.Remove(ctx, old.ID); err != nil {
				return err
			}
		}
	}
	n.log.Info("the owner adds a member", zap.String("address", m.Address), zap.String("id", m.ID), zap.Bool("voter", m.Voter))
	return l.Add(ctx, m)
}

const chunk = 256 << 10

func (s memberServer) Checkpoint(r *clusterv1.CheckpointRequest, stream clusterv1.MemberService_CheckpointServer) (err error) {
	// Applied entries are committed. So a leader can send its state before it owns the log. It must, if it cannot own
	// the log before another server has the state.
	n, l, ctx, done, err := s.joined(stream.Context(), r.GetGroup(), false)
	if err != nil {
		return err
	}
	defer done()
	if r.GetFormat() < n.local.Format() {
		return status.Errorf(codes.FailedPrecondition, "%s: format %d, the server reads at most %d: start version %s or a newer one",
			ErrNewer, n.local.Format(), r.GetFormat(), n.o.Version)
	}
	base := l.Applied()
	if base < r.GetIndex() {
		return status.Errorf(codes.FailedPrecondition, "the store ends at entry %d, before entry %d", base, r.GetIndex())
	}
	dir, err := n.Checkpoint(ctx)
	if err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	defer func() { err = errors.Join(err, n.RemoveCheckpoint()) }()
	n.log.Info("a member receives a checkpoint", zap.Uint64("base", base))
	if err := stream.Send(&clusterv1.CheckpointResponse{Part: &clusterv1.CheckpointResponse_Begin{Begin: base}}); err != nil {
		return err
	}
	files := uint64(0)
	err = n.local.EachFile(ctx, dir, func(name string, from io.Reader) error {
		files++
		return sendFile(stream, name, from)
	})
	if err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	return stream.Send(&clusterv1.CheckpointResponse{Part: &clusterv1.CheckpointResponse_Complete{Complete: files}})
}

func sendFile(stream clusterv1.MemberService_CheckpointServer, name string, from io.Reader) error {
	if err := stream.Send(&clusterv1.CheckpointResponse{Part: &clusterv1.CheckpointResponse_File{File: name}}); err != nil {
		return err
	}
	digest := sha256.New()
	for {
		data := make([]byte, chunk) // The stream may use a message after Send returns.
		count, err := io.ReadFull(from, data)
		if count > 0 {
			_, _ = digest.Write(data[:count]) // A hash never fails.
			if err := stream.Send(&clusterv1.CheckpointResponse{Part: &clusterv1.CheckpointResponse_Data{Data: data[:count]}}); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return stream.Send(&clusterv1.CheckpointResponse{Part: &clusterv1.CheckpointResponse_Sha256{Sha256: digest.Sum(nil)}})
		case err != nil:
			return err
		}
	}
}
