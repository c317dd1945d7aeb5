package config_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"hindsight/cmd/server/internal/config"
)

func TestClusterSettings(t *testing.T) {
	c := load(t, []string{
		"--cluster-address=a:7946", "--cluster-join=a:7946,b:7946,[::1]:7946", "--cluster-standby=cold", "--cluster-cert=c.pem", "--cluster-key=k.pem", "--cluster-ca=ca.pem",
	}, environment{})
	if c.ClusterAddress != "a:7946" || !slices.Equal(c.Peers(), []string{"a:7946", "b:7946", "[::1]:7946"}) ||
		c.ClusterStandby != config.StandbyCold || c.ClusterCert != "c.pem" || c.ClusterKey != "k.pem" || c.ClusterCA != "ca.pem" {
		t.Errorf("%+v", c)
	}
	c = load(t, nil, environment{"HINDSIGHT_CLUSTER_ADDRESS": "a:7946"})
	assert.True(t, c.ClusterAddress == "a:7946" && c.Peers() == nil, "%+v", c)
	for args, want := range map[string]string{
		"--cluster-address=:7946":                                          "cluster-address",
		"--cluster-address=a":                                              "cluster-address",
		"--cluster-address=a:0":                                            "cluster-address",
		"--cluster-address=0.0.0.0:7946":                                   "cluster-address",
		"--cluster-join=a:7946":                                            "cluster-address",
		"--cluster-standby=cold":                                           "cluster-address",
		"--cluster-address=a:1 --cluster-standby=hot":                      "cluster-standby",
		"--cluster-address=a:1 --cluster-join=a:1,":                        "cluster-join",
		"--cluster-address=a:1 --cluster-join=b":                           "cluster-join",
		"--cluster-address=a:1 --cluster-cert=c":                           "cluster-key",
		"--cluster-address=a:1 --cluster-ca=c":                             "cluster-cert",
		"--cluster-address=a:1 --cluster-cert=c --cluster-key=k":           "cluster-ca",
		"--cluster-ca=c":                                                   "cluster-address",
		"--cluster-address=a:1 --tokens=t":                                 "cluster-cert",
		"--cluster-address=a:1 --tls-cert=c --tls-key=k --tls-client-ca=a": "cluster-cert",
		"--cluster-address=a:1 --durability=async":                         "durability",
	} {
		_, err := config.Load(strings.Fields(args), environment{}.lookup)
		assert.True(t, err != nil && strings.HasPrefix(err.Error(), want+" "), "%s: %v, want an error of %s", args, err, want)
	}
}
