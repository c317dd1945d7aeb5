package engine_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"hindsight/internal/engine"
	"hindsight/internal/engine/storage"
)

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
				err = v.host.Await(s.t.Context(), id, "", end)
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
