package store

import (
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

func aliasKey(name string) []byte { return append([]byte{familyAlias}, name...) }

// EachAlias implements storage.Aliases.
func (s *Store) EachAlias(ctx context.Context, f func(name string, value []byte) error) error {
	var stop error
	err := s.logDB.scan([]byte{familyAlias}, []byte{familyAlias + 1}, func(k, v []byte) (bool, error) {
		if err := context.Cause(ctx); err != nil {
			return false, err
		}
		stop = f(string(k[1:]), v)
		return stop == nil, nil
	})
	if stop != nil {
		return stop
	}
	if err != nil {
		return fmt.Errorf("store: read the aliases: %w", err)
	}
	return nil
}

// PutAlias implements storage.Aliases.
func (s *Store) PutAlias(ctx context.Context, name string, value []byte) error {
	return s.changeAlias(ctx, name, func(b *pebble.Batch) error { return b.Set(aliasKey(name), value, nil) })
}

// RemoveAlias implements storage.Aliases.
func (s *Store) RemoveAlias(ctx context.Context, name string) error {
	return s.changeAlias(ctx, name, func(b *pebble.Batch) error { return b.Delete(aliasKey(name), nil) })
}

// changeAlias is durable on return. The context counts until it begins to write.
func (s *Store) changeAlias(ctx context.Context, name string, fill func(*pebble.Batch) error) error {
	err := s.logDB.room(ctx)
	if err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = s.logDB.commitDurably(fill)
	}
	if err != nil {
		return fmt.Errorf("store: change the alias %q: %w", name, err)
	}
	return nil
}
