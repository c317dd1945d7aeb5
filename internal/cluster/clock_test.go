package cluster_test

import (
	"testing"
	"time"
)

// A server whose clock is ahead is known by its status.
func TestServersCompareClocks(t *testing.T) {
	t.Parallel()
	servers := newServers(t, 3)
	servers[2].ahead = 25 * time.Hour
	for _, s := range servers {
		s.start(t)
	}
	voters(t, 3, servers...)
	for _, m := range servers[0].node().Members(t.Context()) {
		want := time.Duration(0)
		if m.Address == servers[2].address {
			want = 25 * time.Hour
		}
		if m.Err != nil || (m.Offset-want).Abs() > time.Second { // An answer takes at most a second.
			t.Errorf("the clock of %s is %v ahead, want %v: %v", m.Address, m.Offset, want, m.Err)
		}
	}
}
