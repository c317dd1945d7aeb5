package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	commands "hindsight/internal/cluster/command"
	"hindsight/internal/engine"
	"hindsight/internal/engine/record"
	"hindsight/internal/engine/recovery"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/snapshot"
	"hindsight/internal/offline/check"
	"hindsight/internal/store"
)

// damaged is a store of two models with three snapshots each, of which m has
// learned 50 observations in records of one.
func damaged(t *testing.T) (*vfs.MemFS, *clock) {
	t.Helper()
	fs, c := newFS(), newClock()
	for from := 0; from < 50; from += 10 {
		h := startOn(t, fs, c)
		h.create(t, "m", linear(2))
		h.create(t, "other", linear(1))
		feed(t, h, from, from+10)
		h.observe(t, "other", engine.Observation{Features: []float64{1}, Labels: []float64{1}})
		h.stop(t)
	}
	h := startOn(t, fs, c)
	feed(t, h, 50, 60)
	h.predict(t, "m", 1, 2)
	h.stop(t)
	return fs, c
}

// edit changes keys of the log database behind the store's back.
func edit(t *testing.T, fs vfs.FS, change func(db *pebble.DB) error) {
	t.Helper()
	db := must(pebble.Open(dataDir+"/log", &pebble.Options{FS: fs, FormatMajorVersion: pebble.FormatNewest, Logger: silent{}}))(t)
	require.NoError(t, errors.Join(change(db), db.Close()))
}

type silent struct{}

func (silent) Infof(string, ...any)              {}
func (silent) Errorf(string, ...any)             {}
func (silent) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func logKey(sequence byte) []byte {
	k := make([]byte, 17)
	k[0], k[8], k[16] = 'l', 1, sequence
	return k
}

func look(t *testing.T, fs vfs.FS) ([]check.Finding, check.Checked) {
	t.Helper()
	s, waiting, err := store.Inspect(dataDir, store.Options{FS: fs})
	require.NoError(t, err)
	assert.NoError(t, waiting)
	s.Verify(func(problem error) { t.Error(problem) }, nil)
	findings, checked, err := check.Store(context.Background(), s, check.Options{})
	require.NoError(t, errors.Join(err, s.Close()))
	return findings, checked
}

func repair(t *testing.T, fs vfs.FS) []check.Finding {
	t.Helper()
	s := must(store.Open(dataDir, store.Options{FS: fs}))(t)
	findings, _, err := check.Store(context.Background(), s, check.Options{Repair: true})
	require.NoError(t, errors.Join(err, s.Close()))
	return findings
}

func TestCheckOfAWholeStore(t *testing.T) {
	fs, _ := damaged(t)
	findings, checked := look(t, fs)
	assert.LessOrEqual(t, len(findings), 0, "%+v", findings)
	assert.True(t, checked.Models == 2 && checked.Snapshots == 6 && checked.Observations == 65 && checked.IDs == 60 && checked.Pending == 1, "%+v", checked)
}

// Aliases that the server does not serve are found and removed. One of a model that is
// gone is told, and kept.
func TestCheckOfAliases(t *testing.T) {
	fs, clock := damaged(t)
	for name, model := range map[string]string{"good": "m", "broken": "m", "gone": "m"} {
		h := startOn(t, fs, clock)
		must(h.SetAlias(t.Context(), name, model, ""))(t)
		h.stop(t)
	}
	gone := record.Alias{Model: record.Ref{ID: "nobody", Created: 1}, Updated: 1}
	edit(t, fs, func(db *pebble.DB) error {
		return errors.Join(
			db.Set([]byte("xbroken"), []byte{9}, pebble.Sync), db.Set([]byte("xgone"), gone.Encode(), pebble.Sync),
			db.Set([]byte("xother"), (&record.Alias{Model: record.Ref{ID: "m", Created: 1}, Updated: 1}).Encode(), pebble.Sync),
		)
	})
	places := func(findings []check.Finding) (all []string) {
		for _, f := range findings {
			all = append(all, f.Place+": "+f.Repaired)
		}
		return all
	}
	findings, checked := look(t, fs)
	got, want := places(findings), []string{`the alias "broken": `, `the alias "gone": `, `the alias "other": `}
	assert.True(t, slices.Equal(got, want) && checked.Aliases == 4, "found %q of %d aliases, want %q", got, checked.Aliases, want)
	got, want = places(repair(t, fs)), []string{`the alias "broken": removed`, `the alias "gone": `, `the alias "other": removed`}
	assert.True(t, slices.Equal(got, want), "repaired %q, want %q", got, want)
	if findings, checked := look(t, fs); len(findings) != 1 || checked.Aliases != 2 {
		t.Errorf("left %q of %d aliases", places(findings), checked.Aliases)
	}
}

// What keeps a model from being recovered is found and named; cut away, the
// model goes on with what is before it, and no other is touched.
func TestCheckFindsAndRepairs(t *testing.T) {
	all := []string{"40", "50", "60"} // The snapshots of m.
	spoilFrom := func(n int) func(t *testing.T, fs vfs.FS) {
		return func(t *testing.T, fs vfs.FS) {
			t.Helper()
			spoilSnapshots(t, fs, all[n:])
		}
	}
	for name, c := range map[string]struct {
		spoil    func(t *testing.T, fs vfs.FS)
		rejected bool
		says     string
		left     uint64
	}{
		"newest snapshot": {spoilFrom(2), false, "00060.hs", 60},
		"two snapshots":   {spoilFrom(1), false, "00050.hs", 60},
		"record after the snapshots": {func(t *testing.T, fs vfs.FS) {
			t.Helper()
			spoilSnapshots(t, fs, all[1:])
			edit(t, fs, func(db *pebble.DB) error { return flip(db, logKey(53)) })
		}, true, "sequence 53", 52},
		"gap": {func(t *testing.T, fs vfs.FS) {
			t.Helper()
			spoilSnapshots(t, fs, all[2:])
			edit(t, fs, func(db *pebble.DB) error { return db.Delete(logKey(55), pebble.Sync) })
		}, true, "sequence 55", 54},
		"record before the snapshot": {func(t *testing.T, fs vfs.FS) {
			t.Helper()
			edit(t, fs, func(db *pebble.DB) error { return flip(db, logKey(45)) })
		}, false, "", 60},
		"log behind": {func(t *testing.T, fs vfs.FS) {
			t.Helper()
			edit(t, fs, func(db *pebble.DB) error { return db.DeleteRange(logKey(56), logKey(100), pebble.Sync) })
		}, true, "sequence 55", 60},
		"all snapshots": {spoilFrom(0), true, "sequence 1 ", 0},
		"id": {func(t *testing.T, fs vfs.FS) {
			t.Helper()
			edit(t, fs, func(db *pebble.DB) error {
				return db.Set(append([]byte{'s', 0, 0, 0, 0, 0, 0, 0, 1}, "o-59"...), make([]byte, 9), pebble.Sync)
			})
		}, false, `"o-59"`, 60},
	} {
		t.Run(name, func(t *testing.T) {
			fs, clock := damaged(t)
			c.spoil(t, fs)
			findings, _ := look(t, fs)
			found, rejected := c.says == "", false
			for _, f := range findings {
				found = found || strings.Contains(f.Place+" ", c.says)
				rejected = rejected || f.Rejected
				assert.True(t, f.Model == "m" && f.Repaired == "" && f.Meaning != "" && f.Problem != "", "%+v", f)
			}
			assert.True(t, found && rejected == c.rejected && (c.says == "") == (len(findings) == 0), "found %+v", findings)
			for _, f := range repair(t, fs) {
				assert.True(t, f.Repaired != "", "not repaired: %+v", f)
			}
			findings, _ = look(t, fs)
			assert.True(t, len(findings) == 0, "after the repair %+v", findings)
			h := startOn(t, fs, clock)
			assert.EqualValues(t, 5, h.stats(t, "other").Observations)
			s := h.stats(t, "m")
			require.Equal(t, c.left, s.Observations)
			want := startOn(t, newFS(), newClock())
			want.create(t, "m", linear(2))
			feed(t, want, 0, int(c.left))
			assert.True(t, s.Digest == want.stats(t, "m").Digest, "what is left is not what was learned")
			feed(t, h, int(c.left), 70)
			assert.EqualValues(t, 70, h.stats(t, "m").Observations)
		})
	}
}

// flip changes a bit of the last byte of a value.
func flip(db *pebble.DB, key []byte) error {
	v, closer, err := db.Get(key)
	if err != nil {
		return fmt.Errorf("read %x: %w", key, err)
	}
	changed := append([]byte(nil), v...)
	changed[len(changed)-1] ^= 1
	return errors.Join(closer.Close(), db.Set(key, changed, pebble.Sync))
}

func spoilSnapshots(t *testing.T, fs vfs.FS, sequences []string) {
	t.Helper()
	dir := dataDir + "/snapshots/1"
	names := must(fs.List(dir))(t)
	for _, sequence := range sequences {
		done := false
		for _, name := range names {
			if strings.HasSuffix(name, "0"+sequence+".hs") {
				spoil(t, fs, dir+"/"+name)
				done = true
			}
		}
		require.True(t, done, "no snapshot %s among %v", sequence, names)
	}
}

func TestInspectRejects(t *testing.T) {
	fs := newFS()
	_, _, err := store.Inspect(dataDir, store.Options{FS: fs})
	assert.ErrorIs(t, err, store.ErrNotThere)
	names, err := fs.List("/")
	assert.True(t, err == nil && len(names) == 0, "it made %v, %v", names, err)
	h := startOn(t, fs, newClock())
	_, _, err = store.Inspect(dataDir, store.Options{FS: fs})
	assert.ErrorIs(t, err, store.ErrInUse)
	h.stop(t)
}

// The digests of servers differ if and only if a bit of what a caller sees differs: of the state, the account, the history,
// an id, a pending prediction or the metadata. It does not matter whether the owner or another server is wrong.
func TestDigestsFindABit(t *testing.T) {
	t.Parallel()
	flipped := func(part func(*snapshot.Snapshot) []byte) func(t *testing.T, v *server, waits string) {
		return func(t *testing.T, v *server, _ string) {
			t.Helper()
			v.flip(t, part)
		}
	}
	for name, c := range map[string]struct {
		flip  func(t *testing.T, v *server, waits string)
		state bool // The digest of the state differs, the digest of the rows does not.
	}{
		"nothing":     {func(*testing.T, *server, string) {}, false},
		"the state":   {flipped(func(s *snapshot.Snapshot) []byte { return s.Learner }), true},
		"the account": {flipped(func(s *snapshot.Snapshot) []byte { return s.Account }), true},
		"the history": {flipped(func(s *snapshot.Snapshot) []byte { return s.History }), true},
		"an id": {func(t *testing.T, v *server, _ string) {
			t.Helper()
			value, ok, err := v.stored().ID("o3")
			require.True(t, err == nil && ok, "%v %v", ok, err)
			value[len(value)-1] ^= 1
			at := v.clock.now()
			require.NoError(t, v.stored().PutIDs(t.Context(), []storage.ID{{ID: "o3", At: at, Value: value}}))
		}, false},
		"a pending prediction": {func(t *testing.T, v *server, waits string) {
			t.Helper()
			p, ok, err := v.stored().GetPending(waits)
			require.True(t, err == nil && ok, "%v %v", ok, err)
			p.Value[len(p.Value)-1] ^= 1
			require.NoError(t, v.stored().PutPending([]storage.Prediction{p}))
		}, false},
		"the metadata": {func(t *testing.T, v *server, _ string) {
			t.Helper()
			value, err := v.stored().Value()
			if err == nil {
				value[len(value)-1] ^= 1
				err = v.stored().SetValue(t.Context(), value)
			}
			require.NoError(t, err)
		}, false},
	} {
		for wrong, place := range map[string]int{"the owner": 0, "another server": 1} {
			t.Run(fmt.Sprintf("%s of %s", name, wrong), func(t *testing.T) {
				t.Parallel()
				s := startServers(t, 3)
				a := s.all[0]
				a.host.create(t, "m", taylor(2, 2))
				for n := range 30 {
					a.host.observe(t, "m", one(fmt.Sprint("o", n), float64(n%7), 1)...)
				}
				waits := a.host.predict(t, "m", 1, 2).ID
				s.equal()
				c.flip(t, s.all[place], waits)
				got := s.digests("m")
				for n, d := range got {
					require.True(t, len(got) == 3 && d.Rows != "" && d.State != "", "digests %+v", got)
					want := n == place && name != "nothing" && !c.state
					assert.Equal(t, want, (d.Rows != got[2].Rows), "the rows of server %d differ: %v", n, !want)
					want = n == place && c.state
					assert.Equal(t, want, (d.State != got[2].State), "the state of server %d differs: %v", n, !want)
				}
				counted := int64(0)
				for _, v := range s.all {
					counted += v.host.Totals().DigestMismatches.Load()
				}
				assert.True(t, (counted > 0) == (name != "nothing"), "%d mismatches are counted", counted)
			})
		}
	}
}

// A server digests its state at the sequence of a check although more records follow at once, and does not digest a state
// that a restore undoes.
func TestDigestAtASequence(t *testing.T) {
	s := startServers(t, 2)
	a, b := s.all[0], s.all[1]
	a.host.create(t, "m", linear(1))
	a.host.observe(t, "m", one("a", 1)...)
	s.equal()
	b.pause(true)
	require.NoError(t, a.host.CheckModel("m"))
	for n := range 20 {
		a.host.observe(t, "m", one(strconv.Itoa(n), 1)...)
	}
	b.pause(false)
	s.equal()
	d := b.host.Digest("m", a.checked.index, a.checked.own)
	assert.True(t, d == a.checked.own && d.State != "", "%+v, the owner has %+v", d, a.checked.own)
	b.pause(true)
	require.NoError(t, a.host.CheckModel("m"))
	check := a.checked
	must(a.host.RestoreModel(t.Context(), "m", 3))(t)
	for n := range 20 {
		a.host.observe(t, "m", one(fmt.Sprint("again", n), 2)...)
	}
	b.pause(false)
	s.equal()
	d = b.host.Digest("m", check.index, storage.Digest{})
	assert.True(t, (d.State == "" || d.State == check.own.State) && d.Rows == check.own.Rows, "%+v, the owner had %+v", d, check.own)
}

// A large model is checked in parts.
func TestCheckInParts(t *testing.T) {
	s := startServers(t, 2, func(o *engine.Options) { o.Check = time.Millisecond })
	a := s.all[0]
	a.host.create(t, "m", linear(1))
	rows := make([]engine.Observation, 1000)
	for part := range 5 {
		for n := range rows {
			rows[n] = engine.Observation{ObservationID: fmt.Sprint(part, "-", n), Features: []float64{1}, Labels: []float64{2}}
		}
		a.host.observe(t, "m", rows...)
	}
	a.host.create(t, "n", linear(1))
	waitFor(t, a.host, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return a.checked.model == "n"
	})
	var parts []string
	for _, c := range s.commands() {
		if c.Kind == commands.Digest {
			parts = append(parts, c.From)
		}
	}
	assert.True(t, slices.ContainsFunc(parts, func(from string) bool { return from > "1" && from < "4" }), "the checks begin at %q", parts)
}

// flipped returns a snapshot with another bit in a part, which can be read.
func (v *server) flipped(t *testing.T, data []byte, part func(*snapshot.Snapshot) []byte) []byte {
	t.Helper()
	m := v.stored()
	source, _, err := recovery.DecodeRegistryEntry(storage.RegistryEntry{Name: "m", Value: must(m.Value())(t), Model: m}, catalog.New)
	require.NoError(t, err)
	for at := 1; ; at++ { // Not every bit gives a state that can be read.
		s := must(snapshot.Decode(slices.Clone(data)))(t)
		bytes := part(&s)
		bytes[len(bytes)-at] ^= 1
		s.Digest = snapshot.Digest(s.Learner)
		flipped := must(snapshot.Encode(s))(t)
		if source.Check(s.Sequence, flipped, s.Digest) == nil {
			return flipped
		}
	}
}

// flip flips a bit of a part of a server's state, as a fault of its memory does.
func (v *server) flip(t *testing.T, part func(*snapshot.Snapshot) []byte) {
	t.Helper()
	must(v.host.SnapshotModel(t.Context(), "m"))(t)
	m := v.stored()
	sequences := must(m.Snapshots())(t)
	data := must(m.ReadSnapshot(sequences[0]))(t)
	require.True(t, v.host.Hibernate("m"), "the model stays in memory")
	require.NoError(t, m.WriteSnapshot(sequences[0], v.flipped(t, data, part)))
	if _, err := v.host.Predict(t.Context(), "m", vectors([]float64{1, 2}), engine.PredictOptions{}); err != nil { // It loads the model.
		t.Fatal(err)
	}
}
