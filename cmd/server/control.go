package main

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"hindsight/internal/clock"
)

// A backup waits at most slotTimeout for the backup before.
const slotTimeout = 10 * time.Second

// control makes checkpoints of the store that this process has open, for the schedule and
// for commands that ask on the socket.
type control struct {
	disk checkpointer
	log  *zap.Logger
	// owns reports whether this server owns the group. It is nil without a cluster.
	owns func() bool
	// serving ends checkpoints of commands.
	serving context.Context //nolint:containedctx // It stands for the open group.
	// slot is taken while a checkpoint exists: there is one at most.
	slot chan struct{}
}

type checkpointer interface {
	Checkpoint(ctx context.Context) (string, error)
	RemoveCheckpoint() error
}

func newControl(disk checkpointer, log *zap.Logger) *control {
	return &control{disk: disk, log: log, slot: make(chan struct{}, 1)}
}

// end ends the checkpoint that a command holds, and waits until it is removed. The caller has ended serving.
func (c *control) end() {
	c.slot <- struct{}{}
	<-c.slot
}

// whileOwner returns a context that ends soon after this server no longer owns the group, because the new owner then backs
// up to the same place. Without owns it ends with ctx. The caller calls end.
func whileOwner(ctx context.Context, owns func() bool) (context.Context, func()) {
	watched, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	if owns != nil {
		watching.Go(func() {
			for clock.Sleep(watched, ownerInterval) {
				if !owns() {
					cancel(errMoved)
				}
			}
		})
	}
	return watched, func() { cancel(context.Canceled); watching.Wait() }
}

// hold makes a checkpoint. It waits at most slotTimeout for the checkpoint before to be
// removed. Only the owner makes checkpoints, because it has everything acknowledged.
func (c *control) hold(ctx context.Context) (*checkpoint, error) {
	wait := time.NewTimer(slotTimeout)
	defer wait.Stop()
	select {
	case c.slot <- struct{}{}:
	case <-wait.C:
		return nil, errors.New("another backup is in progress")
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	started := time.Now()
	if ctx.Err() != nil || c.owns != nil && !c.owns() {
		<-c.slot
		return nil, cmp.Or(context.Cause(ctx), errMoved)
	}
	dir, err := c.disk.Checkpoint(ctx)
	if err != nil {
		<-c.slot
		c.log.Error("no checkpoint", zap.Error(err))
		return nil, err
	}
	c.log.Info("checkpoint made", zap.String("directory", dir), zap.Duration("took", time.Since(started)))
	gone, end := whileOwner(ctx, c.owns)
	return &checkpoint{directory: dir, gone: gone, release: func() error {
		end()
		defer func() { <-c.slot }()
		if err := c.disk.RemoveCheckpoint(); err != nil {
			c.log.Error("the checkpoint is not removed", zap.Error(err))
			return err
		}
		c.log.Info("checkpoint removed", zap.Duration("held", time.Since(started)))
		return nil
	}}, nil
}

var errMoved = errors.New("another server owns the group")

// checkpoint is a directory that does not change until it is released.
type checkpoint struct {
	directory string
	// gone ends when the directory must not be read any more.
	gone    context.Context //nolint:containedctx // It stands for the server that holds the directory.
	release func() error
	// stopped: the directory belongs to a stopped server of a cluster. unapplied counts the changes that the log has and the
	// store lacks.
	stopped   bool
	unapplied int
}

// because adds to err why the checkpoint is gone, if it is.
func (c *checkpoint) because(err error) error {
	if c.gone.Err() != nil {
		return errors.Join(context.Cause(c.gone), err)
	}
	return err
}
