package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"hindsight/internal/engine"
	"hindsight/internal/model"
	"hindsight/internal/model/codec"
)

// watch takes a copy of a disk, as a power cut leaves it, at one of the writes
// to come.
type watch struct {
	mu    sync.Mutex
	fs    *vfs.MemFS
	left  int
	rng   *rand.Rand
	taken *vfs.MemFS
}

func (w *watch) begin(fs *vfs.MemFS, writes int, rng *rand.Rand) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fs, w.left, w.taken = fs, writes, nil
	w.rng = rand.New(rand.NewPCG(rng.Uint64(), 2)) // Background writes draw from it too.
}

// write is told every write.
func (w *watch) write() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left--; w.left == 0 {
		w.taken = w.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: w.rng.IntN(101), RNG: w.rng})
	}
}

// end gives the copy, that of now if there were fewer writes.
func (w *watch) end() *vfs.MemFS {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left = 0
	if w.taken == nil {
		w.taken = w.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: w.rng})
	}
	return w.taken
}

func (m *meta) snapshot() string {
	name, p := m.any()
	if p == nil {
		return ""
	}
	s, err := m.host.SnapshotModel(context.Background(), name)
	if err != nil || s.Sequence != uint64(p.sequence()) {
		m.fatalf("snapshot of %s: %+v, %v", name, s, err)
	}
	return name
}

// relearn makes the plain learner anew.
func (m *meta) relearn(p *plainModel) {
	p.learner = newLearner(m.t, p.spec)
	if p.whole != nil {
		if err := codec.Read(p.whole, p.learner.Visit); err != nil {
			m.fatalf("%v", err)
		}
	}
	var out model.Outcome
	for _, r := range p.learned {
		m.learn(p, &out, r.observation, r.waited)
	}
}

func (m *meta) restore() string {
	name, p := m.any()
	if p == nil {
		return ""
	}
	target := p.base + m.rng.IntN(len(p.learned)+1)
	_, err := m.host.RestoreModel(context.Background(), name, uint64(target))
	if errors.Is(err, engine.ErrSnapshotNotFound) {
		kept, listErr := m.host.ListSnapshots(m.t.Context(), name)
		if listErr != nil || len(kept) == 0 || kept[len(kept)-1].Sequence <= uint64(target) {
			m.fatalf("%s cannot go back to %d with %+v kept: %v, %v", name, target, kept, err, listErr)
		}
		return fmt.Sprintf("%s, %d is gone", name, target)
	}
	if err != nil {
		m.fatalf("restore %s to %d: %v", name, target, err)
	}
	if target < p.sequence() {
		m.release(p)
	}
	m.undo(p, target)
	return fmt.Sprintf("%s to %d", name, target)
}

// undo takes the plain model back to a sequence.
func (m *meta) undo(p *plainModel, target int) {
	p.learned, p.history = p.learned[:target-p.base], p.history[:target]
	for id, place := range p.ids {
		if place >= len(p.learned) {
			delete(p.ids, id)
		}
	}
	m.relearn(p)
}

// move exports a model and imports it under another name, with what it
// remembers or without.
func (m *meta) move() string {
	name, p := m.any()
	if p == nil || len(m.models) > 5 {
		return ""
	}
	to, q, data := m.export(name, p)
	if _, err := m.host.ImportModel(context.Background(), to, data); err != nil {
		m.fatalf("import %s: %v", to, err)
	}
	m.models[to] = q
	return name + " as " + to
}

// export exports a model, and gives the plain model of what an import of it is
// to be.
func (m *meta) export(name string, p *plainModel) (to string, q *plainModel, data []byte) {
	without := m.rng.IntN(2) == 0
	data, err := m.host.ExportModel(context.Background(), name, engine.ExportOptions{WithoutIDs: without})
	if err != nil {
		m.fatalf("export %s: %v", name, err)
	}
	to = fmt.Sprint("m", m.created)
	m.created++
	whole, err := codec.Append(nil, p.learner.Visit)
	if err != nil {
		m.fatalf("%v", err)
	}
	q = &plainModel{spec: p.spec, metadata: p.metadata, base: p.sequence(), whole: whole, history: slices.Clone(p.history), ids: map[string]int{}, before: map[string]plainRow{}, waiting: map[string]plainWaiting{}}
	if !without {
		for id, r := range p.before {
			q.before[id] = r
		}
		for id, place := range p.ids {
			q.before[id] = p.learned[place]
		}
		for id, w := range p.waiting {
			q.waiting[id] = w
		}
	}
	m.relearn(q)
	return to, q, data
}

func (m *meta) restart() string {
	m.host.stop(m.t)
	m.open(m.mem)
	return ""
}

// crash cuts the power: what was not synced is there, or not, or in part.
func (m *meta) crash() string {
	fs := m.cut()
	m.host.stop(m.t)
	m.reopen(fs)
	return ""
}

// cut is the disk as a power cut leaves it now.
func (m *meta) cut() *vfs.MemFS {
	return m.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: m.rng.IntN(101), RNG: m.rng})
}

// reopen starts a process on what a power cut left.
func (m *meta) reopen(fs *vfs.MemFS) {
	m.open(fs)
	for _, models := range []map[string]*plainModel{m.models, m.deleted} {
		for _, p := range models {
			for id, w := range p.waiting {
				w.maybe = true
				p.waiting[id] = w
			}
		}
	}
}

// fault lets the disk reject every write from now on: nothing is acknowledged, and
// predictions go on. After a restart what was on its way is there or not.
func (m *meta) fault() string {
	name, p := m.any()
	if p == nil {
		return ""
	}
	id := m.newID("f")
	o := m.observation(p, id)
	// In memory, so that it can predict without the disk.
	if _, err := m.host.Predict(context.Background(), name, vectors(o.Features), engine.PredictOptions{}); err != nil {
		m.fatalf("%v", err)
	}
	m.failing.Store(true)
	if a, err := m.host.Observe(context.Background(), name, []engine.Observation{o}); !errors.Is(err, engine.ErrStorage) {
		m.fatalf("acknowledged without a disk: %+v, %v", a, err)
	}
	if _, err := m.host.Observe(context.Background(), name, []engine.Observation{m.observation(p, "")}); err == nil {
		m.fatalf("acknowledged after a failure")
	}
	m.host.abandon()
	m.reopen(m.cut())
	return fmt.Sprintf("%s, it was there: %v", name, m.again(name, p, id, o))
}

// again sends an observation of which it is not known whether it was learned,
// and reports whether it was.
func (m *meta) again(name string, p *plainModel, id string, o engine.Observation) bool {
	got, err := m.host.Observe(context.Background(), name, []engine.Observation{o})
	if err != nil {
		m.fatalf("the retry of %s: %v", id, err)
	}
	want := m.learnedAs(p, id, o, nil)
	want.Duplicate = got[0].Duplicate
	m.same(got[0], want, "the retry of "+id)
	return got[0].Duplicate
}

// unknownAppend lets an append end without an outcome, or be rejected: the caller
// is told so, the model goes on by itself, and a retry is learned once.
func (m *meta) unknownAppend() string {
	name, p := m.any()
	if p == nil {
		return ""
	}
	id := m.newID("u")
	o := m.observation(p, id)
	m.calm() // The next append is that of this call.
	next := int32(appendDone + m.rng.IntN(3))
	m.appends.next.Store(next)
	if a, err := m.host.Observe(context.Background(), name, []engine.Observation{o}); !errors.Is(err, engine.ErrUnknown) {
		m.fatalf("append %d: %+v, %v", next, a, err)
	}
	if there := m.again(name, p, id, o); there != (next == appendDone) {
		m.fatalf("append %d: it was there: %v", next, there)
	}
	return fmt.Sprintf("%s, %d", name, next)
}

// giveUp leaves before an answer: an observation that was taken is learned all
// the same, what waits for its turn is skipped, and what is behind it goes on.
func (m *meta) giveUp() string {
	name, p := m.any()
	if p == nil {
		return ""
	}
	ctx, leave := context.WithCancel(context.Background())
	id := m.newID("g")
	o := m.observation(p, id)
	ticket, err := m.host.Submit(ctx, name, []engine.Observation{o})
	if err != nil {
		m.fatalf("%v", err)
	}
	leave()
	_, _ = ticket.Wait(ctx)
	if _, err := m.host.SnapshotModel(ctx, name); err == nil {
		m.fatalf("a snapshot without a caller")
	}
	if _, err := m.host.RestoreModel(ctx, name, uint64(p.base)); err == nil {
		m.fatalf("a restore without a caller")
	}
	if _, err := m.host.ExportModel(ctx, name, engine.ExportOptions{}); err == nil {
		m.fatalf("an export without a caller")
	}
	if !m.again(name, p, id, o) {
		m.fatalf("%s was taken and not learned", id)
	}
	return name
}

// repeatedIDs predicts a batch in which an id comes twice: with the same
// features it is one prediction, with others the call is rejected.
func (m *meta) repeatedIDs() string {
	name, p := m.any()
	if p == nil {
		return ""
	}
	x, id, now := m.input(), m.newID("r"), m.clock.now()
	o := engine.PredictOptions{Remember: true, IDs: []string{id, id, id}, TTL: time.Hour}
	if _, err := m.host.Predict(context.Background(), name, vectors(x, x, m.input()), o); !errors.Is(err, engine.ErrConflict) {
		m.fatalf("one id for two inputs: %v", err)
	}
	said, err := m.host.Predict(context.Background(), name, vectors(x, x, x), o)
	if err != nil || !reflect.DeepEqual(said[0], said[1]) || !reflect.DeepEqual(said[0], said[2]) {
		m.fatalf("one id three times: %+v, %v", said, err)
	}
	p.wait(x, said[0], now.Add(time.Hour))
	return name
}

// cutDuring does something and gives the disk as a power cut left it at some
// moment meanwhile, and a process on it.
func (m *meta) cutDuring(do func()) {
	m.watch.begin(m.mem, 1+m.rng.IntN(12), m.rng)
	do()
	fs := m.watch.end()
	m.host.stop(m.t)
	m.reopen(fs)
}

// cutRestore cuts the power during a restore: the model is as it was, or as it
// is to be.
func (m *meta) cutRestore() string {
	name, p := m.any()
	if p == nil || len(p.learned) == 0 {
		return ""
	}
	target, was := p.base+m.rng.IntN(len(p.learned)), p.sequence()
	m.release(p)
	var err error
	m.cutDuring(func() { _, err = m.host.RestoreModel(context.Background(), name, uint64(target)) })
	s := m.host.stats(m.t, name)
	switch {
	case errors.Is(err, engine.ErrSnapshotNotFound):
		return name + " is as it was"
	case err != nil || s.Sequence != uint64(target) && s.Sequence != uint64(was):
		m.fatalf("a restore of %s from %d to %d that was cut: %v, it is at %d", name, was, target, err, s.Sequence)
	case s.Sequence == uint64(target):
		m.undo(p, target)
	}
	return fmt.Sprintf("%s, of %d to %d: %d", name, was, target, s.Sequence)
}

// cutDelete cuts the power during a deletion, for a time or for good: the model is there
// whole or not at all.
func (m *meta) cutDelete() string {
	name, p := m.any()
	if p == nil || len(m.models) < 3 || m.aliased(name) {
		return "spared"
	}
	purge := m.rng.IntN(2) == 0
	if purge {
		m.release(p)
	}
	m.cutDuring(func() {
		if purge {
			m.purge(name)
		} else {
			m.softDelete(name)
		}
	})
	_, err := m.host.GetModel(context.Background(), name)
	if errors.Is(err, engine.ErrModelNotFound) {
		delete(m.models, name)
		if err = nil; !purge {
			m.deleted[name] = p
		}
	}
	if err != nil {
		m.fatalf("after a deletion of %s that was cut: %v", name, err)
	}
	return name
}

// cutImport cuts the power during an import: the model is there whole or not at
// all.
func (m *meta) cutImport() string {
	name, p := m.any()
	if p == nil || len(m.models) > 5 {
		return ""
	}
	to, q, data := m.export(name, p)
	m.cutDuring(func() {
		if _, err := m.host.ImportModel(context.Background(), to, data); err != nil {
			m.fatalf("import %s: %v", to, err)
		}
	})
	_, err := m.host.GetModel(context.Background(), to)
	switch {
	case err == nil:
		for id, w := range q.waiting {
			w.maybe = true
			q.waiting[id] = w
		}
		m.models[to] = q
	case !errors.Is(err, engine.ErrModelNotFound):
		m.fatalf("after an import of %s that was cut: %v", to, err)
	}
	return fmt.Sprintf("%s as %s: %v", name, to, err == nil)
}

func (m *meta) pass() string {
	d := time.Duration(m.rng.IntN(40)) * time.Minute
	m.clock.advance(d)
	return d.String()
}

func (m *meta) compareAll() {
	for name := range m.deleted {
		if _, err := m.host.GetModel(context.Background(), name); !errors.Is(err, engine.ErrModelNotFound) {
			m.fatalf("deleted %s answers: %v", name, err)
		}
		m.undelete(name)
	}
	following := m.compareFollowers()
	models, err := m.host.ListModels("", "", 1000)
	if err != nil || len(models) != len(m.models)+following {
		m.fatalf("%d models, want %d that follow %d (%v)", len(models), following, len(m.models), err)
	}
	for n := range models {
		if m.followers[models[n].ID] != nil {
			continue
		}
		if want := m.models[models[n].ID]; want == nil || !models[n].Equal(&want.metadata) {
			m.fatalf("listed %+v, want %+v", models[n], want)
		}
	}
	for name, p := range m.models {
		s := m.host.stats(m.t, name)
		want, err := codec.Append(nil, p.learner.Visit)
		if err != nil {
			m.fatalf("%v", err)
		}
		if s.Observations != uint64(p.sequence()) || s.Sequence != uint64(p.sequence()) || s.Digest != digestOf(want) {
			m.fatalf("%s is at %d (%d), want %d, digests equal: %v", name, s.Sequence, s.Observations, p.sequence(), s.Digest == digestOf(want))
		}
		m.sameHistory(name, p)
	}
}
