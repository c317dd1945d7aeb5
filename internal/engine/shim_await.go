package engine

import (
	"context"

	"hindsight/internal/engine/storage"
)

// ErrNotOwner is temporary.
var ErrNotOwner = storage.ErrNotOwner

// Await is temporary.
func (e *Engine) Await(ctx context.Context, id string, sequence uint64) error {
	info, err := e.GetModel(ctx, id)
	if err == nil && info.Sequence < sequence {
		<-ctx.Done()
		err = ctx.Err()
	}
	return err
}
