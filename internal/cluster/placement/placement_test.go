package placement_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/cluster/placement"
)

func servers(n int) []string {
	out := make([]string, n)
	for k := range out {
		out[k] = fmt.Sprintf("10.0.0.%d:7000", k)
	}
	return out
}

// founded returns groups that the first server has founded.
func founded(groups int, server string) []placement.Group {
	out := make([]placement.Group, groups)
	for k := range out {
		out[k] = placement.Group{Number: k + 1, Members: []string{server}, Owner: server}
	}
	return out
}

// apply makes a step.
func apply(t *testing.T, groups []placement.Group, s placement.Step) {
	t.Helper()
	k := slices.IndexFunc(groups, func(g placement.Group) bool { return g.Number == s.Group })
	g := &groups[k]
	g.Members = slices.Clone(g.Members)
	if s.Add != "" {
		require.False(t, slices.Contains(g.Members, s.Add), "%+v adds a member of %+v", s, *g)
		g.Members = append(g.Members, s.Add)
	}
	if s.Owner != "" {
		require.True(t, slices.Contains(g.Members, s.Owner), "%+v: the owner is no member of %+v", s, *g)
		g.Owner = s.Owner
	}
	if s.Remove != "" {
		require.True(t, g.Owner != s.Remove, "%+v removes the owner of %+v", s, *g)
		at := slices.Index(g.Members, s.Remove)
		require.True(t, at >= 0, "%+v removes no member of %+v", s, *g)
		g.Members = slices.Delete(g.Members, at, at+1)
	}
}

// rebalance makes the first step of a plan until no step is left, and returns the number of steps that add a member.
func rebalance(t *testing.T, groups []placement.Group, servers []string) (added int) {
	t.Helper()
	limit := len(placement.Plan(groups, servers)) + len(groups)
	for steps := placement.Plan(groups, servers); len(steps) > 0; steps = placement.Plan(groups, servers) {
		limit--
		require.True(t, limit >= 0, "%d steps are left: %+v", len(steps), steps)
		apply(t, groups, steps[0])
		if steps[0].Add != "" {
			added++
		}
	}
	return added
}

// counts returns the numbers of groups that servers have and own.
func counts(groups []placement.Group) (has, owns map[string]int) {
	has, owns = map[string]int{}, map[string]int{}
	for _, g := range groups {
		for _, s := range g.Members {
			has[s]++
		}
		owns[g.Owner]++
	}
	return has, owns
}

func spread(of map[string]int, servers []string) (fullest, fewest int) {
	fewest = of[servers[0]]
	for _, s := range servers {
		fullest, fewest = max(fullest, of[s]), min(fewest, of[s])
	}
	return fullest, fewest
}

func check(t *testing.T, groups []placement.Group, servers []string) {
	t.Helper()
	for _, g := range groups {
		members := slices.Compact(slices.Sorted(slices.Values(g.Members)))
		want := min(placement.Replicas, len(servers))
		require.True(t, len(members) == want && len(g.Members) == want, "group %d has the members %v, want %d", g.Number, g.Members, want)
		for _, m := range append(g.Members, g.Owner) {
			require.True(t, slices.Contains(servers, m), "%+v has a server that left", g)
		}
		require.True(t, slices.Contains(g.Members, g.Owner), "%+v: the owner is no member", g)
	}
	has, owns := counts(groups)
	fullest, fewest := spread(has, servers)
	assert.True(t, fullest-fewest <= 1, "servers have %d to %d groups: %v", fewest, fullest, has)
	fullest, fewest = spread(owns, servers)
	assert.True(t, fullest-fewest <= 1, "servers own %d to %d groups: %v", fewest, fullest, owns)
}

// TestPlan: groups are balanced after they are founded, and whenever servers join or leave. A join or a departure
// moves the least number of memberships, or at most a fifth more: a member cannot join its group again.
func TestPlan(t *testing.T) {
	t.Parallel()
	for _, size := range []struct{ groups, servers int }{{16, 6}, {1, 3}, {4, 5}, {7, 2}, {64, 3}, {128, 20}} {
		t.Run(fmt.Sprintf("%d groups, %d servers", size.groups, size.servers), func(t *testing.T) {
			t.Parallel()
			all := servers(size.servers + 8)
			groups, now := founded(size.groups, all[0]), all[:size.servers]
			rebalance(t, groups, now)
			check(t, groups, now)
			random := rand.New(rand.NewPCG(1, uint64(size.groups)))
			for range 12 {
				next := slices.Clone(now)
				if random.IntN(2) == 0 && len(now) < len(all) || len(now) <= placement.Replicas {
					next = append(next, all[slices.IndexFunc(all, func(s string) bool { return !slices.Contains(now, s) })])
				} else {
					k := random.IntN(len(next))
					next = slices.Delete(next, k, k+1)
				}
				before, _ := counts(groups)
				added := rebalance(t, groups, next)
				check(t, groups, next)
				if leastLoaded := minMoves(before, next, size.groups); len(now) >= placement.Replicas && added > max(leastLoaded+1, leastLoaded*6/5) {
					t.Errorf("from %d to %d servers %d memberships moved, the least is %d", len(now), len(next), added, leastLoaded)
				}
				now = next
			}
		})
	}
}

// minMoves returns the number of memberships that servers must gain so that their numbers differ by at most 1.
func minMoves(has map[string]int, servers []string, groups int) int {
	all := groups * min(placement.Replicas, len(servers))
	low, large := all/len(servers), all%len(servers)
	// The servers with the most groups keep one more.
	now := make([]int, 0, len(servers))
	for _, s := range servers {
		now = append(now, has[s])
	}
	slices.SortFunc(now, func(a, b int) int { return b - a })
	moves := 0
	for k, n := range now {
		want := low
		if k < large {
			want++
		}
		moves += max(0, want-n)
	}
	return moves
}

// The commands of testdata/plans make the steps below them. To write the file anew, run go test -run TestTranscripts -rewrite.
//
//	found SERVER           founds four groups on a server
//	rebalance SERVER…      makes the first step of a plan until no step is left, and prints the steps and the groups
func TestTranscripts(t *testing.T) {
	var groups []placement.Group
	datadriven.RunTest(t, "testdata/plans", func(t *testing.T, d *datadriven.TestData) string {
		t.Helper()
		var servers []string
		for _, a := range d.CmdArgs {
			servers = append(servers, a.Key)
		}
		if d.Cmd == "found" {
			groups = founded(4, servers[0])
		}
		var out strings.Builder
		for steps := placement.Plan(groups, servers); d.Cmd == "rebalance" && len(steps) > 0; steps = placement.Plan(groups, servers) {
			s := steps[0]
			apply(t, groups, s)
			fmt.Fprintf(&out, "group %d:", s.Group)
			for _, change := range [][2]string{{"add", s.Add}, {"owner", s.Owner}, {"remove", s.Remove}} {
				if change[1] != "" {
					fmt.Fprint(&out, " ", change[0], " ", change[1])
				}
			}
			out.WriteString("\n")
		}
		for _, g := range groups {
			fmt.Fprintf(&out, "group %d has %s, owner %s\n", g.Number, strings.Join(g.Members, " "), g.Owner)
		}
		return out.String()
	})
}

// TestOf: names of one family share a group, and families spread over all groups.
func TestOf(t *testing.T) {
	t.Parallel()
	assert.Equal(t, 0, placement.Of("fraud", 1))
	const groups, names = 16, 9600
	load := make([]int, groups+1)
	for n := range names {
		name := fmt.Sprintf("model-%d", n)
		g := placement.Of(name, groups)
		require.Equal(t, g, placement.Of(name+".v2", groups), "%v %v", name, name)
		load[g]++
	}
	for g, n := range load[1:] {
		assert.True(t, n >= names/groups*8/10 && n <= names/groups*12/10, "group %d has %d of %d names", g+1, n, names)
	}
	// Stored models stay where they are: these numbers never change.
	for name, want := range map[string]int{"fraud": 5, "price.eu": 12, "a": 12} {
		assert.Equal(t, want, placement.Of(name, groups), name)
	}
}
