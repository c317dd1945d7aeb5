package engine

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

// source is what a model is recovered from: a spec, what makes its learner, and
// what is kept.
type source struct {
	kept     storage.Model
	spec     model.Spec
	learners machine.Learners
}

// endOfLog is a sequence behind every log.
const endOfLog = math.MaxUint64

// learned is told a record that was replayed, with its answers.
type learned func(r *record.Record, answers []record.Answer) error

// recovered is a machine, and the sequence of the snapshot that it began with.
type recovered struct {
	*machine.Machine
	snapshot uint64
}

// newest recovers the end of the log, and refuses a log that ends elsewhere
// than it should.
func (s source) newest(ctx context.Context, bad badSnapshot, tell learned) (recovered, error) {
	last, err := s.kept.Last()
	if err != nil {
		return recovered{}, fmt.Errorf("find the end of the log: %w", storageError(err))
	}
	r, err := s.at(ctx, endOfLog, bad, tell)
	if err != nil {
		return recovered{}, err
	}
	switch {
	case last < r.snapshot:
		err = fmt.Errorf("the log ends at sequence %d, behind the snapshot at %d: acknowledged observations may be missing: %w",
			last, r.snapshot, ErrCorrupt)
	case r.Sequence() != last:
		err = fmt.Errorf("the log ends at sequence %d, replayed to %d: %w", last, r.Sequence(), ErrCorrupt)
	}
	return r, err
}

// at recovers the machine at a sequence, or at the end of the log: from the
// newest good snapshot that is not later, and every record after it up to the
// sequence, learned as it was the first time.
func (s source) at(ctx context.Context, sequence uint64, bad badSnapshot, tell learned) (recovered, error) {
	r, err := s.restoreNewest(sequence, bad)
	if err != nil {
		return recovered{}, err
	}
	err = s.kept.Replay(ctx, r.snapshot, func(logged storage.Record) error {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("interrupted: %w", context.Cause(ctx))
		}
		return r.replay(logged, sequence, tell)
	})
	if err != nil && !errors.Is(err, errReached) {
		return recovered{}, fmt.Errorf("replay the log after sequence %d: %w", r.snapshot, storageError(err))
	}
	return r, nil
}

// storageError says of an error of the store what it is to the engine.
func storageError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrCorrupt), errors.Is(err, ErrStorage), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, storage.ErrCorrupt):
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	default:
		return fmt.Errorf("%w: %w", ErrStorage, err)
	}
}

// badSnapshot is told a snapshot that cannot be used.
type badSnapshot func(sequence uint64, err error)

// restoreNewest restores the newest snapshot up to a sequence that is good. A
// bad one costs time, not data: the log reaches back to the oldest.
func (s source) restoreNewest(through uint64, bad badSnapshot) (recovered, error) {
	sequences, err := s.kept.Snapshots()
	if err != nil {
		return recovered{}, fmt.Errorf("list snapshots: %w", storageError(err))
	}
	for _, sequence := range sequences {
		if sequence > through {
			continue
		}
		m, err := s.restore(sequence)
		if err == nil {
			return recovered{m, sequence}, nil
		}
		if errors.Is(err, codec.ErrNewer) {
			return recovered{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		bad(sequence, err)
	}
	m, err := machine.New(s.spec, s.learners)
	return recovered{m, 0}, err
}

// restore reads one snapshot.
func (s source) restore(sequence uint64) (*machine.Machine, error) {
	data, err := s.kept.ReadSnapshot(sequence)
	if err != nil {
		return nil, fmt.Errorf("read snapshot %d: %w", sequence, err)
	}
	snapshot, err := codec.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("snapshot %d: %w", sequence, err)
	}
	spec, _, err := catalog.Complete(snapshot.Spec)
	if err != nil {
		return nil, fmt.Errorf("snapshot %d: %w: %w", sequence, ErrCorrupt, err)
	}
	if snapshot.Sequence != sequence || !reflect.DeepEqual(spec, s.spec) {
		return nil, fmt.Errorf("snapshot %d is of sequence %d and spec %+v: %w", sequence, snapshot.Sequence, spec, ErrCorrupt)
	}
	m, err := machine.Restore(s.spec, s.learners, snapshot)
	if err != nil {
		return nil, fmt.Errorf("snapshot %d: %w", sequence, err)
	}
	return m, nil
}

// errReached ends a replay that is where it was to go.
var errReached = errors.New("reached")

// replay learns one logged record again, as far as a sequence.
func (m recovered) replay(logged storage.Record, through uint64, tell learned) error {
	r, err := record.Decode(logged.Data)
	if err != nil {
		return fmt.Errorf("record of sequences %d to %d: %w: %w", logged.First, logged.Last, ErrCorrupt, err)
	}
	if n := logged.Last - logged.First + 1; n != uint64(len(r.Observations)) {
		return fmt.Errorf("record of sequences %d to %d holds %d observations: %w",
			logged.First, logged.Last, len(r.Observations), ErrCorrupt)
	}
	if logged.First != m.Sequence()+1 {
		// A snapshot is never taken inside a record.
		return fmt.Errorf("record of sequences %d to %d follows sequence %d: %w",
			logged.First, logged.Last, m.Sequence(), ErrCorrupt)
	}
	if logged.First > through {
		return errReached
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
		return errReached
	}
	return nil
}

// derivation writes what follows from replayed records and a crash may have
// lost: ids, and that predictions were answered. All ids before a complete
// record are remembered, so that as a rule those of the last one are left.
type derivation struct {
	kept     storage.Model
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

// derivedAtOnce bounds what a derivation holds.
const derivedAtOnce = 4096

// tell takes a replayed record.
func (d *derivation) tell(r *record.Record, answers []record.Answer) error {
	if r.Complete {
		clear(d.open)
		d.open, d.rows = d.open[:0], 0
	}
	d.open, d.rows = append(d.open, opened{r, answers}), d.rows+len(answers)
	for n := range r.Observations {
		if o := &r.Observations[n]; o.Served != nil {
			d.answered = append(d.answered, o.ID)
		}
	}
	if d.rows >= derivedAtOnce || len(d.answered) >= derivedAtOnce {
		return d.write()
	}
	return nil
}

// write writes what was collected.
func (d *derivation) write() error {
	var rows []storage.ID
	var values []byte
	for _, o := range d.open {
		rows, values = appendIDs(rows, values, &d.digest, o.record, o.answers)
	}
	if len(rows) > 0 {
		if err := d.kept.PutIDs(rows); err != nil {
			return fmt.Errorf("remember ids: %w", storageError(err))
		}
	}
	if len(d.answered) > 0 {
		if err := d.kept.RemoveWaiting(d.answered); err != nil {
			return fmt.Errorf("forget answered predictions: %w", storageError(err))
		}
	}
	d.open, d.rows, d.answered = nil, 0, nil
	return nil
}

// decodeEntry reads a registry entry: what the model is recovered from, and
// when it was created. A default that is younger than the entry is filled in.
func decodeEntry(entry storage.Entry, learners machine.Learners) (source, time.Time, error) {
	err := entry.Err
	var created int64
	var encoded []byte
	if err == nil {
		created, encoded, err = record.DecodeEntry(entry.Value)
	}
	from := source{kept: entry.Model, learners: learners}
	if err == nil {
		from.spec, err = codec.DecodeSpec(encoded)
	}
	if err == nil {
		from.spec, _, err = catalog.Complete(from.spec)
	}
	if err != nil {
		return from, time.Time{}, fmt.Errorf("model %q: %w: %w", entry.Name, ErrCorrupt, err)
	}
	return from, unixTime(created), nil
}
