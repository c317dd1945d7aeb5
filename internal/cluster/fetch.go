package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"go.uber.org/zap"

	clusterv1 "hindsight/api/proto/hindsight/cluster/v1"
	"hindsight/internal/store"
)

// fetchRetry is the time between two attempts to get a checkpoint.
const fetchRetry = time.Second

// isBehind asks for a checkpoint that has an entry. It does not wait.
func (n *Node) isBehind(index uint64) {
	select {
	case n.behind <- index:
	default: // One is on its way.
	}
}

// Repair replaces the store of this server by the owner's: Restart closes when that is ready. The owner
// itself cannot be repaired.
func (n *Node) Repair() {
	if l := n.consensus.Load(); l != nil && !l.Owns() {
		n.isBehind(l.Applied())
	}
}

// fetchWhenBehind gets one checkpoint from the owner, once this server cannot get on without.
func (n *Node) fetchWhenBehind(ctx context.Context) {
	var index uint64
	select {
	case index = <-n.behind:
	case <-ctx.Done():
		return
	}
	started := n.o.Now()
	n.log.Info("the log of the owner begins after the state of this server: it gets a checkpoint", zap.Uint64("index", index))
	for {
		err := n.fetch(ctx, index)
		if err == nil {
			n.log.Info("a checkpoint has arrived: the store is opened again", zap.Duration("took", n.o.Now().Sub(started)))
			close(n.restart)
			return
		}
		if ctx.Err() != nil {
			return
		}
		n.log.Warn("no checkpoint of the owner, it is tried again", zap.Error(err))
		if pause(ctx, fetchRetry) != nil {
			return
		}
	}
}

// pause waits.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// fetch receives a checkpoint of the owner. It replaces the store when the store is opened next.
func (n *Node) fetch(ctx context.Context, index uint64) error {
	owner, known := n.Owner()
	if !known || owner.ID == n.self.ID {
		return errors.New("cluster: no other server is the owner")
	}
	client, err := n.client(owner.Address)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := client.Checkpoint(ctx, &clusterv1.CheckpointRequest{Index: index})
	if err != nil {
		return fmt.Errorf("cluster: ask %s for a checkpoint: %w", owner.Address, err)
	}
	in, err := n.local.Receive()
	if err != nil {
		return err
	}
	return errors.Join(receive(stream, in, index), in.Close())
}

// receive reads a checkpoint until it is complete.
func receive(stream clusterv1.MemberService_CheckpointClient, in *store.Incoming, index uint64) error {
	base, files := uint64(0), uint64(0)
	for {
		message, err := stream.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return fmt.Errorf("cluster: receive a checkpoint: %w", err)
		}
		switch part := message.GetPart().(type) {
		case *clusterv1.CheckpointResponse_Begin:
			base = part.Begin
		case *clusterv1.CheckpointResponse_File:
			files++
			err = in.Create(part.File)
		case *clusterv1.CheckpointResponse_Data:
			_, err = in.Write(part.Data)
		case *clusterv1.CheckpointResponse_Sha256:
			err = in.End(part.Sha256)
		case *clusterv1.CheckpointResponse_Complete:
			if base < index || part.Complete != files {
				return fmt.Errorf("cluster: a checkpoint with %d of %d files up to entry %d, want %d", files, part.Complete, base, index)
			}
			return in.Complete(base)
		default:
			err = errors.New("cluster: an unknown part of a checkpoint")
		}
		if err != nil {
			return err
		}
	}
}
