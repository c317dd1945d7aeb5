package check

import (
	"context"
	"fmt"

	"hindsight/internal/engine/recovery"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model/catalog"
)

// Model is the end of a model's log.
type Model struct {
	ID       string
	Sequence uint64
	Deleted  bool
}

// Models returns the ends of all logs, without recovering the models. A model with a damaged
// entry has sequence 0.
func Models(ctx context.Context, disk storage.Store) ([]Model, error) {
	var out []Model
	err := disk.Models(ctx, func(e storage.RegistryEntry) error {
		m := Model{ID: e.Name}
		from, entry, err := recovery.DecodeRegistryEntry(e, catalog.New)
		if err == nil {
			m.Deleted = entry.Deleted != 0
			m.Sequence, err = from.Handle.Last()
		}
		if err != nil && ctx.Err() != nil {
			return err
		}
		out = append(out, m)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("check: %w", err)
	}
	return out, nil
}
