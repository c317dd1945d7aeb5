package storetest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"hindsight/internal/engine/storage"
)

// plain is a model as the contract has it, in plain maps.
type plain struct {
	value     string
	log       []storage.Record
	ids       map[string]storage.ID
	pending   map[string]storage.Prediction
	snapshots map[uint64]string
}

func newPlain(value string) *plain {
	return &plain{
		value: value, ids: map[string]storage.ID{}, pending: map[string]storage.Prediction{}, snapshots: map[uint64]string{},
	}
}

func (p *plain) last() uint64 {
	if len(p.log) == 0 {
		return 0
	}
	return p.log[len(p.log)-1].Last
}

// game is a random sequence of operations on a store and on plain models.
type game struct {
	t      *testing.T
	rng    *rand.Rand
	b      Backend
	models map[string]storage.Model
	plain  map[string]*plain
	clock  int64
	serial int
}

// newSeed returns the seed of a random test, and logs it: the same each time, or in make
// test-e2e a new one.
func newSeed(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(1)
	if os.Getenv("HINDSIGHT_E2E") != "" {
		seed = uint64(time.Now().UnixNano()) //nolint:forbidigo // A test logs the seed.
	}
	t.Logf("seed %d", seed)
	return seed
}

func (s suite) random(t *testing.T) {
	b := s.open(t)
	seed := newSeed(t)
	g := &game{
		t: t, rng: rand.New(rand.NewPCG(seed, 0)), b: b,
		models: map[string]storage.Model{}, plain: map[string]*plain{},
	}
	operations := 1500
	if testing.Short() {
		operations = 300
	}
	for n := range operations {
		what := g.step()
		if n%50 == 0 || what == "cut" || what == "kill" {
			g.compare()
		}
		if t.Failed() {
			t.Fatalf("after operation %d of seed %d: %s", n, seed, what)
		}
	}
	g.compare()
}

// pick is a model of the store, or empty.
func (g *game) pick() string {
	all := slices.Sorted(maps.Keys(g.plain))
	if len(all) == 0 {
		return ""
	}
	return all[g.rng.IntN(len(all))]
}

// step does one operation on both sides.
func (g *game) step() string {
	g.t.Helper()
	g.clock += g.rng.Int64N(3)
	name := g.pick()
	switch n := g.rng.IntN(100); {
	case n < 5 || name == "":
		return g.create()
	case n < 7:
		must(g.t, g.models[name].Delete(g.t.Context()))
		delete(g.models, name)
		delete(g.plain, name)
		return "delete " + name
	case n < 35:
		return g.append(name)
	case n < 42:
		return g.putIDs(name)
	case n < 62:
		return g.putPending(name)
	case n < 72:
		return g.removePending(name)
	case n < 77:
		return g.snapshot(name)
	case n < 81:
		return g.rewind(name)
	case n < 86:
		return g.truncate(name)
	case n < 91:
		return g.expire()
	case n < 95:
		return g.forget()
	default:
		return g.end()
	}
}

func (g *game) id() string { return fmt.Sprint("id", g.rng.IntN(12)) }

func (g *game) text() []byte {
	g.serial++
	return fmt.Appendf(nil, "%d %s", g.serial, bytes.Repeat([]byte{'x'}, g.rng.IntN(100)))
}

// idRow has a value that begins with the sequence that it belongs to.
func (g *game) idRow(name string, sequence uint64) storage.ID {
	g.serial++
	return storage.ID{ID: name, At: at(g.clock), Value: fmt.Appendf(nil, "%d %d", sequence, g.serial)}
}

func (g *game) create() string {
	name, value := fmt.Sprint("m", g.rng.IntN(6)), g.text()
	p := newPlain(string(value))
	begin := func() (storage.Model, error) { return g.b.Store.Create(g.t.Context(), name, value) }
	if g.rng.IntN(2) == 0 {
		from := storage.Import{Sequence: g.rng.Uint64N(20), Snapshot: g.text()}
		for range g.rng.IntN(5) {
			from.IDs = append(from.IDs, g.idRow(g.id(), 0))
			from.Pending = append(from.Pending, storage.Prediction{ID: g.id(), Value: g.text(), Expiry: at(g.clock + g.rng.Int64N(30))})
		}
		for n := range from.IDs {
			p.ids[from.IDs[n].ID], p.pending[from.Pending[n].ID] = from.IDs[n], from.Pending[n]
		}
		p.snapshots[from.Sequence] = string(from.Snapshot)
		if from.Sequence > 0 {
			p.log = []storage.Record{{First: from.Sequence, Last: from.Sequence}}
		}
		begin = func() (storage.Model, error) { return g.b.Store.Import(g.t.Context(), name, value, from) }
	}
	m, err := begin()
	if g.plain[name] != nil {
		wrapped(g.t, err, storage.ErrExists, name)
		return "create again " + name
	}
	must(g.t, err)
	g.models[name], g.plain[name] = m, p
	return "create " + name
}

func (g *game) append(name string) string {
	m, p := g.models[name], g.plain[name]
	first := p.last() + 1
	if g.rng.IntN(10) == 0 {
		stale := storage.Record{First: first + 1 + g.rng.Uint64N(3), Last: first + 5}
		wrapped(g.t, m.Append(g.t.Context(), storage.Commit{Record: stale}), storage.ErrRejected, name)
		return "append out of order " + name
	}
	c := storage.Commit{Record: storage.Record{First: first, Last: first + g.rng.Uint64N(4), Data: g.text()}}
	for range g.rng.IntN(3) {
		id := g.id()
		_, known := p.ids[id]
		if known || slices.ContainsFunc(c.IDs, func(e storage.ID) bool { return e.ID == id }) {
			continue
		}
		c.IDs = append(c.IDs, g.idRow(id, p.last()))
	}
	must(g.t, m.Append(g.t.Context(), c))
	p.log = append(p.log, c.Record)
	for _, e := range c.IDs {
		p.ids[e.ID] = e
	}
	return "append " + name
}

func (g *game) putIDs(name string) string {
	var rows []storage.ID
	for range 1 + g.rng.IntN(4) {
		rows = append(rows, g.idRow(g.id(), g.plain[name].last()))
		g.clock++
	}
	must(g.t, g.models[name].PutIDs(g.t.Context(), rows))
	for _, e := range rows {
		g.plain[name].ids[e.ID] = e
	}
	return "put ids " + name
}

func (g *game) putPending(name string) string {
	var rows []storage.Prediction
	for range 1 + g.rng.IntN(4) {
		p := storage.Prediction{ID: g.id(), Value: g.text(), Expiry: at(g.clock + g.rng.Int64N(30))}
		if g.rng.IntN(2) == 0 {
			g.serial++
			p.ID, p.Minted = fmt.Sprint("minted", g.serial), true
		}
		rows = append(rows, p)
	}
	must(g.t, g.models[name].PutPending(rows))
	for _, p := range rows {
		g.plain[name].pending[p.ID] = p
	}
	return "put pending " + name
}

func (g *game) removePending(name string) string {
	gone := []string{g.id(), g.id()}
	for id := range g.plain[name].pending {
		gone = append(gone, id, id)
		break
	}
	must(g.t, g.models[name].RemovePending(gone))
	for _, id := range gone {
		delete(g.plain[name].pending, id)
	}
	return "remove pending " + name
}

func (g *game) snapshot(name string) string {
	m, p := g.models[name], g.plain[name]
	kept := slices.Sorted(maps.Keys(p.snapshots))
	switch {
	case len(kept) > 3:
		must(g.t, m.RemoveSnapshot(kept[0]))
		delete(p.snapshots, kept[0])
		return "remove snapshot " + name
	case len(kept) > 0 && g.rng.IntN(4) == 0:
		_, err := m.SetSnapshotAside(kept[0])
		must(g.t, err)
		delete(p.snapshots, kept[0])
		return "set aside " + name
	}
	data := g.text()
	must(g.t, m.WriteSnapshot(p.last(), data))
	p.snapshots[p.last()] = string(data)
	return "snapshot " + name
}

func (g *game) rewind(name string) string {
	m, p := g.models[name], g.plain[name]
	if len(p.log) == 0 {
		return "nothing to rewind"
	}
	record := p.log[g.rng.IntN(len(p.log))]
	r := storage.Rewind{Sequence: record.First + g.rng.Uint64N(record.Last-record.First+1)}
	r.Undone = Undone(r.Sequence)
	p.log = slices.DeleteFunc(p.log, func(other storage.Record) bool { return other.Last >= r.Sequence })
	if r.Sequence == record.Last && g.rng.IntN(2) == 0 {
		p.log = append(p.log, record)
	} else {
		r.Last = &storage.Record{First: record.First, Last: r.Sequence, Data: g.text()}
		p.log = append(p.log, *r.Last)
	}
	ctx, cause := ended(g.t)
	if err := m.Rewind(ctx, r); !errors.Is(err, cause) {
		g.t.Errorf("rewind in vain: %v", err)
	}
	must(g.t, m.Rewind(g.t.Context(), r))
	maps.DeleteFunc(p.snapshots, func(sequence uint64, _ string) bool { return sequence > r.Sequence })
	maps.DeleteFunc(p.ids, func(_ string, e storage.ID) bool { return r.Undone(e.Value) })
	return fmt.Sprintf("rewind %s to %d", name, r.Sequence)
}

func (g *game) truncate(name string) string {
	p := g.plain[name]
	through := p.last() - min(p.last(), g.rng.Uint64N(6))
	must(g.t, g.models[name].Truncate(through))
	p.log = slices.DeleteFunc(p.log, func(r storage.Record) bool { return r.Last < through })
	return "truncate " + name
}

func (g *game) expire() string {
	now := at(g.clock - 10 + g.rng.Int64N(20))
	got, want := map[storage.Model]int{}, map[storage.Model]int{}
	must(g.t, g.b.Store.Expire(g.t.Context(), now, func(m storage.Model) { got[m]++ }))
	for name, p := range g.plain {
		maps.DeleteFunc(p.pending, func(_ string, w storage.Prediction) bool {
			due := !w.Expiry.After(now)
			if due {
				want[g.models[name]]++
			}
			return due
		})
	}
	if !maps.Equal(got, want) {
		g.t.Errorf("expired %v, want %v", got, want)
	}
	return "expire"
}

// forget chooses a time that drops whole seconds, so that it does not matter
// which of two ids of one time is the older.
func (g *game) forget() string {
	before := at(g.clock - 60 + g.rng.Int64N(60))
	var left int
	for _, p := range g.plain {
		for _, e := range p.ids {
			if !e.At.Before(before) {
				left++
			}
		}
	}
	must(g.t, g.b.Store.Forget(g.t.Context(), before, g.rng.IntN(left+1)))
	for _, p := range g.plain {
		maps.DeleteFunc(p.ids, func(_ string, e storage.ID) bool { return e.At.Before(before) })
	}
	return "forget"
}

// end ends the store, once all is durable.
func (g *game) end() string {
	must(g.t, g.b.Store.Sync(g.t.Context()))
	what, end := "cut", g.b.Cut
	if g.rng.IntN(2) == 0 {
		what, end = "kill", g.b.Kill
	}
	g.b = end(g.t)
	g.models = map[string]storage.Model{}
	for _, e := range entries(g.t, g.b.Store) {
		g.models[e.Name] = e.Model
	}
	return what
}

// compare compares all that the store has with the plain models.
func (g *game) compare() {
	t := g.t
	t.Helper()
	if got, want := names(t, g.b.Store), slices.Sorted(maps.Keys(g.plain)); !slices.Equal(got, want) {
		t.Fatalf("models %v, want %v", got, want)
	}
	for _, e := range entries(t, g.b.Store) {
		p := g.plain[e.Name]
		if string(e.Value) != p.value || e.Err != nil || e.Rewinding != nil || e.Model != g.models[e.Name] {
			t.Errorf("entry %+v, want the value %q", e, p.value)
		}
		m := g.models[e.Name]
		after := uint64(0)
		if len(p.log) > 0 {
			after = p.log[0].First - 1
		}
		wantLog(t, m, after, p.log...)
		wantIDs(t, m, values(p.ids)...)
		wantPending(t, m, values(p.pending)...)
		kept := slices.SortedFunc(maps.Keys(p.snapshots), func(a, b uint64) int { return cmp.Compare(b, a) })
		wantSnapshots(t, m, kept...)
		for sequence, want := range p.snapshots {
			if data, err := m.ReadSnapshot(sequence); err != nil || string(data) != want {
				t.Errorf("snapshot %d of %s is %q, %v; want %q", sequence, e.Name, data, err, want)
			}
		}
		if err := m.Replay(t.Context(), p.last(), func(storage.Record) error { return errors.New("a record behind the end") }); err != nil {
			t.Error(err)
		}
	}
}

func values[V any](from map[string]V) []V { return slices.Collect(maps.Values(from)) }
