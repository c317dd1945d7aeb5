package memory

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
)

// EachAlias implements storage.Aliases.
func (s *Store) EachAlias(ctx context.Context, f func(name string, value []byte) error) error {
	s.mu.Lock()
	all := maps.Clone(s.mu.aliases)
	s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if err := context.Cause(ctx); err != nil {
			return fmt.Errorf("memory: read the aliases: %w", err)
		}
		if err := f(name, bytes.Clone(all[name])); err != nil {
			return err
		}
	}
	return nil
}

// PutAlias implements storage.Aliases.
func (s *Store) PutAlias(ctx context.Context, name string, value []byte) error {
	return s.changeAlias(ctx, name, func() { s.mu.aliases[name] = bytes.Clone(value) })
}

// RemoveAlias implements storage.Aliases.
func (s *Store) RemoveAlias(ctx context.Context, name string) error {
	return s.changeAlias(ctx, name, func() { delete(s.mu.aliases, name) })
}

func (s *Store) changeAlias(ctx context.Context, name string, change func()) error {
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("memory: change the alias %q: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	s.reach(ctx)
	return nil
}
