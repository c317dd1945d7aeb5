package cluster_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/cluster/consensus"
	"hindsight/internal/engine/storage"
)

var errPower = errors.New("the power is cut")

// power is a disk whose power can be cut. The clone has everything that was durable before the cut. No sync succeeds
// after the cut.
type power struct {
	vfs.FS
	disk *vfs.MemFS
	off  atomic.Bool
}

func newPower(disk *vfs.MemFS) *power { return &power{FS: disk, disk: disk} }

// cut returns the disk that is left.
func (p *power) cut(rng *rand.Rand) *vfs.MemFS {
	p.off.Store(true)
	return p.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
}

// check comes after an operation: if it returns nil, the operation ended before the cut.
func (p *power) check(err error) error {
	if p.off.Load() {
		return errPower
	}
	return err
}

func (p *power) file(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return powered{f, p}, nil
}

func (p *power) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return p.file(p.FS.Create(name, c))
}

func (p *power) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return p.file(p.FS.OpenReadWrite(name, c, o...))
}

func (p *power) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return p.file(p.FS.ReuseForWrite(from, to, c))
}

func (p *power) OpenDir(name string) (vfs.File, error) { return p.file(p.FS.OpenDir(name)) }

type powered struct {
	vfs.File
	p *power
}

func (f powered) Sync() error     { return f.p.check(f.File.Sync()) }
func (f powered) SyncData() error { return f.p.check(f.File.SyncData()) }
func (f powered) SyncTo(length int64) (bool, error) {
	full, err := f.File.SyncTo(length)
	return full, f.p.check(err)
}

// loses cuts the power of a server, and restarts the server on the clone.
func (s *server) loses(t *testing.T, rng *rand.Rand) {
	t.Helper()
	left := s.fs.(*power).cut(rng)
	s.mu.Lock()
	node, stop := s.mu.node, s.mu.stop
	s.mu.stop, s.mu.err = nil, nil
	s.mu.Unlock()
	close(stop)
	s.ended.Wait()
	s.swapping.Lock()
	defer s.swapping.Unlock()
	_ = node.Close() // It cannot write.
	s.fs = newPower(left)
	s.start(t)
}

// writer appends to a model of its own, wherever the owner is.
type writer struct {
	name    string
	servers []*server
	// acknowledged has the data of each acknowledged sequence.
	acknowledged map[uint64]string
	unknown      int
}

func (w *writer) run(ctx context.Context) {
	for n := 0; pauseFor(ctx, 100*time.Microsecond) == nil; { // An election needs the processors.
		for _, s := range w.servers {
			s.swapping.RLock() // Who uses a store leaves before it closes.
			if node := s.node(); node.Owns() {
				w.append(ctx, node.Store(), fmt.Sprintf("%s %d", w.name, n))
				n++
			}
			s.swapping.RUnlock()
		}
	}
}

func (w *writer) append(ctx context.Context, s storage.Store, data string) {
	m, last, err := findOrCreate(ctx, s, w.name)
	if err != nil {
		return
	}
	// Until the owner changes, the model has no other appender.
	for k := range uint64(20) {
		at := last + 1 + k
		record := storage.Record{First: at, Last: at, Data: fmt.Appendf(nil, "%s-%d", data, k)}
		id := storage.ID{ID: string(record.Data), At: time.Unix(int64(at), 0), Value: []byte("v")}
		if err := m.Append(ctx, storage.Commit{Record: record, IDs: []storage.ID{id}}); err != nil {
			w.unknown++
			return
		}
		w.acknowledged[at] = string(record.Data)
	}
}

var stormRounds = flag.Int("storm-rounds", 8, "power cuts and moves of TestPowerCuts")

// One, two or all servers lose power, and ownership moves, while models learn. Every acknowledged record is in the
// log of every server, once, and all servers have the same contents.
func TestPowerCuts(t *testing.T) {
	t.Parallel()
	seed := uint64(1)
	if os.Getenv("HINDSIGHT_E2E") != "" {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 7))
	servers := newServers(t, 3)
	for _, s := range servers {
		s.dir, s.fs = "data", newPower(vfs.NewCrashableMem())
		s.marks = consensus.Marks{Threshold: 50, Trailing: 20, Interval: 100 * time.Millisecond}
		s.start(t)
	}
	voters(t, 3, servers...)
	ctx, stop := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	t.Cleanup(func() { // Before the servers close.
		stop()
		writing.Wait()
	})
	var writers []*writer
	for n := range 3 {
		w := &writer{name: fmt.Sprintf("m%d", n), servers: servers, acknowledged: map[uint64]string{}}
		writers = append(writers, w)
		writing.Go(func() { w.run(ctx) })
	}
	for range *stormRounds {
		first := owner(t, servers...)
		require.NoError(t, pauseFor(ctx, time.Duration(rng.IntN(500))*time.Millisecond))
		hit := slices.Clone(servers)
		rng.Shuffle(len(hit), func(i, k int) { hit[i], hit[k] = hit[k], hit[i] })
		switch what := rng.IntN(6); what {
		case 0:
			if err := first.node().Move(ctx, hit[0].address); err != nil {
				t.Log(err)
			}
		case 1, 2:
			first.loses(t, rng)
		default:
			for _, s := range hit[:what-2] {
				s.loses(t, rng)
			}
		}
	}
	voters(t, 3, servers...)
	owner(t, servers...)
	stop()
	writing.Wait()
	compareAll(t, servers, writers)
}

func pauseFor(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func compareAll(t *testing.T, servers []*server, writers []*writer) {
	t.Helper()
	learn(t, "end", 1, servers...)
	want := contents(t, owner(t, servers...))
	haveAll(t, want, servers...)
	total := 0
	for _, w := range writers {
		total += len(w.acknowledged)
		for _, s := range servers {
			err := s.node().Local().Models(t.Context(), func(e storage.RegistryEntry) error {
				if e.Name != w.name {
					return e.Err
				}
				seen := map[string]uint64{}
				return e.Model.Replay(t.Context(), 0, func(r storage.Record) error {
					data := string(r.Data)
					acknowledged, ok := w.acknowledged[r.Last]
					assert.False(t, ok && acknowledged != data, "%s has %q at %d of %s, acknowledged was %q", s.address, data, r.Last, w.name, acknowledged)
					at, ok := seen[data]
					assert.False(t, ok, "%s learned %q twice, at %d and %d", s.address, data, at, r.Last)
					seen[data] = r.Last
					return nil
				})
			})
			assert.NoError(t, err)
			for at := range w.acknowledged {
				assert.True(t, at <= want[w.name], "%s lost %d of %s, its log ends at %d", s.address, at, w.name, want[w.name])
			}
		}
		t.Logf("%s: %d acknowledged, %d not", w.name, len(w.acknowledged), w.unknown)
	}
	assert.True(t, total != 0, "nothing was acknowledged")
}
