package storetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"hindsight/internal/engine/storage"
)

// RunPositions runs the suite of a store to which commands of a replicated log are applied.
func RunPositions(t *testing.T, open func(t *testing.T) Backend) {
	t.Helper()
	s := suite{open}
	t.Run("a position is written with its effect", s.positions)
	t.Run("a rejection has no position", s.positionsRejected)
	t.Run("a position is durable with the next sync", s.positionDurable)
	t.Run("numbers are in the order of the commands", s.positionNumbers)
	t.Run("parts are joined once all are there", s.parts)
	t.Run("crashes leave a prefix", s.positionCrashes)
}

func (s suite) positions(t *testing.T) {
	b := s.open(t)
	wantPosition := func(want storage.Position) {
		t.Helper()
		if got := b.Store.Position(); got != want {
			t.Errorf("position %v, want %v", got, want)
		}
	}
	wantPosition(storage.Position{})
	m := create(t, b.Store, "without")
	appended(t, m, record(1, 3))
	wantPosition(storage.Position{})
	for n, call := range []func(ctx context.Context) error{
		func(ctx context.Context) (err error) { m, err = b.Store.Create(ctx, "m", []byte("value")); return err },
		func(ctx context.Context) error {
			return m.Append(ctx, storage.Commit{Record: record(1, 2), IDs: []storage.ID{id("a", 1)}})
		},
		func(ctx context.Context) error { return m.Append(ctx, storage.Commit{Record: record(3, 4)}) },
		func(ctx context.Context) error { return m.PutIDs(ctx, []storage.ID{id("a", 2), id("b", 3)}) },
		func(ctx context.Context) error { return m.PutIDs(ctx, nil) },
		func(ctx context.Context) error { return m.SetValue(ctx, []byte("new"), storage.Alias{Name: "x"}) },
		func(ctx context.Context) error { return b.Store.PutAlias(ctx, "y", nil) },
		func(ctx context.Context) error { return b.Store.RemoveAlias(ctx, "y") },
		func(ctx context.Context) error { return b.Store.RemoveAlias(ctx, "none") },
		func(ctx context.Context) error { return m.Rewind(ctx, storage.Rewind{Sequence: 2, Undone: Undone(2)}) },
		func(ctx context.Context) error { return m.Delete(ctx) },
		func(ctx context.Context) error {
			_, err := b.Store.Import(ctx, "imported", nil, storage.Import{Sequence: 5, IDs: []storage.ID{id("a", 1)}})
			return err
		},
	} {
		must(t, call(storage.At(t.Context(), position(n))))
		wantPosition(position(n))
		must(t, find(t, b.Store, "without").PutIDs(t.Context(), nil), b.Store.PutAlias(t.Context(), "without", nil))
		wantPosition(position(n))
		must(t, b.Store.Sync(t.Context()))
		b = b.Kill(t)
		wantPosition(position(n))
		for _, e := range entries(t, b.Store) {
			if e.Name == "m" {
				m = e.Model
			}
		}
		if n == 9 {
			wantLog(t, m, 0, record(1, 2))
			wantIDs(t, m, id("a", 2))
		}
	}
}

func (s suite) positionsRejected(t *testing.T) {
	b := s.open(t)
	m, err := b.Store.Create(storage.At(t.Context(), position(1)), "m", nil)
	must(t, err)
	ctx := storage.At(t.Context(), position(2))
	_, err = b.Store.Create(ctx, "m", nil)
	wrapped(t, err, storage.ErrExists, "m")
	long := storage.ID{ID: string(make([]byte, storage.MaxID+1))}
	_, err = b.Store.Import(ctx, "imported", nil, storage.Import{IDs: []storage.ID{long}})
	wrapped(t, err, storage.ErrInvalidID, "imported")
	wrapped(t, m.Append(ctx, storage.Commit{Record: record(3, 3)}), storage.ErrRejected, "m")
	wrapped(t, m.PutIDs(ctx, []storage.ID{long}), storage.ErrInvalidID, "m")
	if got := b.Store.Position(); got != position(1) {
		t.Errorf("position %v, want %v", got, position(1))
	}
	must(t, m.Delete(storage.At(t.Context(), position(3))))
	wrapped(t, m.SetValue(ctx, nil), storage.ErrNotFound, "m")
	if got := b.Store.Position(); got != position(3) {
		t.Errorf("position %v, want %v", got, position(3))
	}
}

func (s suite) positionDurable(t *testing.T) {
	b := s.open(t)
	m, err := b.Store.Create(storage.At(t.Context(), position(1)), "m", nil)
	must(t, err, m.Append(storage.At(t.Context(), position(2)), storage.Commit{Record: record(1, 1)}))
	must(t, b.Store.Sync(t.Context()))
	b = b.Cut(t)
	if got := b.Store.Position(); got != position(2) {
		t.Errorf("position %v, want %v", got, position(2))
	}
	wantLog(t, find(t, b.Store, "m"), 0, record(1, 1))
}

// A rejected command takes no number, and a crash changes no number.
func (s suite) positionNumbers(t *testing.T) {
	b := s.open(t)
	create(t, b.Store, "without")
	long := storage.Prediction{ID: string(make([]byte, storage.MaxID+1))}
	for n, name := range []string{"a", "b", "c"} {
		ctx := storage.At(t.Context(), position(n))
		_, err := b.Store.Import(ctx, name, nil, storage.Import{Pending: []storage.Prediction{prediction("p", 1), long}})
		wrapped(t, err, storage.ErrInvalidID, name)
		m, err := b.Store.Create(ctx, name, nil)
		must(t, err)
		if want := uint64(n + 2); m.Number() != want {
			t.Errorf("number %d, want %d", m.Number(), want)
		}
		must(t, b.Store.Sync(t.Context()))
		b = b.Cut(t)
		if got := find(t, b.Store, name).Number(); got != m.Number() {
			t.Errorf("number %d after a cut, want %d", got, m.Number())
		}
	}
}

// A crash at any time leaves the commands that the position covers. After the other commands are applied again, the
// store has the same models under the same numbers.
func (s suite) positionCrashes(t *testing.T) {
	rng := rand.New(rand.NewPCG(newSeed(t), 5))
	script := NewScript(t, rng, s.open(t).Store, 400)
	b := s.open(t)
	synced, whole := 0, 0
	for applied := 0; applied < script.Len(); {
		next := min(applied+1+rng.IntN(12), script.Len())
		script.Apply(t, b.Store, applied, next)
		applied = next
		switch rng.IntN(6) {
		case 0:
			must(t, b.Store.Sync(t.Context()))
			synced = applied
		case 1, 2:
			Snapshot(t, rng, b.Store)
		case 3, 4:
			end := b.Cut
			if rng.IntN(2) == 0 {
				end = b.Kill
			}
			b = end(t)
			n := script.Applied(t, b.Store)
			if n > applied {
				t.Errorf("%d commands, and %d were applied", n, applied)
			}
			script.Apply(t, b.Store, synced, applied)
			whole++
		}
		script.Complete(t, b.Store, applied)
		if t.Failed() {
			t.Fatalf("after %d commands and %d crashes", applied, whole)
		}
	}
}

func (s suite) parts(t *testing.T) {
	b := s.open(t)
	one := storage.Transfer{Proposer: [16]byte{1, 15: 0xff}, Number: 1<<64 - 1}
	other := storage.Transfer{Proposer: [16]byte{2}, Number: 0}
	want := func(of storage.Transfer, size uint64, whole string) {
		t.Helper()
		got, err := b.Store.JoinParts(of, size)
		if whole == "" {
			if !errors.Is(err, storage.ErrNotFound) {
				t.Errorf("parts %q, %v, want none", got, err)
			}
		} else if err != nil || string(got) != whole {
			t.Errorf("parts %q, %v, want %q", got, err, whole)
		}
	}
	want(one, 4, "")
	for n, p := range []struct {
		of     storage.Transfer
		offset uint64
		data   string
	}{{one, 0, ""}, {one, 0, "ab"}, {other, 0, "x"}, {one, 5, "f"}, {one, 2, "cd"}} {
		must(t, b.Store.PutPart(storage.At(t.Context(), position(n)), p.of, p.offset, []byte(p.data)))
		if got := b.Store.Position(); got != position(n) {
			t.Errorf("position %v, want %v", got, position(n))
		}
	}
	want(one, 4, "")
	want(one, 6, "") // The part at 4 is absent.
	must(t, b.Store.PutPart(storage.At(t.Context(), position(5)), one, 4, []byte("e")), b.Store.Sync(t.Context()))
	b = b.Cut(t)
	want(one, 6, "abcdef")
	want(one, 5, "")
	want(one, 7, "")
	want(other, 1, "x")
	must(t, b.Store.DropOtherParts(one.Proposer))
	want(one, 6, "abcdef")
	want(other, 1, "")
	must(t, b.Store.DropParts(storage.Transfer{Proposer: one.Proposer, Number: 7}))
	want(one, 6, "abcdef")
	must(t, b.Store.DropParts(one))
	want(one, 6, "")
}

// Snapshot writes a snapshot at the end of a model's log, or removes all snapshots but the oldest, as every server
// does by itself.
func Snapshot(t *testing.T, rng *rand.Rand, s storage.Store) {
	t.Helper()
	all := entries(t, s)
	if len(all) == 0 {
		return
	}
	m := all[rng.IntN(len(all))].Model
	kept, err1 := m.Snapshots()
	last, err2 := m.Last()
	must(t, err1, err2)
	if len(kept) > 2 {
		must(t, m.RemoveSnapshot(kept[1]))
		return
	}
	must(t, m.WriteSnapshot(last, []byte("state")))
}
