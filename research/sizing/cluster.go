package sizing

import (
	"fmt"
	"math"
)

// What was measured in one run, of Observes of a model of linear_awv by 16 callers to a server alone and to three
// servers on two cores: processor seconds of a call beyond those of the server alone.
const (
	ownerSeconds   = 110e-6 // on the owner
	storeSeconds   = 95e-6  // on a server that stores the observation
	replicaSeconds = 35e-6  // and learns it, beside the multiply-adds
	forwardSeconds = 150e-6 // on both servers together, of a call that a server forwards
	pendingSeconds = 10e-6  // on each server, of a Predict that is remembered
	// A group at rest takes groupCores of a processor of a member. Its memory tables take up to groupBytes.
	groupCores = 0.0015
	groupBytes = 64 << 20
)

const (
	// The constant groupsAServer is the least number of groups per server of a cluster that spreads them.
	groupsAServer = 4
	// A group has replicas members. A cluster has at most maxGroups.
	replicas, maxGroups = 3, 1024
)

// Cluster is what models need of a cluster.
type Cluster struct {
	Servers  int    `json:"servers"`
	Groups   int    `json:"groups"`
	Replicas string `json:"replicas"` // warm or cold
	// Cores and Memory are of the busiest server while as many servers are down as may be lost.
	Cores  float64 `json:"coresPerServer"`
	Memory float64 `json:"memoryPerServerBytes"`
	// Warm is the number of servers with warm replicas, 0 if no number suffices.
	Warm int `json:"serversWarm"`
}

// Clustered returns the smallest cluster of servers with so many cores that continues after the loss of so many servers.
func Clustered(m *Model, l Load, lost int, cores float64) (Cluster, error) {
	if lost > 1 { // A group of several has three members, so that only a single group survives.
		c := m.cluster(l, 2*lost+1, 1, lost, true)
		if c.Warm = c.Servers; c.Cores > cores {
			return c, fmt.Errorf("the owner of all models needs %.3g cores, and several groups survive the loss of one server only", c.Cores)
		}
		return c, nil
	}
	warm, cold := m.smallest(l, cores, true), m.smallest(l, cores, false)
	best := cold
	if warm.Servers > 0 && warm.Servers <= cold.Servers {
		best = warm
	}
	if best.Warm = warm.Servers; best.Servers == 0 {
		return best, fmt.Errorf("%d groups over as many servers need more than %g cores a server", maxGroups, cores)
	}
	return best, nil
}

// smallest returns the cluster with the fewest servers that carries a load. It returns the zero Cluster if none does.
func (m *Model) smallest(l Load, cores float64, warm bool) Cluster {
	if c := m.cluster(l, replicas, 1, 1, warm); c.Cores <= cores {
		return c
	}
	for servers := replicas; servers <= maxGroups/groupsAServer; servers++ {
		groups := 1 << int(math.Ceil(math.Log2(float64(groupsAServer*servers))))
		if c := m.cluster(l, servers, groups, 1, warm); c.Cores <= cores {
			return c
		}
	}
	return Cluster{}
}

// cluster returns what a cluster needs.
func (m *Model) cluster(l Load, servers, groups, lost int, warm bool) Cluster {
	c := Cluster{Servers: servers, Groups: groups, Replicas: "cold"}
	n, g := float64(servers), float64(groups)
	members := g // Groups that the busiest server has, of which it owns some, also of the server that is down.
	owns := g
	if groups > 1 {
		owns = math.Ceil(g / n)
		members, owns = math.Ceil(g*replicas/n), owns+math.Ceil(1.5*owns/(n-float64(lost)))
	}
	cpu, rate := m.cpu(l), l.Rate*float64(l.Models)/g
	owner := rate * (cpu.Predict + cpu.Observe + ownerSeconds + pendingSeconds + 2*forwardSeconds*(n-1)/n)
	replica, states := rate*(storeSeconds+pendingSeconds), owns
	if warm {
		c.Replicas, states = "warm", members
		replica += rate * (replicaSeconds + float64(m.ObserveFlops)*observeFlopSeconds)
	}
	c.Cores = owns*owner + max(0, members-owns)*replica + members*groupCores
	perModel := float64(m.StateBytes) + m.figures()
	c.Memory = processBytes + (members-1)*groupBytes + collectorFactor*states/g*float64(l.Models)*perModel
	return c
}
