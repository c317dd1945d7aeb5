package cluster_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"hindsight/internal/cluster"
	"hindsight/internal/cluster/replicated"
	"hindsight/internal/engine/storage"
)

// The majority of digests decides which server replaces its store, and an owner that is wrong first hands the ownership
// on. Without a majority no server replaces its store.
func TestAMajorityOfDigestsDecides(t *testing.T) {
	t.Parallel()
	rows, state := func(d string) storage.Digest { return storage.Digest{Rows: d, State: "same"} }, func(d string) storage.Digest { return storage.Digest{Rows: "same", State: d} }
	for _, c := range []struct {
		name string
		// Digest has a digest of a part.
		digest func(string) storage.Digest
		// The owner has the digest right, and the others have these.
		others [2]string
		// wrong is the server that replaces its store: 0 is the owner, 3 is none.
		wrong int
	}{
		{"a replica is wrong", rows, [2]string{"right", "wrong"}, 2},
		{"the owner is wrong", rows, [2]string{"other", "other"}, 0},
		{"no majority", rows, [2]string{"other", "third"}, 3},
		{"the state of a replica is wrong", state, [2]string{"right", "wrong"}, 2},
		{"the owner's state is wrong", state, [2]string{"other", "other"}, 0},
		{"a replica does not know its state", state, [2]string{"right", ""}, 3},
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
			const index = 4096
			first.digests.Store(uint64(index), c.digest("right"))
			for k, s := range ordered[1:] {
				s.digests.Store(uint64(index), c.digest(c.others[k]))
			}
			first.node().Compare("m", index, c.digest("right"))
			switch {
			case slices.Contains(c.others[:], ""):
			case c.wrong == 3:
				eventually(t, "the servers say so", func() bool { return logged.FilterMessageSnippet("no majority agrees").Len() >= 2 })
			default:
				wrong := ordered[c.wrong]
				eventually(t, "the wrong server replaces its store", func() bool { return wrong.restarts() == restarts[c.wrong]+1 })
				next := owner(t, servers...)
				assert.True(t, next != wrong || c.wrong != 0, "the wrong owner still owns the models")
			}
			learn(t, "m", 3, servers...)
			haveAll(t, map[string]uint64{"m": 3}, servers...)
			for k, s := range ordered {
				got := s.restarts() - restarts[k]
				assert.True(t, k == c.wrong || got == 0, "server %d has replaced its store %d times", k, got)
			}
		})
	}
}

// After a restart a server takes no digest of an entry that it applies again, because it has rows of later entries.
func TestNoDigestOfOldEntries(t *testing.T) {
	t.Parallel()
	servers := startAll(t, 3)
	learn(t, "m", 2, servers...)
	haveAll(t, map[string]uint64{"m": 2}, servers...)
	digest := func() {
		t.Helper()
		eventually(t, "the owner proposes a digest", func() bool {
			m, _, err := findOrCreate(t.Context(), owner(t, servers...).node().Store(), "m")
			if err == nil {
				err = m.(*replicated.Model).ProposeDigest(t.Context(), 0, storage.Rows{})
			}
			return err == nil
		})
	}
	digested := func(s *server) (indices []uint64) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, c := range s.mu.changes {
			if c.Kind == storage.Digested {
				indices = append(indices, c.Index)
			}
		}
		return indices
	}
	last := servers[2]
	if last == owner(t, servers...) {
		last = servers[1]
	}
	digest()
	eventually(t, "all servers have a digest", func() bool { return len(digested(last)) > 0 })
	before := slices.Max(digested(last))
	last.close(t)
	last.mu.changes = nil
	last.start(t)
	eventually(t, "the server has a new digest", func() bool {
		digest()
		return len(digested(last)) > 0
	})
	first := digested(last)[0]
	assert.True(t, first > before, "a digest of entry %d, the server had applied entry %d", first, before)
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
		require.True(t, next.After(now), "the next repair is at %v, not after %v", next, now)
	}
	assert.True(t, count >= days && count <= days+10, "%d repairs in %d days", count, days)
	now = now.Add(100 * time.Hour)
	_, ok := r.Begin(now)
	assert.True(t, ok, "no repair after a long time without a difference")
	next, ok := r.Begin(now.Add(time.Hour))
	assert.True(t, ok, "the pauses do not begin anew: the next repair is at %v", next)
}
