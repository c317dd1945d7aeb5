package engine

import (
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"hindsight/internal/model/codec"
)

func unixTime(nanoseconds int64) time.Time { return time.Unix(0, nanoseconds) }

// snapshotter writes snapshots off the data path, one at a time.
type snapshotter struct {
	jobs chan snapshotJob
	// slots bounds the copies of state in memory. Whoever captures a state
	// takes one first.
	slots chan struct{}
	done  sync.WaitGroup
}

// copies is how many captured states may be in memory at once.
const copies = 2

type snapshotJob struct {
	instance *instance
	snapshot codec.Snapshot
}

func (s *snapshotter) start(e *Engine) {
	s.jobs = make(chan snapshotJob, copies)
	s.slots = make(chan struct{}, copies)
	s.done.Add(1)
	go func() {
		defer s.done.Done()
		for j := range s.jobs {
			if err := j.instance.store(j.snapshot); err != nil {
				e.o.Log.Error("snapshot failed", zap.String("model", j.instance.id), zap.Error(err))
			}
			<-s.slots
			j.instance.snapshotEnded()
		}
	}()
}

// close waits for what was handed over. Every writer has ended before.
func (s *snapshotter) close() {
	close(s.jobs)
	s.done.Wait()
}

// snapshotCountDue tells whether enough was learned since the last snapshot.
func (i *instance) snapshotCountDue() bool {
	return i.mu.sequence-i.snapshotAt.Load() >= i.engine.o.SnapshotObservations
}

// snapshotIfDue asks the writer for a snapshot of a model that has changed
// and whose last is old enough.
func (i *instance) snapshotIfDue(now time.Time) {
	i.mu.RLock()
	changed := i.mu.learner != nil && i.mu.sequence > i.snapshotAt.Load() && i.mu.broken == nil
	i.mu.RUnlock()
	if !changed || now.Sub(unixTime(i.snapshotTime.Load())) < i.engine.o.SnapshotInterval {
		return
	}
	i.gate.Lock()
	defer i.gate.Unlock()
	if i.gate.shut == nil && i.gate.snapshots == 0 {
		i.gate.snapshot = true
		i.wake()
	}
}

// handOver copies the state and hands it to the snapshotter, unless one of
// this model is on its way or the snapshotter is busy; the next commit or
// sweep then tries again. The writer calls it.
func (i *instance) handOver() {
	if i.mu.learner == nil {
		return // It left memory before its turn came, or never got there.
	}
	i.gate.Lock()
	busy := i.gate.snapshots > 0
	if !busy {
		select {
		case i.engine.snapshots.slots <- struct{}{}:
			i.gate.snapshots++
		default:
			busy = true
		}
	}
	i.gate.Unlock()
	if busy {
		return
	}
	s, err := i.capture()
	if err != nil {
		i.engine.o.Log.Error("snapshot failed", zap.String("model", i.id), zap.Error(err))
		<-i.engine.snapshots.slots
		i.snapshotEnded()
		return
	}
	i.snapshotTime.Store(i.engine.o.Now().UnixNano())
	i.engine.snapshots.jobs <- snapshotJob{instance: i, snapshot: s} // There is room: a job a slot.
}

func (i *instance) snapshotEnded() {
	i.gate.Lock()
	defer i.gate.Unlock()
	i.gate.snapshots--
	i.gate.changed.Broadcast()
}

// capture copies the model's state, without its digest, which the writer has
// no time for.
func (i *instance) capture() (codec.Snapshot, error) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	state, err := i.mu.learner.AppendBinary(nil)
	if err != nil {
		return codec.Snapshot{}, fmt.Errorf("encode state: %w", err)
	}
	return codec.Snapshot{
		Spec: i.spec, Sequence: i.mu.sequence,
		Learner: state, Account: i.mu.account.encode(),
	}, nil
}

// store writes a captured snapshot and lets go of what it makes unnecessary:
// older snapshots, and the log behind the oldest kept.
func (i *instance) store(s codec.Snapshot) error {
	// What is derived from the log up to here must be durable before the
	// snapshot says that it need not be derived again.
	if err := i.engine.o.Store.Sync(); err != nil {
		return fmt.Errorf("sync before the snapshot: %w", err)
	}
	return i.keep(s)
}

// keep is store once everything before the snapshot is durable.
func (i *instance) keep(s codec.Snapshot) error {
	s.Digest = codec.Digest(s.Learner)
	data, err := codec.Encode(s)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	if err := i.engine.o.Store.WriteSnapshot(i.number, s.Sequence, data); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	i.snapshotAt.Store(s.Sequence)
	if i.engine.o.OnSnapshot != nil {
		i.engine.o.OnSnapshot(i.id, i.created, s.Sequence, data)
	}
	kept, err := i.engine.o.Store.Snapshots(i.number)
	if err != nil {
		return fmt.Errorf("list: %w", err)
	}
	for len(kept) > i.engine.o.SnapshotsKept {
		if err := i.engine.o.Store.RemoveSnapshot(i.number, kept[len(kept)-1]); err != nil {
			return fmt.Errorf("remove an old one: %w", err)
		}
		kept = kept[:len(kept)-1]
	}
	if len(kept) < i.engine.o.SnapshotsKept {
		return nil // Until then the log reaches back to the beginning.
	}
	if err := i.engine.o.Store.TruncateLog(i.number, kept[len(kept)-1]); err != nil {
		return fmt.Errorf("cut the log: %w", err)
	}
	i.engine.o.Log.Debug("snapshot written", zap.String("model", i.id), zap.Uint64("sequence", s.Sequence), zap.Int("bytes", len(data)))
	return nil
}

// changed tells whether there is more in memory than in the newest snapshot.
// What a broken model holds beyond its last snapshot is in the log.
func (i *instance) changed() bool {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.mu.learner != nil && i.mu.broken == nil && i.mu.sequence > i.snapshotAt.Load()
}

// ahead is how many observations the model is ahead of its newest snapshot.
func (i *instance) ahead() uint64 {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.mu.sequence - i.snapshotAt.Load()
}

// snapshotNow writes a snapshot of a model that changed. The writer and the
// snapshotter have ended, and the store was synced since.
func (i *instance) snapshotNow() error {
	s, err := i.capture()
	if err != nil {
		return err
	}
	return i.keep(s)
}
