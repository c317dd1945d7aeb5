package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/codec"
)

// feed lets the model m learn; every third observation had a prediction.
func feed(t *testing.T, h *host, from, to int) {
	t.Helper()
	for n := from; n < to; n++ {
		rng := rand.New(rand.NewPCG(uint64(n), 9))
		x, y := []float64{rng.NormFloat64(), rng.NormFloat64()}, rng.NormFloat64()
		if n%3 != 0 {
			h.observe(t, "m", engine.Observation{Features: x, Labels: []float64{y}, ObservationID: fmt.Sprint("o-", n)})
			continue
		}
		p := h.predict(t, "m", x...)
		h.observe(t, "m", engine.Observation{PredictionID: p.ID, Labels: []float64{y}})
	}
}

// compare fails unless the model's figures are those wanted, whichever
// process computed them.
func compare(t *testing.T, h *host, want engine.Stats) {
	t.Helper()
	got := h.stats(t, "m")
	got.Snapshot, want.Snapshot = 0, 0
	if got.Digest != want.Digest || got.Observations != want.Observations || got.Predicted != want.Predicted ||
		got.Served != want.Served || got.Whole != want.Whole || got.Recent != want.Recent || got.Regret != want.Regret || got.Pending != want.Pending {
		t.Errorf("recovered %+v\nwant %+v", got, want)
	}
}

// A power cut at any moment: what was acknowledged is there, once, and a
// retry is answered as the first time.
func TestPowerCuts(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	runs := 60
	if testing.Short() {
		runs = 10
	}
	for range runs {
		c, fs := newClock(), newFS()
		set := after(1 + rng.IntN(40))
		h := startOn(t, fs, c, set)
		h.create(t, "m", linear(2))
		n := 1 + rng.IntN(50)
		feed(t, h, 0, n)
		want := h.stats(t, "m")
		answers := make([]engine.Answer, n)
		for k := range n {
			if k%3 != 0 {
				answers[k] = retry(t, h, k)
			}
		}
		cut := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
		h.stop(t)

		h = startOn(t, cut, c, set)
		got := h.stats(t, "m")
		require.True(t, got.Digest == want.Digest && got.Observations == uint64(n), "after the cut: %d observations, digest %x; want %d, %x", got.Observations, got.Digest, n, want.Digest)
		for k := range n {
			if k%3 == 0 {
				continue
			}
			require.Equal(t, answers[k], retry(t, h, k), "the retry of %d is answered, first", k)
		}
		h.stop(t)
	}
}

// retry sends observation k of feed again.
func retry(t *testing.T, h *host, k int) engine.Answer {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(k), 9))
	x, y := []float64{rng.NormFloat64(), rng.NormFloat64()}, rng.NormFloat64()
	a := h.observe(t, "m", engine.Observation{Features: x, Labels: []float64{y}, ObservationID: fmt.Sprint("o-", k)})[0]
	require.True(t, a.Duplicate, "observation %d was learned again: %+v", k, a)
	return a
}

// A bad newest snapshot costs time, not data.
func TestBadSnapshotIsPassedOver(t *testing.T) {
	c, fs := newClock(), newFS()
	h := startOn(t, fs, c)
	h.create(t, "m", linear(2))
	for n := range 5 {
		feed(t, h, n*10, n*10+10)
		h.stop(t) // Writes a snapshot.
		h = startOn(t, fs, c)
	}
	want := h.stats(t, "m")
	h.stop(t)
	dir := dataDir + "/snapshots/"
	models, err := fs.List(dir)
	require.True(t, err == nil && len(models) == 1, "%v %v", models, err)
	dir += models[0]
	files, err := fs.List(dir)
	require.True(t, err == nil && len(files) == 3, "%v %v", files, err)
	slices.Sort(files)
	for bad := range 3 {
		clone := fs.CrashClone(vfs.CrashCloneCfg{})
		for _, file := range files[2-bad:] {
			spoil(t, clone, dir+"/"+file)
		}
		logs, lines := logging()
		h := startOn(t, clone, c, logs)
		if bad < 2 {
			compare(t, h, want)
			assert.Equal(t, bad+1, badSnapshots(lines))
			continue
		}
		// With all gone the log no longer reaches back, and the model must say
		// so rather than go on with less. Others go on.
		for range 2 {
			_, err := h.ModelStats(context.Background(), "m", engine.StatsOptions{})
			assert.True(t, errors.Is(err, engine.ErrCorrupt) && strings.Contains(err.Error(), `"m"`) && strings.Contains(err.Error(), "sequence 1: missing"), "statistics: %v", err)
		}
		_, err = h.Predict(context.Background(), "m", vectors([]float64{1, 2}), engine.PredictOptions{})
		assert.ErrorIs(t, err, engine.ErrCorrupt)
		_, err = h.Observe(context.Background(), "m", []engine.Observation{{Features: []float64{1, 2}, Labels: []float64{1}, Weight: 1}})
		assert.ErrorIs(t, err, engine.ErrCorrupt)
		h.create(t, "other", linear(1))
		h.observe(t, "other", engine.Observation{Features: []float64{1}, Labels: []float64{1}})
	}
}

// A snapshot that the disk cannot read is not a bad one. If the log does not reach back
// without it, the model answers ErrStorage, and the next call tries again. Neither looking
// nor a repair takes anything from the model.
func TestUnreadSnapshotIsTriedAgain(t *testing.T) {
	c, fs := newClock(), newFS()
	h := startOn(t, fs, c, func(o *engine.Options) { o.SnapshotsKept = 1 })
	h.create(t, "m", linear(2))
	feed(t, h, 0, 20)
	want := h.stats(t, "m")
	h.stop(t) // Writes a snapshot, and cuts the log.
	var fails atomic.Bool
	disk := errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if fails.Load() && strings.HasSuffix(op.Path, ".hs") && op.Kind.ReadOrWrite() == errorfs.OpIsRead {
			return syscall.EIO
		}
		return nil
	}))
	fails.Store(true)
	for range 2 { // The second is after a repair.
		h = startOn(t, disk, c)
		for range 2 {
			_, err := h.ModelStats(t.Context(), "m", engine.StatsOptions{})
			assert.True(t, errors.Is(err, engine.ErrStorage) && !errors.Is(err, engine.ErrCorrupt) && errors.Is(err, syscall.EIO), "statistics: %v, want ErrStorage with EIO", err)
		}
		assert.ErrorIs(t, errOf(h.Observe(t.Context(), "m", []engine.Observation{{Features: []float64{1, 2}, Labels: []float64{1}, Weight: 1}})), engine.ErrStorage)
		h.stop(t)
		findings := repair(t, disk)
		for _, f := range findings {
			assert.True(t, f.Model == "m" && f.Repaired == "" && strings.Contains(f.Problem, syscall.EIO.Error()), "found %+v, want EIO alone, not repaired", f)
		}
		assert.True(t, len(findings) == 2 && findings[1].Rejected, "found %+v, want the snapshot, and that the model is not served", findings)
	}
	h = startOn(t, disk, c)
	assert.ErrorIs(t, errOf(h.ModelStats(t.Context(), "m", engine.StatsOptions{})), engine.ErrStorage)
	fails.Store(false)
	compare(t, h, want)
}

// A prediction whose write a full disk rejected is in memory alone. The same call again does not acknowledge the prediction.
func TestPredictAgainOnAFullDisk(t *testing.T) {
	c, fs := newClock(), newFS()
	var full atomic.Bool
	h := startOn(t, errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if full.Load() && strings.HasSuffix(op.Path, ".log") && op.Kind == errorfs.OpFileWrite {
			return syscall.ENOSPC
		}
		return nil
	})), c)
	h.create(t, "m", linear(1))
	predict := func(id string) error {
		return errOf(h.Predict(t.Context(), "m", vectors([]float64{1}), engine.PredictOptions{Remember: true, IDs: []string{id}}))
	}
	require.NoError(t, predict("kept"))
	full.Store(true)
	for range 2 {
		assert.ErrorIs(t, predict("rejected"), engine.ErrStorage)
	}
	killed := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 3))})
	h = startOn(t, killed, c)
	for id, want := range map[string]error{"kept": nil, "rejected": engine.ErrPredictionNotFound} {
		assert.ErrorIs(t, errOf(h.Observe(t.Context(), "m", []engine.Observation{{PredictionID: id, Labels: []float64{1}, Weight: 1}})), want)
	}
}

// spoil flips a byte in the middle of a file.
func spoil(t *testing.T, fs vfs.FS, path string) {
	t.Helper()
	f := must(fs.OpenReadWrite(path, vfs.WriteCategoryUnspecified))(t)
	info := must(f.Stat())(t)
	b := make([]byte, 1)
	must(f.ReadAt(b, info.Size()/2))(t)
	b[0] ^= 0x40
	must(f.WriteAt(b, info.Size()/2))(t)
	require.NoError(t, f.Close())
}

// A full queue rejects at once, and what it took is learned.
func TestOverload(t *testing.T) {
	h := start(t, newDisk(), newClock(), func(o *engine.Options) { o.Queue = 4 })
	h.create(t, "m", taylor(2, 8))
	var tickets []*engine.Ticket
	rejected := 0
	for n := range 2000 {
		o := engine.Observation{Features: []float64{1, float64(n)}, Labels: []float64{1}, Weight: 1}
		ticket, err := h.Submit(context.Background(), "m", []engine.Observation{o})
		switch {
		case err == nil:
			tickets = append(tickets, ticket)
		case strings.Contains(err.Error(), engine.ErrOverloaded.Error()):
			rejected++
		default:
			t.Fatal(err)
		}
	}
	for _, ticket := range tickets {
		must(ticket.Wait(context.Background()))(t)
	}
	got := h.stats(t, "m").Observations
	assert.True(t, got == uint64(len(tickets)) && rejected != 0, "%d learned of %d taken, %d rejected", got, len(tickets), rejected)
}

// forgetful is a learner that cannot read what it writes while broken is set.
type forgetful struct {
	model.Learner
	broken *atomic.Bool
}

func (l forgetful) Visit(v *codec.Visitor) {
	if v.Reading() && l.broken.Load() {
		v.Fail(codec.ErrCorrupt)
	}
	l.Learner.Visit(v)
}

// log returns where the log of model m begins, and the sequences of its snapshots, the newest first.
func (h *host) log(t *testing.T) (first uint64, snapshots []uint64) {
	t.Helper()
	err := h.store.Models(t.Context(), func(e storage.RegistryEntry) (err error) {
		if first, err = e.Model.First(); err == nil {
			snapshots, err = e.Model.Snapshots()
		}
		return err
	})
	require.NoError(t, err)
	return first, snapshots
}

// A snapshot that a rewind removes before it is read back is no fault of the disk.
func TestASnapshotThatVanishes(t *testing.T) {
	h, f := startFaulty(t, files{newFS()}, newClock(), func(o *engine.Options) { o.SnapshotsKept = 1 })
	h.create(t, "m", linear(2))
	feed(t, h, 0, 3)
	assert.NoError(t, errOf(h.SnapshotModel(t.Context(), "m")))
	f.vanishes.Store(true)
	feed(t, h, 3, 6)
	assert.ErrorIs(t, errOf(h.SnapshotModel(t.Context(), "m")), engine.ErrSnapshotNotFound)
	feed(t, h, 6, 9)
}

// A learner whose snapshots cannot be read costs time, not data: the log is not cut before a snapshot was read back, and
// the model is recovered from the log's beginning.
func TestUnreadableSnapshotCutsNoLog(t *testing.T) {
	var broken atomic.Bool
	learners := func(s model.Spec) (model.Learner, error) {
		l, err := catalog.New(s)
		return forgetful{l, &broken}, err
	}
	c, fs := newClock(), newFS()
	h := start(t, withLearners{files{fs}, learners}, c)
	h.create(t, "m", linear(2))
	broken.Store(true)
	learned := 0
	// snapshot learns, and reports whether a snapshot was rejected.
	snapshot := func() (rejected bool) {
		t.Helper()
		feed(t, h, learned, learned+10)
		learned += 10
		_, err := h.SnapshotModel(t.Context(), "m")
		assert.False(t, errors.Is(err, engine.ErrCorrupt), "a snapshot at %d: %v", learned, err)
		return err != nil
	}
	for n := range 5 {
		// The log is whole without a check until three snapshots are kept.
		got, want := snapshot(), n >= 2
		assert.Equal(t, want, got, "snapshot %d: rejected", n+1)
	}
	if first, kept := h.log(t); first != 1 || !slices.Equal(kept, []uint64{20, 10}) {
		t.Errorf("the log begins at %d, snapshots at %v", first, kept)
	}
	_, err := h.ModelStats(t.Context(), "m", engine.StatsOptions{})
	assert.True(t, err != nil && !errors.Is(err, engine.ErrCorrupt), "statistics: %v", err)
	want := h.predict(t, "m", 1, 2)
	// A crash, whose last snapshots are missing too.
	fs = fs.CrashClone(vfs.CrashCloneCfg{})
	logs, lines := logging()
	h = start(t, withLearners{files{fs}, learners}, c, logs)
	got := h.predict(t, "m", 1, 2)
	assert.True(t, got.Sequence == uint64(learned) && slices.Equal(got.Values, want.Values), "recovered from the log: %+v, want %+v", got, want)
	assert.Equal(t, 2, badSnapshots(lines))
	// Once snapshots can be read, the log is cut again.
	broken.Store(false)
	for n := range 3 {
		assert.False(t, snapshot(), "snapshot %d is rejected", n+1)
	}
	if first, kept := h.log(t); first == 1 || len(kept) != 3 {
		t.Errorf("the log begins at %d, snapshots at %v", first, kept)
	}
	// One snapshot in eight is read back: the first of the three was. It stays, with the log behind it.
	_, kept := h.log(t)
	checked := kept[2]
	broken.Store(true)
	for n := range 10 {
		got, want := snapshot(), n >= 5
		assert.Equal(t, want, got, "snapshot %d after the one that was read back: rejected", n+1)
	}
	first, kept := h.log(t)
	assert.True(t, first <= checked+1 && slices.Contains(kept, checked) && len(kept) == 3, "the log begins at %d, snapshots at %v, the one at %d was read back", first, kept, checked)
	broken.Store(false)
	stats := h.stats(t, "m")
	h.stop(t)
	compare(t, startOn(t, fs, c), stats)
}

// A snapshot that the disk damages after the write is found before the log is cut.
func TestDamagedSnapshotCutsNoLog(t *testing.T) {
	c, fs := newClock(), newFS()
	h, f := startFaulty(t, files{fs}, c)
	h.create(t, "m", linear(2))
	for n := range 6 {
		f.damages.Store(n >= 2)
		feed(t, h, 10*n, 10*n+10)
		_, err := h.SnapshotModel(t.Context(), "m")
		assert.True(t, (err != nil) == (n >= 2) && !errors.Is(err, engine.ErrCorrupt), "snapshot %d: %v", n+1, err)
	}
	first, kept := h.log(t)
	assert.True(t, first == 1 && slices.Equal(kept, []uint64{20, 10}), "the log begins at %d, snapshots at %v", first, kept)
	stats := h.stats(t, "m")
	compare(t, startOn(t, fs.CrashClone(vfs.CrashCloneCfg{}), c), stats)
	f.damages.Store(false)
}

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
