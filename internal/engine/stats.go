package engine

import (
	"context"
	"fmt"
	"math"
	"time"

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
func (e *Engine) ModelStats(ctx context.Context, id string, effectiveDimension bool) (Stats, error) {
	i, err := e.find(id)
	if err != nil {
		return Stats{}, err
	}
	info := Info{ID: i.id, Learner: i.spec.Name(), Spec: i.spec, Created: i.created}
	if err := i.lockLoaded(ctx); err != nil {
		return Stats{}, err
	}
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
	report := learner.Report(model.ReportOptions{EffectiveDimension: effectiveDimension})
	s := Stats{
		Info: info, Stats: learner.Stats(),
		RegretUnpenalized: report.RegretUnpenalized,
		Served:            account.Served, ServedLoss: account.ServedLoss,
		Pending: uint64(max(0, i.pending.Load())),
		Digest:  codec.Digest(state), Durability: e.o.Durability, Snapshot: i.snapshotAt.Load(),
	}
	s.HindsightLoss, s.Regret, s.CertificateOK = report.HindsightLoss, report.Regret, report.CertificateOK
	if d := report.EffectiveDimension; !math.IsNaN(d) {
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

// Each calls f with the live statistics of every model that was in memory since
// the start, or that cannot be recovered. Those of a model that has left memory
// are as they were then.
func (e *Engine) Each(f func(Live)) {
	for _, i := range e.instances() {
		i.mu.RLock()
		live := Live{
			ID: i.id, Learner: i.spec.Name(), Stats: i.mu.stats,
			ServedLoss: i.mu.account.ServedLoss, ReadOnly: i.mu.broken != nil,
		}
		if i.mu.learner != nil {
			live.Stats = i.mu.learner.Stats()
		}
		known := i.mu.loaded || i.mu.broken != nil
		i.mu.RUnlock()
		if !known {
			continue
		}
		live.Predictions, live.Expired = i.predictions.Load(), i.expired.Load()
		live.Pending = uint64(max(0, i.pending.Load()))
		f(live)
	}
}

// Totals tells how the engine as a whole is doing.
type Totals struct {
	// Models is how many there are, Loaded how many are in memory, where their
	// states take ResidentBytes.
	Models, Loaded int
	ResidentBytes  int64
	// Pending counts the predictions that wait, of all models.
	Pending int64
	// Wakes counts the models that were loaded, in WakeSeconds altogether,
	// Hibernations those that left memory, BadSnapshots the snapshots that
	// could not be used.
	Wakes, Hibernations, BadSnapshots int64
	WakeSeconds                       float64
}

// Totals counts over all models.
func (e *Engine) Totals() Totals {
	t := Totals{
		ResidentBytes: e.resident.Load(), Pending: e.pending.Load(),
		Wakes: e.wakes.Load(), Hibernations: e.hibernations.Load(), BadSnapshots: e.badSnapshots.Load(),
		WakeSeconds: time.Duration(e.wakeNanoseconds.Load()).Seconds(),
	}
	for _, i := range e.instances() {
		t.Models++
		if i.bytes.Load() > 0 {
			t.Loaded++
		}
	}
	return t
}
