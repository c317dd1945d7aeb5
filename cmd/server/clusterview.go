package main

import (
	"context"
	"maps"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"hindsight/internal/cluster"
	"hindsight/internal/metrics"
)

const membersInterval = 5 * time.Second

// The log names another server whose clock differs by more than clockOffset.
const clockOffset = time.Second

// clusterView is the cluster as this server sees it, for the metrics and the log.
type clusterView struct {
	groups  atomic.Pointer[groups]
	started time.Time
	// seen has the servers by state and the largest difference of clocks, as of the last request.
	seen atomic.Pointer[metrics.Cluster]
}

// read returns the cluster as this server knows it: of several groups the largest age.
func (v *clusterView) read() metrics.Cluster {
	out := metrics.Cluster{Members: map[string]int{}}
	g := v.groups.Load()
	if g == nil {
		return out
	}
	if seen := v.seen.Load(); seen != nil {
		out.Members, out.Offset = maps.Clone(seen.Members), seen.Offset
	}
	for n := range g.all {
		group := g.host.Group(uint32(n))
		node := group.Node()
		if node == nil {
			continue
		}
		s := node.Status()
		if n == 0 && s.Owner.ID != "" {
			out.Members["owner"] = 1
		}
		age := s.Age
		if age == cluster.Unheard {
			age = time.Since(v.started)
		}
		out.Behind = max(out.Behind, max(s.Log.Committed, s.Log.Applied)-s.Log.Applied)
		out.Age = max(out.Age, age)
	}
	return out
}

// watchMembers asks the members in every membersInterval until the context ends. It logs a server whose clock begins or
// ceases to differ.
func (v *clusterView) watchMembers(ctx context.Context) {
	ticker := time.NewTicker(membersInterval)
	defer ticker.Stop()
	far := map[string]bool{} // The servers whose clocks the log has named.
	for {
		seen := &metrics.Cluster{Members: map[string]int{}}
		if n := v.groups.Load().host.Group(0).Node(); n != nil {
			for _, one := range n.Members(ctx) {
				seen.Offset = max(seen.Offset, one.Offset.Abs())
				if is := one.Offset.Abs() > clockOffset; is != far[one.Address] && one.Err == nil {
					if far[one.Address] = is; is {
						v.groups.Load().log.Warn("the clock of another server differs from the clock of this server: the owner's clock decides what expires",
							zap.String("server", one.Address), zap.Duration("ahead", one.Offset))
					}
				}
				switch {
				case one.Owner: // read counts the owner.
				case one.Err != nil:
					seen.Members["missing"]++
				case !one.Voter:
					seen.Members["joining"]++
				default:
					seen.Members["voter"]++
				}
			}
		}
		v.seen.Store(seen)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}
