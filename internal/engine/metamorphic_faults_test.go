package engine_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"hindsight/internal/engine"
	"hindsight/internal/model"
)

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
		if err := p.learner.Restore(p.whole); err != nil {
			m.fatalf("%v", err)
		}
	}
	var out model.Outcome
	for _, r := range p.learned {
		if err := p.learner.Observe(&out, r.observation.Features, r.observation.Labels, r.observation.Weight); err != nil {
			m.fatalf("%v", err)
		}
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
		kept, listErr := m.host.ListSnapshots(name)
		if listErr != nil || len(kept) == 0 || kept[len(kept)-1].Sequence <= uint64(target) {
			m.fatalf("%s cannot go back to %d with %+v kept: %v, %v", name, target, kept, err, listErr)
		}
		return fmt.Sprintf("%s, %d is gone", name, target)
	}
	if err != nil {
		m.fatalf("restore %s to %d: %v", name, target, err)
	}
	p.learned = p.learned[:target-p.base]
	for id, place := range p.ids {
		if place >= len(p.learned) {
			delete(p.ids, id)
		}
	}
	m.relearn(p)
	return fmt.Sprintf("%s to %d", name, target)
}

// move exports a model and imports it under another name.
func (m *meta) move() string {
	name, p := m.any()
	if p == nil || len(m.models) > 5 {
		return ""
	}
	data, err := m.host.ExportModel(context.Background(), name)
	if err != nil {
		m.fatalf("export %s: %v", name, err)
	}
	to := fmt.Sprint("m", m.created)
	m.created++
	if _, err := m.host.ImportModel(context.Background(), to, data); err != nil {
		m.fatalf("import %s: %v", to, err)
	}
	whole, err := p.learner.AppendBinary(nil)
	if err != nil {
		m.fatalf("%v", err)
	}
	q := &plainModel{spec: p.spec, base: p.sequence(), whole: whole, ids: map[string]int{}, waiting: map[string]plainWaiting{}}
	m.models[to] = q
	m.relearn(q)
	return name + " as " + to
}

func (m *meta) restart() string {
	m.host.stop(m.t)
	m.open(m.mem)
	return ""
}

// crash cuts the power: what was not synced is there, or not, or in part.
func (m *meta) crash() string {
	percent := m.rng.IntN(101)
	cut := m.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: m.rng})
	m.host.stop(m.t)
	m.open(cut)
	for _, p := range m.models {
		for id, w := range p.waiting {
			w.maybe = true
			p.waiting[id] = w
		}
	}
	return fmt.Sprint(percent, " %")
}

// fault lets the disk refuse everything, for good: nothing is acknowledged, and
// predictions go on. After a restart what was on its way is there or not.
func (m *meta) fault() string {
	name, p := m.any()
	if p == nil {
		return ""
	}
	id := m.newID("f")
	o := m.observation(p, id)
	// In memory, so that it can predict without the disk.
	if _, err := m.host.Predict(context.Background(), name, [][]float64{o.Features}, engine.PredictOptions{}); err != nil {
		m.fatalf("%v", err)
	}
	m.failing.Store(true)
	if a, err := m.host.Observe(context.Background(), name, []engine.Observation{o}); !errors.Is(err, engine.ErrStorage) {
		m.fatalf("acknowledged without a disk: %+v, %v", a, err)
	}
	if _, err := m.host.Observe(context.Background(), name, []engine.Observation{m.observation(p, "")}); err == nil {
		m.fatalf("acknowledged after a failure")
	}
	m.abandon()
	cut := m.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: m.rng.IntN(101), RNG: m.rng})
	m.open(cut)
	for _, p := range m.models {
		for id, w := range p.waiting {
			w.maybe = true
			p.waiting[id] = w
		}
	}
	got, err := m.host.Observe(context.Background(), name, []engine.Observation{o})
	if err != nil {
		m.fatalf("the retry after a fault: %v", err)
	}
	want := m.learnedAs(p, id, o, nil)
	want.Duplicate = got[0].Duplicate
	m.same(got[0], want, "the retry after a fault")
	return fmt.Sprintf("%s, it was there: %v", name, got[0].Duplicate)
}

// abandon ends the host of a disk that failed, whose last snapshots fail too.
func (m *meta) abandon() {
	m.host.once.Do(func() {
		_ = m.host.Close()
		_ = m.host.store.Close()
	})
}

func (m *meta) pass() string {
	d := time.Duration(m.rng.IntN(40)) * time.Minute
	m.clock.advance(d)
	return d.String()
}

func (m *meta) compareAll() {
	models, err := m.host.ListModels("", "", 1000)
	if err != nil || len(models) != len(m.models) {
		m.fatalf("%d models, want %d (%v)", len(models), len(m.models), err)
	}
	for name, p := range m.models {
		s := m.host.stats(m.t, name)
		want, err := p.learner.AppendBinary(nil)
		if err != nil {
			m.fatalf("%v", err)
		}
		if s.Observations != uint64(p.sequence()) || s.Sequence != uint64(p.sequence()) || s.Digest != digestOf(want) {
			m.fatalf("%s is at %d (%d), want %d, digests equal: %v", name, s.Sequence, s.Observations, p.sequence(), s.Digest == digestOf(want))
		}
	}
}
