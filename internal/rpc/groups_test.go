package rpc_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/engine"
	"hindsight/internal/rpc"
)

// groups are the groups of a server under test. Group n is at n.
type groups struct {
	all []rpc.Group
	// hosted are the engines of the groups that this server has, by group.
	hosted []atomic.Pointer[engine.Engine]
	// step and left are the answer of Rebalance.
	step    string
	left    int
	leaving []string
}

func groupOf(name string, n int) int {
	h := fnv.New32a()
	before, _, _ := strings.Cut(name, ".")
	_, _ = h.Write([]byte(before))
	return 1 + int(h.Sum32()>>8)%n
}

func (g *groups) at(n int) rpc.Group {
	out := g.all[n]
	out.Engine = g.hosted[n].Load()
	return out
}

func (g *groups) Of(name string) rpc.Group { return g.at(groupOf(name, len(g.all)-1)) }

func (g *groups) All() []rpc.Group {
	var out []rpc.Group
	for n := 1; n < len(g.all); n++ {
		out = append(out, g.at(n))
	}
	return out
}

func (g *groups) Numbered(n uint32) (rpc.Group, bool) {
	if int(n) >= len(g.all) {
		return rpc.Group{}, false
	}
	return g.at(int(n)), true
}

func (g *groups) Rebalance(_ context.Context, leaving []string) (step string, left int, err error) {
	g.leaving = leaving
	return g.step, g.left, nil
}

// many is a cluster of several groups. Each group has a server, the owner, that has this group alone. A front server
// has group 1 alone, or no group.
type many struct {
	front   *service
	groups  *groups
	engines []*engine.Engine
	owners  []*service
	fakes   []*fakeCluster
}

func (m *many) newGroups() *groups {
	out := &groups{all: make([]rpc.Group, len(m.fakes)), hosted: make([]atomic.Pointer[engine.Engine], len(m.fakes))}
	for n := range out.all {
		out.all[n] = rpc.Group{Number: uint32(n), Cluster: m.fakes[n]}
	}
	return out
}

func serveMany(t *testing.T, n int, set func(*engine.Options)) *many {
	t.Helper()
	m := &many{fakes: make([]*fakeCluster, n+1), engines: make([]*engine.Engine, n+1), owners: make([]*service, n+1)}
	for k := range m.fakes {
		m.fakes[k] = &fakeCluster{results: map[string]int{}}
	}
	for k := 1; k <= n; k++ {
		owned := &fakeCluster{results: map[string]int{}}
		owned.owns.Store(true)
		m.owners[k] = serveOver(t, vfs.NewMem(), set, func(o *rpc.Options) {
			m.engines[k] = o.Groups.Of("").Engine
			g := m.newGroups()
			g.all[k].Cluster = owned
			g.hosted[k].Store(m.engines[k])
			o.Groups = g
		})
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var served sync.WaitGroup
		served.Go(func() {
			if err := m.owners[k].server.ServeMembers(listener); err != nil {
				t.Error(err)
			}
		})
		conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		m.fakes[k].conn.Store(conn)
		t.Cleanup(func() {
			m.owners[k].end()
			served.Wait()
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	m.groups = m.newGroups()
	m.front = serve(t, func(o *rpc.Options) { o.Groups = m.groups })
	t.Cleanup(m.front.end)
	return m
}

// host lets the front server have a group, and own it or not.
func (m *many) host(n int, owns bool) {
	m.groups.hosted[n].Store(m.engines[n])
	m.fakes[n].owns.Store(owns)
}

// names returns a name of each group, by group.
func (m *many) names() []string {
	out := make([]string, len(m.fakes))
	for n := 0; slices.Contains(out[1:], ""); n++ {
		name := fmt.Sprintf("m%d", n)
		if k := groupOf(name, len(m.fakes)-1); out[k] == "" {
			out[k] = name
		}
	}
	return out
}

// idsOf are the ids and the sequences of the models on pages.
func idsOf(pages []*hindsightv1.ListModelsResponse) string {
	var b strings.Builder
	for _, page := range pages {
		for _, m := range page.GetModels() {
			fmt.Fprintf(&b, "%s:%d ", m.GetId(), m.GetSequence())
		}
		fmt.Fprintf(&b, "| %d\n", page.GetTotalSize())
	}
	return b.String()
}

// Pages over four groups have what one engine has with all models, in every order.
func TestListsMergeGroups(t *testing.T) {
	now := atomic.Int64{}
	now.Store(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())
	clocked := func(o *engine.Options) {
		o.Now = func() time.Time { return time.Unix(0, now.Load()) }
		o.DeletedKept = time.Hour
	}
	m := serveMany(t, 4, clocked)
	m.host(1, true)
	m.host(2, false)
	one := serveOver(t, vfs.NewMem(), clocked)
	rng := rand.New(rand.NewPCG(7, 8))
	ctx := t.Context()
	counts := map[int]int{}
	for n := range 60 {
		name := fmt.Sprintf("%c%d.v%d", 'a'+rng.IntN(3), rng.IntN(20), n)
		if n%5 == 0 {
			name = fmt.Sprintf("a.%d", n) // One group has more models than the others.
		}
		counts[groupOf(name, 4)]++
		labels, rows, deleted := map[string]string{"k": fmt.Sprint(rng.IntN(2))}, rng.IntN(4), rng.IntN(8) == 0
		alias := n%7 == 0
		now.Add(1e8) // An engine makes two models at different times.
		for _, s := range []*service{m.owners[groupOf(name, 4)], one} {
			if _, err := s.models.CreateModel(ctx, &hindsightv1.CreateModelRequest{Id: name, Spec: linear(1), Labels: labels}); err != nil {
				t.Fatal(err)
			}
			for k := range rows {
				if _, err := s.Observe(ctx, &hindsightv1.ObserveRequest{Model: name, Features: []float64{1}, Target: label(float64((k*n)%5))}); err != nil {
					t.Fatal(err)
				}
			}
			if alias {
				if _, err := s.models.SetAlias(ctx, &hindsightv1.SetAliasRequest{Alias: name + ".now", Model: name}); err != nil {
					t.Fatal(err)
				}
			} else if deleted {
				if _, err := s.models.DeleteModel(ctx, &hindsightv1.DeleteModelRequest{Model: name}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if len(counts) != 4 {
		t.Fatalf("models a group: %v", counts)
	}
	now.Add(5e9)
	for _, order := range []string{"", "id", "sequence", "create_time", "recent_loss", "recent_skill", "regret", "observation_rate"} {
		for k := range 16 {
			r := &hindsightv1.ListModelsRequest{
				PageSize: int32(1 + rng.IntN(30)), ShowDeleted: rng.IntN(2) == 0, IncludeSummary: rng.IntN(2) == 0, OrderBy: order,
				Prefix: []string{"", "", "a", "a.", "z"}[rng.IntN(5)],
			}
			if order != "" && k%2 == 0 {
				r.OrderBy += " desc"
			}
			if rng.IntN(3) == 0 {
				r.Labels = map[string]string{"k": "1"}
			}
			var pages [2][]*hindsightv1.ListModelsResponse
			for side, s := range []*service{m.front, one} {
				r := proto.CloneOf(r)
				for {
					page, err := s.models.ListModels(ctx, r)
					if err != nil {
						t.Fatalf("%v: %v", r, err)
					}
					for _, model := range page.GetModels() {
						model.Etag = ""
					}
					pages[side] = append(pages[side], page)
					if r.PageToken = page.GetNextPageToken(); r.PageToken == "" {
						break
					}
				}
			}
			same := slices.EqualFunc(pages[0], pages[1], func(a, b *hindsightv1.ListModelsResponse) bool { return proto.Equal(a, b) })
			if !same {
				t.Fatalf("%v: four groups list\n%s\none engine lists\n%s", r, idsOf(pages[0]), idsOf(pages[1]))
			}
		}
	}
	var aliases [2]*hindsightv1.ListAliasesResponse
	for side, s := range []*service{m.front, one} {
		var err error
		if aliases[side], err = s.models.ListAliases(ctx, &hindsightv1.ListAliasesRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	if len(aliases[0].GetAliases()) != 9 || !proto.Equal(aliases[0], aliases[1]) {
		t.Errorf("aliases of four groups: %v\nof one engine: %v", aliases[0], aliases[1])
	}
	// The state of group 2 has an age. Metadata of a client does not choose a group.
	m.fakes[2].age.Store(int64(1500 * time.Millisecond))
	var trailer metadata.MD
	chosen := metadata.AppendToOutgoingContext(ctx, "hindsight-group", "3")
	if r, err := m.front.models.ListModels(chosen, &hindsightv1.ListModelsRequest{ShowDeleted: true}, grpc.Trailer(&trailer)); err != nil || r.GetTotalSize() != 60 ||
		!slices.Equal(trailer.Get(rpc.AgeTrailer), []string{"1500"}) || len(trailer.Get("hindsight-keys-bin")) > 0 {
		t.Errorf("a list of %d models, trailer %v, %v", r.GetTotalSize(), trailer, err)
	}
	if _, err := m.front.models.ListModels(ctx, &hindsightv1.ListModelsRequest{OrderBy: "size"}); reason(status.Convert(err)) != "INVALID_REQUEST" {
		t.Errorf("a bad order: %v", err)
	}
}
