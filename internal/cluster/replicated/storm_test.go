package replicated_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"hindsight/internal/cluster/replicated"
	"hindsight/internal/cluster/replicated/logtest"
	"hindsight/internal/engine/storage"
)

// newSeed returns the seed of a random test, and logs it: the same each time, or in make test-e2e a new one.
func newSeed(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(1)
	if os.Getenv("HINDSIGHT_E2E") != "" {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", seed)
	return seed
}

// storm is a cluster whose servers crash and lose the store to each other while workers use it.
type storm struct {
	*cluster
	// locks[n] is held while the store of server n is used or replaced.
	locks []sync.RWMutex
}

// worker uses the models of one prefix, as one engine would: one call at a time for each model.
type worker struct {
	t     *testing.T
	storm *storm
	rng   *rand.Rand
	name  string
	// plain: the worker only appends, and each record that was acknowledged is in the log once, in order.
	plain  bool
	serial int
	acked  []string
	maybe  map[string]bool
}

func (w *worker) run() {
	operations := 120
	if testing.Short() {
		operations = 60
	}
	for range operations {
		if !w.onOwner() {
			return
		}
		if w.rng.IntN(4) == 0 {
			w.derive(w.rng.IntN(len(w.storm.servers)))
		}
	}
}

// onOwner waits for a server that owns the store, and does one operation on it.
func (w *worker) onOwner() bool {
	for {
		for n, s := range w.storm.servers {
			if !s.log.Owner() {
				continue
			}
			w.storm.locks[n].RLock()
			err := w.operate(s.Store)
			w.storm.locks[n].RUnlock()
			switch {
			case err == nil:
				return true
			case errors.Is(err, storage.ErrNotOwner):
			case errors.Is(err, logtest.ErrLost), errors.Is(err, context.Canceled), errors.Is(err, storage.ErrRejected), errors.Is(err, storage.ErrNotFound):
				return true // The next operation begins with the present contents.
			default:
				w.t.Error(err)
				return false
			}
		}
		runtime.Gosched()
	}
}

// derive puts ids of the log on one server, as its engine may at any time.
func (w *worker) derive(n int) {
	w.storm.locks[n].RLock()
	defer w.storm.locks[n].RUnlock()
	m := w.model(w.storm.servers[n].Store)
	if m == nil || !w.plain {
		return
	}
	last, err := m.Last()
	if err == nil && last > 0 {
		err = m.PutIDs(w.t.Context(), []storage.ID{id(1 + w.rng.Uint64N(last)), id(last)})
	}
	if err != nil && !errors.Is(err, storage.ErrNotOwner) && !errors.Is(err, storage.ErrNotFound) {
		w.t.Error(err)
	}
}

func (w *worker) model(s *replicated.Store) (m storage.Model) {
	err := s.Models(w.t.Context(), func(e storage.RegistryEntry) error {
		if e.Name == w.name {
			m = e.Model
		}
		return nil
	})
	if err != nil {
		w.t.Error(err)
	}
	return m
}

func (w *worker) operate(s *replicated.Store) error {
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	if w.rng.IntN(10) == 0 {
		defer time.AfterFunc(time.Duration(w.rng.IntN(300))*time.Microsecond, cancel).Stop()
	}
	m := w.model(s)
	if m == nil {
		var err error
		if w.plain || w.rng.IntN(2) == 0 {
			_, err = s.Create(ctx, w.name, []byte("value"))
		} else {
			_, err = s.Import(ctx, w.name, make([]byte, 300<<10), storage.Import{IDs: []storage.ID{id(1)}})
		}
		if errors.Is(err, storage.ErrExists) {
			return nil // Of an earlier call whose outcome was not known.
		}
		return err
	}
	w.serial++
	text := fmt.Sprint(w.serial, " of ", w.name)
	if w.rng.IntN(8) == 0 { // It travels in parts.
		text += strings.Repeat(" ", 300<<10)
	}
	row := prediction(fmt.Sprint("p", w.rng.IntN(8)))
	row.Value = []byte(text)
	n := w.rng.IntN(20)
	switch {
	case n < 8:
		return w.append(ctx, m, text)
	case n < 12:
		return m.PutPending([]storage.Prediction{row, {ID: fmt.Sprint("minted ", w.serial, " of ", w.name), Expiry: row.Expiry, Minted: true}})
	case n < 15:
		return s.Expire(ctx, time.Unix(w.rng.Int64N(1<<32), 0), func(storage.Model) {})
	case n < 16:
		return m.SetValue(ctx, []byte(text), storage.Alias{Name: w.name, Value: []byte(text)})
	case n < 17:
		return s.PutAlias(ctx, w.name, []byte(text))
	case w.plain:
		return nil
	case n < 18:
		return m.Delete(ctx)
	default:
		last, err := m.Last()
		if err != nil || last == 0 {
			return err
		}
		return m.Rewind(ctx, storage.Rewind{
			Sequence: last - 1, Last: lastRecord(w.t, m, last), Undone: func([]byte) bool { return true }, Value: []byte(text),
		})
	}
}

// lastRecord is the record that replaces one of the end of a log, shorter by one.
func lastRecord(t *testing.T, m storage.Model, last uint64) (out *storage.Record) {
	t.Helper()
	_ = m.Replay(t.Context(), last-1, func(r storage.Record) error { // A concurrent call may have changed the log.
		if r.First < r.Last {
			out = &storage.Record{First: r.First, Last: r.Last - 1, Data: slices.Clone(r.Data)}
		}
		return nil
	})
	return out
}

func (w *worker) append(ctx context.Context, m storage.Model, text string) error {
	last, err := m.Last()
	if err != nil {
		return err
	}
	c := storage.Commit{Record: storage.Record{First: last + 1, Last: last + 1, Data: []byte(text)}}
	if w.plain && last > 0 {
		c.IDs = []storage.ID{id(last)}
	} else {
		c.Last += w.rng.Uint64N(3)
	}
	switch err = m.Append(ctx, c); {
	case err == nil:
		w.acked = append(w.acked, text)
	case !errors.Is(err, storage.ErrNotOwner) && !errors.Is(err, storage.ErrRejected):
		w.maybe[text] = true
	}
	return err
}

// check compares the log of a plain worker's model with the answers that the worker got.
func (w *worker) check(t *testing.T, s storage.Store) {
	t.Helper()
	var got []string
	must(t, find(t, s, w.name).Replay(t.Context(), 0, func(r storage.Record) error {
		if text := string(r.Data); !w.maybe[text] {
			got = append(got, text)
		}
		return nil
	}))
	assert.True(t, slices.Equal(got, w.acked), "the log of %s has %q, want %q and perhaps some of %d others", w.name, got, w.acked, len(w.maybe))
}

// chaos changes the owner and crashes servers until the workers have ended.
func (s *storm) chaos(t *testing.T, rng *rand.Rand, ended <-chan struct{}) {
	t.Helper()
	for {
		select {
		case <-ended:
			return
		case <-time.After(time.Duration(rng.IntN(4000)) * time.Microsecond):
		}
		n := rng.IntN(len(s.servers))
		switch rng.IntN(3) {
		case 0:
			s.log.Own(n)
		default:
			s.servers[n].Close() // The calls of the workers end.
			s.locks[n].Lock()
			s.servers[n].crash(t, rng.IntN(2) == 0)
			s.locks[n].Unlock()
		}
		if rng.IntN(4) == 0 {
			s.locks[n].RLock()
			must(t, s.servers[n].local.Sync(t.Context()))
			s.locks[n].RUnlock()
		}
	}
}

// After any crashes and changes of the owner, an acknowledged record is in the log once, and in the end all servers
// have the same contents.
func TestStorm(t *testing.T) {
	seed := newSeed(t)
	s := &storm{cluster: newCluster(t, 3), locks: make([]sync.RWMutex, 3)}
	faults := rand.New(rand.NewPCG(seed, 1))
	s.log.SetFault(func() logtest.Fault {
		if faults.IntN(10) > 0 {
			return logtest.None
		}
		return logtest.Fault(faults.IntN(5))
	})
	var workers []*worker
	var group sync.WaitGroup
	for n := range 8 {
		w := &worker{
			t: t, storm: s, rng: rand.New(rand.NewPCG(seed, uint64(10+n))), name: fmt.Sprint("model", n), plain: n < 4, maybe: map[string]bool{},
		}
		workers = append(workers, w)
		group.Go(w.run)
	}
	ended := make(chan struct{})
	go func() { group.Wait(); close(ended) }()
	s.chaos(t, rand.New(rand.NewPCG(seed, 2)), ended)
	acked, maybe := 0, 0
	for _, w := range workers {
		acked, maybe = acked+len(w.acked), maybe+len(w.maybe)
	}
	t.Logf("%d entries, %d records acknowledged, %d of unknown outcome", len(s.log.Entries()), acked, maybe)
	s.log.SetFault(nil)
	s.log.Own(1)
	s.settle(t)
	s.derive(t)
	s.same(t)
	ids := 0
	for _, w := range workers {
		if w.plain {
			w.check(t, s.servers[0])
		}
	}
	must(t, s.servers[0].Models(t.Context(), func(e storage.RegistryEntry) error {
		return e.Model.EachID(t.Context(), func(storage.ID) error { ids++; return nil })
	}))
	for _, server := range s.servers {
		remembered(t, server, ids)
	}
}

// derive puts the ids of its log on every server, as its engine does.
func (s *storm) derive(t *testing.T) {
	t.Helper()
	for _, server := range s.servers {
		must(t, server.Models(t.Context(), func(e storage.RegistryEntry) error {
			last, err := e.Model.Last()
			must(t, err)
			var ids []storage.ID
			for n := range last {
				ids = append(ids, id(n+1))
			}
			return e.Model.PutIDs(t.Context(), ids)
		}))
	}
}
