// Package placement decides which servers of a cluster have which group of models, and which server owns a group.
// It knows servers by their addresses.
package placement

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
)

const (
	// Replicas is the number of members of a group, if the cluster has as many servers.
	Replicas = 3
	// MaxGroups bounds the groups of a cluster.
	MaxGroups = 1024
)

// Of returns the group of a model or an alias: 0 of a single group, else 1 to groups. Names that are equal up to the
// first '.' are in one group, so that fraud.v1, fraud.v2 and the alias fraud are together.
func Of(name string, groups int) int {
	if groups <= 1 {
		return 0
	}
	family, _, _ := strings.Cut(name, ".")
	return 1 + int(xxhash.Sum64String(family)%uint64(groups))
}

// Group is the placement of a group.
type Group struct {
	Number  int
	Members []string
	// Owner is empty while no server is known to own the group.
	Owner string
}

// Step changes a group. First the server Add becomes a member, then the server Owner becomes the owner, and then the
// server Remove is no longer a member. An empty field changes nothing.
type Step struct {
	Group              int
	Add, Owner, Remove string
}

// Plan returns the steps after which
//
//	every group has min(Replicas, len(servers)) members, all in servers
//	the servers have numbers of groups that differ by at most 1
//	the servers own numbers of groups that differ by at most 1, if the members allow it
//
// Of the memberships the least number moves. Equal inputs give equal steps. Cost: O(groups·servers) for each step.
func Plan(groups []Group, servers []string) []Step {
	p := newPlan(groups, servers)
	if len(servers) == 0 {
		return nil
	}
	for n := range p.groups {
		p.complete(&p.groups[n])
	}
	p.balance()
	p.own()
	return p.steps()
}

// Score orders servers for a group, the highest first: rendezvous hashing.
func score(server string, group int) uint64 {
	var d xxhash.Digest
	d.ResetWithSeed(uint64(group))
	_, _ = d.WriteString(server) // A hash never fails.
	return d.Sum64()
}

// planned is a group with the members that it will have.
type planned struct {
	Group
	now  []string
	next string // The owner that it will have.
}

type plan struct {
	servers []string
	groups  []planned
	// has and owns count the groups that a server will have, and own.
	has, owns map[string]int
}

func newPlan(groups []Group, servers []string) *plan {
	p := &plan{servers: slices.Sorted(slices.Values(servers)), has: map[string]int{}, owns: map[string]int{}}
	for _, g := range groups {
		stay := slices.DeleteFunc(slices.Clone(g.Members), func(s string) bool { return !slices.Contains(servers, s) })
		p.groups = append(p.groups, planned{Group: g, now: slices.Clone(g.Members)})
		p.groups[len(p.groups)-1].Members = stay
		for _, s := range stay {
			p.has[s]++
		}
	}
	slices.SortFunc(p.groups, func(a, b planned) int { return cmp.Compare(a.Number, b.Number) })
	return p
}

// complete gives a group as many members as it needs.
func (p *plan) complete(g *planned) {
	want := min(Replicas, len(p.servers))
	for len(g.Members) > want {
		most := slices.MaxFunc(g.Members, func(a, b string) int {
			// The owner stays if it can.
			return cmp.Or(cmp.Compare(btoi(a != g.Owner), btoi(b != g.Owner)), cmp.Compare(p.has[a], p.has[b]), cmp.Compare(a, b))
		})
		p.move(g, most, "")
	}
	for len(g.Members) < want {
		p.move(g, "", p.choose(g))
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// choose returns the server with the fewest groups that is no member of a group, of several the one with the highest
// score.
func (p *plan) choose(g *planned) string {
	best, least, highest := "", math.MaxInt, uint64(0)
	for _, s := range p.servers {
		if slices.Contains(g.Members, s) {
			continue
		}
		if h := score(s, g.Number); p.has[s] < least || p.has[s] == least && h > highest {
			best, least, highest = s, p.has[s], h
		}
	}
	return best
}

func (p *plan) move(g *planned, from, to string) {
	if from != "" {
		g.Members = slices.DeleteFunc(g.Members, func(s string) bool { return s == from })
		p.has[from]--
	}
	if to != "" {
		g.Members = append(g.Members, to)
		p.has[to]++
	}
}

// extremes returns the servers with the most and the fewest of something.
func (p *plan) extremes(of map[string]int) (most, fewest string) {
	by := func(a, b string) int { return cmp.Compare(of[a], of[b]) }
	return slices.MaxFunc(p.servers, by), slices.MinFunc(p.servers, by)
}

// balance moves groups from the server with the most to the server with the fewest. A server with two groups more than
// another has a group that the other has not.
func (p *plan) balance() {
	for {
		most, fewest := p.extremes(p.has)
		if p.has[most]-p.has[fewest] <= 1 {
			return
		}
		var best *planned
		for n := range p.groups {
			g := &p.groups[n]
			if !slices.Contains(g.Members, most) || slices.Contains(g.Members, fewest) {
				continue
			}
			if best == nil || p.prefers(g, best, most, fewest) {
				best = g
			}
		}
		p.move(best, most, fewest)
	}
}

// prefers reports whether a move of g from one server to another is better than a move of h: of groups that from does
// not own, because then the owner stays, the group with the highest score.
func (p *plan) prefers(g, h *planned, from, to string) bool {
	if a, b := g.Owner == from, h.Owner == from; a != b {
		return b
	}
	return score(to, g.Number) > score(to, h.Number)
}

// own chooses the owners.
func (p *plan) own() {
	for n := range p.groups {
		if g := &p.groups[n]; slices.Contains(g.Members, g.Owner) {
			g.next = g.Owner
			p.owns[g.next]++
		}
	}
	for n := range p.groups {
		if g := &p.groups[n]; g.next == "" {
			g.next = slices.MinFunc(g.Members, func(a, b string) int {
				return cmp.Or(cmp.Compare(p.owns[a], p.owns[b]), cmp.Compare(score(b, g.Number), score(a, g.Number)))
			})
			p.owns[g.next]++
		}
	}
	// Each pass of the loop takes a group from a server with too many. It ends when no path leads from such a server
	// to a server with two fewer.
	for p.shift() {
	}
}

// shift moves the ownership of groups along a path from a server to a server that owns at least two groups fewer.
func (p *plan) shift() bool {
	order := slices.SortedStableFunc(slices.Values(p.servers), func(a, b string) int { return cmp.Compare(p.owns[b], p.owns[a]) })
	for _, from := range order {
		if path := p.path(from); path != nil {
			for _, edge := range path {
				edge.g.next = edge.to
			}
			p.owns[from]--
			p.owns[path[0].to]++
			return true
		}
	}
	return false
}

// edge is a group whose ownership may move to a server.
type edge struct {
	g    *planned
	from string
	to   string
}

// path returns the shortest path from a server to a server that owns at least two groups fewer, the last edge first.
func (p *plan) path(from string) []edge {
	reached := map[string]edge{from: {}}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		for n := range p.groups {
			g := &p.groups[n]
			if g.next != at {
				continue
			}
			for _, to := range g.Members {
				if _, ok := reached[to]; ok {
					continue
				}
				reached[to] = edge{g, at, to}
				if p.owns[to]+2 <= p.owns[from] {
					var out []edge
					for s := to; s != from; s = reached[s].from {
						out = append(out, reached[s])
					}
					return out
				}
				queue = append(queue, to)
			}
		}
	}
	return nil
}

// steps returns the differences between what is and what will be: first the members, then the owners.
func (p *plan) steps() []Step {
	var members, owners []Step
	for n := range p.groups {
		g := &p.groups[n]
		added := slices.DeleteFunc(slices.Clone(g.Members), func(s string) bool { return slices.Contains(g.now, s) })
		removed := slices.DeleteFunc(slices.Clone(g.now), func(s string) bool { return slices.Contains(g.Members, s) })
		moved := false
		for k := range max(len(added), len(removed)) {
			s := Step{Group: g.Number}
			if k < len(added) {
				s.Add = added[k]
			}
			if k < len(removed) {
				s.Remove = removed[k]
			}
			if s.Remove == g.Owner && s.Remove != "" {
				s.Owner = g.successor(added[:min(k+1, len(added))])
				moved = s.Owner == g.next
			}
			members = append(members, s)
		}
		if g.next != g.Owner && !moved {
			owners = append(owners, Step{Group: g.Number, Owner: g.next})
		}
	}
	return append(members, owners...)
}

// successor returns the next owner, or another member if the next owner has not joined yet.
func (g *planned) successor(joined []string) string {
	is := func(s string) bool { return slices.Contains(joined, s) || slices.Contains(g.now, s) }
	if is(g.next) {
		return g.next
	}
	for _, s := range g.Members {
		if is(s) {
			return s
		}
	}
	return ""
}
