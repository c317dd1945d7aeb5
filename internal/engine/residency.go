package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"hindsight/internal/engine/machine"
	"hindsight/internal/engine/record"
	"hindsight/internal/engine/recovery"
)

const (
	// A model whose replay takes at most cheapReplay leaves memory without a
	// snapshot.
	cheapReplay = 10 * time.Millisecond
	// An observation costs readCost to be read from the log, beside what it
	// costs to be learned.
	readCost = 2 * time.Microsecond
)

// lockLoaded takes the read lock of a model that is in memory and whole. A
// model that is not in memory is loaded first: that takes its turn.
func (i *instance) lockLoaded(ctx context.Context) error {
	for {
		if there, err := i.lockIfLoaded(); err != nil || there {
			return err
		}
		span := begin(ctx, "load")
		err := i.box.Do(ctx, func(context.Context) error { return i.load() })
		span.End()
		if err != nil {
			return fmt.Errorf("engine: load model %q: %w", i.id, err)
		}
		// It may have left memory again in between.
	}
}

// lockIfLoaded is lockLoaded for a model that is in memory. It locks nothing otherwise.
func (i *instance) lockIfLoaded() (there bool, err error) {
	i.mu.RLock()
	if i.mu.machine != nil && i.mu.machine.Failed() == nil {
		return true, nil
	}
	err = i.mu.broken
	i.mu.RUnlock()
	return false, err
}

// load brings the model into memory, unless it is there. It runs at the model's
// turn. It goes on when its caller leaves: the next one has use for it. What a
// corrupt model is refused with stays; a disk that could not be read is tried
// again by the next caller.
func (i *instance) load() error {
	i.mu.RLock()
	there, broken := i.mu.machine != nil, i.mu.broken
	i.mu.RUnlock()
	if broken != nil || there {
		return broken
	}
	select {
	case i.loading <- struct{}{}:
		defer func() { <-i.loading }()
	case <-i.lifetime.Done():
		return ErrClosed
	}
	bytes := i.stateBytes()
	done, err := i.reserve(i.lifetime, bytes)
	if err != nil {
		return i.given(err)
	}
	defer func() { done() }()
	copied, err := i.takeBytes(i.lifetime, bytes) // The snapshot that it is read from.
	if err != nil {
		return ErrClosed
	}
	// Snapshots captured before the model left memory may still be on their way.
	if err := i.takeDisk(i.lifetime); err != nil {
		copied()
		return ErrClosed
	}
	defer func() { <-i.disk }()
	started := i.o.Now()
	r, err := i.recover()
	copied()
	if err == nil && int64(r.Size())+instanceBytes > bytes { // It has learned more since.
		done()
		if done, err = i.reserve(i.lifetime, int64(r.Size())+instanceBytes); err != nil {
			done = func() {}
			return i.given(err)
		}
	}
	if err != nil {
		switch {
		case i.lifetime.Err() != nil:
			return ErrClosed
		case errors.Is(err, ErrCorrupt):
			err = i.errorf("recover the state", err)
			i.countPanic(err)
			i.takeBroken(err)
		default:
			err = i.errorf("recover the state", err)
			i.o.Log.Error("the model cannot be recovered now", zap.String("model", i.id), zap.Error(err))
		}
		return err
	}
	took := i.o.Now().Sub(started)
	i.publish(r, took)
	i.used.Store(started.UnixNano())
	i.wakes.Add(1)
	i.wakeNanoseconds.Add(int64(took))
	i.o.Log.Debug("model loaded", zap.String("model", i.id), zap.Uint64("sequence", r.Sequence()), zap.Duration("took", took))
	return nil
}

// given is why the engine does no more work of its own, or the error.
func (s *shared) given(err error) error {
	if s.lifetime.Err() != nil {
		return ErrClosed
	}
	return err
}

// takeDisk waits until no snapshot of the model is being written. Who writes one drops
// older ones and the log behind them, so that who reads them holds the disk too.
func (i *instance) takeDisk(ctx context.Context) error {
	return take(ctx, i.disk, "a snapshot of the model to be written")
}

// recover is the machine at the end of the log, once what follows from the log
// is written.
func (i *instance) recover() (recovery.Recovered, error) {
	d := recovery.Derivation{Kept: i.Kept}
	left, _ := i.behindSnapshot() // The recovery meets the error.
	i.replaying.Add(left)
	defer func() { i.replaying.Add(-left) }()
	r, err := i.Newest(i.lifetime, i.passOver, func(r *record.Record, answers []record.Answer) error {
		n := int64(len(answers))
		i.replayed.Add(n)
		n = min(n, left) // It is more if the newest snapshot cannot be used.
		left -= n
		i.replaying.Add(-n)
		return d.Tell(r, answers)
	})
	if err != nil {
		return r, err
	}
	return r, d.Write()
}

// behindSnapshot is how many observations of the log the newest snapshot does not have.
func (i *instance) behindSnapshot() (int64, error) {
	last, err := i.Kept.Last()
	kept, other := i.Kept.Snapshots()
	switch {
	case err != nil || other != nil:
		return 0, errors.Join(err, other)
	case len(kept) > 0:
		return int64(last - min(kept[0], last)), nil
	}
	return int64(last), nil
}

// passOver notes a snapshot that cannot be used.
func (i *instance) passOver(sequence uint64, err error) {
	i.badSnapshots.Add(1)
	i.o.Log.Error("a snapshot cannot be used; an older one and the log are",
		zap.String("model", i.id), zap.Uint64("sequence", sequence), zap.Error(err))
}

// countPanic counts an error that a learner's panic left.
func (i *instance) countPanic(err error) {
	if errors.Is(err, machine.ErrPanic) {
		i.panics.Add(1)
	}
}

// publish puts a recovered machine in place of what was there. It runs at the
// model's turn.
func (i *instance) publish(r recovery.Recovered, took time.Duration) {
	i.recent.renew()
	i.derived.Store(true)
	i.mu.Lock()
	i.mu.machine, i.mu.broken, i.mu.known = r.Machine, nil, true
	i.mu.Unlock()
	i.snapshotAt.Store(r.Snapshot)
	i.noteSnapshot(r.Snapshot)
	i.replay.Store(int64(min(took, time.Duration(r.Sequence()-r.Snapshot)*time.Second)))
	i.measure()
}

// noteSnapshot notes the time and the size of the newest snapshot, which is there from
// before. Where the storage does not tell them they are not known.
func (i *instance) noteSnapshot(sequence uint64) {
	if sequence == 0 {
		if i.snapshotBytes.Swap(0) > 0 { // The model was restored to before its snapshots.
			i.snapshotMade.Store(i.o.Now().UnixNano())
		}
		return
	}
	if f, err := i.Kept.StatSnapshot(sequence, 0); err == nil {
		i.snapshotMade.Store(f.Created.UnixNano())
		i.snapshotBytes.Store(f.Bytes)
	}
}

// forget takes the state out of memory. It runs at the model's turn.
func (i *instance) forget() {
	i.mu.Lock()
	if m := i.mu.machine; m != nil {
		if stats, err := m.Stats(); err == nil {
			last := figuresNow(m, stats)
			i.mu.last = &last
		}
		i.mu.machine = nil
	}
	i.mu.Unlock()
	i.recent.renew()
	i.measure()
}

// measure brings the sum of the state sizes up to date, at a cost of O(1). It
// runs at the model's turn.
func (i *instance) measure() {
	size := int64(0)
	if m := i.mu.machine; m != nil {
		size = int64(m.Size()) + instanceBytes
		i.lastBytes.Store(size)
	}
	more := size - i.bytes.Swap(size)
	i.resident.Add(more)
	if more < 0 {
		i.tellFreed()
	}
	if i.o.ModelMemory > 0 && i.taken() > i.o.ModelMemory {
		i.press()
	}
}

// deriveIDs makes lookUp complete. It loads a model that has a log behind its newest
// snapshot, once after a start. Of a model that cannot be recovered lookUp has what the
// store has.
func (i *instance) deriveIDs(ctx context.Context) error {
	if i.derived.Load() {
		return nil
	}
	if left, err := i.behindSnapshot(); err == nil && left == 0 {
		i.derived.Store(true)
		return nil
	}
	err := i.lockLoaded(ctx)
	if err == nil {
		i.mu.RUnlock()
		return nil
	}
	i.mu.RLock()
	defer i.mu.RUnlock()
	if i.mu.broken != nil {
		return nil
	}
	return err
}
