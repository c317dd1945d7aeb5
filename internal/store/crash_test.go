package store_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine/storage"
	"hindsight/internal/store"
)

// crashes runs an operation on a store and gives what a power cut leaves
// before each of its writes to the disk, and after the last: what was synced
// alone, all that was written, and something between.
func crashes(t *testing.T, disk *vfs.MemFS, rng *rand.Rand, set func(*store.Options), do func(s *store.Store)) []*vfs.MemFS {
	t.Helper()
	var mu struct {
		sync.Mutex
		armed bool
		left  []*vfs.MemFS
	}
	cut := func() {
		for _, percent := range []int{0, 100, 1 + rng.IntN(99)} {
			mu.left = append(mu.left, disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng}))
		}
	}
	s := open(t, inject(disk, func(op errorfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if mu.armed && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			cut()
		}
		return nil
	}), set)
	arm := func(armed bool) {
		mu.Lock()
		defer mu.Unlock()
		mu.armed = armed
	}
	arm(true)
	do(s)
	if err := s.Sync(t.Context()); err != nil { // Commits under positions are not durable yet.
		t.Error(err)
	}
	arm(false)
	cut()
	closed(t, s)
	return mu.left
}

func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(1)
	if isLong() {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 3))
}

// oneGoroutine skips a test that calls the store from one goroutine, in short mode, in which make test-race runs. Other
// tests show the race detector the goroutines of the store.
func oneGoroutine(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("calls the store from one goroutine: not in short mode, in which the race detector runs")
	}
}

// The flag long makes tests of crashes and damage repeat up to ten times as often; make torture sets the flag.
var long = flag.Bool("long", false, "repeat tests of crashes and damage more often")

// isLong reports whether make test-e2e or make torture runs the tests: seeds are new, and durabilities are both.
func isLong() bool { return *long || os.Getenv("HINDSIGHT_E2E") != "" }

// times is how often a test repeats: few times, or many with -long.
func times(few, many int) int {
	if *long {
		return many
	}
	return few
}

// contexts are contexts without and with a position.
func contexts(t *testing.T) map[string]context.Context {
	t.Helper()
	return map[string]context.Context{"": t.Context(), ", position": storage.At(t.Context(), storage.Position{Index: 1})}
}

// durabilities are the ways to write the log: one of them, both in make test-e2e. Crash tests
// open many stores, and small tables make an open cheap.
func durabilities() map[string]func(*store.Options) {
	all := map[string]func(*store.Options){"synced": store.SmallMemTables}
	if isLong() {
		all["async"] = func(o *store.Options) {
			store.SmallMemTables(o)
			o.Async = true
		}
	}
	return all
}

const (
	learned = 700 // More ids than one portion.
	kept    = 300
)

// learnedModel is a model with one id for each sequence, whose value is the
// sequence.
func learnedModel(t *testing.T, s *store.Store, name string) {
	t.Helper()
	m := create(t, s, name)
	for first := 1; first <= learned; first += 100 {
		var ids []storage.ID
		for n := first; n < first+100; n++ {
			ids = append(ids, storage.ID{ID: strconv.Itoa(n), At: time.Unix(int64(n), 0), Value: []byte(strconv.Itoa(n))})
		}
		r := storage.Record{First: uint64(first), Last: uint64(first + 99), Data: []byte("record")}
		require.NoError(t, errors.Join(m.Append(t.Context(), storage.Commit{Record: r, IDs: ids}), m.WriteSnapshot(r.Last, []byte("state"))))
	}
	require.NoError(t, s.Sync(t.Context()))
}

func idsOf(t *testing.T, m storage.Model) (sequences []int) {
	t.Helper()
	if err := m.EachID(t.Context(), func(e storage.ID) error {
		n, err := strconv.Atoi(string(e.Value))
		sequences = append(sequences, n)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(sequences)
	return sequences
}

// wantState fails the test unless a model is as it was after so many
// observations. The record that holds the last may have been cut.
func wantState(t *testing.T, m storage.Model, sequence int) {
	t.Helper()
	if last, err := m.Last(); err != nil || last != uint64(sequence) {
		t.Errorf("the log ends at %d, %v; want %d", last, err, sequence)
	}
	replayed(t, m)
	got := idsOf(t, m)
	assert.True(t, len(got) == sequence && got[len(got)-1] == sequence, "%d ids, want %d", len(got), sequence)
	kept, err := m.Snapshots()
	assert.True(t, err == nil && len(kept) == sequence/100 && kept[0] == uint64(sequence/100*100), "snapshots %v, %v", kept, err)
}

// cutPower cuts the power at every moment of an operation on a store with these models, in each durability and with and
// without a position. It fails the test unless every outcome is that of a cut. The function some chooses the cuts.
func cutPower[K comparable](
	t *testing.T, models []string, do func(ctx context.Context, s *store.Store) error,
	some func(*rand.Rand, []*vfs.MemFS) []*vfs.MemFS, outcome func(*testing.T, vfs.FS, func(*store.Options)) K, outcomes ...K,
) {
	t.Helper()
	oneGoroutine(t)
	for name, set := range durabilities() {
		for at, ctx := range contexts(t) {
			t.Run(name+at, func(t *testing.T) {
				rng, disk := seeded(t), vfs.NewCrashableMem()
				s := open(t, disk, set) //nolint:contextcheck // It has no context.
				for _, m := range models {
					learnedModel(t, s, m) //nolint:contextcheck // It has no context.
				}
				closed(t, s)
				all := crashes(t, disk, rng, set, func(s *store.Store) { //nolint:contextcheck // It has no context.
					require.NoError(t, do(ctx, s))
				})
				counts := map[K]int{}
				for n, left := range some(rng, all) {
					counts[outcome(t, left, set)]++
					require.False(t, t.Failed(), "at cut %d", n)
				}
				t.Log(counts)
				for _, o := range outcomes {
					assert.True(t, counts[o] != 0, "no power cut left %v", o)
				}
			})
		}
	}
}

// everyCut are all cuts.
func everyCut(_ *rand.Rand, all []*vfs.MemFS) []*vfs.MemFS { return all }

// A crash anywhere in Rewind: the model is as it was, or its intention is there
// and the log as far as the sequence, or it is done; the same call completes it.
func TestRewindCrashes(t *testing.T) {
	const sequence = kept + 50 // Inside a record.
	back := storage.Rewind{
		Sequence: sequence,
		Last:     &storage.Record{First: kept + 1, Last: sequence, Data: []byte("cut")},
		Undone: func(value []byte) bool {
			n, err := strconv.Atoi(string(value))
			return err == nil && n > sequence
		},
	}
	rewind := func(ctx context.Context, s *store.Store) error { return find(t, s, "m").Rewind(ctx, back) } //nolint:contextcheck // find has no context.
	cutPower(t, []string{"m", "other"}, rewind, everyCut, func(t *testing.T, left vfs.FS, set func(*store.Options)) string {
		t.Helper()
		return rewindOutcome(t, left, set, back)
	}, "as it was", "rewinding", "done")
}

func rewindOutcome(t *testing.T, left vfs.FS, set func(*store.Options), back storage.Rewind) (outcome string) {
	t.Helper()
	s := open(t, left, set)
	defer closed(t, s)
	var m storage.Model
	if err := s.Models(t.Context(), func(e storage.RegistryEntry) error {
		switch {
		case e.Err != nil:
			return e.Err
		case e.Name != "m":
			assert.Nil(t, e.Rewinding, "entry %+v", e)
			wantState(t, e.Model, learned)
			return nil
		case e.Rewinding != nil && *e.Rewinding != back.Sequence:
			t.Errorf("rewinding to %d", *e.Rewinding)
		case e.Rewinding != nil:
			outcome = "rewinding"
		}
		m = e.Model
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	last := must(m.Last())(t)
	switch {
	case outcome == "rewinding":
		records := replayed(t, m)
		assert.True(t, records[0].First == 1 && records[len(records)-1].Last == learned, "the log is from %d to %d", records[0].First, records[len(records)-1].Last)
		ahead := back
		ahead.Sequence, ahead.Last = back.Sequence+1, nil
		assert.Error(t, m.Rewind(t.Context(), ahead), "another rewind was taken before the first was completed")
	case last == learned:
		outcome = "as it was"
		wantState(t, m, learned)
		return outcome
	default:
		outcome = "done"
		wantState(t, m, int(back.Sequence))
	}
	require.NoError(t, m.Rewind(t.Context(), back))
	wantState(t, m, int(back.Sequence))
	if err := s.Models(t.Context(), func(e storage.RegistryEntry) error {
		assert.Nil(t, e.Rewinding, "entry %+v of a rewind that was completed", e)
		return nil
	}); err != nil {
		t.Error(err)
	}
	return outcome
}

// A crash anywhere in Import leaves all of the model or nothing; what is left
// is in no later model, and not counted.
func TestImportCrashes(t *testing.T) {
	from := storage.Import{Sequence: learned, Snapshot: []byte("state")}
	for n := 1; n <= 1100; n++ { // More than one portion.
		from.IDs = append(from.IDs, storage.ID{ID: strconv.Itoa(n), At: time.Unix(int64(n), 0), Value: []byte(strconv.Itoa(n))})
		from.Pending = append(from.Pending, storage.Prediction{ID: strconv.Itoa(n), Expiry: time.Unix(int64(n), 0)})
	}
	imported := func(ctx context.Context, s *store.Store) error {
		return errOf(s.Import(ctx, "m", []byte("value"), from))
	}
	// Most writes are of ids and predictions, so the test crashes only before some of them.
	some := func(rng *rand.Rand, all []*vfs.MemFS) []*vfs.MemFS {
		last := len(all) - 15
		rng.Shuffle(last, func(i, j int) { all[i], all[j] = all[j], all[i] })
		return all[max(0, last-times(8, 30)):]
	}
	cutPower(t, []string{"other"}, imported, some, func(t *testing.T, left vfs.FS, set func(*store.Options)) bool {
		t.Helper()
		return importOutcome(t, left, set, from)
	}, true, false)
}

func importOutcome(t *testing.T, left vfs.FS, set func(*store.Options), from storage.Import) (there bool) {
	t.Helper()
	s := open(t, left, set)
	defer closed(t, s)
	if err := s.Models(t.Context(), func(e storage.RegistryEntry) error {
		if e.Name == "other" {
			wantState(t, e.Model, learned)
			return e.Err
		}
		there = true
		last, err1 := e.Model.Last()
		state, err2 := e.Model.ReadSnapshot(from.Sequence)
		err := errors.Join(e.Err, err1, err2)
		assert.True(t, err == nil && last == from.Sequence && string(state) == "state" && string(e.Value) == "value", "the log ends at %d, snapshot %q, value %q, %v", last, state, e.Value, err)
		if got := idsOf(t, e.Model); len(got) != len(from.IDs) || e.Model.CountPending() != int64(len(from.Pending)) {
			t.Errorf("%d ids, %d wait, want %d", len(got), e.Model.CountPending(), len(from.IDs))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	counted := learned
	if there {
		counted += len(from.IDs)
	}
	assert.Equal(t, counted, s.Metrics().RememberedIDs)
	for n := range 3 { // Whatever numbers they get.
		m := create(t, s, fmt.Sprint("new", n))
		last, err1 := m.Last()
		kept, err2 := m.Snapshots()
		err := errors.Join(err1, err2)
		assert.True(t, err == nil && last == 0 && len(kept) == 0 && m.CountPending() == 0 && len(idsOf(t, m)) == 0, "a new model's log ends at %d, snapshots %v, %v", last, kept, err)
	}
	return there
}

// A crash anywhere in Delete leaves all of the model or nothing.
func TestDeleteCrashes(t *testing.T) {
	remove := func(ctx context.Context, s *store.Store) error { return find(t, s, "m").Delete(ctx) } //nolint:contextcheck // find has no context.
	cutPower(t, []string{"m", "other"}, remove, everyCut, deleteOutcome, true, false)
}

func deleteOutcome(t *testing.T, left vfs.FS, set func(*store.Options)) (there bool) {
	t.Helper()
	s := open(t, left, set)
	defer closed(t, s)
	models := 0
	if err := s.Models(t.Context(), func(e storage.RegistryEntry) error {
		models++
		wantState(t, e.Model, learned)
		there = there || e.Name == "m"
		return e.Err
	}); err != nil {
		t.Fatal(err)
	}
	assert.Equal(t, models*learned, s.Metrics().RememberedIDs, models)
	return there
}

// A power cut at any write leaves all commits of a call or none. A commit that does not continue its log, and the commit of a
// deleted model, are answered alone.
func TestAppendsOfManyModels(t *testing.T) {
	disk, rng := vfs.NewCrashableMem(), seeded(t)
	names := []string{"a", "b", "late", "gone", "c"}
	all := crashes(t, disk, rng, store.SmallMemTables, func(s *store.Store) {
		var appends []*storage.Append
		for n, name := range names {
			c := commit(1, storage.ID{ID: name, At: time.Unix(int64(n), 0), Value: []byte("1")})
			appends = append(appends, &storage.Append{Model: create(t, s, name), Commit: c})
		}
		require.NoError(t, errors.Join(appends[2].Model.Append(t.Context(), commit(1)), appends[3].Model.Delete(t.Context())))
		s.AppendAll(t.Context(), appends)
		for n, want := range []error{nil, nil, storage.ErrRejected, storage.ErrDeleted, nil} {
			assert.ErrorIs(t, appends[n].Err, want, names[n])
		}
	})
	seen := map[int]int{}
	for _, left := range all {
		s := open(t, left, store.SmallMemTables)
		records, ids := 0, 0
		assert.NoError(t, s.Models(t.Context(), func(e storage.RegistryEntry) error {
			if ids += len(idsOf(t, e.Model)); e.Name != "late" {
				records += len(replayed(t, e.Model))
			}
			return nil
		}))
		assert.Equal(t, records, ids)
		seen[records]++
		closed(t, s)
	}
	assert.True(t, len(seen) == 2 && seen[0] > 0 && seen[3] > 0, "cuts by their records: %v", seen)
}
