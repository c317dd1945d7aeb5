// Package simulation simulates a cluster of many servers. The placement of models and groups, and the loop of a
// rebalance, are the code of the server, package placement. Clock, network, disks and elections are models.
package simulation

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"hindsight/internal/cluster/placement"
)

// What the model takes as given.
const (
	// A message takes latency to 2·latency, within one region.
	latency = 500 * time.Microsecond
	// A vote is on disk after disk.
	disk = 3 * time.Millisecond
	// Measured with six servers on two cores: the step of a group without models takes joinTime, and a step that only
	// moves ownership ownTime.
	joinTime = 700 * time.Millisecond
	ownTime  = 200 * time.Millisecond
)

// Options of a cluster.
type Options struct {
	Servers, Groups int
	Seed            uint64
	// Bytes is the size of a group. A server sends, and receives, Bandwidth bytes a second.
	Bytes, Bandwidth float64
}

// Cluster is a simulated cluster. It implements placement.Fleet.
type Cluster struct {
	o       Options
	random  *rand.Rand
	now     time.Duration
	events  []event // By time, and at one time in the order of their making.
	servers []string
	down    map[string]bool
	// groups are the groups 1 and up.
	groups []*group
	// beating: owners send heartbeats, and elections take place.
	beating bool
	// settled: every group has its members.
	settled bool
	// sent counts the heartbeats of servers.
	sent map[string]int
	// sending and receiving say until when a server sends and receives checkpoints, one after the other.
	sending, receiving map[string]time.Duration
	// steps counts the steps, and added those that add a member.
	steps, added int
	violation    error
}

// event is something that happens to a group.
type event struct {
	at    time.Duration
	group *group
	do    func()
}

// Found founds a cluster. The first server is the only member of every group.
func Found(o Options) *Cluster {
	c := &Cluster{
		o: o, random: rand.New(rand.NewPCG(o.Seed, 1)), down: map[string]bool{}, sent: map[string]int{},
		sending: map[string]time.Duration{}, receiving: map[string]time.Duration{},
	}
	for range o.Servers {
		c.Join()
	}
	for n := range o.Groups {
		g := &group{number: n + 1, owners: map[uint64]string{}}
		c.groups = append(c.groups, g)
		c.enter(g, c.servers[0])
		c.lead(g, g.members[0])
	}
	return c
}

// Join adds a server without groups.
func (c *Cluster) Join() {
	k := len(c.servers)
	c.servers = append(c.servers, fmt.Sprintf("10.0.%d.%d:7946", k/RackSize, k%RackSize))
}

// RackSize is the number of servers of a rack.
const RackSize = 10

// Look implements placement.Fleet. As on a server, groups move only while every server that stays answers, and every
// group has an owner.
func (c *Cluster) Look(_ context.Context, leaving []string) (groups []placement.Group, servers []string, err error) {
	for _, s := range c.servers {
		switch {
		case slices.Contains(leaving, s):
		case c.down[s]:
			return nil, nil, fmt.Errorf("server %s is down", s)
		default:
			servers = append(servers, s)
		}
	}
	for _, g := range c.groups {
		p := placement.Group{Number: g.number}
		for _, r := range g.members {
			p.Members = append(p.Members, r.server)
		}
		owner := g.owner()
		if owner == nil {
			return nil, nil, fmt.Errorf("group %d has no owner", g.number)
		}
		p.Owner = owner.server
		groups = append(groups, p)
	}
	return groups, servers, nil
}

// Make implements placement.Fleet. It returns when all steps are made.
func (c *Cluster) Make(_ context.Context, steps []placement.Step) error {
	left := len(steps)
	for _, s := range steps {
		g := c.groups[s.Group-1]
		g.moving = true
		c.at(c.joined(g, s), g, func() {
			c.steps++
			if s.Add != "" {
				c.added++
				c.enter(g, s.Add)
			}
			if s.Owner != "" {
				c.transfer(g, s.Owner)
			}
			if s.Remove != "" {
				c.leave(g, s.Remove)
			}
			g.moving = false
			left--
		})
	}
	for left > 0 && c.violation == nil {
		c.next()
	}
	return c.violation
}

// joined returns the time at which a step is made: a checkpoint goes from the owner to the server that joins.
func (c *Cluster) joined(g *group, s placement.Step) time.Duration {
	if s.Add == "" {
		return c.now + ownTime
	}
	owner := g.owner().server
	end := max(c.now, c.sending[owner], c.receiving[s.Add]) + time.Duration(c.o.Bytes/c.o.Bandwidth*float64(time.Second))
	c.sending[owner], c.receiving[s.Add] = end, end
	return end + joinTime
}

func (c *Cluster) at(at time.Duration, g *group, do func()) {
	k, _ := slices.BinarySearchFunc(c.events, at, func(e event, at time.Duration) int { return cmp.Or(cmp.Compare(e.at, at), -1) })
	c.events = slices.Insert(c.events, k, event{at, g, do})
}

// next makes the next event happen, and checks its group.
func (c *Cluster) next() {
	e := c.events[0]
	c.events = c.events[1:]
	c.now = e.at
	e.do()
	c.check(e.group)
}

// check keeps the first violation of what holds after every event. Method lead checks that a term has one owner.
func (c *Cluster) check(g *group) {
	want := min(placement.Replicas, c.o.Servers)
	switch n := len(g.members); {
	case !c.settled || c.violation != nil:
	case n != want && (n != want+1 || !g.moving):
		c.violation = fmt.Errorf("at %v group %d has %d members, want %d", c.now, g.number, n, want)
	}
}

// Run simulates for some time.
func (c *Cluster) Run(d time.Duration) error {
	for end := c.now + d; ; {
		if c.violation != nil {
			return c.violation
		}
		if len(c.events) == 0 || c.events[0].at > end {
			c.now = end
			return nil
		}
		c.next()
	}
}

// Settle spreads the founded groups over the servers.
func (c *Cluster) Settle(ctx context.Context) error {
	err := placement.Spread(ctx, c)
	c.settled = err == nil
	return err
}

// Rebalance moves groups, a step at a time, until nothing is left to do.
func (c *Cluster) Rebalance(ctx context.Context, leaving []string) error {
	c.steps, c.added = 0, 0
	for {
		if step, _, err := placement.Rebalance(ctx, c, leaving); err != nil || step == (placement.Step{}) {
			return err
		}
	}
}
