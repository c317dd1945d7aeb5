package cluster_test

import (
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"hindsight/internal/cluster"
)

// The majority of digests decides which server replaces its store, and an owner that is wrong first hands the ownership
// on. Without a majority no server replaces its store.
func TestAMajorityOfDigestsDecides(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		// The owner has the digest right, and the others have these.
		others [2]string
		// wrong is the server that replaces its store: 0 is the owner, 3 is none.
		wrong int
	}{
		{"a replica is wrong", [2]string{"right", "wrong"}, 2},
		{"the owner is wrong", [2]string{"other", "other"}, 0},
		{"no majority", [2]string{"other", "third"}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			core, logged := observer.New(zapcore.ErrorLevel)
			servers := newServers(t, 3)
			for _, s := range servers {
				s.log = zap.New(core)
				s.start(t)
			}
			voters(t, 3, servers...)
			learn(t, "m", 2, servers...)
			haveAll(t, map[string]uint64{"m": 2}, servers...)
			first := owner(t, servers...)
			ordered := []*server{first}
			for _, s := range servers {
				if s != first {
					ordered = append(ordered, s)
				}
			}
			restarts := make([]int, len(ordered))
			for k, s := range ordered {
				restarts[k] = s.restarts()
			}
			first.states.Store(uint64(4096), "right")
			for k, s := range ordered[1:] {
				s.states.Store(uint64(4096), c.others[k])
				if c.others[k] != "right" {
					s.node().Differs("m", 4096, c.others[k])
				}
			}
			if c.wrong == 3 {
				eventually(t, "the servers say so", func() bool { return logged.FilterMessageSnippet("no majority agrees").Len() >= 2 })
			} else {
				wrong := ordered[c.wrong]
				eventually(t, "the wrong server replaces its store", func() bool { return wrong.restarts() == restarts[c.wrong]+1 })
				if next := owner(t, servers...); next == wrong && c.wrong == 0 {
					t.Error("the wrong owner still owns the models")
				}
			}
			learn(t, "m", 3, servers...)
			haveAll(t, map[string]uint64{"m": 3}, servers...)
			for k, s := range ordered {
				if got := s.restarts() - restarts[k]; k != c.wrong && got != 0 {
					t.Errorf("server %d has replaced its store %d times", k, got)
				}
			}
		})
	}
}

// A difference that lasts replaces the store ever more rarely.
func TestRepairsBecomeRare(t *testing.T) {
	t.Parallel()
	now, count := time.Unix(1000, 0), 0
	var r cluster.Repairs
	const days = 30
	for end := now.Add(days * 24 * time.Hour); now.Before(end); now = now.Add(time.Minute) { // A difference each minute.
		next, ok := r.Begin(now)
		if ok {
			count++
		}
		if !next.After(now) {
			t.Fatalf("the next repair is at %v, not after %v", next, now)
		}
	}
	if count < days || count > days+10 {
		t.Errorf("%d repairs in %d days", count, days)
	}
	now = now.Add(100 * time.Hour)
	if _, ok := r.Begin(now); !ok {
		t.Error("no repair after a long time without a difference")
	}
	if next, ok := r.Begin(now.Add(time.Hour)); !ok {
		t.Errorf("the pauses do not begin anew: the next repair is at %v", next)
	}
}
