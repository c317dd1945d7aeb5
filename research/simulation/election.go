package simulation

import (
	"fmt"
	"slices"
	"time"
)

const (
	// As package consensus sets them for one of several groups of a server.
	electionTimeout = 1500 * time.Millisecond
	heartbeats      = electionTimeout / 10
)

// group is a Raft group at rest: all logs are equal.
type group struct {
	number  int
	members []*replica
	moving  bool
	owners  map[uint64]string // By term.
}

// replica is a member of a group. A replica that owns has itself as leader.
type replica struct {
	server      string
	term, voted uint64
	leader      string
	heard       time.Duration
	candidate   bool
	// epoch ends timers and votes when the role changes.
	epoch int
}

func (g *group) quorum() int { return len(g.members)/2 + 1 }

// owner returns the owner with the highest term, nil if there is none.
func (g *group) owner() (owner *replica) {
	for _, r := range g.members {
		if r.leader == r.server && (owner == nil || r.term > owner.term) {
			owner = r
		}
	}
	return owner
}

func (c *Cluster) enter(g *group, server string) {
	r := &replica{server: server, heard: c.now}
	g.members = append(g.members, r)
	if owner := g.owner(); owner != nil {
		r.term, r.leader = owner.term, owner.server
		c.follow(g, r)
		c.beat(g, owner, r)
	}
}

func (c *Cluster) leave(g *group, server string) {
	k := slices.IndexFunc(g.members, func(r *replica) bool { return r.server == server })
	g.members[k].epoch++
	g.members = slices.Delete(g.members, k, k+1)
}

// transfer makes a member the owner, in a new term with the votes of all members.
func (c *Cluster) transfer(g *group, server string) {
	from, term := g.owner(), g.owner().term+1
	for _, r := range g.members {
		if r.term, r.voted = term, term; r == from {
			r.leader = ""
			c.follow(g, r)
		}
	}
	c.lead(g, g.members[slices.IndexFunc(g.members, func(r *replica) bool { return r.server == server })])
}

// timer calls do after d to 2·d, unless the role of the replica has changed.
func (c *Cluster) timer(g *group, r *replica, d time.Duration, do func()) {
	epoch := r.epoch
	c.at(c.now+d+time.Duration(c.random.Int64N(int64(d))), g, func() {
		if r.epoch == epoch {
			do()
		}
	})
}

// send delivers a message that is written first, unless the receiver is down or no member then.
func (c *Cluster) send(g *group, to *replica, write time.Duration, do func()) {
	c.at(c.now+write+latency+time.Duration(c.random.Int64N(int64(latency))), g, func() {
		if !c.down[to.server] && slices.Contains(g.members, to) {
			do()
		}
	})
}

// follow makes a replica a follower.
func (c *Cluster) follow(g *group, r *replica) {
	r.epoch++
	if r.candidate = false; c.beating {
		c.watch(g, r)
	}
}

// watch makes a follower a candidate when its timer ends and the owner was not heard for electionTimeout.
func (c *Cluster) watch(g *group, r *replica) {
	c.timer(g, r, electionTimeout, func() {
		if c.now-r.heard < electionTimeout {
			c.watch(g, r)
		} else {
			c.campaign(g, r)
		}
	})
}

// campaign asks the others whether they would vote, and then for their votes. A server that knows an owner rejects.
func (c *Cluster) campaign(g *group, r *replica) {
	again := func() {
		r.epoch++
		c.timer(g, r, electionTimeout, func() { c.campaign(g, r) })
	}
	again()
	r.candidate, r.leader = true, ""
	c.ask(g, r, r.term+1, 0, func(p *replica) bool { return p.leader == "" }, func() {
		again()
		r.term++
		r.voted = r.term
		c.ask(g, r, r.term, disk, func(p *replica) bool {
			if p.leader != "" || p.voted >= r.term {
				return false
			}
			p.term, p.voted, p.heard = r.term, r.term, c.now
			c.follow(g, p)
			return true
		}, func() { c.lead(g, r) })
	})
}

// ask calls won once a majority has said yes to a term.
func (c *Cluster) ask(g *group, r *replica, term uint64, write time.Duration, vote func(*replica) bool, won func()) {
	epoch, yes := r.epoch, 1
	for _, p := range g.members {
		if p == r {
			continue
		}
		c.send(g, p, write, func() {
			granted := r.epoch == epoch && p.term <= term && vote(p)
			c.send(g, r, write, func() {
				switch {
				case r.epoch != epoch:
				case p.term > term:
					r.term = p.term
					c.follow(g, r)
				case granted:
					if yes++; yes == g.quorum() {
						won()
					}
				}
			})
		})
	}
}

// lead makes a replica the owner of its term.
func (c *Cluster) lead(g *group, r *replica) {
	if other, ok := g.owners[r.term]; ok && other != r.server {
		c.violation = fmt.Errorf("at %v group %d has two owners in term %d: %s, %s", c.now, g.number, r.term, other, r.server)
	}
	g.owners[r.term] = r.server
	r.epoch++
	r.candidate, r.leader = false, r.server
	for _, p := range g.members {
		if p != r {
			c.beat(g, r, p)
		}
	}
}

// beat sends a heartbeat to a follower, now and until the owner or the members change.
func (c *Cluster) beat(g *group, r, p *replica) {
	if !c.beating || !slices.Contains(g.members, p) {
		return
	}
	c.timer(g, r, heartbeats, func() { c.beat(g, r, p) })
	c.sent[r.server]++
	epoch, term := r.epoch, r.term
	c.send(g, p, 0, func() {
		if term >= p.term {
			follows := !p.candidate && p.leader != p.server
			if p.term, p.leader, p.heard = term, r.server, c.now; !follows {
				c.follow(g, p)
			}
			return
		}
		c.send(g, r, 0, func() {
			if r.epoch == epoch {
				r.term, r.leader = p.term, ""
				c.follow(g, r)
			}
		})
	})
}

// Beat begins heartbeats and elections.
func (c *Cluster) Beat() {
	c.beating = true
	for _, g := range c.groups {
		for _, r := range g.members {
			r.heard = c.now
			c.follow(g, r)
		}
		c.lead(g, g.owner())
	}
}

// Kill ends servers at once.
func (c *Cluster) Kill(servers []string) {
	for _, g := range c.groups {
		for _, r := range g.members {
			if slices.Contains(servers, r.server) {
				c.down[r.server] = true
				r.epoch++
				r.candidate, r.leader = false, ""
			}
		}
	}
}

// Restart starts all servers that are down.
func (c *Cluster) Restart() {
	for _, g := range c.groups {
		for _, r := range g.members {
			if c.down[r.server] {
				c.follow(g, r)
			}
		}
	}
	clear(c.down)
}
