package config

import (
	"net"
	"slices"
	"strings"
)

const cluster = "Cluster"

// clusterSettings are those of a server that keeps its models together with others.
func clusterSettings(c *Config) []setting {
	return []setting{
		{cluster, "cluster-address", "", word("HOST:PORT", "nothing, or HOST:PORT by which other servers reach this one", &c.ClusterAddress, isPeer), "address of this server for the servers of its cluster, which it listens on; none is no cluster"},
		{cluster, "cluster-join", "", word("ADDRESSES", "nothing, or cluster addresses between commas, such as a:7946,b:7946,c:7946", &c.ClusterJoin, arePeers), "cluster addresses of servers to found a cluster with, or to join"},
		{cluster, "cluster-cert", "", file(&c.ClusterCert), "certificate of this server for the others, in PEM; needed unless all addresses are of this host"},
		{cluster, "cluster-key", "", file(&c.ClusterKey), "its key"},
		{cluster, "cluster-ca", "", file(&c.ClusterCA), "authority of the certificates of all servers of the cluster, in PEM"},
	}
}

// isPeer reports whether others can connect to an address; empty is no address.
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

// checkCluster refuses contradicting settings, as checkAccess does.
func (c Config) checkCluster() (name, want string) {
	secured := c.ClusterCert != "" || c.ClusterKey != "" || c.ClusterCA != ""
	switch {
	case c.ClusterAddress == "" && (secured || c.ClusterJoin != ""):
		return "cluster-address", "the address of this server, because another setting of a cluster is set"
	case secured && c.ClusterCert == "":
		return "cluster-cert", "a file beside cluster-key and cluster-ca"
	case secured && c.ClusterKey == "":
		return "cluster-key", "a file beside cluster-cert and cluster-ca"
	case secured && c.ClusterCA == "":
		return "cluster-ca", "a file beside cluster-cert and cluster-key"
	case c.ClusterAddress != "" && c.Durability == DurabilityAsync:
		return "durability", "sync in a cluster: the servers acknowledge what a majority of them has on disk"
	case c.ClusterAddress != "" && c.PendingDurability == PendingSync:
		return "pending-durability", "written in a cluster: Predict does not wait until other servers have its features"
	}
	return "", ""
}
