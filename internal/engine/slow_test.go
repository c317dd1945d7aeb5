package engine_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/assert"

	"hindsight/internal/engine"
)

// On a disk that stands still, predictions are answered, callers leave at their
// deadlines, the queue rejects what is beyond it, and what was taken is learned
// once the disk goes on: sent again it is a duplicate.
func TestDiskThatStandsStill(t *testing.T) {
	var still atomic.Bool
	goOn := make(chan struct{})
	fs := errorfs.Wrap(newFS(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
			if still.Load() {
				<-goOn
			}
		default:
		}
		return nil
	}))
	h := startOn(t, fs, newClock(), func(o *engine.Options) { o.Queue = 16 })
	h.create(t, "m", linear(1))
	row := func(n int) []engine.Observation {
		return []engine.Observation{{Features: []float64{float64(n)}, Labels: []float64{1}, Weight: 1, ObservationID: strconv.Itoa(n)}}
	}
	must(h.Observe(t.Context(), "m", row(0)))(t)
	still.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var group sync.WaitGroup
	var late, turnedAway atomic.Int64
	taken := make([]atomic.Bool, 100)
	for n := 1; n < len(taken); n++ {
		group.Go(func() {
			switch _, err := h.Observe(ctx, "m", row(n)); {
			case errors.Is(err, context.DeadlineExceeded):
				late.Add(1)
				taken[n].Store(true)
			case errors.Is(err, engine.ErrOverloaded):
				turnedAway.Add(1)
			default:
				t.Errorf("observation %d: %v", n, err)
			}
		})
	}
	group.Wait() // All leave, while the disk stands still.
	p, err := h.Predict(t.Context(), "m", vectors([]float64{1}), engine.PredictOptions{})
	assert.True(t, err == nil && p[0].Sequence == 1, "predict: %+v, %v", p, err)
	still.Store(false)
	close(goOn)
	// The queue holds 16; what the writer had taken from it waits for the disk.
	if late.Load() < 16 || late.Load() > 32 || late.Load()+turnedAway.Load() != 99 {
		t.Errorf("%d were late, %d turned away", late.Load(), turnedAway.Load())
	}
	for n := 1; n < len(taken); n++ {
		answers, err := h.Observe(t.Context(), "m", row(n))
		for ; errors.Is(err, engine.ErrOverloaded); answers, err = h.Observe(t.Context(), "m", row(n)) {
			time.Sleep(time.Millisecond) // The queue is still full.
		}
		if err != nil || answers[0].Duplicate != taken[n].Load() {
			t.Errorf("observation %d again: %+v, %v; it was taken: %v", n, answers, err, taken[n].Load())
		}
	}
	assert.EqualValues(t, 100, h.stats(t, "m").Observations, "observations learned")
}
