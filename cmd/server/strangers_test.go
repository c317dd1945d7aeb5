package main_test

import (
	"context"
	"net"
	"net/http"
	"sync"
	"syscall"
	"testing"
)

// crowd holds open connections to addresses, and opens another for each that the server closes, until the function that it
// returns is called. The connections have no certificate, and send nothing.
func crowd(t *testing.T, each int, addresses ...string) (leave func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var strangers sync.WaitGroup
	for _, address := range addresses {
		for range each {
			strangers.Go(func() {
				for ctx.Err() == nil {
					conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
					if err != nil {
						continue
					}
					hangUp := context.AfterFunc(ctx, func() { _ = conn.Close() })
					_, _ = conn.Read(make([]byte, 1)) // The connection ends.
					hangUp()
					_ = conn.Close()
				}
			})
		}
	}
	return func() { stop(); strangers.Wait() }
}

// Strangers take more connections to each cluster port than a server has descriptors. Then the owner stops for a while, and
// dies: the servers elect an owner each time, over new connections.
func TestStrangersAtTheClusterPort(t *testing.T) {
	all := seats(t, "/bin/sh", "-c", `ulimit -n 256 && exec "$0" "$@"`, binary)
	all[0].create(t)
	n := all[0].learn(t, 0, 30)
	var addresses []string
	for _, s := range all {
		addresses = append(addresses, s.flags[1])
	}
	defer crowd(t, 450, addresses...)()
	for _, fault := range []struct {
		name     string
		hit, end func(*seat)
	}{
		{"stopped", func(s *seat) { s.signal(t, syscall.SIGSTOP) }, func(s *seat) { s.signal(t, syscall.SIGCONT) }},
		{"killed", func(s *seat) { s.kill(t) }, func(s *seat) { s.launch(t) }},
	} {
		old := all[0].cluster(t).GetOwner()
		var owner *seat
		var left []*seat
		for _, s := range all {
			if s.cluster(t).GetServer() == old {
				owner = s
			} else {
				left = append(left, s)
			}
		}
		if owner == nil {
			t.Fatalf("no server is the owner %s", old)
		}
		fault.hit(owner)
		for k, s := range left {
			eventually(t, "a server knows another owner after the owner was "+fault.name, func() bool {
				now := s.cluster(t).GetOwner()
				return now != "" && now != old && s.ready(t) == http.StatusOK
			})
			end := n + 30
			eventually(t, "a server learns", func() bool { n = s.learn(t, n, end); return n == end })
			t.Logf("%s: server %d of the others learns", fault.name, k)
		}
		fault.end(owner)
		for _, s := range all {
			eventually(t, "every server is ready", func() bool { return s.ready(t) == http.StatusOK })
			s.knows(t, n)
		}
	}
}
