package engine

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"hindsight/internal/model"
	"hindsight/internal/store"
)

// state is what a model has learned, and its host's account of it.
type state struct {
	learner  model.Learner
	sequence uint64
	account  account
}

// instance is one hosted model. Its state is in memory while it is used and
// may be elsewhere while it is not: see load and hibernate.
//
// Lock order: gate before mu. Whoever runs at the gate, the writer as a rule,
// alone changes the state, and only it reads that without the lock.
type instance struct {
	engine  *Engine
	id      string
	number  store.Model
	spec    model.Spec
	created time.Time
	timings Timings

	mu struct {
		sync.RWMutex
		// Its learner is nil while the model is not in memory.
		state
		// broken is why the model no longer learns.
		broken error
		// loading is the load that is on its way, nil when there is none.
		loading *load
		// gone is what a model that was deleted answers.
		gone error
		// loaded says that the state was in memory since the start, stats what
		// the learner said when it left.
		loaded bool
		stats  model.Stats
	}
	gate gate

	// used is when the model was last asked for something, bytes what its
	// state is accounted with while it is in memory.
	used  atomic.Int64
	bytes atomic.Int64
	// derived is the sequence up to which ids and answered predictions are in
	// the store, as far as this process knows.
	derived uint64

	// predictions counts rows answered since the start.
	predictions atomic.Uint64
	// pending counts the predictions that wait, expired those given up.
	pending atomic.Int64
	expired atomic.Uint64
	// snapshotAt is the sequence of the newest snapshot on disk, snapshotTime
	// when it was asked for.
	snapshotAt   atomic.Uint64
	snapshotTime atomic.Int64
}

// newInstance is a model that is not in memory.
func newInstance(e *Engine, id string, number store.Model, spec model.Spec, created time.Time) *instance {
	i := &instance{engine: e, id: id, number: number, spec: spec, created: created}
	i.gate.changed.L = &i.gate
	i.snapshotTime.Store(e.o.Now().UnixNano())
	return i
}

func (i *instance) info() (Info, error) {
	i.mu.RLock()
	sequence, loaded := i.mu.sequence, i.mu.loaded
	i.mu.RUnlock()
	if !loaded {
		var err error
		if sequence, err = i.engine.o.Store.LastSequence(i.number); err != nil {
			return Info{}, fmt.Errorf("engine: find the end of the log of model %q: %w: %w", i.id, ErrStorage, err)
		}
	}
	return Info{ID: i.id, Learner: i.spec.Name(), Spec: i.spec, Created: i.created, Sequence: sequence}, nil
}

// Prediction is the answer to one row of Predict.
type Prediction struct {
	model.Prediction
	// ID names the prediction in Observe; empty when it is not remembered.
	ID string
	// Sequence is how many observations the answer had learned from.
	Sequence uint64
}

// PredictOptions say what becomes of a prediction.
type PredictOptions struct {
	// Remember keeps the features until the label comes or TTL has passed.
	Remember bool
	// IDs are chosen by the caller, one per row, or by the engine when empty.
	IDs []string
	// TTL is Options.LabelTTL when 0.
	TTL time.Duration
}

// Predict answers every row from one state, which it leaves as it was.
func (e *Engine) Predict(ctx context.Context, id string, rows [][]float64, o PredictOptions) ([]Prediction, error) {
	started := e.o.Now()
	i, err := e.find(id)
	if err != nil {
		return nil, err
	}
	answers := newPredictions(len(rows), i.spec.Outputs)
	i.used.Store(started.UnixNano())
	if err := i.predict(ctx, answers, rows); err != nil {
		return nil, err
	}
	if o.Remember {
		if err := i.remember(answers, rows, o, started); err != nil {
			return nil, err
		}
	}
	i.predictions.Add(uint64(len(rows)))
	i.timings.Predict(e.o.Now().Sub(started).Seconds())
	return answers, nil
}

// finite says that numbers may be served. A learner that is whole gives no
// others, so that it is corrupt if it does.
func finite(numbers []float64) bool {
	for _, v := range numbers {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return false
		}
	}
	return true
}

// newPredictions makes room for predictions in three allocations.
func newPredictions(n, outputs int) []Prediction {
	answers := make([]Prediction, n)
	values, deviations := make([]float64, n*outputs), make([]float64, n*outputs)
	for k := range answers {
		at, end := k*outputs, (k+1)*outputs
		answers[k].Values, answers[k].StandardErrors = values[at:end:end], deviations[at:end:end]
	}
	return answers
}

func (i *instance) predict(ctx context.Context, answers []Prediction, rows [][]float64) error {
	if err := i.lockLoaded(ctx); err != nil {
		return err
	}
	defer i.mu.RUnlock()
	for n, x := range rows {
		if err := i.mu.learner.Predict(&answers[n].Prediction, x); err != nil {
			return &RowError{Row: n, Err: err}
		}
		if p := answers[n].Prediction; !finite(p.Values) || !finite(p.StandardErrors) {
			return fmt.Errorf("model %q predicts %v: %w", i.id, p.Values, ErrCorrupt)
		}
		answers[n].Sequence = i.mu.sequence
	}
	return nil
}

// remember stores the features of every row under its id. An id that the
// caller chose and that waits already, with the same features, is answered
// with the prediction first given under it.
func (i *instance) remember(answers []Prediction, rows [][]float64, o PredictOptions, now time.Time) error {
	ttl := o.TTL
	if ttl == 0 {
		ttl = i.engine.o.LabelTTL
	}
	if n := i.pending.Load(); n+int64(len(rows)) > i.engine.o.PendingLimit {
		return fmt.Errorf("model %q: %w: %d wait, the limit is %d", i.id, ErrPendingLimit, n, i.engine.o.PendingLimit)
	}
	if n := i.engine.pending.Load(); n+int64(len(rows)) > i.engine.o.PendingTotalLimit {
		return fmt.Errorf("%w: %d wait over all models, the limit is %d", ErrPendingLimit, n, i.engine.o.PendingTotalLimit)
	}
	entries := make([]store.Pending, 0, len(rows))
	for n, x := range rows {
		if len(o.IDs) > 0 && o.IDs[n] != "" {
			known, err := i.rememberedAs(o.IDs[n], x, now)
			if err != nil {
				return &RowError{Row: n, Err: err}
			}
			if known != nil {
				answers[n] = *known
				continue
			}
			answers[n].ID = o.IDs[n]
		} else {
			id, err := i.engine.o.NewID()
			if err != nil {
				return fmt.Errorf("engine: mint a prediction id: %w", err)
			}
			answers[n].ID = id
		}
		value := pending{Prediction: answers[n], Features: x}.encode()
		entries = append(entries, store.Pending{ID: answers[n].ID, Value: value, Expiry: now.Add(ttl)})
	}
	if len(entries) == 0 {
		return nil
	}
	if err := i.engine.o.Store.PutPending(i.number, entries); err != nil {
		return fmt.Errorf("engine: remember predictions of model %q: %w: %w", i.id, ErrStorage, err)
	}
	i.addPending(int64(len(entries)))
	return nil
}

// addPending counts predictions that wait, of the model and of all.
func (i *instance) addPending(n int64) {
	i.pending.Add(n)
	i.engine.pending.Add(n)
}

// rememberedAs is the prediction waiting under an id that the caller chose,
// nil when the id is free.
func (i *instance) rememberedAs(id string, x []float64, now time.Time) (*Prediction, error) {
	if err := checkObservationID("prediction_id", id); err != nil {
		return nil, err
	}
	waiting, err := i.waiting(id, now)
	if err != nil {
		return nil, err
	}
	if waiting != nil {
		if !sameNumbers(waiting.Features, x) {
			return nil, fmt.Errorf("prediction_id %q: %w: it was predicted with other features", id, ErrConflict)
		}
		return &waiting.Prediction, nil
	}
	_, known, err := i.engine.o.Store.GetSeen(i.number, id)
	if err != nil {
		return nil, fmt.Errorf("engine: look up id %q: %w: %w", id, ErrStorage, err)
	}
	if known {
		return nil, fmt.Errorf("prediction_id %q: %w: its label has been observed", id, ErrConflict)
	}
	return nil, nil
}

// waiting is the pending prediction of an id, nil when there is none or it
// has expired.
func (i *instance) waiting(id string, now time.Time) (*pending, error) {
	entry, ok, err := i.engine.o.Store.GetPending(i.number, id)
	if err != nil {
		return nil, fmt.Errorf("engine: look up prediction %q: %w: %w", id, ErrStorage, err)
	}
	if !ok || !entry.Expiry.After(now) {
		return nil, nil
	}
	p, err := decodePending(id, entry.Value, i.spec.Outputs)
	if err != nil {
		return nil, fmt.Errorf("engine: prediction %q: %w: %w", id, ErrCorrupt, err)
	}
	return &p, nil
}

// MaxObservationID is the longest prediction or observation id, in bytes.
const MaxObservationID = 128

func checkObservationID(field, id string) error {
	if len(id) <= MaxObservationID {
		return nil
	}
	return &model.FieldError{
		Field: field, Err: ErrInvalidID,
		Got: fmt.Sprintf("%d bytes", len(id)), Want: fmt.Sprintf("at most %d bytes", MaxObservationID),
	}
}
