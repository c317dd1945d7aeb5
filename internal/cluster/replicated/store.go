// Package replicated implements package storage over a replicated log and a local store. A call that changes the
// store becomes a command in the log. Every server applies the commands to its local store, in the order of the log.
// Reads use the local store.
package replicated

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"hindsight/internal/cluster/command"
	"hindsight/internal/engine/storage"
)

// Log is the replicated log, as one server sees it.
type Log interface {
	// Propose appends an entry, and waits until the entry is committed and this server has applied it. It returns
	// soon after the end of ctx. It gives one of three answers. Nil: the entry is committed, and this server has
	// applied it. ErrNotOwner: the entry is not in the log, and never will be. Any other error: the entry may or may
	// not be in the log. If Owner is true after an error of the third kind, this server has applied the entry or
	// never will. The log may order two concurrent calls either way.
	Propose(ctx context.Context, entry []byte) error
}

// Options are the parts of a Store.
type Options struct {
	Group uint64
	// Local is the store of this server. After New only the Store writes to it.
	Local storage.Store
	Log   Log
	// Owner reports whether this server owns the store: it may propose, and has applied all commands of earlier
	// owners. Nil: this server always owns the store.
	Owner func() bool
	// Held receives the memory of a large command, and its negation once the memory is free. It may be nil.
	Held func(bytes int64)
	// Undone returns the storage.Rewind.Undone of a rewind to a sequence. The result depends on nothing else.
	Undone func(sequence uint64) func(value []byte) bool
	// Changed receives the changes of commands that no call of this Store waits for, in the order of the log. Apply
	// calls Changed after the local store has the change. Changed must not wait for a call of the Store.
	Changed func(storage.Change)
}

// local has the methods that a replicated store takes from its local store unchanged: reads, and upkeep that each
// server does by itself.
type local = storage.Store

// Store is a replicated store. It implements storage.Store.
type Store struct {
	local
	o       Options
	batcher *batcher
	apply   applier
	// transfers numbers the commands that travel in parts.
	transfers atomic.Uint64
	// others counts how often the proposer of the log changed to another process.
	others atomic.Uint64
	// time is the newest time of an Expire that Apply has applied, in nanoseconds.
	time atomic.Int64
	// expired has the models of the predictions that Apply has expired since the last Expire, one for each.
	expired struct {
		sync.Mutex
		models []storage.Model
	}

	// models are the handles of the local models, by number. Apply adds and removes handles.
	models struct {
		sync.RWMutex
		byNumber map[uint64]*Model
	}
}

// New returns a store over the models of the local store. The caller closes the returned store. The log may call
// Apply once New has returned.
func New(ctx context.Context, o Options) (*Store, error) {
	if o.Owner == nil {
		o.Owner = func() bool { return true }
	}
	s := &Store{local: o.Local, o: o}
	s.models.byNumber = map[uint64]*Model{}
	err := o.Local.Models(ctx, func(e storage.RegistryEntry) error {
		if e.Model != nil {
			s.handle(e.Name, e.Model)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("replicated: %w", err)
	}
	var proposer [16]byte
	_, _ = rand.Read(proposer[:]) // It never returns an error.
	s.batcher = newBatcher(ctx, &o, proposer)
	return s, nil
}

// Close ends the waiting calls and joins every goroutine of the store. It does not close the local store. The log may
// call Apply until Close returns.
func (s *Store) Close() { s.batcher.close() }

// handle returns the handle of a local model. Each model has one handle.
func (s *Store) handle(name string, m storage.Model) *Model {
	s.models.Lock()
	defer s.models.Unlock()
	out := s.models.byNumber[m.Number()]
	if out == nil {
		out = &Model{localModel: m, store: s, name: name}
		s.models.byNumber[m.Number()] = out
	}
	return out
}

func (s *Store) model(number uint64) *Model {
	s.models.RLock()
	defer s.models.RUnlock()
	return s.models.byNumber[number]
}

func (s *Store) drop(m *Model) {
	m.gone.Store(true)
	s.models.Lock()
	defer s.models.Unlock()
	delete(s.models.byNumber, m.Number())
}

// Models implements storage.Registry, with the handles of this store.
func (s *Store) Models(ctx context.Context, f func(storage.RegistryEntry) error) error {
	return s.local.Models(ctx, func(e storage.RegistryEntry) error {
		if e.Model != nil {
			e.Model = s.handle(e.Name, e.Model)
		}
		return f(e)
	})
}

// Time implements storage.Upkeep.
func (s *Store) Time() time.Time { return time.Unix(0, s.time.Load()) }

// Expire implements storage.Upkeep. The owner decides by its clock which predictions expire, and the log carries the
// decision. On the other servers Expire only reports what has expired by the log.
func (s *Store) Expire(ctx context.Context, now time.Time, f func(storage.Model)) error {
	err := s.expire(ctx, command.Command{Expired: now, Keep: math.MaxInt})
	s.expired.Lock()
	models := s.expired.models
	s.expired.models = nil
	s.expired.Unlock()
	for _, m := range models {
		f(m)
	}
	return err
}

// Forget implements storage.Upkeep. The owner decides by its clock which ids are old, and the log carries the decision.
// On the other servers Forget does nothing.
func (s *Store) Forget(ctx context.Context, before time.Time, keep int) error {
	return s.expire(ctx, command.Command{Forgotten: before, Keep: uint64(max(keep, 0))})
}

// expire proposes a decision of the owner unless it has no effect.
func (s *Store) expire(ctx context.Context, c command.Command) error {
	if !s.o.Owner() {
		return nil
	}
	due, err := s.Due(c.Expired, c.Forgotten, int(c.Keep))
	if err == nil && due {
		c.Kind = command.Expire
		_, err = s.propose(ctx, &c)
	}
	if err == nil || errors.Is(err, storage.ErrNotOwner) {
		return nil // The next owner decides.
	}
	return fmt.Errorf("replicated: expire rows: %w", err)
}

// Raise implements storage.Formats. Entries that were proposed before have the previous format, also behind the Raise.
func (s *Store) Raise(ctx context.Context, format uint32, version string) error {
	if _, err := s.propose(ctx, &command.Command{Kind: command.Raise, Sequence: uint64(format), Name: version}); err != nil {
		return fmt.Errorf("replicated: raise the format to %d: %w", format, err)
	}
	return nil
}

// Create implements storage.Registry.
func (s *Store) Create(ctx context.Context, name string, value []byte) (storage.Model, error) {
	return s.proposeModel(ctx, "create", &command.Command{Kind: command.Create, Name: name, Value: value})
}

// Import implements storage.Registry.
func (s *Store) Import(ctx context.Context, name string, value []byte, from storage.Import) (storage.Model, error) {
	return s.proposeModel(ctx, "import", &command.Command{
		Kind: command.Import, Name: name, Value: value,
		Sequence: from.Sequence, Snapshot: from.Snapshot, IDs: from.IDs, Pending: from.Pending,
	})
}

func (s *Store) proposeModel(ctx context.Context, what string, c *command.Command) (storage.Model, error) {
	m, err := s.propose(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("replicated: %s model %q: %w", what, c.Name, err)
	}
	return m, nil
}

// PutAlias implements storage.Aliases.
func (s *Store) PutAlias(ctx context.Context, name string, value []byte) error {
	return s.changeAlias(ctx, &command.Command{Kind: command.PutAlias, Name: name, Value: value})
}

// RemoveAlias implements storage.Aliases.
func (s *Store) RemoveAlias(ctx context.Context, name string) error {
	return s.changeAlias(ctx, &command.Command{Kind: command.RemoveAlias, Name: name})
}

func (s *Store) changeAlias(ctx context.Context, c *command.Command) error {
	if _, err := s.propose(ctx, c); err != nil {
		return fmt.Errorf("replicated: change the alias %q: %w", c.Name, err)
	}
	return nil
}

// propose puts a durable command into the log, and returns the answer of Apply on this server.
func (s *Store) propose(ctx context.Context, c *command.Command) (*Model, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if !s.o.Owner() {
		return nil, storage.ErrNotOwner
	}
	sent := newCall(c, keysOf(c))
	if len(sent.body) > maxPart && c.Kind.Travels() {
		return s.proposeParts(ctx, c, command.Body(sent.body))
	}
	return s.wait(ctx, sent)
}

func (s *Store) wait(ctx context.Context, sent *call) (*Model, error) {
	if err := s.batcher.add(sent); err != nil {
		return nil, err
	}
	err := sent.wait(ctx)
	return sent.model, err
}

// rowBytes is more than the numbers of a row take.
const rowBytes = 24

// sizeOf estimates the bytes of a command, so that encoding most commands takes one allocation.
func sizeOf(c *command.Command) int {
	const fixed = 48
	n := fixed + len(c.Name) + len(c.Value) + len(c.Snapshot) + len(c.Data) + len(c.Record.Data) + len(c.From) + len(c.To)
	for k := range c.IDs {
		n += rowBytes + len(c.IDs[k].ID) + len(c.IDs[k].Value)
	}
	for k := range c.Answered {
		n += rowBytes + len(c.Answered[k])
	}
	for k := range c.Pending {
		n += pendingBytes(&c.Pending[k])
	}
	return n
}

func pendingBytes(p *storage.Prediction) int { return rowBytes + len(p.ID) + len(p.Value) }

// logKey returns the key of the commands of a model, except the commands of its pending predictions.
func logKey(model uint64) uint64 { return 2 * model }

// keysOf returns the keys of a command. All commands of a model have one key, except that the calls that wait for
// PutPending and Append order these two. All names and aliases share a key. A row is answered by a call that follows the
// end of its PutPending, so that the two need no common key.
func keysOf(c *command.Command) [2]uint64 {
	const names = 0
	key := logKey(c.Model)
	switch {
	case c.Kind == command.PutPending:
		key++
	case c.Kind == command.Expire:
		key = 1 // Expiring twice is the same as once, in either order.
	case len(c.Also) > 0:
		return [2]uint64{key, names}
	}
	return [2]uint64{key, key}
}
