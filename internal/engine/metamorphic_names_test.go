package engine_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"hindsight/internal/engine"
	"hindsight/internal/engine/storage"
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

// view is a model as a server shows it.
type view struct {
	Sequence, Pending uint64
	Digest            string
	ETag, Follows     string
	Metadata          engine.Metadata
	Values            []float64
	Loss              float64
}

// view reads a model at a server.
func (v *server) view(id string) (out view, err error) {
	ctx := context.Background()
	info, err := v.host.GetModel(ctx, id)
	if err != nil {
		return out, err
	}
	x := make([]float64, info.Spec.Dimension)
	for n := range x {
		x[n] = 0.3 * float64(n+1)
	}
	p, err := v.host.Predict(ctx, id, vectors(x), engine.PredictOptions{})
	if err != nil {
		return out, err
	}
	s, err := v.host.ModelStats(ctx, id, engine.StatsOptions{})
	out = view{
		Sequence: s.Sequence, Pending: s.Pending, Digest: fmt.Sprintf("%x", s.Digest), ETag: info.ETag,
		Follows: info.Follows, Metadata: info.Metadata, Values: p[0].Values, Loss: s.Whole.Served.Loss,
	}
	return out, err
}

// list lists the models of a server, deleted ones too.
func (v *server) list() (out []string) {
	page, err := v.host.Engine.ListModels(context.Background(), engine.ListOptions{Limit: 1000, Deleted: true})
	if err != nil {
		return []string{err.Error()}
	}
	for _, m := range page.Models {
		out = append(out, fmt.Sprint(m.ID, " ", m.Created.UnixNano(), " ", m.Deleted.IsZero(), " ", m.ETag))
	}
	return out
}

// equal compares what all servers show, once they have learned all.
func (s *servers) equal() map[string]view {
	s.t.Helper()
	s.awaitAll()
	owner := s.owner()
	want, aliases, all := map[string]view{}, owner.aliases(), owner.list()
	for _, v := range s.all {
		if got := v.list(); !slices.Equal(got, all) {
			s.t.Fatalf("server %d has\n%s\nthe owner\n%s", v.place, strings.Join(got, "\n"), strings.Join(all, "\n"))
		}
		if got := v.aliases(); !reflect.DeepEqual(got, aliases) {
			s.t.Fatalf("server %d has the aliases %+v, the owner %+v", v.place, got, aliases)
		}
		for _, line := range all {
			var id string
			var created int64
			var live bool
			if _, err := fmt.Sscan(line, &id, &created, &live); err != nil || !live {
				continue
			}
			end, err := s.all[0].last(id)
			if err == nil {
				err = v.host.Await(s.t.Context(), id, end)
			}
			var got view
			if err == nil {
				got, err = v.view(id)
			}
			if err != nil {
				s.t.Fatalf("server %d, model %q: %v", v.place, id, err)
			}
			if want[id].ETag == "" {
				want[id] = got
			}
			if !reflect.DeepEqual(got, want[id]) {
				s.t.Fatalf("server %d, model %q:\n%+v\nwant\n%+v", v.place, id, got, want[id])
			}
		}
		if len(v.lost) > 0 {
			s.t.Fatalf("server %d cannot recover %q", v.place, v.lost)
		}
	}
	return want
}

// last is the end of the log of a model.
func (v *server) last(id string) (last uint64, err error) {
	err = v.local.Models(context.Background(), func(e storage.RegistryEntry) error {
		if e.Name != id {
			return nil
		}
		last, err = e.Model.Last()
		return err
	})
	return last, err
}

func (v *server) aliases() []engine.Alias {
	all, err := v.host.ListAliases()
	if err != nil {
		v.servers.t.Fatal(err)
	}
	return all
}
