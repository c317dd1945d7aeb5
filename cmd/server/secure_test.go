package main_test

import (
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	server "hindsight/cmd/server"
	"hindsight/cmd/server/internal/config"
)

// What others can do who reach the server is said for each address that they reach.
func TestWarnings(t *testing.T) {
	const tls, clients = "listens without TLS", "does not authenticate its clients"
	open, own := &net.TCPAddr{Port: 1}, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}
	six, far := &net.TCPAddr{IP: net.IPv6loopback, Port: 1}, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1}
	certificate := config.Config{TLSCert: "c", TLSKey: "k"}
	required := certificate
	required.TLSClientCA, required.TLSClientAuth = "ca", config.ClientRequired
	optional := required
	optional.TLSClientAuth = config.ClientOptional
	for name, c := range map[string]struct {
		settings  config.Config
		addresses []net.Addr
		want      []string
	}{
		"loopback":       {config.Config{}, []net.Addr{own, six}, nil},
		"all interfaces": {config.Config{}, []net.Addr{open}, []string{tls, clients}},
		"one of two":     {config.Config{}, []net.Addr{own, far}, []string{tls, clients}},
		"both":           {config.Config{}, []net.Addr{open, far}, []string{tls, clients, tls, clients}},
		"TLS":            {certificate, []net.Addr{open}, []string{clients}},
		"mTLS":           {required, []net.Addr{open, far}, nil},
		"optional mTLS":  {optional, []net.Addr{open}, []string{clients}},
	} {
		core, log := observer.New(zap.WarnLevel)
		server.WarnExposed(zap.New(core), c.settings, c.addresses...)
		lines := log.All()
		if len(lines) != len(c.want) {
			t.Errorf("%s: %v", name, lines)
			continue
		}
		for i, want := range c.want {
			assert.True(t, strings.Contains(lines[i].Message, want), "%s: %s, want %s", name, lines[i].Message, want)
		}
	}
	for _, address := range []net.Addr{own, six, open, far} {
		loopback := address == own || address == six
		for _, c := range []config.Config{{}, certificate, {Tokens: "t"}} {
			assert.Equal(t, loopback && c == (config.Config{}), server.TakesEveryCall(c, address), "%s takes every call with %+v", address, c)
		}
	}
}
