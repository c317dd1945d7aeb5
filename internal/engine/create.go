package engine

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"hindsight/internal/engine/figures"
	"hindsight/internal/engine/hosted"
	"hindsight/internal/engine/machine"
	"hindsight/internal/engine/record"
	"hindsight/internal/engine/recovery"
	"hindsight/internal/engine/replica"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
)

// CreateOptions say what a new model is beside its spec.
type CreateOptions struct {
	Metadata
	// Follows names a leader, by its id or an alias: the new model is its follower. It learns what the leader
	// learns from now on, and nothing else.
	Follows string
	// ValidateOnly describes the model as it would be, and creates nothing.
	ValidateOnly bool
}

// CreateModel creates a model. The same id and spec again return the existing model, with the metadata that
// it has; another spec is ErrModelExists.
func (e *Engine) CreateModel(ctx context.Context, id string, spec model.Spec, o CreateOptions) (Info, error) {
	spec, cost, err := catalog.Complete(spec)
	if err := model.JoinFields(CheckID(id), err, CheckMetadata(&o.Metadata)); err != nil {
		return Info{}, err
	}
	info, err := e.createModel(ctx, id, spec, cost, o)
	if errors.Is(err, errStored) && e.o.Owner != nil {
		// An earlier call of unknown outcome, or a call at another owner, has created the model.
		info, err = e.createModel(ctx, id, spec, cost, o)
	}
	return info, err
}

func (e *Engine) createModel(ctx context.Context, id string, spec model.Spec, cost model.Cost, o CreateOptions) (Info, error) {
	if !o.ValidateOnly {
		if err := e.asOwner(ctx); err != nil {
			return Info{}, err
		}
	}
	leader, release, err := e.claimNew(ctx, id, o.Follows)
	if err != nil {
		return Info{}, err
	}
	defer release()
	if existing, err := e.existing(id); err != nil {
		return Info{}, err
	} else if existing != nil {
		return describeSame(existing, spec, leader)
	}
	releaseSlot, err := e.table.reserveSlot()
	if err != nil {
		return Info{}, err
	}
	defer releaseSlot()
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
	described := Info{ID: id, Learner: spec.Name(), Spec: spec, Metadata: o.Metadata}
	var follow *record.Follow
	if leader != nil {
		described.Follows = leader.ID()
		if err := replica.CheckLeader(&spec, leader.Model); err != nil {
			return Info{}, err
		}
		var releaseLog func()
		if follow, releaseLog, err = replica.Begin(ctx, leader.Model); err != nil {
			return Info{}, err
		}
		defer releaseLog()
	}
	if o.ValidateOnly {
		if err := e.o.Store.Failed(); err != nil {
			return Info{}, registryError(id, err)
		}
		return described, nil
	}
	registered, value, err := e.newRegistryValue(&o.Metadata, spec, follow)
	if err != nil {
		return Info{}, err
	}
	handle, err := e.o.Store.Create(ctx, id, value)
	if err != nil {
		return Info{}, registryError(id, err)
	}
	m, err := e.hostNew(id, spec, handle, registered, recovery.Recovered{Machine: learner})
	if err != nil {
		return Info{}, err
	}
	e.o.Log.Info("model created", zap.String("model", id), zap.String("learner", m.Learner()))
	return figures.Describe(m.Model)
}

func describeSame(existing *hostedModel, spec model.Spec, leader *hostedModel) (Info, error) {
	f := existing.Registered().Follow
	if (f == nil) != (leader == nil) || (f != nil && f.Leader != leader.Ref()) {
		follows := ""
		if f != nil {
			follows = f.Leader.ID
		}
		return Info{}, fmt.Errorf("model %q: %w: it follows %q", existing.ID(), ErrModelExists, follows)
	}
	if differ := existing.Spec().Differences(spec); len(differ) > 0 {
		for _, d := range differ {
			d.Err, d.Want = ErrModelExists, fmt.Sprintf("%s, as the existing model %q has", d.Want, existing.ID())
		}
		return Info{}, differ.Err()
	}
	return figures.Describe(existing.Model)
}

func (e *Engine) hostNew(id string, spec model.Spec, handle storage.Model, registered *record.RegistryValue, r recovery.Recovered) (*hostedModel, error) {
	m := e.newHosted(id, recovery.Source{Handle: handle, Spec: &spec, Learners: e.env.Learners}, registered)
	m.Touch(hosted.TimeOf(registered.Created))
	m.Publish(r, 0)
	return m, e.host(m)
}

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

// admitNew returns the machine of a new model, and reserves its memory until release. A machine that has to wait
// for memory is given up, and made again when the memory is reserved: no call holds a slot or a state while it waits.
func (e *Engine) admitNew(ctx context.Context, id string, spec model.Spec) (m *machine.Machine, release func(), err error) {
	if m, err = e.makeMachine(ctx, id, spec); err != nil {
		return nil, nil, err
	}
	bytes := int64(m.Size()) + hosted.InstanceBytes
	if release = e.env.Memory.TryReserve(bytes); release != nil {
		return m, release, nil
	}
	if release, err = e.env.Memory.Reserve(ctx, bytes); err != nil {
		return nil, nil, err
	}
	if m, err = e.makeMachine(ctx, id, spec); err != nil {
		release()
		return nil, nil, err
	}
	return m, release, nil
}

// makeMachine makes the machine of a new model. Few machines are made at once, and none while as many models are
// loaded.
func (e *Engine) makeMachine(ctx context.Context, id string, spec model.Spec) (*machine.Machine, error) {
	if err := e.env.Loading.Take(ctx, "other models to be loaded"); err != nil {
		return nil, err
	}
	defer e.env.Loading.Free()
	m, err := machine.New(spec, e.env.Learners)
	if err != nil {
		return nil, fmt.Errorf("engine: model %q: %w", id, err)
	}
	return m, nil
}

// claimNew claims the names of a new model and of its leader. The leader is nil if none is named.
func (e *Engine) claimNew(ctx context.Context, id, follows string) (leader *hostedModel, release func(), err error) {
	if follows == "" {
		release, err = e.table.claim(ctx, id)
		return nil, release, err
	}
	if leader, err = e.find(ctx, follows); err == nil && leader.ID() == id {
		err = hosted.Invalid("follows", "the model itself", "another model")
	}
	if err != nil {
		return nil, nil, err
	}
	if release, err = e.table.claimAll(ctx, id, leader.ID()); err != nil {
		return nil, nil, err
	}
	if leader, err = e.findID(leader.ID()); err != nil {
		release()
		return nil, nil, err
	}
	return leader, release, nil
}

// existing returns the model of a claimed name, nil if there is none. It rejects the name of a soft-deleted
// model and of an alias.
func (e *Engine) existing(id string) (*hostedModel, error) {
	m, err := e.lookUp(id)
	if errors.Is(err, ErrModelNotFound) {
		if b := e.aliases.Find(id); b != nil {
			return nil, fmt.Errorf("model %q: %w, and names model %q; DeleteAlias frees it", id, ErrAliasExists, b.Model.ID)
		}
		return nil, nil
	}
	if err == nil && m.Deleted() {
		return nil, fmt.Errorf("model %q: %w; UndeleteModel brings it back until %s, DeleteModel with purge frees its id", id, ErrModelDeleted, purgeTime(m))
	}
	return m, err
}

func (e *Engine) newRegistryValue(m *Metadata, spec model.Spec, follow *record.Follow) (*record.RegistryValue, []byte, error) {
	now := e.table.distinct(e.o.Now().UnixNano())
	registered := &record.RegistryValue{Created: now, Updated: now, Metadata: m.Clone(), Follow: follow}
	value, err := hosted.EncodeRegistryValue(registered, spec)
	return registered, value, err
}

// errStored: the store has the model, but the table does not.
var errStored = fmt.Errorf("%w", ErrModelExists)

func registryError(id string, err error) error {
	if errors.Is(err, storage.ErrExists) {
		return fmt.Errorf("model %q: %w", id, errStored)
	}
	return fmt.Errorf("engine: register model %q: %w", id, recovery.StorageError(err))
}

// ValidateSpec fills in a spec's defaults and estimates what the model would cost.
func ValidateSpec(spec model.Spec) (model.Spec, model.Cost, error) { return catalog.Complete(spec) }
