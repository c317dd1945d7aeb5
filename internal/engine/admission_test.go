package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine"
	"hindsight/internal/engine/machine"
	"hindsight/internal/engine/record"
	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
)

// While more models are used at once than fit, the states in memory take no more than they
// may.
func TestLoadsWaitForMemory(t *testing.T) {
	const models, wide, calls = 12, 60, 40
	d, c := newDisk(), newClock()
	whole := start(t, d, c)
	for m := range models {
		whole.create(t, fmt.Sprint("m-", m), linear(wide))
	}
	size := whole.Totals().ResidentBytes / models
	whole.stop(t)
	limit := 3*size + size/2
	h := start(t, d, c, func(o *engine.Options) { o.ModelMemory = limit; after(4)(o) })
	var most atomic.Int64
	ctx, cancel := context.WithCancel(context.Background())
	var sampling, clients sync.WaitGroup
	sampling.Go(func() {
		for ctx.Err() == nil {
			if now := h.Totals().ResidentBytes; now > most.Load() {
				most.Store(now)
			}
		}
	})
	for client := range 6 {
		clients.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(client), 6))
			x := make([]float64, wide)
			for range calls {
				id := fmt.Sprint("m-", rng.IntN(models))
				x[rng.IntN(wide)] = rng.NormFloat64()
				var err error
				switch rng.IntN(4) {
				case 0:
					_, err = h.SnapshotModel(ctx, id)
				case 1:
					_, err = h.ModelStats(ctx, id, engine.StatsOptions{})
				case 2:
					_, err = h.ExportModel(ctx, id, engine.ExportOptions{})
				default:
					_, err = h.Observe(ctx, id, []engine.Observation{{Features: x, Labels: []float64{1}, Weight: 1}})
				}
				assert.NoError(t, err, id)
			}
		})
	}
	clients.Wait()
	cancel()
	sampling.Wait()
	assert.LessOrEqual(t, most.Load(), limit)
	assert.GreaterOrEqual(t, h.Totals().Wakes.Load(), int64(models))
}

// A deleted leader that is loaded for a comparison leaves memory when that is needed, and
// the one that comes back in its place does not leave its bytes behind.
func TestTheMemoryOfADeletedLeader(t *testing.T) {
	h := startOn(t, newFS(), newClock(), func(o *engine.Options) { o.DeletedKept, o.ModelMemory = time.Hour, 1<<20 })
	h.create(t, "leader", linear(2))
	h.shadow(t, "shadow", "leader", linear(2))
	h.feed(t, 0, 3)
	for range 3 {
		require.NoError(t, h.DeleteModel(t.Context(), "leader"))
		h.caughtUp(t, "shadow") // It loads the leader.
		must(h.UndeleteModel(t.Context(), "leader"))(t)
	}
	for _, id := range []string{"leader", "shadow"} {
		must(h.Engine.DeleteModel(t.Context(), id, engine.DeleteOptions{Purge: true}))(t)
	}
	assert.EqualValues(t, 0, h.Totals().ResidentBytes)

	h.create(t, "leader", linear(300)) // 0.4 MB.
	h.shadow(t, "shadow", "leader", linear(300))
	h.create(t, "other", linear(300))
	require.NoError(t, h.DeleteModel(t.Context(), "leader"))
	for range 3 {
		h.caughtUp(t, "shadow")
		h.predict(t, "other", make([]float64, 300)...)
		assert.LessOrEqual(t, h.Totals().ResidentBytes, int64(1<<20))
	}
}

// A state does not enter memory beside one that cannot leave it, and does when that can.
func TestALoadThatFindsNoMemory(t *testing.T) {
	fs := newFS()
	h, f := startFaulty(t, files{fs}, newClock(), func(o *engine.Options) { o.ModelMemory = 1 << 20; after(1)(o) })
	h.create(t, "held", linear(400)) // 0.6 MB.
	h.create(t, "other", linear(400))
	x := make([]float64, 400)
	h.observe(t, "held", engine.Observation{Features: x, Labels: []float64{1}})
	f.appends.next.Store(appendWaits)
	ticket := must(h.Submit(t.Context(), "held", []engine.Observation{{Features: x, Labels: []float64{1}, Weight: 1}}))(t)
	waitFor(t, h, func() bool { return f.appends.next.Load() == appendWell }) // It has its turn.
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	assert.ErrorIs(t, errOf(h.Predict(ctx, "other", vectors(x), engine.PredictOptions{})), context.DeadlineExceeded)
	assert.LessOrEqual(t, h.Totals().ResidentBytes, int64(1<<20))
	close(f.goOn)
	assert.NoError(t, errOf(ticket.Wait(t.Context())))
	h.predict(t, "other", x...)
}

// Models that wait for memory hold back no load that fits.
func TestALoadThatFitsWaitsForNone(t *testing.T) {
	h := startOn(t, newFS(), newClock(), func(o *engine.Options) { o.ModelMemory = 1 << 20 })
	large := runtime.GOMAXPROCS(0) + 2
	x := make([]float64, 400)
	for n := range large {
		h.create(t, fmt.Sprint("large", n), linear(400)) // 0.6 MB.
	}
	h.create(t, "small", linear(2))
	h.create(t, "held", linear(400))
	h.predict(t, "held", x...)
	release := h.Hold("held")
	for !h.Resident("held") { // The engine still made room for the models before.
		release()
		h.predict(t, "held", x...)
		release = h.Hold("held")
	}
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	for n := range large {
		waiting.Go(func() {
			assert.ErrorIs(t, errOf(h.Predict(ctx, fmt.Sprint("large", n), vectors(x), engine.PredictOptions{})), context.Canceled)
		})
	}
	for range 20 {
		h.Hibernate("small") // The engine itself may have done it.
		fits, done := context.WithTimeout(t.Context(), patience)
		assert.NoError(t, errOf(h.Predict(fits, "small", vectors(x[:2]), engine.PredictOptions{})))
		done()
	}
	cancel()
	waiting.Wait()
	release()
}

// flooded are specs whose kernel at 0, offset^degree, is more than 1e12 λ.
func flooded() map[string]model.Spec {
	kernel := &model.Kernel{Kind: "polynomial", Offset: ptr(1e4), Degree: ptr(4)}
	return map[string]model.Spec{
		"kernel_awv":    {Dimension: 1, Scaling: model.Unscaled(), KernelAWV: &model.KernelAWV{Kernel: kernel}},
		"pkawv_nystrom": {Dimension: 1, Scaling: model.Unscaled(), PKAWVNystrom: &model.PKAWVNystrom{Kernel: kernel}},
		"scaled":        {Dimension: 1, PKAWVNystrom: &model.PKAWVNystrom{Kernel: kernel}},
	}
}

// A polynomial kernel that leaves the ridge to rounding is rejected to new models.
// Its learner panicked or served NaN.
func TestAFloodedRidgeIsRejected(t *testing.T) {
	h := start(t, files{newFS()}, newClock())
	for name, spec := range flooded() {
		var field *model.FieldError
		_, _, err := engine.ValidateSpec(spec)
		assert.True(t, errors.Is(err, model.ErrInvalidSpec) && errors.As(err, &field) && field.Field == "spec."+spec.Name()+".kernel.offset", "%s: ValidateSpec says %v", name, err)
		assert.ErrorIs(t, errOf(h.CreateModel(context.Background(), "m", spec)), model.ErrInvalidSpec, "%s: CreateModel says", name)
	}
	fits := model.Spec{Dimension: 1, KernelAWV: &model.KernelAWV{Lambda: ptr(1.0), Kernel: &model.Kernel{Kind: "polynomial", Offset: ptr(1e3), Degree: ptr(4)}}}
	_, _, err := engine.ValidateSpec(fits)
	assert.NoError(t, err)
}

// kernel_awv with weight k(x,x) > 1e12 λ lost its ridge in the rounding, and
// served NaN some rounds later. A new observation of that weight is rejected. A
// log that holds one is learned as it was.
func TestAWeightThatFloodsTheRidgeIsRejected(t *testing.T) {
	unscaled := model.Spec{Dimension: 2, Scaling: model.Unscaled(), KernelAWV: &model.KernelAWV{Lambda: ptr(1e-6)}}
	scaled := model.Spec{Dimension: 2, KernelAWV: &model.KernelAWV{Lambda: ptr(1e-6)}}
	linear := model.Spec{Dimension: 2, Scaling: model.Unscaled(), KernelAWV: &model.KernelAWV{Lambda: ptr(1e-6), Kernel: &model.Kernel{Kind: "linear"}}}
	h := start(t, files{newFS()}, newClock())
	for name, c := range map[string]struct {
		spec     model.Spec
		x        float64
		weight   float64
		accepted bool
	}{
		"unscaled-at-the-limit": {unscaled, 1, 1e6, true}, "unscaled-above": {unscaled, 1, 1.01e6, false},
		"scaled-at-the-limit": {scaled, 1, 1e6, true}, "scaled-above": {scaled, 1, 1e9, false},
		"linear-at-the-limit": {linear, 10, 5e3, true}, "linear-above": {linear, 10, 5.1e3, false}, "linear-at-0": {linear, 0, 1e9, true},
	} {
		h.create(t, name, c.spec)
		o := engine.Observation{Features: []float64{c.x, -c.x}, Labels: []float64{1}, Weight: c.weight}
		_, err := h.Observe(context.Background(), name, []engine.Observation{o})
		assert.True(t, (err == nil) == c.accepted && (err == nil || errors.Is(err, model.ErrWeightOutOfRange)), "%s: %v", name, err)
		spec, _, err := catalog.Complete(c.spec)
		require.NoError(t, err)
		m := must(machine.New(spec, catalog.New))(t)
		r := record.Record{Observations: []record.Observation{{Features: o.Features, Labels: o.Labels, Weight: o.Weight}}}
		assert.NoError(t, m.Apply(&r, make([]record.Answer, 1), nil), name)
	}
}
