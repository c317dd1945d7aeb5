package engine

import (
	"context"

	"go.uber.org/zap"

	"hindsight/internal/engine/record"
	"hindsight/internal/engine/recovery"
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
// waits for its turn. Metadata that is as it was changes nothing.
func (e *Engine) UpdateModel(ctx context.Context, id string, o UpdateOptions) (Info, error) {
	i, release, err := e.own(ctx, id)
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
		i.entry.Store(next)
		e.o.Log.Info("model updated", zap.String("model", i.id))
	}
	return i.info()
}

// register makes an entry of the model durable. The name is claimed.
func (i *instance) register(ctx context.Context, next *record.Entry) error {
	value, err := encodeEntry(next, i.Spec)
	if err != nil {
		return err
	}
	return i.errorf("register a change", recovery.StorageError(i.Kept.SetValue(ctx, value)))
}
