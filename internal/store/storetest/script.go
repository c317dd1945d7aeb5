package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"hindsight/internal/engine/storage"
)

// Script is a random replicated log of commands. It knows the contents of every store after each command.
type Script struct {
	commands []command
	// states[n] is the state after n commands.
	states []map[string]string
}

// command is one call. A waiting command has no position, and a start applies it again.
type command struct {
	what    string
	rewinds uint64 // The number of the model that a rewind is of.
	waiting bool
	apply   func(ctx context.Context, s storage.Store) error
}

// NewScript makes a script of n commands. It applies them to an empty store, whose contents are the contents of every store.
func NewScript(t *testing.T, rng *rand.Rand, store storage.Store, n int) *Script {
	t.Helper()
	s, w := &Script{states: []map[string]string{state(t, store)}}, &writer{t: t, rng: rng, store: store}
	for range n {
		c := w.next()
		must(t, rejected(c.apply(t.Context(), store)))
		s.commands, s.states = append(s.commands, c), append(s.states, state(t, store))
	}
	return s
}

// Len counts the commands.
func (s *Script) Len() int { return len(s.commands) }

// position returns the position of command n, counted from 0.
func position(n int) storage.Position {
	return storage.Position{Index: 10 + uint64(n/3), Command: uint32(n % 3)}
}

// rejected returns nil for the rejections that every replica gives to a command.
func rejected(err error) error {
	for _, rejection := range []error{storage.ErrExists, storage.ErrRejected, storage.ErrNotFound, storage.ErrInvalidID} {
		if errors.Is(err, rejection) {
			return nil
		}
	}
	return err
}

// Apply applies the commands from <= n < to, as a restarted server does: it skips the commands that the position of
// the store covers, except waiting commands.
func (s *Script) Apply(t *testing.T, store storage.Store, from, to int) {
	t.Helper()
	for n := from; n < to; n++ {
		c, ctx := s.commands[n], storage.At(t.Context(), position(n))
		switch {
		case c.waiting:
			ctx = t.Context()
		case position(n).Compare(store.Position()) <= 0:
			continue
		}
		if err := rejected(c.apply(ctx, store)); err != nil {
			t.Fatalf("command %d, %s: %v", n, c.what, err)
		}
	}
}

// Applied fails the test unless a store, as a crash left it, has exactly the commands that its position
// covers. It returns their number.
func (s *Script) Applied(t *testing.T, store storage.Store) (n int) {
	t.Helper()
	if p := store.Position(); p != (storage.Position{}) {
		n = 1 + 3*int(p.Index-10) + int(p.Command)
	}
	got, want := state(t, store), maps.Clone(s.states[n])
	rewinding := uint64(0)
	for _, e := range entries(t, store) {
		if e.Rewinding != nil {
			rewinding = e.Model.Number()
			delete(got, e.Name)
			delete(want, e.Name)
		} else {
			wantUsable(t, e)
		}
	}
	if rewinding > 0 {
		next := slices.IndexFunc(s.commands[n:], func(c command) bool { return c.rewinds == rewinding })
		if next < 0 {
			t.Errorf("model %d is being rewound, and no command rewinds it", rewinding)
		}
	}
	s.compare(t, n, got, want, false)
	return n
}

// Complete fails the test unless a store has exactly the first n commands, waiting ones too.
func (s *Script) Complete(t *testing.T, store storage.Store, n int) {
	t.Helper()
	s.compare(t, n, state(t, store), s.states[n], true)
}

func (s *Script) compare(t *testing.T, n int, got, want map[string]string, waiting bool) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		a, b := got[name], want[name]
		if !waiting {
			a, _, _ = strings.Cut(a, "\nwaiting")
			b, _, _ = strings.Cut(b, "\nwaiting")
		}
		if a != b {
			t.Errorf("after %d commands, the last %s, %q is\n%s\nwant\n%s", n, s.commands[max(n, 1)-1].what, name, a, b)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("after %d commands there is %q", n, name)
		}
	}
}

// wantUsable fails the test unless a model can be loaded: no snapshot is ahead of the log, and the log of
// an imported model has its snapshot.
func wantUsable(t *testing.T, e storage.RegistryEntry) {
	t.Helper()
	kept, err1 := e.Model.Snapshots()
	last, err2 := e.Model.Last()
	first, err3 := e.Model.First()
	must(t, err1, err2, err3)
	if len(kept) > 0 && kept[0] > last {
		t.Errorf("model %q has a snapshot %d, and its log ends at %d", e.Name, kept[0], last)
	}
	if first > 1 && (len(kept) == 0 || kept[len(kept)-1] > first) {
		t.Errorf("model %q has snapshots %v, and its log begins with %d", e.Name, kept, first)
	}
}

// state returns the contents that all replicas have in common: everything but snapshots.
func state(t *testing.T, s storage.Store) map[string]string {
	t.Helper()
	out := map[string]string{}
	must(t, s.EachAlias(t.Context(), func(name string, value []byte) error {
		out["alias "+name] = string(value)
		return nil
	}))
	for _, e := range entries(t, s) {
		must(t, e.Err)
		var b bytes.Buffer
		fmt.Fprintf(&b, "number %d, value %s", e.Model.Number(), e.Value)
		first, err := e.Model.First()
		must(t, err)
		for _, r := range replayed(t, e.Model, max(first, 1)-1) {
			fmt.Fprintf(&b, "\nrecord %d-%d %s", r.First, r.Last, r.Data)
		}
		must(t, e.Model.EachID(t.Context(), func(id storage.ID) error {
			fmt.Fprintf(&b, "\nid %s at %d: %s", id.ID, id.At.Unix(), id.Value)
			return nil
		}))
		must(t, e.Model.EachPending(t.Context(), func(p storage.Prediction) error {
			fmt.Fprintf(&b, "\nwaiting %s until %d: %s", p.ID, p.Expiry.Unix(), p.Value)
			return nil
		}))
		out[e.Name] = b.String()
	}
	return out
}

// writer makes up commands that fit a store.
type writer struct {
	t      *testing.T
	rng    *rand.Rand
	store  storage.Store
	serial int
}

func (w *writer) unique(what string) string {
	w.serial++
	return fmt.Sprint(what, w.serial)
}

// ofModel makes a command of the model with a number. The store rejects the command if the model does not exist.
func ofModel(what string, number uint64, apply func(context.Context, storage.Model) error) command {
	return command{what: fmt.Sprintf("%s of model %d", what, number), apply: func(ctx context.Context, s storage.Store) error {
		var found storage.Model
		if err := s.Models(ctx, func(e storage.RegistryEntry) error {
			if e.Model != nil && e.Model.Number() == number {
				found = e.Model
			}
			return e.Err
		}); err != nil {
			return err
		}
		if found == nil {
			return storage.ErrNotFound
		}
		return apply(ctx, found)
	}}
}

func (w *writer) next() command {
	all := entries(w.t, w.store)
	if len(all) == 0 {
		return w.create()
	}
	m := all[w.rng.IntN(len(all))].Model
	switch n := w.rng.IntN(100); {
	case n < 12:
		return w.create()
	case n < 20:
		return ofModel("delete", m.Number(), func(ctx context.Context, m storage.Model) error { return m.Delete(ctx) })
	case n < 28:
		value, alias := []byte(w.unique("value")), storage.Alias{Name: fmt.Sprint("x", w.rng.IntN(3)), Value: []byte(w.unique("alias"))}
		return ofModel("set the value", m.Number(), func(ctx context.Context, m storage.Model) error { return m.SetValue(ctx, value, alias) })
	case n < 34:
		return w.alias()
	case n < 44:
		return w.rewind(m)
	case n < 54:
		return w.putIDs(m)
	case n < 70:
		return w.waiting(m)
	default:
		return w.append(m)
	}
}

func (w *writer) alias() command {
	name, value := fmt.Sprint("x", w.rng.IntN(3)), []byte(w.unique("alias"))
	if w.rng.IntN(2) == 0 {
		return command{what: "remove alias", apply: func(ctx context.Context, s storage.Store) error { return s.RemoveAlias(ctx, name) }}
	}
	return command{what: "put alias", apply: func(ctx context.Context, s storage.Store) error { return s.PutAlias(ctx, name, value) }}
}

// create makes a command that creates or imports a model. Some are rejected.
func (w *writer) create() command {
	name, value := fmt.Sprint("m", w.rng.IntN(6)), []byte(w.unique("value"))
	if w.rng.IntN(2) == 0 {
		return command{what: "create " + name, apply: func(ctx context.Context, s storage.Store) error {
			_, err := s.Create(ctx, name, value)
			return err
		}}
	}
	from := storage.Import{Sequence: w.rng.Uint64N(20), Snapshot: []byte(w.unique("snapshot"))}
	for range w.rng.IntN(5) {
		from.IDs = append(from.IDs, w.id(0))
		from.Pending = append(from.Pending, prediction(w.unique("imported"), w.rng.Int64N(100)))
	}
	if w.rng.IntN(4) == 0 {
		from.Pending = append(from.Pending, prediction(strings.Repeat("x", storage.MaxID+1), 1))
	}
	return command{what: "import " + name, apply: func(ctx context.Context, s storage.Store) error {
		_, err := s.Import(ctx, name, value, from)
		return err
	}}
}

// id is a new id. Its value ends in the sequence that it belongs to.
func (w *writer) id(sequence uint64) storage.ID { return id(w.unique("id"), int64(sequence)) }

func (w *writer) append(m storage.Model) command {
	last, err := m.Last()
	must(w.t, err)
	r := record(last+1+w.rng.Uint64N(20)/19, last+1+w.rng.Uint64N(4)) // Some do not continue the log.
	r.Data = append(r.Data, bytes.Repeat([]byte{'.'}, w.rng.IntN(2000))...)
	c := storage.Commit{Record: r}
	for range w.rng.IntN(3) {
		c.IDs = append(c.IDs, w.id(last))
	}
	return ofModel("append", m.Number(), func(ctx context.Context, m storage.Model) error { return m.Append(ctx, c) })
}

func (w *writer) putIDs(m storage.Model) command {
	last, err := m.Last()
	must(w.t, err)
	rows := []storage.ID{w.id(last)}
	must(w.t, m.EachID(w.t.Context(), func(e storage.ID) error {
		if w.rng.IntN(4) == 0 {
			rows = append(rows, storage.ID{ID: e.ID, At: at(int64(last)), Value: bytes.Clone(e.Value)})
		}
		return nil
	}))
	return ofModel("put ids", m.Number(), func(ctx context.Context, m storage.Model) error { return m.PutIDs(ctx, rows) })
}

func (w *writer) rewind(m storage.Model) command {
	first, err := m.First()
	must(w.t, err)
	if first == 0 {
		return w.append(m)
	}
	records := replayed(w.t, m, first-1)
	last := records[w.rng.IntN(len(records))]
	r := storage.Rewind{Sequence: last.Last, Undone: Undone(last.Last)}
	if last.First < last.Last {
		r.Sequence = last.First + w.rng.Uint64N(last.Last-last.First)
		r.Undone = Undone(r.Sequence)
		last = record(last.First, r.Sequence)
		r.Last = &last
	}
	if w.rng.IntN(2) == 0 {
		r.Value = []byte(w.unique("value"))
	}
	c := ofModel("rewind", m.Number(), func(ctx context.Context, m storage.Model) error { return m.Rewind(ctx, r) })
	c.rewinds = m.Number()
	return c
}

func (w *writer) waiting(m storage.Model) command {
	rows := []storage.Prediction{prediction(w.unique("p"), w.rng.Int64N(100)), prediction(w.unique("p"), w.rng.Int64N(100))}
	c := ofModel("put waiting", m.Number(), func(_ context.Context, m storage.Model) error { return m.PutPending(rows) })
	if w.rng.IntN(2) == 0 {
		var gone []string
		must(w.t, m.EachPending(w.t.Context(), func(p storage.Prediction) error {
			gone = append(gone, p.ID)
			return nil
		}))
		gone = gone[:(len(gone)+1)/2]
		c = ofModel("remove waiting", m.Number(), func(_ context.Context, m storage.Model) error { return m.RemovePending(gone) })
	}
	c.waiting = true
	return c
}
