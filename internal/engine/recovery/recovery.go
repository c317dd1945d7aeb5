// Package recovery brings a model back from what a store keeps of it: the newest
// good snapshot, and the records of the log behind it, applied as they were the
// first time. The engine, time travel and a check of a store share it.
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
)

// Source is what a model is Recovered from: a spec, what makes its learner, and
// what is kept.
type Source struct {
	Kept     storage.Model
	Spec     model.Spec
	Learners machine.Learners
}

// EndOfLog is a sequence behind every log.
const EndOfLog = math.MaxUint64

// Learned is told a record that was replayed, with its answers.
type Learned func(r *record.Record, answers []record.Answer) error

// Recovered is a machine, and the sequence of the snapshot that it began with.
type Recovered struct {
	*machine.Machine
	Snapshot uint64
	// unread is the error of a newer snapshot that the disk could not read.
	unread error
}

// Newest recovers the end of the log, and refuses a log that ends elsewhere
// than it should.
func (s Source) Newest(ctx context.Context, bad BadSnapshot, tell Learned) (Recovered, error) {
	last, err := s.Kept.Last()
	if err != nil {
		return Recovered{}, fmt.Errorf("find the end of the log: %w", StorageError(err))
	}
	r, err := s.At(ctx, EndOfLog, bad, tell)
	if err != nil {
		return Recovered{}, err
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

// At recovers the machine at a sequence, or at the end of the log: from the
// newest good snapshot that is not later, and every record after it up to the
// sequence, learned as it was the first time.
func (s Source) At(ctx context.Context, sequence uint64, bad BadSnapshot, tell Learned) (Recovered, error) {
	r, err := s.RestoreNewest(sequence, bad)
	if err != nil {
		return Recovered{}, err
	}
	err = s.Kept.Replay(ctx, r.Snapshot, func(logged storage.Record) error {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("interrupted: %w", context.Cause(ctx))
		}
		return r.Replay(logged, sequence, tell)
	})
	if err != nil && !errors.Is(err, ErrReached) {
		return Recovered{}, fmt.Errorf("replay the log after sequence %d: %w", r.Snapshot, StorageError(r.Cause(err)))
	}
	return r, nil
}

// Cause is why a replay ended with err. A log that does not reach back to the snapshot is
// no damage if the disk could not read a newer snapshot: the next attempt may read it.
func (m Recovered) Cause(err error) error {
	if m.unread != nil && errors.Is(StorageError(err), machine.ErrCorrupt) {
		return m.unread
	}
	return err
}

// StorageError says of an error of the store what it is to the engine.
func StorageError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, machine.ErrCorrupt), errors.Is(err, ErrStorage), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, storage.ErrCorrupt):
		return fmt.Errorf("%w: %w", machine.ErrCorrupt, err)
	default:
		return fmt.Errorf("%w: %w", ErrStorage, err)
	}
}

// BadSnapshot is told a snapshot that cannot be used.
type BadSnapshot func(sequence uint64, err error)

// RestoreNewest restores the newest snapshot up to a sequence that is good. A
// bad or an unread one costs time, not data: the log reaches back to the oldest.
func (s Source) RestoreNewest(through uint64, bad BadSnapshot) (Recovered, error) {
	sequences, err := s.Kept.Snapshots()
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
		if errors.Is(err, codec.ErrNewer) {
			return Recovered{}, fmt.Errorf("%w: %w", machine.ErrCorrupt, err)
		}
		bad(sequence, err)
	}
	m, err := machine.New(s.Spec, s.Learners)
	return Recovered{m, 0, unread}, err
}

// ErrUnread is a snapshot that the disk could not read. It may be good.
var ErrUnread = errors.New("the disk cannot read it now")

// Restore reads one snapshot. It fails with ErrUnread if the bytes are not known.
func (s Source) Restore(sequence uint64) (*machine.Machine, error) {
	data, err := s.Kept.ReadSnapshot(sequence)
	switch {
	case errors.Is(err, storage.ErrNotFound), errors.Is(err, storage.ErrCorrupt):
		return nil, fmt.Errorf("snapshot %d: %w", sequence, err)
	case err != nil:
		return nil, fmt.Errorf("snapshot %d: %w: %w", sequence, ErrUnread, err)
	}
	snapshot, err := codec.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("snapshot %d: %w", sequence, err)
	}
	spec, _, err := catalog.Complete(snapshot.Spec)
	if err != nil {
		return nil, fmt.Errorf("snapshot %d: %w: %w", sequence, machine.ErrCorrupt, err)
	}
	if snapshot.Sequence != sequence || !reflect.DeepEqual(spec, s.Spec) {
		return nil, fmt.Errorf("snapshot %d is of sequence %d and spec %+v: %w", sequence, snapshot.Sequence, spec, machine.ErrCorrupt)
	}
	m, err := machine.Restore(s.Spec, s.Learners, snapshot)
	if err != nil {
		return nil, fmt.Errorf("snapshot %d: %w", sequence, err)
	}
	return m, nil
}

// ErrStorage is a store that cannot be read or written.
var ErrStorage = errors.New("storage failed: the server's log says how; if the disk takes no more writes, nothing is learned until the server is started again with a disk that does")

// ErrReached ends a replay that is where it was to go.
var ErrReached = errors.New("reached")

// Replay learns one logged record again, as far as a sequence.
func (m Recovered) Replay(logged storage.Record, through uint64, tell Learned) error {
	r, err := record.Decode(logged.Data)
	if err != nil {
		return fmt.Errorf("record of sequences %d to %d: %w: %w", logged.First, logged.Last, machine.ErrCorrupt, err)
	}
	if n := logged.Last - logged.First + 1; n != uint64(len(r.Observations)) {
		return fmt.Errorf("record of sequences %d to %d holds %d observations: %w",
			logged.First, logged.Last, len(r.Observations), machine.ErrCorrupt)
	}
	if logged.First != m.Sequence()+1 {
		// A snapshot is never taken inside a record.
		return fmt.Errorf("record of sequences %d to %d follows sequence %d: %w",
			logged.First, logged.Last, m.Sequence(), machine.ErrCorrupt)
	}
	if logged.First > through {
		return ErrReached
	}
	r.Observations = r.Observations[:min(logged.Last, through)-logged.First+1]
	answers := make([]record.Answer, len(r.Observations))
	// Others get their turn on the processor: a replay is long, a call short.
	runtime.Gosched()
	if err := m.Apply(&r, answers, runtime.Gosched); err != nil {
		return err
	}
	if err := tell(&r, answers); err != nil {
		return err
	}
	if logged.Last > through {
		return ErrReached
	}
	return nil
}

// Derivation writes what follows from replayed records and a crash may have
// lost: ids, and that predictions were answered. All ids before a complete
// record are remembered, so that as a rule those of the last one are left.
type Derivation struct {
	Kept     storage.Model
	open     []opened
	rows     int
	answered []string
	digest   record.Digester
}

// opened is a record of which it is not known whether its ids are remembered.
type opened struct {
	record  *record.Record
	answers []record.Answer
}

// derivedAtOnce bounds what a Derivation holds.
const derivedAtOnce = 4096

// Tell takes a replayed record.
func (d *Derivation) Tell(r *record.Record, answers []record.Answer) error {
	if r.Complete {
		clear(d.open)
		d.open, d.rows = d.open[:0], 0
	}
	d.open, d.rows = append(d.open, opened{r, answers}), d.rows+len(answers)
	for n := range r.Observations {
		// One whose prediction waited and was of a state that was undone too.
		if o := &r.Observations[n]; o.ID != "" && (o.Served != nil || o.Class != "") {
			d.answered = append(d.answered, o.ID)
		}
	}
	if d.rows >= derivedAtOnce || len(d.answered) >= derivedAtOnce {
		return d.Write()
	}
	return nil
}

// Write writes what was collected.
func (d *Derivation) Write() error {
	var rows []storage.ID
	var values []byte
	for _, o := range d.open {
		rows, values = AppendIDs(rows, values, &d.digest, o.record, o.answers)
	}
	if len(rows) > 0 {
		if err := d.Kept.PutIDs(rows); err != nil {
			return fmt.Errorf("remember ids: %w", StorageError(err))
		}
	}
	if len(d.answered) > 0 {
		if err := d.Kept.RemoveWaiting(d.answered); err != nil {
			return fmt.Errorf("forget answered predictions: %w", StorageError(err))
		}
	}
	d.open, d.rows, d.answered = nil, 0, nil
	return nil
}

// DecodeEntry reads a registry entry: what the model is Recovered from, and the rest
// without the spec. A default that is younger than the entry is filled in.
func DecodeEntry(entry storage.Entry, learners machine.Learners) (Source, record.Entry, error) {
	err := entry.Err
	var registered record.Entry
	if err == nil {
		registered, err = record.DecodeEntry(entry.Value)
	}
	from := Source{Kept: entry.Model, Learners: learners}
	if err == nil {
		from.Spec, err = codec.DecodeSpec(registered.Spec)
		registered.Spec = nil // It is the store's.
	}
	if err == nil {
		from.Spec, _, err = catalog.Complete(from.Spec)
	}
	if err != nil {
		return from, record.Entry{}, fmt.Errorf("model %q: %w: %w", entry.Name, machine.ErrCorrupt, err)
	}
	return from, registered, nil
}

// AppendIDs appends what is remembered of a record's observations to rows, and
// their values to values.
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
		// Where values grows, the rows before keep the memory that they have.
		values = s.Append(values)
		rows = append(rows, storage.ID{ID: o.ID, At: at, Value: values[begin:len(values):len(values)]})
	}
	return rows, values
}
