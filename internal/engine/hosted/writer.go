package hosted

import (
	"hindsight/internal/engine/mailbox"
	"hindsight/internal/engine/record"
	"hindsight/internal/engine/recovery"
	"hindsight/internal/engine/storage"
)

// New returns a model that is not in memory.
func New(env *Env, id string, from recovery.Source, entry *record.RegistryValue, owner Owner) *Model {
	m := &Model{env: env, source: from, id: name(id), owner: owner}
	m.registered.Store(entry)
	m.specified = env.shared(from.Spec)
	m.source.Spec = m.spec
	m.journal.store, m.journal.id, m.journal.replicated = from.Handle, m.id, env.Owner != nil
	m.journal.followRewind()
	m.pending.store, m.pending.id = from.Handle, m.id
	m.snapshots.init(from.Handle, m.id, env.Now())
	m.box = mailbox.New[*Ticket](writer{m}, env.turns, mailbox.Options{Limit: env.Queue, Batch: MaxCommitRows})
	return m
}

type writer struct{ *Model }

// handle makes the new observations of every batch durable, those of a batch in one record and all records in one append.
// It then lets the models learn them in order, and answers every ticket.
func (e *Env) handle(turns []mailbox.Turn[*Ticket]) {
	commits, appends := make([]commit, len(turns)), make([]*storage.Append, 0, len(turns))
	for n, t := range turns {
		w, c := t.Handler.(writer), &commits[n]
		c.Model = w.Model
		w.begin(t.Items)
		if err := w.catchUp(); err != nil {
			for _, ticket := range t.Items {
				ticket.reject(err)
			}
		} else if c.prepare(t.Items) {
			appends = append(appends, &c.append)
		}
	}
	e.append(appends...)
	for n := range commits {
		commits[n].end()
	}
	// Callers that wake together share the writes to their connections, and then the next call of handle.
	for n, t := range turns {
		for _, ticket := range t.Items {
			commits[n].finish(ticket)
		}
	}
	for n := range commits {
		commits[n].afterCommit()
	}
}

// append makes records of several models durable, and sets the answers.
func (e *Env) append(appends ...*storage.Append) {
	if s, ok := e.Store.(storage.Appender); ok && len(appends) > 0 {
		s.AppendAll(e.appends, appends)
		return
	}
	for _, a := range appends {
		a.Err = a.Model.Append(e.appends, a.Commit)
	}
}

// sharedBytes bounds the state of a model whose batches share an append: the others wait until it has learned, which takes
// as long as its state is large.
const sharedBytes = 128 << 10

// Shares implements mailbox.Handler. A model that is not in memory loads first, and a replicated append takes a round trip.
func (w writer) Shares() bool {
	bytes := w.usage.bytes.Load()
	return bytes > 0 && bytes <= sharedBytes && w.env.Owner == nil
}

func (w writer) Reject(t *Ticket, why error) {
	t.reject(why)
	w.finish(t)
}

func (w writer) begin(batch []*Ticket) {
	now := w.env.Now()
	for _, t := range batch {
		w.env.Stages.Queue(now.Sub(t.started).Seconds(), t.stages.trace())
		if t.stages != nil {
			t.stages.turn = now
		}
	}
}

func (m *Model) finish(t *Ticket) {
	for n := range t.answers {
		if t.answers[n].Duplicate {
			m.usage.duplicates.Add(1)
		}
	}
	trace := t.stages.trace() // After close the caller owns the ticket.
	close(t.done)
	m.owner.Timings().Observe(m.env.Now().Sub(t.started).Seconds(), trace)
}

func (w writer) Posted() { w.follow() }
