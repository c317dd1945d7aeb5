package engine

import (
	"context"
	"errors"
	"fmt"
	"math"

	"go.uber.org/zap"

	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/codec"
	"hindsight/internal/store"
)

// ExportModel is a model as it is now, in the format of a snapshot. Ids that
// it remembers and predictions that wait for labels stay behind.
func (e *Engine) ExportModel(ctx context.Context, id string, _ ...ExportOptions) ([]byte, error) {
	i, err := e.find(id)
	if err != nil {
		return nil, err
	}
	var s codec.Snapshot
	err = i.alone(ctx, func() error {
		s, err = i.capture()
		return err
	})
	if err != nil {
		return nil, err
	}
	s.Digest = codec.Digest(s.Learner)
	data, err := codec.Encode(s)
	if err != nil {
		return nil, fmt.Errorf("engine: export model %q: %w", id, err)
	}
	return data, nil
}

// ImportModel starts a model from what ExportModel gave, on this server or
// another, under any id. It is durable on return.
func (e *Engine) ImportModel(_ context.Context, id string, data []byte) (Info, error) {
	if err := CheckID(id); err != nil {
		return Info{}, err
	}
	snapshot, err := codec.Decode(data)
	if err != nil {
		return Info{}, unreadable(err)
	}
	spec, cost, err := catalog.Complete(snapshot.Spec)
	if err != nil {
		return Info{}, err //nolint:wrapcheck // The catalogue's errors are the answer.
	}
	i := newInstance(e, id, 0, spec, e.o.Now())
	s, err := i.decodeState(snapshot)
	if err == nil {
		err = plausible(s)
	}
	if err != nil {
		return Info{}, unreadable(err)
	}
	e.creating.Lock()
	defer e.creating.Unlock()
	if _, err := e.find(id); err == nil {
		return Info{}, fmt.Errorf("model %q: %w", id, ErrModelExists)
	} else if errors.Is(err, ErrClosed) {
		return Info{}, err
	}
	if err := e.admit(cost.StateBytes); err != nil {
		return Info{}, err
	}
	encoded, err := codec.EncodeSpec(spec)
	if err != nil {
		return Info{}, fmt.Errorf("engine: %w", err)
	}
	i.number, err = e.o.Store.ImportModel(id, encodeEntry(i.created.UnixNano(), encoded), s.sequence, data)
	if errors.Is(err, store.ErrModelExists) {
		return Info{}, fmt.Errorf("model %q: %w", id, ErrModelExists)
	}
	if err != nil {
		return Info{}, fmt.Errorf("engine: register model %q: %w: %w", id, ErrStorage, err)
	}
	i.mu.state, i.mu.loaded = s, true
	i.snapshotAt.Store(s.sequence)
	i.derived = s.sequence
	if err := e.host(i); err != nil {
		return Info{}, err
	}
	if e.o.OnSnapshot != nil {
		e.o.OnSnapshot(id, i.created, s.sequence, data)
	}
	e.o.Log.Info("model imported", zap.String("model", id), zap.String("learner", spec.Name()), zap.Uint64("sequence", s.sequence))
	return i.info()
}

// plausible refuses a state that no learner came to.
func plausible(s state) error {
	stats := s.learner.Stats()
	for _, v := range []float64{stats.Loss, stats.LogDeterminant, stats.LabelBound, s.account.ServedLoss} {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("a figure of %g: %w", v, model.ErrCorruptState)
		}
	}
	if !stats.CertificateOK || stats.Observations != s.sequence {
		return fmt.Errorf("%d observations at sequence %d, certificate %v: %w", stats.Observations, s.sequence, stats.CertificateOK, model.ErrCorruptState)
	}
	return nil
}

func unreadable(err error) error {
	return &model.FieldError{
		Field: "chunk", Err: ErrInvalidRequest, Got: err.Error(), Want: "the bytes that ExportModel gave",
	}
}
