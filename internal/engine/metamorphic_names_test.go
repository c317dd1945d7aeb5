package engine_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"hindsight/internal/engine"
)

// described are random metadata.
func (m *meta) described() engine.Metadata {
	return engine.Metadata{
		DisplayName: fmt.Sprint("name ", m.rng.IntN(10)), LabelTTL: int64(1 + m.rng.IntN(1000)),
		Labels: map[string]string{"a": strconv.Itoa(m.rng.IntN(3)), fmt.Sprint("k", m.rng.IntN(5)): "b"},
	}
}

func (m *meta) update(name string, to engine.Metadata) {
	info, err := m.host.UpdateModel(context.Background(), name, engine.UpdateOptions{Edit: func(was *engine.Metadata) { *was = to }})
	if err != nil || !info.Equal(&to) {
		m.fatalf("describe %s: %+v, %v; want %+v", name, info, err, to)
	}
}

// describe changes the metadata of a model.
func (m *meta) describe() string {
	name, p := m.any()
	if p == nil {
		return ""
	}
	p.metadata = m.described()
	m.update(name, p.metadata)
	return name
}

// cutDescribe cuts the power while metadata change: they are those of before or after.
func (m *meta) cutDescribe() string {
	name, p := m.any()
	if p == nil {
		return ""
	}
	next := m.described()
	m.cutDuring(func() { m.update(name, next) })
	info, err := m.host.GetModel(context.Background(), name)
	switch {
	case err == nil && info.Equal(&next):
		p.metadata = next
	case err != nil || !info.Equal(&p.metadata):
		m.fatalf("describe %s was cut: %+v, %v; want %+v or %+v", name, info, err, p.metadata, next)
	}
	return name
}

func (m *meta) softDelete(name string) {
	if err := m.host.DeleteModel(context.Background(), name); err != nil {
		m.fatalf("delete %s: %v", name, err)
	}
}

// hide deletes a model for a time.
func (m *meta) hide() string {
	name, p := m.any()
	if p == nil || len(m.models) < 2 || m.aliased(name) {
		return "spared"
	}
	m.softDelete(name)
	delete(m.models, name)
	m.deleted[name] = p
	if _, err := m.host.CreateModel(context.Background(), name, p.spec); !errors.Is(err, engine.ErrModelDeleted) {
		m.fatalf("create %s, which is deleted: %v", name, err)
	}
	return name
}

// undelete brings a model back.
func (m *meta) undelete(name string) {
	p := m.deleted[name]
	info, err := m.host.UndeleteModel(context.Background(), name)
	if err != nil || !info.Equal(&p.metadata) {
		m.fatalf("bring back %s: %+v, %v; want %+v", name, info, err, p.metadata)
	}
	delete(m.deleted, name)
	m.models[name] = p
}

// anyDeleted is a deleted model, empty while there is none.
func (m *meta) anyDeleted() string {
	if len(m.deleted) == 0 {
		return ""
	}
	names := slices.Sorted(maps.Keys(m.deleted)) // The order of a map is not the seed's.
	return names[m.rng.IntN(len(names))]
}

func (m *meta) bringBack() string {
	name := m.anyDeleted()
	if name == "" {
		return "nothing"
	}
	if m.rng.IntN(4) == 0 {
		m.release(m.deleted[name])
		m.purge(name)
		delete(m.deleted, name)
		return name + " removed"
	}
	m.undelete(name)
	return name
}

// cutBringBack cuts the power while a model comes back: it is deleted or there.
func (m *meta) cutBringBack() string {
	name := m.anyDeleted()
	if name == "" {
		return "nothing"
	}
	m.cutDuring(func() {
		if _, err := m.host.UndeleteModel(context.Background(), name); err != nil {
			m.fatalf("bring back %s: %v", name, err)
		}
	})
	_, err := m.host.GetModel(context.Background(), name)
	switch {
	case err == nil:
		m.models[name] = m.deleted[name]
		delete(m.deleted, name)
	case !errors.Is(err, engine.ErrModelNotFound):
		m.fatalf("the return of %s was cut: %v", name, err)
	}
	return fmt.Sprintf("%s: %v", name, err == nil)
}
