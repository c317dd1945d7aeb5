package replicated_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"hindsight/internal/cluster/replicated"
	"hindsight/internal/cluster/replicated/logtest"
	"hindsight/internal/engine/storage"
	"hindsight/internal/store"
	"hindsight/internal/store/storetest"
)

var (
	_ storage.Store = (*replicated.Store)(nil)
	_ storage.Model = (*replicated.Model)(nil)
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// disk is Pebble on a file system in memory.
type disk struct {
	fs *vfs.MemFS
	s  *store.Store
}

// newDisk returns an empty disk, which is closed at the end of the test.
func newDisk(t *testing.T) *disk {
	t.Helper()
	d := &disk{fs: vfs.NewCrashableMem()}
	t.Cleanup(func() { d.close(t) })
	return d
}

// open opens the local store.
func (d *disk) open(t *testing.T) storage.Store {
	t.Helper()
	var err error
	d.s, err = store.Open("data", store.Options{FS: d.fs})
	require.NoError(t, err)
	return d.s
}

// crash ends the store, by a power cut or as a kill would.
func (d *disk) crash(t *testing.T, cut bool) {
	t.Helper()
	c := vfs.CrashCloneCfg{}
	if !cut {
		c = vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(0, 0))}
	}
	left := d.fs.CrashClone(c)
	d.close(t)
	d.fs = left
}

func (d *disk) close(t *testing.T) {
	t.Helper()
	assert.NoError(t, d.s.Close())
}

// marking keeps the index up to which the log need not apply entries again: the last Sync.
type marking struct {
	storage.Store
	server *server
}

func (m marking) Sync(ctx context.Context) error {
	mark := m.server.log.Applied()
	err := m.Store.Sync(ctx)
	if err == nil {
		m.server.mark.Store(mark)
	}
	return err
}

// server is one member of a cluster.
type server struct {
	*replicated.Store
	disk    *disk
	local   storage.Store
	log     logtest.Server
	stop    func() error
	mark    atomic.Uint64
	changes struct {
		sync.Mutex
		list []string
	}
}

func (s *server) start(t *testing.T) {
	t.Helper()
	var err error
	s.local = s.disk.open(t)
	s.Store, err = replicated.New(t.Context(), replicated.Options{
		Local: marking{s.local, s}, Log: s.log, Owner: s.log.Owner, Undone: storetest.Undone, Changed: s.changed,
	})
	require.NoError(t, err)
	s.stop = s.log.Follow(s.mark.Load(), s.Apply)
}

// end stops the server without its disk.
func (s *server) end(t *testing.T) {
	t.Helper()
	s.Close()
	assert.NoError(t, s.stop())
}

// crash restarts the server, and returns once it has applied what the log had.
func (s *server) crash(t *testing.T, cut bool) {
	t.Helper()
	s.end(t)
	s.disk.crash(t, cut)
	s.start(t)
	must(t, s.log.WaitAll(t.Context()))
}

func (s *server) changed(c storage.Change) {
	s.changes.Lock()
	defer s.changes.Unlock()
	text := fmt.Sprintf("%d %s %q", c.Kind, c.Name, c.Value)
	if c.Model != nil {
		text += fmt.Sprint(" of ", c.Model.Number())
	}
	if c.Sequence > 0 {
		text += fmt.Sprint(" to ", c.Sequence, " ", c.Digest)
		text = strings.TrimSpace(text)
	}
	words := []string{text}
	for _, a := range c.Also {
		words = append(words, fmt.Sprintf("and %s %q", a.Name, a.Value))
	}
	s.changes.list = append(s.changes.list, strings.Join(words, " "))
}

// told returns the changes that Changed has received since the last call.
func (s *server) told() []string {
	s.changes.Lock()
	defer s.changes.Unlock()
	out := s.changes.list
	s.changes.list = nil
	return out
}

type cluster struct {
	log     *logtest.Log
	servers []*server
}

func newCluster(t *testing.T, servers int) *cluster {
	t.Helper()
	c := &cluster{log: logtest.New(servers)}
	for n := range servers {
		s := &server{disk: newDisk(t), log: c.log.Server(n)}
		s.start(t)
		c.servers = append(c.servers, s)
		t.Cleanup(func() { s.end(t) })
	}
	return c
}

// settle waits until every server has applied the same log.
func (c *cluster) settle(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // A cleanup settles too.
	for _, s := range c.servers {
		for !s.Idle() { // The caller may have left.
			time.Sleep(time.Millisecond)
		}
	}
	for _, s := range c.servers {
		must(t, s.log.WaitAll(ctx))
	}
}

// same fails the test unless all servers hold the same.
func (c *cluster) same(t *testing.T) {
	t.Helper()
	c.settle(t)
	want := dump(t, c.servers[0])
	for n, s := range c.servers[1:] {
		if got := dump(t, s); !slices.Equal(got, want) {
			t.Errorf("server %d differs:%s", n+1, difference(want, got))
		}
	}
}

func difference(want, got []string) string {
	var lines []string
	for _, line := range want {
		if !slices.Contains(got, line) {
			lines = append(lines, "\n- "+line)
		}
	}
	for _, line := range got {
		if !slices.Contains(want, line) {
			lines = append(lines, "\n+ "+line)
		}
	}
	return strings.Join(lines, "")
}

// dump lists the contents of a store without snapshots, because each server has its own snapshots.
func dump(t *testing.T, s storage.Store) (out []string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	line := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	must(t, s.Models(ctx, func(e storage.RegistryEntry) error {
		if must(t, e.Err); e.Rewinding != nil {
			t.Errorf("entry %+v", e)
			return nil
		}
		m := e.Model
		line("model %d %s %q with %d waiting", m.Number(), e.Name, e.Value, m.CountPending())
		first, err := m.First()
		must(t, err)
		err = m.Replay(ctx, max(first, 1)-1, func(r storage.Record) error {
			line("%s log %d-%d %q", e.Name, r.First, r.Last, r.Data)
			return nil
		})
		if err != nil {
			line("%s log %t", e.Name, errors.Is(err, storage.ErrCorrupt)) // A gap that a Rewind left.
		}
		must(t, m.EachID(ctx, func(i storage.ID) error {
			line("%s id %q %d %q", e.Name, i.ID, i.At.UnixNano(), i.Value)
			return nil
		}))
		return m.EachPending(ctx, func(p storage.Prediction) error {
			line("%s waits %q %d %q", e.Name, p.ID, p.Expiry.UnixNano(), p.Value)
			return nil
		})
	}))
	must(t, s.EachAlias(ctx, func(name string, value []byte) error {
		line("alias %s %q", name, value)
		return nil
	}))
	line("%d waiting", s.CountPending())
	return out
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		require.NoError(t, err)
	}
}

// The owner passes the suite of every store, and in the end the other servers have the same contents.
func TestContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Backend {
		t.Helper()
		c := newCluster(t, 3)
		t.Cleanup(func() {
			c.settle(t)
			a, b := dump(t, c.servers[1]), dump(t, c.servers[2])
			if !slices.Equal(a, b) {
				t.Errorf("the replicas differ:%s", difference(a, b))
			}
		})
		var b storetest.Backend
		again := func(cut bool) func(t *testing.T) storetest.Backend {
			return func(t *testing.T) storetest.Backend {
				t.Helper()
				c.servers[0].crash(t, cut)
				b.Store = c.servers[0].Store
				return b
			}
		}
		b = storetest.Backend{Store: c.servers[0].Store, Kill: again(false), Cut: again(true), Replicated: true}
		return b
	})
}
