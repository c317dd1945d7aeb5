package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"go.uber.org/zap"

	clusterv1 "hindsight/api/proto/hindsight/cluster/v1"
	"hindsight/internal/clock"
	"hindsight/internal/engine/storage"
	"hindsight/internal/store"
)

// The time between two attempts to get a checkpoint doubles from minFetchPause to maxFetchPause, because each attempt may
// make the owner send its store.
const (
	minFetchPause = time.Second
	maxFetchPause = time.Minute
)

// isBehind requests a checkpoint that has the entry of an index. It does not wait.
func (n *Node) isBehind(index uint64) {
	select {
	case n.behind <- index:
	default: // A request is pending.
	}
}

// fetchWhenBehind waits until a checkpoint is requested, fetches it from the owner, and closes Restart.
func (n *Node) fetchWhenBehind(ctx context.Context) {
	var index uint64
	select {
	case index = <-n.behind:
	case <-ctx.Done():
		return
	}
	started := n.o.Now()
	n.log.Info("this server fetches a checkpoint of the owner", zap.Uint64("index", index))
	for wait := minFetchPause; ; wait = min(2*wait, maxFetchPause) {
		err := n.fetch(ctx, index)
		if err == nil {
			n.log.Info("a checkpoint has arrived: this server opens its store again", zap.Duration("took", n.o.Now().Sub(started)))
			close(n.restart)
			return
		}
		if ctx.Err() != nil {
			return
		}
		n.log.Warn("this server has received no checkpoint of the owner, and tries again", zap.Duration("after", wait), zap.Error(err))
		if !clock.Sleep(ctx, wait) {
			return
		}
	}
}

// fetch receives a checkpoint of the owner. The next Open replaces the store by the checkpoint.
func (n *Node) fetch(ctx context.Context, index uint64) error {
	owner, known := n.Owner()
	if !known || owner.ID == n.self.ID {
		return errors.New("cluster: this server knows no other owner")
	}
	client, err := n.host.client(owner.Address)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := client.Checkpoint(ctx, &clusterv1.CheckpointRequest{Group: n.number, Index: index, Format: storage.Format})
	if err != nil {
		return fmt.Errorf("cluster: ask %s for a checkpoint: %w", owner.Address, err)
	}
	in, err := n.local.Receive()
	if err != nil {
		return err
	}
	return errors.Join(receive(stream, in, index), in.Close())
}

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
				return fmt.Errorf("cluster: the checkpoint has %d of %d files and ends at entry %d, want entry %d", files, part.Complete, base, index)
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
