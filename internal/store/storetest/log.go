package storetest

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"hindsight/internal/engine/storage"
)

func (s suite) ends(t *testing.T) {
	b := s.open(t)
	m := create(t, b.Store, "m")
	check := func(first, last uint64) {
		t.Helper()
		f, err1 := m.First()
		l, err2 := m.Last()
		if err := errors.Join(err1, err2); err != nil || f != first || l != last {
			t.Errorf("the log is from %d to %d, %v; want %d to %d", f, l, err, first, last)
		}
	}
	check(0, 0)
	appended(t, m, record(1, 4))
	check(1, 4)
	appended(t, m, record(5, 5), record(6, 9))
	check(1, 9)
	must(t, m.Truncate(5))
	check(5, 9)
	b = b.Cut(t)
	m = find(t, b.Store, "m")
	if last, err := m.Last(); err != nil || last != 9 {
		t.Errorf("the log ends at %d, %v", last, err)
	}
}

func (s suite) appendDurable(t *testing.T) {
	b := s.open(t)
	m := create(t, b.Store, "m")
	var want []storage.Record
	var remembered []storage.ID
	for n := uint64(1); n <= 20; n++ {
		c := storage.Commit{Record: record(n, n)}
		if n > 1 {
			c.IDs = []storage.ID{id(fmt.Sprint("id", n-1), int64(n))}
		}
		must(t, m.Append(t.Context(), c))
		want, remembered = append(want, c.Record), append(remembered, c.IDs...)
		if n%5 == 0 {
			b = b.Cut(t)
			m = find(t, b.Store, "m")
			wantLog(t, m, 0, want...)
			wantIDs(t, m, remembered...)
		}
	}
}

func (s suite) appendRejected(t *testing.T) {
	b := s.open(t)
	m := create(t, b.Store, "m")
	appended(t, m, record(1, 3))
	for _, bad := range []storage.Record{record(3, 4), record(5, 5), {First: 4, Last: 3}, record(1, 1), {}, record(0, 9)} {
		err := m.Append(t.Context(), storage.Commit{Record: bad, IDs: []storage.ID{id("x", 1)}})
		wrapped(t, err, storage.ErrRejected, "m")
	}
	wantLog(t, m, 0, record(1, 3))
	wantIDs(t, m)
	must(t, b.Store.Sync(t.Context()))
	b = b.Cut(t)
	wantLog(t, find(t, b.Store, "m"), 0, record(1, 3))
	wantIDs(t, find(t, b.Store, "m"))
}

// Two writers that take turns at random: each record is in the log once, and
// the writer that came late was rejected.
func (s suite) appendStale(t *testing.T) {
	b := s.open(t)
	create(t, b.Store, "m")
	const each = 50
	var group sync.WaitGroup
	for writer := range 2 {
		m := find(t, b.Store, "m")
		group.Go(func() {
			for n := 0; n < each; {
				last, err := m.Last()
				if err != nil {
					t.Error(err)
					return
				}
				r := storage.Record{First: last + 1, Last: last + 1, Data: fmt.Appendf(nil, "%d of writer %d", n, writer)}
				switch err := m.Append(t.Context(), storage.Commit{Record: r}); {
				case err == nil:
					n++
				case !errors.Is(err, storage.ErrRejected):
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	got := map[string]bool{}
	for _, r := range replayed(t, find(t, b.Store, "m"), 0) {
		got[string(r.Data)] = true
	}
	if len(got) != 2*each {
		t.Errorf("%d records, want %d", len(got), 2*each)
	}
}

func (s suite) appendContext(t *testing.T) {
	b := s.open(t)
	m := create(t, b.Store, "m")
	ctx, cause := ended(t)
	wrapped(t, m.Append(ctx, storage.Commit{Record: record(1, 1)}), cause, "m")
	wantLog(t, m, 0)
	appended(t, m, record(1, 1))
	wantLog(t, m, 0, record(1, 1))
}

func (s suite) commitWhole(t *testing.T) {
	b := s.open(t)
	m := create(t, b.Store, "m")
	bad := storage.Commit{
		Record: record(1, 1),
		IDs:    []storage.ID{id("good", 1), {ID: strings.Repeat("x", storage.MaxID+1), At: at(1)}},
	}
	wrapped(t, m.Append(t.Context(), bad), storage.ErrInvalidID, "m")
	wantLog(t, m, 0)
	wantIDs(t, m)
	appended(t, m, record(1, 1))
	wantIDs(t, m)
}

// A call of Last beside an Append never makes the next Append fail.
func (s suite) lastBesideAppend(t *testing.T) {
	b := s.open(t)
	const models, records, readers = 4, 60, 3
	var appenders, asking sync.WaitGroup
	stop := make(chan struct{})
	for n := range models {
		create(t, b.Store, fmt.Sprint("m", n))
	}
	must(t, b.Store.Sync(t.Context()))
	b = b.Cut(t) // No end is known.
	for n := range models {
		m := find(t, b.Store, fmt.Sprint("m", n))
		for range readers {
			asking.Go(func() { endGrows(t, m, stop) })
		}
		appenders.Go(func() {
			for n := uint64(1); n <= records; n++ {
				if err := m.Append(t.Context(), storage.Commit{Record: record(n, n)}); err != nil {
					t.Errorf("append %d: %v", n, err)
					return
				}
				if last, err := m.Last(); err != nil || last != n {
					t.Errorf("the end is %d behind %d, %v", last, n, err)
				}
			}
		})
	}
	appenders.Wait()
	close(stop)
	asking.Wait()
}

// endGrows asks for the end of a log until stop: it never goes back.
func endGrows(t *testing.T, m storage.Model, stop <-chan struct{}) {
	t.Helper()
	for before := uint64(0); ; {
		last, err := m.Last()
		if err != nil || last < before {
			t.Errorf("the end went from %d to %d, %v", before, last, err)
			return
		}
		before = last
		select {
		case <-stop:
			return
		default:
			runtime.Gosched() // The appenders go first.
		}
	}
}

func (s suite) replay(t *testing.T) {
	b := s.open(t)
	m, other := create(t, b.Store, "m"), create(t, b.Store, "other")
	all := []storage.Record{record(1, 1), record(2, 5), record(6, 6), {First: 7, Last: 7}}
	appended(t, m, all...)
	appended(t, other, record(1, 9))
	for range 2 {
		for after, from := range map[uint64]int{0: 0, 1: 1, 2: 1, 4: 1, 5: 2, 6: 3, 7: 4, 99: 4} {
			if got := replayed(t, m, after); !sameRecords(got, all[from:]) {
				t.Errorf("after %d: %v, want %v", after, got, all[from:])
			}
		}
		b = b.Cut(t)
		m = find(t, b.Store, "m")
	}
}

func (s suite) replayShort(t *testing.T) {
	b := s.open(t)
	m := create(t, b.Store, "m")
	appended(t, m, record(1, 1), record(2, 3), record(4, 4))
	must(t, m.Truncate(2))
	for after, want := range map[uint64]string{0: "sequence 1: missing", 1: ""} {
		err := m.Replay(t.Context(), after, func(storage.Record) error { return nil })
		if want == "" {
			must(t, err)
			continue
		}
		wrapped(t, err, storage.ErrCorrupt, "m")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("after %d: %v, want %q", after, err, want)
		}
	}
}

func (s suite) truncate(t *testing.T) {
	b := s.open(t)
	m, other := create(t, b.Store, "m"), create(t, b.Store, "other")
	all := []storage.Record{record(1, 1), record(2, 5), record(6, 6), record(7, 9)}
	appended(t, m, all...)
	appended(t, other, all...)
	must(t, m.Truncate(0), m.Truncate(1))
	wantLog(t, m, 0, all...)
	must(t, m.Truncate(3)) // The record that holds it stays.
	wantLog(t, m, 1, all[1:]...)
	must(t, m.Truncate(99)) // The last one stays.
	wantLog(t, m, 6, all[3])
	appended(t, m, record(10, 10))
	wantLog(t, m, 6, all[3], record(10, 10))
	wantLog(t, other, 0, all...)
	empty := create(t, b.Store, "empty")
	must(t, empty.Truncate(5))
	wantEmpty(t, empty)
}

// Undone returns the storage.Rewind.Undone of a rewind to a sequence, for the ids of the suite. The value of an id
// begins with its sequence.
func Undone(sequence uint64) func(value []byte) bool {
	return func(value []byte) bool {
		var n uint64
		_, err := fmt.Sscanf(string(value), "%d", &n)
		return err == nil && n > sequence
	}
}

// long is a model with 12 sequences, one id for each of them and two snapshots.
func long(t *testing.T, b Backend, name string) (m storage.Model, remembered []storage.ID) {
	t.Helper()
	m = create(t, b.Store, name)
	appended(t, m, record(1, 3), record(4, 8), record(9, 12))
	for n := range 12 {
		remembered = append(remembered, id(fmt.Sprint("id", n+1), int64(n+1)))
	}
	must(t, m.PutIDs(t.Context(), remembered), m.WriteSnapshot(3, []byte("three")), m.WriteSnapshot(8, []byte("eight")), m.WriteSnapshot(12, []byte("twelve")))
	return m, remembered
}

func (s suite) rewind(t *testing.T) {
	b := s.open(t)
	m, remembered := long(t, b, "m")
	other, all := long(t, b, "other")
	last := record(4, 6)
	must(t, m.Rewind(t.Context(), storage.Rewind{Sequence: 6, Last: &last, Undone: Undone(6)}))
	for range 2 {
		wantLog(t, m, 0, record(1, 3), last)
		wantIDs(t, m, remembered[:6]...)
		wantSnapshots(t, m, 3)
		wantLog(t, other, 0, record(1, 3), record(4, 8), record(9, 12))
		wantIDs(t, other, all...)
		wantSnapshots(t, other, 12, 8, 3)
		must(t, b.Store.Sync(t.Context()))
		b = b.Cut(t)
		m, other = find(t, b.Store, "m"), find(t, b.Store, "other")
	}
	appended(t, m, record(7, 7))
	wantLog(t, m, 0, record(1, 3), last, record(7, 7))
	must(t, m.Rewind(t.Context(), storage.Rewind{Sequence: 3, Undone: Undone(3)}))
	wantLog(t, m, 0, record(1, 3))
	must(t, m.Rewind(t.Context(), storage.Rewind{Sequence: 0, Undone: Undone(0)}))
	wantEmpty(t, m)
	appended(t, m, record(1, 1))
	wrong := record(1, 7)
	if err := m.Rewind(t.Context(), storage.Rewind{Sequence: 1, Last: &wrong}); err == nil {
		t.Error("a record that does not end with the sequence was taken")
	}
	wantLog(t, m, 0, record(1, 1))
}

// Going back to where the log ends forgets ids alone, and does so again.
func (s suite) rewindEnd(t *testing.T) {
	b := s.open(t)
	m, remembered := long(t, b, "m")
	beyond := id("id13", 13)
	must(t, m.PutIDs(t.Context(), []storage.ID{beyond}))
	must(t, m.Rewind(t.Context(), storage.Rewind{Sequence: 12}))
	wantIDs(t, m, append(remembered[:12:12], beyond)...)
	for range 2 {
		must(t, m.Rewind(t.Context(), storage.Rewind{Sequence: 12, Undone: Undone(12)}))
		wantLog(t, m, 0, record(1, 3), record(4, 8), record(9, 12))
		wantIDs(t, m, remembered...)
		wantSnapshots(t, m, 12, 8, 3)
	}
}

// A rewind that has the record, the snapshot and the ids of its sequence also rewinds a log that begins later.
func (s suite) rewindBefore(t *testing.T) {
	b := s.open(t)
	m, remembered := long(t, b, "m")
	must(t, m.RemoveSnapshot(3), m.RemoveSnapshot(8), m.Truncate(12))
	wantLog(t, m, 8, record(9, 12))
	last := record(4, 6)
	kept, undone := id("kept", 6), id("undone", 7)
	r := storage.Rewind{Sequence: 6, Last: &last, Snapshot: []byte("six"), IDs: []storage.ID{kept, undone}, Undone: Undone(6)}
	must(t, m.Rewind(t.Context(), r))
	for range 2 {
		wantLog(t, m, 3, last)
		wantIDs(t, m, append(remembered[:6:6], kept)...)
		wantSnapshots(t, m, 6)
		if data, err := m.ReadSnapshot(6); err != nil || string(data) != "six" {
			t.Errorf("snapshot %q, %v", data, err)
		}
		b = b.Cut(t)
		m = find(t, b.Store, "m")
	}
	appended(t, m, record(7, 7))
	wantLog(t, m, 3, last, record(7, 7))
}

// A log that has lost its end goes on behind a snapshot.
func (s suite) rewindBeyond(t *testing.T) {
	b := s.open(t)
	m := create(t, b.Store, "m")
	appended(t, m, record(1, 2))
	must(t, m.WriteSnapshot(9, []byte("nine")))
	must(t, m.Rewind(t.Context(), storage.Rewind{Sequence: 9, Last: &storage.Record{First: 9, Last: 9}}))
	appended(t, m, record(10, 10))
	wantLog(t, m, 9, record(10, 10))
	wantSnapshots(t, m, 9)
}

func (s suite) rewindDurable(t *testing.T) {
	b := s.open(t)
	m, remembered := long(t, b, "m")
	must(t, b.Store.Sync(t.Context()))
	value := []byte("restored")
	must(t, m.Rewind(t.Context(), storage.Rewind{Sequence: 3, Undone: Undone(3), Value: value}))
	value[0] = 'X'
	b = b.Cut(t)
	m = find(t, b.Store, "m")
	if all := entries(t, b.Store); string(all[0].Value) != "restored" {
		t.Errorf("value %q, want that of the rewind", all[0].Value)
	}
	wantLog(t, m, 0, record(1, 3))
	wantIDs(t, m, remembered[:3]...)
	wantSnapshots(t, m, 3)
}
