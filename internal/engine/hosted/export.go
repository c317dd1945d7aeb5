package hosted

import (
	"context"

	"hindsight/internal/engine/record"
	"hindsight/internal/engine/recovery"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model/snapshot"
)

// ExportOptions are the options of an export.
type ExportOptions struct {
	// WithoutIDs leaves out the remembered ids and the pending predictions.
	WithoutIDs bool
	// Reserve is called before the export allocates so many more bytes, even after the caller has left. Its error
	// ends the export. It may be nil.
	Reserve func(bytes int64) error
}

func (o *ExportOptions) reserve(bytes int) error {
	if o.Reserve == nil {
		return nil
	}
	return o.Reserve(int64(bytes))
}

// Export returns the model in the format of a snapshot, with its metadata, its remembered ids and its pending
// predictions. All are from one turn.
func (m *Model) Export(ctx context.Context, o ExportOptions) ([]byte, error) {
	before := func() error {
		if err := m.Advance(); err != nil {
			return err
		}
		return o.reserve(int(m.stateBytes()) + slack)
	}
	c, err := m.captureAtTurn(ctx, before,
		func(ctx context.Context, c *capture) (err error) {
			carried := record.Carried{Metadata: m.registered.Load().Metadata}
			if !o.WithoutIDs {
				err = m.readCarried(ctx, &carried, c.Sequence, &o)
			}
			if !o.WithoutIDs || !carried.Equal(new(record.Metadata)) {
				c.Carried = carried.Encode()
			}
			return err
		})
	if err != nil {
		return nil, err
	}
	defer c.release()
	c.Digest = snapshot.Digest(c.Learner)
	data, err := snapshot.Encode(c.Snapshot)
	return data, m.id.errorf("export", err)
}

// readCarried reads the ids up to a sequence and the pending predictions of the model.
func (m *Model) readCarried(ctx context.Context, c *record.Carried, sequence uint64, o *ExportOptions) error {
	var rejected error
	undone := recovery.Undone(sequence) // Another server may have appended after the sequence.
	err := m.journal.store.EachID(ctx, func(id storage.ID) error {
		if undone(id.Value) {
			return nil
		}
		if rejected = o.reserve(len(id.ID) + len(id.Value)); rejected != nil {
			return rejected
		}
		id.Value = append([]byte(nil), id.Value...)
		c.IDs = append(c.IDs, id)
		return nil
	})
	if err == nil {
		err = m.pending.store.EachPending(ctx, func(p storage.Prediction) error {
			if rejected = o.reserve(len(p.ID) + len(p.Value)); rejected != nil {
				return rejected
			}
			p.Value = append([]byte(nil), p.Value...)
			c.Pending = append(c.Pending, p)
			return nil
		})
	}
	if rejected != nil {
		return rejected // Reserve has failed, not the store.
	}
	return m.id.storagef("read ids and pending predictions", err)
}
