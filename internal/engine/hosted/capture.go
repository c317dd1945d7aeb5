package hosted

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"hindsight/internal/engine/machine"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model/snapshot"
)

// capture is a copy of a model's state on its way to the disk or to a client.
type capture struct {
	snapshot.Snapshot
	model *Model
	epoch uint64
	// data is the encoded snapshot that the owner has sent, nil for a state of this server.
	data []byte
	// replay is the estimated replay that the snapshot saves, made when the state was copied. Both are in
	// nanoseconds, made since 1970.
	replay, madeAt int64
	release        func()
}

// capture copies the state, after the store has everything derived from what was learned. It runs at
// the model's turn. The caller holds a slot among the copies, and the memory.
func (m *Model) capture(release func()) (c capture, err error) {
	defer func() {
		if m.countFailure(err); err != nil {
			release()
		}
	}()
	switch {
	case m.state.broken != nil:
		return capture{}, m.state.broken
	case m.state.machine == nil:
		return capture{}, errLeft
	}
	if err := m.journal.writeIDs(m.env.appends); err != nil {
		return capture{}, err
	}
	s, err := m.state.machine.Snapshot(m.buffer())
	if err != nil {
		return capture{}, m.id.errorf("copy the state", err)
	}
	now := m.env.Now().UnixNano()
	m.snapshots.lastCaptureAt.Store(now)
	return capture{Snapshot: s, model: m, epoch: m.snapshots.epoch.Load(), replay: m.Replay(), madeAt: now, release: release}, nil
}

// countFailure counts a snapshot that failed, but none that its caller gave up or that nobody needs any
// more.
func (m *Model) countFailure(err error) {
	for _, ignored := range []error{nil, ErrSuperseded, errLeft, ErrNotOwner, ErrModelNotFound, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, ignored) {
			return
		}
	}
	m.env.Counters.SnapshotFailures.Add(1)
}

// buffer has room for the encoded state. Its pages are touched, so that the copy does not wait for
// them.
func (m *Model) buffer() []byte {
	buffer := make([]byte, int(m.usage.bytes.Load())+slack)
	for n := 0; n < len(buffer); n += pageBytes {
		buffer[n] = 0
	}
	return buffer[:0]
}

// write writes a captured snapshot, and drops older snapshots and the log that it makes unnecessary. It is ErrSuperseded
// if the model was restored or deleted since.
func (c *capture) write(ctx context.Context) (err error) {
	m := c.model
	defer func() { m.countFailure(err) }()
	started := m.env.Now()
	// The snapshot says that nothing before it needs to be derived again: what was derived must be durable
	// first.
	if err := m.env.Store.Sync(ctx); err != nil {
		return m.id.storagef("sync before a snapshot", err)
	}
	data := c.data
	if data == nil {
		c.Digest = snapshot.Digest(c.Learner)
		data, err = snapshot.Encode(c.Snapshot)
	} else {
		_, c.Digest, err = snapshot.DecodeHead(data)
	}
	if err != nil {
		return m.id.errorf("encode a snapshot", err)
	}
	if written, err := c.put(ctx, data, started); err != nil || !written {
		return err
	}
	c.Learner, c.Account, c.History = nil, nil, nil // The check uses the memory of the copy.
	return c.prune(ctx)
}

// put writes the encoded snapshot, unless the newest snapshot is as new.
func (c *capture) put(ctx context.Context, data []byte, started time.Time) (written bool, err error) {
	m, s := c.model, &c.model.snapshots
	if err := s.lock(ctx); err != nil {
		return false, err
	}
	defer s.unlock()
	if s.epoch.Load() != c.epoch || m.journal.rewound.Load() != 0 {
		return false, m.id.errorf("write a snapshot", ErrSuperseded)
	}
	if c.Sequence <= s.newest.Load() && c.Sequence > 0 {
		return false, nil
	}
	sharing := m.env.Now()
	if c.data == nil {
		if err := m.share(&c.Snapshot, data); err != nil {
			return false, err
		}
	}
	shared := m.env.Now()
	if err := s.store.WriteSnapshot(c.Sequence, data); err != nil {
		return false, m.id.storagef("write a snapshot", err)
	}
	if m.journal.rewound.Load() != 0 { // followRewind would remove the snapshot too, but a crash may come first.
		return false, m.id.errorf("write a snapshot", errors.Join(ErrSuperseded, s.store.RemoveSnapshot(c.Sequence)))
	}
	s.newest.Store(c.Sequence)
	s.replay.Add(-min(c.replay, s.replay.Load()))
	took := m.env.Now().Sub(started) - shared.Sub(sharing)
	s.writeTime.Store(int64(took))
	s.newestAt.Store(c.madeAt)
	m.env.Log.Debug("snapshot written", zap.String("model", m.ID()), zap.Uint64("sequence", c.Sequence), zap.Int("bytes", len(data)), zap.Duration("took", took))
	return true, nil
}

// prune drops the snapshots and the log that the written snapshot makes unnecessary. If it is due, prune first reads the
// written snapshot back, without a lock. At any time the log goes on from a snapshot that was read back, or from the
// model's beginning.
func (c *capture) prune(ctx context.Context) error {
	m, s := c.model, &c.model.snapshots
	due, err := s.checkDue(ctx, m.env.SnapshotsKept)
	if err != nil {
		return m.id.storagef("list the snapshots", err)
	}
	var rejected error
	if due {
		rejected = m.source.Check(c.Sequence, nil, c.Digest)
	}
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	switch {
	case s.epoch.Load() != c.epoch || m.journal.rewound.Load() != 0 || s.newest.Load() != c.Sequence || s.suspect > 0:
		return nil // The model was restored or deleted, the writer of a newer snapshot prunes, or a load needs the log.
	case rejected != nil:
		return s.removeNewest(c.Sequence, rejected)
	case due:
		s.checked, s.checkedEpoch, s.unchecked = c.Sequence, c.epoch, 0
	}
	keepFrom := m.owner.KeepFrom
	if c.data != nil && m.Resident() { // The state may be older than the snapshot, and needs the log between the two.
		keepFrom = func(uint64) uint64 { return 0 }
	}
	return m.id.storagef("drop what a snapshot makes unnecessary", s.prune(m.journal.store, m.env.SnapshotsKept, keepFrom))
}

// share sends a new snapshot to the cold servers before this server writes it. It fails with ErrNotOwner on a server
// that is not the owner, which makes no snapshots. The caller holds disk, so that the log has the snapshot before a
// later restore.
func (m *Model) share(s *snapshot.Snapshot, data []byte) error {
	proposer, ok := m.source.Handle.(interface {
		ProposeSnapshot(ctx context.Context, sequence uint64, data []byte, ids []storage.ID) error
	})
	if !ok || !m.env.Cold {
		return nil
	}
	// A server that begins with the snapshot does not derive these ids. It has the ids of earlier records.
	ids, err := m.journal.lastIDs(m.env.appends, s.Sequence)
	if err == nil {
		state := digestOf(s)
		m.digests.change(s.Sequence, func(s *sent) { s.State = state })
		err = proposer.ProposeSnapshot(m.env.appends, s.Sequence, data, ids)
	}
	if errors.Is(err, ErrNotOwner) {
		return m.id.storagef("send a snapshot", err)
	}
	if err != nil {
		m.countFailure(err)
		m.env.Log.Warn("cold replicas do not get a snapshot", zap.String("model", m.ID()), zap.Uint64("sequence", s.Sequence), zap.Error(err))
	}
	return nil
}

// handOver captures a changed state for the writer of snapshots. If the writer is busy, or has a capture of the model
// already, the next commit or sweep tries again. It runs at the model's turn.
func (m *Model) handOver() {
	if m.Changed() && m.snapshots.handedOver.CompareAndSwap(false, true) && !m.tryHandOver() {
		m.snapshots.handedOver.Store(false)
	}
}

func (m *Model) tryHandOver() bool {
	select {
	case m.env.copies <- struct{}{}:
	default:
		return false
	}
	release := m.env.Memory.tryCopies(copiesOf * m.stateBytes())
	if release == nil {
		m.env.copies.Free()
		return false
	}
	c, err := m.capture(release)
	if err != nil {
		m.env.copies.Free()
		m.env.Log.Error("snapshot failed", zap.String("model", m.ID()), zap.Error(err))
		return false
	}
	m.env.captures <- func(ctx context.Context) {
		defer release()
		defer m.snapshots.handedOver.Store(false)
		if err := c.write(ctx); err != nil && !errors.Is(err, ErrSuperseded) && !errors.Is(err, ErrNotOwner) {
			m.env.Log.Error("snapshot failed", zap.String("model", m.ID()), zap.Error(err))
		}
	}
	return true
}

// SnapshotIfDue hands over the state of an idle model whose newest snapshot is too old.
func (m *Model) SnapshotIfDue(now time.Time) {
	if m.snapshotDue(now) {
		m.box.TryDo(m.handOver)
	}
}

// LastSnapshot writes the state after Join.
func (m *Model) LastSnapshot() error {
	c, err := m.capture(func() {})
	if err == nil {
		err = c.write(m.env.appends)
	}
	if m.journal.replicated && (errors.Is(err, ErrSuperseded) || errors.Is(err, ErrModelNotFound) || errors.Is(err, ErrNotOwner)) {
		return nil // Another server has restored or deleted the model, or makes its snapshots.
	}
	return err
}

// captureAtTurn loads the model, waits for a slot and for memory, and copies the state at the model's turn. At the same
// turn, before may reject the copy, and after completes it. Without an error the caller calls release.
func (m *Model) captureAtTurn(ctx context.Context, before func() error, after func(context.Context, *capture) error) (capture, error) {
	for {
		if err := m.Load(ctx); err != nil {
			return capture{}, err
		}
		if err := m.env.copies.Take(ctx, "other copies of states"); err != nil {
			return capture{}, err
		}
		c, err := m.tryCapture(ctx, before, after)
		if err == nil {
			done := c.release
			c.release = func() { done(); m.env.copies.Free() }
			return c, nil
		}
		if m.env.copies.Free(); !errors.Is(err, errLeft) {
			return capture{}, err
		}
	}
}

// tryCapture is captureAtTurn with a slot. A state captured after the caller has left is given up.
func (m *Model) tryCapture(ctx context.Context, before func() error, after func(context.Context, *capture) error) (capture, error) {
	var decided atomic.Bool // The state is captured, or the caller has left.
	captured := make(chan capture, 1)
	err := m.box.Do(ctx, func(ctx context.Context) error {
		if err := before(); err != nil {
			return err
		}
		if err := m.followRewind(); err != nil {
			return err
		}
		release, err := m.env.Memory.TakeCopies(ctx, copiesOf*m.stateBytes())
		if err != nil {
			return err
		}
		c, err := m.capture(release)
		if err != nil {
			return err
		}
		if err := after(ctx, &c); err != nil {
			release()
			return err
		}
		if !decided.CompareAndSwap(false, true) {
			release()
			return nil
		}
		captured <- c
		return nil
	})
	if err == nil {
		return <-captured, nil
	}
	if !decided.CompareAndSwap(false, true) {
		(<-captured).release()
	}
	return capture{}, err
}

// WriteSnapshot writes a snapshot unless the newest one has everything learned, and describes the
// newest one then.
func (m *Model) WriteSnapshot(ctx context.Context) (Snapshot, error) {
	for {
		s, err := m.writeSnapshot(ctx)
		if !errors.Is(err, ErrSuperseded) {
			return s, err
		}
		// The captured state was undone: capture another one.
	}
}

func (m *Model) writeSnapshot(ctx context.Context) (Snapshot, error) {
	c, err := m.captureAtTurn(ctx, func() error { return nil }, func(context.Context, *capture) error { return nil })
	if err != nil {
		return Snapshot{}, err
	}
	defer c.release()
	written := m.snapshots.newest.Load() == c.Sequence
	if written {
		_, err := m.snapshots.describe(c.Sequence)
		written = err == nil
	}
	if !written {
		if err := c.write(ctx); err != nil {
			return Snapshot{}, err
		}
		return m.snapshots.describe(c.Sequence)
	}
	// Its writer may not have dropped yet what it makes unnecessary.
	if err := m.snapshots.lock(ctx); err != nil {
		return Snapshot{}, err
	}
	defer m.snapshots.unlock()
	return m.snapshots.describe(c.Sequence)
}

// CopyState copies the state for a report, and calls f with the machine that is copied. It holds three
// times the state's memory until release. Resident is false if the model has left memory.
func (m *Model) CopyState(ctx context.Context, f func(*machine.Machine) error) (s snapshot.Snapshot, release func(), resident bool, err error) {
	// The copy, the machine restored from it, and what the report takes.
	release, err = m.env.Memory.TakeCopies(ctx, (copiesOf+1)*m.stateBytes())
	if err != nil {
		return s, nil, false, err
	}
	buffer := m.buffer()
	m.state.unchanged.Lock()
	if resident, err = m.lockIfLoaded(); err == nil && resident {
		m.state.RUnlock() // Predictions would wait for a commit that waits for the read lock.
		if err = f(m.state.machine); err == nil {
			s, err = m.state.machine.Snapshot(buffer)
		}
	}
	m.state.unchanged.Unlock()
	if err != nil || !resident {
		release()
		return s, nil, resident, err
	}
	return s, release, true, nil
}

// ListSnapshots describes the snapshots, the newest first.
func (m *Model) ListSnapshots() ([]Snapshot, error) {
	return m.snapshots.list(func(sequence uint64, err error) {
		m.env.Log.Warn("snapshot left out of the list", zap.String("model", m.ID()), zap.Uint64("sequence", sequence), zap.Error(err))
	})
}

// snapshotDue reports whether the newest snapshot of a model that has learned since is too old. A clock
// that went back makes it one of the future, which counts as old.
func (m *Model) snapshotDue(now time.Time) bool {
	return now.Sub(time.Unix(0, m.snapshots.lastCaptureAt.Load())).Abs() >= m.env.SnapshotInterval && m.Changed()
}

// Changed reports whether memory has more than the newest snapshot. What a broken model has learned
// since its newest snapshot is in the log.
func (m *Model) Changed() bool {
	m.state.RLock()
	defer m.state.RUnlock()
	return m.state.machine != nil && m.state.broken == nil && m.state.machine.Sequence() > m.snapshots.newest.Load()
}

// Replay estimates the nanoseconds to replay the log behind the newest snapshot.
func (m *Model) Replay() int64 { return m.snapshots.replay.Load() }
