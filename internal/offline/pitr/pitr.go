// Package pitr restores a store to a point in time. No engine may have the store open.
package pitr

import (
	"context"
	"errors"
	"fmt"
	"time"

	"hindsight/internal/engine/record"
	"hindsight/internal/engine/recovery"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model/catalog"
)

// Model is what became of a model.
type Model struct {
	ID string `json:"id"`
	// Sequence is how many observations it has learned, Undone how many it no longer has.
	Sequence uint64 `json:"sequence"`
	Undone   uint64 `json:"undone,omitempty"`
	// Removed says that it was created later, Undeleted that it was deleted later.
	Removed   bool `json:"removed,omitempty"`
	Undeleted bool `json:"undeleted,omitempty"`
	// created is when it was created, in nanoseconds since 1970.
	created int64
}

// Alias is what became of an alias that was set later.
type Alias struct {
	Name string `json:"name"`
	// Model is what it names now, empty if it was removed.
	Model string `json:"model,omitempty"`
}

// Report is what Restore did.
type Report struct {
	Models  []Model `json:"models"`
	Aliases []Alias `json:"aliases,omitempty"`
}

// Restore takes every model back to what it was at a time, with its ids and its log.
// Models that were created later are removed, and those that were deleted later and can
// be brought back are. An alias that was set later names what it named before that.
//
// Not of that time are metadata, predictions that wait, what was purged, and
// an alias that was set more than once since. A model that cannot be taken back is an
// error, and all of them are told; the store is not to be used then.
func Restore(ctx context.Context, disk storage.Store, at time.Time) (Report, error) {
	var found []storage.Entry
	err := disk.Models(ctx, func(e storage.Entry) error {
		e.Value = append([]byte(nil), e.Value...)
		found = append(found, e)
		return nil
	})
	if err != nil {
		return Report{}, fmt.Errorf("restore a time: %w", err)
	}
	var r Report
	var failures []error
	there := map[string]int64{} // When each was created.
	for _, e := range found {
		m, err := restore(ctx, e, at)
		if ctx.Err() != nil {
			return r, fmt.Errorf("restore a time: %w", context.Cause(ctx))
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("model %q: %w", e.Name, err))
			continue
		}
		if r.Models = append(r.Models, m); !m.Removed {
			there[m.ID] = m.created
		}
	}
	if err := errors.Join(failures...); err != nil {
		return r, err
	}
	r.Aliases, err = aliases(ctx, disk, at, there)
	return r, err
}

// restore takes back one model.
func restore(ctx context.Context, e storage.Entry, at time.Time) (Model, error) {
	m := Model{ID: e.Name}
	from, entry, err := recovery.DecodeEntry(e, catalog.New)
	if err != nil {
		return m, err
	}
	if m.created = entry.Created; after(m.created, at) {
		m.Removed = true
		return m, from.Kept.Delete(ctx)
	}
	sequence, err := from.SequenceAt(ctx, time.Unix(0, entry.Created), at)
	if err != nil {
		return m, err
	}
	if e.Rewinding != nil {
		// A rewind that began has to end first. What it undoes is undone here too.
		sequence = min(sequence, *e.Rewinding)
	}
	last, err := from.Kept.Last()
	if err != nil {
		return m, err
	}
	m.Sequence, m.Undone = sequence, last-sequence
	value := e.Value
	if m.Undone > 0 || e.Rewinding != nil {
		if value, err = restored(e, sequence); err == nil {
			err = rewind(ctx, from, sequence, value)
		}
		if err != nil {
			return m, err
		}
	}
	if entry.Deleted != 0 && after(entry.Deleted, at) {
		m.Undeleted = true
		return m, undelete(ctx, e.Model, value)
	}
	return m, nil
}

// restored is the value of a model's entry after a restore to a sequence, as the engine has
// it: what follows the model learns by it what was undone. A restore that was interrupted
// has begun the epoch already.
func restored(e storage.Entry, sequence uint64) ([]byte, error) {
	entry, err := record.DecodeEntry(e.Value)
	if err != nil {
		return nil, err
	}
	if e.Rewinding == nil || entry.Restored.Epoch == 0 {
		entry.Restored.Epoch++
	}
	entry.Restored.Sequence = sequence
	return entry.Encode(), nil
}

// after compares a time of an entry with any time: those of a far one do not fit in
// nanoseconds.
func after(nanoseconds int64, at time.Time) bool { return time.Unix(0, nanoseconds).After(at) }

// rewind is what the engine does at a model's turn: what the log says of the ids up to the
// sequence is written first, since the record that is cut is complete.
func rewind(ctx context.Context, from recovery.Source, sequence uint64, value []byte) error {
	d := recovery.Derivation{Kept: from.Kept}
	r, err := from.At(ctx, sequence, func(uint64, error) {}, d.Tell)
	if err == nil {
		err = d.Write()
	}
	if err != nil {
		return err
	}
	if r.Sequence() != sequence {
		return fmt.Errorf("the log ends at sequence %d, want %d", r.Sequence(), sequence)
	}
	cut, err := from.Cut(ctx, sequence)
	if err != nil {
		return err
	}
	return from.Kept.Rewind(ctx, storage.Rewind{Sequence: sequence, Last: cut, Value: value, Undone: func(value []byte) bool {
		s, err := record.DecodeSeen(value, from.Spec.Outputs)
		return err == nil && s.Answer.Sequence > sequence
	}})
}

func undelete(ctx context.Context, m storage.Model, value []byte) error {
	entry, err := record.DecodeEntry(value)
	if err != nil {
		return err
	}
	entry.Deleted, entry.Purge = 0, 0
	entry.Revision++
	return m.SetValue(ctx, entry.Encode())
}

// aliases takes back the aliases that were set later, by one step.
func aliases(ctx context.Context, disk storage.Aliases, at time.Time, there map[string]int64) ([]Alias, error) {
	var changed []Alias
	values := map[string][]byte{}
	err := disk.EachAlias(ctx, func(name string, value []byte) error {
		a, err := record.DecodeAlias(value)
		a.Bind(func(id string) int64 { return there[id] })
		exists := func(r record.Ref) bool { return r.Created != 0 && there[r.ID] == r.Created }
		if err != nil || !after(a.Updated, at) && exists(a.Model) {
			return nil //nolint:nilerr // The server tells of it, and does not serve it.
		}
		out := Alias{Name: string([]byte(name))}
		if after(a.Updated, at) && exists(a.Previous) {
			out.Model = a.Previous.ID
			values[out.Name] = (&record.Alias{Model: a.Previous, Updated: a.Updated}).Encode()
		}
		changed = append(changed, out)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("restore a time: %w", err)
	}
	for _, a := range changed {
		if a.Model == "" {
			err = disk.RemoveAlias(ctx, a.Name)
		} else {
			err = disk.PutAlias(ctx, a.Name, values[a.Name])
		}
		if err != nil {
			return nil, fmt.Errorf("restore a time: %w", err)
		}
	}
	return changed, nil
}
