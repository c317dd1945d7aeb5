package hosted

import (
	"hindsight/internal/engine/mailbox"
	"hindsight/internal/engine/record"
	"hindsight/internal/engine/recovery"
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
	m.box = mailbox.New[*Ticket](writer{m}, mailbox.Options{Limit: env.Queue, Batch: MaxCommitRows, Goroutines: &env.turns})
	return m
}

type writer struct{ *Model }

// Handle makes the new observations of a batch durable in one record, lets the model learn them in order
// and answers every ticket.
func (w writer) Handle(batch []*Ticket) {
	w.begin(batch)
	if err := w.catchUp(); err != nil {
		for _, t := range batch {
			t.reject(err)
		}
	} else {
		c := commit{Model: w.Model, places: map[string]int{}}
		c.perform(batch)
	}
	for _, t := range batch {
		w.finish(t)
	}
	w.afterCommit()
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

func (w writer) finish(t *Ticket) {
	for n := range t.answers {
		if t.answers[n].Duplicate {
			w.usage.duplicates.Add(1)
		}
	}
	trace := t.stages.trace() // After close the caller owns the ticket.
	close(t.done)
	w.owner.Timings().Observe(w.env.Now().Sub(t.started).Seconds(), trace)
}

func (w writer) Posted() { w.follow() }
