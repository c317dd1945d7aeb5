package engine

import (
	"context"
	"fmt"

	"go.uber.org/zap"
)

// UpdateOptions say what UpdateModel changes.
type UpdateOptions struct {
	// ETag has to be the model's, unless it is empty.
	ETag string
	// Edit changes the metadata, of which it is given a copy. It is pure.
	Edit func(*Metadata)
	// ValidateOnly answers the model as it would be, with the etag that it has, and
	// changes nothing.
	ValidateOnly bool
}

// UpdateModel changes the metadata of a model, durably. It neither loads the model nor
// waits for its turn, unless the model is moved: then what it had accepted is learned or
// refused on return, and nothing is afterwards. Metadata that is as it was changes nothing.
func (e *Engine) UpdateModel(ctx context.Context, id string, o UpdateOptions) (Info, error) {
	named, err := e.find(ctx, id)
	if err != nil {
		return Info{}, err
	}
	i, release, err := e.own(ctx, named.id)
	if err != nil {
		return Info{}, err
	}
	defer release()
	if i.isDeleted() {
		return Info{}, deletedError(i)
	}
	entry := i.entry.Load()
	if err := checkEtag(i.id, o.ETag, entry); err != nil {
		return Info{}, err
	}
	metadata := entry.Clone()
	o.Edit(&metadata)
	if err := CheckMetadata(&metadata); err != nil {
		return Info{}, err
	}
	if f := i.follows(); f != nil && metadata.Move != nil {
		return Info{}, fmt.Errorf("model %q: %w: only %q can be moved, or set an alias of it to this one first", i.id, ErrFollows, f.Leader.ID)
	}
	if o.ValidateOnly {
		info, err := i.info()
		info.Metadata = metadata
		return info, err
	}
	if !metadata.Equal(&entry.Metadata) {
		next := changed(entry, e.o.Now())
		next.Metadata = metadata
		if err := i.register(ctx, next); err != nil {
			return Info{}, err
		}
		i.change(next)
		e.o.Log.Info("model updated", zap.String("model", i.id))
	}
	if err := i.settle(ctx); err != nil {
		return Info{}, err
	}
	return i.info()
}
