package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine"
	"hindsight/internal/model"
)

// shadow makes a model that follows another.
func (h *host) shadow(t *testing.T, id, leader string, spec model.Spec) {
	t.Helper()
	must(h.Engine.CreateModel(t.Context(), id, spec, engine.CreateOptions{Follows: leader}))(t)
}

// caughtUp compares until the last follower has learned all.
func (h *host) caughtUp(t *testing.T, name string) []engine.Comparison {
	t.Helper()
	for range 10_000 {
		all := must(h.CompareModels(t.Context(), name))(t)
		behind := uint64(0)
		for _, c := range all {
			behind += c.Behind
		}
		if behind == 0 {
			return all
		}
	}
	t.Fatal("the followers do not catch up")
	return nil
}

// feed lets "leader" observe n observations, some predicted before, some weighted.
func (h *host) feed(t *testing.T, from, n int) {
	t.Helper()
	for k := from; k < from+n; k++ {
		x := []float64{math.Sin(float64(k)), math.Cos(float64(3 * k))}
		o := engine.Observation{Features: x, Labels: []float64{x[0] - x[1]/2}, Weight: 1 + float64(k%3), ObservationID: fmt.Sprint("o", k)}
		if k%2 == 0 {
			o.PredictionID, o.Features, o.ObservationID = h.predict(t, "leader", x...).ID, nil, ""
		}
		h.observe(t, "leader", o)
	}
}

func TestWhatCannotFollow(t *testing.T) {
	h := startOn(t, newFS(), newClock())
	h.create(t, "leader", linear(2))
	h.shadow(t, "shadow", "leader", taylor(2, 3))
	for _, rejected := range []struct {
		id, leader string
		spec       model.Spec
		want       error
		text       string
	}{
		{"x", "leader", linear(3), engine.ErrInvalidRequest, "spec.dimension"},
		{"x", "leader", model.Spec{Dimension: 2, Outputs: 2, Scaling: model.Unscaled(), LinearAWV: &model.LinearAWV{}}, engine.ErrInvalidRequest, "spec.outputs"},
		{"x", "shadow", linear(2), engine.ErrInvalidRequest, "follows"},
		{"x", "none", linear(2), engine.ErrModelNotFound, "none"},
		{"leader", "leader", linear(2), engine.ErrInvalidRequest, "itself"},
		{"shadow", "", taylor(2, 3), engine.ErrModelExists, "follows"},
		{"leader", "shadow", linear(2), engine.ErrModelExists, "follows"},
	} {
		_, err := h.Engine.CreateModel(t.Context(), rejected.id, rejected.spec, engine.CreateOptions{Follows: rejected.leader})
		assert.True(t, errors.Is(err, rejected.want) && strings.Contains(err.Error(), rejected.text), "%+v: %v", rejected, err)
	}
	h.shadow(t, "shadow", "leader", taylor(2, 3)) // Again the same.
	h.setAlias(t, "live", "leader")
	info, err := h.Engine.CreateModel(t.Context(), "other", linear(2), engine.CreateOptions{Follows: "live", ValidateOnly: true})
	assert.True(t, err == nil && info.Follows == "leader", "by an alias: %+v, %v", info, err)
}

// follows is what a model follows.
func (h *host) follows(t *testing.T, id string) string {
	t.Helper()
	info := must(h.GetModel(t.Context(), id))(t)
	return info.Follows
}

// awaitAlone waits until a model follows none.
func (h *host) awaitAlone(t *testing.T, id string) {
	t.Helper()
	for h.follows(t, id) != "" {
		require.NoError(t, t.Context().Err(), "it still follows")
	}
	h.observe(t, id, engine.Observation{Features: []float64{1, 1}, Labels: []float64{1}, Weight: 1})
}

// The log is kept for a follower that has not learned it, and no longer.
func TestTheLogIsKeptForFollowers(t *testing.T) {
	h := startOn(t, newFS(), newClock(), func(o *engine.Options) { o.SnapshotsKept = 1 })
	h.create(t, "leader", linear(2))
	h.shadow(t, "shadow", "leader", linear(2))
	h.Pause("leader", true)
	snapshot := func() {
		t.Helper()
		must(h.SnapshotModel(t.Context(), "leader"))(t)
	}
	for n := range 5 {
		h.feed(t, 40*n, 40)
		snapshot()
	}
	h.Pause("leader", false)
	h.caughtUp(t, "leader")
	a, b := h.stats(t, "leader"), h.stats(t, "shadow")
	assert.True(t, a.Digest == b.Digest && b.Sequence == 200, "the follower is at %d", b.Sequence)
	h.feed(t, 200, 40)
	h.caughtUp(t, "leader")
	snapshot()
	must(h.RestoreModel(t.Context(), "shadow", 0))(t)
	h.awaitAlone(t, "shadow")
	assert.EqualValues(t, 1, h.sequence(t, "shadow"))
}

// A follower stops before what its learner does not take.
func TestAFollowerStopsAtWhatItCannotLearn(t *testing.T) {
	h := startOn(t, newFS(), newClock())
	spec := model.Spec{Dimension: 2, Scaling: model.Unscaled(), KernelAWV: &model.KernelAWV{MaxObservations: ptr(10)}}
	h.create(t, "leader", linear(2))
	h.shadow(t, "shadow", "leader", spec)
	h.feed(t, 0, 15)
	for h.follows(t, "shadow") != "" {
	}
	assert.EqualValues(t, 10, h.sequence(t, "shadow"))
}

// Clients observe by the alias while it is set to the follower. The follower has then
// learned all that its leader had, and learns what comes.
func TestPromotion(t *testing.T) {
	d, c := files{newFS()}, newClock()
	h := start(t, d, c)
	h.create(t, "champion", linear(2))
	h.setAlias(t, "live", "champion")
	h.shadow(t, "challenger", "live", taylor(2, 3))
	predicted := h.predict(t, "live", 1, 0)
	const clients, each = 4, 50
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			for n := range each {
				o := engine.Observation{ObservationID: fmt.Sprint(client, "-", n), Features: []float64{1, 0}, Labels: []float64{1}, Weight: 1}
				for range 2 {
					if _, _, err := h.send(context.Background(), o); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	a, err := h.SetAlias(t.Context(), "live", "challenger", "champion")
	assert.True(t, err == nil && a.Previous == "champion", "promoted: %+v, %v", a, err)
	all.Wait()
	by, _, err := h.send(t.Context(), engine.Observation{PredictionID: predicted.ID, Labels: []float64{1}, Weight: 1})
	assert.True(t, err == nil && by == "champion", "the label of the champion's prediction is learned by %q, %v", by, err)
	h.stop(t)
	h = start(t, d, c)
	champion, challenger := h.sequence(t, "champion"), h.sequence(t, "challenger")
	if h.follows(t, "challenger") != "" || champion+challenger < clients*each+1 || challenger > clients*each {
		t.Errorf("the champion has learned %d, the challenger %d", champion, challenger)
	}
}
