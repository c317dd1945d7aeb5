package engine

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"hindsight/internal/engine/recovery"
	"hindsight/internal/model/codec"
)

const (
	// At most copiesAtOnce copies of states are on their way to the disk or to a
	// client, and as many in reports, over all models.
	copiesAtOnce = 2
	// The next snapshot is due after snapshotShare times as much learning as the
	// last one took to be written.
	snapshotShare = 10
	// An encoded state takes at most slack bytes beside its numbers.
	slack = 4096
	// A page of memory has at least pageBytes.
	pageBytes = 4096
)

// errSuperseded is a capture of a model that was restored or deleted since.
var errSuperseded = errors.New("the model was restored or deleted meanwhile")

// copiesOf is how often a state is in memory while a copy of it is encoded: once as its
// bytes, and once as those of the whole snapshot.
const copiesOf = 2

// errLeft is a model that left memory before its turn came.
var errLeft = errors.New("the model has left memory")

// takeCopy loads the model and waits for a place among the copies of states. The model may
// leave memory again meanwhile.
func (i *instance) takeCopy(ctx context.Context) error {
	if err := i.lockLoaded(ctx); err != nil {
		return err
	}
	i.mu.RUnlock()
	return take(ctx, i.copies, "other copies of states")
}

// captureNow is capture, once there is memory for the copy. Done gives the memory back, and
// is nil after an error.
func (i *instance) captureNow(ctx context.Context) (c capture, err error) {
	if c.done, err = i.takeBytes(ctx, copiesOf*i.stateBytes()); err != nil {
		return c, err
	}
	done := c.done
	if c, err = i.capture(); err != nil {
		done()
		return c, err
	}
	c.done = done
	return c, nil
}

// capture copies the state, once the ids of all that it learned are written. It
// runs at the model's turn, and the caller has a place among the copies.
func (i *instance) capture() (c capture, err error) {
	defer func() { i.countFailure(err) }()
	switch {
	case i.mu.broken != nil:
		return capture{}, i.mu.broken
	case i.mu.machine == nil:
		return capture{}, errLeft
	}
	if err := i.writeDerived(); err != nil {
		return capture{}, err
	}
	s, err := i.mu.machine.Snapshot(i.buffer())
	if err != nil {
		return capture{}, i.errorf("copy the state", err)
	}
	now := i.o.Now().UnixNano()
	i.snapshotTime.Store(now)
	return capture{Snapshot: s, instance: i, epoch: i.epoch.Load(), replay: i.replay.Load(), made: now}, nil
}

// countFailure counts a snapshot that failed, but not one that its caller gave up or
// that nobody needs any more.
func (i *instance) countFailure(err error) {
	if err != nil && !errors.Is(err, errSuperseded) && !errors.Is(err, errLeft) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		i.snapshotFailures.Add(1)
	}
}

// buffer has room for the encoded state. Its pages are touched, so that the copy
// does not wait for them.
func (i *instance) buffer() []byte {
	buffer := make([]byte, int(i.bytes.Load())+slack)
	for n := 0; n < len(buffer); n += pageBytes {
		buffer[n] = 0
	}
	return buffer[:0]
}

// writeDerived writes what follows from the records that were learned, without
// waiting for the disk. It runs at the model's turn.
func (i *instance) writeDerived() error {
	if len(i.recent.rows) > 0 {
		if err := i.Kept.PutIDs(i.recent.rows); err != nil {
			return i.errorf("remember ids", recovery.StorageError(err))
		}
		i.recent.renew()
	}
	return i.removeAnswered()
}

// write writes a captured snapshot and drops what it makes unnecessary: older
// snapshots, and the log behind the oldest kept. It is errSuperseded for a
// capture that must not be written any more.
func (c *capture) write(ctx context.Context) (err error) {
	i := c.instance
	defer func() { i.countFailure(err) }()
	started := i.o.Now()
	// What follows from the log up to here must be durable before the snapshot
	// says that it need not be derived again.
	if err := i.o.Store.Sync(ctx); err != nil {
		return i.errorf("sync before a snapshot", recovery.StorageError(err))
	}
	c.Digest = codec.Digest(c.Learner)
	data, err := codec.Encode(c.Snapshot)
	if err != nil {
		return i.errorf("encode a snapshot", err)
	}
	if err := i.takeDisk(ctx); err != nil {
		return err
	}
	defer func() { <-i.disk }()
	if i.epoch.Load() != c.epoch {
		return i.errorf("write a snapshot", errSuperseded)
	}
	if c.Sequence <= i.snapshotAt.Load() && c.Sequence > 0 {
		return nil // It, or a newer one, is there.
	}
	if err := i.Kept.WriteSnapshot(c.Sequence, data); err != nil {
		return i.errorf("write a snapshot", recovery.StorageError(err))
	}
	i.snapshotAt.Store(c.Sequence)
	i.replay.Add(-min(c.replay, i.replay.Load()))
	took := i.o.Now().Sub(started)
	i.snapshotTook.Store(int64(took))
	i.snapshotMade.Store(c.made)
	i.snapshotBytes.Store(int64(len(data)))
	i.o.Stages.Snapshot(took.Seconds())
	i.o.Log.Debug("snapshot written", zap.String("model", i.id), zap.Uint64("sequence", c.Sequence), zap.Int("bytes", len(data)))
	return i.errorf("drop what a snapshot makes unnecessary", recovery.StorageError(i.prune()))
}

// prune drops the oldest snapshots, and the log behind the oldest that stays.
// Disk is held.
func (i *instance) prune() error {
	kept, err := i.Kept.Snapshots()
	if err != nil {
		return err
	}
	for len(kept) > i.o.SnapshotsKept {
		if err := i.Kept.RemoveSnapshot(kept[len(kept)-1]); err != nil {
			return err
		}
		kept = kept[:len(kept)-1]
	}
	if len(kept) < i.o.SnapshotsKept {
		return nil // Until then the log reaches back to the beginning.
	}
	return i.Kept.Truncate(i.needed(kept[len(kept)-1]))
}

// supersede lets no capture of before be written any more, and waits for one
// that is being written.
func (i *instance) supersede(ctx context.Context) error {
	if err := i.takeDisk(ctx); err != nil {
		return err
	}
	defer func() { <-i.disk }()
	i.outdate()
	return nil
}

// outdate lets no capture of before be written any more, and no report of before be
// told. Disk is held.
func (i *instance) outdate() {
	i.epoch.Add(1)
	i.solved.Store(nil)
}

// replayDue tells whether replaying the log would take so long that a snapshot
// is due. It runs at the model's turn.
func (i *instance) replayDue() bool {
	replay := i.replay.Load()
	return replay >= int64(i.o.SnapshotReplay) && replay >= snapshotShare*i.snapshotTook.Load()
}

// intervalDue tells whether a model that has learned since its last snapshot is
// due for one by its age, of either sign: a clock that went back makes the last one one
// of the future.
func (i *instance) intervalDue(now time.Time) bool {
	return now.Sub(time.Unix(0, i.snapshotTime.Load())).Abs() >= i.o.SnapshotInterval && i.changed()
}

// changed tells whether there is more in memory than in the newest snapshot.
// What a broken model holds beyond its last snapshot is in the log.
func (i *instance) changed() bool {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.mu.machine != nil && i.mu.broken == nil && i.mu.machine.Sequence() > i.snapshotAt.Load()
}

// handOver captures the state for the snapshotter, unless it is busy; the next
// commit or sweep then tries again. It runs at the model's turn.
func (i *instance) handOver() {
	if !i.changed() {
		return
	}
	select {
	case i.copies <- struct{}{}:
	default:
		return
	}
	bytes := i.most(copiesOf * i.stateBytes())
	if !i.copyBytes.TryAcquire(bytes) {
		<-i.copies
		return
	}
	c, err := i.capture()
	c.done = func() { i.copyBytes.Release(bytes) }
	if err != nil {
		c.done()
		<-i.copies
		i.o.Log.Error("snapshot failed", zap.String("model", i.id), zap.Error(err))
		return
	}
	i.snapshots <- c // There is room: a capture takes a copy's place.
}

// writeSnapshots writes what is handed over, until the channel closes.
func (s *shared) writeSnapshots() {
	for c := range s.snapshots {
		err := c.write(s.appends)
		c.done()
		<-s.copies
		if s.wanted.Load() > 0 {
			s.press() // The model can leave memory now.
		}
		if err != nil && !errors.Is(err, errSuperseded) {
			s.o.Log.Error("snapshot failed", zap.String("model", c.instance.id), zap.Error(err))
		}
	}
}

// hibernate lets a model leave memory, and tells whether it did. One that would take long
// to come back is left to get a snapshot first, which wanted says. A busy one leaves after
// its batch, which later says.
func (i *instance) hibernate() (gone, wanted, later bool) {
	idle := i.box.TryDo(func() { gone, wanted = i.goIdle() })
	i.yields.Store(!idle)
	return gone, wanted, !idle
}

// goIdle is hibernate at the model's turn.
func (i *instance) goIdle() (gone, wanted bool) {
	switch {
	case i.mu.machine == nil || i.mu.broken != nil:
	case time.Duration(i.replay.Load()) > cheapReplay:
		wanted = true
	case i.writeDerived() != nil: // The storage fails, which the next commit meets.
	default:
		i.forget()
		i.hibernations.Add(1)
		gone = true
	}
	return gone, wanted
}
