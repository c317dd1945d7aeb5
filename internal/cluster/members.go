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
)

// memberServer answers calls of the other servers.
type memberServer struct {
	clusterv1.UnimplementedMemberServiceServer
	n *Node
}

// Hello implements clusterv1.MemberServiceServer.
func (s memberServer) Hello(_ context.Context, r *clusterv1.HelloRequest) (*clusterv1.HelloResponse, error) {
	if err := checkGroup(r.GetGroup()); err != nil {
		return nil, err
	}
	return s.n.describe(r.GetId())
}

// describe answers Hello of the server with the id to.
func (n *Node) describe(to string) (*clusterv1.HelloResponse, error) {
	out := &clusterv1.HelloResponse{
		Id: n.self.ID, Address: n.self.Address, Data: n.data, Servers: n.founders(), AgeMs: -1,
		Draining: n.draining.Load(), Version: n.o.Version,
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
	has := func(id string) bool {
		return slices.ContainsFunc(members, func(m Member) bool { return m.ID == id })
	}
	out.Known, out.Member = has(to), has(n.self.ID)
	if owner, ok := l.Owner(); ok {
		out.OwnerId, out.OwnerAddress = owner.ID, owner.Address
	}
	out.Applied = l.Applied()
	if age := l.Age(); age != Unheard {
		out.AgeMs = age.Milliseconds()
	}
	return out, nil
}

// checkGroup refuses all groups but 0, the only group.
func checkGroup(group uint32) error {
	if group != 0 {
		return status.Errorf(codes.InvalidArgument, "group %d does not exist", group)
	}
	return nil
}

func (n *Node) owned(group uint32) (*consensus.Log, error) {
	l, err := n.joined(group)
	if err == nil && !l.Owns() {
		err = status.Error(codes.Unavailable, "another server owns the store")
	}
	return l, err
}

func (n *Node) joined(group uint32) (*consensus.Log, error) {
	if err := checkGroup(group); err != nil {
		return nil, err
	}
	l := n.consensus.Load()
	if l == nil {
		return nil, status.Error(codes.Unavailable, "this server is not a member yet")
	}
	return l, nil
}

// Join implements clusterv1.MemberServiceServer.
func (s memberServer) Join(ctx context.Context, r *clusterv1.JoinRequest) (*clusterv1.JoinResponse, error) {
	n := s.n
	l, err := n.owned(r.GetGroup())
	if err != nil {
		return nil, err
	}
	// The address must be the joining server's, because admit removes another member at the same address.
	said, err := n.hello(ctx, r.GetAddress())
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	if said.GetId() != r.GetId() {
		return nil, status.Errorf(codes.FailedPrecondition, "the server at %s has the id %s, want %s", r.GetAddress(), said.GetId(), r.GetId())
	}
	n.joining.Lock()
	defer n.joining.Unlock()
	if err := n.admit(ctx, l, Member{ID: r.GetId(), Address: r.GetAddress(), Voter: r.GetCurrent()}); err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return &clusterv1.JoinResponse{}, nil
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

// chunk is the size of a message of a checkpoint.
const chunk = 256 << 10

// Checkpoint implements clusterv1.MemberServiceServer.
func (s memberServer) Checkpoint(r *clusterv1.CheckpointRequest, stream clusterv1.MemberService_CheckpointServer) (err error) {
	n, ctx := s.n, stream.Context()
	// Applied entries are committed. So a leader can send its state before it owns the log. It must, if it cannot own
	// the log before another server has the state.
	l, err := n.joined(r.GetGroup())
	if err != nil {
		return err
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
