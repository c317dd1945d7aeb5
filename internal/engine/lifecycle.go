package engine

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"go.uber.org/zap"

	"hindsight/internal/engine/machine"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model/catalog"
)

const (
	// After a start the first prefetched models are loaded before a caller asks:
	// as many as have series of their own by default.
	prefetched = 1000
	// Close begins snapshots for as long as closing. What is not in one is
	// replayed from the log when it is needed.
	closing = 5 * time.Second
)

// Open reads the registry and starts the engine. A model is recovered when it
// is first used; the first ones are recovered in the background at once. A
// model that cannot be read is left out, and told.
func Open(ctx context.Context, o Options) (*Engine, error) { return open(ctx, o, catalog.New) }

// open is Open with learners of any origin.
func open(ctx context.Context, o Options, learners machine.Learners) (*Engine, error) {
	if o.Stages == nil {
		o.Stages = noStages{}
	}
	// One processor stays free of recoveries, where there are two.
	loads := max(1, runtime.GOMAXPROCS(0)-1)
	e := &Engine{shared: shared{
		o: o, learners: learners, loading: make(chan struct{}, loads), copies: make(chan struct{}, copiesAtOnce),
		reporting: make(chan struct{}, copiesAtOnce), solving: make(chan struct{}, 1), snapshots: make(chan capture, copiesAtOnce), pressure: make(chan struct{}, 1),
		freed: make(chan struct{}, 1), copyBytes: newCopies(&o),
	}}
	e.appends = context.Background()
	e.lifetime, e.end = context.WithCancel(e.appends)
	e.mu.models, e.mu.byKept = map[string]*instance{}, map[storage.Model]*instance{}
	e.mu.claims, e.mu.aliases = map[string]chan struct{}{}, map[string]*alias{}
	e.aliasing = make(chan struct{}, 1)
	e.following.byID, e.wake = map[string]*instance{}, make(chan struct{}, 1)
	e.lists = make(chan struct{}, listsAtOnce)
	var found []*instance
	err := o.Store.Models(ctx, func(entry storage.Entry) error {
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted: %w", context.Cause(ctx))
		}
		i, err := e.instanceOf(entry)
		if err != nil {
			e.unread = true
			o.Log.Error("a registry entry cannot be read; its model is not served", zap.String("model", entry.Name), zap.Error(err))
			return nil
		}
		if entry.Rewinding != nil {
			e.completeRewind(ctx, i, *entry.Rewinding)
		}
		found = append(found, i)
		return nil
	})
	if err != nil {
		e.end()
		return nil, fmt.Errorf("engine: read the registry: %w", err)
	}
	for _, i := range found {
		if err := e.host(i); err != nil {
			e.end()
			return nil, err
		}
	}
	if err := e.loadAliases(ctx); err != nil {
		e.end()
		return nil, err
	}
	found = e.instances()
	e.writing.Go(e.writeSnapshots)
	e.upkeep.Go(e.sweep)
	e.upkeep.Go(e.relieve)
	e.upkeep.Go(e.report)
	e.upkeep.Go(e.purge)
	e.upkeep.Go(e.lead)
	e.upkeep.Go(func() { e.prefetch(found) })
	return e, nil
}

// completeRewind goes on with a restore that a crash interrupted. Nobody knows
// the model yet.
func (e *Engine) completeRewind(ctx context.Context, i *instance, sequence uint64) {
	i.rewinding = true
	i.paused.Store(true)
	if err := i.goBack(ctx, sequence, i.entry.Load()); err != nil {
		i.takeBroken(fmt.Errorf("complete a restore: %w", err))
		return
	}
	i.paused.Store(false)
	e.o.Log.Info("a restore that was interrupted is complete", zap.String("model", i.id), zap.Uint64("sequence", sequence))
}

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
	// What is being loaded is given up.
	e.end()
	models := e.all()
	for _, i := range models {
		i.box.Close(ErrClosed)
	}
	e.upkeep.Wait()
	e.turns.Wait()
	close(e.snapshots)
	e.writing.Wait()
	return e.snapshotAll(models)
}

// snapshotAll writes the snapshots of a shutdown. No job has its turn any more.
func (e *Engine) snapshotAll(models []*instance) error {
	models = slices.DeleteFunc(models, func(i *instance) bool { return !i.changed() })
	slices.SortFunc(models, func(a, b *instance) int { return cmp.Compare(b.replay.Load(), a.replay.Load()) })
	deadline := e.o.Now().Add(closing)
	var first error
	failed, left := 0, 0
	for _, i := range models {
		if e.o.Now().After(deadline) {
			left++
			continue
		}
		c, err := i.capture()
		if err == nil {
			err = c.write(e.appends)
		}
		if err != nil {
			if first == nil {
				first = err
			}
			failed++
		}
	}
	if left > 0 {
		e.o.Log.Info("models without a last snapshot: their logs will be replayed", zap.Int("models", left))
	}
	// The others have the same disk and as a rule the same cause.
	if failed > 1 {
		return fmt.Errorf("%w; %d more models have no last snapshot either: their logs will be replayed", first, failed-1)
	}
	return first
}

// prefetch loads the first models in the background, one after the other, as
// long as there is room, so that their statistics are there and what cannot be
// recovered is told soon.
func (e *Engine) prefetch(models []*instance) {
	started := e.o.Now()
	defer e.startDone.Store(true)
	first := models[:min(len(models), prefetched)]
	e.starting.Store(int64(len(first)))
	for _, i := range first {
		if e.o.ModelMemory > 0 && e.resident.Load() > e.o.ModelMemory/2 {
			break
		}
		switch err := i.lockLoaded(e.lifetime); {
		case err == nil:
			i.mu.RUnlock()
			e.started.Add(1)
		case e.lifetime.Err() != nil:
			return
		default:
			e.startFailed.Add(1)
		}
	}
	e.o.Log.Info("models loaded", zap.Int64("loaded", e.started.Load()), zap.Int64("not_recovered", e.startFailed.Load()),
		zap.Int("models", len(models)), zap.Duration("took", e.o.Now().Sub(started)))
}

// report solves in the background, one after the other, the reports that a
// scrape shows. After each it rests for as long as its share of a processor
// asks.
func (e *Engine) report() {
	if e.o.ReportCPU <= 0 {
		return
	}
	rest := time.NewTimer(e.o.Sweep)
	defer rest.Stop()
	for {
		select {
		case <-e.lifetime.Done():
			return
		case <-rest.C:
		}
		started := e.o.Now()
		pause := e.o.Sweep
		if e.solveUnasked(e.instances()) {
			took := e.o.Now().Sub(started)
			pause = max(time.Duration(float64(took)*(1/e.o.ReportCPU-1)), time.Millisecond)
		}
		rest.Reset(pause)
	}
}

// sweep looks, every so often, for due snapshots, expired predictions, old ids
// and idle models.
func (e *Engine) sweep() {
	ticker := time.NewTicker(e.o.Sweep)
	defer ticker.Stop()
	told := "" // The failure that the log has.
	for {
		select {
		case <-e.lifetime.Done():
			return
		case <-ticker.C:
		}
		now := e.o.Now()
		for _, i := range e.instances() {
			if i.intervalDue(now) {
				e.wantSnapshot(i)
			}
			if i.unremoved.Load() > 0 {
				i.box.TryDo(func() { _ = i.removeAnswered() }) // A failure is told by the next commit.
			}
		}
		e.wakeFollowers()
		e.press()
		// A disk that refuses writes refuses them at each sweep.
		failed := ""
		if err := e.expire(now); err != nil && e.lifetime.Err() == nil {
			if failed = err.Error(); failed != told {
				e.o.Log.Error("sweep failed: it is tried again, and told again if the cause changes", zap.Error(err))
			}
		}
		told = failed
	}
}

// expire drops predictions and ids that are too old.
func (e *Engine) expire(now time.Time) error {
	err := e.o.Store.Expire(e.lifetime, now, func(m storage.Model) {
		e.mu.RLock()
		defer e.mu.RUnlock()
		if i := e.mu.byKept[m]; i != nil {
			i.expired.Add(1)
		}
	})
	if err != nil {
		return fmt.Errorf("engine: expire predictions: %w", err)
	}
	if err := e.o.Store.Forget(e.lifetime, now.Add(-e.o.IDWindow), e.o.IDWindowMin); err != nil {
		return fmt.Errorf("engine: forget old ids: %w", err)
	}
	return nil
}

// wantSnapshot hands a copy of the state to the snapshotter at the model's turn,
// and does not wait for it.
func (e *Engine) wantSnapshot(i *instance) {
	i.box.TryDo(func() {
		if i.changed() {
			i.handOver()
		}
	})
}

// relieve lets models leave memory when that is asked for.
func (e *Engine) relieve() {
	for {
		select {
		case <-e.lifetime.Done():
			return
		case <-e.pressure:
			e.hibernateIdle()
		}
	}
}

// hibernateIdle lets go of the models that were not used for the longest, deleted ones
// among them, until the rest takes 9/10 of what it may and those that wait for memory fit.
func (e *Engine) hibernateIdle() {
	limit, wanted := e.o.ModelMemory, e.wanted.Load()
	if limit <= 0 || e.taken()+wanted <= limit {
		return
	}
	type idle struct {
		*instance
		used int64
	}
	var candidates []idle
	for _, i := range e.all() {
		if i.bytes.Load() > 0 {
			candidates = append(candidates, idle{i, i.used.Load()})
		}
	}
	slices.SortFunc(candidates, func(a, b idle) int { return cmp.Compare(a.used, b.used) })
	leaving := int64(0)
	for _, i := range candidates {
		if e.taken()-leaving <= limit-max(wanted, limit/10) {
			return
		}
		bytes := i.bytes.Load()
		switch _, wants, later := i.hibernate(); {
		case wants:
			e.wantSnapshot(i.instance)
		case later:
			leaving += bytes
		}
	}
}
