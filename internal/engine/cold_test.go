package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model/codec"
)

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
	_, err := b.host.SnapshotModel(t.Context(), "m")
	assert.Error(t, err, "a cold replica makes a snapshot")
	_, err = a.host.SnapshotModel(t.Context(), "m")
	assert.NoError(t, err)
	assert.Equal(t, []uint64{1}, s.shared(1))
	s.move(1)
	w := must(b.host.Watch(t.Context(), "m", 10))(t)
	defer w.Close()
	s.move(0)
	a.host.observe(t, "m", one("b", 1)...)
	s.awaitAll()
	assert.ErrorIs(t, w.Err(), engine.ErrNotOwner)
	_, err = a.host.SnapshotModel(t.Context(), "m")
	assert.NoError(t, err)
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
	for name, part := range map[string]func(*codec.Snapshot) []byte{
		"learner": func(s *codec.Snapshot) []byte { return s.Learner },
		"account": func(s *codec.Snapshot) []byte { return s.Account },
		"history": func(s *codec.Snapshot) []byte { return s.History },
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
