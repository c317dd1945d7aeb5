package hosted

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"hindsight/internal/engine/record"
	"hindsight/internal/engine/recovery"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model/snapshot"
)

// Grown records that another server has appended to the log, which now ends at a sequence. A model in memory learns
// the new records at its turn. A model that is not in memory learns them when it is loaded. On a cold server the model
// learns nothing and leaves memory. Grown does not wait. One goroutine at a time calls Grown, Rewound, Snapshotted and
// Digested.
func (m *Model) Grown(sequence uint64) {
	m.journal.grown.Store(true)
	if !m.Resident() {
		before := m.journal.knownLogEnd.Swap(sequence)
		more := int64(sequence - min(before, sequence))
		if before == 0 {
			more, _ = m.journal.behind() // A load returns the error.
		}
		m.snapshots.replay.Add(more * max(m.snapshots.cost.Load(), int64(ReadCost)))
	}
	m.postFollow()
}

// Rewound records that another server has rewound the log to a sequence. The model follows at its turn. Rewound does
// not wait.
func (m *Model) Rewound(sequence uint64) {
	m.digests.mu.Lock()
	m.digests.cancel()
	if pending := m.journal.rewound.Load(); pending == 0 || sequence+1 < pending {
		m.journal.rewound.Store(sequence + 1)
	}
	m.digests.mu.Unlock()
	m.box.Post()
}

// Snapshotted writes the owner's snapshot of a sequence, of an entry of the log, on a cold server. It does not wait. On the
// owner, data is empty.
func (m *Model) Snapshotted(index, sequence uint64, data []byte) {
	if !m.env.Cold {
		return // A warm server makes its own snapshots.
	}
	m.digests.change(sequence, func(s *sent) { s.index = index })
	if len(data) == 0 {
		return
	}
	s, knownLogEnd := &m.snapshots, m.journal.knownLogEnd.Load()
	left := int64(knownLogEnd-min(sequence, knownLogEnd)) * max(s.cost.Load(), int64(ReadCost))
	c := capture{
		Snapshot: snapshot.Snapshot{Sequence: sequence}, model: m, epoch: s.epoch.Load(), data: data,
		replay: max(0, m.Replay()-left), madeAt: m.env.Now().UnixNano(),
	}
	fields := []zap.Field{zap.String("model", m.ID()), zap.Uint64("sequence", sequence)}
	missed := func(why string) {
		m.env.Counters.SnapshotFailures.Add(1)
		m.env.Log.Warn("this server leaves out a snapshot of the owner: "+why, fields...)
	}
	release := m.env.Memory.tryCopies((1 + copiesOf) * int64(len(data))) // The snapshot, and the copies of its check.
	if release == nil {
		missed("the memory of other copies of states is in use")
		return
	}
	select {
	case m.env.received <- func(ctx context.Context) {
		defer release()
		if err := c.write(ctx); err != nil && !errors.Is(err, ErrSuperseded) && ctx.Err() == nil {
			m.env.Log.Error("a snapshot of the owner cannot be written", append(fields, zap.Error(err))...)
		}
	}:
	default:
		release()
		missed("the disk is too slow")
	}
}

// Supersede discards all earlier captures. It runs at the model's turn.
func (m *Model) Supersede(ctx context.Context) error { return m.snapshots.supersede(ctx) }

// InheritRewind lets the model follow a rewind that another handle of the model has not followed yet.
func (m *Model) InheritRewind(other *Model) {
	if pending := other.journal.rewound.Load(); pending != 0 {
		m.Rewound(pending - 1)
	}
}

// Warm makes the model load at its next turn, unless memory is half full, and learn the records of other servers.
func (m *Model) Warm() {
	if !m.env.Memory.HalfFull() && !m.env.RestsCold() {
		m.journal.warm.Store(true)
		m.box.Post()
	}
}

// follow learns some records of other servers, and posts itself for the rest, so that other jobs have their turn. It
// loads a model whose replay has become so long that a snapshot is due. On a cold server it only follows a rewind, and
// lets the model leave memory.
func (m *Model) follow() {
	more, err := false, error(nil)
	cold := m.env.RestsCold()
	if cold {
		err = m.followRewind()
	} else if m.journal.warm.Swap(false) || m.journal.rewound.Load() != 0 || m.snapshots.replayDue(&m.env.Options) {
		err = m.load()
	}
	switch {
	case err != nil:
	case cold:
		m.hibernate()
	default:
		more, err = m.advance(MaxCommitRows)
		m.afterCommit()
	}
	switch {
	case err != nil:
		m.env.Log.Debug("a model cannot follow its log at present", zap.String("model", m.ID()), zap.Error(err))
	case more:
		m.postFollow()
	}
}

// catchUp loads the model, and learns all records of other servers. It runs at the model's turn.
func (m *Model) catchUp() error {
	if err := m.load(); err != nil {
		return err
	}
	return m.Advance()
}

// Advance learns all records of other servers, and leaves the model in memory. It runs at the model's turn.
func (m *Model) Advance() error {
	for m.journal.grown.Load() || m.journal.rewound.Load() != 0 {
		if more, err := m.advance(MaxCommitRows); err != nil || !more {
			return err
		}
	}
	return nil
}

// advance learns records of other servers with up to so many rows, and reports whether more records follow. On a
// model that is not in memory it does nothing.
func (m *Model) advance(rows uint64) (more bool, err error) {
	if err := m.followRewind(); err != nil {
		return false, err
	}
	if m.state.machine == nil || m.state.broken != nil {
		return false, m.state.broken
	}
	begin := m.state.machine.Sequence()
	end := begin
	var records []record.Record
	err = m.journal.store.Replay(m.env.appends, begin, func(logged storage.Record) error {
		r, err := recovery.DecodeNext(logged, end)
		if err != nil {
			return err
		}
		records, end = append(records, r), logged.Last
		if end-begin >= rows {
			return storage.ErrReached
		}
		return nil
	})
	if err != nil {
		return false, m.lost(m.id.storagef("read the records of other servers", err))
	}
	for n := range records {
		m.digestIfAsked() // A check that asks for this state precedes the record in the log.
		if err := m.relearn(records[n]); err != nil {
			return false, err
		}
	}
	m.digestIfAsked()
	return m.journal.reached(end), nil
}

// relearn lets the machine learn a record of another server. The machine keeps the memory of the record.
func (m *Model) relearn(r record.Record) error {
	c := commit{Model: m, record: r}
	begun := m.env.Now()
	if err := c.learn(len(r.Observations)); err != nil {
		return err
	}
	ended := m.env.Now()
	m.env.Stages.Learn(ended.Sub(begun).Seconds(), "")
	m.journal.recent.clear() // The store has the ids since this record.
	c.learned(begun, ended)
	return nil
}

// AwaitRewind makes a model reject all calls after a crash has interrupted its rewind, until Rewound reports that the
// rewind is complete. The caller calls AwaitRewind before the model is hosted.
func (m *Model) AwaitRewind() {
	m.setRestoring(true)
	m.Break(fmt.Errorf("%w: the restore of model %q is not complete", ErrOverloaded, m.ID()))
}

// DeriveIDs makes Remembers complete, once after a start: it loads a model whose log goes beyond its newest snapshot.
// For a model that cannot be recovered, Remembers knows only the ids in the store.
func (m *Model) DeriveIDs(ctx context.Context) error {
	if m.journal.grown.Load() { // Other servers have appended to the log.
		return m.box.Do(ctx, func(context.Context) error {
			err := m.catchUp()
			if m.state.broken != nil {
				err = nil // A log that cannot be recovered gives no ids.
			}
			return err
		})
	}
	if m.journal.derived.Load() {
		return nil
	}
	if left, err := m.journal.behind(); err == nil && left == 0 {
		m.journal.derived.Store(true)
		return nil
	}
	if err := m.Load(ctx); err != nil && m.Broken() == nil {
		return err
	}
	return nil
}

// Await waits until the model has learned a sequence. It loads the model.
func (m *Model) Await(ctx context.Context, sequence uint64) error {
	for {
		changed := m.news.next()
		if err := m.lockLoaded(ctx); err != nil {
			return err
		}
		learned, broken := m.state.machine.Sequence(), m.state.broken
		m.state.RUnlock()
		if learned >= sequence && m.journal.rewound.Load() == 0 {
			return nil
		}
		if broken != nil {
			return broken
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("engine: wait for sequence %d of model %q, which has learned %d: %w", sequence, m.ID(), learned, context.Cause(ctx))
		case <-m.env.Lifetime.Done():
			return ErrClosed
		}
	}
}

// AwaitLog waits until the model has learned the log as far as the store has it at the call.
func (m *Model) AwaitLog(ctx context.Context) error {
	last, err := m.journal.store.Last()
	if err != nil {
		return m.id.storagef("find the end of the log", err)
	}
	return m.Await(ctx, last)
}
