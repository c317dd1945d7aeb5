package engine_test

import (
	"context"
	"slices"
	"testing"

	"hindsight/internal/cluster/replicated"
	"hindsight/internal/cluster/replicated/logtest"
	"hindsight/internal/engine"
	"hindsight/internal/engine/recovery"
	"hindsight/internal/engine/storage"
)

// overLog has the additional fields of servers over the replicated store itself.
type overLog struct {
	store    *replicated.Store
	unfollow func() error
	// maxCommand bounds the commands of the store from the next start on.
	maxCommand int
	// from is the index behind which the log is applied.
	from uint64
}

// startOrdered is startServers over the replicated store itself.
func startOrdered(t *testing.T, n int, options ...option) *servers {
	t.Helper()
	log := logtest.New(n)
	s := newServers(t, n, log, options...)
	log.SetFault(func() logtest.Fault {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.mu.fates) == 0 {
			return logtest.None
		}
		fate := s.mu.fates[0]
		s.mu.fates = s.mu.fates[1:]
		if fate == commandLate {
			s.mu.owner = (s.mu.owner + 1) % n
			s.all[s.mu.owner].paused = false
			s.changed.Broadcast()
		}
		return []logtest.Fault{logtest.None, logtest.Applied, logtest.Dropped, logtest.Deposed}[fate]
	})
	return s
}

func (v *server) startOrdered() {
	s, server := v.servers, v.servers.log.Server(v.place)
	store, err := replicated.New(context.Background(), replicated.Options{
		Local: v.local, Log: server, Owner: server.Owner, Undone: recovery.Undone, MaxCommand: v.maxCommand,
		Changed: func(c storage.Change) { v.host.Changed(c) },
	})
	if err != nil {
		s.t.Fatal(err)
	}
	v.store, v.stopped = store, false
	d := wrapped{inMemory{v.local}, func(storage.Store) storage.Store { return store }}
	v.host = start(s.t, d, v.clock, append(slices.Clone(v.options), v.replicates(server.Owner))...)
	v.unfollow = server.Follow(v.from, func(index uint64, entry []byte) error {
		s.mu.Lock()
		for v.paused && !v.stopped {
			s.changed.Wait()
		}
		s.mu.Unlock()
		return store.Apply(index, entry)
	})
}

// replicates sets the options of a replicated store.
func (v *server) replicates(owner func() bool) option {
	return func(o *engine.Options) {
		o.Owner, o.Digests = owner, true
		o.DigestMismatch = func(_ string, sequence uint64, _ string) {
			v.servers.mu.Lock()
			defer v.servers.mu.Unlock()
			v.mismatches = append(v.mismatches, sequence)
		}
	}
}

func (v *server) stopOrdered() {
	v.host.stop(v.servers.t)
	v.end()
}

// end ends the store and the applying of the log.
func (v *server) end() {
	v.store.Close()
	v.servers.mu.Lock()
	v.stopped = true
	v.servers.changed.Broadcast()
	v.servers.mu.Unlock()
	if err := v.unfollow(); err != nil {
		v.servers.t.Error(err)
	}
	v.from = v.servers.log.Server(v.place).Applied()
}

func (v *server) restartOrdered(crash bool) {
	if !crash {
		v.stopOrdered()
		v.start()
		return
	}
	v.end()
	left := v.local.Clone()
	v.host.stop(v.servers.t)
	v.local = left
	v.from -= min(v.from, 3) // A log may hand over applied entries again.
	v.start()
}

func (s *servers) moveOrdered(place int) {
	s.log.Own(place)
	s.waitAll(s.all[place])
}

func (s *servers) waitAll(servers ...*server) {
	for _, v := range servers {
		if err := s.log.Server(v.place).WaitAll(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
	}
}
