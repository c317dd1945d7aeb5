package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model"
	"hindsight/internal/model/snapshot"
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

// cold keeps followers from learning, and keeps few snapshots, so that the logs are cut behind them.
func cold(o *engine.Options) { o.Cold, o.SnapshotsKept = true, 2 }

// snapshots are the sequences of the snapshots that a server has of a model.
func (v *server) snapshots(id string) (sequences []uint64) {
	err := v.local.Models(context.Background(), func(e storage.RegistryEntry) (err error) {
		if e.Name == id {
			sequences, err = e.Model.Snapshots()
		}
		return err
	})
	if err != nil {
		v.servers.t.Fatal(err)
	}
	return sequences
}

// shared waits until all servers have the owner's snapshots of model m, the newest at or after a sequence.
func (s *servers) shared(newest uint64) (sequences []uint64) {
	s.t.Helper()
	for _, v := range s.all {
		waitFor(s.t, v.host, func() bool {
			s.settle()
			sequences = s.owner().snapshots("m")
			return len(sequences) > 0 && sequences[0] >= newest && slices.Equal(v.snapshots("m"), sequences)
		})
	}
	return sequences
}

// A cold server learns nothing. As the owner it begins with a snapshot of the previous owner, knows all ids, and has the
// state of a server without a cluster. A server that is no longer the owner forgets its states.
func TestColdReplicas(t *testing.T) {
	s := startServers(t, 3, after(50), cold)
	alone := start(t, files{newFS()}, s.clock, after(50))
	alone.create(t, "m", taylor(2, 2))
	s.all[0].host.create(t, "m", taylor(2, 2))
	s.awaitAll() // A server that does not host the model yet misses its snapshots.
	const rows = 130
	for n, place := range []int{0, 1, 0, 2} {
		owner := s.move(place)
		replayed, behind := owner.host.Totals().Replayed.Load(), uint64(0)
		if n > 0 {
			behind = uint64(n*rows) - s.shared(0)[0]
		}
		for k := range rows {
			row := one(fmt.Sprint(n, "-", k), float64(k%7), float64(n))
			owner.host.observe(t, "m", row...)
			alone.observe(t, "m", row...)
			replayed := owner.host.Totals().Replayed.Load() - replayed
			assert.True(t, k != 0 || replayed == int64(behind), "server %d has replayed %d observations, want %d", place, replayed, behind)
		}
		// While one snapshot is being written, another one is due already, and both count for the estimated replay. If
		// the owner writes the first one until the last row is learned, it does not write the other one.
		if want := uint64((n+1)*rows - 2*50); s.shared(uint64(n*rows + 1))[0] < want {
			must(owner.host.SnapshotModel(t.Context(), "m"))(t)
			s.shared(want)
		}
		for before := range n + 1 {
			for k := range rows {
				got := owner.host.observe(t, "m", one(fmt.Sprint(before, "-", k), float64(k%7), float64(before))...)[0]
				require.True(t, got.Duplicate && got.Sequence == uint64(before*rows+k+1), "server %d, observation %d-%d again: %+v", place, before, k, got)
			}
		}
		got, want := owner.host.stats(t, "m"), alone.stats(t, "m")
		assert.True(t, got.Digest == want.Digest && got.Sequence == want.Sequence, "server %d has the digest %x at %d, want %x at %d", place, got.Digest, got.Sequence, want.Digest, want.Sequence)
		for _, v := range s.all {
			waitFor(t, v.host, func() bool { return v == owner || v.host.loaded(t) == 0 })
		}
	}
	for _, v := range s.all {
		totals := v.host.Totals()
		// Server 0 was the owner twice, and created the model the first time.
		assert.EqualValues(t, 1, totals.Wakes.Load(), v.place)
	}
	s.equal()
}

// Only the owner makes snapshots, and reports to watchers.
func TestColdReplicaMakesNoSnapshot(t *testing.T) {
	s := startServers(t, 2, cold)
	a, b := s.all[0], s.all[1]
	a.host.create(t, "m", linear(1))
	s.awaitAll()
	a.host.observe(t, "m", one("a", 1)...)
	assert.Error(t, errOf(b.host.SnapshotModel(t.Context(), "m")), "a cold replica makes a snapshot")
	assert.NoError(t, errOf(a.host.SnapshotModel(t.Context(), "m")))
	assert.Equal(t, []uint64{1}, s.shared(1))
	s.move(1)
	w := must(b.host.Watch(t.Context(), "m", 10))(t)
	defer w.Close()
	s.move(0)
	a.host.observe(t, "m", one("b", 1)...)
	s.awaitAll()
	assert.ErrorIs(t, w.Err(), engine.ErrNotOwner)
	assert.NoError(t, errOf(a.host.SnapshotModel(t.Context(), "m")))
	s.shared(2)
	b.restart(true)
	assert.Equal(t, 0, b.host.loaded(t))
	s.move(1)
	got := b.host.observe(t, "m", one("b", 1)...)[0]
	assert.True(t, got.Duplicate, "the id of the last observation: %+v", got)
	s.equal()
}

// A cold server does not keep a snapshot of a state that a restore has undone, whether it writes the snapshot before or
// after the engine receives the restore.
func TestColdReplicaFollowsRestore(t *testing.T) {
	for _, told := range []bool{true, false} {
		s := startServers(t, 2, after(3*10), cold) // A snapshot of a cold server is due after a third of the replay.
		a, b := s.all[0], s.all[1]
		a.host.create(t, "m", linear(1))
		s.awaitAll()
		tell := make(chan struct{})
		b.local.snapshotWaits.Store(true)
		b.tell = func(c storage.Change) {
			if c.Kind == storage.Rewound {
				<-tell
			}
			b.host.Changed(c)
		}
		for n := range 10 {
			a.host.observe(t, "m", one(strconv.Itoa(n), float64(n))...)
		}
		<-b.local.writing
		must(a.host.RestoreModel(t.Context(), "m", 5))(t)
		if told {
			close(tell)
			s.settle()
			close(b.local.goOn)
		} else {
			waitFor(t, b.host, func() bool { last, err := b.last("m"); return err == nil && last == 5 })
			close(b.local.goOn)
			close(tell)
		}
		for n := range 4 {
			a.host.observe(t, "m", one(fmt.Sprint("again", n), float64(n))...)
		}
		s.awaitAll()
		waitFor(t, b.host, func() bool { return b.host.Turn("m") == nil && slices.Equal(b.snapshots("m"), []uint64{5}) })
		s.equal()
		assert.False(t, s.move(1).host.observe(t, "m", one("7", 7)...)[0].Duplicate, "a cold replica knows what was undone")
		s.equal()
	}
}

// A cold server notices a wrong bit of a snapshot while it is idle, whether the owner's state or the received copy has the bit.
// It answers as the owner with the state of a server without a cluster.
func TestColdServersVerifySnapshots(t *testing.T) {
	t.Parallel()
	verifying := func(o *engine.Options) { o.ReportCPU, o.Sweep = 0.5, time.Millisecond }
	for name, part := range map[string]func(*snapshot.Snapshot) []byte{
		"learner": func(s *snapshot.Snapshot) []byte { return s.Learner },
		"account": func(s *snapshot.Snapshot) []byte { return s.Account },
		"history": func(s *snapshot.Snapshot) []byte { return s.History },
	} {
		for wrong, place := range map[string]int{"nobody": 2, "the owner": 0, "the next owner": 1} {
			t.Run(name+" of "+wrong, func(t *testing.T) {
				t.Parallel()
				s := startServers(t, 3, cold, verifying)
				alone := start(t, files{newFS()}, s.clock)
				a, b := s.all[0], s.all[1]
				a.host.create(t, "m", taylor(2, 2))
				alone.create(t, "m", taylor(2, 2))
				s.awaitAll()
				var index atomic.Uint64 // Of the last snapshot.
				flips := false
				b.tell = func(c storage.Change) {
					if c.Kind == storage.Snapshotted {
						index.Store(c.Index)
						if flips && len(c.Value) > 0 {
							c.Value = b.flipped(t, c.Value, part)
						}
					}
					b.host.Changed(c)
				}
				digests := func() (all [3]string) {
					for n, v := range s.all {
						all[n] = v.host.Digest("m", index.Load(), storage.Digest{}).State
					}
					return all
				}
				learn := func(from int) {
					for n := from; n < from+40; n++ {
						row := one(fmt.Sprint("o", n), float64(n%7), 1)
						s.owner().host.observe(t, "m", row...)
						alone.observe(t, "m", row...)
					}
				}
				for n := range 3 {
					switch learn(40 * n); {
					case n == 2 && place == 0:
						a.flip(t, part)
						learn(1000)
					case n == 2:
						flips = place == 1
					}
					must(a.host.SnapshotModel(t.Context(), "m"))(t)
					waitFor(t, b.host, func() bool {
						s.settle()
						got := digests()
						return got[0] != "" && got[1] != "" && got[2] != ""
					})
				}
				got := digests()
				assert.True(t, got[1] == got[2] && (got[0] != got[1]) == (place == 0), "%v", got)
				for n, v := range s.all[1:] {
					noticed := place == 0 || place == 1 && n == 0
					waitFor(t, v.host, func() bool { return noticed == (v.host.Totals().DigestMismatches.Load() > 0) })
				}
				s.move(1)
				learn(2000)
				got[0], got[1] = fmt.Sprintf("%x", b.host.stats(t, "m").Digest), fmt.Sprintf("%x", alone.stats(t, "m").Digest)
				assert.Equal(t, got[1], got[0])
				must(b.host.SnapshotModel(t.Context(), "m"))(t)
				c := s.all[2]
				waitFor(t, c.host, func() bool {
					s.settle()
					digest := c.host.Digest("m", index.Load(), storage.Digest{}).State
					return digest != "" && digest == b.host.Digest("m", index.Load(), storage.Digest{}).State
				})
			})
		}
	}
}

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
	assert.ErrorIs(t, errOf(h.RestoreModel(ctx, "champion", 0)), context.Canceled)
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

// The difference of a follower compares the prequential losses of the same observations, also after a start.
func TestPairedDifference(t *testing.T) {
	d, c := newDisk(), newClock()
	h := start(t, d, c)
	h.create(t, "a", linear(1))
	h.observe(t, "a", one("0", 1)...)
	h.shadow(t, "b", "a", taylor(1, 3))
	h.setAlias(t, "live", "a")
	for n := range 400 {
		if n == 200 {
			h.caughtUp(t, "live") // What is not learned yet has no pair after the start.
			h.stop(t)
			h = start(t, d, c)
		}
		x := math.Sin(float64(n))
		_, _, err := h.send(t.Context(), engine.Observation{Features: []float64{x}, Labels: []float64{x * x * x}, Weight: 1, ObservationID: fmt.Sprint("o", n)})
		require.NoError(t, err)
	}
	all := h.caughtUp(t, "live")
	got := all[1].Difference
	mean := (all[1].Own.Prequential.Loss - all[1].Followed.Prequential.Loss) / 400
	// A follower that is faster than the leader's answer learns without the loss of the leader.
	if got == nil || all[1].Paired < 380 || all[1].Paired > 400 || math.Abs(got.Mean-mean) > 2e-3 || !(got.Lower < mean && mean < got.Upper) {
		t.Errorf("%+v, want a mean of %g", got, mean)
	}
	assert.True(t, got.Upper < 0, "a cubic model on a cubic label is not better: %+v", got)
}
