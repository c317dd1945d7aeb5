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
	"time"

	"go.uber.org/zap"

	"hindsight/internal/engine/machine"
	"hindsight/internal/engine/record"
	"hindsight/internal/engine/recovery"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
)

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

// CreateOptions say what a new model is beside its spec.
type CreateOptions struct {
	Metadata
	// Follows names a model, by its id or an alias, whose observations the new model
	// learns, from the next one on. It learns no others.
	Follows string
	// ValidateOnly answers the model as it would be, and creates nothing.
	ValidateOnly bool
}

// CreateModel starts a model. The same id and spec again answer the model
// that is there, with the metadata that it has; another spec is ErrModelExists. A
// spec without a scaling has that of the model that is there, and so have categories
// without one: the defaults may be others than when the model was created.
func (e *Engine) CreateModel(ctx context.Context, id string, spec model.Spec, o CreateOptions) (Info, error) {
	_, _, err := catalog.Complete(spec)
	if err := model.JoinFields(CheckID(id), err, CheckMetadata(&o.Metadata)); err != nil {
		return Info{}, err
	}
	leader, release, err := e.claimNew(ctx, id, o.Follows)
	if err != nil {
		return Info{}, err
	}
	defer release()
	if there, err := e.free(id); err != nil {
		return Info{}, err
	} else if there != nil {
		if f := there.follows(); (f == nil) != (leader == nil) || (f != nil && f.Leader != leader.ref()) {
			return Info{}, fmt.Errorf("model %q: %w: it follows %q", id, ErrModelExists, there.description().Follows)
		}
		if !isOf(there.Spec, spec) {
			return Info{}, fmt.Errorf("model %q: %w: it has another spec", id, ErrModelExists)
		}
		return there.info()
	}
	made, err := e.room()
	if err != nil {
		return Info{}, err
	}
	defer made()
	spec, cost, err := catalog.Create(spec)
	if err != nil {
		return Info{}, err
	}
	if err := e.checkMemory(cost.StateBytes); err != nil {
		return Info{}, err
	}
	var learner *machine.Machine
	if !o.ValidateOnly {
		var admitted func()
		if learner, admitted, err = e.admitNew(ctx, id, spec); err != nil {
			return Info{}, err
		}
		defer admitted()
	}
	var follow *record.Follow
	followed := ""
	if leader != nil {
		followed = leader.id
		if err := model.JoinFields(leads(leader), sameQuestion(&spec, &leader.Spec)); err != nil {
			return Info{}, err
		}
		var begun func()
		if follow, begun, err = leader.beginAt(ctx); err != nil {
			return Info{}, err
		}
		defer begun()
	}
	if o.ValidateOnly {
		if err := e.o.Store.Failed(); err != nil {
			return Info{}, registerError(id, err)
		}
		return Info{ID: id, Learner: spec.Name(), Spec: spec, Metadata: o.Metadata, Follows: followed}, nil
	}
	return e.create(ctx, id, spec, learner, &o.Metadata, follow)
}

// admitNew makes what learns for a new model, and reserves the memory that it takes until
// admitted. Few are made at once, and none while there are loads enough.
func (e *Engine) admitNew(ctx context.Context, id string, spec model.Spec) (m *machine.Machine, admitted func(), err error) {
	if err := take(ctx, e.loading, "other models to be loaded"); err != nil {
		return nil, nil, err
	}
	defer func() { <-e.loading }()
	if m, err = machine.New(spec, e.learners); err != nil {
		return nil, nil, fmt.Errorf("engine: model %q: %w", id, err)
	}
	admitted, err = e.reserve(ctx, int64(m.Size())+instanceBytes)
	return m, admitted, err
}

// claimNew claims the name of a new model and that of the model that it is to follow,
// which is nil if none is named.
func (e *Engine) claimNew(ctx context.Context, id, follows string) (leader *instance, release func(), err error) {
	if follows == "" {
		release, err = e.claim(ctx, id)
		return nil, release, err
	}
	if leader, err = e.find(ctx, follows); err == nil && leader.id == id {
		err = &model.FieldError{Field: "follows", Err: ErrInvalidRequest, Got: "the model itself", Want: "another model"}
	}
	if err != nil {
		return nil, nil, err
	}
	if release, err = e.claimAll(ctx, id, leader.id); err != nil {
		return nil, nil, err
	}
	if leader, err = e.findID(leader.id); err != nil {
		release()
		return nil, nil, err
	}
	return leader, release, nil
}

// free is the model that has a claimed name already, nil if there is none. The name of a
// deleted model is refused.
func (e *Engine) free(id string) (*instance, error) {
	i, err := e.lookUp(id)
	switch {
	case errors.Is(err, ErrModelNotFound):
		return nil, e.noAlias(id)
	case err != nil:
		return nil, err
	case i.isDeleted():
		return nil, fmt.Errorf("model %q: %w; UndeleteModel brings it back until %s, DeleteModel with purge frees its id", id, ErrModelDeleted, purgeTime(i))
	}
	return i, nil
}

// noAlias refuses a name that an alias has.
func (e *Engine) noAlias(name string) error {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if a := e.mu.aliases[name]; a != nil {
		return fmt.Errorf("model %q: %w, that of model %q; DeleteAlias frees it", name, ErrAliasExists, a.Model.ID)
	}
	return nil
}

// create registers a checked model under a claimed name.
func (e *Engine) create(ctx context.Context, id string, spec model.Spec, learner *machine.Machine, m *Metadata, follow *record.Follow) (Info, error) {
	entry, value, err := e.newEntry(m, spec, follow, nil)
	if err != nil {
		return Info{}, err
	}
	kept, err := e.o.Store.Create(ctx, id, value)
	if err != nil {
		return Info{}, registerError(id, err)
	}
	i := newInstance(&e.shared, id, recovery.Source{Kept: kept, Spec: spec, Learners: e.learners}, entry)
	i.used.Store(entry.Created)
	i.publish(recovery.Recovered{Machine: learner}, 0)
	if err := e.host(i); err != nil {
		return Info{}, err
	}
	e.o.Log.Info("model created", zap.String("model", id), zap.String("learner", i.name()))
	return i.info()
}

// newEntry is the registry entry of a new model, and its bytes.
func (e *Engine) newEntry(m *Metadata, spec model.Spec, follow *record.Follow, imported *Imported) (*record.Entry, []byte, error) {
	now := e.distinct(e.o.Now().UnixNano())
	entry := &record.Entry{Created: now, Updated: now, Metadata: m.Clone(), Follow: follow, Imported: imported}
	value, err := encodeEntry(entry, spec)
	return entry, value, err
}

// distinct is a time of creation, in nanoseconds, that no other model has: a coarse clock
// may show one time twice, and a record.Ref tells models of one id apart by it.
func (e *Engine) distinct(now int64) int64 {
	for {
		last := e.created.Load()
		if now <= last && last-now < int64(time.Second) {
			now = last + 1
		}
		if e.created.CompareAndSwap(last, now) {
			return now
		}
	}
}

// isOf tells whether a model of the completed spec there is one of a given spec,
// created by this version or by one that completed specs otherwise.
func isOf(there, given model.Spec) bool {
	if given.Scaling == nil {
		given.Scaling = there.Scaling
	}
	there.Inputs = model.WithJointScale(there.Inputs, func(_ int, joint *bool) *bool {
		if joint == nil {
			joint = new(bool) // Before the field there was none.
		}
		return joint
	})
	given.Inputs = model.WithJointScale(given.Inputs, func(i int, joint *bool) *bool {
		if joint == nil && i < len(there.Inputs) && there.Inputs[i].Categorical != nil {
			joint = there.Inputs[i].Categorical.JointScale
		}
		return joint
	})
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

// GetModel tells what a model is.
// What has been learned of named inputs and of classes is read from the state, which
// is loaded for it.
func (e *Engine) GetModel(ctx context.Context, id string) (Info, error) {
	i, err := e.find(ctx, id)
	if err != nil {
		return Info{}, err
	}
	info, err := i.info()
	info.Aliases = e.aliasesOf(i.ref())
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

// ValidateSpec fills in a spec's defaults and tells what it would cost.
func (e *Engine) ValidateSpec(spec model.Spec) (model.Spec, model.Cost, error) {
	return catalog.Create(spec)
}

// instanceOf makes the model of a registry entry, not yet in memory.
func (s *shared) instanceOf(registered storage.Entry) (*instance, error) {
	from, entry, err := recovery.DecodeEntry(registered, s.learners)
	if err != nil {
		return nil, err
	}
	return newInstance(s, registered.Name, from, &entry), nil
}
