// Package engine hosts the models: a registry, one writer a model, the ids
// that make an observation learned exactly once, predictions that wait for
// their labels, snapshots and recovery.
//
// An observation is appended to the log, made durable, then learned, then
// answered. The log is the one truth: the learner's state and the remembered
// ids are both derived from it, and recovery derives them again from the
// records after the newest snapshot. A snapshot is therefore written only
// after everything derived from the records before it is durable.
//
// A model is recovered when it is first used, and its state may leave memory
// again while it is idle: what is not in memory is recovered in the same way.
package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/codec"
	"hindsight/internal/store"
)

// Timings takes the durations of a model's calls, in seconds.
type Timings interface {
	Predict(seconds float64)
	Observe(seconds float64)
}

// Options of an engine. Every field is required unless it says otherwise.
type Options struct {
	// Store outlives the engine.
	Store *store.Store
	// Now is the clock.
	Now func() time.Time
	Log *zap.Logger
	// NewID mints prediction ids.
	NewID func() (string, error)
	// Timings gives the instruments of a model; ForgetTimings is called when
	// the model is deleted.
	Timings       func(model, learner string) Timings
	ForgetTimings func(model, learner string)
	// Durability is reported in the statistics: sync or async.
	Durability string
	// SnapshotObservations and SnapshotInterval say when a snapshot is due;
	// SnapshotsKept how many stay.
	SnapshotObservations uint64
	SnapshotInterval     time.Duration
	SnapshotsKept        int
	// IDWindow is how long ids are remembered, while at least IDWindowMin
	// over all models are.
	IDWindow    time.Duration
	IDWindowMin int
	// LabelTTL is how long a prediction waits for its label unless the call
	// says otherwise.
	LabelTTL time.Duration
	// Queue bounds the observations that wait for a model's writer,
	// PendingLimit the predictions of a model that wait for their labels,
	// PendingTotalLimit those of all models.
	Queue                           int
	PendingLimit, PendingTotalLimit int64
	// ModelLimit bounds the models.
	ModelLimit int
	// ModelMemory is what the states in memory may take, in bytes; 0 is
	// without a limit. Models that are idle leave it when it is exceeded.
	ModelMemory int64
	// OnSnapshot is told every snapshot once it is on disk. It must not block,
	// and may be nil.
	OnSnapshot func(model string, created time.Time, sequence uint64, data []byte)
	// Sweep is how often due snapshots, expired predictions and old ids are
	// looked for.
	Sweep time.Duration
}

// Engine hosts models. Its methods may be called by any number of goroutines
// at once.
type Engine struct {
	o Options
	// creating serialises CreateModel and DeleteModel. It is taken before mu.
	creating sync.Mutex
	mu       struct {
		sync.RWMutex
		models map[string]*instance
		closed bool
	}
	snapshots snapshotter
	writers   sync.WaitGroup
	stop      chan struct{}
	sweeper   sync.WaitGroup

	// lifetime ends with Close. Loads are recoveries on their way, of which
	// loading bounds those at work.
	lifetime context.Context //nolint:containedctx // It is that of the engine's own goroutines.
	end      context.CancelFunc
	loads    sync.WaitGroup
	loading  chan struct{}
	// pending counts the predictions that wait, resident the bytes of the
	// states in memory; pressure asks the sweeper to let some go.
	pending, resident atomic.Int64
	pressure          chan struct{}
	figures
}

// figures count what happened since the start.
type figures struct {
	wakes, wakeNanoseconds, hibernations atomic.Int64
	badSnapshots, unrecovered            atomic.Int64
}

// loadsAtOnce bounds the recoveries at work, each of which holds a snapshot.
const loadsAtOnce = 8

// Open reads the registry and starts the engine. A model is recovered when it
// is first used; the first ones are recovered in the background at once.
func Open(ctx context.Context, o Options) (*Engine, error) {
	e := &Engine{
		o: o, stop: make(chan struct{}),
		loading: make(chan struct{}, loadsAtOnce), pressure: make(chan struct{}, 1),
	}
	e.lifetime, e.end = context.WithCancel(context.Background())
	e.mu.models = map[string]*instance{}
	var found []*instance
	err := o.Store.Models(func(name string, number store.Model, entry []byte) error {
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted: %w", context.Cause(ctx))
		}
		i, err := e.decodeInstance(name, number, entry)
		found = append(found, i)
		return err
	})
	if err != nil {
		e.end()
		return nil, fmt.Errorf("engine: read the registry: %w", err)
	}
	waiting, err := o.Store.CountPending()
	if err != nil {
		e.end()
		return nil, fmt.Errorf("engine: count the predictions that wait: %w", err)
	}
	for _, i := range found {
		e.mu.models[i.id] = i
		i.timings = o.Timings(i.id, i.spec.Name())
		i.addPending(int64(waiting[i.number]))
	}
	e.snapshots.start(e)
	e.sweeper.Add(1)
	go e.sweep()
	e.loads.Add(1)
	go func() {
		defer e.loads.Done()
		e.prefetch(found)
	}()
	return e, nil
}

// closing is how long Close begins snapshots for. What is not in one is
// replayed from the log when it is needed.
const closing = 5 * time.Second

// Close stops taking observations, waits for those accepted, writes snapshots
// of the models that changed since their last, those with the most to replay
// first, and joins every goroutine of the engine. The store stays open.
func (e *Engine) Close() error {
	e.mu.Lock()
	if e.mu.closed {
		e.mu.Unlock()
		return nil
	}
	e.mu.closed = true
	e.mu.Unlock()
	models := e.instances()
	close(e.stop)
	e.sweeper.Wait()
	for _, i := range models {
		i.shut(ErrClosed)
	}
	e.writers.Wait()
	e.end()
	e.loads.Wait()
	e.snapshots.close()
	return e.snapshotAll(models)
}

// snapshotAll writes the snapshots of a shutdown.
func (e *Engine) snapshotAll(models []*instance) error {
	models = slices.DeleteFunc(models, func(i *instance) bool { return !i.changed() })
	if len(models) == 0 {
		return nil
	}
	slices.SortFunc(models, func(a, b *instance) int { return cmp.Compare(b.ahead(), a.ahead()) })
	if err := e.o.Store.Sync(); err != nil {
		return fmt.Errorf("engine: sync before the last snapshots: %w", err)
	}
	deadline := e.o.Now().Add(closing)
	var failures []error
	left := 0
	for _, i := range models {
		if e.o.Now().After(deadline) {
			left++
			continue
		}
		if err := i.snapshotNow(); err != nil {
			failures = append(failures, fmt.Errorf("engine: snapshot of model %q: %w", i.id, err))
		}
	}
	if left > 0 {
		e.o.Log.Info("models without a last snapshot: their logs will be replayed", zap.Int("models", left))
	}
	return errors.Join(failures...)
}

func (e *Engine) instances() []*instance {
	e.mu.RLock()
	defer e.mu.RUnlock()
	models := make([]*instance, 0, len(e.mu.models))
	for _, i := range e.mu.models {
		models = append(models, i)
	}
	return models
}

var idPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// CheckID accepts a model id: [a-z0-9]([a-z0-9._-]{0,62}).
func CheckID(id string) error {
	if idPattern.MatchString(id) {
		return nil
	}
	return &model.FieldError{
		Field: "id", Got: fmt.Sprintf("%q", id), Err: ErrInvalidID,
		Want: "1 to 63 of a-z, 0-9, '.', '_' and '-', the first a letter or digit",
	}
}

// Info is what a model is.
type Info struct {
	ID       string
	Learner  string
	Spec     model.Spec
	Created  time.Time
	Sequence uint64
}

// CreateModel starts a model. The same id and spec again answer the model
// that is there; another spec is ErrModelExists.
func (e *Engine) CreateModel(_ context.Context, id string, spec model.Spec) (Info, error) {
	if err := CheckID(id); err != nil {
		return Info{}, err
	}
	spec, cost, err := catalog.Complete(spec)
	if err != nil {
		return Info{}, err //nolint:wrapcheck // The catalogue's errors are the answer.
	}
	e.creating.Lock()
	defer e.creating.Unlock()
	if there, err := e.find(id); err == nil {
		if !reflect.DeepEqual(there.spec, spec) {
			return Info{}, fmt.Errorf("model %q: %w", id, ErrModelExists)
		}
		return there.info()
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
	learner, err := catalog.New(spec)
	if err != nil {
		return Info{}, fmt.Errorf("engine: %w", err)
	}
	created := e.o.Now()
	number, err := e.o.Store.CreateModel(id, encodeEntry(created.UnixNano(), encoded))
	if err != nil {
		return Info{}, fmt.Errorf("engine: register model %q: %w: %w", id, ErrStorage, err)
	}
	i := newInstance(e, id, number, spec, created)
	i.mu.learner, i.mu.loaded = learner, true
	if err := e.host(i); err != nil {
		return Info{}, err
	}
	e.o.Log.Info("model created", zap.String("model", id), zap.String("learner", spec.Name()))
	return i.info()
}

// host takes a new model in.
func (e *Engine) host(i *instance) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.closed {
		return ErrClosed
	}
	e.mu.models[i.id] = i
	i.timings = e.o.Timings(i.id, i.spec.Name())
	i.used.Store(i.created.UnixNano())
	i.measure()
	e.relieve()
	return nil
}

// admit refuses a model for which there is no room.
func (e *Engine) admit(bytes uint64) error {
	e.mu.RLock()
	models := len(e.mu.models)
	e.mu.RUnlock()
	if models >= e.o.ModelLimit {
		return fmt.Errorf("%w: there are %d", ErrModelLimit, models)
	}
	if e.o.ModelMemory > 0 && bytes > uint64(e.o.ModelMemory) {
		return &model.FieldError{
			Field: "spec", Err: model.ErrSpecTooLarge,
			Got:  fmt.Sprintf("a state of up to %d bytes", bytes),
			Want: fmt.Sprintf("at most %d, what the states of all models may take in memory", e.o.ModelMemory),
		}
	}
	return nil
}

// DeleteModel removes a model, after the observations already accepted.
func (e *Engine) DeleteModel(_ context.Context, id string) error {
	e.creating.Lock()
	defer e.creating.Unlock()
	i, err := e.find(id)
	if err != nil {
		return err
	}
	i.shut(notFound(id))
	i.settle()
	i.retire(notFound(id))
	if err := e.o.Store.DeleteModel(id); err != nil {
		return fmt.Errorf("engine: delete model %q: %w: %w", id, ErrStorage, err)
	}
	e.mu.Lock()
	delete(e.mu.models, id)
	e.mu.Unlock()
	e.o.ForgetTimings(id, i.spec.Name())
	e.o.Log.Info("model deleted", zap.String("model", id))
	return nil
}

// GetModel tells what a model is.
func (e *Engine) GetModel(id string) (Info, error) {
	i, err := e.find(id)
	if err != nil {
		return Info{}, err
	}
	return i.info()
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
	return catalog.Complete(spec) //nolint:wrapcheck // The catalogue's errors are the answer.
}

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

func notFound(id string) error { return fmt.Errorf("model %q: %w", id, ErrModelNotFound) }

// sweep looks, every so often, for due snapshots, expired predictions and ids
// older than the window.
func (e *Engine) sweep() {
	defer e.sweeper.Done()
	ticker := time.NewTicker(e.o.Sweep)
	defer ticker.Stop()
	last := e.o.Now()
	for {
		select {
		case <-e.stop:
			return
		case <-e.pressure:
			e.hibernateIdle()
			continue
		case <-ticker.C:
		}
		now := e.o.Now()
		models := map[store.Model]*instance{}
		for _, i := range e.instances() {
			models[i.number] = i
			i.snapshotIfDue(now)
		}
		e.settleMemory(last)
		last = now
		if err := e.expire(now, models); err != nil {
			e.o.Log.Error("sweep failed", zap.Error(err))
		}
	}
}

// sweepLimit bounds the work of one store call of a sweep.
const sweepLimit = 10_000

func (e *Engine) expire(now time.Time, models map[store.Model]*instance) error {
	for {
		n, err := e.o.Store.ExpirePending(now, sweepLimit, func(m store.Model, _ string) {
			if i := models[m]; i != nil {
				i.addPending(-1)
				i.expired.Add(1)
			}
		})
		if err != nil {
			return fmt.Errorf("engine: expire predictions: %w", err)
		}
		if n < sweepLimit {
			break
		}
	}
	for {
		n, err := e.o.Store.ForgetSeen(now.Add(-e.o.IDWindow), e.o.IDWindowMin, sweepLimit)
		if err != nil {
			return fmt.Errorf("engine: forget old ids: %w", err)
		}
		if n < sweepLimit {
			return nil
		}
	}
}
