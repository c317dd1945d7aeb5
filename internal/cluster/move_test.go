package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/cluster"
	"hindsight/internal/engine/storage"
)

// A pending prediction that was put before or while the ownership moves is at the next owner.
func TestMoveKeepsPendingPredictions(t *testing.T) {
	t.Parallel()
	servers := startAll(t, 3)
	learn(t, "m", 1, servers...)
	haveAll(t, map[string]uint64{"m": 1}, servers...)
	for round := range 3 {
		first := owner(t, servers...)
		term := first.node().Status().Log.Term
		m, _, err := findOrCreate(t.Context(), first.node().Store(), "m")
		if err != nil {
			t.Logf("round %d: an election came before the predictions: %v", round, err)
			continue
		}
		put := make(chan string, 1<<20)
		var moved atomic.Bool
		var writers sync.WaitGroup
		for w := range 4 {
			writers.Go(func() {
				for k := 0; !moved.Load(); k++ {
					id := fmt.Sprintf("%d-%d-%d", round, w, k)
					if err := m.PutPending([]storage.Prediction{{ID: id, Expiry: time.Now().Add(time.Hour), Minted: true}}); err != nil {
						assert.True(t, errors.Is(err, storage.ErrNotOwner) || errors.Is(err, storage.ErrUnknown), err) // A busy machine elects.
						return
					}
					put <- id
					time.Sleep(100 * time.Microsecond)
				}
			})
		}
		err = first.node().Move(t.Context(), "")
		moved.Store(true)
		writers.Wait()
		close(put)
		last := owner(t, servers...).node()
		if err != nil || last.Status().Log.Term != term+1 {
			t.Logf("round %d: an election came before the move: %v", round, err)
			continue
		}
		next, _, err := findOrCreate(t.Context(), last.Store(), "m")
		if err != nil {
			t.Logf("round %d: an election came after the move: %v", round, err)
			continue
		}
		all, lost := len(put), 0
		for id := range put {
			if _, ok, err := next.GetPending(id); err != nil {
				t.Fatal(err)
			} else if !ok {
				lost++
			}
		}
		assert.True(t, lost <= 0 && all != 0, "the next owner lacks %d of %d predictions", lost, all)
	}
}

func TestMoveDrainRemove(t *testing.T) {
	t.Parallel()
	servers := startAll(t, 3)
	var to *server
	byOwner(t, func(first *server) error {
		to = servers[1]
		if to == first {
			to = servers[2]
		}
		replica, unknown := to.node().Move(t.Context(), ""), first.node().Move(t.Context(), "elsewhere:1")
		if !errors.Is(replica, storage.ErrNotOwner) || !errors.Is(unknown, cluster.ErrNoMember) {
			return fmt.Errorf("a replica moved the ownership: %w; moved to a stranger: %w", replica, unknown)
		}
		if err := first.node().Move(t.Context(), to.address); err != nil {
			return err
		}
		if got := owner(t, servers...); got != to {
			return fmt.Errorf("%s owns, want %s", got.address, to.address)
		}
		return nil
	}, servers...)
	eventually(t, "a server drains", func() bool { return to.node().host.Drain(t.Context()) == nil })
	rest := slices.DeleteFunc(slices.Clone(servers), func(s *server) bool { return s == to })
	// A drained server hands the ownership on when it gets it back.
	byOwner(t, func(next *server) error { return next.node().Move(t.Context(), to.node().Self().ID) }, rest...)
	byOwner(t, func(next *server) error {
		if err := next.node().Remove(t.Context(), next.address); !errors.Is(err, cluster.ErrOwnerStays) {
			return fmt.Errorf("removed the owner: %w", err)
		}
		if err := next.node().Remove(t.Context(), to.address); err != nil && !errors.Is(err, cluster.ErrNoMember) { // An earlier removal may have an unknown outcome.
			return err
		}
		return nil
	}, rest...)
	eventually(t, "the removed server says so", func() bool { return errors.Is(to.failure(), cluster.ErrRemoved) })
	learn(t, "m", 1, rest...)
	haveAll(t, map[string]uint64{"m": 1}, rest...)

	// A removed server cannot rejoin with its old directory.
	to.close(t)
	to.start(t)
	eventually(t, "the removed server says so again", func() bool { return errors.Is(to.failure(), cluster.ErrRemoved) })
}

// lossy drops what is written once lost.
type lossy struct {
	net.Conn
	lost *atomic.Bool
}

func (c lossy) Write(b []byte) (int, error) {
	if c.lost.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// After a network has dropped packets, a server connects anew to the others.
func TestServersMeetAgainAfterLostPackets(t *testing.T) {
	t.Parallel()
	servers := newServers(t, 2)
	var lost atomic.Pointer[atomic.Bool]
	lost.Store(new(atomic.Bool))
	for _, s := range servers {
		s.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, address)
			return lossy{c, lost.Load()}, err
		}
		s.start(t)
	}
	all := func() bool {
		members := servers[0].node().Members(t.Context())
		return len(members) == 2 && !slices.ContainsFunc(members, func(m cluster.MemberStatus) bool { return m.Err != nil })
	}
	eventually(t, "the servers meet", all)
	lost.Swap(new(atomic.Bool)).Store(true)
	eventually(t, "the servers meet again", all)
}

func TestDrainNeedsASuccessor(t *testing.T) {
	t.Parallel()
	servers := newServers(t, 1)
	servers[0].start(t)
	only := owner(t, servers...).node()
	assert.ErrorIs(t, only.host.Drain(t.Context()), cluster.ErrNoSuccessor)
	assert.True(t, only.Owns() && only.Status().Draining, "the only server is not the owner")
	assert.ErrorIs(t, only.Remove(t.Context(), "elsewhere:1"), cluster.ErrNoMember)
	assert.True(t, servers[0].restarts() == 0 && only.Self().ID != "", "a founder fetched a checkpoint")
}

// front keeps the port of a server while the server is closed, so that nobody else gets the port. It then rejects
// connections.
type front struct {
	net.Listener
	running sync.WaitGroup
	current atomic.Pointer[half]
}

func newFront(t *testing.T) *front {
	t.Helper()
	f := &front{Listener: listen(t)}
	f.running.Go(func() {
		for {
			conn, err := f.Accept()
			if err != nil {
				return
			}
			h := f.current.Load()
			if h == nil {
				_ = conn.Close()
				continue
			}
			select {
			case h.conns <- conn:
			case <-h.closed:
				_ = conn.Close()
			}
		}
	})
	t.Cleanup(func() {
		assert.NoError(t, f.Close())
		f.running.Wait()
	})
	return f
}

// open returns the listener of a node.
func (f *front) open() net.Listener {
	h := &half{front: f, conns: make(chan net.Conn), closed: make(chan struct{})}
	f.current.Store(h)
	return h
}

// half is the side of a node in a front, while the front is open.
type half struct {
	front  *front
	once   sync.Once
	conns  chan net.Conn
	closed chan struct{}
}

func (h *half) Accept() (net.Conn, error) {
	select {
	case conn := <-h.conns:
		return conn, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

func (h *half) Close() error {
	h.once.Do(func() { close(h.closed) })
	h.front.current.CompareAndSwap(h, nil)
	return nil
}

func (h *half) Addr() net.Addr { return h.front.Addr() }

func listen(t *testing.T) net.Listener {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return l
}
