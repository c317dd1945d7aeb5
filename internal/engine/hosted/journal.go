package hosted

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"hindsight/internal/engine/record"
	"hindsight/internal/engine/recovery"
	"hindsight/internal/engine/storage"
)

type journal struct {
	id     name          // immutable
	store  storage.Model // immutable
	recent recent
	// derived: the store and recent have the id of every observation in the log. After a crash the
	// ids of the last records are in the log alone until the model is loaded.
	derived atomic.Bool
	// paused keeps followers from learning of the model. paused >= restoring.
	paused    atomic.Bool
	restoring bool // turn; a Rewind has begun and not ended
	// replicated: other servers may also append to the log.
	replicated bool // immutable
	remote
}

// remote are the changes of other servers to a replicated log. For a log that only this server writes, it is zero.
type remote struct {
	// grown: the log may have records that state, store and recent do not reflect. Grown sets it, and the turn clears
	// it.
	grown atomic.Bool
	// knownLogEnd is the end of the log, as of the last Grown or when the model left memory.
	knownLogEnd atomic.Uint64
	// rewound is 1 + the lowest sequence of the rewinds that the model has not followed, 0 without one.
	rewound atomic.Uint64
	// warm asks for a load at the next turn of follow.
	warm atomic.Bool
}

// recent are the ids of the newest record. They are in memory alone: the store gets them with the next
// record. After a crash recovery derives them from the log.
type recent struct {
	mu struct {
		sync.Mutex
		places map[string]int
	}
	rows   []storage.ID // turn writes under mu
	values []byte       // turn writes under mu
	// whole: rows has all ids of the last record in the log.
	whole bool // turn
}

const (
	// Up to fewRows rows are searched without a map: it would cost an idle model more memory than all
	// the rest.
	fewRows = 8
	// A model keeps at most maxRecentBytes bytes of values between two commits.
	maxRecentBytes = 64 << 10
)

func (r *recent) lookUp(id string) (value []byte, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.mu.places[id]
	if len(r.rows) <= fewRows {
		at = slices.IndexFunc(r.rows, func(row storage.ID) bool { return row.ID == id })
		ok = at >= 0
	}
	if !ok {
		return nil, false
	}
	return append([]byte(nil), r.rows[at].Value...), true
}

// clear forgets the ids, which the store has.
func (r *recent) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.mu.places)
	clear(r.rows)
	r.rows, r.values, r.whole = r.rows[:0], r.values[:0], false
	if cap(r.values) > maxRecentBytes {
		r.mu.places, r.rows, r.values = nil, nil, nil
	}
}

// add takes the ids of a learned record. Digest lends its memory.
func (r *recent) add(learned *record.Record, answers []record.Answer, digest *record.Digester) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows, r.values = recovery.AppendIDs(r.rows, r.values, digest, learned, answers)
	r.whole = true
	if len(r.rows) > fewRows {
		if r.mu.places == nil {
			r.mu.places = make(map[string]int, len(r.rows))
		}
		for n := range r.rows {
			r.mu.places[r.rows[n].ID] = n
		}
	}
}

// renew forgets the ids outside of a commit, and their memory.
func (r *recent) renew() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.places, r.rows, r.values, r.whole = nil, nil, nil, false
}

// commit returns the append of a record, with the ids of the record before it and the removal of the predictions that the
// record answers.
func (j *journal) commit(ctx context.Context, first, last uint64, data []byte, answered []string) storage.Append {
	ids, err := j.recent.rows, error(nil)
	if j.replicated && !j.recent.whole {
		ids, err = j.lastIDs(ctx, first-1)
	}
	return storage.Append{
		Model: j.store, Err: err,
		Commit: storage.Commit{Record: storage.Record{First: first, Last: last, Data: data}, IDs: ids, Answered: answered},
	}
}

func (j *journal) appended(a *storage.Append) error {
	if a.Err != nil {
		return fmt.Errorf("append observations %d to %d of model %q: %w", a.First, a.Last, string(j.id), a.Err)
	}
	j.recent.clear()
	return nil
}

// lastIDs returns the ids of the record that ends with a sequence, which this server remembers and others may not.
func (j *journal) lastIDs(ctx context.Context, last uint64) (ids []storage.ID, err error) {
	if last == 0 {
		return nil, nil
	}
	err = j.store.Replay(ctx, last-1, func(logged storage.Record) error {
		switch {
		case logged.First > last:
			return storage.ErrReached
		case len(logged.Data) == 0: // The beginning of an imported model.
			return nil
		}
		r, err := record.Decode(logged.Data)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		for n := range r.Observations {
			id := r.Observations[n].ID
			value, err := j.lookUp(id)
			if err != nil {
				return err
			}
			if value != nil { // A nil value is an id that the store has forgotten.
				ids = append(ids, storage.ID{ID: id, At: time.Unix(0, r.Time), Value: value})
			}
		}
		return nil
	})
	return ids, err
}

func (j *journal) lookUp(id string) ([]byte, error) {
	// The order matters: an id is in the store before it is no longer recent.
	if value, ok := j.recent.lookUp(id); ok {
		return value, nil
	}
	value, _, err := j.store.ID(id)
	if err != nil {
		return nil, j.id.storagef(fmt.Sprintf("look up id %q", id), err)
	}
	return value, nil
}

// writeIDs hands the recent ids to the store, without waiting for the disk.
func (j *journal) writeIDs(ctx context.Context) error {
	if len(j.recent.rows) == 0 {
		return nil
	}
	if err := j.store.PutIDs(ctx, j.recent.rows); err != nil {
		return j.id.storagef("remember ids", err)
	}
	j.recent.renew()
	return nil
}

// reached records that the model has learned the log up to a sequence, and reports whether the log is longer.
func (j *journal) reached(sequence uint64) (longer bool) {
	j.grown.Store(false) // A later record sets it again.
	last, err := j.store.Last()
	if err != nil || last > sequence {
		j.grown.Store(true)
	}
	return err == nil && last > sequence
}

// followRewind makes the store take ids again after a rewind. All that was derived from the log before is given up.
func (j *journal) followRewind() {
	if f, ok := j.store.(interface{ FollowRewind() }); ok {
		f.FollowRewind()
	}
}

func (j *journal) behind() (int64, error) {
	last, err := j.store.Last()
	sequences, other := j.store.Snapshots()
	switch {
	case err != nil || other != nil:
		return 0, errors.Join(err, other)
	case len(sequences) > 0:
		return int64(last - min(sequences[0], last)), nil
	}
	return int64(last), nil
}

func (j *journal) reachable(ctx context.Context, sequence uint64) error {
	last, err := j.store.Last()
	if err != nil {
		return j.id.storagef("find the end of the log", err)
	}
	if sequence > last {
		return fmt.Errorf("model %q at sequence %d: %w: it has learned %d observations", string(j.id), sequence, ErrSnapshotNotFound, last)
	}
	sequences, err := j.store.Snapshots()
	if err != nil {
		return j.id.storagef("list the snapshots", err)
	}
	if len(sequences) == 0 || sequences[len(sequences)-1] <= sequence {
		return nil
	}
	oldest := sequences[len(sequences)-1]
	first, err := j.store.First()
	switch {
	case err != nil && !errors.Is(err, storage.ErrCorrupt):
		return j.id.storagef("find the beginning of the log", err)
	case err == nil && first == 1:
		imported, err := j.beginsImported(ctx)
		if err != nil || !imported {
			return err
		}
	}
	return fmt.Errorf("model %q at sequence %d: %w: the oldest is the snapshot of sequence %d", string(j.id), sequence, ErrSnapshotNotFound, oldest)
}

// beginsImported reports whether the log begins with an imported state, which cannot be learned again.
func (j *journal) beginsImported(ctx context.Context) (imported bool, err error) {
	err = j.store.Replay(ctx, 0, func(r storage.Record) error {
		imported = len(r.Data) == 0
		return storage.ErrReached
	})
	return imported, j.id.storagef("read the beginning of the log", err)
}
