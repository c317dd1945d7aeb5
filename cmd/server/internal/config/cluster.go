package config

import (
	"net"
	"slices"
	"strings"
)

const cluster = "Cluster"

// ClusterStandby says whether a server that is not the owner learns.
type ClusterStandby string

// The values of ClusterStandby.
const (
	// StandbyWarm is a server that learns every observation.
	StandbyWarm ClusterStandby = "warm"
	// StandbyCold is a server that stores every observation, and learns once it owns the models.
	StandbyCold ClusterStandby = "cold"
)

func clusterSettings(c *Config) []setting {
	return []setting{
		{cluster, "cluster-address", "", word("HOST:PORT", "nothing, or HOST:PORT that other servers can connect to", &c.ClusterAddress, isPeer), "address that this server listens on for the other servers of its cluster; without it the server has no cluster"},
		{cluster, "cluster-join", "", word("ADDRESSES", "nothing, or cluster addresses between commas, such as a:7946,b:7946,c:7946", &c.ClusterJoin, arePeers), "cluster addresses of the servers that found the cluster, or of servers to join"},
		{cluster, "cluster-groups", "1", count(1, 1024, &c.ClusterGroups), "groups of models of the cluster, fixed when it is founded; with several groups three servers keep each model, and more servers learn more"},
		{cluster, "cluster-standby", "warm", oneOf(&c.ClusterStandby, StandbyWarm, StandbyCold), "whether servers that are not the owner learn (warm) or only store what the owner learns (cold); the same on all servers"},
		{cluster, "cluster-cert", "", file(&c.ClusterCert), "certificate (PEM) for connections between servers; required unless all addresses are loopback addresses"},
		{cluster, "cluster-key", "", file(&c.ClusterKey), "private key of cluster-cert (PEM)"},
		{cluster, "cluster-ca", "", file(&c.ClusterCA), "CA file for verifying the other servers' certificates (PEM)"},
	}
}

// isPeer reports whether other servers can connect to an address. The empty address counts as valid.
func isPeer(address string) bool {
	host, port, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return address == "" || err == nil && host != "" && port != "" && port != "0" && !strings.ContainsAny(address, " \t\r\n,/") && (ip == nil || !ip.IsUnspecified())
}

func arePeers(list string) bool {
	return list == "" || !slices.ContainsFunc(strings.Split(list, ","), func(a string) bool { return a == "" || !isPeer(a) })
}

// Peers are the addresses of ClusterJoin.
func (c Config) Peers() []string {
	if c.ClusterJoin == "" {
		return nil
	}
	return strings.Split(c.ClusterJoin, ",")
}

func (c Config) checkCluster() (name, want string) {
	secured := c.ClusterCert != "" || c.ClusterKey != "" || c.ClusterCA != ""
	switch {
	case c.ClusterAddress == "" && (secured || c.ClusterJoin != "" || c.ClusterStandby == StandbyCold):
		return "cluster-address", "the address of this server, because another cluster setting is set"
	case secured && c.ClusterCert == "":
		return "cluster-cert", "a file beside cluster-key and cluster-ca"
	case secured && c.ClusterKey == "":
		return "cluster-key", "a file beside cluster-cert and cluster-ca"
	case secured && c.ClusterCA == "":
		return "cluster-ca", "a file beside cluster-cert and cluster-key"
	case c.ClusterAddress != "" && !secured && (c.Tokens != "" || c.TLSClientCA != ""):
		return "cluster-cert", "a file, because callers of this server are identified: without certificates every local program can call models through the cluster port"
	case c.ClusterAddress != "" && c.Durability == DurabilityAsync:
		return "durability", "sync in a cluster, because the owner acknowledges what a majority of the servers has on disk"
	}
	return "", ""
}
