// Package recovery recovers a model from a store: it restores the newest good snapshot and
// applies the log records after it.
package recovery

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"time"

	"hindsight/internal/engine/machine"
	"hindsight/internal/engine/record"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/regret"
	"hindsight/internal/model/snapshot"
)

// Source is what a model is recovered from.
type Source struct {
	Handle   storage.Model
	Spec     *model.Spec // Read only: models share it.
	Learners machine.Learners
}

// EndOfLog is a sequence after every log.
const EndOfLog = math.MaxUint64

// Learned is called with every replayed record and its answers.
type Learned func(r *record.Record, answers []record.Answer) error

// Recovered is a machine, and the sequence of the snapshot that it began with.
type Recovered struct {
	*machine.Machine
	Snapshot uint64
	// unread is the error of newer snapshots that the disk could not read.
	unread error
}

// ReplayAll replays the log to its end, after RestoreNewest. It fails with machine.ErrCorrupt if the
// log ends before the snapshot or before Last.
func (s Source) ReplayAll(ctx context.Context, r Recovered, learned Learned) (Recovered, error) {
	last, err := s.Handle.Last()
	if err != nil {
		return Recovered{}, fmt.Errorf("find the end of the log: %w", StorageError(err))
	}
	if r, err = s.Replay(ctx, r, EndOfLog, learned); err != nil {
		return Recovered{}, err
	}
	if r.Sequence() > last { // Another server has appended since.
		if last, err = s.Handle.Last(); err != nil {
			return Recovered{}, fmt.Errorf("find the end of the log: %w", StorageError(err))
		}
		last = min(last, r.Sequence())
	}
	switch {
	case last < r.Snapshot:
		err = fmt.Errorf("the log ends at sequence %d, behind the snapshot at %d: acknowledged observations may be missing: %w",
			last, r.Snapshot, machine.ErrCorrupt)
	case r.Sequence() != last:
		err = fmt.Errorf("the log ends at sequence %d, replayed to %d: %w", last, r.Sequence(), machine.ErrCorrupt)
	}
	return r, err
}

// Replay replays the log up to a sequence, or to its end if that comes first.
func (s Source) Replay(ctx context.Context, r Recovered, sequence uint64, learned Learned) (Recovered, error) {
	err := s.Handle.Replay(ctx, r.Snapshot, func(logged storage.Record) error {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("interrupted: %w", context.Cause(ctx))
		}
		return r.Replay(logged, sequence, learned)
	})
	if err != nil {
		return Recovered{}, fmt.Errorf("replay the log after sequence %d: %w", r.Snapshot, StorageError(r.Cause(err)))
	}
	return r, nil
}

// Relearn recovers the machine at the newest good snapshot up to a sequence, learns the log again up to
// last, and shows rows what it learns.
func (s Source) Relearn(ctx context.Context, from, last uint64, bad BadSnapshot, rows *regret.Rows) error {
	r, err := s.RestoreNewest(from, bad)
	if err != nil {
		return err
	}
	r.Record(rows)
	r, err = s.Replay(ctx, r, last, func(*record.Record, []record.Answer) error { return nil })
	if err == nil && r.Sequence() != last {
		err = fmt.Errorf("the log ends at sequence %d, want %d: %w", r.Sequence(), last, machine.ErrCorrupt)
	}
	return err
}

// Reach recovers the machine at a sequence, and puts the ids of the log up to the sequence into
// the store. It fails with machine.ErrCorrupt if the log ends before the sequence.
func (s Source) Reach(ctx context.Context, sequence uint64, bad BadSnapshot) (Recovered, error) {
	d := Derivation{Context: context.WithoutCancel(ctx), Handle: s.Handle}
	r, err := s.RestoreNewest(sequence, bad)
	if err == nil {
		r, err = s.Replay(ctx, r, sequence, d.Tell)
	}
	if err == nil {
		err = d.Write()
	}
	if err == nil && r.Sequence() != sequence {
		err = fmt.Errorf("the log ends at sequence %d, want %d: %w", r.Sequence(), sequence, machine.ErrCorrupt)
	}
	return r, err
}

// Rewound recovers the machine at a sequence, and returns the rewind of the log to that
// sequence. A shortened record says that the ids of all earlier records are remembered.
func (s Source) Rewound(ctx context.Context, sequence uint64, bad BadSnapshot) (Recovered, storage.Rewind, error) {
	r, err := s.Reach(ctx, sequence, bad)
	if err != nil {
		return r, storage.Rewind{}, err
	}
	last, err := s.endingAt(ctx, sequence)
	if err != nil {
		return r, storage.Rewind{}, fmt.Errorf("cut the log at sequence %d: %w", sequence, StorageError(err))
	}
	return r, storage.Rewind{Sequence: sequence, Last: last, Undone: Undone(sequence)}, nil
}

// Cause returns the cause of err, the error of a replay. A log that does not reach back to the
// snapshot is not corrupt if the disk could not read a newer snapshot: the next attempt may
// read it.
func (m Recovered) Cause(err error) error {
	if m.unread != nil && errors.Is(StorageError(err), machine.ErrCorrupt) {
		return m.unread
	}
	return err
}

// StorageError adds the engine's meaning to an error of the store: machine.ErrCorrupt, ErrUnknown, ErrModelNotFound
// or ErrStorage. Errors of a context stay as they are.
func StorageError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, storage.ErrUnknown): // ErrUnknown may wrap an error of a context.
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	case errors.Is(err, machine.ErrCorrupt), errors.Is(err, ErrStorage), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, storage.ErrNotOwner), errors.Is(err, ErrModelNotFound):
		return err
	case errors.Is(err, storage.ErrDeleted):
		return fmt.Errorf("%w: %w", ErrModelNotFound, err)
	case errors.Is(err, storage.ErrCorrupt):
		return fmt.Errorf("%w: %w", machine.ErrCorrupt, err)
	default:
		return fmt.Errorf("%w: %w", ErrStorage, err)
	}
}

// BadSnapshot is called with every snapshot that cannot be used.
type BadSnapshot func(sequence uint64, err error)

// RestoreNewest restores the newest good snapshot up to a sequence. A damaged snapshot costs
// time, not data: the log reaches back to the oldest snapshot.
func (s Source) RestoreNewest(through uint64, bad BadSnapshot) (Recovered, error) {
	sequences, err := s.Handle.Snapshots()
	if err != nil {
		return Recovered{}, fmt.Errorf("list snapshots: %w", StorageError(err))
	}
	var unread error
	for _, sequence := range sequences {
		if sequence > through {
			continue
		}
		m, err := s.Restore(sequence)
		if err == nil {
			return Recovered{m, sequence, unread}, nil
		}
		if errors.Is(err, ErrUnread) {
			unread = errors.Join(unread, err)
		}
		switch {
		case errors.Is(err, codec.ErrVersion):
			return Recovered{}, fmt.Errorf("%w: %w", machine.ErrCorrupt, err)
		case errors.Is(err, storage.ErrDeleted):
			return Recovered{}, StorageError(err)
		}
		bad(sequence, err)
	}
	m, err := machine.New(*s.Spec, s.Learners)
	return Recovered{m, 0, unread}, err
}

// ErrUnread says that the disk could not read a snapshot, which may be good.
var ErrUnread = errors.New("the disk cannot read it now")

// Restore restores one snapshot. It fails with ErrUnread if the disk could not read it.
func (s Source) Restore(sequence uint64) (*machine.Machine, error) {
	data, err := s.Handle.ReadSnapshot(sequence)
	switch {
	case errors.Is(err, storage.ErrNotFound), errors.Is(err, storage.ErrCorrupt):
		return nil, fmt.Errorf("snapshot %d: %w", sequence, err)
	case err != nil:
		return nil, fmt.Errorf("snapshot %d: %w: %w", sequence, ErrUnread, err)
	}
	return s.decode(sequence, data)
}

func (s Source) decode(sequence uint64, data []byte) (*machine.Machine, error) {
	snapshot, err := snapshot.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("snapshot %d: %w", sequence, err)
	}
	spec, _, err := catalog.Complete(snapshot.Spec)
	if err != nil {
		return nil, fmt.Errorf("snapshot %d: %w: %w", sequence, machine.ErrCorrupt, err)
	}
	if snapshot.Sequence != sequence || !reflect.DeepEqual(spec, *s.Spec) {
		return nil, fmt.Errorf("snapshot %d is of sequence %d and spec %+v: %w", sequence, snapshot.Sequence, spec, machine.ErrCorrupt)
	}
	m, err := machine.Restore(*s.Spec, s.Learners, snapshot)
	if err != nil {
		return nil, fmt.Errorf("snapshot %d: %w", sequence, err)
	}
	return m, nil
}

// Check restores a snapshot from data, or from the store without data, and compares the digest of the restored state with
// the digest of the state that was captured. At any time two copies of the state are in memory.
func (s Source) Check(sequence uint64, data []byte, digest [32]byte) (err error) {
	var m *machine.Machine
	if data == nil {
		m, err = s.Restore(sequence)
	} else {
		m, err = s.decode(sequence, data)
	}
	if err != nil {
		return err
	}
	restored, err := m.Snapshot(make([]byte, 0, m.Size()))
	if err != nil {
		return err
	}
	if got := snapshot.Digest(restored.Learner); got != digest {
		return fmt.Errorf("snapshot %d restores a state of digest %x, captured was %x: %w", m.Sequence(), got, digest, machine.ErrCorrupt)
	}
	return nil
}

// ErrModelNotFound says that no model has the id, or that the model is being removed.
var ErrModelNotFound = errors.New("no such model")

// ErrStorage says that the store cannot be read or written.
var ErrStorage = errors.New("storage failed: the server's log says how; if the disk takes no more writes, nothing is learned until the server is started again with a disk that does")

// ErrUnknown says that the log may or may not have the change.
var ErrUnknown = errors.New("the change may or may not be made; send the call again, an observation under its id")

// DecodeNext decodes the logged record that follows a sequence.
func DecodeNext(logged storage.Record, sequence uint64) (record.Record, error) {
	r, err := record.Decode(logged.Data)
	if err != nil {
		return r, fmt.Errorf("record of sequences %d to %d: %w: %w", logged.First, logged.Last, machine.ErrCorrupt, err)
	}
	if n := logged.Last - logged.First + 1; n != uint64(len(r.Observations)) {
		return r, fmt.Errorf("record of sequences %d to %d holds %d observations: %w",
			logged.First, logged.Last, len(r.Observations), machine.ErrCorrupt)
	}
	if logged.First != sequence+1 {
		// A snapshot is never taken inside a record.
		return r, fmt.Errorf("record of sequences %d to %d follows sequence %d: %w",
			logged.First, logged.Last, sequence, machine.ErrCorrupt)
	}
	return r, nil
}

// Replay applies one logged record up to a sequence. It returns storage.ErrReached after it has applied the sequence.
func (m Recovered) Replay(logged storage.Record, through uint64, learned Learned) error {
	r, err := DecodeNext(logged, m.Sequence())
	if err != nil {
		return err
	}
	if logged.First > through {
		return storage.ErrReached
	}
	r.Observations = r.Observations[:min(logged.Last, through)-logged.First+1]
	answers := make([]record.Answer, len(r.Observations))
	// A replay is long: other goroutines get their turn.
	runtime.Gosched()
	if err := m.Apply(&r, answers, runtime.Gosched); err != nil {
		return err
	}
	if err := learned(&r, answers); err != nil {
		return err
	}
	if logged.Last > through {
		return storage.ErrReached
	}
	return nil
}

// Undone returns the storage.Rewind.Undone of a rewind to a sequence.
func Undone(sequence uint64) func(value []byte) bool {
	return func(value []byte) bool {
		learned, err := record.SeenSequence(value)
		return err == nil && learned > sequence
	}
}

// Derivation writes what a crash may have lost and replayed records imply: the remembered
// ids of the last record, and the removal of answered predictions. A commit writes the ids of
// all records before its own.
type Derivation struct {
	Context  context.Context //nolint:containedctx // Tell is given to a replay as a function.
	Handle   storage.Model
	last     *record.Record
	answers  []record.Answer
	answered []string
	digest   record.Digester
}

// derivedAtOnce bounds the answered predictions that a Derivation holds.
const derivedAtOnce = 4096

// Tell takes a replayed record.
func (d *Derivation) Tell(r *record.Record, answers []record.Answer) error {
	d.last, d.answers = r, answers
	for n := range r.Observations {
		// A class without Served: the state of the prediction had been undone.
		if o := &r.Observations[n]; o.ID != "" && (o.Served != nil || o.Class != "") {
			d.answered = append(d.answered, o.ID)
		}
	}
	if len(d.answered) >= derivedAtOnce {
		return d.Write()
	}
	return nil
}

// Write writes the collected rows.
func (d *Derivation) Write() error {
	var rows []storage.ID
	if d.last != nil {
		rows, _ = AppendIDs(nil, nil, &d.digest, d.last, d.answers)
	}
	if len(rows) > 0 {
		if err := d.Handle.PutIDs(d.Context, rows); err != nil {
			return fmt.Errorf("remember ids: %w", StorageError(err))
		}
	}
	if len(d.answered) > 0 {
		if err := d.Handle.RemovePending(d.answered); err != nil {
			return fmt.Errorf("forget answered predictions: %w", StorageError(err))
		}
	}
	d.last, d.answers, d.answered = nil, nil, nil
	return nil
}

// DecodeRegistryEntry decodes a registry entry into the source of the model and the rest, without
// the spec.
func DecodeRegistryEntry(entry storage.RegistryEntry, learners machine.Learners) (Source, record.RegistryValue, error) {
	err := entry.Err
	var registered record.RegistryValue
	if err == nil {
		registered, err = record.DecodeRegistryValue(entry.Value)
	}
	var spec model.Spec
	if err == nil {
		spec, err = snapshot.DecodeSpec(registered.Spec)
		registered.Spec = nil // The bytes belong to the store.
	}
	if err == nil {
		spec, _, err = catalog.Complete(spec)
	}
	from := Source{Handle: entry.Model, Spec: &spec, Learners: learners}
	if err != nil {
		return from, record.RegistryValue{}, fmt.Errorf("model %q: %w: %w", entry.Name, machine.ErrCorrupt, err)
	}
	return from, registered, nil
}

// AppendIDs appends the rows of a record's ids to rows, and their values to values.
func AppendIDs(
	rows []storage.ID, values []byte, digest *record.Digester, learned *record.Record, answers []record.Answer,
) ([]storage.ID, []byte) {
	at := time.Unix(0, learned.Time)
	for n := range learned.Observations {
		o := &learned.Observations[n]
		if o.ID == "" {
			continue
		}
		begin := len(values)
		s := record.Seen{Labels: digest.Labels(o.Labels, o.Class, o.Weight), Features: digest.Input(o.Features, o.Inputs), Answer: answers[n]}
		// When values is reallocated, earlier rows keep the old memory.
		values = s.Append(values)
		rows = append(rows, storage.ID{ID: o.ID, At: at, Value: values[begin:len(values):len(values)]})
	}
	return rows, values
}
