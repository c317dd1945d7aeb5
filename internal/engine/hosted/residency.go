package hosted

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"hindsight/internal/engine/machine"
	"hindsight/internal/engine/record"
	"hindsight/internal/engine/recovery"
)

// View loads the model and calls f with its machine, which does not change during f.
func (m *Model) View(ctx context.Context, f func(*machine.Machine) error) error {
	if err := m.lockLoaded(ctx); err != nil {
		return err
	}
	defer m.state.RUnlock()
	return f(m.state.machine)
}

// Retire ends the use of the model, which answers with why from then on. It runs at the model's turn.
func (m *Model) Retire(why error) {
	m.box.Drop(why)
	m.state.Lock()
	m.state.broken = why
	m.state.Unlock()
	m.forget()
}

const (
	// A model whose replay takes at most cheapReplay leaves memory without a snapshot.
	cheapReplay = 10 * time.Millisecond
	// ReadCost is what reading an observation from the log costs, beside its learning.
	ReadCost = 2 * time.Microsecond
)

// lockLoaded takes the read lock of a resident model that has not failed. It loads a model that is not
// resident, at the model's turn.
func (m *Model) lockLoaded(ctx context.Context) error {
	for {
		if resident, err := m.lockIfLoaded(); err != nil || resident {
			return err
		}
		span := StartSpan(ctx, "load")
		err := m.box.Do(ctx, func(context.Context) error { return m.load() })
		span.End()
		if err != nil {
			return fmt.Errorf("engine: load model %q: %w", m.ID(), err)
		}
		// The model may have left memory again.
	}
}

// lockIfLoaded is lockLoaded, but locks nothing unless the model is resident.
func (m *Model) lockIfLoaded() (resident bool, err error) {
	m.state.RLock()
	if m.state.machine != nil && m.state.machine.Failed() == nil {
		return true, nil
	}
	err = m.state.broken
	m.state.RUnlock()
	if m.journal.rewound.Load() != 0 {
		err = nil // The load follows the rewind.
	}
	return false, err
}

// Load loads a model, and waits for no caller.
func (m *Model) Load(ctx context.Context) error {
	err := m.lockLoaded(ctx)
	if err == nil {
		m.state.RUnlock()
	}
	return err
}

// load makes the model resident. It runs at the model's turn, and continues after its caller has left:
// the next caller profits. A corrupt model stays rejected; an unreadable disk is tried again by the next
// caller.
func (m *Model) load() error {
	if err := m.followRewind(); err != nil {
		return err
	}
	if m.state.broken != nil || m.state.machine != nil {
		return m.state.broken
	}
	env := m.env
	bytes := m.stateBytes()
	release, err := env.Memory.Reserve(env.Lifetime, bytes)
	if err != nil {
		return env.closedOr(err)
	}
	defer func() { release() }()
	// The slot comes after the wait for memory: a model that waits holds back no model that fits.
	if env.Loading.Take(env.Lifetime, "other models to be loaded") != nil {
		return ErrClosed
	}
	free := sync.OnceFunc(env.Loading.Free)
	defer free()
	copied, err := env.Memory.TakeCopies(env.Lifetime, bytes) // For the snapshot to read.
	if err != nil {
		return ErrClosed
	}
	copied = sync.OnceFunc(copied)
	defer copied()
	// Snapshots captured before the model left memory may not be written yet.
	if err := m.snapshots.lock(env.Lifetime); err != nil {
		return ErrClosed
	}
	defer m.snapshots.unlock()
	started := env.Now()
	if err := m.snapshots.dropSuspects(recovery.EndOfLog); err != nil {
		return m.id.storagef("remove snapshots that differ from the log", err)
	}
	r, replay, err := m.recover()
	copied()
	free()
	if err != nil {
		return m.notRecovered(err)
	}
	if now := int64(r.Size()) + InstanceBytes; now > bytes { // The model has learned since.
		release()
		if release, err = env.Memory.Reserve(env.Lifetime, now); err != nil {
			release = func() {}
			return env.closedOr(err)
		}
	}
	m.Publish(r, replay)
	m.usage.used.Store(started.UnixNano())
	env.Counters.Wakes.Add(1)
	if m.journal.grown.Load() && m.journal.reached(r.Sequence()) {
		m.postFollow()
	}
	env.Log.Debug("model loaded", zap.String("model", m.ID()), zap.Uint64("sequence", r.Sequence()), zap.Uint64("snapshot", r.Snapshot),
		zap.Duration("replay", replay), zap.Duration("took", env.Now().Sub(started)))
	return nil
}

func (m *Model) notRecovered(err error) error {
	if m.env.Lifetime.Err() != nil {
		return ErrClosed
	}
	err = m.id.errorf("recover the state", err)
	if errors.Is(err, ErrCorrupt) {
		m.env.CountPanic(err)
		m.Break(err)
		return err
	}
	m.env.Log.Error("the model cannot be recovered now", zap.String("model", m.ID()), zap.Error(err))
	return err
}

// recover returns the machine at the end of the log, after the store has everything derived from the
// log, and the time of the replay. The caller holds the disk lock.
func (m *Model) recover() (r recovery.Recovered, replay time.Duration, err error) {
	if r, err = m.source.RestoreNewest(recovery.EndOfLog, m.skipSnapshot); err != nil {
		return r, 0, err
	}
	counters, restored := &m.env.Counters, m.env.Now()
	d := recovery.Derivation{Context: m.env.appends, Handle: m.source.Handle}
	r, err = m.source.ReplayAll(m.env.Lifetime, r, func(r *record.Record, answers []record.Answer) error {
		counters.Replayed.Add(int64(len(answers)))
		return d.Tell(r, answers)
	})
	if err == nil {
		err = d.Write()
	}
	return r, m.env.Now().Sub(restored), err
}

func (m *Model) skipSnapshot(sequence uint64, err error) {
	m.env.Log.Error("a snapshot cannot be used; an older one and the log are",
		zap.String("model", m.ID()), zap.Uint64("sequence", sequence), zap.Error(err))
}

// Publish makes a recovered machine the state. It runs at the model's turn, or before the model is
// hosted.
func (m *Model) Publish(r recovery.Recovered, replay time.Duration) {
	m.journal.recent.renew()
	m.journal.derived.Store(true)
	m.state.Lock()
	m.state.machine, m.state.broken, m.state.known = r.Machine, nil, true
	m.state.Unlock()
	m.snapshots.setNewest(r.Snapshot, m.env.Now())
	m.snapshots.replay.Store(int64(min(replay, time.Duration(r.Sequence()-r.Snapshot)*time.Second)))
	m.account()
	m.news.wake()
}

// lost breaks a model if err means that the log cannot be replayed.
func (m *Model) lost(err error) error {
	if errors.Is(err, ErrCorrupt) && m.journal.rewound.Load() == 0 {
		m.forget()
		m.Break(err)
		if m.env.Lost != nil {
			m.env.Lost(m.ID())
		}
	}
	return err
}

// followRewind restores the state to which another server has rewound the log. Without a rewind it does nothing.
// It runs at the model's turn.
func (m *Model) followRewind() error {
	pending := m.journal.rewound.Load()
	if pending == 0 {
		return nil
	}
	sequence := pending - 1
	m.owner.Restoring()
	err := m.restoreRewound(sequence)
	if err != nil && !errors.Is(err, ErrCorrupt) || !m.journal.rewound.CompareAndSwap(pending, 0) {
		return err // The next turn tries again, or follows a rewind to an earlier sequence.
	}
	if err != nil {
		return m.lost(err)
	}
	m.journal.followRewind() // Another rewind to the sequence or a later one may have come meanwhile.
	m.owner.Restored(sequence)
	m.news.wake()
	if m.journal.reached(sequence) {
		m.postFollow()
	}
	return nil
}

// restoreRewound restores the state at a sequence that the log was rewound to.
func (m *Model) restoreRewound(sequence uint64) error {
	copied, err := m.env.Memory.TakeCopies(m.env.Lifetime, copiesOf*m.stateBytes())
	if err != nil {
		return m.env.closedOr(err)
	}
	defer copied()
	if err := m.snapshots.lock(m.env.Lifetime); err != nil {
		return m.env.closedOr(err)
	}
	defer m.snapshots.unlock()
	m.forget() // Before the next epoch: no report of the state before has that epoch.
	m.journal.followRewind()
	m.snapshots.epoch.Add(1)
	err = m.snapshots.dropSuspects(recovery.EndOfLog)
	// A snapshot that was being written during the rewind has an undone state.
	sequences, listed := m.snapshots.store.Snapshots()
	err = errors.Join(err, listed)
	for n := 0; n < len(sequences) && sequences[n] > sequence && err == nil; n++ {
		err = m.snapshots.store.RemoveSnapshot(sequences[n])
	}
	if err != nil {
		return m.id.storagef("remove snapshots of undone states", err)
	}
	started := m.env.Now()
	r, err := m.source.Reach(m.env.Lifetime, sequence, m.skipSnapshot)
	if err != nil {
		return m.env.closedOr(m.id.errorf(fmt.Sprintf("follow a restore to sequence %d", sequence), err))
	}
	m.setRestoring(false)
	m.Publish(r, m.env.Now().Sub(started))
	return nil
}

func (m *Model) postFollow() {
	if m.Resident() || m.snapshots.replayDue(&m.env.Options) && !m.env.RestsCold() {
		m.box.Post()
	}
}

// Touch notes that the model was used at a time.
func (m *Model) Touch(now time.Time) { m.usage.used.Store(now.UnixNano()) }

// forget takes the state out of memory. It runs at the model's turn.
func (m *Model) forget() {
	m.state.Lock()
	if machine := m.state.machine; machine != nil {
		if stats, err := machine.Stats(); err == nil {
			last := FiguresOf(machine, stats)
			m.state.last = newResting(&last)
		}
		m.journal.knownLogEnd.Store(machine.Sequence())
		m.state.machine = nil
	}
	m.state.Unlock()
	m.journal.recent.renew()
	m.account()
	m.news.wake()
}

// account brings the bytes of the state up to date. It runs at the model's turn, and costs O(1) unless the
// model enters or leaves memory.
func (m *Model) account() {
	size := int64(0)
	if machine := m.state.machine; machine != nil {
		size = int64(machine.Size()) + InstanceBytes
		m.usage.lastBytes.Store(size)
	}
	previous := m.usage.bytes.Swap(size)
	if (previous == 0) != (size == 0) {
		m.env.residents.update(m)
	}
	m.env.Memory.add(size - previous)
}

// stateBytes is about what the state takes: what it took when it was last resident, or the size of the
// newest snapshot. A model without either has learned little.
func (m *Model) stateBytes() int64 {
	bytes := max(m.usage.bytes.Load(), m.usage.lastBytes.Load())
	if bytes == 0 {
		bytes = m.snapshots.size()
	}
	return bytes + InstanceBytes
}

// Leave lets an idle model leave memory now, and a busy one after its batch. It returns the bytes of a busy one.
func (m *Model) Leave() (later int64) {
	bytes, due := m.usage.bytes.Load(), false
	idle := m.box.TryDo(func() { due = m.hibernate() })
	m.usage.yields.Store(!idle)
	switch {
	case !idle:
		return bytes
	case due:
		m.box.TryDo(m.handOver)
	}
	return 0
}

// hibernate lets the model leave memory at its turn, or reports that a snapshot is due first, because the replay takes
// long.
func (m *Model) hibernate() (due bool) {
	switch {
	case m.state.machine == nil || m.state.broken != nil:
	case time.Duration(m.snapshots.replay.Load()) > cheapReplay && !m.env.RestsCold():
		return true
	case m.journal.writeIDs(m.env.appends) == nil: // Otherwise the next commit meets the failure.
		m.forget()
	}
	return false
}

// LeaveIfCold lets the model leave the memory of a cold server, which does not learn.
func (m *Model) LeaveIfCold() {
	if m.env.Cold && m.Resident() && m.env.RestsCold() {
		m.box.Post()
	}
}

// Release hands the store the recent ids, and lets no capture from before be written. It runs at
// the model's turn, before another model takes its place.
func (m *Model) Release(ctx context.Context) error {
	if err := m.snapshots.supersede(ctx); err != nil {
		return err
	}
	if m.state.machine != nil && m.state.broken == nil {
		return m.journal.writeIDs(m.env.appends) //nolint:contextcheck // What was learned is written, whoever asked.
	}
	return nil
}

// Delete removes what the store has of the model. It runs at the model's turn.
func (m *Model) Delete(ctx context.Context) error {
	if err := m.snapshots.supersede(ctx); err != nil {
		return err
	}
	return m.id.storagef("delete the data", m.source.Handle.Delete(ctx))
}

// HoldLog loads the model and keeps its log from being cut until release.
func (m *Model) HoldLog(ctx context.Context) (release func(), err error) {
	if err := m.Load(ctx); err != nil {
		return nil, err
	}
	if err := m.snapshots.lock(ctx); err != nil {
		return nil, err
	}
	return m.snapshots.unlock, nil
}

// HasLearned reports whether the model has learned an observation with the id.
func (m *Model) HasLearned(id string) (bool, error) {
	value, err := m.journal.lookUp(id)
	return value != nil, err
}

// HasPending reports whether a prediction with the id is pending.
func (m *Model) HasPending(id string) (bool, error) {
	w, err := m.pending.get(id, m.source.Spec.Outputs, m.env.Time())
	return w != nil, err
}

// HibernateIdle lets the models that were not used for the longest leave memory, soft-deleted ones among them, until
// the rest fits. One goroutine at a time may call it. It costs O(log(resident models)) for each model that it looks
// at, and for each that was used since.
func (e *Env) HibernateIdle() {
	goal, short := e.Memory.Goal()
	if !short {
		return
	}
	var seen []*Model
	for leaving := int64(0); e.Memory.Taken()-leaving > goal; {
		m := e.residents.leastRecentlyUsed()
		if m == nil {
			break
		}
		seen = append(seen, m)
		leaving += m.Leave()
	}
	for _, m := range seen {
		e.residents.update(m) // It may have stayed.
	}
}
