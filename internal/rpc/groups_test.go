package rpc_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
		m.fakes[k] = new(fakeCluster)
	}
	for k := 1; k <= n; k++ {
		owned := new(fakeCluster)
		owned.owns.Store(true)
		m.owners[k] = serveOver(t, vfs.NewMem(), set, func(o *rpc.Options) {
			m.engines[k] = o.Groups.Of("").Engine
			g := m.newGroups()
			g.all[k].Cluster = owned
			g.hosted[k].Store(m.engines[k])
			o.Groups = g
		})
		listener := must(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
		var served sync.WaitGroup
		served.Go(func() { assert.NoError(t, m.owners[k].server.ServeMembers(listener)) })
		conn := must(grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
		m.fakes[k].conn.Store(conn)
		t.Cleanup(func() {
			m.owners[k].end()
			served.Wait()
			assert.NoError(t, conn.Close())
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
		labels, rows, deleted := map[string]string{"k": strconv.Itoa(rng.IntN(2))}, rng.IntN(4), rng.IntN(8) == 0
		alias := n%7 == 0
		now.Add(1e8) // An engine makes two models at different times.
		for _, s := range []*service{m.owners[groupOf(name, 4)], one} {
			must(s.models.CreateModel(ctx, &hindsightv1.CreateModelRequest{Id: name, Spec: linear(1), Labels: labels}))(t)
			for k := range rows {
				must(s.Observe(ctx, &hindsightv1.ObserveRequest{Model: name, Features: []float64{1}, Target: label(float64((k * n) % 5))}))(t)
			}
			if alias {
				must(s.models.SetAlias(ctx, &hindsightv1.SetAliasRequest{Alias: name + ".now", Model: name}))(t)
			} else if deleted {
				must(s.models.DeleteModel(ctx, &hindsightv1.DeleteModelRequest{Model: name}))(t)
			}
		}
	}
	require.Equal(t, 4, len(counts), counts)
	now.Add(5e9)
	for _, order := range []string{"", "id", "sequence", "create_time", "recent_loss", "recent_skill", "regret", "observation_rate", "health"} {
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
					require.NoError(t, err, r)
					for _, model := range page.GetModels() {
						model.Etag = ""
					}
					pages[side] = append(pages[side], page)
					if r.PageToken = page.GetNextPageToken(); r.GetPageToken() == "" {
						break
					}
				}
			}
			same := slices.EqualFunc(pages[0], pages[1], func(a, b *hindsightv1.ListModelsResponse) bool { return proto.Equal(a, b) })
			require.True(t, same, "%v: four groups list\n%s\none engine lists\n%s", r, idsOf(pages[0]), idsOf(pages[1]))
		}
	}
	var aliases [2]*hindsightv1.ListAliasesResponse
	for side, s := range []*service{m.front, one} {
		var err error
		aliases[side], err = s.models.ListAliases(ctx, &hindsightv1.ListAliasesRequest{})
		require.NoError(t, err)
	}
	assert.True(t, len(aliases[0].GetAliases()) == 9 && proto.Equal(aliases[0], aliases[1]), "aliases of four groups: %v\nof one engine: %v", aliases[0], aliases[1])
	// The state of group 2 has an age. Metadata of a client does not choose a group.
	m.fakes[2].age.Store(int64(1500 * time.Millisecond))
	var trailer metadata.MD
	chosen := metadata.AppendToOutgoingContext(ctx, "hindsight-group", "3")
	if r, err := m.front.models.ListModels(chosen, &hindsightv1.ListModelsRequest{ShowDeleted: true}, grpc.Trailer(&trailer)); err != nil || r.GetTotalSize() != 60 ||
		!slices.Equal(trailer.Get(rpc.AgeTrailer), []string{"1500"}) || len(trailer.Get("hindsight-keys-bin")) > 0 {
		t.Errorf("a list of %d models, trailer %v, %v", r.GetTotalSize(), trailer, err)
	}
	_, err := m.front.models.ListModels(ctx, &hindsightv1.ListModelsRequest{OrderBy: "size"})
	assert.Equal(t, "INVALID_REQUEST", reason(status.Convert(err)), err)
}

// A server answers the calls of each group where the group is: from its own engine, or by the owner. The server has
// group 1 as a replica, and no copy of group 2.
func TestCallsGoToTheirGroup(t *testing.T) {
	m := serveMany(t, 2, func(*engine.Options) {})
	m.host(1, false)
	names, ctx := m.names(), t.Context()
	m.fakes[1].conn.Store(nil) // This server has the engine of the owner. A forwarded call would fail.
	for n := 1; n <= 2; n++ {
		m.owners[n].create(t, names[n], linear(2))
		if n == 2 {
			m.front.create(t, names[n]+".made", linear(2))
		}
	}
	forgotten := proto.Bool(false)
	for n := 1; n <= 2; n++ {
		var trailer metadata.MD
		r := &hindsightv1.PredictRequest{Model: names[n], Features: []float64{1, 2}, Remember: forgotten}
		_, err := m.front.Predict(ctx, r, grpc.Trailer(&trailer))
		assert.True(t, err == nil && len(trailer.Get(rpc.AgeTrailer)) == 2-n, "predict in group %d: trailer %v, %v", n, trailer, err)
		assert.NoError(t, errOf(m.front.models.GetModel(ctx, &hindsightv1.GetModelRequest{Model: names[n]})), n)
	}
	r, err := m.front.Observe(ctx, &hindsightv1.ObserveRequest{Model: names[2], ObservationId: "o", Features: []float64{1, 2}, Target: label(1)})
	assert.True(t, err == nil && r.GetOutcome().GetSequence() == 1, "observe in group 2: %v, %v", r, err)
	err = inTime(t, func(ctx context.Context) error {
		return errOf(m.front.Observe(ctx, &hindsightv1.ObserveRequest{Model: names[1], Features: []float64{1, 2}, Target: label(1)}))
	})
	assert.Equal(t, "NOT_OWNER", reason(status.Convert(err)), "observe in group 1, which has no owner: %v", err)
	watch, err := m.front.models.WatchModel(ctx, &hindsightv1.WatchModelRequest{Model: names[2]})
	require.NoError(t, err)
	if event, err := watch.Recv(); err != nil || event.GetStats().GetObservations() != 1 {
		t.Errorf("a watch of group 2: %v, %v", event, err)
	}
	if _, err := m.front.models.GetModel(ctx, &hindsightv1.GetModelRequest{Model: names[2] + ".none"}); reason(status.Convert(err)) != "MODEL_NOT_FOUND" {
		t.Errorf("no model: %v", err)
	}
	// A server without any group describes learners and specs.
	m.groups.hosted[1].Store(nil)
	if r, err := m.front.models.ListLearners(ctx, &hindsightv1.ListLearnersRequest{}); err != nil || len(r.GetLearners()) == 0 {
		t.Errorf("learners: %v, %v", r, err)
	}
	if r, err := m.front.models.ValidateSpec(ctx, &hindsightv1.ValidateSpecRequest{Spec: linear(2)}); err != nil || r.GetStateBytes() == 0 {
		t.Errorf("a spec: %v, %v", r, err)
	}
	// The watch ends when this server drains.
	m.front.server.Drain(ctx)
	for err == nil {
		_, err = watch.Recv()
	}
	assert.Equal(t, "SHUTTING_DOWN", reason(status.Convert(err)), err)
}

// When this server closes an engine to open the store of its group again, the calls in between go to the owner.
func TestGroupIsOpenedAgain(t *testing.T) {
	m := serveMany(t, 1, func(*engine.Options) {})
	name := m.names()[1]
	m.owners[1].create(t, name, linear(2))
	var old *engine.Engine
	serveOver(t, vfs.NewMem(), func(*engine.Options) {}, func(o *rpc.Options) { old = o.Groups.Of("").Engine }).end()
	m.groups.hosted[1].Store(old) // It is closed.
	ctx := t.Context()
	assert.NoError(t, errOf(m.front.models.GetModel(ctx, &hindsightv1.GetModelRequest{Model: name})))
	assert.NoError(t, errOf(m.front.Predict(ctx, &hindsightv1.PredictRequest{Model: name, Features: []float64{1, 2}, Remember: proto.Bool(false)})))
	r, err := m.front.models.ListModels(ctx, &hindsightv1.ListModelsRequest{})
	assert.True(t, err == nil && r.GetTotalSize() == 1, "a list: %v, %v", r, err)
	m.fakes[1].owns.Store(true) // This server has just lost the ownership.
	lost := time.AfterFunc(50*time.Millisecond, func() { m.fakes[1].owns.Store(false) })
	defer lost.Stop()
	assert.NoError(t, errOf(m.front.Observe(ctx, &hindsightv1.ObserveRequest{Model: name, Features: []float64{1, 2}, Target: label(1)})))
}

// An alias, the model it names, and a follower are in one group.
func TestNamesOfSeveralGroups(t *testing.T) {
	m := serveMany(t, 2, func(*engine.Options) {})
	names, ctx := m.names(), t.Context()
	for n := 1; n <= 2; n++ {
		m.front.create(t, names[n], linear(2))
		m.front.create(t, names[n]+".v2", linear(2))
	}
	_, across := m.front.models.SetAlias(ctx, &hindsightv1.SetAliasRequest{Alias: names[1] + ".now", Model: names[2]})
	_, follower := m.front.models.CreateModel(ctx, &hindsightv1.CreateModelRequest{Id: names[1] + ".f", Spec: linear(2), Follows: names[2]})
	for field, err := range map[string]error{"model": across, "follows": follower} {
		if s := status.Convert(err); reason(s) != "INVALID_REQUEST" || !strings.HasPrefix(s.Message(), field) || !strings.Contains(s.Message(), "the same part before the first '.' share a group") {
			t.Errorf("%s: %v", field, err)
		}
	}
	_, err := m.front.models.SetAlias(ctx, &hindsightv1.SetAliasRequest{Alias: names[2] + ".now", Model: names[2]})
	assert.NoError(t, err, "an alias of one group")
	_, err = m.front.models.CreateModel(ctx, &hindsightv1.CreateModelRequest{Id: names[2] + ".f", Spec: linear(2), Follows: names[2]})
	assert.NoError(t, err, "a follower in the group")
	for _, bad := range []*hindsightv1.SetAliasRequest{{Alias: names[1] + ".x"}, {Model: names[1]}} {
		_, err := m.front.models.SetAlias(ctx, bad)
		assert.Equal(t, "INVALID_ID", reason(status.Convert(err)), "%v %v", bad, err)
	}
}

// The calls of ClusterService concern one group, or all groups of a server.
func TestClusterOfGroups(t *testing.T) {
	m := serveMany(t, 2, func(*engine.Options) {})
	m.host(1, true)
	m.fakes[0].owns.Store(true)
	m.fakes[1].age.Store(int64(7 * time.Millisecond))
	m.fakes[2].age.Store(1<<63 - 1)
	m.groups.step, m.groups.left = "moved group 1", 3
	ctx := t.Context()
	r, err := m.front.cluster.GetCluster(ctx, &hindsightv1.GetClusterRequest{})
	require.True(t, err == nil && len(r.GetGroups()) == 2 && len(r.GetServers()) == 3, "the cluster: %v, %v", r, err)
	if g := r.GetGroups()[0]; g.GetGroup() != 1 || g.GetOwner() != "192.0.2.1:7" || len(g.GetServers()) != 2 || g.GetAge().AsDuration() != 7*time.Millisecond {
		t.Errorf("group 1: %v", g)
	}
	g := r.GetGroups()[1]
	assert.True(t, g.GetGroup() == 2 && g.GetAge() == nil, "group 2: %v", g)
	r, err = m.front.cluster.GetCluster(ctx, &hindsightv1.GetClusterRequest{Group: 2})
	assert.True(t, err == nil && r.GetGroup() == 2 && len(r.GetGroups()) == 0, "group 2: %v, %v", r, err)
	_, err = m.front.cluster.GetCluster(ctx, &hindsightv1.GetClusterRequest{Group: 3})
	assert.Equal(t, "INVALID_REQUEST", reason(status.Convert(err)), "group 3: %v", err)
	_, err = m.front.cluster.MoveOwner(ctx, &hindsightv1.MoveOwnerRequest{Group: 3})
	assert.Equal(t, "INVALID_REQUEST", reason(status.Convert(err)), "move group 3: %v", err)
	if r, err := m.front.cluster.RebalanceCluster(ctx, &hindsightv1.RebalanceClusterRequest{Leaving: []string{"c"}}); err != nil ||
		r.GetStep() != "moved group 1" || r.GetLeft() != 3 || !slices.Equal(m.groups.leaving, []string{"c"}) {
		t.Errorf("rebalance: %v, %v", r, err)
	}
	assert.NoError(t, errOf(m.front.cluster.MoveOwner(ctx, &hindsightv1.MoveOwnerRequest{Group: 1, Server: "a"})), "move group 1")
	assert.NoError(t, errOf(m.front.cluster.DrainServer(ctx, &hindsightv1.DrainServerRequest{Server: "b"})), "drain")
	assert.NoError(t, errOf(m.front.cluster.RemoveServer(ctx, &hindsightv1.RemoveServerRequest{Server: "c"})), "remove")
	_, err = m.front.cluster.RemoveServer(ctx, &hindsightv1.RemoveServerRequest{Group: 1, Server: "c"})
	assert.Equal(t, "INVALID_REQUEST", reason(status.Convert(err)), "remove from a group: %v", err)
	for n, want := range [][]string{{"drain ", "remove c"}, {"move a"}, nil} {
		assert.Equal(t, want, m.fakes[n].calls, n)
	}
}
