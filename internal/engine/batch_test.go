package engine_test

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"hindsight/internal/engine"
	"hindsight/internal/engine/storage"
)

// A rejected call leaves nothing in its batch: a later call of the batch learns the same id.
func TestARejectedCallLeavesItsBatch(t *testing.T) {
	h, f := startFaulty(t, files{newFS()}, newClock())
	h.create(t, "m", linear(1))
	submit := func(observations ...engine.Observation) *engine.Ticket {
		t.Helper()
		return must(h.Submit(t.Context(), "m", observations))(t)
	}
	row := func(id string) engine.Observation {
		return engine.Observation{ObservationID: id, Features: []float64{1}, Labels: []float64{2}, Weight: 1}
	}
	f.appends.next.Store(appendWaits)
	first := submit(row("first"))
	waitFor(t, h, func() bool { return f.appends.next.Load() == appendWell }) // It has its turn.
	unknown := engine.Observation{PredictionID: "unknown", Labels: []float64{2}, Weight: 1}
	rejected, later := submit(row("a"), unknown), submit(row("a"), row("b"))
	close(f.goOn)
	if _, err := first.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	var at *engine.RowError
	if _, err := rejected.Wait(t.Context()); !errors.As(err, &at) || at.Row != 1 || !errors.Is(err, engine.ErrPredictionNotFound) {
		t.Errorf("a call with an unknown prediction: %v", err)
	}
	answers, err := later.Wait(t.Context())
	assert.True(t, err == nil && answers[0].Sequence == 2 && !answers[0].Duplicate && answers[1].Sequence == 3, "the call behind it: %+v, %v", answers, err)
}

// syncing is a store whose next sync waits until goOn, after it has closed begun.
type syncing struct {
	storage.Store
	armed       *atomic.Bool
	begun, goOn chan struct{}
}

func (s syncing) Sync(ctx context.Context) error {
	if s.armed.CompareAndSwap(true, false) {
		close(s.begun)
		<-s.goOn
	}
	return s.Store.Sync(ctx)
}

// A state that was captured before a restore is not written after it.
func TestNoSnapshotOfAnUndoneState(t *testing.T) {
	s := syncing{armed: new(atomic.Bool), begun: make(chan struct{}), goOn: make(chan struct{})}
	h := start(t, wrapped{files{newFS()}, func(of storage.Store) storage.Store { s.Store = of; return s }}, newClock())
	h.create(t, "m", linear(1))
	h.observe(t, "m", one("a", 1)...)
	h.observe(t, "m", one("b", 1)...)
	s.armed.Store(true)
	written := make(chan engine.Snapshot, 1)
	go func() {
		snapshot, err := h.SnapshotModel(context.Background(), "m")
		assert.NoError(t, err)
		written <- snapshot
	}()
	<-s.begun
	if _, err := h.RestoreModel(t.Context(), "m", 1); err != nil {
		t.Error(err)
	}
	close(s.goOn)
	got := <-written
	assert.EqualValues(t, 1, got.Sequence)
	kept, err := h.ListSnapshots(t.Context(), "m")
	assert.True(t, err == nil && len(kept) == 1 && kept[0].Sequence == 1, "kept are %+v, %v", kept, err)
}

// While a snapshot waits to be written, its model hands over no other one.
func TestOneSnapshotOfAModelAtATime(t *testing.T) {
	h, f := startFaulty(t, files{newFS()}, newClock(), after(10))
	h.create(t, "m", linear(1))
	f.snapshotWaits.Store(true)
	n := 0
	observe := func() {
		h.observe(t, "m", one(strconv.Itoa(n), 1)...)
		n++
	}
	snapshots := func() (sequences []uint64) {
		for _, s := range must(h.ListSnapshots(t.Context(), "m"))(t) {
			sequences = append(sequences, s.Sequence)
		}
		return sequences
	}
	for n < 10 {
		observe()
	}
	<-f.writing
	for n < 15 {
		observe()
	}
	close(f.goOn)
	waitFor(t, h, func() bool { return len(snapshots()) > 0 })
	waitFor(t, h, func() bool {
		observe() // The writer may have just written the first snapshot.
		return len(snapshots()) > 1
	})
	got := snapshots()
	assert.True(t, got[1] == 10 && got[0] >= 20, "snapshots of sequences %v, want one of 10 and one of 20 or later", got)
}
