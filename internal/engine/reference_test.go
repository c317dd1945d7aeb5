package engine_test

import (
	"errors"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine"
)

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
	_, err := h.RestoreModel(t.Context(), "leader", 4)
	assert.ErrorIs(t, err, engine.ErrStorage)
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
	_, err := h.RestoreModel(t.Context(), "copy", 0)
	assert.ErrorIs(t, err, engine.ErrSnapshotNotFound)
	_, err = h.RestoreModel(t.Context(), "copy", 1)
	assert.NoError(t, err)
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
