package engine

import (
	"context"
	"errors"
	"fmt"
	"math"

	"go.uber.org/zap"

	"hindsight/internal/engine/machine"
	"hindsight/internal/engine/record"
	"hindsight/internal/engine/recovery"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/codec"
)

// ExportOptions say what an exported model takes along.
type ExportOptions struct {
	// WithoutIDs leaves out the remembered ids and the predictions that wait.
	WithoutIDs bool
	// Reserve is asked for room for so many bytes more before the export has them, also after
	// ExportModel has given up. Its error ends the export. It may be nil.
	Reserve func(bytes int64) error
}

func (o *ExportOptions) reserve(bytes int) error {
	if o.Reserve == nil {
		return nil
	}
	return o.Reserve(int64(bytes))
}

// ExportModel is a model as it is now, in the format of a snapshot, with its metadata,
// the ids that it remembers and the predictions that wait for labels. Only the copy of
// all that takes the model's turn.
func (e *Engine) ExportModel(ctx context.Context, id string, o ExportOptions) ([]byte, error) {
	i, err := e.find(ctx, id)
	if err != nil {
		return nil, err
	}
	var c capture
	for {
		if err := i.takeCopy(ctx); err != nil {
			return nil, err
		}
		if c, err = i.captureWhole(ctx, o); err == nil {
			break
		}
		if <-i.copies; !errors.Is(err, errLeft) {
			return nil, err
		}
	}
	defer func() { c.done(); <-i.copies }()
	c.Digest = codec.Digest(c.Learner)
	data, err := codec.Encode(c.Snapshot)
	if err != nil {
		return nil, i.errorf("export", err)
	}
	return data, nil
}

// captureWhole is captureAtTurn with the metadata and what the store keeps beside the
// state, all of one turn.
func (i *instance) captureWhole(ctx context.Context, o ExportOptions) (capture, error) {
	return i.captureBy(ctx, func(ctx context.Context) (capture, error) {
		if err := o.reserve(int(i.stateBytes()) + slack); err != nil {
			return capture{}, err
		}
		c, err := i.captureNow(ctx)
		if err != nil {
			return c, err
		}
		carried := record.Carried{Metadata: i.entry.Load().Metadata}
		carried.Move = nil
		if !o.WithoutIDs {
			err = i.readCarried(ctx, &carried, &o)
		}
		if !o.WithoutIDs || !carried.Equal(new(Metadata)) {
			c.Carried = carried.Encode()
		}
		if err != nil {
			c.done()
		}
		return c, err
	})
}

// readCarried reads the ids and the predictions of the model.
func (i *instance) readCarried(ctx context.Context, c *record.Carried, o *ExportOptions) error {
	var refused error
	err := i.Kept.EachID(ctx, func(id storage.ID) error {
		if refused = o.reserve(len(id.ID) + len(id.Value)); refused != nil {
			return refused
		}
		id.Value = append([]byte(nil), id.Value...)
		c.IDs = append(c.IDs, id)
		return nil
	})
	if err == nil {
		err = i.Kept.EachWaiting(ctx, func(p storage.Prediction) error {
			if refused = o.reserve(len(p.ID) + len(p.Value)); refused != nil {
				return refused
			}
			p.Value = append([]byte(nil), p.Value...)
			c.Waiting = append(c.Waiting, p)
			return nil
		})
	}
	if refused != nil {
		return refused // The store has not failed.
	}
	return i.errorf("read what is remembered", recovery.StorageError(err))
}

// ImportModel starts a model from what ExportModel gave, on this server or
// another, under any id. It is durable on return, and there whole or not at all.
func (e *Engine) ImportModel(ctx context.Context, id string, data []byte) (Info, error) {
	if err := CheckID(id); err != nil {
		return Info{}, err
	}
	snapshot, err := codec.Decode(data)
	if err != nil {
		return Info{}, unreadable(err)
	}
	spec, cost, err := catalog.Complete(snapshot.Spec)
	if err != nil {
		return Info{}, err
	}
	release, err := e.claim(ctx, id)
	if err != nil {
		return Info{}, err
	}
	defer release()
	if there, err := e.free(id); err != nil {
		return Info{}, err
	} else if there != nil {
		return Info{}, fmt.Errorf("model %q: %w: an import wants an id that no model has", id, ErrModelExists)
	}
	made, err := e.room()
	if err != nil {
		return Info{}, err
	}
	defer made()
	if err := e.checkMemory(cost.StateBytes); err != nil {
		return Info{}, err
	}
	admitted, err := e.reserve(ctx, int64(len(data)))
	if err != nil {
		return Info{}, err
	}
	defer admitted()
	given, err := e.takeBytes(ctx, int64(len(data))) // The snapshot that is kept of it.
	if err != nil {
		return Info{}, err
	}
	defer given()
	m, metadata, from, err := readImport(spec, e.learners, snapshot)
	if err != nil {
		return Info{}, unreadable(err)
	}
	if err := e.waitingRoom(id, 0, 0, int64(len(from.Waiting))); err != nil {
		return Info{}, err
	}
	entry, value, err := e.newEntry(&metadata, spec, nil, &Imported{Sequence: snapshot.Sequence, Digest: snapshot.Digest})
	if err != nil {
		return Info{}, err
	}
	kept, err := e.o.Store.Import(ctx, id, value, from)
	if err != nil {
		return Info{}, registerError(id, err)
	}
	i := newInstance(&e.shared, id, recovery.Source{Kept: kept, Spec: spec, Learners: e.learners}, entry)
	i.used.Store(entry.Created)
	i.publish(recovery.Recovered{Machine: m, Snapshot: m.Sequence()}, 0)
	if err := e.host(i); err != nil {
		return Info{}, err
	}
	e.o.Log.Info("model imported", zap.String("model", id), zap.String("learner", i.name()), zap.Uint64("sequence", from.Sequence))
	return i.info()
}

// readImport checks what an export holds and makes the model's beginning of it:
// a machine, its metadata, and what is to be kept.
func readImport(spec model.Spec, learners machine.Learners, s codec.Snapshot) (*machine.Machine, Metadata, storage.Import, error) {
	var metadata Metadata
	from := storage.Import{Sequence: s.Sequence}
	m, err := machine.Restore(spec, learners, s)
	if err == nil {
		err = plausible(m)
	}
	if err == nil && s.Carried != nil {
		var c record.Carried
		c, err = record.DecodeCarried(s.Carried, spec.Outputs)
		metadata, from.IDs, from.Waiting = c.Metadata, c.IDs, c.Waiting
		err = errors.Join(err, CheckMetadata(&metadata))
	}
	if err != nil {
		return nil, metadata, from, err
	}
	s.Carried = nil // The store has it apart.
	from.Snapshot, err = codec.Encode(s)
	return m, metadata, from, err
}

// plausible refuses a state that no learner of its spec can have.
func plausible(m *machine.Machine) error {
	stats, err := m.Stats()
	if err != nil {
		return err
	}
	for _, v := range []float64{stats.Loss, stats.LogDeterminant, stats.LabelBound, m.Summary().Served.Loss} {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("a figure of %g: %w", v, model.ErrCorruptState)
		}
	}
	if !stats.CertificateOK || stats.Observations != m.Sequence() {
		return fmt.Errorf("%d observations at sequence %d, certificate %v: %w", stats.Observations, m.Sequence(), stats.CertificateOK, model.ErrCorruptState)
	}
	return nil
}

func unreadable(err error) error {
	return &model.FieldError{
		Field: "chunk", Err: ErrInvalidRequest, Got: err.Error(), Want: "the bytes that ExportModel gave",
	}
}
