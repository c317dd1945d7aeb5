package engine_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	commands "hindsight/internal/cluster/command"
	"hindsight/internal/cluster/replicated"
	"hindsight/internal/cluster/replicated/logtest"
	"hindsight/internal/engine"
	"hindsight/internal/engine/recovery"
	"hindsight/internal/engine/storage"
)

// servers are engines over the replicated stores of one log, as the servers of a cluster.
type servers struct {
	t     *testing.T
	clock *clock
	log   *logtest.Log
	all   []*server
	mu    struct {
		sync.Mutex
		// owner is the place of the owner, fates are the fates of the next entries.
		owner int
		fates []int
	}
	// changed is signalled with mu when a server is paused, continued or stopped.
	changed *sync.Cond
}

// server is one server. It implements disk.
type server struct {
	servers *servers
	place   int
	fs      *vfs.MemFS
	cuts    *rand.Rand
	local   *faulty
	store   *replicated.Store
	host    *host
	// unfollow ends the applying of the log, nil if it has ended. The log is applied from behind the index from on.
	unfollow func() error
	from     uint64
	// tell receives the changes of the log.
	tell func(storage.Change)
	// servers.mu guards paused, stopped, checked and lost. A paused server applies nothing.
	paused, stopped bool
	// checked is the last check of the owner, lost are the models that the server cannot recover.
	checked checked
	lost    []string
	// The next start uses the other fields. rewinding is the sequence of a rewind of every model that a crash interrupted.
	rewinding *uint64
	options   []option
	clock     *clock
}

// checked is the owner's digest of a model.
type checked struct {
	model string
	index uint64
	own   storage.Digest
}

// errStopped ends the applying of a paused server.
var errStopped = errors.New("the server is stopped")

// startServers starts so many servers. The first one owns.
func startServers(t *testing.T, n int, options ...option) *servers {
	t.Helper()
	s := &servers{t: t, log: logtest.New(n), clock: newClock()}
	s.changed = sync.NewCond(&s.mu)
	for place := range n {
		s.all = append(s.all, &server{fs: newFS(), cuts: rand.New(rand.NewPCG(uint64(place), 5)), servers: s, place: place, options: options, clock: s.clock})
	}
	for _, v := range s.all {
		v.start()
	}
	t.Cleanup(func() {
		for _, v := range s.all {
			v.host.stop(t)
		}
	})
	s.log.SetFault(s.fault)
	return s
}

// open opens the replicated store over the files of the server.
func (v *server) open() (storage.Store, func() error, error) {
	local, end, err := files{v.fs}.open()
	if err != nil {
		return nil, nil, err
	}
	v.local = newFaulty()
	v.local.Store, v.local.interrupted = local, v.rewinding
	log := v.servers.log.Server(v.place)
	v.store, err = replicated.New(context.Background(), replicated.Options{
		Local: v.local, Log: log, Owner: log.Owner, Undone: recovery.Undone,
		Changed: func(c storage.Change) { v.tell(c) },
	})
	return v.store, func() error { return errors.Join(v.end(), end()) }, err
}

// start opens an engine, and applies the log from where it was.
func (v *server) start() {
	s := v.servers
	v.host = start(s.t, v, v.clock, append(slices.Clone(v.options), v.replicates())...)
	v.tell, v.stopped = v.host.Changed, false
	v.unfollow = s.log.Server(v.place).Follow(v.from, func(index uint64, entry []byte) error {
		if v.waitPaused() {
			return errStopped
		}
		return v.store.Apply(index, entry)
	})
}

// waitPaused waits while the server is paused, and reports whether it stopped meanwhile.
func (v *server) waitPaused() bool {
	v.servers.mu.Lock()
	defer v.servers.mu.Unlock()
	for v.paused && !v.stopped {
		v.servers.changed.Wait()
	}
	return v.paused
}

// replicates sets the options of a replicated store.
func (v *server) replicates() option {
	return func(o *engine.Options) {
		o.Owner = v.servers.log.Server(v.place).Owner
		o.Compare = func(model string, index uint64, own storage.Digest) {
			v.servers.mu.Lock()
			defer v.servers.mu.Unlock()
			v.checked = checked{model, index, own}
		}
		o.Lost = func(model string) {
			v.servers.mu.Lock()
			defer v.servers.mu.Unlock()
			v.lost = append(v.lost, model)
		}
	}
}

// end ends the replicated store and the applying of the log.
func (v *server) end() error {
	if v.unfollow == nil {
		return nil
	}
	v.store.Close()
	v.servers.mu.Lock()
	v.stopped = true
	v.servers.changed.Broadcast()
	v.servers.mu.Unlock()
	err := v.unfollow()
	v.unfollow, v.from = nil, v.servers.log.Server(v.place).Applied()
	if errors.Is(err, errStopped) {
		return nil
	}
	return err
}

// restart ends the engine and starts it again. A crash is a power cut: it loses what the engine writes at its end and
// a part of what is not synced, and applies the log again from its start.
func (v *server) restart(crash bool) {
	if !crash {
		v.host.stop(v.servers.t)
		v.start()
		return
	}
	if err := v.end(); err != nil {
		v.servers.t.Error(err)
	}
	left := v.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: v.cuts.IntN(101), RNG: v.cuts})
	v.host.stop(v.servers.t)
	v.fs, v.from = left, 0
	v.start()
}

// The fates of an entry.
const (
	commandWell    = iota
	commandDone    // It is appended and applied, and its proposer loses the connection.
	commandNotDone // It is not appended, and the outcome is unknown.
	commandLate    // It is appended, and the outcome is unknown. Another server owns before it is applied.
)

func (s *servers) fate(fates ...int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.fates = fates
}

// fault returns the fault of the next entry.
func (s *servers) fault() logtest.Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.fates) == 0 {
		return logtest.None
	}
	fate := s.mu.fates[0]
	s.mu.fates = s.mu.fates[1:]
	if fate == commandLate {
		s.mu.owner = (s.mu.owner + 1) % len(s.all)
		s.all[s.mu.owner].paused = false
		s.changed.Broadcast()
	}
	return []logtest.Fault{logtest.None, logtest.Applied, logtest.Dropped, logtest.Deposed}[fate]
}

// move makes another server the owner.
func (s *servers) move(place int) *server {
	s.mu.Lock()
	s.mu.owner, s.all[place].paused = place, false
	s.changed.Broadcast()
	s.mu.Unlock()
	s.log.Own(place)
	s.waitAll(s.all[place])
	s.all[place].host.OwnerChanged()
	return s.all[place]
}

// owner is the server that owns.
func (s *servers) owner() *server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[s.mu.owner]
}

// settle waits until every server has applied the log.
func (s *servers) settle() {
	s.t.Helper()
	s.waitAll(s.all...)
}

func (s *servers) waitAll(servers ...*server) {
	s.t.Helper()
	for _, v := range servers {
		require.NoError(s.t, s.log.Server(v.place).WaitAll(s.t.Context()))
	}
}

// commands returns the commands of the log.
func (s *servers) commands() (all []commands.Command) {
	s.t.Helper()
	for _, data := range s.log.Entries() {
		e, err := commands.Decode(data)
		if err != nil {
			s.t.Fatal(err)
		}
		for {
			raw, ok, err := e.Next()
			if !ok {
				if err != nil {
					s.t.Fatal(err)
				}
				break
			}
			var c commands.Command
			require.NoError(s.t, c.Decode(raw))
			all = append(all, c)
		}
	}
	return all
}

// pause stops or continues the applying of a server.
func (v *server) pause(paused bool) {
	v.servers.mu.Lock()
	defer v.servers.mu.Unlock()
	v.paused = paused
	v.servers.changed.Broadcast()
}

// awaitAll waits until every server has applied the log and taken over all changes.
func (s *servers) awaitAll() {
	s.t.Helper()
	s.settle()
	for _, v := range s.all {
		deadline := time.Now().Add(patience)
		for !v.host.Settled() {
			if time.Now().After(deadline) {
				s.t.Fatalf("server %d does not take over what was changed", v.place)
			}
			time.Sleep(time.Millisecond)
		}
	}
}

// digests lets the owner check a model, and returns the digests of all servers. It returns none if the check fails.
func (s *servers) digests(model string) (all []storage.Digest) {
	s.t.Helper()
	owner := s.owner()
	if err := owner.host.CheckModel(model); err != nil {
		return nil
	}
	s.awaitAll()
	s.mu.Lock()
	c := owner.checked
	s.mu.Unlock()
	for _, v := range s.all {
		require.NoError(s.t, v.host.Turn(model))
		all = append(all, v.host.Digest(model, c.index, c.own))
	}
	return all
}

// stored returns the stored model m of a server, without the replicated log.
func (v *server) stored() (m storage.Model) {
	err := v.local.Models(context.Background(), func(e storage.RegistryEntry) error {
		if e.Name == "m" {
			m = e.Model
		}
		return nil
	})
	if err != nil || m == nil {
		v.servers.t.Fatal("no model m", err)
	}
	return m
}
