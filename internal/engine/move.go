package engine

import (
	"context"
	"fmt"

	"hindsight/internal/engine/record"
)

// here refuses a model that is moved. What it allows is still allowed at the model's turn,
// or while keeping is held, and not afterwards.
func (i *instance) here() error {
	if m := i.entry.Load().Move; m != nil {
		return &MovedError{Model: i.id, Move: *m}
	}
	return nil
}

// change puts a changed entry in place. Its predictions are kept before or refused.
func (i *instance) change(next *record.Entry) {
	i.keeping.Lock()
	defer i.keeping.Unlock()
	i.entry.Store(next)
}

// settle waits until what a moved model accepted before is learned or refused.
func (i *instance) settle(ctx context.Context) error {
	if i.entry.Load().Move == nil {
		return nil
	}
	if err := i.box.Do(ctx, func(context.Context) error { return nil }); err != nil {
		return fmt.Errorf("engine: wait for the observations of model %q: %w", i.id, err)
	}
	return nil
}
