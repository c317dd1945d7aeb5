package engine_test

import (
	"context"
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine"
)

// challenge is a process with a champion that "live" names and a challenger that follows it.
func challenge(t *testing.T, fs *vfs.MemFS, c *clock) (*host, *faulty) {
	t.Helper()
	h, f := startFaulty(t, files{fs}, c)
	h.create(t, "champion", linear(1))
	h.setAlias(t, "live", "champion")
	h.shadow(t, "challenger", "champion", linear(1))
	for range 3 {
		h.observe(t, "champion", engine.Observation{Features: []float64{1}, Labels: []float64{1}})
	}
	return h, f
}

// promoted is the model of "live". The challenger follows if it is not that one, and no
// longer otherwise.
func (h *host) promoted(t *testing.T, when string) string {
	t.Helper()
	all, err := h.ListAliases()
	require.True(t, err == nil && len(all) == 1, "%s: aliases %+v, %v", when, all, err)
	assert.Equal(t, map[string]string{"champion": "champion", "challenger": ""}[all[0].Model], h.follows(t, "challenger"), "%v %v", when, all[0].Model)
	return all[0].Model
}

// After any write of a promotion a crash leaves all of it or nothing.
func TestAPromotionThatIsCut(t *testing.T) {
	fs, c := newFS(), newClock()
	h, f := challenge(t, fs, c)
	images := []*vfs.MemFS{fs.CrashClone(vfs.CrashCloneCfg{})}
	f.changed = func() { images = append(images, fs.CrashClone(vfs.CrashCloneCfg{})) }
	h.setAlias(t, "live", "challenger")
	f.changed = nil
	for n, image := range images {
		cut := startOn(t, image, c)
		live := cut.promoted(t, "after a crash")
		assert.Equal(t, []string{"champion", "challenger"}[min(n, 1)], live, n)
		a := cut.setAlias(t, "live", "challenger")
		assert.Equal(t, "challenger", a.Model, a)
		assert.EqualValues(t, 3, cut.sequence(t, "challenger"))
	}
}

// A caller who leaves at a write of a promotion leaves all of it or nothing too.
func TestAPromotionWhoseCallerLeaves(t *testing.T) {
	h, f := challenge(t, newFS(), newClock())
	ctx, leave := context.WithCancel(t.Context())
	f.changed = leave
	_, err := h.SetAlias(ctx, "live", "challenger", "")
	assert.True(t, err == nil || errors.Is(err, context.Canceled), err)
	h.setAlias(t, "other", "champion") // When the promotion has ended.
	require.NoError(t, h.DeleteAlias(t.Context(), "other"))
	assert.Equal(t, "challenger", h.promoted(t, "without its caller"))
}

// Nobody changes a model while it is restored, even if the caller has left.
func TestARestoreWhoseCallerLeaves(t *testing.T) {
	h, f := challenge(t, newFS(), newClock())
	ctx, leave := context.WithCancel(t.Context())
	returned, checked := make(chan struct{}), make(chan error, 2)
	f.rewinding = func() {
		leave()
		<-returned
		for _, id := range []string{"champion", "challenger"} {
			_, err := h.Engine.DeleteModel(ctx, id, engine.DeleteOptions{ValidateOnly: true, Purge: true})
			checked <- err
		}
	}
	_, err := h.RestoreModel(ctx, "champion", 0)
	assert.ErrorIs(t, err, context.Canceled)
	close(returned)
	for range 2 {
		assert.ErrorIs(t, <-checked, context.Canceled)
	}
}

// Statistics that a caller reads during a restore are not served for the restored state.
func TestStatisticsDuringARestore(t *testing.T) {
	h, f := startFaulty(t, files{newFS()}, newClock())
	h.create(t, "leader", linear(2))
	h.feed(t, 0, 10)
	var during engine.Stats
	f.rewinding = func() { during = h.stats(t, "leader") }
	must(h.RestoreModel(t.Context(), "leader", 5))(t)
	h.feed(t, 20, 5)
	after := h.stats(t, "leader")
	assert.True(t, during.Sequence == 10 && after.Sequence == 10 && after.Digest != during.Digest, "after the restore the state is %x, before it was %x", after.Digest, during.Digest)
}
