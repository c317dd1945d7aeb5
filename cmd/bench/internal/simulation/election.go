package simulation

import (
	"fmt"
	"slices"
	"time"
)

// The timeouts of hashicorp/raft as package consensus sets them, for a server with several groups.
const (
	electionTimeout = time.Second
	lease           = electionTimeout / 2
)

// pace is how often an owner sends to a follower at rest. An interval is drawn between the number and twice the number.
type pace struct{ heartbeat, append time.Duration }

// calm returns the pace of the groups of models. The owner repeats what a follower has acknowledged every 2 s, and then
// at most 100 ms later.
func calm() pace { return pace{electionTimeout / 10, 4100 * time.Millisecond / 3} }

// hot returns the pace of group 0, which has the timeouts of a server with one group.
func hot() pace { return pace{50 * time.Millisecond, 10 * time.Millisecond} }

// group is a Raft group at rest: all logs are equal.
type group struct {
	number  int
	pace    pace
	members []*replica
	moving  bool
	owners  map[uint64]string
}

// replica is a member of a group. A replica that owns has itself as leader.
type replica struct {
	server      string
	term, voted uint64
	leader      string
	heard       time.Duration
	candidate   bool
	// acked has the times at which followers have answered the owner.
	acked map[string]time.Duration
	// epoch ends timers when the role changes.
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

func (c *Cluster) enter(g *group, server string) *replica {
	r := &replica{server: server, heard: c.now, acked: map[string]time.Duration{}}
	if owner := g.owner(); owner != nil {
		r.term, r.leader = owner.term, owner.server
		if owner.acked[server] = c.now; c.beating {
			c.beats(g, owner, r)
		}
	}
	g.members = append(g.members, r)
	return r
}

func (c *Cluster) leave(g *group, server string) {
	g.members = slices.DeleteFunc(g.members, func(r *replica) bool {
		if r.server == server {
			r.epoch++
		}
		return r.server == server
	})
}

// transfer makes a member the owner, in a new term with the votes of all members.
func (c *Cluster) transfer(g *group, server string) {
	to := g.members[slices.IndexFunc(g.members, func(r *replica) bool { return r.server == server })]
	if from := g.owner(); from != to {
		term := from.term + 1
		from.leader = server
		for _, p := range g.members {
			p.term, p.voted = term, term
		}
		c.follow(g, from)
		c.lead(g, to)
	}
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

// send delivers a message, unless the receiver is down or no member then.
func (c *Cluster) send(g *group, to *replica, write time.Duration, do func()) {
	c.at(c.now+write+latency+time.Duration(c.random.Int64N(int64(latency))), g, func() {
		if !c.down[to.server] && slices.Contains(g.members, to) {
			do()
		}
	})
}

// follow makes a replica a follower. When the timer ends and the owner was not heard for electionTimeout, the replica
// becomes a candidate.
func (c *Cluster) follow(g *group, r *replica) {
	r.epoch++
	r.candidate = false
	if c.beating {
		c.watch(g, r)
	}
}

func (c *Cluster) watch(g *group, r *replica) {
	c.timer(g, r, electionTimeout, func() {
		if c.now-r.heard < electionTimeout {
			c.watch(g, r)
			return
		}
		c.campaign(g, r)
	})
}

// campaign asks the others whether they would vote. A server that knows an owner refuses.
func (c *Cluster) campaign(g *group, r *replica) {
	r.epoch++
	r.candidate, r.leader = true, ""
	c.timer(g, r, electionTimeout, func() { c.campaign(g, r) })
	c.ask(g, r, r.term+1, 0, func(p *replica) bool { return p.leader == "" }, func() {
		r.epoch++
		r.term++
		r.voted = r.term
		c.timer(g, r, electionTimeout, func() { c.campaign(g, r) })
		c.ask(g, r, r.term, disk, func(p *replica) bool {
			if p.leader != "" {
				return false
			}
			if p.term < r.term {
				p.term = r.term
				c.follow(g, p)
			}
			if p.voted >= r.term {
				return false
			}
			p.voted, p.heard = r.term, c.now
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
		if r.acked[p.server] = c.now; c.beating && p != r {
			c.heartbeat(g, r, p)
			c.beats(g, r, p)
		}
	}
	if c.beating {
		c.hold(g, r)
	}
}

// beats sends messages to a follower at rest.
func (c *Cluster) beats(g *group, r, p *replica) {
	c.repeat(g, r, p, g.pace.heartbeat, func() { c.heartbeat(g, r, p) })
	c.repeat(g, r, p, g.pace.append, func() { c.count(g, r) })
}

func (c *Cluster) repeat(g *group, r, p *replica, d time.Duration, do func()) {
	c.timer(g, r, d, func() {
		if slices.Contains(g.members, p) {
			do()
			c.repeat(g, r, p, d, do)
		}
	})
}

func (c *Cluster) heartbeat(g *group, r, p *replica) {
	c.count(g, r)
	epoch, term := r.epoch, r.term
	c.send(g, p, 0, func() {
		if term >= p.term {
			follows := !p.candidate && p.leader != p.server
			p.term, p.leader, p.heard = term, r.server, c.now
			if !follows {
				c.follow(g, p)
			}
		}
		c.send(g, r, 0, func() {
			switch {
			case r.epoch != epoch:
			case p.term > term:
				r.term, r.leader = p.term, ""
				c.follow(g, r)
			default:
				r.acked[p.server] = c.now
			}
		})
	})
}

// hold ends the ownership of a replica that no majority has answered within the lease.
func (c *Cluster) hold(g *group, r *replica) {
	c.timer(g, r, lease/10, func() {
		near := 0
		for _, p := range g.members {
			if p == r || c.now-r.acked[p.server] <= lease {
				near++
			}
		}
		if near >= g.quorum() {
			c.hold(g, r)
			return
		}
		r.leader = ""
		c.follow(g, r)
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

// BeatZero begins the heartbeats of group 0, whose members are all servers.
func (c *Cluster) BeatZero() {
	c.zero = &group{pace: hot(), owners: map[uint64]string{}}
	for _, s := range c.servers {
		c.enter(c.zero, s)
	}
	c.lead(c.zero, c.zero.members[0])
}

// Kill ends servers at once.
func (c *Cluster) Kill(servers []string) {
	for _, s := range servers {
		c.down[s] = true
	}
	for _, g := range c.groups {
		for _, r := range g.members {
			if c.down[r.server] {
				r.epoch++
				r.candidate, r.leader = false, ""
			}
		}
	}
}

// Restart starts all servers that are down.
func (c *Cluster) Restart() {
	down := c.down
	c.down = map[string]bool{}
	for _, g := range c.groups {
		for _, r := range g.members {
			if down[r.server] {
				c.follow(g, r)
			}
		}
	}
}

func (c *Cluster) count(g *group, r *replica) {
	if g == c.zero {
		c.zeroSent++
	} else {
		c.sent[r.server]++
	}
}
