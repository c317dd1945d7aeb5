// Package storetest is the suite that every backend of package storage passes:
// each sentence of the contract is a test, and random operations are compared
// with plain maps.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"hindsight/internal/engine/storage"
)

// Backend is a store under test, and the two ways in which it ends. Both give
// the store of the directory afterwards; the one before is not used any more.
type Backend struct {
	Store storage.Store
	// Kill ends the process: what was written stays.
	Kill func(t *testing.T) Backend
	// Cut cuts the power: what is durable stays.
	Cut func(t *testing.T) Backend
	// Replicated: an append does not make the ids of PutIDs durable.
	Replicated bool
}

// Run runs the suite. The function open gives an empty store.
func Run(t *testing.T, open func(t *testing.T) Backend) {
	t.Helper()
	s := suite{open}
	t.Run("models are in the order of names", s.order)
	t.Run("an entry's value is a copy", s.registryCopies)
	t.Run("creating is durable", s.createDurable)
	t.Run("setting a value is durable", s.setValue)
	t.Run("a taken name is rejected", s.taken)
	t.Run("a name created at once has one model", s.createAtOnce)
	t.Run("a model created again shares nothing", s.createdAgain)
	t.Run("deleting is durable", s.deleteDurable)
	t.Run("a deleted model's methods have no effect", s.deletedModel)
	t.Run("deleting respects the context", s.deleteContext)
	t.Run("an import is whole", s.importWhole)
	t.Run("an import that fails leaves nothing", s.importFails)
	t.Run("aliases are durable, and no models", s.aliases)
	t.Run("functions' errors are passed on", s.errorsPassed)
	t.Run("walks end with the context", s.contextEnds)
	t.Run("last and first", s.ends)
	t.Run("appending is durable", s.appendDurable)
	t.Run("appending out of order is rejected", s.appendRejected)
	t.Run("a stale appender is rejected", s.appendStale)
	t.Run("appending respects the context", s.appendContext)
	t.Run("a commit is whole or nothing", s.commitWhole)
	t.Run("last beside append", s.lastBesideAppend)
	t.Run("replaying", s.replay)
	t.Run("replaying a log that does not reach back", s.replayShort)
	t.Run("truncating", s.truncate)
	t.Run("rewinding", s.rewind)
	t.Run("rewinding at the end", s.rewindEnd)
	t.Run("rewinding over the end", s.rewindBeyond)
	t.Run("rewinding before the beginning", s.rewindBefore)
	t.Run("rewinding is durable", s.rewindDurable)
	t.Run("ids", s.ids)
	t.Run("ids are durable with the next append", s.idsDurable)
	t.Run("forgetting", s.forget)
	t.Run("long ids are rejected", s.longIDs)
	t.Run("pending predictions", s.pending)
	t.Run("pending predictions survive the process", s.pendingSurvives)
	t.Run("the count of pending predictions", s.pendingCount)
	t.Run("the count beside concurrent calls", s.pendingAtOnce)
	t.Run("expiring", s.expire)
	t.Run("sync makes durable", s.syncDurable)
	t.Run("snapshots", s.snapshots)
	t.Run("snapshots are durable", s.snapshotsDurable)
	t.Run("a snapshot set aside", s.snapshotAside)
	t.Run("what is given and taken is copied", s.copies)
	t.Run("random operations", s.random)
}

// suite has a method for each test. The tests begin with an empty store.
type suite struct {
	open func(t *testing.T) Backend
}

// must fails the test on an error.
func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// wrapped fails the test unless an error wraps another and says which model
// it is about.
func wrapped(t *testing.T, err, want error, model string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got the error %v, want %v", err, want)
	} else if !strings.Contains(err.Error(), fmt.Sprintf("model %q", model)) {
		t.Errorf("the error %q does not name the model %q", err, model)
	}
}

func create(t *testing.T, s storage.Store, name string) storage.Model {
	t.Helper()
	m, err := s.Create(t.Context(), name, []byte("value of "+name))
	must(t, err)
	return m
}

// entries are all entries, with copies of their values.
func entries(t *testing.T, s storage.Store) []storage.RegistryEntry {
	t.Helper()
	var out []storage.RegistryEntry
	must(t, s.Models(t.Context(), func(e storage.RegistryEntry) error {
		e.Value = bytes.Clone(e.Value)
		out = append(out, e)
		return nil
	}))
	return out
}

// find is a model that is registered.
func find(t *testing.T, s storage.Store, name string) storage.Model {
	t.Helper()
	for _, e := range entries(t, s) {
		if e.Name == name {
			if e.Err != nil || e.Rewinding != nil {
				t.Fatalf("entry %+v", e)
			}
			return e.Model
		}
	}
	t.Fatalf("no model %q", name)
	return nil
}

func names(t *testing.T, s storage.Store) []string {
	t.Helper()
	var out []string
	for _, e := range entries(t, s) {
		out = append(out, e.Name)
	}
	return out
}

// record is a record that differs from any other in its data.
func record(first, last uint64) storage.Record {
	return storage.Record{First: first, Last: last, Data: fmt.Appendf(nil, "record %d-%d", first, last)}
}

// appended appends records.
func appended(t *testing.T, m storage.Model, records ...storage.Record) {
	t.Helper()
	for _, r := range records {
		must(t, m.Append(t.Context(), storage.Commit{Record: r}))
	}
}

// replayed is the log after a sequence.
func replayed(t *testing.T, m storage.Model, after uint64) []storage.Record {
	t.Helper()
	var out []storage.Record
	must(t, m.Replay(t.Context(), after, func(r storage.Record) error {
		r.Data = bytes.Clone(r.Data)
		out = append(out, r)
		return nil
	}))
	return out
}

func sameRecords(a, b []storage.Record) bool {
	return slices.EqualFunc(a, b, func(a, b storage.Record) bool {
		return a.First == b.First && a.Last == b.Last && bytes.Equal(a.Data, b.Data)
	})
}

// wantLog fails the test unless the log holds these records.
func wantLog(t *testing.T, m storage.Model, after uint64, want ...storage.Record) {
	t.Helper()
	if got := replayed(t, m, after); !sameRecords(got, want) {
		t.Errorf("the log after %d is %v, want %v", after, got, want)
	}
	var last uint64
	if len(want) > 0 {
		last = want[len(want)-1].Last
	}
	if got, err := m.Last(); err != nil || (len(want) > 0 && got != last) {
		t.Errorf("the log ends at %d, %v; want %d", got, err, last)
	}
}

func at(second int64) time.Time { return time.Unix(second, 0) }

// id returns an id with a unique value. Its sequence is the second.
func id(name string, second int64) storage.ID {
	return storage.ID{ID: name, At: at(second), Value: fmt.Appendf(nil, "%d of %s", second, name)}
}

// wantIDs fails the test unless a model remembers these ids alone.
func wantIDs(t *testing.T, m storage.Model, want ...storage.ID) {
	t.Helper()
	got := map[string]string{}
	must(t, m.EachID(t.Context(), func(e storage.ID) error {
		if _, twice := got[e.ID]; twice {
			t.Errorf("the id %q comes twice", e.ID)
		}
		got[e.ID] = fmt.Sprint(e.At.UnixNano(), string(e.Value))
		return nil
	}))
	if len(got) != len(want) {
		t.Errorf("%d ids %v, want %d", len(got), got, len(want))
	}
	for _, e := range want {
		if got[e.ID] != fmt.Sprint(e.At.UnixNano(), string(e.Value)) {
			t.Errorf("the id %q is %q, want %+v", e.ID, got[e.ID], e)
		}
		if value, ok, err := m.ID(e.ID); err != nil || !ok || !bytes.Equal(value, e.Value) {
			t.Errorf("the id %q gives %q, %v, %v; want %q", e.ID, value, ok, err, e.Value)
		}
	}
}

func prediction(name string, expiry int64) storage.Prediction {
	return storage.Prediction{ID: name, Value: fmt.Appendf(nil, "%s until %d", name, expiry), Expiry: at(expiry)}
}

// wantPending fails the test unless these predictions alone wait.
func wantPending(t *testing.T, m storage.Model, want ...storage.Prediction) {
	t.Helper()
	got := map[string]string{}
	must(t, m.EachPending(t.Context(), func(p storage.Prediction) error {
		got[p.ID] = fmt.Sprint(p.Expiry.UnixNano(), string(p.Value))
		return nil
	}))
	if len(got) != len(want) {
		t.Errorf("%d predictions wait %v, want %d", len(got), got, len(want))
	}
	if n := m.CountPending(); n != int64(len(want)) {
		t.Errorf("%d predictions are counted, want %d", n, len(want))
	}
	for _, p := range want {
		if got[p.ID] != fmt.Sprint(p.Expiry.UnixNano(), string(p.Value)) {
			t.Errorf("%q waits as %q, want %+v", p.ID, got[p.ID], p)
		}
		if g, ok, err := m.GetPending(p.ID); err != nil || !ok || g.ID != p.ID || !g.Expiry.Equal(p.Expiry) || !bytes.Equal(g.Value, p.Value) {
			t.Errorf("%q gives %+v, %v, %v; want %+v", p.ID, g, ok, err, p)
		}
	}
}

func wantSnapshots(t *testing.T, m storage.Model, want ...uint64) {
	t.Helper()
	if got, err := m.Snapshots(); err != nil || !slices.Equal(got, want) {
		t.Errorf("snapshots %v, %v; want %v", got, err, want)
	}
}

// ended is a context that ended, for a cause of its own.
func ended(t *testing.T) (context.Context, error) {
	t.Helper()
	cause := errors.New("the caller has left")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	return ctx, cause
}
