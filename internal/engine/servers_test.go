package engine_test

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"hindsight/internal/cluster/replicated/logtest"
	"hindsight/internal/engine/recovery"
	"hindsight/internal/engine/storage"
	"hindsight/internal/store/memory"
)

// servers are engines over stores that replicate one log, as the servers of a cluster: the store of the owner
// puts its calls into the log, and every server applies the log to its own store.
type servers struct {
	t     *testing.T
	clock *clock
	all   []*server
	mu    struct {
		sync.Mutex
		log []*command
		// owner is the place of the server that may append from since on.
		owner, since int
		// fates are the fates of the next commands that a call waits for.
		fates []int
	}
	// ids counts the ids of the newest commit, refused the commands of servers that did not own. mu guards both.
	ids, refused int
	// log is the log of servers over the replicated store itself, else nil.
	log *logtest.Log
	// changed is signalled with mu after everything.
	changed *sync.Cond
}

// command is a call of a store in the log.
type command struct {
	proposer *server
	life     int
	// rides: the proposer has applied the command already.
	rides bool
	apply func(*server) (storage.Change, error)
	// What the proposer's apply returned; waits says that its call waits for it.
	waits, done bool
	change      storage.Change
	err         error
}

// server is the store of one server. It implements storage.Store.
type server struct {
	storage.Store
	local   *memory.Store
	servers *servers
	place   int
	// servers.mu guards the other fields. Commands before applied are applied. A paused server applies none.
	applied, life   int
	paused, stopped bool
	joined          chan struct{}
	models          map[uint64]*serverModel
	host            *host
	tell            func(storage.Change)
	// snapshot, unless nil, is called before a snapshot is written.
	snapshot func()
	// rewinding is the sequence of a rewind of every model that a crash interrupted.
	rewinding  *uint64
	mismatches []uint64
	options    []option
	clock      *clock
	overLog
}

type serverModel struct {
	storage.Model
	server *server
	name   string
}

// startServers starts so many servers. The first one owns.
func startServers(t *testing.T, n int, options ...option) *servers {
	t.Helper()
	return newServers(t, n, nil, options...)
}

func newServers(t *testing.T, n int, log *logtest.Log, options ...option) *servers {
	t.Helper()
	s := &servers{t: t, log: log, clock: newClock()}
	s.changed = sync.NewCond(&s.mu)
	for place := range n {
		s.all = append(s.all, &server{local: memory.New(s.clock.now), servers: s, place: place, options: options, clock: s.clock})
	}
	for _, v := range s.all {
		v.start()
	}
	t.Cleanup(func() {
		for _, v := range s.all {
			v.stop()
		}
	})
	return s
}

// start opens an engine over the store, and applies the log from where it was.
func (v *server) start() {
	if v.servers.log != nil {
		v.startOrdered()
		return
	}
	v.Store, v.models, v.stopped, v.joined = v.local, map[uint64]*serverModel{}, false, make(chan struct{})
	v.life++
	d := wrapped{inMemory{v.local}, func(storage.Store) storage.Store { return v }}
	v.host = start(v.servers.t, d, v.clock, append(slices.Clone(v.options), v.replicates(v.owns))...)
	v.tell = v.host.Changed
	go v.run()
}

// stop ends the engine, and keeps the store.
func (v *server) stop() {
	if v.servers.log != nil {
		v.stopOrdered()
		return
	}
	v.host.stop(v.servers.t) // It may need the log until here.
	v.servers.mu.Lock()
	v.stopped = true
	v.servers.changed.Broadcast()
	v.servers.mu.Unlock()
	<-v.joined
}

// restart ends the engine and starts it again; a crash loses what it writes at the end.
func (v *server) restart(crash bool) {
	if v.servers.log != nil {
		v.restartOrdered(crash)
		return
	}
	v.servers.mu.Lock()
	v.stopped = true
	v.servers.changed.Broadcast()
	v.servers.mu.Unlock()
	<-v.joined
	left := v.local.Clone()
	v.host.stop(v.servers.t)
	if crash {
		v.local = left
	}
	v.start()
}

// owns is engine.Options.Owner.
func (v *server) owns() bool {
	v.servers.mu.Lock()
	defer v.servers.mu.Unlock()
	return v.servers.mu.owner == v.place && v.applied >= v.servers.mu.since
}

// run applies the log.
func (v *server) run() {
	defer close(v.joined)
	s := v.servers
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		for !v.stopped && (v.paused || v.applied == len(s.mu.log)) {
			s.changed.Wait()
		}
		if v.stopped {
			return
		}
		c := s.mu.log[v.applied]
		own := c.proposer == v && c.life == v.life
		s.mu.Unlock()
		var change storage.Change
		var err error
		if !own || !c.rides {
			change, err = c.apply(v)
		}
		s.mu.Lock()
		waits := own && c.waits
		if own {
			c.change, c.err, c.done = change, err, true
		}
		if !waits && err == nil && change.Kind != 0 {
			s.mu.Unlock()
			v.tell(change)
			s.mu.Lock()
		}
		v.applied++
		s.changed.Broadcast()
	}
}

// The fates of a command that a call waits for.
const (
	commandWell    = iota
	commandDone    // It is appended, and the outcome is unknown.
	commandNotDone // It is not appended, and the outcome is unknown.
	commandLate    // It is appended, and the outcome is unknown. Another server owns before it is applied.
	commandSoon    // It is appended, and its caller does not wait.
)

func (s *servers) fate(fates ...int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.fates = fates
}

// propose appends a command to the log and waits until it is applied here.
func (v *server) propose(rides bool, apply func(*server) (storage.Change, error)) (storage.Change, error) {
	s := v.servers
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.owner != v.place || v.applied < s.mu.since || v.stopped {
		s.refused++
		return storage.Change{}, storage.ErrNotOwner
	}
	c := &command{proposer: v, life: v.life, apply: apply, rides: rides}
	fate := commandWell
	if !rides && len(s.mu.fates) > 0 {
		fate, s.mu.fates = s.mu.fates[0], s.mu.fates[1:]
	}
	c.waits = !rides && fate == commandWell
	if fate != commandNotDone {
		s.mu.log = append(s.mu.log, c)
	}
	switch {
	case fate == commandNotDone:
		return storage.Change{}, errOutcome
	case fate == commandLate:
		s.moveLocked((v.place + 1) % len(s.all))
		return storage.Change{}, errOutcome
	case rides:
		s.changed.Broadcast()
		return storage.Change{}, nil
	}
	s.changed.Broadcast()
	if fate == commandSoon {
		return storage.Change{}, errOutcome
	}
	for !c.done && !v.stopped {
		s.changed.Wait()
	}
	if fate == commandDone || !c.done {
		return storage.Change{}, errOutcome
	}
	return c.change, c.err
}

// move makes another server the owner.
func (s *servers) move(place int) *server {
	s.mu.Lock()
	s.moveLocked(place)
	for s.log == nil && s.all[place].applied < s.mu.since {
		s.changed.Wait()
	}
	s.mu.Unlock()
	if s.log != nil {
		s.moveOrdered(place)
	}
	s.all[place].host.OwnerChanged()
	return s.all[place]
}

func (s *servers) moveLocked(place int) {
	s.mu.owner, s.mu.since, s.all[place].paused = place, len(s.mu.log), false
	s.changed.Broadcast()
}

// owner is the server that owns.
func (s *servers) owner() *server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[s.mu.owner]
}

// settle waits until every server has applied the log.
func (s *servers) settle() {
	if s.log != nil {
		s.waitAll(s.all...)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for slices.ContainsFunc(s.all, func(v *server) bool { return v.applied < len(s.mu.log) }) {
		s.changed.Wait()
	}
}

// commands waits until the log has so many commands.
func (s *servers) commands(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.mu.log) < n {
		s.changed.Wait()
	}
}

// pause stops or continues the applying of a server.
func (v *server) pause(paused bool) {
	v.servers.mu.Lock()
	defer v.servers.mu.Unlock()
	v.paused = paused
	v.servers.changed.Broadcast()
}

// wrap gives the one handle of a model.
func (v *server) wrap(name string, m storage.Model) *serverModel {
	v.servers.mu.Lock()
	defer v.servers.mu.Unlock()
	if v.models[m.Number()] == nil {
		v.models[m.Number()] = &serverModel{Model: m, server: v, name: name}
	}
	return v.models[m.Number()]
}

func (v *server) model(number uint64) (*serverModel, error) {
	v.servers.mu.Lock()
	defer v.servers.mu.Unlock()
	if m := v.models[number]; m != nil {
		return m, nil
	}
	return nil, storage.ErrNotFound
}

func (v *server) Models(ctx context.Context, f func(storage.Entry) error) error {
	return v.Store.Models(ctx, func(e storage.Entry) error {
		e.Model, e.Rewinding = v.wrap(e.Name, e.Model), v.rewinding
		return f(e)
	})
}

func (v *server) create(name string, f func(*server) (storage.Model, error)) (storage.Model, error) {
	c, err := v.propose(false, func(v *server) (storage.Change, error) {
		m, err := f(v)
		if err != nil {
			return storage.Change{}, err
		}
		return storage.Change{Kind: storage.Created, Name: name, Model: v.wrap(name, m)}, nil
	})
	return c.Model, err
}

func (v *server) Create(_ context.Context, name string, value []byte) (storage.Model, error) {
	value = bytes.Clone(value)
	return v.create(name, func(v *server) (storage.Model, error) { return v.local.Create(context.Background(), name, value) }) //nolint:contextcheck // It has no context.
}

func (v *server) Import(_ context.Context, name string, value []byte, from storage.Import) (storage.Model, error) {
	value = bytes.Clone(value)
	return v.create(name, func(v *server) (storage.Model, error) { //nolint:contextcheck // It has no context.
		return v.local.Import(context.Background(), name, value, from)
	})
}

func (v *server) PutAlias(_ context.Context, name string, value []byte) error {
	value = bytes.Clone(value)
	_, err := v.propose(false, func(v *server) (storage.Change, error) { //nolint:contextcheck // It has no context.
		return storage.Change{Kind: storage.AliasSet, Name: name}, v.local.PutAlias(context.Background(), name, value)
	})
	return err
}

func (v *server) RemoveAlias(_ context.Context, name string) error {
	_, err := v.propose(false, func(v *server) (storage.Change, error) { //nolint:contextcheck // It has no context.
		return storage.Change{Kind: storage.AliasRemoved, Name: name}, v.local.RemoveAlias(context.Background(), name)
	})
	return err
}

// propose puts a command of the model into the log.
func (m *serverModel) propose(rides bool, kind storage.ChangeKind, f func(*serverModel, *storage.Change) error) error {
	_, err := m.server.propose(rides, func(v *server) (storage.Change, error) {
		c := storage.Change{Kind: kind, Name: m.name}
		local, err := v.model(m.Number())
		if err == nil {
			c.Model = local
			err = f(local, &c)
		}
		return c, err
	})
	return err
}

func (m *serverModel) SetValue(_ context.Context, value []byte, also ...storage.Alias) error {
	value = bytes.Clone(value)
	return m.propose(false, storage.ValueSet, func(m *serverModel, c *storage.Change) error { //nolint:contextcheck // It has no context.
		c.Also = also
		return m.Model.SetValue(context.Background(), value, also...)
	})
}

func (m *serverModel) Delete(context.Context) error {
	return m.propose(false, storage.Removed, func(m *serverModel, _ *storage.Change) error {
		return m.Model.Delete(context.Background())
	})
}

func (m *serverModel) Append(_ context.Context, commit storage.Commit) error {
	commit.Data, commit.IDs = bytes.Clone(commit.Data), slices.Clone(commit.IDs)
	commit.Answered = slices.Clone(commit.Answered)
	for n := range commit.IDs {
		commit.IDs[n].Value = bytes.Clone(commit.IDs[n].Value)
	}
	return m.propose(false, storage.Appended, func(m *serverModel, c *storage.Change) error { //nolint:contextcheck // It has no context.
		c.Sequence = commit.Last
		m.server.servers.mu.Lock()
		m.server.servers.ids = len(commit.IDs)
		m.server.servers.mu.Unlock()
		return m.Model.Append(context.Background(), commit)
	})
}

func (m *serverModel) Rewind(_ context.Context, r storage.Rewind) error {
	r.Value, r.Snapshot, r.Undone = bytes.Clone(r.Value), bytes.Clone(r.Snapshot), recovery.Undone(r.Sequence)
	r.IDs = slices.Clone(r.IDs)
	return m.propose(false, storage.Rewound, func(m *serverModel, c *storage.Change) error { //nolint:contextcheck // It has no context.
		c.Sequence = r.Sequence
		return m.Model.Rewind(context.Background(), r)
	})
}

func (m *serverModel) WriteSnapshot(sequence uint64, data []byte) error {
	if m.server.snapshot != nil {
		m.server.snapshot()
	}
	return m.Model.WriteSnapshot(sequence, data)
}

// PutIDs is of one server alone: the others must not need it.
func (m *serverModel) PutIDs(ctx context.Context, ids []storage.ID) error {
	return m.Model.PutIDs(ctx, ids)
}

func (m *serverModel) PutWaiting(rows []storage.Prediction) error {
	if !m.server.owns() {
		return storage.ErrNotOwner
	}
	rows = slices.Clone(rows)
	s := m.server.servers
	s.mu.Lock()
	fates := s.mu.fates
	s.mu.fates = nil // They are of other commands.
	s.mu.Unlock()
	defer s.fate(fates...)
	return m.propose(false, 0, func(m *serverModel, _ *storage.Change) error { return m.Model.PutWaiting(rows) })
}

func (m *serverModel) ProposeDigest(_ context.Context, sequence uint64, digest string) error {
	return m.propose(true, storage.Digested, func(_ *serverModel, c *storage.Change) error {
		c.Sequence, c.Digest = sequence, digest
		return nil
	})
}

func (m *serverModel) ProposeSnapshot(_ context.Context, sequence uint64, data []byte, ids []storage.ID) error {
	data, ids = bytes.Clone(data), slices.Clone(ids)
	return m.propose(true, storage.Snapshotted, func(m *serverModel, c *storage.Change) error { //nolint:contextcheck // It has no context.
		c.Sequence, c.Value = sequence, data
		return m.Model.PutIDs(context.Background(), ids)
	})
}

// awaitAll waits until every server has applied the log and taken over all changes.
func (s *servers) awaitAll() {
	s.t.Helper()
	s.settle()
	for _, v := range s.all {
		deadline := time.Now().Add(time.Minute)
		for !v.host.Settled() {
			if time.Now().After(deadline) {
				s.t.Fatalf("server %d does not take over what was changed", v.place)
			}
			time.Sleep(time.Millisecond)
		}
	}
}

// digested returns the change that carries the owner's digest of model m to a server.
func digested(v *server, sequence uint64, digest string) storage.Change {
	v.servers.mu.Lock()
	defer v.servers.mu.Unlock()
	for _, m := range v.models {
		return storage.Change{Kind: storage.Digested, Name: m.name, Model: m, Sequence: sequence, Digest: digest}
	}
	return storage.Change{}
}
