package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"hindsight/internal/engine/storage"
)

func (s suite) ids(t *testing.T) {
	b := s.open(t)
	m, other := create(t, b.Store, "m"), create(t, b.Store, "other")
	must(t, m.PutIDs(t.Context(), []storage.ID{id("a", 1), id("b", 2)}), m.PutIDs(t.Context(), nil))
	must(t, m.PutIDs(t.Context(), []storage.ID{id("a", 5), id("c", 3), id("c", 4), id("", 9)})) // Anew, and twice in one call.
	must(t, m.Append(t.Context(), storage.Commit{Record: record(1, 1), IDs: []storage.ID{id("d", 6), {ID: "e", At: at(7)}}}))
	must(t, other.PutIDs(t.Context(), []storage.ID{id("a", 8)}))
	must(t, b.Store.Sync(t.Context()))
	for range 2 {
		wantIDs(t, m, id("a", 5), id("b", 2), id("c", 4), id("d", 6), storage.ID{ID: "e", At: at(7)}, id("", 9))
		wantIDs(t, other, id("a", 8))
		for _, unknown := range []string{"x", "aa", strings.Repeat("x", storage.MaxID+1)} {
			if value, ok, err := m.ID(unknown); ok || err != nil || value != nil {
				t.Errorf("the id %q gives %q, %v", unknown, value, err)
			}
		}
		b = b.Cut(t)
		m, other = find(t, b.Store, "m"), find(t, b.Store, "other")
	}
	// None of them is forgotten by an age that it had before.
	must(t, b.Store.Forget(t.Context(), at(5), 0))
	wantIDs(t, m, id("a", 5), id("d", 6), storage.ID{ID: "e", At: at(7)}, id("", 9))
}

func (s suite) idsDurable(t *testing.T) {
	b := s.open(t)
	m, other := create(t, b.Store, "m"), create(t, b.Store, "other")
	must(t, m.PutIDs(t.Context(), []storage.ID{id("a", 1)}))
	appended(t, other, record(1, 1)) // Any model's.
	if b.Replicated {
		must(t, m.WriteSnapshot(0, nil))
	}
	b = b.Cut(t)
	wantIDs(t, find(t, b.Store, "m"), id("a", 1))
}

func (s suite) forget(t *testing.T) {
	b := s.open(t)
	m, other := create(t, b.Store, "m"), create(t, b.Store, "other")
	const many = 1000 // More than one portion of a sweep.
	var mine, others []storage.ID
	for n := range int64(many) {
		mine, others = append(mine, id(fmt.Sprint("id", n), 2*n)), append(others, id(fmt.Sprint("id", n), 2*n+1))
	}
	must(t, m.PutIDs(t.Context(), mine), other.PutIDs(t.Context(), others))
	must(t, b.Store.Forget(t.Context(), at(0), 0), b.Store.Forget(t.Context(), at(5000), 2*many))
	wantIDs(t, m, mine...)
	must(t, b.Store.Forget(t.Context(), at(7), 0)) // 7 itself is not before 7.
	wantIDs(t, m, mine[4:]...)
	wantIDs(t, other, others[3:]...)
	must(t, b.Store.Forget(t.Context(), at(5000), 101))
	wantIDs(t, m, mine[many-50:]...)
	wantIDs(t, other, others[many-51:]...)
	must(t, b.Store.Forget(t.Context(), at(1900), 0))
	must(t, b.Store.Sync(t.Context()))
	b = b.Cut(t)
	wantIDs(t, find(t, b.Store, "m"), mine[many-50:]...)
	must(t, b.Store.Forget(t.Context(), at(5000), 0))
	wantIDs(t, find(t, b.Store, "m"))
	wantIDs(t, find(t, b.Store, "other"))
}

func (s suite) longIDs(t *testing.T) {
	b := s.open(t)
	m := create(t, b.Store, "m")
	longest, tooLong := strings.Repeat("x", storage.MaxID), strings.Repeat("x", storage.MaxID+1)
	must(t, m.PutIDs(t.Context(), []storage.ID{id(longest, 1)}), m.PutPending([]storage.Prediction{prediction(longest, 1)}))
	for what, err := range map[string]error{
		"ids":     m.PutIDs(t.Context(), []storage.ID{id("a", 1), id(tooLong, 1)}),
		"append":  m.Append(t.Context(), storage.Commit{Record: record(1, 1), IDs: []storage.ID{id(tooLong, 1)}}),
		"waiting": m.PutPending([]storage.Prediction{prediction("a", 1), prediction(tooLong, 1)}),
		"minted":  m.PutPending([]storage.Prediction{{ID: tooLong, Minted: true}}),
	} {
		t.Run(what, func(t *testing.T) { wrapped(t, err, storage.ErrInvalidID, "m") })
	}
	wantIDs(t, m, id(longest, 1))
	wantPending(t, m, prediction(longest, 1))
	wantLog(t, m, 0)
}

func (s suite) pending(t *testing.T) {
	b := s.open(t)
	m, other := create(t, b.Store, "m"), create(t, b.Store, "other")
	must(t, m.PutPending([]storage.Prediction{prediction("a", 1), prediction("b", 2)}), m.PutPending(nil))
	must(t, m.PutPending([]storage.Prediction{prediction("a", 9)})) // In place of the first.
	must(t, other.PutPending([]storage.Prediction{prediction("a", 5)}))
	must(t, m.RemovePending([]string{"b", "nobody"}), m.RemovePending(nil))
	must(t, b.Store.Sync(t.Context()))
	for range 2 {
		wantPending(t, m, prediction("a", 9))
		wantPending(t, other, prediction("a", 5))
		if p, ok, err := m.GetPending("b"); ok || err != nil {
			t.Errorf("b waits: %+v, %v", p, err)
		}
		b = b.Cut(t)
		m, other = find(t, b.Store, "m"), find(t, b.Store, "other")
	}
}

func (s suite) pendingSurvives(t *testing.T) {
	b := s.open(t)
	m := create(t, b.Store, "m")
	minted := prediction("minted", 9)
	minted.Minted = true
	must(t, m.PutPending([]storage.Prediction{prediction("a", 1), minted}))
	b = b.Kill(t)
	m = find(t, b.Store, "m")
	wantPending(t, m, prediction("a", 1), prediction("minted", 9))
	must(t, m.PutPending([]storage.Prediction{prediction("a", 3)}))
	wantPending(t, m, prediction("a", 3), prediction("minted", 9))
}

func (s suite) pendingCount(t *testing.T) {
	b := s.open(t)
	m := create(t, b.Store, "m")
	count := func(want int64) {
		t.Helper()
		if got := m.CountPending(); got != want {
			t.Errorf("%d are counted, want %d", got, want)
		}
	}
	must(t, m.PutPending([]storage.Prediction{prediction("a", 1), prediction("a", 2), prediction("a", 3)}))
	count(1)
	must(t, m.PutPending([]storage.Prediction{prediction("a", 3), prediction("b", 4), {ID: "c", Expiry: at(5), Minted: true}}))
	count(3)
	must(t, m.RemovePending([]string{"a", "a", "x", "b", "a"}))
	count(1)
	must(t, m.RemovePending([]string{"a"}), b.Store.Expire(t.Context(), at(4), func(storage.Model) { t.Error("expired") }))
	count(1)
	// Used again between its expiry and the sweep.
	must(t, m.PutPending([]storage.Prediction{prediction("c", 7)}), b.Store.Expire(t.Context(), at(6), func(storage.Model) { t.Error("expired") }))
	count(1)
	must(t, b.Store.Expire(t.Context(), at(7), func(storage.Model) {}), b.Store.Expire(t.Context(), at(7), func(storage.Model) { t.Error("expired twice") }))
	count(0)
	must(t, m.PutPending([]storage.Prediction{prediction("c", 7), prediction("d", 7)}), b.Store.Sync(t.Context()))
	b = b.Cut(t)
	m = find(t, b.Store, "m")
	count(2)
}

// Calls for the same few ids at once: in the end as many are counted as the store
// has, and between them the count is possible.
func (s suite) pendingAtOnce(t *testing.T) {
	b := s.open(t)
	seed := newSeed(t)
	models := []storage.Model{create(t, b.Store, "m"), create(t, b.Store, "other")}
	const callers, ids = 8, 5
	calls := 150
	if testing.Short() {
		calls = 40
	}
	var minted, expired atomic.Int64
	var group sync.WaitGroup
	for caller := range callers {
		rng := rand.New(rand.NewPCG(seed, uint64(caller)))
		group.Go(func() {
			for n := range calls {
				m, now := models[rng.IntN(2)], int64(n)
				name := func() string { return strconv.Itoa(rng.IntN(ids)) }
				var err error
				switch rng.IntN(4) {
				case 0:
					err = m.PutPending([]storage.Prediction{prediction(name(), now+rng.Int64N(3)), prediction(name(), now)})
				case 1:
					unique := prediction(fmt.Sprint("minted", minted.Add(1)), now)
					unique.Minted = true
					err = m.PutPending([]storage.Prediction{unique, prediction(name(), now)})
				case 2:
					err = m.RemovePending([]string{name(), name(), fmt.Sprint("minted", minted.Load())})
				default:
					err = b.Store.Expire(t.Context(), at(now), func(storage.Model) { expired.Add(1) })
				}
				if err != nil {
					t.Error(err)
					return
				}
				if count := m.CountPending(); count < 0 {
					t.Errorf("%d are counted", count)
				}
			}
		})
	}
	group.Wait()
	for _, m := range models {
		there := int64(0)
		must(t, m.EachPending(t.Context(), func(storage.Prediction) error { there++; return nil }))
		if count := m.CountPending(); count != there {
			t.Errorf("%d are counted, %d are there", count, there)
		}
	}
	if expired.Load() == 0 {
		t.Error("nothing expired")
	}
}

func (s suite) expire(t *testing.T) {
	b := s.open(t)
	m, other := create(t, b.Store, "m"), create(t, b.Store, "other")
	const many = 600 // More than one portion of a sweep.
	var rows []storage.Prediction
	for n := range int64(many) {
		rows = append(rows, prediction(fmt.Sprint("w", n), n))
	}
	must(t, m.PutPending(rows), other.PutPending(rows[:10]))
	due := func(now int64) map[storage.Model]int {
		t.Helper()
		out := map[storage.Model]int{}
		must(t, b.Store.Expire(t.Context(), at(now), func(m storage.Model) {
			out[m]++
			m.CountPending() // It may be asked, and asks for no lock that is held.
		}))
		return out
	}
	if got := due(4); len(got) != 2 || got[m] != 5 || got[other] != 5 { // 4 itself is not after 4.
		t.Errorf("expired %v", got)
	}
	wantPending(t, m, rows[5:]...)
	wantPending(t, other, rows[5:10]...)
	if got := due(many - 2); got[m] != many-6 || got[other] != 5 {
		t.Errorf("expired %v", got)
	}
	must(t, b.Store.Sync(t.Context()))
	b = b.Cut(t)
	wantPending(t, find(t, b.Store, "m"), rows[many-1])
	wantPending(t, find(t, b.Store, "other"))
}

func (s suite) syncDurable(t *testing.T) {
	b := s.open(t)
	m := create(t, b.Store, "m")
	filled(t, m)
	must(t, b.Store.Sync(t.Context()))
	b = b.Cut(t)
	wantFilled(t, find(t, b.Store, "m"))
}

func (s suite) snapshots(t *testing.T) {
	b := s.open(t)
	m, other := create(t, b.Store, "m"), create(t, b.Store, "other")
	wantSnapshots(t, m)
	state := bytes.Repeat([]byte("0123456789"), 100_000)
	must(t, m.WriteSnapshot(5, []byte("old")), m.WriteSnapshot(100, state), m.WriteSnapshot(20, nil), m.WriteSnapshot(5, []byte("five")))
	wantSnapshots(t, m, 100, 20, 5)
	wantSnapshots(t, other)
	for sequence, want := range map[uint64][]byte{100: state, 20: {}, 5: []byte("five")} {
		if data, err := m.ReadSnapshot(sequence); err != nil || !bytes.Equal(data, want) {
			t.Errorf("snapshot %d has %d bytes, %v", sequence, len(data), err)
		}
		f, err := m.StatSnapshot(sequence, 7)
		if err != nil || f.Bytes != int64(len(want)) || !bytes.Equal(f.Head, want[:min(7, len(want))]) || f.Place == "" {
			t.Errorf("snapshot %d is %+v, %v", sequence, f, err)
		}
	}
	if f, err := m.StatSnapshot(100, 0); err != nil || f.Created.IsZero() {
		t.Errorf("created at %v, %v", f.Created, err)
	}
	must(t, m.RemoveSnapshot(20))
	wantSnapshots(t, m, 100, 5)
	_, readErr := m.ReadSnapshot(20)
	_, statErr := m.StatSnapshot(7, 1)
	_, asideErr := m.SetSnapshotAside(20)
	for _, err := range []error{readErr, statErr, asideErr, m.RemoveSnapshot(20)} {
		wrapped(t, err, storage.ErrNotFound, "m")
	}
}

func (s suite) snapshotsDurable(t *testing.T) {
	b := s.open(t)
	m := create(t, b.Store, "m")
	must(t, m.WriteSnapshot(5, []byte("five")), m.WriteSnapshot(6, []byte("six")), m.RemoveSnapshot(6), m.WriteSnapshot(7, []byte("seven")))
	_, err := m.SetSnapshotAside(7)
	must(t, err)
	b = b.Cut(t)
	m = find(t, b.Store, "m")
	wantSnapshots(t, m, 5)
	if data, err := m.ReadSnapshot(5); err != nil || string(data) != "five" {
		t.Errorf("%q, %v", data, err)
	}
}

func (s suite) snapshotAside(t *testing.T) {
	b := s.open(t)
	m := create(t, b.Store, "m")
	must(t, m.WriteSnapshot(5, []byte("five")), m.WriteSnapshot(6, []byte("six")))
	before, err := m.StatSnapshot(6, 0)
	must(t, err)
	place, err := m.SetSnapshotAside(6)
	if err != nil || place == "" || place == before.Place {
		t.Errorf("set aside to %q, %v; it was at %q", place, err, before.Place)
	}
	wantSnapshots(t, m, 5)
	must(t, m.WriteSnapshot(6, []byte("new")))
	if data, err := m.ReadSnapshot(6); err != nil || string(data) != "new" {
		t.Errorf("%q, %v", data, err)
	}
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			for range 20 {
				if err := m.WriteSnapshot(7, []byte("seven")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	wantSnapshots(t, m, 7, 6, 5)
}

func (s suite) copies(t *testing.T) {
	b := s.open(t)
	m := create(t, b.Store, "m")
	given := func() []byte { return []byte("given") }
	buffers := [][]byte{given(), given(), given(), given(), given()}
	must(t,
		m.Append(t.Context(), storage.Commit{
			Record: storage.Record{First: 1, Last: 1, Data: buffers[0]}, IDs: []storage.ID{{ID: "new", At: at(1), Value: buffers[1]}},
		}),
		m.PutIDs(t.Context(), []storage.ID{{ID: "a", At: at(1), Value: buffers[2]}}),
		m.PutPending([]storage.Prediction{{ID: "p", Expiry: at(1), Value: buffers[3]}}),
		m.WriteSnapshot(1, buffers[4]))
	for _, buffer := range buffers {
		copy(buffer, "SPOIL")
	}
	for range 2 {
		taken := [][]byte{}
		for _, name := range []string{"new", "a"} {
			value, _, err := m.ID(name)
			must(t, err)
			taken = append(taken, value)
		}
		p, _, err := m.GetPending("p")
		must(t, err)
		state, err := m.ReadSnapshot(1)
		must(t, err)
		stat, err := m.StatSnapshot(1, 5)
		must(t, err)
		taken = append(taken, p.Value, state, stat.Head)
		must(t, m.Replay(t.Context(), 0, func(r storage.Record) error {
			taken = append(taken, slices.Clone(r.Data))
			return nil
		}))
		for n, value := range taken {
			if string(value) != "given" {
				t.Errorf("value %d is %q", n, value)
			}
			copy(value, "SPOIL")
		}
	}
	if _, ok, err := m.ID("none"); ok || errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("an id that nobody put: %v", err)
	}
}
