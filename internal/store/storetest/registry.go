package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"hindsight/internal/engine/storage"
)

func (s suite) order(t *testing.T) {
	b := s.open(t)
	for _, name := range []string{"b", "a", "c", "aa"} {
		create(t, b.Store, name)
	}
	want := []string{"a", "aa", "b", "c"}
	if got := names(t, b.Store); !slices.Equal(got, want) {
		t.Errorf("models %v, want %v", got, want)
	}
	for _, e := range entries(t, b.Store) {
		if string(e.Value) != "value of "+e.Name || e.Model == nil || e.Err != nil || e.Rewinding != nil {
			t.Errorf("entry %+v", e)
		}
	}
}

func (s suite) registryCopies(t *testing.T) {
	b := s.open(t)
	value := []byte("given")
	_, err := b.Store.Create(t.Context(), "m", value)
	must(t, err)
	value[0] = 'X'
	for range 2 {
		must(t, b.Store.Models(t.Context(), func(e storage.RegistryEntry) error {
			if string(e.Value) != "given" {
				t.Errorf("value %q", e.Value)
			}
			return nil
		}))
	}
}

func (s suite) createDurable(t *testing.T) {
	b := s.open(t)
	create(t, b.Store, "m")
	b = b.Cut(t)
	if got := names(t, b.Store); !slices.Equal(got, []string{"m"}) {
		t.Errorf("models %v", got)
	}
	wantLog(t, find(t, b.Store, "m"), 0)
}

func (s suite) setValue(t *testing.T) {
	b := s.open(t)
	m, other := create(t, b.Store, "m"), create(t, b.Store, "other")
	filled(t, m)
	value := []byte("a second")
	alias := storage.Alias{Name: "set", Value: []byte("with it")}
	must(t, b.Store.Sync(t.Context()), m.SetValue(t.Context(), value, alias))
	value[0], alias.Value[0] = 'X', 'X'
	if got, err := m.Value(); err != nil || string(got) != "a second" {
		t.Errorf("value %q, %v", got, err)
	}
	ctx, cause := ended(t)
	alias = storage.Alias{Name: "not-set", Value: []byte("without it")}
	wrapped(t, m.SetValue(ctx, []byte("a third"), alias), cause, "m")
	must(t, other.Delete(t.Context()))
	wrapped(t, other.SetValue(t.Context(), []byte("a third"), alias), storage.ErrNotFound, "other")
	create(t, b.Store, "other")
	_, err := other.Value()
	wrapped(t, err, storage.ErrNotFound, "other")
	must(t, find(t, b.Store, "other").Delete(t.Context()))
	b = b.Cut(t)
	if got, want := aliasesOf(t, b.Store), []string{"set=with it"}; !slices.Equal(got, want) {
		t.Errorf("aliases %v, want %v", got, want)
	}
	all := entries(t, b.Store)
	if len(all) != 1 || string(all[0].Value) != "a second" {
		t.Fatalf("entries %+v", all)
	}
	wantFilled(t, all[0].Model)
	must(t, all[0].Model.SetValue(t.Context(), nil))
	if got := entries(t, b.Store)[0].Value; len(got) != 0 {
		t.Errorf("value %q", got)
	}
}

func (s suite) taken(t *testing.T) {
	b := s.open(t)
	create(t, b.Store, "m")
	_, err := b.Store.Create(t.Context(), "m", nil)
	wrapped(t, err, storage.ErrExists, "m")
	_, err = b.Store.Import(t.Context(), "m", nil, storage.Import{Sequence: 1, IDs: []storage.ID{id("a", 1)}})
	wrapped(t, err, storage.ErrExists, "m")
	wantIDs(t, find(t, b.Store, "m"))
	ctx, cause := ended(t)
	_, err = b.Store.Create(ctx, "other", nil)
	wrapped(t, err, cause, "other")
	if got := names(t, b.Store); !slices.Equal(got, []string{"m"}) {
		t.Errorf("models %v", got)
	}
}

func (s suite) createAtOnce(t *testing.T) {
	b := s.open(t)
	const rounds, callers = 20, 8
	for round := range rounds {
		name := fmt.Sprint("m", round)
		var made atomic.Int32
		var group sync.WaitGroup
		for n := range callers {
			group.Go(func() {
				var err error
				if n%2 == 0 {
					_, err = b.Store.Create(t.Context(), name, nil)
				} else {
					_, err = b.Store.Import(t.Context(), name, nil, storage.Import{Sequence: 3, Snapshot: []byte("state")})
				}
				if err == nil {
					made.Add(1)
				} else if !errors.Is(err, storage.ErrExists) {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if made.Load() != 1 {
			t.Errorf("%d models were made under one name", made.Load())
		}
		m := find(t, b.Store, name)
		last, err := m.Last()
		must(t, err)
		if last == 0 {
			wantSnapshots(t, m)
		} else {
			wantSnapshots(t, m, 3)
		}
	}
}

// filled gives a model something of each kind.
func filled(t *testing.T, m storage.Model) {
	t.Helper()
	must(t, m.Append(t.Context(), storage.Commit{Record: record(1, 2)}))
	must(t, m.Append(t.Context(), storage.Commit{Record: record(3, 3), IDs: []storage.ID{id("a", 1), id("b", 2)}}))
	must(t, m.PutIDs(t.Context(), []storage.ID{id("c", 3)}), m.PutPending([]storage.Prediction{prediction("p", 9)}), m.WriteSnapshot(2, []byte("state")))
}

func wantFilled(t *testing.T, m storage.Model) {
	t.Helper()
	wantLog(t, m, 0, record(1, 2), record(3, 3))
	wantIDs(t, m, id("a", 1), id("b", 2), id("c", 3))
	wantPending(t, m, prediction("p", 9))
	wantSnapshots(t, m, 2)
}

func wantEmpty(t *testing.T, m storage.Model) {
	t.Helper()
	wantLog(t, m, 0)
	if last, err := m.Last(); err != nil || last != 0 {
		t.Errorf("the log ends at %d, %v", last, err)
	}
	wantIDs(t, m)
	wantPending(t, m)
	wantSnapshots(t, m)
	for _, name := range []string{"a", "b", "c"} {
		if _, ok, err := m.ID(name); ok || err != nil {
			t.Errorf("the id %q is remembered, %v", name, err)
		}
	}
	if _, ok, err := m.GetPending("p"); ok || err != nil {
		t.Errorf("a prediction waits, %v", err)
	}
}

func (s suite) createdAgain(t *testing.T) {
	b := s.open(t)
	m, other := create(t, b.Store, "m"), create(t, b.Store, "other")
	filled(t, m)
	filled(t, other)
	must(t, m.Delete(t.Context()))
	again := create(t, b.Store, "m")
	wantEmpty(t, again)
	wantFilled(t, other)
	filled(t, again)
	wantFilled(t, again)
	must(t, again.Delete(t.Context()))
	must(t, b.Store.Sync(t.Context()))
	b = b.Cut(t)
	wantEmpty(t, create(t, b.Store, "m"))
	wantFilled(t, find(t, b.Store, "other"))
}

func (s suite) deleteDurable(t *testing.T) {
	b := s.open(t)
	m := create(t, b.Store, "m")
	filled(t, m)
	must(t, b.Store.Sync(t.Context()), m.Delete(t.Context()))
	if got := names(t, b.Store); len(got) != 0 {
		t.Errorf("models %v", got)
	}
	b = b.Cut(t)
	if got := names(t, b.Store); len(got) != 0 {
		t.Errorf("models %v after a power cut", got)
	}
	wantEmpty(t, create(t, b.Store, "m"))
}

func (s suite) deletedModel(t *testing.T) {
	b := s.open(t)
	m := create(t, b.Store, "m")
	filled(t, m)
	must(t, m.Delete(t.Context()))
	again := create(t, b.Store, "m")
	_, asideErr := m.SetSnapshotAside(2)
	for what, err := range map[string]error{
		"append":   m.Append(t.Context(), storage.Commit{Record: record(4, 4), IDs: []storage.ID{id("d", 4)}}),
		"rewind":   m.Rewind(t.Context(), storage.Rewind{Sequence: 1}),
		"truncate": m.Truncate(1), "ids": m.PutIDs(t.Context(), []storage.ID{id("e", 1)}),
		"waiting": m.PutPending([]storage.Prediction{prediction("q", 9)}), "remove": m.RemovePending([]string{"p"}),
		"snapshot": m.WriteSnapshot(7, []byte("state")), "aside": asideErr,
		"delete": m.Delete(t.Context()),
	} {
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, ok, _ := m.ID("a"); ok {
		t.Error("an id is remembered")
	}
	if _, ok, _ := m.GetPending("p"); ok || m.CountPending() != 0 {
		t.Error("a prediction waits")
	}
	if list, _ := m.Snapshots(); len(list) > 0 {
		t.Errorf("snapshots %v", list)
	}
	if _, err := m.ReadSnapshot(2); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("a snapshot is read: %v", err)
	}
	if got := names(t, b.Store); !slices.Equal(got, []string{"m"}) {
		t.Errorf("models %v", got)
	}
	wantEmpty(t, again)
	must(t, b.Store.Sync(t.Context()))
	b = b.Cut(t)
	wantEmpty(t, find(t, b.Store, "m"))
}

func (s suite) deleteContext(t *testing.T) {
	b := s.open(t)
	m := create(t, b.Store, "m")
	filled(t, m)
	ctx, cause := ended(t)
	wrapped(t, m.Delete(ctx), cause, "m")
	wantFilled(t, m)
	wantFilled(t, find(t, b.Store, "m"))
}

func imported() storage.Import {
	from := storage.Import{Sequence: 17, Snapshot: bytes.Repeat([]byte("state"), 1000)}
	for n := range 3000 { // More than a backend may write at once.
		from.IDs = append(from.IDs, id(fmt.Sprint("id", n), int64(n)))
		from.Pending = append(from.Pending, prediction(fmt.Sprint("w", n), int64(n)))
	}
	return from
}

func (s suite) importWhole(t *testing.T) {
	b := s.open(t)
	from := imported()
	m, err := b.Store.Import(t.Context(), "m", []byte("value"), from)
	must(t, err)
	for range 2 {
		wantIDs(t, m, from.IDs...)
		wantPending(t, m, from.Pending...)
		wantSnapshots(t, m, 17)
		if data, err := m.ReadSnapshot(17); err != nil || !bytes.Equal(data, from.Snapshot) {
			t.Errorf("a snapshot of %d bytes, %v", len(data), err)
		}
		if last, err := m.Last(); err != nil || last != 17 {
			t.Errorf("the log ends at %d, %v", last, err)
		}
		if got := replayed(t, m, 17); len(got) != 0 {
			t.Errorf("the log holds %v", got)
		}
		b = b.Cut(t)
		m = find(t, b.Store, "m")
		if e := entries(t, b.Store)[0]; string(e.Value) != "value" {
			t.Errorf("value %q", e.Value)
		}
	}
	appended(t, m, record(18, 20))
	wantLog(t, m, 17, record(18, 20))
	zero, err := b.Store.Import(t.Context(), "zero", nil, storage.Import{Snapshot: []byte("fresh")})
	must(t, err)
	wantSnapshots(t, zero, 0)
	appended(t, zero, record(1, 1))
}

func (s suite) importFails(t *testing.T) {
	b := s.open(t)
	ctx, cause := ended(t)
	_, err := b.Store.Import(ctx, "m", nil, imported())
	wrapped(t, err, cause, "m")
	for _, spoil := range []func(*storage.Import){
		func(i *storage.Import) { i.IDs[2999].ID = strings.Repeat("x", storage.MaxID+1) },
		func(i *storage.Import) { i.Pending[2999].ID = strings.Repeat("x", storage.MaxID+1) },
	} {
		from := imported()
		spoil(&from)
		_, err = b.Store.Import(t.Context(), "m", nil, from)
		wrapped(t, err, storage.ErrInvalidID, "m")
	}
	for range 2 {
		if got := names(t, b.Store); len(got) != 0 {
			t.Errorf("models %v", got)
		}
		expired := 0
		must(t, b.Store.Expire(t.Context(), at(1<<30), func(storage.Model) { expired++ }))
		if expired != 0 {
			t.Errorf("%d predictions expired that nobody has", expired)
		}
		must(t, b.Store.Sync(t.Context()))
		b = b.Cut(t)
	}
	wantEmpty(t, create(t, b.Store, "m"))
}

func (s suite) errorsPassed(t *testing.T) {
	b := s.open(t)
	m := create(t, b.Store, "m")
	filled(t, m)
	stop := errors.New("stop")
	calls := 0
	for what, err := range map[string]error{
		"models":  b.Store.Models(t.Context(), func(storage.RegistryEntry) error { calls++; return stop }),
		"replay":  m.Replay(t.Context(), 0, func(storage.Record) error { calls++; return stop }),
		"ids":     m.EachID(t.Context(), func(storage.ID) error { calls++; return stop }),
		"waiting": m.EachPending(t.Context(), func(storage.Prediction) error { calls++; return stop }),
	} {
		if err != stop { //nolint:errorlint // As it is, says the contract.
			t.Errorf("%s: %v", what, err)
		}
	}
	if calls != 4 {
		t.Errorf("%d calls, want one each", calls)
	}
}

func (s suite) contextEnds(t *testing.T) {
	b := s.open(t)
	m := create(t, b.Store, "m")
	filled(t, m)
	ctx, cause := ended(t)
	wrapped(t, m.Replay(ctx, 0, func(storage.Record) error { return nil }), cause, "m")
	wrapped(t, m.EachID(ctx, func(storage.ID) error { return nil }), cause, "m")
	wrapped(t, m.EachPending(ctx, func(storage.Prediction) error { return nil }), cause, "m")
	wrapped(t, m.Rewind(ctx, storage.Rewind{Sequence: 1}), cause, "m")
	for what, err := range map[string]error{
		"models": b.Store.Models(ctx, func(storage.RegistryEntry) error { return nil }),
		"expire": b.Store.Expire(ctx, at(100), func(storage.Model) { t.Error("expired") }),
		"forget": b.Store.Forget(ctx, at(100), 0), "sync": b.Store.Sync(ctx),
	} {
		if !errors.Is(err, cause) {
			t.Errorf("%s: %v", what, err)
		}
	}
	wantFilled(t, m)
	if err := b.Store.Failed(); err != nil {
		t.Errorf("failed with %v", err)
	}
}
