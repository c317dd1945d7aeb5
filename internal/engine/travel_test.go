package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine"
	"hindsight/internal/model"
)

// history is a model's observations, in calls of one or several.
func history(seed uint64, calls int) [][]engine.Observation {
	rng := rand.New(rand.NewPCG(seed, 77))
	var out [][]engine.Observation
	n := 0
	for range calls {
		var call []engine.Observation
		for range 1 + rng.IntN(3) {
			n++
			call = append(call, engine.Observation{
				Features: []float64{rng.NormFloat64(), rng.NormFloat64()}, Labels: []float64{rng.NormFloat64()},
				ObservationID: fmt.Sprint("o-", n), Weight: 1,
			})
		}
		out = append(out, call)
	}
	return out
}

// digests are the states after each observation.
func digests(t *testing.T, calls [][]engine.Observation) [][32]byte {
	t.Helper()
	h := startOn(t, newFS(), newClock())
	h.create(t, "m", linear(2))
	out := [][32]byte{h.stats(t, "m").Digest}
	for _, call := range calls {
		for _, o := range call {
			h.observe(t, "m", o)
			out = append(out, h.stats(t, "m").Digest)
		}
	}
	return out
}

// A power cut at any moment of a restore leaves the model as it was, or as it
// is to be, with the ids that belong to it.
func TestPowerCutsDuringRestore(t *testing.T) {
	calls := history(2, 10)
	want := digests(t, calls)
	last := uint64(len(want) - 1)
	const target = 7
	fs, c := newFS(), newClock()
	var cuts []*vfs.MemFS
	var recording sync.Mutex
	armed := false
	watched := errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		recording.Lock()
		defer recording.Unlock()
		if armed && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			armed = false // Cloning makes operations of its own.
			for _, percent := range []int{0, 50, 100} {
				cuts = append(cuts, fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(uint64(len(cuts)), 3))}))
			}
			armed = true
		}
		return nil
	}))
	h := startOn(t, watched, c, func(o *engine.Options) { after(4)(o); o.SnapshotsKept = 9 })
	h.create(t, "m", linear(2))
	for _, call := range calls {
		h.observe(t, "m", call...)
	}
	must(h.SnapshotModel(context.Background(), "m"))(t)
	recording.Lock()
	armed = true
	recording.Unlock()
	must(h.RestoreModel(context.Background(), "m", target))(t)
	recording.Lock()
	armed = false
	recording.Unlock()
	h.stop(t)
	t.Logf("%d cuts", len(cuts))
	outcomes := map[uint64]int{}
	for n, cut := range cuts {
		h := startOn(t, cut, c)
		s := h.stats(t, "m")
		require.True(t, (s.Observations == last || s.Observations == target) && s.Digest == want[s.Observations], "cut %d leaves %d observations", n, s.Observations)
		outcomes[s.Observations]++
		k := uint64(0)
		for _, call := range calls {
			for _, o := range call {
				k++
				a := h.observe(t, "m", o)[0]
				require.Equal(t, (k <= s.Observations), a.Duplicate, "cut %d leaves %d observations; observation %d again: %+v", n, s.Observations, k, a)
			}
		}
		h.stop(t)
	}
	assert.True(t, outcomes[last] != 0 && outcomes[target] != 0, "the cuts led to %v", outcomes)
}

// A model moves to another server under another id, and goes on there bit for
// bit, across restarts too.
func TestExportAndImport(t *testing.T) {
	for _, spec := range []model.Spec{linear(2), taylor(2, 3), {Dimension: 2, Seed: 1, Scaling: model.Unscaled(), PKAWVNystrom: &model.PKAWVNystrom{}}} {
		from := start(t, newDisk(), newClock())
		from.create(t, "m", spec)
		feed(t, from, 0, 40)
		ctx := context.Background()
		data := must(from.ExportModel(ctx, "m", engine.ExportOptions{WithoutIDs: true}))(t)
		fs, c := newDisk(), newClock()
		to := start(t, fs, c)
		info, err := to.ImportModel(ctx, "m", data)
		require.True(t, err == nil && info.Sequence == 40, "%+v, %v", info, err)
		assert.ErrorIs(t, errOf(to.ImportModel(ctx, "m", data)), engine.ErrModelExists, "imported twice")
		got, want := to.stats(t, "m"), from.stats(t, "m")
		assert.True(t, got.Digest == want.Digest && got.Served == want.Served, "%+v, want %+v", got, want)
		to.stop(t)
		to = start(t, fs, c)
		feed(t, from, 40, 60)
		feed(t, to, 40, 60)
		assert.True(t, to.stats(t, "m").Digest == from.stats(t, "m").Digest, "the copy goes on elsewhere")
		assert.NoError(t, errOf(to.RestoreModel(ctx, "m", 40)))
		assert.ErrorIs(t, errOf(to.RestoreModel(ctx, "m", 39)), engine.ErrSnapshotNotFound, "before its import")
		for n := 0; n < len(data); n += 7 {
			bad := append([]byte(nil), data...)
			bad[n] ^= 0x10
			require.ErrorIs(t, errOf(to.ImportModel(ctx, "bad", bad)), engine.ErrInvalidRequest, n)
		}
		assert.ErrorIs(t, errOf(to.ImportModel(ctx, "BAD", data)), engine.ErrInvalidID)
		models, err := to.ListModels("", "", 9)
		assert.True(t, err == nil && len(models) == 1, "%+v, %v", models, err)
	}
}

// A restore has what the model learned before it counted, and what is left of it.
func TestARestoreIsCounted(t *testing.T) {
	var counted []uint64
	h := start(t, newDisk(), newClock(), func(o *engine.Options) {
		o.Counted = func(live *engine.Live) { counted = append(counted, live.Observations) }
	})
	h.create(t, "m", linear(1))
	for n := range 30 {
		h.observe(t, "m", engine.Observation{Features: []float64{1}, Labels: []float64{float64(n)}})
	}
	must(h.RestoreModel(t.Context(), "m", 5))(t)
	assert.Equal(t, []uint64{30, 5}, counted)
}
