package engine

import (
	"context"
	"errors"
	"fmt"
	"math"

	"go.uber.org/zap"

	"hindsight/internal/engine/figures"
	"hindsight/internal/engine/hosted"
	"hindsight/internal/engine/machine"
	"hindsight/internal/engine/record"
	"hindsight/internal/engine/recovery"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/snapshot"
)

// ExportModel returns a model as it is now, in the format of a snapshot, with its metadata, the ids that it
// remembers and its pending predictions. Only the copy of all that takes the model's turn.
func (e *Engine) ExportModel(ctx context.Context, id string, o ExportOptions) ([]byte, error) {
	m, err := e.find(ctx, id)
	if err != nil {
		return nil, err
	}
	return m.Export(ctx, o)
}

// ImportModel creates a model from the chunks of what ExportModel returned, on this server or another one, under any id. The
// model is durable on return, and exists whole or not at all. ImportModel clears the chunks.
func (e *Engine) ImportModel(ctx context.Context, id string, chunks ...[]byte) (Info, error) {
	if err := CheckID(id); err != nil {
		return Info{}, err
	}
	if err := e.asOwner(ctx); err != nil {
		return Info{}, err
	}
	data := joined(chunks)
	snapshot, err := snapshot.Decode(data)
	if err != nil {
		return Info{}, unreadable(data, err)
	}
	spec, cost, err := catalog.Complete(snapshot.Spec)
	if err != nil {
		return Info{}, err
	}
	release, err := e.table.claim(ctx, id)
	if err != nil {
		return Info{}, err
	}
	defer release()
	if existing, err := e.existing(id); err != nil {
		return Info{}, err
	} else if existing != nil {
		return Info{}, fmt.Errorf("model %q: %w: an import wants an id that no model has", id, ErrModelExists)
	}
	releaseSlot, err := e.table.reserveSlot()
	if err != nil {
		return Info{}, err
	}
	defer releaseSlot()
	if err := e.checkMemory(cost.StateBytes); err != nil {
		return Info{}, err
	}
	admitted, err := e.env.Memory.Reserve(ctx, int64(len(data)))
	if err != nil {
		return Info{}, err
	}
	defer admitted()
	copied, err := e.env.Memory.TakeCopies(ctx, int64(len(data))) // For the snapshot to store.
	if err != nil {
		return Info{}, err
	}
	defer copied()
	loaded, metadata, from, err := readImport(spec, e.env.Learners, snapshot)
	if err != nil {
		return Info{}, unreadable(data, err)
	}
	if err := e.env.CheckPending(id, 0, 0, int64(len(from.Pending))); err != nil {
		return Info{}, err
	}
	registered, value, err := e.newRegistryValue(&metadata, spec, nil)
	if err != nil {
		return Info{}, err
	}
	handle, err := e.o.Store.Import(ctx, id, value, from)
	if err != nil {
		return Info{}, registryError(id, err)
	}
	m, err := e.hostNew(id, spec, handle, registered, recovery.Recovered{Machine: loaded, Snapshot: loaded.Sequence()})
	if err != nil {
		return Info{}, err
	}
	e.o.Log.Info("model imported", zap.String("model", id), zap.String("learner", m.Learner()), zap.Uint64("sequence", loaded.Sequence()))
	return figures.Describe(m.Model)
}

func joined(chunks [][]byte) []byte {
	if len(chunks) == 1 {
		return chunks[0]
	}
	size := 0
	for _, chunk := range chunks {
		size += len(chunk)
	}
	data := make([]byte, 0, size)
	for n, chunk := range chunks {
		data, chunks[n] = codec.AppendBytes(data, chunk), nil
	}
	return data
}

func readImport(spec model.Spec, learners machine.Learners, s snapshot.Snapshot) (*machine.Machine, Metadata, storage.Import, error) {
	var metadata Metadata
	from := storage.Import{Sequence: s.Sequence}
	m, err := machine.Restore(spec, learners, s)
	if err == nil {
		err = plausible(m)
	}
	if err == nil && s.Carried != nil {
		var c record.Carried
		c, err = record.DecodeCarried(s.Carried, spec.Outputs)
		metadata, from.IDs, from.Pending = c.Metadata, c.IDs, c.Pending
		err = errors.Join(err, CheckMetadata(&metadata))
	}
	if err != nil {
		return nil, metadata, from, err
	}
	s.Carried = nil // The store keeps it beside the snapshot.
	from.Snapshot, err = snapshot.Encode(s)
	return m, metadata, from, err
}

func plausible(m *machine.Machine) error {
	stats, err := m.Stats()
	if err != nil {
		return err
	}
	for _, v := range []float64{stats.Loss, stats.LogDeterminant, stats.LabelBound, m.Summary().Served.Loss} {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("a figure of %g: %w", v, codec.ErrCorrupt)
		}
	}
	if !stats.CertificateOK || stats.Observations != m.Sequence() {
		return fmt.Errorf("%d observations at sequence %d, certificate %v: %w", stats.Observations, m.Sequence(), stats.CertificateOK, codec.ErrCorrupt)
	}
	return nil
}

func unreadable(data []byte, err error) error {
	got := "nothing"
	if len(data) > 0 {
		got = fmt.Sprintf("%d bytes that begin with %.16q: %v", len(data), data, err)
	}
	return hosted.Invalid("chunk", got, "the bytes that ExportModel gave")
}
