package cluster_test

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/zap"

	"hindsight/internal/cluster"
	"hindsight/internal/cluster/consensus"
	"hindsight/internal/engine/storage"
	"hindsight/internal/store"
)

var (
	powerCuts = flag.Int("power-cuts", 6, "power cuts of three servers")
	powerSeed = flag.Uint64("power-seed", 1, "the first seed of the power cuts")
	powerRuns = flag.Int("power-runs", 3, "clusters that run at the same time")
	powerLogs = flag.String("power-logs", "", "directory for the logs of the servers, a file for each seed")
)

const (
	servers    = 3
	authors    = 3
	cutsInARow = 5
	powerLimit = 2 * time.Minute
)

// world is what the three servers of one seed share.
type world struct {
	t    *testing.T
	seed uint64
	rng  *rand.Rand
	log  *zap.Logger
	// nodes are the current node of each server, nil while it is opened. ports are where they listen.
	// Who reads the store of a node holds mu, so that the node is not closed.
	mu    sync.Mutex
	nodes [servers]*member
	ports map[string]string
	disks [servers]*power
	// off: the power is cut. Errors say nothing any more.
	off     bool
	authors [authors]*author
}

func address(k int) string { return fmt.Sprintf("server-%d:1", k) }

// run keeps a server running until the context ends. It opens the node again when a checkpoint is to
// replace its store.
func (w *world) run(ctx context.Context, k int) {
	for ctx.Err() == nil {
		n, err := w.open(ctx, k)
		if err != nil {
			w.report(ctx, "seed %d: open server %d: %v", w.seed, k, err)
			return
		}
		select {
		case <-ctx.Done():
		case <-n.Restart():
		case err := <-n.Failed():
			w.report(ctx, "seed %d: server %d failed: %v", w.seed, k, err)
			<-ctx.Done()
		}
		w.set(func() { w.nodes[k] = nil })
		if err := n.Close(); err != nil {
			w.report(ctx, "seed %d: close server %d: %v", w.seed, k, err)
		}
	}
}

// report reports an error, unless the power is cut.
func (w *world) report(ctx context.Context, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.off && ctx.Err() == nil {
		w.t.Errorf(format, args...)
	}
}

func (w *world) open(ctx context.Context, k int) (*member, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w.set(func() { w.ports[address(k)] = listener.Addr().String() })
	n, err := openMember(ctx, cluster.Options{
		Directory: "data", Store: store.Options{FS: w.disks[k], Cache: 1 << 20},
		Address: address(k), Listener: listener, Join: []string{address(0), address(1), address(2)},
		Dial: func(ctx context.Context, network, to string) (net.Conn, error) {
			w.mu.Lock()
			port := w.ports[to]
			w.mu.Unlock()
			return new(net.Dialer).DialContext(ctx, network, port)
		},
		Undone: func(sequence uint64) func([]byte) bool {
			return func(value []byte) bool { return binary.BigEndian.Uint64(value) > sequence }
		},
		// Marks and checkpoints come often.
		Marks: consensus.Marks{Threshold: 64, Trailing: 16, Interval: 20 * time.Millisecond},
		Now:   time.Now, Logger: w.log.Named(address(k)),
	})
	if err != nil {
		return nil, err
	}
	n.Serve(func(storage.Change) {}, func(string, uint64, storage.Digest) storage.Digest { return storage.Digest{} })
	w.set(func() { w.nodes[k] = n })
	return n, nil
}

func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// owner waits for a node that owns the log.
func (w *world) owner(ctx context.Context) *member {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		w.mu.Lock()
		nodes := w.nodes
		w.mu.Unlock()
		for _, n := range nodes {
			if n != nil && n.Owns() {
				return n
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// state is what one author's model must be.
type state struct {
	exists bool
	value  string
	log    []string
	// remembered has the sequences of the ids.
	remembered map[string]uint64
}

func (s state) clone() state {
	s.log, s.remembered = slices.Clone(s.log), maps.Clone(s.remembered)
	return s
}

func (s state) String() string {
	if !s.exists {
		return "deleted"
	}
	ids := slices.Sorted(maps.Keys(s.remembered))
	return fmt.Sprintf("value %q, log %s, remembered %s", s.value, strings.Join(s.log, " "), strings.Join(ids, " "))
}

// author changes a model of its own, one change after another.
type author struct {
	name string
	rng  *rand.Rand
	mu   sync.Mutex
	// states are the state at the last cut and the state after each later change. The last state may belong to a
	// change in flight. The changes up to states[acknowledged] are acknowledged.
	states       []state
	acknowledged int
	// left are the states that the last power cut may have left.
	left  []state
	drawn int
}

// change makes one change at the owner. An error other than ErrNotOwner leaves open whether it was made.
func (x *author) change(ctx context.Context, s storage.Store) error {
	x.mu.Lock()
	now := x.states[len(x.states)-1].clone()
	x.drawn++
	id := fmt.Sprintf("%s-%d", x.name, x.drawn)
	x.mu.Unlock()
	do := x.draw(&now, id)
	x.mu.Lock()
	x.states = append(x.states, now)
	x.mu.Unlock()
	err := do(ctx, s)
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case err == nil:
		x.acknowledged++
	case errors.Is(err, storage.ErrNotOwner):
		x.states = x.states[:len(x.states)-1]
	}
	return err
}

// draw chooses a change, makes it in the expected state, and returns how to make it in a store.
func (x *author) draw(now *state, id string) func(context.Context, storage.Store) error {
	last := len(now.log)
	choice := x.rng.IntN(20)
	switch {
	case !now.exists:
		*now = state{exists: true, value: id, remembered: map[string]uint64{}}
		return func(ctx context.Context, s storage.Store) error {
			_, err := s.Create(ctx, x.name, []byte(id))
			return err
		}
	case choice == 0:
		*now = state{}
		return x.with(func(ctx context.Context, m storage.Model) error { return m.Delete(ctx) })
	case choice == 1:
		now.value = id
		return x.with(func(ctx context.Context, m storage.Model) error { return m.SetValue(ctx, []byte(id)) })
	case choice == 2 && last > 1:
		to := uint64(1 + x.rng.IntN(last-1))
		now.log = now.log[:to]
		maps.DeleteFunc(now.remembered, func(_ string, at uint64) bool { return at > to })
		return x.with(func(ctx context.Context, m storage.Model) error {
			return m.Rewind(ctx, storage.Rewind{Sequence: to, Undone: func(value []byte) bool { return binary.BigEndian.Uint64(value) > to }})
		})
	}
	commit := storage.Commit{Record: storage.Record{First: uint64(last + 1), Last: uint64(last + 1), Data: []byte(id)}}
	if last > 0 {
		before := now.log[last-1]
		if _, ok := now.remembered[before]; !ok {
			commit.IDs = []storage.ID{{ID: before, At: time.Unix(int64(last), 0), Value: binary.BigEndian.AppendUint64(nil, uint64(last))}}
			now.remembered[before] = uint64(last)
		}
	}
	now.log = append(now.log, id)
	return x.with(func(ctx context.Context, m storage.Model) error { return m.Append(ctx, commit) })
}

// with returns a function that calls do with the author's model.
func (x *author) with(do func(context.Context, storage.Model) error) func(context.Context, storage.Store) error {
	return func(ctx context.Context, s storage.Store) error {
		var m storage.Model
		err := s.Models(ctx, func(e storage.RegistryEntry) error {
			if e.Name == x.name {
				m = e.Model
			}
			return e.Err
		})
		if err != nil {
			return err
		}
		if m == nil {
			return fmt.Errorf("%s is not there", x.name)
		}
		return do(ctx, m)
	}
}

// write changes the model until the context ends, or a change has an unknown outcome.
func (w *world) write(ctx context.Context, x *author) {
	for {
		owner := w.owner(ctx)
		if owner == nil {
			return
		}
		err := x.change(context.WithoutCancel(ctx), owner.Store())
		switch {
		case ctx.Err() != nil, errors.Is(err, consensus.ErrNotKnown):
			return
		case err != nil && !errors.Is(err, storage.ErrNotOwner):
			w.report(ctx, "seed %d: %v", w.seed, err)
			return
		}
	}
}

// cut clones all disks as a power cut would leave them, while the authors write.
func (w *world) cut(written bool) (left [servers]*vfs.MemFS) {
	certain := [authors]int{}
	for k, x := range w.authors {
		x.mu.Lock()
		certain[k] = x.acknowledged
		x.mu.Unlock()
	}
	w.set(func() {
		w.off = true
		for _, disk := range w.disks { // No server acknowledges after the first is cut.
			disk.off.Store(true)
		}
	})
	for k, disk := range w.disks {
		percent := []int{0, 0, 100, w.rng.IntN(100)}[w.rng.IntN(4)]
		left[k] = disk.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: w.rng})
	}
	if !written { // The disk has the state that the previous cut left.
		return left
	}
	for k, x := range w.authors {
		x.mu.Lock()
		x.left = slices.Clone(x.states[certain[k]:])
		x.mu.Unlock()
	}
	return left
}

// found reads a model of a store.
func found(ctx context.Context, s storage.Store, name string) (out state, err error) {
	err = s.Models(ctx, func(e storage.RegistryEntry) error {
		if e.Err != nil || e.Name != name {
			return e.Err
		}
		out = state{exists: true, value: string(e.Value), remembered: map[string]uint64{}}
		if e.Rewinding != nil {
			return fmt.Errorf("rewinding to %d", *e.Rewinding)
		}
		next := uint64(1)
		return errors.Join(
			e.Model.Replay(ctx, 0, func(r storage.Record) error {
				if r.First != next || r.Last != next {
					return fmt.Errorf("a record from %d to %d where %d is due", r.First, r.Last, next)
				}
				next++
				out.log = append(out.log, string(r.Data))
				return nil
			}),
			e.Model.EachID(ctx, func(id storage.ID) error {
				out.remembered[id.ID] = binary.BigEndian.Uint64(id.Value)
				return nil
			}))
	})
	return out, err
}

// verify waits until all servers have applied the same, and compares them with what the authors know.
func (w *world) verify(ctx context.Context, cut int) error {
	mark := fmt.Sprint("mark-", cut)
	for {
		owner := w.owner(ctx)
		if owner == nil {
			return errors.New("no owner")
		}
		err := owner.Store().PutAlias(ctx, mark, nil)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return err
		}
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		missing, err := w.compare(ctx, mark)
		if err != nil || missing == "" {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.New(missing)
		case <-tick.C:
		}
	}
}

// compare compares all servers once all have a mark.
func (w *world) compare(ctx context.Context, mark string) (missing string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k, n := range w.nodes {
		has := false
		if n != nil {
			err := n.Local().EachAlias(ctx, func(name string, _ []byte) error { has = has || name == mark; return nil })
			if err != nil {
				return "", err
			}
		}
		if !has {
			return fmt.Sprintf("server %d does not catch up", k), nil
		}
	}
	for _, x := range w.authors {
		var first state
		for k, n := range w.nodes {
			got, err := found(ctx, n.Local(), x.name)
			if err != nil {
				return "", fmt.Errorf("%s at server %d: %w", x.name, k, err)
			}
			if k == 0 {
				first = got
			}
			if got.String() != first.String() {
				return "", fmt.Errorf("%s at server 0: %v\nat server %d: %v", x.name, first, k, got)
			}
		}
		if !slices.ContainsFunc(x.left, func(s state) bool { return s.String() == first.String() }) {
			return "", fmt.Errorf("%s is %v\nwant one of the %d states from %v\nto %v", x.name, first, len(x.left), x.left[0], x.left[len(x.left)-1])
		}
		x.states, x.acknowledged = []state{first}, 0
	}
	return "", nil
}

// powerRun cuts the power of one cluster several times in a row. It returns the number of cuts and of
// acknowledged changes.
func powerRun(t *testing.T, seed uint64) (cuts, acknowledged int) {
	t.Helper()
	w := &world{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 41)), ports: map[string]string{}, log: zap.NewNop()}
	if *powerLogs != "" {
		c := zap.NewDevelopmentConfig()
		c.DisableStacktrace, c.OutputPaths = true, []string{filepath.Join(*powerLogs, fmt.Sprint(seed, ".log"))}
		var err error
		if w.log, err = c.Build(); err != nil {
			t.Error(err)
			return 0, 0
		}
	}
	for k := range w.disks {
		w.disks[k] = newPower(vfs.NewCrashableMem())
	}
	for k := range w.authors {
		w.authors[k] = &author{name: fmt.Sprint("w", k), rng: rand.New(rand.NewPCG(seed, uint64(k))), left: []state{{}}}
	}
	for cut := range cutsInARow {
		n, good := w.once(cut, w.rng.IntN(4) > 0)
		acknowledged += n
		if !good {
			return cut, acknowledged
		}
	}
	w.once(cutsInARow, true)
	return cutsInARow, acknowledged
}

// once starts the servers and cuts their power. If they are verified before, they write until the cut, which
// comes earlier otherwise.
func (w *world) once(cut int, verified bool) (acknowledged int, good bool) {
	ctx, cancel := context.WithTimeout(w.t.Context(), powerLimit)
	defer cancel()
	running, end := context.WithCancel(ctx)
	writable, quiet := context.WithCancel(ctx)
	var open, writing sync.WaitGroup
	for k := range servers {
		open.Go(func() { w.run(running, k) })
	}
	pause := time.Duration(w.rng.IntN(1500)) * time.Millisecond
	if verified {
		if err := w.verify(ctx, cut); err != nil {
			w.t.Errorf("seed %d, after cut %d: %v", w.seed, cut, err)
			verified = false
		}
	}
	if verified {
		for _, x := range w.authors {
			writing.Go(func() { w.write(writable, x) })
		}
		pause /= 8
	}
	<-time.After(pause)
	if verified {
		for _, x := range w.authors {
			x.mu.Lock()
			acknowledged += x.acknowledged
			x.mu.Unlock()
		}
	}
	left := w.cut(verified)
	quiet()
	writing.Wait()
	end()
	open.Wait()
	for k := range left {
		w.disks[k] = newPower(left[k])
	}
	w.off = false
	return acknowledged, !w.t.Failed()
}

// The power of three servers fails at the same time, again and again, while the servers found a cluster, write,
// rewind, delete, and send checkpoints. Afterwards the cluster has every acknowledged change, and all or nothing of
// the change in flight, and all servers have the same state.
func TestPowerCutsOfAllServers(t *testing.T) {
	t.Parallel()
	seeds := make(chan uint64)
	var cuts, acknowledged int
	var mu sync.Mutex
	var running sync.WaitGroup
	for range *powerRuns {
		running.Go(func() {
			for seed := range seeds {
				c, a := powerRun(t, seed)
				mu.Lock()
				cuts, acknowledged = cuts+c, acknowledged+a
				mu.Unlock()
			}
		})
	}
	for seed := *powerSeed; seed < *powerSeed+uint64((*powerCuts+cutsInARow-1)/cutsInARow) && !t.Failed(); seed++ {
		seeds <- seed
	}
	close(seeds)
	running.Wait()
	t.Logf("seeds from %d: %d power cuts of three servers, %d acknowledged changes", *powerSeed, cuts, acknowledged)
}
