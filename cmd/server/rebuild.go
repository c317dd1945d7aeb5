package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"hindsight/cmd/server/internal/offsite"
	"hindsight/internal/engine/salvage"
	"hindsight/internal/store"
)

// rebuilt is what restore --from-snapshots answers.
type rebuilt struct {
	DataDir string          `json:"data_dir"`
	Models  []salvage.Model `json:"models"`
	Aliases int             `json:"aliases"`
	// Registry is when the registry was copied; nil if there was none.
	Registry *time.Time `json:"registry,omitempty"`
	// Removed are models of which there are copies, and that had been removed.
	Removed []string `json:"removed,omitempty"`
	Seconds float64  `json:"seconds"`
}

func (r *rebuilt) well() bool { return true }

func (r *rebuilt) write(w io.Writer) {
	for _, m := range r.Models {
		fmt.Fprintf(w, "model %q: sequence %d", m.ID, m.Sequence)
		if m.Bad > 0 {
			fmt.Fprintf(w, ", %d copies are bad", m.Bad)
		}
		if m.Note != "" {
			fmt.Fprintf(w, "; %s", m.Note)
		}
		fmt.Fprintln(w)
	}
	for _, id := range r.Removed {
		fmt.Fprintf(w, "model %q: left out, it had been removed\n", id)
	}
	if r.Registry == nil {
		fmt.Fprintln(w, "the bucket has no registry: no metadata, aliases and deletions are known")
	}
	fmt.Fprintf(w, "restored %s of copies of snapshots: %d models, %d aliases in %.2f s\n", r.DataDir, len(r.Models), r.Aliases, r.Seconds)
}

// errNoCopies is a bucket that no server copied to, or of another prefix.
var errNoCopies = errors.New("the bucket has no copies of snapshots and no registry")

// rebuild makes a data directory of copies of snapshots.
func rebuild(ctx context.Context, dir, bucketURL string) (_ outcome, err error) {
	started := time.Now()
	from, err := offsite.NewReader(ctx, bucketURL)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	r := &rebuilt{DataDir: dir}
	registry, err := r.registry(ctx, from)
	if err != nil {
		return nil, err
	}
	if r.Registry == nil && len(registry.Models) == 0 {
		return nil, fmt.Errorf("%w: %s", errNoCopies, bucketURL)
	}
	r.Aliases = len(registry.Aliases)
	err = filled(dir, func() error {
		disk, err := store.Open(dir, store.Options{Restoring: true}) //nolint:contextcheck // A directory is opened whole or not at all.
		if err != nil {
			return err
		}
		r.Models, err = salvage.Rebuild(ctx, disk, registry, func(ctx context.Context, model string, created time.Time, f func([]byte) bool) error {
			return from.Copies(ctx, offsite.Model{ID: model, Created: created.UnixNano()}, f)
		})
		return errors.Join(err, disk.Close())
	})
	if err != nil {
		return nil, err
	}
	r.Seconds = time.Since(started).Seconds()
	return r, nil
}

// registry is the copied registry, with the models that were created after it was copied.
// A model of which there are copies alone was removed if it is older than the registry.
// Without a registry every model is taken, the newest of each id.
func (r *rebuilt) registry(ctx context.Context, from *offsite.Reader) (salvage.Registry, error) {
	data, err := from.Registry(ctx)
	if err != nil {
		return salvage.Registry{}, err
	}
	var registry salvage.Registry
	if data != nil {
		if registry, err = salvage.Decode(data); err != nil {
			return registry, err
		}
		r.Registry = &registry.Written
	}
	place := map[string]int{}
	for n := range registry.Models {
		place[registry.Models[n].Name] = n
	}
	for _, m := range from.Models() { // Of one id the oldest comes first.
		created := time.Unix(0, m.Created)
		n, there := place[m.ID]
		if there {
			known, err := registry.Models[n].Created()
			if err != nil {
				return registry, err
			}
			if !created.After(known) {
				continue // The model itself, or one before it under its id.
			}
		}
		if data != nil && created.Before(registry.Written) {
			if !there {
				r.Removed = append(r.Removed, m.ID)
			}
			continue
		}
		var entry salvage.Entry
		err := from.Copies(ctx, m, func(data []byte) bool {
			entry, err = salvage.NewEntry(m.ID, created, data)
			return err != nil
		})
		switch {
		case err != nil:
			return registry, err
		case entry.Name == "": // Rebuild would find no good copy.
		case there:
			registry.Models[n] = entry
		default:
			place[m.ID] = len(registry.Models)
			registry.Models = append(registry.Models, entry)
		}
	}
	return registry, nil
}
