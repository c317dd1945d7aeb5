// Package hosted runs one model. A model's mailbox gives jobs their turn, one at a time. The log is
// the one truth: an observation is appended, made durable, learned and answered at its turn, and the
// learner's state and the remembered ids are derived from the log again after a crash. A snapshot is
// written only after everything derived from the records before it is durable.
package hosted

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"hindsight/internal/engine/machine"
	"hindsight/internal/engine/mailbox"
	"hindsight/internal/engine/record"
	"hindsight/internal/engine/recovery"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model"
	"hindsight/internal/model/input"
	"hindsight/internal/model/snapshot"
)

// Owner is the table entry of a model. The model calls Learned, Restoring and Restored at its turn.
type Owner interface {
	// Timings takes the durations of the model's calls.
	Timings() Timings
	// Learned takes a record that was learned. It must not wait.
	Learned(r *record.Record, answers []record.Answer)
	// Restoring precedes a restore, which may fail. The state is still the one before.
	Restoring()
	// Restored takes the sequence that the model was restored to.
	Restored(sequence uint64)
	// KeepFrom returns the first sequence that the log must keep, at most through.
	KeepFrom(through uint64) uint64
}

// Model is one hosted model. Its state is in memory while the model is used, and on disk alone
// otherwise.
//
// Only the job that has its turn changes the four parts journal, pending, state and snapshots, so
// that this job alone may read them without a lock. "turn" below marks such a field; "mu" marks one
// that the turn changes under the lock, and "atomic" one that anybody may read. Lock order: the
// turn, then snapshots.disk, then state.
//
// With sequence = state.machine.Sequence() while the model is resident, [first, last] the log, and
// [oldest, newest] the snapshots on disk, which are 0 without any, it holds between two turns:
//
//	first-1 <= oldest <= newest <= sequence <= last
//	sequence == last, unless another server has appended
//	sequence < last => journal.grown, once Grown was called
//	learned == appended by this server
//	resident iff state.machine != nil iff usage.bytes > 0
//	remembered ids == ids in the store + journal.recent, once journal.derived
//	broken != nil => nothing more is appended or learned
//	journal.restoring => broken != nil && journal.paused
//
// While journal.rewound is set, the log and the snapshots do not match the state. The next turn restores the state.
type Model struct {
	env        *Env            // immutable
	source     recovery.Source // immutable
	id         name            // immutable
	*specified                 // immutable
	owner      Owner           // immutable
	box        *mailbox.Box[*Ticket]
	// registered is the registry entry without its spec. It is never written to: the holder of the claim on
	// the model's name replaces it.
	registered atomic.Pointer[record.RegistryValue]

	journal   journal
	pending   pending
	state     state
	snapshots snapshots
	digests   digests
	usage     usage
	news      signal
}

type state struct {
	sync.RWMutex
	// unchanged is held by a writer, or by a copy of the state. A writer that waits for a copy lets readers pass.
	unchanged sync.Mutex
	machine   *machine.Machine // mu; nil unless resident
	broken    error            // mu; why the model no longer learns
	known     bool             // mu; the model was resident since the start
	last      *resting         // mu; of when the model left memory, nil if it has not
}

// Lock takes unchanged, then the lock of the readers.
func (s *state) Lock() { s.unchanged.Lock(); s.RWMutex.Lock() }

func (s *state) Unlock() { s.RWMutex.Unlock(); s.unchanged.Unlock() }

// usage is what may be read of a model at any time.
type usage struct {
	used      atomic.Int64 // when the model was last asked for something
	bytes     atomic.Int64 // what the state is accounted with in memory
	lastBytes atomic.Int64 // bytes of when the model was last in memory
	yields    atomic.Bool  // asks a busy model to leave memory after its batch
	order     inOrder      // of the residents
	// Since the start: rows predicted; predictions expired; observations sent again under their id.
	predictions, expired, duplicates atomic.Uint64
	rate                             rate
}

// digests are the newest digests of a model. Only the models of a replicated store have digests.
type digests struct {
	mu     sync.Mutex
	newest []digested // mu; the oldest first
	// sent are the newest snapshots of an owner with cold servers.
	sent []sent // mu; the oldest first
}

// Figures returns the figures of the state, or of the last state in memory. They are not known if the model was not
// in memory since the start and is not broken. Figures costs O(r).
func (m *Model) Figures() (f Figures, known bool, broken error) {
	m.state.RLock()
	defer m.state.RUnlock()
	s := &m.state
	if s.last != nil {
		f = s.last.figures()
	}
	if s.machine != nil {
		if now, err := s.machine.Stats(); err == nil {
			f.Stats = now
		}
		f = FiguresOf(s.machine, f.Stats)
		f.Resident = s.machine.Failed() == nil
	}
	return f, s.known || s.broken != nil, s.broken
}

// ID is the id of the model.
func (m *Model) ID() string { return string(m.id) }

// Ref names the model, and no other model that gets its id later.
func (m *Model) Ref() record.Ref { return record.Ref{ID: m.ID(), Created: m.registered.Load().Created} }

// Spec is the completed spec. It is read only.
func (m *Model) Spec() *model.Spec { return m.source.Spec }

// Learner is the name of the model's learner.
func (m *Model) Learner() string { return m.learner }

// Schema is what the model's records are read by, nil without named inputs.
func (m *Model) Schema() *input.Schema { return m.schema }

// Registered is the registry entry without its spec. It is read only.
func (m *Model) Registered() *record.RegistryValue { return m.registered.Load() }

// Deleted reports whether the model is soft-deleted.
func (m *Model) Deleted() bool { return m.registered.Load().Deleted != 0 }

// Handle is what the store has of the model.
func (m *Model) Handle() storage.Model { return m.source.Handle }

// Turn runs work at the model's turn: see mailbox.Box.Do.
func (m *Model) Turn(ctx context.Context, work func(context.Context) error) error {
	return m.box.Do(ctx, work)
}

// AwaitQueued waits until every observation queued before is learned or rejected.
func (m *Model) AwaitQueued(ctx context.Context) error {
	return m.box.Do(ctx, func(context.Context) error { return nil })
}

// Close rejects jobs from now on. Accepted jobs run.
func (m *Model) Close() { m.box.Close(ErrClosed) }

// LogEnd is the last sequence of the log.
func (m *Model) LogEnd() (uint64, error) {
	last, err := m.journal.store.Last()
	return last, m.id.storagef("find the end of the log", err)
}

// Sequence is how many observations the model has learned. It does not load the model.
func (m *Model) Sequence() (uint64, error) {
	m.state.RLock()
	loaded := m.state.machine
	sequence := uint64(0)
	if loaded != nil {
		sequence = loaded.Sequence()
	}
	m.state.RUnlock()
	if loaded != nil {
		return sequence, nil
	}
	return m.LogEnd()
}

// Broken is why the model no longer learns, nil if it does.
func (m *Model) Broken() error {
	m.state.RLock()
	defer m.state.RUnlock()
	return m.state.broken
}

// Break notes why the model no longer learns.
func (m *Model) Break(err error) {
	m.state.Lock()
	m.state.broken = err
	m.state.Unlock()
	m.news.wake()
	m.env.Log.Error("the model no longer learns", zap.String("model", m.ID()), zap.Error(err))
}

func (m *Model) setRestoring(restoring bool) {
	m.journal.restoring = restoring
	m.journal.paused.Store(restoring)
}

// Register stores a changed entry, with aliases or not at all. The caller holds the claim on the name.
func (m *Model) Register(ctx context.Context, next *record.RegistryValue, also ...storage.Alias) error {
	value, err := EncodeRegistryValue(next, *m.source.Spec)
	if err != nil {
		return err
	}
	return m.id.storagef("register a change", m.source.Handle.SetValue(ctx, value, also...))
}

// SetRegistered serves a registered entry.
func (m *Model) SetRegistered(next *record.RegistryValue) { m.registered.Store(next) }

// Gauges are figures of a model's service, which are read at any time.
type Gauges struct {
	CallCounts
	SnapshotGauges
	// Pending predictions, at most PendingLimit.
	Pending      uint64
	PendingLimit int64
	// Rate is the observations learned a second over the last minute.
	Rate float64
	// Resident: the state is in memory.
	Resident bool
	// Epoch changes when what was learned may be undone: with a restore, and at the end of the model.
	Epoch uint64
}

// CallCounts count since the start: rows predicted, predictions expired, and observations sent again under
// their id.
type CallCounts struct{ Predictions, Expired, Duplicates uint64 }

// SnapshotGauges are the gauges of the newest snapshot.
type SnapshotGauges struct {
	// Snapshot is its sequence, 0 without any.
	Snapshot uint64
	// SnapshotTime is when it was made, or when the server took the model up if that is later.
	SnapshotTime time.Time
}

// Gauges costs O(1).
func (m *Model) Gauges() Gauges {
	u, s := &m.usage, &m.snapshots
	return Gauges{
		CallCounts: CallCounts{
			Predictions: u.predictions.Load(), Expired: u.expired.Load(), Duplicates: u.duplicates.Load(),
		},
		SnapshotGauges: SnapshotGauges{Snapshot: s.newest.Load(), SnapshotTime: TimeOf(s.newestAt.Load())},
		Pending:        uint64(m.pending.count()), PendingLimit: m.env.pendingLimit(m.registered.Load().MaxPending),
		Rate: u.rate.perSecond(m.env.Now()), Resident: m.Resident(), Epoch: s.epoch.Load(),
	}
}

// Resident reports whether the state is in memory.
func (m *Model) Resident() bool { return m.usage.bytes.Load() > 0 }

// CountExpired counts a pending prediction that expired.
func (m *Model) CountExpired() { m.usage.expired.Add(1) }

// Pending is the number of pending predictions.
func (m *Model) Pending() int64 { return m.pending.count() }

// Paused reports whether followers must not learn of the model: it is being restored.
func (m *Model) Paused() bool { return m.journal.paused.Load() || m.journal.rewound.Load() != 0 }

// TimeOf is a time of an entry, zero if it is not set.
func TimeOf(nanoseconds int64) time.Time {
	if nanoseconds == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanoseconds)
}

// EncodeRegistryValue encodes an entry with its spec.
func EncodeRegistryValue(e *record.RegistryValue, spec model.Spec) ([]byte, error) {
	encoded, err := snapshot.EncodeSpec(spec)
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	whole := *e
	whole.Spec = encoded
	return whole.Encode(), nil
}
