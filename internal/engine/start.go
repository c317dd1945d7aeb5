package engine

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"go.uber.org/zap"

	"hindsight/internal/engine/alias"
	"hindsight/internal/engine/figures"
	"hindsight/internal/engine/hosted"
	"hindsight/internal/engine/machine"
	"hindsight/internal/engine/recovery"
	"hindsight/internal/engine/replica"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model/catalog"
)

const (
	// The first prefetched models are loaded at the start: as many as have series of their own by default.
	prefetched = 1000
	// Close begins snapshots for as long as closing. The log has what is in no snapshot.
	closing = 5 * time.Second
)

// Open reads the registry and starts the engine. The first models are loaded in the background, each other
// one when it is first used. Open leaves out, and logs, a model whose entry cannot be decoded.
func Open(ctx context.Context, o Options) (*Engine, error) { return open(ctx, o, catalog.New) }

func open(ctx context.Context, o Options, learners machine.Learners) (*Engine, error) {
	lifetime, end := context.WithCancel(context.WithoutCancel(ctx)) // The engine outlives the call.
	loads := max(1, runtime.GOMAXPROCS(0)-1)                        // Of two processors or more, one stays free of recoveries.
	if o.Cold {
		loads = runtime.GOMAXPROCS(0) // No model answers on a new owner before its recovery.
	}
	env := hosted.NewEnv(lifetime, o.ModelOptions, learners, loads)
	e := &Engine{
		o: o, env: env, end: end, aliases: alias.NewTable(lifetime, o.Store, o.Log), followers: replica.NewSet(o.Log),
		reporter: figures.NewReporter(figures.Options{Now: o.Now, Log: o.Log, Durability: o.Durability, Learners: learners, Panicked: env.CountPanic}),
	}
	e.table.init(o.ModelLimit)
	e.changes.wake = make(chan struct{}, 1)
	if err := e.read(ctx); err != nil {
		end()
		return nil, err
	}
	models := e.table.live()
	e.writing.Go(env.WriteSnapshots)
	e.upkeep.Go(e.sweepAll)
	e.upkeep.Go(func() { e.every(o.Sweep, e.purgeOverdue) })
	e.upkeep.Go(e.reportAll)
	e.upkeep.Go(e.relieve)
	e.upkeep.Go(func() { e.prefetch(models) })
	e.upkeep.Go(e.followAll)
	if o.Owner != nil {
		e.upkeep.Go(e.takeOver)
	}
	if o.Compare != nil && o.Check > 0 {
		e.upkeep.Go(e.checkAll)
	}
	if o.Cold {
		e.upkeep.Go(env.WriteReceived)
	}
	return e, nil
}

func (e *Engine) read(ctx context.Context) error {
	err := e.o.Store.Models(ctx, func(registered storage.RegistryEntry) error {
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted: %w", context.Cause(ctx))
		}
		from, registryEntry, err := recovery.DecodeRegistryEntry(registered, e.env.Learners)
		if err != nil {
			e.registryDamaged.Store(true)
			e.o.Log.Error("a registry entry cannot be read; its model is not served", zap.String("model", registered.Name), zap.Error(err))
			return nil
		}
		m := e.newHosted(registered.Name, from, &registryEntry)
		switch sequence := registered.Rewinding; {
		case sequence != nil && e.o.Owner != nil:
			m.AwaitRewind()
		case sequence != nil && m.CompleteRestore(ctx, *sequence) == nil:
			e.o.Log.Info("a restore that was interrupted is complete", zap.String("model", m.ID()), zap.Uint64("sequence", *sequence))
		}
		return e.host(m)
	})
	if err != nil {
		return fmt.Errorf("engine: read the registry: %w", err)
	}
	return e.aliases.Sync(ctx, e.table.created, e.named)
}

// Close rejects observations, waits for those accepted, writes snapshots of the models that changed since
// their last one, those with the most to replay first, and joins every goroutine of the engine. The store
// stays open.
func (e *Engine) Close() error {
	if !e.table.close() {
		return nil
	}
	e.end() // Loads are given up.
	models := e.table.all()
	for _, m := range models {
		m.Close()
	}
	e.aliases.Close()
	e.upkeep.Wait()
	e.env.Join()
	e.writing.Wait()
	return e.lastSnapshots(models)
}

func (e *Engine) lastSnapshots(models []*hostedModel) error {
	models = slices.DeleteFunc(models, func(m *hostedModel) bool { return !m.Changed() })
	slices.SortFunc(models, func(a, b *hostedModel) int { return cmp.Compare(b.Replay(), a.Replay()) })
	deadline := e.o.Now().Add(closing)
	var first error
	left, failed := 0, 0
	for _, m := range models {
		if e.o.Now().After(deadline) {
			left++
		} else if err := m.LastSnapshot(); err != nil {
			first = cmp.Or(first, err)
			failed++
		}
	}
	if left > 0 {
		e.o.Log.Info("models without a last snapshot: their logs will be replayed", zap.Int("models", left))
	}
	if failed > 1 { // The others have the same disk and as a rule the same cause.
		return fmt.Errorf("%w; %d more models have no last snapshot either: their logs will be replayed", first, failed-1)
	}
	return first
}

// prefetch loads the first models, one after the other, until memory is half full. So their statistics are known, and
// the log names models that cannot be recovered.
func (e *Engine) prefetch(models []*hostedModel) {
	started := e.o.Now()
	defer e.start.StartDone.Store(true)
	first := models[:min(len(models), prefetched)]
	for _, m := range first {
		if e.env.Memory.HalfFull() || e.env.RestsCold() {
			break
		}
		switch err := m.Load(e.env.Lifetime); {
		case err == nil:
			e.start.Started.Add(1)
		case e.env.Lifetime.Err() != nil:
			return
		default:
			e.start.StartFailed.Add(1)
		}
	}
	e.o.Log.Info("models loaded", zap.Int64("loaded", e.start.Started.Load()), zap.Int64("not_recovered", e.start.StartFailed.Load()),
		zap.Int("models", len(models)), zap.Duration("took", e.o.Now().Sub(started)))
}
