package engine

import (
	"fmt"

	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/codec"
)

// Stats tells how a model is doing, all of one state.
type Stats struct {
	Info
	model.Stats
	RegretUnpenalized float64
	// EffectiveDimension is nil unless it was asked for.
	EffectiveDimension *float64
	Served             uint64
	ServedLoss         float64
	Pending            uint64
	Digest             [32]byte
	Durability         string
	Snapshot           uint64
}

// ModelStats copies a model's state under its lock and works on the copy, so
// that the costly figures hold up neither Predict nor Observe.
func (e *Engine) ModelStats(id string, effectiveDimension bool) (Stats, error) {
	i, err := e.find(id)
	if err != nil {
		return Stats{}, err
	}
	info := i.info()
	i.mu.RLock()
	info.Sequence = i.mu.sequence
	state, err := i.mu.learner.AppendBinary(nil)
	account := i.mu.account
	i.mu.RUnlock()
	if err != nil {
		return Stats{}, fmt.Errorf("engine: copy model %q: %w", id, err)
	}
	learner, err := catalog.New(i.spec)
	if err != nil {
		return Stats{}, fmt.Errorf("engine: copy model %q: %w", id, err)
	}
	if err := learner.Restore(state); err != nil {
		return Stats{}, fmt.Errorf("engine: model %q: %w: %w", id, ErrCorrupt, err)
	}
	s := Stats{
		Info: info, Stats: learner.Stats(),
		RegretUnpenalized: learner.RegretUnpenalized(),
		Served:            account.Served, ServedLoss: account.ServedLoss,
		Pending: uint64(max(0, i.pending.Load())),
		Digest:  codec.Digest(state), Durability: e.o.Durability, Snapshot: i.snapshotAt.Load(),
	}
	if effectiveDimension {
		d := learner.EffectiveDimension()
		s.EffectiveDimension = &d
	}
	return s, nil
}

// Live is what a scrape reads of a model.
type Live struct {
	ID, Learner string
	model.Stats
	Predictions, Pending, Expired uint64
	ServedLoss                    float64
	ReadOnly                      bool
}

// Each calls f with the live statistics of every model.
func (e *Engine) Each(f func(Live)) {
	e.mu.RLock()
	models := make([]*instance, 0, len(e.mu.models))
	for _, i := range e.mu.models {
		models = append(models, i)
	}
	e.mu.RUnlock()
	for _, i := range models {
		i.mu.RLock()
		live := Live{
			ID: i.id, Learner: i.spec.Name(), Stats: i.mu.learner.Stats(),
			ServedLoss: i.mu.account.ServedLoss, ReadOnly: i.mu.broken != nil,
		}
		i.mu.RUnlock()
		live.Predictions, live.Expired = i.predictions.Load(), i.expired.Load()
		live.Pending = uint64(max(0, i.pending.Load()))
		f(live)
	}
}
