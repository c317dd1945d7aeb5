// Package engine hosts the models of a server: it creates, finds, deletes, imports and restores them, lets
// idle ones leave memory, and routes calls to them. Package hosted runs one model; alias, watch, figures and
// replica see a model through narrow interfaces.
package engine

import (
	"context"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"hindsight/internal/engine/alias"
	"hindsight/internal/engine/figures"
	"hindsight/internal/engine/hosted"
	"hindsight/internal/engine/record"
	"hindsight/internal/engine/replica"
	"hindsight/internal/engine/storage"
	"hindsight/internal/engine/watch"
)

// Options of an engine. Every field is required unless it says otherwise.
type Options struct {
	ModelOptions
	// Timings returns the instruments of a model. ForgetTimings is called when the model is deleted.
	Timings       func(model, learner string) Timings
	ForgetTimings func(model, learner string)
	// Counted takes the statistics of a model just before and just after a restore of its state, so that what a
	// counter counts between two scrapes is not lost. It must not wait, and may be nil.
	Counted func(*Live)
	// Durability is reported in the statistics: sync or async.
	Durability string
	// Ids are remembered for IDWindow, and longer while fewer than IDWindowMin over all models are.
	IDWindow    time.Duration
	IDWindowMin int
	// ModelLimit bounds the models, soft-deleted ones among them.
	ModelLimit int
	// DeletedKept is how long a model stays soft-deleted; 0 purges it at once.
	DeletedKept time.Duration
	// ReportCPU is the share of one processor that may go into reports nobody asked for; 0 is none.
	ReportCPU float64
	// Check is how often the owner of a replicated store compares a part of a model with the other servers, more often with
	// many models. 0 is never.
	Check time.Duration
	// Sweep is how often the engine looks for due snapshots, expired predictions, old ids, idle models and
	// due purges.
	Sweep time.Duration
}

// Engine hosts models. Any number of goroutines may call its methods.
type Engine struct {
	o         Options
	env       *hosted.Env
	end       context.CancelFunc
	table     table
	aliases   *alias.Table
	watchers  watch.Hub
	followers *replica.Set
	reporter  *figures.Reporter
	// verified is the id of the last model with a verified snapshot, verifying is held.
	verifying sync.Mutex
	verified  string
	start     StartCounters
	changes   changes
	// registryDamaged is set when an entry could not be decoded. A lookup that misses may then be a damaged
	// model, not an unknown one.
	registryDamaged atomic.Bool
	// upkeep counts the goroutines of the engine, writing the writer of snapshots, which ends last.
	upkeep, writing sync.WaitGroup
}

// Closed returns an engine whose calls for a model or an alias fail with ErrClosed, as after Close.
func Closed() *Engine {
	e := &Engine{env: new(hosted.Env), aliases: new(alias.Table)}
	e.table.mu.closed = true
	return e
}

// StartCounters count the models that the start loads in the background.
type StartCounters struct {
	Started     atomic.Int64
	StartFailed atomic.Int64
	StartDone   atomic.Bool
}

// hostedModel is a model in the table, with its instruments, watchers, reader and follower. Only replace ends its use.
type hostedModel struct {
	*hosted.Model
	engine *Engine
	// timings is nil of a soft-deleted model.
	timings  Timings
	watchers watch.Set
	reader   figures.Reader
	follower replica.Follower
}

// Timings implements hosted.Owner, as do the methods after it.
func (m *hostedModel) Timings() Timings { return m.timings }

func (m *hostedModel) Learned(r *record.Record, answers []record.Answer) {
	m.watchers.Learned(r, answers)
	if m.engine.followers.Follow(m.Ref()) {
		m.follower.Losses.Add(r, answers)
	}
	m.engine.followers.Wake()
}

// Restoring counts what the model has learned before a restore.
func (m *hostedModel) Restoring() { m.counted() }

func (m *hostedModel) counted() {
	var live Live
	if f := m.engine.o.Counted; f != nil && m.reader.Live(&live) {
		f(&live)
	}
}

func (m *hostedModel) Restored(sequence uint64) {
	m.counted()
	m.follower.Restored()
	m.watchers.Restored(sequence)
}

// KeepFrom is the first sequence that followers need, at most through.
func (m *hostedModel) KeepFrom(through uint64) uint64 {
	return m.engine.followers.KeepFrom(m.Ref(), through)
}

func (m *hostedModel) overdue(now time.Time) bool {
	registered := m.Registered()
	return registered.Deleted != 0 && registered.Purge <= now.UnixNano()
}

// table has the models of an engine.
//
//	models[order[n].ID()] == order[n], byNumber[order[n].Handle().Number()] == order[n], order is sorted by id
//	deleted == the entries of order that are soft-deleted
//	len(models) + making <= limit
type table struct {
	limit int
	mu    struct {
		sync.RWMutex
		models   map[string]*hostedModel
		order    []*hostedModel
		deleted  int
		byNumber map[uint64]*hostedModel
		// claims are the names that calls have for themselves, each closed when it is given up.
		claims map[string]chan struct{}
		making int
		closed bool
		// created is when the newest model was created, in nanoseconds since 1970.
		created int64
	}
}

func (t *table) init(limit int) {
	t.limit = limit
	t.mu.models, t.mu.byNumber = map[string]*hostedModel{}, map[uint64]*hostedModel{}
	t.mu.claims = map[string]chan struct{}{}
}

// close rejects calls from now on. It is false if the table was closed before.
func (t *table) close() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	open := !t.mu.closed
	t.mu.closed = true
	return open
}

func (t *table) closed() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.mu.closed
}

func (t *table) get(id string) *hostedModel {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.mu.models[id]
}

func (t *table) created(id string) int64 {
	if m := t.get(id); m != nil {
		return m.Ref().Created
	}
	return 0
}

// referred returns the model of a reference, nil if it no longer exists. It may be soft-deleted.
func (t *table) referred(r record.Ref) *hostedModel {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.referredLocked(r)
}

func (t *table) referredLocked(r record.Ref) *hostedModel {
	if m := t.mu.models[r.ID]; m != nil && m.Ref() == r {
		return m
	}
	return nil
}

func (t *table) byHandle(handle storage.Model) *hostedModel {
	if handle == nil {
		return nil
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.mu.byNumber[handle.Number()]
}

func (t *table) expired(handle storage.Model) {
	if m := t.byHandle(handle); m != nil {
		m.CountExpired()
	}
}

func (t *table) live() []*hostedModel {
	t.mu.RLock()
	defer t.mu.RUnlock()
	models := make([]*hostedModel, 0, len(t.mu.order)-t.mu.deleted)
	for _, m := range t.mu.order {
		if !m.Deleted() {
			models = append(models, m)
		}
	}
	return models
}

func (t *table) all() []*hostedModel {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Clone(t.mu.order)
}

func (t *table) overdue(now time.Time) (ids []string) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.mu.deleted == 0 {
		return nil
	}
	for _, m := range t.mu.order {
		if m.overdue(now) {
			ids = append(ids, m.ID())
		}
	}
	return ids
}

func compareID(m *hostedModel, id string) int { return strings.Compare(m.ID(), id) }

// within is the part of order whose ids have a prefix. The lock is held.
func (t *table) within(prefix string) []*hostedModel {
	from, _ := slices.BinarySearchFunc(t.mu.order, prefix, compareID)
	rest := t.mu.order[from:]
	return rest[:sort.Search(len(rest), func(n int) bool { return !strings.HasPrefix(rest[n].ID(), prefix) })]
}

func (t *table) All(prefix string) ([]*figures.Reader, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.mu.closed {
		return nil, ErrClosed
	}
	return readers(t.within(prefix)), nil
}

func readers(models []*hostedModel) []*figures.Reader {
	out := make([]*figures.Reader, len(models))
	for n, m := range models {
		out[n] = &m.reader
	}
	return out
}

func (t *table) Slice(prefix, after string, deleted bool, limit int) (rows []*figures.Reader, total int, err error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.mu.closed {
		return nil, 0, ErrClosed
	}
	all := t.within(prefix)
	switch total = len(all); {
	case deleted || t.mu.deleted == 0:
	case len(all) == len(t.mu.order):
		total -= t.mu.deleted
	default:
		for _, m := range all {
			if m.Deleted() {
				total--
			}
		}
	}
	if after != "" {
		from, found := slices.BinarySearchFunc(all, after, compareID)
		if found {
			from++
		}
		all = all[from:]
	}
	for _, m := range all {
		if len(rows) == limit {
			break
		}
		if deleted || !m.Deleted() {
			rows = append(rows, &m.reader)
		}
	}
	return rows, total, nil
}

// distinct is a time of creation, in nanoseconds since 1970, that no other model has: a coarse clock may show
// a time twice, and a record.Ref tells models of one id apart by it.
func (t *table) distinct(now int64) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last := t.mu.created; now <= last && last-now < int64(time.Second) {
		now = last + 1
	}
	t.mu.created = now
	return now
}

func (t *table) drop(m *hostedModel) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at, found := slices.BinarySearchFunc(t.mu.order, m.ID(), compareID); found {
		t.count(m, -1)
		t.mu.order = slices.Delete(t.mu.order, at, at+1)
	}
	delete(t.mu.models, m.ID())
	delete(t.mu.byNumber, m.Handle().Number())
}

// count counts a model that comes or goes. The lock is held.
func (t *table) count(m *hostedModel, n int) {
	if m.Deleted() {
		t.mu.deleted += n
	}
}
