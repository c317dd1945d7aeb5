package cluster_test

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"hindsight/internal/cluster"
	"hindsight/internal/cluster/consensus"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model/modeltest"
	"hindsight/internal/store"
)

func TestMain(m *testing.M) {
	clusters := "6" // The tests wait for elections more than they work.
	if modeltest.RaceDetector {
		clusters = "2"
	}
	if err := flag.Set("test.parallel", clusters); err != nil {
		panic(err)
	}
	// The library leaks these two goroutines after a transfer to a server that does not answer.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/hashicorp/raft.(*Raft).leadershipTransfer"),
		goleak.IgnoreTopFunction("github.com/hashicorp/raft.(*Raft).leaderLoop.func2"))
}

// patience ends the wait for a cluster that hangs. A cluster on a busy machine takes less.
const patience = 8 * time.Minute

// member is a server of a cluster with one group.
type member struct {
	*cluster.Node
	host *cluster.Host
}

func openMember(ctx context.Context, o cluster.Options) (*member, error) {
	h, err := cluster.OpenHost(ctx, o)
	if err != nil {
		return nil, err
	}
	n, err := h.Open(ctx, 0)
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return &member{n, h}, nil
}

func (m *member) Close() error { return errors.Join(m.Node.Close(), m.host.Close()) }

// server is a server of a test's cluster. While it runs, it opens its node again when that asks for it.
type server struct {
	dir, address string
	join         []string
	marks        consensus.Marks
	// ahead is how far the server's clock is ahead.
	ahead time.Duration
	tls   *tls.Config
	dial  cluster.Dialer
	// fs is the file system. Nil is the operating system's.
	fs    vfs.FS
	front *front
	// digests has the digests of the server's copy of a model, by the index of the check.
	digests sync.Map
	// log is the logger. Nil logs nothing.
	log *zap.Logger

	ended sync.WaitGroup
	// swapping is held while the node is opened again. Who reads the local store holds it shared.
	swapping sync.RWMutex
	mu       struct {
		sync.Mutex
		node     *member
		stop     chan struct{}
		restarts int
		err      error
		changes  []storage.Change
	}
}

// newServers returns servers that name each other, none running.
func newServers(t *testing.T, n int) []*server {
	t.Helper()
	var out []*server
	var all []string
	for range n {
		f := newFront(t)
		s := &server{dir: t.TempDir(), address: f.Addr().String(), front: f}
		out, all = append(out, s), append(all, s.address)
	}
	for _, s := range out {
		s.join = all
		t.Cleanup(func() { s.close(t) })
	}
	slices.SortFunc(out, func(a, b *server) int { return compare(a.address, b.address) })
	return out
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func (s *server) options(t *testing.T) cluster.Options {
	t.Helper()
	return cluster.Options{
		Directory: s.dir, Store: store.Options{FS: s.fs}, Address: s.address, Listener: s.front.open(), Join: s.join, TLS: s.tls, Dial: s.dial, Version: "test",
		Undone: func(uint64) func([]byte) bool { return func([]byte) bool { return false } },
		Marks:  s.marks, Now: func() time.Time { return time.Now().Add(s.ahead) }, Logger: cmp.Or(s.log, zap.NewNop()),
	}
}

func (s *server) start(t *testing.T) {
	t.Helper()
	s.open(t)
	stop := make(chan struct{})
	s.mu.Lock()
	s.mu.stop = stop
	s.mu.Unlock()
	s.ended.Go(func() {
		for {
			node := s.node()
			select {
			case <-stop:
				return
			case err := <-node.Failed():
				s.mu.Lock()
				s.mu.err = err
				s.mu.Unlock()
				return
			case <-node.Restart():
				s.swapping.Lock()
				s.report(t, node.Close())
				s.open(t)
				s.mu.Lock()
				s.mu.restarts++
				s.mu.Unlock()
				s.swapping.Unlock()
			}
		}
	})
}

func (s *server) open(t *testing.T) {
	t.Helper()
	node, err := openMember(context.Background(), s.options(t))
	if err != nil {
		s.report(t, err)
		return
	}
	node.Serve(func(c storage.Change) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.mu.changes = append(s.mu.changes, c)
	}, s.digest)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.node = node
}

// digest returns the digest of the server's copy of a model.
func (s *server) digest(_ string, index uint64, _ storage.Digest) storage.Digest {
	digest, _ := s.digests.Load(index)
	known, _ := digest.(storage.Digest)
	return known
}

// report fails the test, unless the power of the server was cut.
func (s *server) report(t *testing.T, err error) {
	t.Helper()
	p, ok := s.fs.(*power)
	assert.True(t, err == nil || (ok && p.off.Load()), err)
}

func (s *server) node() *member {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.node
}

func (s *server) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.err
}

func (s *server) restarts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.restarts
}

func (s *server) close(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	node, stop := s.mu.node, s.mu.stop
	s.mu.node, s.mu.stop, s.mu.err = nil, nil, nil
	s.mu.Unlock()
	if node == nil {
		return
	}
	close(stop)
	s.ended.Wait()
	if err := node.Close(); err != nil {
		if errors.Is(err, consensus.ErrStalled) {
			stacks := make([]byte, 1<<20)
			t.Logf("%s", stacks[:runtime.Stack(stacks, true)])
		}
		t.Error(err)
	}
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

func owner(t *testing.T, servers ...*server) *server {
	t.Helper()
	var out *server
	eventually(t, "an owner", func() bool {
		for _, s := range servers {
			if s.node().Owns() {
				out = s
			}
		}
		return out != nil
	})
	return out
}

// byOwner calls do with the owner, and again if the ownership has moved meanwhile, as it may on a busy machine.
func byOwner(t *testing.T, do func(*server) error, servers ...*server) {
	t.Helper()
	eventually(t, "an owner that stays", func() bool {
		first := owner(t, servers...)
		term := first.node().Status().Log.Term
		err := do(first)
		require.True(t, err == nil || owner(t, servers...) != first || first.node().Status().Log.Term != term, err)
		return err == nil
	})
}

// voters waits until every server knows so many voters.
func voters(t *testing.T, n int, servers ...*server) {
	t.Helper()
	for _, s := range servers {
		eventually(t, fmt.Sprintf("%d voters at %s", n, s.address), func() bool {
			require.NoError(t, s.failure())
			count := 0
			for _, m := range s.node().Status().Members {
				if m.Voter {
					count++
				}
			}
			return count == n
		})
	}
}

// learn appends to a model until it has so many records, through the owner.
func learn(t *testing.T, name string, records int, servers ...*server) {
	t.Helper()
	eventually(t, "the owner learns", func() bool {
		m, last, err := findOrCreate(t.Context(), owner(t, servers...).node().Store(), name)
		for at := last + 1; err == nil && at <= uint64(records); at++ {
			err = m.Append(t.Context(), storage.Commit{Record: storage.Record{First: at, Last: at, Data: fmt.Append(nil, at)}})
		}
		return err == nil // Else the ownership has moved, as it may on a busy machine.
	})
}

func findOrCreate(ctx context.Context, s storage.Store, name string) (m storage.Model, last uint64, err error) {
	err = s.Models(ctx, func(e storage.RegistryEntry) error {
		if e.Name == name {
			m = e.Model
		}
		return e.Err
	})
	if err == nil && m == nil {
		m, err = s.Create(ctx, name, []byte("value of "+name))
	}
	if err != nil {
		return nil, 0, err
	}
	last, err = m.Last()
	return m, last, err
}

// contents returns the contents of a server's local store.
func contents(t *testing.T, s *server) map[string]uint64 {
	t.Helper()
	s.swapping.RLock()
	defer s.swapping.RUnlock()
	out := map[string]uint64{}
	err := s.node().Local().Models(t.Context(), func(e storage.RegistryEntry) error {
		if e.Err != nil {
			return e.Err
		}
		last, err := e.Model.Last()
		out[e.Name] = last
		return err
	})
	require.NoError(t, err)
	return out
}

func haveAll(t *testing.T, want map[string]uint64, servers ...*server) {
	t.Helper()
	for _, s := range servers {
		eventually(t, fmt.Sprintf("%v at %s", want, s.address), func() bool {
			got := contents(t, s)
			if len(got) != len(want) {
				return false
			}
			for name, last := range want {
				if n, ok := got[name]; !ok || n != last {
					return false
				}
			}
			return true
		})
	}
}

func startAll(t *testing.T, n int) []*server {
	t.Helper()
	servers := newServers(t, n)
	for _, s := range servers {
		s.start(t)
	}
	voters(t, n, servers...)
	return servers
}

func TestThreeEmptyServersFoundACluster(t *testing.T) {
	t.Parallel()
	servers := startAll(t, 3)
	// The first by address founds, and the others begin with its store.
	for k, s := range servers {
		assert.Equal(t, min(k, 1), s.restarts(), s.address)
	}
	learn(t, "m", 3, servers...)
	haveAll(t, map[string]uint64{"m": 3}, servers...)
	for _, s := range servers {
		eventually(t, "a fresh state", func() bool { return s.node().Age() < time.Second })
		eventually(t, "every server knows the owner", func() bool {
			o, ok := s.node().Owner()
			return ok && o.Address == owner(t, servers...).address
		})
		byOwner(t, func(first *server) error {
			if s == first {
				return nil
			}
			if _, err := s.node().Store().Create(t.Context(), "replica", nil); !errors.Is(err, storage.ErrNotOwner) {
				return fmt.Errorf("a replica created a model: %w", err)
			}
			return nil
		}, servers...)
	}
	eventually(t, "every member has a fresh state, and one is the owner", func() bool {
		first := owner(t, servers...)
		members := servers[1].node().Members(t.Context())
		return len(members) == 3 && !slices.ContainsFunc(members, func(m cluster.MemberStatus) bool {
			return m.Err != nil || m.Owner != (m.Address == first.address) || !m.Voter || m.Version != "test" || m.Age > time.Second
		})
	})

	// The owner stops and restarts.
	first := owner(t, servers...)
	first.close(t)
	learn(t, "n", 1, slices.DeleteFunc(slices.Clone(servers), func(s *server) bool { return s == first })...)
	first.start(t)
	haveAll(t, map[string]uint64{"m": 3, "n": 1}, servers...)
}

func TestAServerWithModelsFounds(t *testing.T) {
	t.Parallel()
	servers := newServers(t, 3)
	with := servers[2]
	alone, err := store.Open(with.dir, store.Options{})
	require.NoError(t, err)
	m, err := alone.Create(t.Context(), "old", []byte("value"))
	if err == nil {
		err = m.Append(t.Context(), storage.Commit{Record: storage.Record{First: 1, Last: 1}})
	}
	require.NoError(t, errors.Join(err, alone.Close()))
	servers[0].start(t)
	servers[1].start(t)
	with.start(t)
	voters(t, 3, servers...)
	haveAll(t, map[string]uint64{"old": 1}, servers...)
	for _, s := range servers[:2] {
		assert.Equal(t, 1, s.restarts(), s.address)
	}
	learn(t, "new", 2, servers...)
	haveAll(t, map[string]uint64{"old": 1, "new": 2}, servers...)
}

func TestFoundingWaitsForEveryServer(t *testing.T) {
	t.Parallel()
	servers := newServers(t, 3)
	servers[0].start(t)
	servers[1].start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	_, err := servers[0].node().Conn(ctx)
	assert.ErrorIs(t, err, storage.ErrNotOwner, "a connection to an owner")
	assert.Equal(t, 0, len(servers[0].node().Status().Members)+len(servers[1].node().Status().Members))
	servers[2].start(t)
	voters(t, 3, servers...)
}

func TestTwoServersWithModelsReject(t *testing.T) {
	servers := newServers(t, 2)
	for _, s := range servers {
		alone, err := store.Open(s.dir, store.Options{})
		require.NoError(t, err)
		_, err = alone.Create(t.Context(), "m", nil)
		require.NoError(t, errors.Join(err, alone.Close()))
	}
	for _, s := range servers {
		s.start(t)
	}
	eventually(t, "a rejection", func() bool {
		return slices.ContainsFunc(servers, func(s *server) bool { return errors.Is(s.failure(), cluster.ErrFounders) })
	})
	for _, s := range servers {
		assert.Len(t, s.node().Status().Members, 0, s.address)
	}
}

func TestAnEmptiedDiskIsANewMember(t *testing.T) {
	t.Parallel()
	servers := startAll(t, 3)
	first := owner(t, servers...)
	learn(t, "m", 5, servers...)
	haveAll(t, map[string]uint64{"m": 5}, servers...)
	lost := servers[1]
	if lost == first {
		lost = servers[2]
	}
	id, before := lost.node().Self().ID, lost.restarts()
	lost.close(t)
	lost.dir = t.TempDir()
	lost.start(t)
	eventually(t, "the new member", func() bool {
		members := first.node().Status().Members
		return len(members) == 3 && !slices.ContainsFunc(members, func(m cluster.Member) bool { return m.ID == id || !m.Voter })
	})
	haveAll(t, map[string]uint64{"m": 5}, lost)
	assert.Equal(t, 1, lost.restarts()-before)
}

func TestAMemberFarBehindGetsACheckpoint(t *testing.T) {
	t.Parallel()
	servers := newServers(t, 3)
	for _, s := range servers {
		s.marks = consensus.Marks{Threshold: 10, Trailing: 5, Interval: 50 * time.Millisecond}
		s.start(t)
	}
	voters(t, 3, servers...)
	first := owner(t, servers...)
	learn(t, "a", 2, servers...)
	late := servers[2]
	if late == first {
		late = servers[1]
	}
	haveAll(t, map[string]uint64{"a": 2}, late)
	before := late.restarts()
	late.close(t)
	rest := slices.DeleteFunc(slices.Clone(servers), func(s *server) bool { return s == late })
	for n := range 5 {
		learn(t, "b", 100*(n+1), rest...)
		if err := pauseFor(t.Context(), 100*time.Millisecond); err != nil { // For marks.
			t.Fatal(err)
		}
	}
	late.start(t)
	haveAll(t, map[string]uint64{"a": 2, "b": 500}, late)
	assert.Equal(t, 1, late.restarts()-before)
	learn(t, "c", 1, servers...)
	haveAll(t, map[string]uint64{"a": 2, "b": 500, "c": 1}, servers...)
}

func TestOpenRejects(t *testing.T) {
	for _, address := range []string{"", ":7000", "0.0.0.0:7000", "[::]:7000", "127.0.0.1:0", "127.0.0.1"} {
		_, err := cluster.OpenHost(t.Context(), cluster.Options{Address: address})
		assert.ErrorIs(t, err, cluster.ErrAddress, "opened at %q", address)
	}
	_, err := cluster.OpenHost(t.Context(), cluster.Options{Address: "127.0.0.1:1", Store: store.Options{Async: true}})
	assert.ErrorIs(t, err, cluster.ErrAsync, "opened without durability")
}

func TestRepairReplacesTheStore(t *testing.T) {
	t.Parallel()
	servers := startAll(t, 2)
	first := owner(t, servers...)
	learn(t, "m", 2, servers...)
	haveAll(t, map[string]uint64{"m": 2}, servers...)
	replica := servers[0]
	if replica == first {
		replica = servers[1]
	}
	// This change is in no log.
	_, err := replica.node().Local().Create(t.Context(), "stray", nil)
	require.NoError(t, err)
	before := replica.restarts()
	replica.node().Lost("m")
	eventually(t, "a restart", func() bool { return replica.restarts() == before+1 })
	haveAll(t, map[string]uint64{"m": 2}, servers...)
	learn(t, "n", 1, servers...)
	haveAll(t, map[string]uint64{"m": 2, "n": 1}, servers...)
}
