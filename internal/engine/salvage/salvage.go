// Package salvage makes a store of copies of snapshots, when nothing else is left of
// another: Registry is what has to be copied beside them, Rebuild makes the store.
package salvage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"hindsight/internal/engine/machine"
	"hindsight/internal/engine/record"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/codec"
)

// ErrUnreadable is a registry that is not what was written.
var ErrUnreadable = errors.New("salvage: not a registry that this version can read")

const format = 1

// Registry holds the registry entries of all models, and the aliases. The values are as
// the store has them.
type Registry struct {
	Format int `json:"format"`
	// Written is when it was read, by the clock that created the models.
	Written time.Time `json:"written"`
	Models  []Entry   `json:"models"`
	Aliases []Entry   `json:"aliases,omitempty"`
}

// Entry is a value under a name.
type Entry struct {
	Name  string `json:"name"`
	Value []byte `json:"value"`
}

// Read reads the registry of a store. What cannot be read is left out.
func Read(ctx context.Context, disk storage.Store) (Registry, error) {
	r := Registry{Format: format}
	err := disk.Models(ctx, func(e storage.Entry) error {
		if e.Err == nil {
			r.Models = append(r.Models, Entry{e.Name, append([]byte(nil), e.Value...)})
		}
		return nil
	})
	if err == nil {
		err = disk.EachAlias(ctx, func(name string, value []byte) error {
			r.Aliases = append(r.Aliases, Entry{string([]byte(name)), append([]byte(nil), value...)})
			return nil
		})
	}
	if err != nil {
		return Registry{}, fmt.Errorf("salvage: %w", err)
	}
	return r, nil
}

// Decode reads a registry that was written as JSON.
func Decode(data []byte) (Registry, error) {
	var r Registry
	if err := json.Unmarshal(data, &r); err != nil {
		return Registry{}, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	if r.Format != format {
		return Registry{}, fmt.Errorf("%w: format %d, want %d", ErrUnreadable, r.Format, format)
	}
	return r, nil
}

// Copies gives the copies of the snapshots of a model that was created at a time, the
// newest first, until f answers false.
type Copies func(ctx context.Context, model string, created time.Time, f func(data []byte) (more bool)) error

// Model is what became of a model.
type Model struct {
	ID string `json:"id"`
	// Sequence is how many observations it has learned.
	Sequence uint64 `json:"sequence"`
	// Bad counts copies that could not be used.
	Bad int `json:"bad_copies,omitempty"`
	// Note says what is not as it was.
	Note string `json:"note,omitempty"`
}

// Rebuild makes every model of a registry in an empty store, from the newest copy that is
// good, and every alias. A model without a copy has learned nothing. A model that follows
// another one follows no more: the two may be of different moments.
func Rebuild(ctx context.Context, disk storage.Store, r Registry, copies Copies) ([]Model, error) {
	out := make([]Model, 0, len(r.Models))
	for _, e := range r.Models {
		m, err := rebuild(ctx, disk, e, copies)
		if err != nil {
			return out, fmt.Errorf("salvage: model %q: %w", e.Name, err)
		}
		out = append(out, m)
	}
	for _, a := range r.Aliases {
		if err := disk.PutAlias(ctx, a.Name, a.Value); err != nil {
			return out, fmt.Errorf("salvage: %w", err)
		}
	}
	return out, nil
}

func rebuild(ctx context.Context, disk storage.Store, e Entry, copies Copies) (Model, error) {
	m := Model{ID: e.Name}
	entry, err := record.DecodeEntry(e.Value)
	if err != nil {
		return m, err
	}
	if entry.Follow != nil {
		m.Note = fmt.Sprintf("it followed %q and follows no more", entry.Follow.Leader.ID)
		entry.Follow = nil
		entry.Revision++
	}
	var from *storage.Import
	err = copies(ctx, e.Name, time.Unix(0, entry.Created), func(data []byte) bool {
		i, err := read(data)
		if err != nil {
			m.Bad++
			return true
		}
		from = &i
		return false
	})
	if err != nil {
		return m, err
	}
	if from == nil {
		m.Note = join(m.Note, "no good copy of a snapshot: it has learned nothing")
		_, err = disk.Create(ctx, e.Name, entry.Encode())
		return m, err
	}
	m.Sequence = from.Sequence
	_, err = disk.Import(ctx, e.Name, entry.Encode(), *from)
	return m, err
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// read checks a copy as a recovery would.
func read(data []byte) (storage.Import, error) {
	s, err := codec.Decode(data)
	if err != nil {
		return storage.Import{}, err
	}
	if s.Spec, _, err = catalog.Complete(s.Spec); err != nil {
		return storage.Import{}, err
	}
	if _, err := machine.Restore(s.Spec, catalog.New, s); err != nil {
		return storage.Import{}, err
	}
	return storage.Import{Sequence: s.Sequence, Snapshot: data}, nil
}

// NewEntry makes the registry entry of a model of which a copy of a snapshot is all that is
// known.
func NewEntry(name string, created time.Time, data []byte) (Entry, error) {
	s, err := codec.Decode(data)
	if err != nil {
		return Entry{}, fmt.Errorf("salvage: model %q: %w", name, err)
	}
	spec, err := codec.EncodeSpec(s.Spec)
	if err != nil {
		return Entry{}, fmt.Errorf("salvage: model %q: %w", name, err)
	}
	at := created.UnixNano()
	return Entry{name, (&record.Entry{Created: at, Updated: at, Spec: spec}).Encode()}, nil
}

// Created is when a model of a registry was made.
func (e *Entry) Created() (time.Time, error) {
	entry, err := record.DecodeEntry(e.Value)
	if err != nil {
		return time.Time{}, fmt.Errorf("salvage: model %q: %w", e.Name, err)
	}
	return time.Unix(0, entry.Created), nil
}
