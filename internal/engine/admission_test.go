package engine_test

import (
	"context"
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
	_, err := h.Predict(ctx, "other", vectors(x), engine.PredictOptions{})
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.LessOrEqual(t, h.Totals().ResidentBytes, int64(1<<20))
	close(f.goOn)
	_, err = ticket.Wait(t.Context())
	assert.NoError(t, err)
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
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	for n := range large {
		waiting.Go(func() {
			_, err := h.Predict(ctx, fmt.Sprint("large", n), vectors(x), engine.PredictOptions{})
			assert.ErrorIs(t, err, context.Canceled)
		})
	}
	for range 20 {
		h.Hibernate("small") // The engine itself may have done it.
		fits, done := context.WithTimeout(t.Context(), 5*time.Second)
		_, err := h.Predict(fits, "small", vectors(x[:2]), engine.PredictOptions{})
		assert.NoError(t, err)
		done()
	}
	cancel()
	waiting.Wait()
	release()
}
