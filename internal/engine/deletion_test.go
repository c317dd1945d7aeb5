package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine"
)

// keeping lets deleted models stay for a time.
func keeping(d time.Duration) option { return func(o *engine.Options) { o.DeletedKept = d } }

// listed are the ids of all models, deleted ones in brackets.
func (h *host) listed(t *testing.T) string {
	t.Helper()
	page := must(h.Engine.ListModels(t.Context(), engine.ListOptions{Deleted: true, Limit: 100}))(t)
	var out []string
	for n := range page.Models {
		id := page.Models[n].ID
		if !page.Models[n].Deleted.IsZero() {
			id = "[" + id + "]"
		}
		out = append(out, id)
	}
	assert.Equal(t, page.Total, len(out), out)
	return strings.Join(out, " ")
}

// A deleted model is removed when its time has passed, not before, whether the server ran
// meanwhile or not. Its predictions expire as those of others.
func TestDeletedModelsAreRemovedInTime(t *testing.T) {
	d, c := newDisk(), newClock()
	h := start(t, d, c, keeping(3*time.Hour))
	for _, id := range []string{"a", "b", "c"} {
		h.create(t, id, linear(1))
		h.predict(t, id, 1) // It waits for an hour.
		h.observe(t, id, engine.Observation{Features: []float64{1}, Labels: []float64{1}, ObservationID: "o"})
	}
	for _, id := range []string{"a", "b"} {
		require.NoError(t, h.DeleteModel(t.Context(), id))
	}
	if totals := h.Totals(); totals.Models != 1 || h.store.CountPending() != 3 {
		t.Errorf("%+v, %d wait", totals, h.store.CountPending())
	}
	h.Each(func(l *engine.Live) { assert.Equal(t, "c", l.ID) })
	c.advance(2 * time.Hour)
	waitFor(t, h, func() bool { return h.store.CountPending() == 0 })
	assert.Equal(t, "[a] [b] c", h.listed(t))
	must(h.UndeleteModel(t.Context(), "b"))(t)
	c.advance(2 * time.Hour)
	waitFor(t, h, func() bool { return h.listed(t) == "b c" })
	require.NoError(t, h.DeleteModel(t.Context(), "b"))
	h.stop(t)
	c.advance(4 * time.Hour)
	h = start(t, d, c)
	waitFor(t, h, func() bool { return h.listed(t) == "c" })
	h.create(t, "b", linear(2))
	assert.EqualValues(t, 0, h.stats(t, "b").Observations)
}

// Deletion, return and removal by many callers at once leave one model or none, and never
// the state of another.
func TestDeletionAtOnce(t *testing.T) {
	c := newClock()
	h := start(t, files{newFS()}, c, keeping(time.Hour))
	h.create(t, "m", linear(1))
	for range 20 {
		h.observe(t, "m", engine.Observation{Features: []float64{1}, Labels: []float64{1}})
	}
	expected := func(err error) {
		t.Helper()
		for _, e := range []error{nil, engine.ErrModelNotFound, engine.ErrModelDeleted, engine.ErrModelExists} {
			if errors.Is(err, e) {
				return
			}
		}
		t.Error(err)
	}
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for n := range 40 {
				var err error
				switch (n + worker) % 6 {
				case 0:
					err = h.DeleteModel(t.Context(), "m")
				case 1, 2:
					_, err = h.UndeleteModel(t.Context(), "m")
				case 3:
					_, err = h.UpdateModel(t.Context(), "m", engine.UpdateOptions{Edit: func(m *engine.Metadata) {
						m.DisplayName = fmt.Sprint(worker, n)
					}})
				case 4:
					_, err = h.Predict(t.Context(), "m", vectors([]float64{1}), engine.PredictOptions{Remember: true})
				default:
					_, err = h.Observe(t.Context(), "m", []engine.Observation{{Features: []float64{1}, Labels: []float64{1}, Weight: 1}})
				}
				expected(err)
			}
		})
	}
	group.Wait()
	must(h.UndeleteModel(t.Context(), "m"))(t)
	s := h.stats(t, "m")
	assert.GreaterOrEqual(t, s.Observations, uint64(20), "%d observations", s.Observations)
	var removals sync.WaitGroup
	for range 4 {
		removals.Go(func() {
			_, err := h.Engine.DeleteModel(t.Context(), "m", engine.DeleteOptions{Purge: true})
			expected(err)
		})
		removals.Go(func() {
			_, err := h.CreateModel(t.Context(), "m", linear(1))
			expected(err)
		})
	}
	removals.Wait()
}

// A deletion whose caller leaves before its turn is not done, and gives the name back.
func TestDeletionWhoseCallerLeaves(t *testing.T) {
	c := newClock()
	h, f := startFaulty(t, files{newFS()}, c)
	h.create(t, "m", linear(1))
	f.appends.next.Store(appendWaits)
	ticket := must(h.Submit(t.Context(), "m", []engine.Observation{{Features: []float64{1}, Labels: []float64{1}, Weight: 1}}))(t)
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { left <- h.DeleteModel(ctx, "m") }()
	leave()
	assert.ErrorIs(t, <-left, context.Canceled)
	close(f.goOn)
	assert.NoError(t, errOf(ticket.Wait(t.Context())))
	// The deletion was skipped: it had not begun.
	assert.NoError(t, h.DeleteModel(t.Context(), "m"))
	h.create(t, "m", linear(2))
}

// Deleted models count among those that there may be, until they are removed.
func TestDeletedModelsTakeRoom(t *testing.T) {
	h := start(t, files{newFS()}, newClock(), keeping(time.Hour), func(o *engine.Options) { o.ModelLimit = 2 })
	h.create(t, "a", linear(1))
	h.create(t, "b", linear(1))
	require.NoError(t, h.DeleteModel(t.Context(), "a"))
	_, err := h.CreateModel(t.Context(), "c", linear(1))
	assert.True(t, errors.Is(err, engine.ErrModelLimit) && strings.Contains(err.Error(), "there are 2, 1 of them deleted"), "a third: %v", err)
	must(h.Engine.DeleteModel(t.Context(), "a", engine.DeleteOptions{Purge: true}))(t)
	h.create(t, "c", linear(1))
}

// Calls of every kind run beside the purges of their model, at the owner and at another server. A call finds the model or
// does not: no call takes a model that is being removed for a failure of the storage.
func TestCallsBesideAPurge(t *testing.T) {
	const purges, each = 10, 6
	s := startServers(t, 2, func(o *engine.Options) { o.DeletedKept = 0 })
	owner, ctx := s.move(0), t.Context()
	calls := map[string]func(*host, int) error{
		"observe": func(h *host, n int) error { return errOf(h.Observe(ctx, "m", one(fmt.Sprint("o", n), 1, 2))) },
		"predict": func(h *host, n int) error {
			return errOf(h.Predict(ctx, "m", vectors([]float64{1, 2}), engine.PredictOptions{Remember: n%2 == 0}))
		},
		"stats":    func(h *host, _ int) error { _, err := h.ModelStats(ctx, "m", engine.StatsOptions{}); return err },
		"snapshot": func(h *host, _ int) error { _, err := h.SnapshotModel(ctx, "m"); return err },
		"list":     func(h *host, _ int) error { _, err := h.ListSnapshots(ctx, "m"); return err },
		"export":   func(h *host, _ int) error { _, err := h.ExportModel(ctx, "m", engine.ExportOptions{}); return err },
		"restore":  func(h *host, _ int) error { _, err := h.RestoreModel(ctx, "m", 0); return err },
		"sequence": func(h *host, _ int) error { _, err := h.SequenceAt(ctx, "m", time.Unix(1<<31, 0)); return err },
		"update": func(h *host, _ int) error {
			return errOf(h.UpdateModel(ctx, "m", engine.UpdateOptions{Edit: func(*engine.Metadata) {}}))
		},
		"models": func(h *host, _ int) error { return errOf(h.Engine.ListModels(ctx, engine.ListOptions{Limit: 10})) },
	}
	for range purges {
		owner.host.create(t, "m", linear(2))
		s.waitAll(s.all...)
		var callers sync.WaitGroup
		for _, v := range s.all {
			for what, call := range calls {
				callers.Go(func() {
					for n := range each {
						err := call(v.host, n)
						if err != nil && !errors.Is(err, engine.ErrModelNotFound) && !errors.Is(err, engine.ErrNotOwner) && !errors.Is(err, engine.ErrSnapshotNotFound) {
							t.Errorf("%s at server %d: %v", what, v.place, err)
						}
					}
				})
			}
		}
		for n := range each {
			owner.host.observe(t, "m", one(fmt.Sprint("p", n), 1, 2)...)
		}
		assert.NoError(t, errOf(owner.host.Engine.DeleteModel(ctx, "m", engine.DeleteOptions{Purge: true})))
		callers.Wait()
	}
}

// A follower that was deleted while its leader was restored does not learn the history of
// after behind one that was undone. One that had learned nothing of it goes on.
func TestDeletedFollowersOfARestoredModel(t *testing.T) {
	d, c := newDisk(), newClock()
	deletedKept := func(o *engine.Options) { o.DeletedKept = time.Hour }
	h := start(t, d, c, deletedKept)
	h.create(t, "leader", linear(2))
	h.shadow(t, "early", "leader", linear(2))
	h.feed(t, 0, 3)
	h.caughtUp(t, "leader")
	hide := func(id string) {
		t.Helper()
		require.NoError(t, h.DeleteModel(t.Context(), id))
	}
	hide("early")
	h.shadow(t, "late", "leader", linear(2))
	h.feed(t, 3, 7)
	h.caughtUp(t, "leader")
	hide("late")
	must(h.RestoreModel(t.Context(), "leader", 4))(t)
	h.feed(t, 100, 10)
	h.stop(t)
	h = start(t, d, c, deletedKept)
	for _, id := range []string{"early", "late"} {
		must(h.UndeleteModel(t.Context(), id))(t)
	}
	assert.Equal(t, "", h.follows(t, "late"))
	assert.EqualValues(t, 7, h.sequence(t, "late"))
	h.caughtUp(t, "leader")
	if a, b := h.stats(t, "leader"), h.stats(t, "early"); a.Digest != b.Digest || b.Sequence != 14 {
		t.Errorf("early follows %q and has learned %d, digests equal: %v", h.follows(t, "early"), b.Sequence, a.Digest == b.Digest)
	}
}

// After any write of a restore a crash leaves followers that have learned the leader's
// history, or follow no more.
func TestFollowersOfARestoreThatIsCut(t *testing.T) {
	fs, c := newFS(), newClock()
	h, f := startFaulty(t, files{fs}, c)
	h.create(t, "leader", linear(2))
	h.shadow(t, "shadow", "leader", linear(2))
	h.feed(t, 0, 10)
	h.caughtUp(t, "leader")
	images := []*vfs.MemFS{fs.CrashClone(vfs.CrashCloneCfg{})}
	f.changed = func() { images = append(images, fs.CrashClone(vfs.CrashCloneCfg{})) }
	must(h.RestoreModel(t.Context(), "leader", 4))(t)
	f.changed = nil
	images = append(images, fs.CrashClone(vfs.CrashCloneCfg{}))
	for n, image := range images {
		cut := startOn(t, image, c)
		cut.feed(t, 100, 12)
		assert.True(t, n != 0 || cut.follows(t, "shadow") != "", "it stopped before the restore")
		var a, b engine.Stats
		waitFor(t, cut, func() bool {
			if cut.follows(t, "shadow") == "" {
				return true
			}
			a, b = cut.stats(t, "leader"), cut.stats(t, "shadow")
			return cut.Behind("shadow") == 0 && a.Sequence == b.Sequence
		})
		if cut.follows(t, "shadow") == "" {
			continue
		}
		assert.True(t, a.Digest == b.Digest, "after %d writes: follows at %d of %d, with another history", n, b.Sequence, a.Sequence)
	}
}

// A follower that could not reach what its leader had learned before a restore goes on with what the leader learns
// after it.
func TestARestoreDuringTheLearningOfAFollower(t *testing.T) {
	h, f := startFaulty(t, files{newFS()}, newClock())
	h.create(t, "leader", linear(2))
	h.shadow(t, "shadow", "leader", linear(2))
	h.caughtUp(t, "leader")
	h.Pause("leader", true)
	h.feed(t, 0, 10)
	broken := errors.New("the disk cannot be read")
	f.replayFails.Store(&broken)
	h.Pause("leader", false)
	must(h.CompareModels(t.Context(), "leader"))(t) // The follower meets the failure.
	h.Pause("leader", true)                         // Until the restore ends.
	must(h.CompareModels(t.Context(), "leader"))(t) // Behind a turn of the follower that began before.
	f.replayFails.Store(nil)
	must(h.RestoreModel(t.Context(), "leader", 0))(t)
	h.feed(t, 10, 3)
	waitFor(t, h, func() bool { return h.Behind("shadow") == 0 && h.sequence(t, "shadow") == 3 }) // Its log may be ahead of it.
	a, b := h.stats(t, "leader"), h.stats(t, "shadow")
	assert.True(t, a.Digest == b.Digest && b.Sequence == 3, "the follower has learned %d", b.Sequence)
}

// A RestoreModel that fails changes nothing, also of the followers.
func TestARejectedRestoreLeavesFollowers(t *testing.T) {
	h, f := startFaulty(t, files{newFS()}, newClock())
	h.create(t, "leader", linear(2))
	h.shadow(t, "shadow", "leader", linear(2))
	h.feed(t, 0, 10)
	h.caughtUp(t, "leader")
	broken := errors.New("the disk cannot be read")
	f.replayFails.Store(&broken)
	assert.ErrorIs(t, errOf(h.RestoreModel(t.Context(), "leader", 4)), engine.ErrStorage)
	f.replayFails.Store(nil)
	assert.Equal(t, "leader", h.follows(t, "shadow"))
	h.feed(t, 10, 10)
	h.caughtUp(t, "leader")
	a, b := h.stats(t, "leader"), h.stats(t, "shadow")
	assert.True(t, a.Digest == b.Digest && b.Sequence == 20, "the follower has learned %d", b.Sequence)
}

// A retry by an alias is not answered by a model that has the id of the previous one.
func TestAnAliasAndAStranger(t *testing.T) {
	d, c := newDisk(), newClock()
	h := start(t, d, c)
	h.create(t, "a", linear(1))
	h.create(t, "b", linear(1))
	h.setAlias(t, "live", "a")
	h.setAlias(t, "live", "b")
	h.replaceByStranger(t)
	h.stop(t)
	h = start(t, d, c)
	h.ordered(t)
}

// replaceByStranger removes "a" and creates another one, which learns an order.
func (h *host) replaceByStranger(t *testing.T) {
	t.Helper()
	must(h.Engine.DeleteModel(t.Context(), "a", engine.DeleteOptions{Purge: true}))(t)
	h.create(t, "a", linear(1))
	h.observe(t, "a", order())
}

func order() engine.Observation {
	return engine.Observation{ObservationID: "order-17", Features: []float64{1}, Labels: []float64{1}, Weight: 1}
}

// ordered observes the order by the alias, which "b" has not learned.
func (h *host) ordered(t *testing.T) {
	t.Helper()
	by, answer, err := h.send(t.Context(), order())
	assert.True(t, err == nil && by == "b" && !answer.Duplicate, "learned by %q, a duplicate: %v; %v; want b, which has not seen it", by, answer.Duplicate, err)
}

// What an import began with cannot be undone, also at sequence 1.
func TestRestoringAModelImportedAtSequence1(t *testing.T) {
	h := start(t, newDisk(), newClock())
	h.create(t, "m", linear(1))
	h.observe(t, "m", order())
	data := must(h.ExportModel(t.Context(), "m", engine.ExportOptions{}))(t)
	must(h.ImportModel(t.Context(), "copy", data))(t)
	h.observe(t, "copy", engine.Observation{Features: []float64{2}, Labels: []float64{1}})
	assert.ErrorIs(t, errOf(h.RestoreModel(t.Context(), "copy", 0)), engine.ErrSnapshotNotFound)
	assert.NoError(t, errOf(h.RestoreModel(t.Context(), "copy", 1)))
	h.observe(t, "copy", engine.Observation{Features: []float64{2}, Labels: []float64{1}})
}

// A follower that has learned nothing comes behind those with a loss.
func TestComparisonOfAFollowerWithoutObservations(t *testing.T) {
	h := start(t, files{newFS()}, newClock())
	h.create(t, "leader", linear(2))
	h.shadow(t, "z", "leader", linear(2))
	h.feed(t, 0, 10)
	h.caughtUp(t, "leader")
	h.shadow(t, "a", "leader", linear(2))
	all := h.caughtUp(t, "leader")
	assert.True(t, len(all) == 3 && all[1].ID == "z" && all[2].ID == "a", "compared %+v, want the leader, z, and then a, which has no loss", all)
}
