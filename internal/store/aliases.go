package store

import (
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

func aliasKey(name string) []byte { return append([]byte{familyAlias}, name...) }

// EachAlias implements storage.Aliases.
func (s *Store) EachAlias(ctx context.Context, f func(name string, value []byte) error) error {
	return s.logDB.walk(ctx, []byte{familyAlias}, []byte{familyAlias + 1}, func(k, v []byte) error {
		return f(string(k[1:]), v)
	}, func(err error) error { return failed("read the aliases", err) })
}

func failed(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("store: %s: %w", what, err)
}

// PutAlias implements storage.Aliases.
func (s *Store) PutAlias(ctx context.Context, name string, value []byte) error {
	return s.changeAlias(ctx, name, func(b *pebble.Batch) error { return b.Set(aliasKey(name), value, nil) })
}

// RemoveAlias implements storage.Aliases.
func (s *Store) RemoveAlias(ctx context.Context, name string) error {
	return s.changeAlias(ctx, name, func(b *pebble.Batch) error { return b.Delete(aliasKey(name), nil) })
}

// changeAlias is durable on return. The end of ctx ends changeAlias before the write.
func (s *Store) changeAlias(ctx context.Context, name string, fill func(*pebble.Batch) error) error {
	err := s.logDB.room(ctx)
	if err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = s.complete(ctx, s.logDB.commitDurably, fill)
	}
	return failed(fmt.Sprintf("change the alias %q", name), err)
}
