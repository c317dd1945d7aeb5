// Package engine hosts the models. A model's mailbox gives jobs their turn; an
// observation is appended to the log, made durable, learned and answered at its
// turn. The log is the one truth: the learner's state and the remembered ids
// are derived from it, and recovery derives them again. A snapshot is written
// only after all that is derived from the records before it is durable.
//
// A model is recovered when it is first used, and its state may leave memory
// again while it is idle.
//
// Files point one way: each uses what is declared in itself and in the files
// before it in the list of internal/files_test.go.
package engine

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"go.uber.org/zap"

	"hindsight/internal/engine/machine"
	"hindsight/internal/engine/record"
	"hindsight/internal/engine/recovery"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/codec"
)

// Engine hosts models. Its methods may be called by any number of goroutines
// at once.
type Engine struct {
	shared
	mu struct {
		sync.RWMutex
		models map[string]*instance
		byKept map[storage.Model]*instance
		// claims are the names of which a model is being made; closed when it
		// is there, or is not.
		claims map[string]chan struct{}
		closed bool
	}
	end context.CancelFunc
	// upkeep counts the goroutines of the engine as a whole, writing that of
	// the snapshotter, which ends last.
	upkeep, writing sync.WaitGroup
}

// find gives the model of a name.
func (e *Engine) find(id string) (*instance, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.mu.closed {
		return nil, ErrClosed
	}
	if i, ok := e.mu.models[id]; ok {
		return i, nil
	}
	return nil, notFound(id)
}

// instances are all models, in no order.
func (e *Engine) instances() []*instance {
	e.mu.RLock()
	defer e.mu.RUnlock()
	models := make([]*instance, 0, len(e.mu.models))
	for _, i := range e.mu.models {
		models = append(models, i)
	}
	return models
}

// claim waits until nobody else makes a model of the name, and refuses one for
// which there is no room. There is the model that has the name already, or nil.
// A claim is released once the model is hosted, or is not.
func (e *Engine) claim(ctx context.Context, id string) (there *instance, release func(), err error) {
	for {
		e.mu.Lock()
		other := e.mu.claims[id]
		switch {
		case e.mu.closed:
			err = ErrClosed
		case e.mu.models[id] != nil:
			there = e.mu.models[id]
		case other != nil:
		case len(e.mu.models)+len(e.mu.claims) >= e.o.ModelLimit:
			err = fmt.Errorf("%w: there are %d", ErrModelLimit, len(e.mu.models))
		default:
			claim := make(chan struct{})
			e.mu.claims[id] = claim
			e.mu.Unlock()
			return nil, func() {
				e.mu.Lock()
				defer e.mu.Unlock()
				delete(e.mu.claims, id)
				close(claim)
			}, nil
		}
		e.mu.Unlock()
		if there != nil || err != nil {
			return there, nil, err
		}
		select {
		case <-other:
		case <-ctx.Done():
			return nil, nil, fmt.Errorf("engine: wait for the name %q: %w", id, context.Cause(ctx))
		}
	}
}

// checkMemory refuses a model whose state may not fit into memory.
func (e *Engine) checkMemory(bytes uint64) error {
	if e.o.ModelMemory <= 0 || bytes <= uint64(e.o.ModelMemory) {
		return nil
	}
	return &model.FieldError{
		Field: "spec", Err: model.ErrSpecTooLarge,
		Got:  fmt.Sprintf("a state of up to %d bytes", bytes),
		Want: fmt.Sprintf("at most %d, what the states of all models may take in memory", e.o.ModelMemory),
	}
}

// CreateModel starts a model. The same id and spec again answer the model
// that is there; another spec is ErrModelExists. A spec without a scaling has
// that of the model that is there: its default may be another than when the
// model was created.
func (e *Engine) CreateModel(ctx context.Context, id string, spec model.Spec) (Info, error) {
	if err := CheckID(id); err != nil {
		return Info{}, err
	}
	if _, _, err := catalog.Complete(spec); err != nil {
		return Info{}, err
	}
	there, release, err := e.claim(ctx, id)
	if err != nil {
		return Info{}, err
	}
	if there != nil {
		if !isOf(there.Spec, spec) {
			return Info{}, fmt.Errorf("model %q: %w", id, ErrModelExists)
		}
		return there.info()
	}
	defer release()
	spec, cost, err := catalog.Create(spec)
	if err != nil {
		return Info{}, err
	}
	if err := e.checkMemory(cost.StateBytes); err != nil {
		return Info{}, err
	}
	encoded, err := codec.EncodeSpec(spec)
	if err != nil {
		return Info{}, fmt.Errorf("engine: %w", err)
	}
	m, err := machine.New(spec, e.learners)
	if err != nil {
		return Info{}, fmt.Errorf("engine: model %q: %w", id, err)
	}
	created := e.o.Now()
	kept, err := e.o.Store.Create(ctx, id, record.EncodeEntry(created.UnixNano(), encoded))
	if err != nil {
		return Info{}, registerError(id, err)
	}
	i := newInstance(&e.shared, id, recovery.Source{Kept: kept, Spec: spec, Learners: e.learners}, created)
	i.used.Store(created.UnixNano())
	i.publish(recovery.Recovered{Machine: m}, 0)
	if err := e.host(i); err != nil {
		return Info{}, err
	}
	e.o.Log.Info("model created", zap.String("model", id), zap.String("learner", i.name()))
	return i.info()
}

// isOf tells whether a model of the completed spec there is one of a given spec,
// created by this version or by one that completed specs otherwise.
func isOf(there, given model.Spec) bool {
	if given.Scaling == nil {
		given.Scaling = there.Scaling
	}
	created, _, err := catalog.Create(given)
	if err == nil && reflect.DeepEqual(there, created) {
		return true
	}
	completed, _, err := catalog.Complete(given)
	return err == nil && reflect.DeepEqual(there, completed)
}

// registerError says of an error of the registry what it is to the caller.
func registerError(id string, err error) error {
	if errors.Is(err, storage.ErrExists) {
		return fmt.Errorf("model %q: %w", id, ErrModelExists)
	}
	return fmt.Errorf("engine: register model %q: %w", id, recovery.StorageError(err))
}

// host takes a model in.
func (e *Engine) host(i *instance) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.closed {
		return ErrClosed
	}
	e.mu.models[i.id], e.mu.byKept[i.Kept] = i, i
	i.timings = e.o.Timings(i.id, i.name())
	return nil
}

// DeleteModel removes a model at its turn: after the observations already
// accepted.
func (e *Engine) DeleteModel(ctx context.Context, id string) error {
	i, err := e.find(id)
	if err != nil {
		return err
	}
	return i.box.Do(ctx, func(ctx context.Context) error {
		if err := i.supersede(ctx); err != nil {
			return err
		}
		if err := i.Kept.Delete(ctx); err != nil {
			return i.errorf("delete what is kept", recovery.StorageError(err))
		}
		i.box.Drop(notFound(id))
		i.mu.Lock()
		i.mu.broken = notFound(id)
		i.mu.Unlock()
		i.forget()
		e.mu.Lock()
		delete(e.mu.models, id)
		delete(e.mu.byKept, i.Kept)
		e.mu.Unlock()
		i.watchers.each(func(q *queue) { q.end(notFound(id)) })
		e.o.ForgetTimings(id, i.name())
		e.o.Log.Info("model deleted", zap.String("model", id))
		return nil
	})
}

// GetModel tells what a model is.
// What has been learned of named inputs and of classes is read from the state, which
// is loaded for it.
func (e *Engine) GetModel(ctx context.Context, id string) (Info, error) {
	i, err := e.find(id)
	if err != nil {
		return Info{}, err
	}
	info, err := i.info()
	if err != nil || (i.schema == nil && i.Spec.Classes == nil) {
		return info, err
	}
	if err := i.lockLoaded(ctx); err != nil {
		return Info{}, err
	}
	defer i.mu.RUnlock()
	m := i.mu.machine
	info.Sequence, info.Classes = m.Sequence(), m.Classes()
	info.Inputs = learnedInputs(m.Encoder())
	return info, nil
}

// ListModels gives up to limit models with the prefix, in the order of their
// ids, whose ids come after the given one.
func (e *Engine) ListModels(prefix, after string, limit int) ([]Info, error) {
	e.mu.RLock()
	ids := make([]string, 0, len(e.mu.models))
	for id := range e.mu.models {
		if strings.HasPrefix(id, prefix) && id > after {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	ids = ids[:min(limit, len(ids))]
	models := make([]*instance, len(ids))
	for n, id := range ids {
		models[n] = e.mu.models[id]
	}
	e.mu.RUnlock()
	infos := make([]Info, len(models))
	for n, i := range models {
		var err error
		if infos[n], err = i.info(); err != nil {
			return nil, err
		}
	}
	return infos, nil
}

// ValidateSpec fills in a spec's defaults and tells what it would cost.
func (e *Engine) ValidateSpec(spec model.Spec) (model.Spec, model.Cost, error) {
	return catalog.Create(spec)
}

// instanceOf makes the model of a registry entry, not yet in memory.
func (s *shared) instanceOf(entry storage.Entry) (*instance, error) {
	from, created, err := recovery.DecodeEntry(entry, s.learners)
	if err != nil {
		return nil, err
	}
	return newInstance(s, entry.Name, from, created), nil
}
