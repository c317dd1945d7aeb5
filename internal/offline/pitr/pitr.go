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

// Model is the outcome for a model.
type Model struct {
	ID string `json:"id"`
	// Sequence is the restored sequence, Undone the number of observations after it.
	Sequence uint64 `json:"sequence"`
	Undone   uint64 `json:"undone,omitempty"`
	// Removed: the model was created after the time. Undeleted: it was deleted after it.
	Removed   bool `json:"removed,omitempty"`
	Undeleted bool `json:"undeleted,omitempty"`
	// created is the time of creation, in nanoseconds since 1970.
	created int64
}

// Alias is the outcome for an alias that was set after the time.
type Alias struct {
	Name string `json:"name"`
	// Model is the model of the alias, empty if the alias was removed.
	Model string `json:"model,omitempty"`
}

// Report is the outcome of Restore.
type Report struct {
	Models  []Model `json:"models"`
	Aliases []Alias `json:"aliases,omitempty"`
}

// Restore restores every model, its ids and its log to a time. It removes models that were
// created later, and undeletes models that were deleted later and not purged. An alias that
// was set later gets its previous model.
//
// Restore does not restore metadata, pending predictions, purged models, and aliases that
// were set more than once since the time. The error names every model that could not be
// restored; the store must not be used after it.
func Restore(ctx context.Context, disk storage.Store, at time.Time) (Report, error) {
	var found []storage.RegistryEntry
	err := disk.Models(ctx, func(e storage.RegistryEntry) error {
		e.Value = append([]byte(nil), e.Value...)
		found = append(found, e)
		return nil
	})
	if err != nil {
		return Report{}, fmt.Errorf("restore a time: %w", err)
	}
	var r Report
	var failures []error
	existing := map[string]int64{} // Creation times.
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
			existing[m.ID] = m.created
		}
	}
	if err := errors.Join(failures...); err != nil {
		return r, err
	}
	r.Aliases, err = aliases(ctx, disk, at, existing)
	return r, err
}

func restore(ctx context.Context, e storage.RegistryEntry, at time.Time) (Model, error) {
	m := Model{ID: e.Name}
	from, _, err := recovery.DecodeRegistryEntry(e, catalog.New)
	if err != nil {
		return m, err
	}
	entry, err := record.DecodeRegistryValue(e.Value) // The value of DecodeRegistryEntry has no spec, and cannot be written.
	if err != nil {
		return m, err
	}
	if m.created = entry.Created; after(m.created, at) {
		m.Removed = true
		return m, from.Handle.Delete(ctx)
	}
	if m.Sequence, err = from.SequenceAt(ctx, time.Unix(0, entry.Created), at); err != nil {
		return m, err
	}
	if e.Rewinding != nil {
		// An interrupted rewind must be completed, which undoes the same observations here.
		m.Sequence = min(m.Sequence, *e.Rewinding)
	}
	last, err := from.Handle.Last()
	if err != nil {
		return m, err
	}
	if m.Undone = last - m.Sequence; m.Undone > 0 || e.Rewinding != nil {
		// Followers of the model learn from the epoch what was undone. An interrupted restore has begun the epoch already.
		if e.Rewinding == nil || entry.Restored.Epoch == 0 {
			entry.Restored.Epoch++
		}
		entry.Restored.Sequence = m.Sequence
		_, rewind, err := from.Rewound(ctx, m.Sequence, func(uint64, error) {})
		if err != nil {
			return m, err
		}
		rewind.Value = entry.Encode()
		if err := from.Handle.Rewind(ctx, rewind); err != nil {
			return m, err
		}
	}
	if m.Undeleted = entry.Deleted != 0 && after(entry.Deleted, at); m.Undeleted {
		entry.Deleted, entry.Purge = 0, 0
		entry.Revision++
		err = e.Model.SetValue(ctx, entry.Encode())
	}
	return m, err
}

// after compares the time of an entry with any time; a far time does not fit in nanoseconds.
func after(nanoseconds int64, at time.Time) bool { return time.Unix(0, nanoseconds).After(at) }

// aliases takes back changes of aliases after a time: each such alias names its previous model again.
func aliases(ctx context.Context, disk storage.Aliases, at time.Time, existing map[string]int64) ([]Alias, error) {
	var changed []Alias
	values := map[string][]byte{}
	err := disk.EachAlias(ctx, func(name string, value []byte) error {
		a, err := record.DecodeAlias(value)
		exists := func(r record.Ref) bool { return r.Created != 0 && existing[r.ID] == r.Created }
		if err != nil || !after(a.Updated, at) && exists(a.Model) {
			return nil //nolint:nilerr // The server logs a damaged alias and does not serve it.
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
