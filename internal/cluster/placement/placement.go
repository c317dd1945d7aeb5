// Package placement decides which servers of a cluster have which group of models, and which server owns a group.
// It knows servers by their addresses.
package placement

import (
	"cmp"
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
// As few memberships as possible move. Equal inputs give equal steps. Cost: O(groups·servers) for each step.
func Plan(groups []Group, servers []string) []Step {
	p := newPlan(groups, servers)
	if len(servers) == 0 {
		return nil
	}
	for _, g := range p.groups {
		p.complete(g)
	}
	p.balance()
	p.chooseOwners()
	return p.steps()
}

// Score orders servers for a group, the highest first: rendezvous hashing.
func score(server string, group int) uint64 {
	var d xxhash.Digest
	d.ResetWithSeed(uint64(group))
	_, _ = d.WriteString(server) // A hash never fails.
	return d.Sum64()
}

type planned struct {
	Group
	now  []string
	next string // The owner that it will have.
}

type plan struct {
	servers []string
	groups  []*planned
	// has and owns count the groups that a server will have, and own.
	has, owns map[string]int
}

func newPlan(groups []Group, servers []string) *plan {
	p := &plan{servers: slices.Sorted(slices.Values(servers)), has: map[string]int{}, owns: map[string]int{}}
	for _, g := range groups {
		one := &planned{Group: g, now: g.Members}
		one.Members = without(g.Members, without(g.Members, servers))
		for _, s := range one.Members {
			p.has[s]++
		}
		p.groups = append(p.groups, one)
	}
	slices.SortFunc(p.groups, func(a, b *planned) int { return cmp.Compare(a.Number, b.Number) })
	return p
}

func without(servers, others []string) []string {
	return slices.DeleteFunc(slices.Clone(servers), func(s string) bool { return slices.Contains(others, s) })
}

// leastLoaded returns the server with the smallest number, of several the one with the highest score for a group.
func leastLoaded(of map[string]int, servers []string, group int) string {
	return slices.MinFunc(servers, func(a, b string) int {
		return cmp.Or(cmp.Compare(of[a], of[b]), cmp.Compare(score(b, group), score(a, group)))
	})
}

func (p *plan) complete(g *planned) {
	want := min(Replicas, len(p.servers))
	for len(g.Members) > want {
		fullest := slices.MaxFunc(g.Members, func(a, b string) int {
			// The owner stays if it can.
			return cmp.Or(btoi(a != g.Owner)-btoi(b != g.Owner), cmp.Compare(p.has[a], p.has[b]), cmp.Compare(a, b))
		})
		p.move(g, fullest, "")
	}
	for len(g.Members) < want {
		p.move(g, "", leastLoaded(p.has, without(p.servers, g.Members), g.Number))
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (p *plan) move(g *planned, from, to string) {
	if from != "" {
		g.Members = without(g.Members, []string{from})
		p.has[from]--
	}
	if to != "" {
		g.Members = append(g.Members, to)
		p.has[to]++
	}
}

// balance moves groups from the server with the most to the server with the fewest. A server with two groups more than
// another has a group that the other has not. Of several it moves one that the server does not own, because then the
// owner stays.
func (p *plan) balance() {
	by := func(a, b string) int { return cmp.Compare(p.has[a], p.has[b]) }
	for {
		fullest, fewest := slices.MaxFunc(p.servers, by), slices.MinFunc(p.servers, by)
		if p.has[fullest]-p.has[fewest] <= 1 {
			return
		}
		movable := slices.DeleteFunc(slices.Clone(p.groups), func(g *planned) bool {
			return !slices.Contains(g.Members, fullest) || slices.Contains(g.Members, fewest)
		})
		p.move(slices.MaxFunc(movable, func(a, b *planned) int {
			return cmp.Or(btoi(a.Owner != fullest)-btoi(b.Owner != fullest), cmp.Compare(score(fewest, a.Number), score(fewest, b.Number)))
		}), fullest, fewest)
	}
}

func (p *plan) chooseOwners() {
	for _, g := range p.groups {
		if slices.Contains(g.Members, g.Owner) {
			g.next = g.Owner
			p.owns[g.next]++
		}
	}
	for _, g := range p.groups {
		if g.next == "" {
			g.next = leastLoaded(p.owns, g.Members, g.Number)
			p.owns[g.next]++
		}
	}
	// Each pass of the loop takes a group from a server with too many. It ends when no path leads from such a server
	// to a server with two fewer.
	by := func(a, b string) int { return cmp.Compare(p.owns[b], p.owns[a]) }
	for slices.ContainsFunc(slices.SortedStableFunc(slices.Values(p.servers), by), p.shift) {
	}
}

// shift moves the ownership of groups along the shortest path from a server to a server that owns at least two groups
// fewer, if there is a path.
func (p *plan) shift(from string) bool {
	// edge is a group whose ownership may move from a server.
	type edge struct {
		g    *planned
		from string
	}
	reached := map[string]edge{from: {}}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		for _, g := range p.groups {
			if g.next != queue[0] {
				continue
			}
			for _, to := range g.Members {
				if _, ok := reached[to]; ok {
					continue
				}
				reached[to] = edge{g, queue[0]}
				if p.owns[to]+2 > p.owns[from] {
					queue = append(queue, to)
					continue
				}
				p.owns[from]--
				p.owns[to]++
				for s := to; s != from; s = reached[s].from {
					reached[s].g.next = s
				}
				return true
			}
		}
	}
	return false
}

// steps returns the differences between what is and what will be: first the members, then the owners.
func (p *plan) steps() []Step {
	var members, owners []Step
	for _, g := range p.groups {
		added, removed := without(g.Members, g.now), without(g.now, g.Members)
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
	for _, s := range append([]string{g.next}, g.Members...) {
		if slices.Contains(joined, s) || slices.Contains(g.now, s) {
			return s
		}
	}
	return ""
}
