package consensus_test

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"hindsight/internal/cluster/consensus"
	"hindsight/internal/engine/storage"
)

func TestMain(m *testing.M) {
	ports.Store(rand.Uint32() / 2)
	if err := flag.Set("test.parallel", "8"); err != nil { // The tests wait for elections.
		panic(err)
	}
	// The library leaks these two goroutines after a transfer to a server that does not answer.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/hashicorp/raft.(*Raft).leadershipTransfer"),
		goleak.IgnoreTopFunction("github.com/hashicorp/raft.(*Raft).leaderLoop.func2"))
}

// patience ends the wait for a cluster that hangs. A cluster on a busy machine takes less.
const patience = 3 * time.Minute

// server is one server of a test's cluster. Its storage and its state survive Close.
type server struct {
	self    consensus.Member
	storage consensus.Storage
	marks   consensus.Marks
	apply   func(entry string) error
	now     func() time.Time
	calm    bool
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	ahead   *atomic.Int64 // How far the clocks of the cluster are ahead.

	*consensus.Log
	stream *consensus.Stream
	mu     struct {
		sync.Mutex
		index   uint64
		entries []string
		// behind has the indexes of marks that the state does not reach.
		behind []uint64
	}
}

// ports numbers the ports, so that no two servers draw the same one.
var ports atomic.Uint32

func newServer(t *testing.T, id string) *server {
	t.Helper()
	s := &server{storage: raft.NewInmemStore(), ahead: new(atomic.Int64)}
	s.now = func() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }
	// Outgoing connections and listeners of any port do not take the port while the server is down.
	for range 100 {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(12000+int(ports.Add(1)%18000)))
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		if err != nil {
			continue
		}
		require.NoError(t, listener.Close())
		s.self = consensus.Member{ID: id, Address: address, Voter: true}
		return s
	}
	t.Fatal("no port is free")
	return nil
}

func listen(t *testing.T, address string) net.Listener {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", address)
	require.NoError(t, err)
	return l
}

func (s *server) open(t *testing.T) {
	t.Helper()
	stream, err := consensus.Listen(listen(t, s.self.Address), nil, func(error) {})
	require.NoError(t, err)
	if s.stream = stream; s.dial != nil {
		stream.DialBy(s.dial)
	}
	s.Log, err = consensus.Open(consensus.Options{
		Self: s.self, Storage: s.storage, Stream: stream, Apply: s.applyEntry, Sync: func(context.Context) error { return nil },
		Has: s.has, Behind: s.isBehind, Marks: s.marks, Now: s.now, Logger: zap.NewNop(), Calm: s.calm,
	})
	require.NoError(t, err)
	t.Cleanup(func() { s.close(t) })
}

func (s *server) close(t *testing.T) {
	t.Helper()
	err := errors.Join(s.Close(), s.stream.Close())
	assert.True(t, err == nil || errors.Is(err, net.ErrClosed), err)
}

func (s *server) applyEntry(index uint64, entry []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if index <= s.mu.index {
		return nil
	}
	if s.apply != nil {
		if err := s.apply(string(entry)); err != nil {
			return err
		}
	}
	s.mu.index = index
	s.mu.entries = append(s.mu.entries, string(entry))
	return nil
}

func (s *server) has(index uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.index >= index
}

func (s *server) isBehind(index uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.behind = append(s.mu.behind, index)
}

func (s *server) entries() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.mu.entries)
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
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
			if s.Owns() {
				out = s
			}
		}
		return out != nil
	})
	return out
}

// split returns the owner, and the other servers.
func split(t *testing.T, servers []*server) (first *server, rest []*server) {
	t.Helper()
	first = owner(t, servers...)
	return first, slices.DeleteFunc(slices.Clone(servers), func(s *server) bool { return s == first })
}

// found makes a cluster. The first server founds it, and the others begin with the founder's state.
func found(t *testing.T, change ...func(*server)) []*server {
	t.Helper()
	const n = 3
	var out []*server
	for k := range n {
		out = append(out, newServer(t, fmt.Sprintf("s%d", k)))
	}
	require.NoError(t, consensus.Found(out[0].storage, out[0].self, 0))
	for _, s := range out {
		s.ahead, s.mu.index = out[0].ahead, 1
		for _, c := range change {
			c(s)
		}
		s.open(t)
	}
	for _, s := range out[1:] {
		// On a busy machine a server may lose ownership meanwhile, and the added server may gain it.
		eventually(t, "another member", func() bool { return owner(t, out...).Add(t.Context(), s.self) == nil })
	}
	for _, s := range out {
		eventually(t, "members", func() bool { return len(s.Members()) == n })
	}
	return out
}

// propose adds an entry to the log through the owner. On a busy machine a server may lose ownership meanwhile.
func propose(t *testing.T, entry string, servers ...*server) {
	t.Helper()
	eventually(t, "the owner commits", func() bool {
		err := owner(t, servers...).Propose(t.Context(), []byte(entry))
		require.True(t, err == nil || errors.Is(err, storage.ErrNotOwner) || errors.Is(err, consensus.ErrNotKnown), err)
		if errors.Is(err, consensus.ErrNotKnown) { // Once the next owner applies all entries, it has this one, or nobody has.
			next := owner(t, servers...)
			for ; next.Barrier(t.Context()) != nil; next = owner(t, servers...) {
			}
			return slices.Contains(next.entries(), entry)
		}
		return err == nil
	})
}

func haveAll(t *testing.T, want []string, servers ...*server) {
	t.Helper()
	for _, s := range servers {
		eventually(t, "entries at "+s.self.ID, func() bool { return slices.Equal(s.entries(), want) })
	}
}

func TestThreeServersApplyWhatTheOwnerProposes(t *testing.T) {
	t.Parallel()
	servers := found(t)
	propose(t, "one", servers...)
	propose(t, "two", servers...)
	haveAll(t, []string{"one", "two"}, servers...)
	accepted := []string{"one", "two"}
	for _, s := range servers {
		eventually(t, "a fresh state", func() bool { return s.Age() < time.Second })
		eventually(t, "a follower knows the owner, and rejects", func() bool {
			first := owner(t, servers...)
			if s == first {
				return s.Age() == 0 // The owner's state has no age while the lease lasts.
			}
			err := s.Propose(t.Context(), []byte("three"))
			if err == nil { // It has just become the owner.
				accepted = append(accepted, "three")
			}
			o, ok := s.Owner()
			return errors.Is(err, storage.ErrNotOwner) && ok && o.ID == first.self.ID && o.Address == first.self.Address
		})
	}
	haveAll(t, accepted, servers...)
}

func TestAnotherServerOwnsWhenTheOwnerIsGone(t *testing.T) {
	t.Parallel()
	servers := found(t)
	propose(t, "one", servers...)
	first, rest := split(t, servers)
	first.close(t)
	propose(t, "two", rest...)
	haveAll(t, []string{"one", "two"}, rest...)

	first.open(t)
	haveAll(t, []string{"one", "two"}, servers...)
	eventually(t, "one server owns the log", func() bool {
		_, others := split(t, servers)
		return !slices.ContainsFunc(others, func(s *server) bool { return s.Owns() })
	})
}

func TestMove(t *testing.T) {
	t.Parallel()
	eventually(t, "a move without an election, as a busy machine may need", func() bool {
		servers := found(t)
		from, rest := split(t, servers)
		to := rest[1]
		propose(t, "before", servers...)
		elections := func() (n uint64) {
			for _, s := range servers {
				n += s.Status().Elections
			}
			return n
		}
		begun := elections()
		stop := make(chan struct{})
		var proposing sync.WaitGroup
		var acknowledged []string
		var open error
		proposing.Go(func() {
			for n := 0; ; n++ {
				entry := strconv.Itoa(n)
				switch err := from.Propose(context.Background(), []byte(entry)); {
				case err == nil:
					acknowledged = append(acknowledged, entry)
				case errors.Is(err, storage.ErrNotOwner):
					return // The entry is in no log: haveAll proves it.
				default:
					open = err
					return
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
		err := from.Move(t.Context(), to.self)
		close(stop)
		proposing.Wait()
		got := owner(t, servers...)
		again := from.Move(t.Context(), to.self)
		if errors.Is(err, storage.ErrNotOwner) || elections() != begun+1 {
			return false
		}
		require.NoError(t, errors.Join(err, open), "the move, or an answer that it left open")
		assert.True(t, got == to, "%s owns the log, want %s", got.self.ID, to.self.ID)
		assert.ErrorIs(t, again, storage.ErrNotOwner)
		propose(t, "after", servers...)
		haveAll(t, append(append([]string{"before"}, acknowledged...), "after"), servers...)
		return true
	})
}

func TestAMinorityRejects(t *testing.T) {
	t.Parallel()
	servers := found(t)
	propose(t, "one", servers...)
	haveAll(t, []string{"one"}, servers...)
	first, rest := split(t, servers)
	rest[0].close(t)
	rest[1].close(t)
	// The entry is on the owner's disk, and may be committed later. On a busy machine the owner has stepped down before.
	err := first.Propose(t.Context(), []byte("two"))
	assert.True(t, errors.Is(err, consensus.ErrNotKnown) || errors.Is(err, storage.ErrNotOwner), "proposed without a majority: %v", err)
	eventually(t, "the minority steps down", func() bool { return !first.Owns() })
	assert.ErrorIs(t, first.Propose(t.Context(), []byte("three")), storage.ErrNotOwner)
	eventually(t, "the state is old", func() bool { return first.Age() > 300*time.Millisecond })
	assert.Equal(t, []string{"one"}, first.entries())

	rest[0].open(t)
	propose(t, "four", first, rest[0])
	eventually(t, "the same entries", func() bool { return slices.Equal(first.entries(), rest[0].entries()) })
	got := first.entries()
	assert.False(t, slices.Contains(got, "three") || !slices.Contains(got, "four"), "applied %q", got)
}

// A server whose program does not know an entry applies neither it nor later entries, and does not end: it votes, keeps the
// entries, and a newer program owns the log and applies them.
func TestAnUnknownEntryHoldsAServer(t *testing.T) {
	t.Parallel()
	servers := found(t)
	for _, s := range servers[:2] {
		s.apply = func(entry string) error {
			if entry == "new" {
				return storage.ErrNewer
			}
			return nil
		}
	}
	propose(t, "one", servers...)
	eventually(t, "a server that does not know the entry owns the log", func() bool {
		first := owner(t, servers...)
		if first == servers[2] {
			_ = first.Move(t.Context(), servers[0].self)
			return false
		}
		err := first.Propose(t.Context(), []byte("new"))
		require.True(t, errors.Is(err, consensus.ErrNotKnown) || errors.Is(err, storage.ErrNotOwner), err)
		return errors.Is(err, consensus.ErrNotKnown)
	})
	eventually(t, "the newer program owns the log", servers[2].Owns)
	haveAll(t, []string{"one", "new"}, servers[2])
	eventually(t, "an entry after it", func() bool { return owner(t, servers...).Propose(t.Context(), []byte("two")) == nil })
	haveAll(t, []string{"one", "new", "two"}, servers[2])
	for _, s := range servers[:2] {
		eventually(t, "the server is held", func() bool { return errors.Is(s.Held(), storage.ErrNewer) })
		select {
		case err := <-s.Failed():
			t.Errorf("%s failed: %v", s.self.ID, err)
		default:
		}
		haveAll(t, []string{"one"}, s)
		s.close(t)
		s.apply = nil
		s.open(t)
		haveAll(t, []string{"one", "new", "two"}, s)
	}
}

func TestAStateThatFailsEndsTheLog(t *testing.T) {
	t.Parallel()
	servers := found(t)
	broken := errors.New("the disk is broken")
	first, rest := split(t, servers)
	first.apply = func(string) error { return broken }
	err := first.Propose(t.Context(), []byte("one"))
	assert.True(t, errors.Is(err, consensus.ErrNotKnown) && errors.Is(err, broken), "proposed: %v", err)
	select {
	case err := <-first.Failed():
		assert.ErrorIs(t, err, broken)
	case <-time.After(patience):
		t.Error("no failure was reported")
	}
	assert.False(t, first.Owns(), "a server without a disk owns the log")
	first.close(t)
	propose(t, "two", rest...)
	haveAll(t, []string{"one", "two"}, rest...)
}

func TestARemovedServerSaysSo(t *testing.T) {
	t.Parallel()
	servers := found(t)
	first, rest := split(t, servers)
	removed, stay := rest[0], []*server{first, rest[1]}
	eventually(t, "the removal", func() bool {
		_ = removed.Move(t.Context(), first.self) // If it has just become the owner.
		return owner(t, stay...).Remove(t.Context(), removed.self.ID) == nil
	})
	propose(t, "one", stay...)
	haveAll(t, []string{"one"}, stay...)
	eventually(t, "the owner does not know the server", func() bool { return !owner(t, stay...).Knows(removed.self.ID) })
	for _, s := range stay {
		assert.Len(t, s.Members(), 2)
	}
	// Raft may stop before it sends the removal to the removed server.
	select {
	case err := <-removed.Failed():
		assert.ErrorIs(t, err, consensus.ErrRemoved)
	default:
	}
}

// An owner whose removal is not committed may lose it to another owner. The removed server must keep its part until then.
func TestARemovalCountsOnceItIsCommitted(t *testing.T) {
	t.Parallel()
	servers := found(t)
	_, rest := split(t, servers)
	rest[1].close(t)
	eventually(t, "the removal is in the log", func() bool {
		first, others := split(t, slices.DeleteFunc(slices.Clone(servers), func(s *server) bool { return s == rest[1] }))
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		require.Error(t, first.Remove(ctx, others[0].self.ID), "removed without a majority of the members that stay")
		logged := func() bool { return len(first.Members()) == 2 }
		eventually(t, "the removal is in the log, or was lost with the ownership", func() bool { return logged() || !first.Owns() })
		assert.True(t, first.Knows(others[0].self.ID), "the removal is not committed, and the owner does not know the server")
		return logged()
	})
}

func TestAServerBehindTheMarkIsTold(t *testing.T) {
	t.Parallel()
	servers := []*server{newServer(t, "s0"), newServer(t, "s1")}
	require.NoError(t, consensus.Found(servers[0].storage, servers[0].self, 41))
	servers[0].mu.index = 42
	for _, s := range servers {
		s.open(t)
	}
	first := owner(t, servers[0])
	propose(t, "one", first)
	joins := servers[1].self
	joins.Voter = false
	require.NoError(t, first.Add(t.Context(), joins))
	behind := func() []uint64 {
		servers[1].mu.Lock()
		defer servers[1].mu.Unlock()
		return servers[1].mu.behind
	}
	eventually(t, "the server is behind", func() bool { return len(behind()) > 0 })
	assert.EqualValues(t, 42, behind()[0])
	assert.Empty(t, servers[1].entries())
	assert.Equal(t, consensus.Unheard, servers[1].Age())

	// A server does not store the owner's mark before its state reaches the mark.
	servers[1].close(t)
	servers[1].open(t)
	eventually(t, "the server is behind again", func() bool { return len(behind()) > 1 })
	servers[1].close(t)
	servers[1].mu.index = 42
	servers[1].open(t)
	haveAll(t, []string{"one"}, servers...)
	eventually(t, "a fresh state", func() bool { return servers[1].Age() < time.Second })
	require.NoError(t, first.Add(t.Context(), servers[1].self))
	propose(t, "two", servers...)
	haveAll(t, []string{"one", "two"}, servers...)
}

func TestAMarkCutsTheLog(t *testing.T) {
	t.Parallel()
	servers := []*server{newServer(t, "s0"), newServer(t, "s1")}
	servers[0].marks = consensus.Marks{Trailing: 2}
	require.NoError(t, consensus.Found(servers[0].storage, servers[0].self, 0))
	for _, s := range servers {
		s.mu.index = 1
		s.open(t)
	}
	first := owner(t, servers[0])
	require.NoError(t, first.Add(t.Context(), servers[1].self))
	propose(t, "0", servers...)
	haveAll(t, []string{"0"}, servers...)
	var want []string
	for n := range 20 {
		want = append(want, strconv.Itoa(n))
		if n > 0 {
			propose(t, want[n], servers...)
		}
	}
	require.NoError(t, first.Mark())
	got, err := first.storage.FirstIndex()
	assert.True(t, err == nil && got >= 10, "the log begins at %d, %v", got, err)
	first.close(t)
	first.open(t)
	haveAll(t, want, servers...)
	propose(t, "last", servers...)
	haveAll(t, append(want, "last"), servers...)
}

// hanging is a storage whose disk does not answer while it is shut.
type hanging struct {
	consensus.Storage
	shut atomic.Bool
	open chan struct{}
}

func (h *hanging) StoreLogs(logs []*raft.Log) error {
	if h.shut.Load() {
		<-h.open
	}
	return h.Storage.StoreLogs(logs)
}

func TestAnOwnerWithADiskThatHangsFails(t *testing.T) {
	t.Parallel()
	servers := []*server{newServer(t, "s0"), newServer(t, "s1")}
	disk := &hanging{Storage: servers[0].storage, open: make(chan struct{})}
	servers[0].storage = disk
	require.NoError(t, consensus.Found(disk, servers[0].self, 0))
	for _, s := range servers {
		s.mu.index = 1
		s.open(t)
	}
	require.NoError(t, owner(t, servers[0]).Add(t.Context(), servers[1].self))
	propose(t, "one", servers...)
	eventually(t, "the server with the disk owns the log", func() bool {
		first := owner(t, servers...)
		return first == servers[0] || first.Move(t.Context(), servers[0].self) == nil && servers[0].Owns()
	})
	disk.shut.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	var proposing sync.WaitGroup
	proposing.Go(func() {
		assert.ErrorIs(t, servers[0].Propose(ctx, []byte("two")), consensus.ErrNotKnown)
	})
	select {
	case err := <-servers[0].Failed():
		assert.ErrorIs(t, err, consensus.ErrStalled)
	case <-time.After(patience):
		t.Error("no failure was reported")
	}
	cancel()
	proposing.Wait()
	close(disk.open)
}

func TestCloseAnswersProposals(t *testing.T) {
	t.Parallel()
	servers := found(t)
	var proposing sync.WaitGroup
	for n := range 8 {
		proposing.Go(func() {
			for k := range 1000 {
				if servers[0].Propose(context.Background(), binary.BigEndian.AppendUint64(nil, uint64(1000*n+k))) != nil {
					return
				}
			}
		})
	}
	servers[0].close(t)
	proposing.Wait()
	err := servers[0].Propose(t.Context(), nil)
	assert.True(t, errors.Is(err, storage.ErrNotOwner) && errors.Is(err, consensus.ErrClosed), "proposed to a closed log: %v", err)
}
