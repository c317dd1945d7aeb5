package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"time"

	"go.uber.org/zap"

	"hindsight/internal/model"
	"hindsight/internal/store"
)

// gate is the bounded queue before a model's writer. The writer is a
// goroutine that lives while there is something to write, so that an idle
// model costs none.
type gate struct {
	sync.Mutex
	waiting []*Ticket
	rows    int
	// running says that somebody, the writer as a rule, has the state to
	// itself; asked counts those that wait for it to be nobody.
	running bool
	asked   int
	// shut, once set, refuses every later ticket with this error.
	shut error
	// snapshot asks the writer for a snapshot; snapshots counts those on
	// their way to disk.
	snapshot  bool
	snapshots int
	// changed is signalled when running or snapshots change.
	changed sync.Cond
}

// maxCommitRows bounds what one commit record takes from the queue. A single
// call may be larger: its rows are never split.
const maxCommitRows = 1024

func (i *instance) enqueue(t *Ticket) error {
	i.gate.Lock()
	defer i.gate.Unlock()
	if i.gate.shut != nil {
		return i.gate.shut
	}
	// A call larger than the whole queue is taken when the queue is empty.
	if i.gate.rows > 0 && i.gate.rows+len(t.rows) > i.engine.o.Queue {
		return fmt.Errorf("model %q: %w: %d observations are waiting, at most %d", i.id, ErrOverloaded, i.gate.rows, i.engine.o.Queue)
	}
	i.gate.waiting = append(i.gate.waiting, t)
	i.gate.rows += len(t.rows)
	i.wake()
	return nil
}

// wake starts the writer unless it runs, or others wait for their turn. The
// gate is locked.
func (i *instance) wake() {
	if i.gate.running || i.gate.asked > 0 {
		return
	}
	i.gate.running = true
	i.engine.writers.Add(1)
	go i.write()
}

// shut refuses every later observation with err.
func (i *instance) shut(err error) {
	i.gate.Lock()
	defer i.gate.Unlock()
	i.gate.shut = err
}

// settle waits until the writer has ended and no snapshot is on its way.
func (i *instance) settle() {
	i.gate.Lock()
	defer i.gate.Unlock()
	for i.gate.running || i.gate.snapshots > 0 {
		i.gate.changed.Wait()
	}
}

// write is the model's writer: it alone changes the learner.
func (i *instance) write() {
	defer i.engine.writers.Done()
	for {
		batch, snapshot := i.take()
		if len(batch) == 0 && !snapshot {
			return
		}
		if len(batch) > 0 {
			i.commit(batch)
			// Those that were answered may have more: it then shares the next sync.
			runtime.Gosched()
		}
		if snapshot || i.snapshotCountDue() {
			i.handOver()
		}
	}
}

// take gives the tickets of the next commit, none when the writer may end.
func (i *instance) take() (batch []*Ticket, snapshot bool) {
	i.gate.Lock()
	defer i.gate.Unlock()
	rows, n := 0, 0
	if i.gate.asked > 0 {
		i.gate.running = false
		i.gate.changed.Broadcast()
		return nil, false
	}
	for n < len(i.gate.waiting) && (n == 0 || rows+len(i.gate.waiting[n].rows) <= maxCommitRows) {
		rows += len(i.gate.waiting[n].rows)
		n++
	}
	batch = i.gate.waiting[:n:n]
	i.gate.waiting = i.gate.waiting[n:]
	if len(i.gate.waiting) == 0 {
		i.gate.waiting = nil
	}
	i.gate.rows -= rows
	snapshot, i.gate.snapshot = i.gate.snapshot, false
	if n == 0 && !snapshot {
		i.gate.running = false
		i.gate.changed.Broadcast()
	}
	return batch, snapshot
}

// alone runs f with the state to itself, between two commits and with no
// snapshot on its way. The model is in memory then.
func (i *instance) alone(ctx context.Context, f func() error) error {
	if err := i.enter(ctx); err != nil {
		return err
	}
	defer i.leave()
	if err := i.ready(ctx); err != nil {
		return err
	}
	return f()
}

func (i *instance) enter(ctx context.Context) error {
	ended := context.AfterFunc(ctx, func() {
		i.gate.Lock()
		defer i.gate.Unlock()
		i.gate.changed.Broadcast()
	})
	defer ended()
	i.gate.Lock()
	defer i.gate.Unlock()
	i.gate.asked++
	defer func() { i.gate.asked-- }()
	for i.gate.running || i.gate.snapshots > 0 {
		if ctx.Err() != nil {
			return fmt.Errorf("engine: wait for model %q: %w", i.id, context.Cause(ctx))
		}
		i.gate.changed.Wait()
	}
	if i.gate.shut != nil {
		return i.gate.shut
	}
	i.gate.running = true
	i.engine.writers.Add(1)
	return nil
}

func (i *instance) leave() {
	defer i.engine.writers.Done()
	i.gate.Lock()
	defer i.gate.Unlock()
	i.gate.running = false
	i.gate.changed.Broadcast()
	if len(i.gate.waiting) > 0 || i.gate.snapshot {
		i.wake()
	}
}

// commit makes the new observations of a batch durable in one record, learns
// them in order and answers every ticket.
func (i *instance) commit(batch []*Ticket) {
	defer func() {
		for _, t := range batch {
			close(t.done)
			i.timings.Observe(i.engine.o.Now().Sub(t.started).Seconds())
		}
	}()
	if err := i.ready(i.engine.lifetime); err != nil {
		refuse(batch, err)
		return
	}
	if i.mu.broken != nil {
		refuse(batch, i.mu.broken)
		return
	}
	c := i.resolve(batch)
	if len(c.record.Observations) > 0 {
		if err := i.apply(c); err != nil {
			i.engine.o.Log.Error("model is read-only", zap.String("model", i.id), zap.Error(err))
			i.mu.Lock()
			i.mu.broken = err
			i.mu.Unlock()
			// Duplicates of what was durable before keep their answers.
			for _, t := range c.learning {
				t.answers, t.err = nil, err
			}
			return
		}
	}
	for _, copied := range c.copies {
		*copied.to = c.answers[copied.from]
		copied.to.Duplicate = copied.duplicate
	}
}

func refuse(batch []*Ticket, err error) {
	for _, t := range batch {
		t.err = err
	}
}

// commitment is a batch once its ids are resolved.
type commitment struct {
	record record
	// places finds an id among the record's observations.
	places map[string]int
	// consumed are the predictions that the record answers.
	consumed []string
	// learning are the tickets with an observation in the record.
	learning []*Ticket
	// answers, one per observation of the record; copies say which answer of
	// which ticket each becomes.
	answers []Answer
	copies  []copied
}

type copied struct {
	to        *Answer
	from      int
	duplicate bool
}

// resolve decides, ticket by ticket, what is new, what is a duplicate and
// what is refused. A ticket is refused whole.
func (i *instance) resolve(batch []*Ticket) *commitment {
	now := max(i.mu.account.Time, i.engine.o.Now().UnixNano())
	c := &commitment{record: record{Time: now}, places: map[string]int{}}
	room := i.room()
	for _, t := range batch {
		observations, copies, consumed := len(c.record.Observations), len(c.copies), len(c.consumed)
		t.answers = make([]Answer, len(t.rows))
		for n := range t.rows {
			if err := i.place(c, &t.rows[n], &t.answers[n]); err != nil {
				t.answers, t.err = nil, &RowError{Row: n, Err: err}
				break
			}
		}
		if t.err == nil && len(c.record.Observations) > room {
			t.answers, t.err = nil, fmt.Errorf("model %q: room for %d more observations: %w", i.id, room-observations, model.ErrObservationLimit)
		}
		if t.err != nil {
			for _, o := range c.record.Observations[observations:] {
				delete(c.places, o.ID)
			}
			c.record.Observations = c.record.Observations[:observations]
			c.copies, c.consumed = c.copies[:copies], c.consumed[:consumed]
		} else if len(c.copies) > copies {
			c.learning = append(c.learning, t)
		}
	}
	return c
}

// room is how many more observations the learner takes. Check has asked the
// same, but before those were learned that waited in front.
func (i *instance) room() int {
	if bounded, ok := i.mu.learner.(model.Bounded); ok {
		return bounded.Remaining()
	}
	return math.MaxInt
}

// place finds where one row's answer comes from: an observation remembered
// from before, one already in this commit, or a new one that it adds.
func (i *instance) place(c *commitment, r *row, answer *Answer) error {
	if r.id != "" {
		if known, err := i.placeKnown(c, r, answer); known || err != nil {
			return err
		}
	}
	if r.PredictionID != "" && r.waiting == nil {
		return fmt.Errorf("prediction_id %q: %w", r.id, ErrPredictionNotFound)
	}
	o := observation{ID: r.id, Features: r.Features, Labels: r.Labels, Weight: r.Weight}
	if r.waiting != nil {
		if !sameNumbers(r.waiting.Features, r.Features) {
			return fmt.Errorf("observation_id %q: %w: it was predicted with other features", r.id, ErrConflict)
		}
		o.Served = &served{Predictions: r.waiting.Prediction.Values, Sequence: r.waiting.Prediction.Sequence}
		c.consumed = append(c.consumed, r.id)
	}
	if r.id != "" {
		c.places[r.id] = len(c.record.Observations)
	}
	c.copies = append(c.copies, copied{to: answer, from: len(c.record.Observations)})
	c.record.Observations = append(c.record.Observations, o)
	return nil
}

// placeKnown is place for a row whose id stands for an observation already.
func (i *instance) placeKnown(c *commitment, r *row, answer *Answer) (known bool, err error) {
	at, inCommit := c.places[r.id]
	if !inCommit {
		return i.recall(r, answer)
	}
	if err := conflicts(r, newSeen(c.record.Observations[at], Answer{})); err != nil {
		return false, err
	}
	c.copies = append(c.copies, copied{to: answer, from: at, duplicate: true})
	return true, nil
}

// recall answers a row whose id was learned in an earlier commit.
func (i *instance) recall(r *row, answer *Answer) (known bool, err error) {
	value, known, err := i.engine.o.Store.GetSeen(i.number, r.id)
	if err != nil {
		return false, fmt.Errorf("engine: look up id %q: %w: %w", r.id, ErrStorage, err)
	}
	if !known {
		return false, nil
	}
	s, err := decodeSeen(value, i.spec.Outputs)
	if err != nil {
		return false, fmt.Errorf("engine: id %q: %w: %w", r.id, ErrCorrupt, err)
	}
	*answer = s.Answer
	answer.Duplicate = true
	return true, conflicts(r, s)
}

// conflicts compares a row with what its id stands for.
func conflicts(r *row, s seen) error {
	if labelsDigest(r.Labels, r.Weight) != s.Labels {
		return fmt.Errorf("id %q: %w: it was observed with another label or weight", r.id, ErrConflict)
	}
	if len(r.Features) > 0 && featuresDigest(r.Features) != s.Features {
		return fmt.Errorf("id %q: %w: it was observed with other features", r.id, ErrConflict)
	}
	return nil
}

// apply makes the record durable, then learns it, then remembers its ids.
func (i *instance) apply(c *commitment) error {
	first := i.mu.sequence + 1
	last := i.mu.sequence + uint64(len(c.record.Observations))
	err := i.engine.o.Store.Append(i.number, store.Record{First: first, Last: last, Data: appendRecord(nil, c.record)})
	if err != nil {
		return fmt.Errorf("append observations %d to %d of model %q: %w: %w", first, last, i.id, ErrStorage, err)
	}
	if c.answers, err = i.learn(&i.mu.state, &i.mu, c.record); err != nil {
		return err
	}
	// Resolve has looked for every id.
	if err := i.rememberSeen(c.record, c.answers, i.engine.o.Store.AddSeen); err != nil {
		return err
	}
	if len(c.consumed) > 0 {
		removed, err := i.engine.o.Store.RemovePending(i.number, c.consumed)
		if err != nil {
			return fmt.Errorf("forget answered predictions of model %q: %w: %w", i.id, ErrStorage, err)
		}
		i.addPending(-int64(removed))
	}
	i.derived = last
	return nil
}

// errUnlearnable is a record that a learner of its spec refuses: it was
// written for another, or the state is not what it was.
var errUnlearnable = errors.New("a logged observation cannot be learned")

// learn feeds a durable record to a learner, in order, and answers. It is what
// the writer and recovery share. Between two observations it lets go of the
// lock, so that predictions are answered.
func (i *instance) learn(s *state, lock sync.Locker, r record) ([]Answer, error) {
	answers := make([]Answer, len(r.Observations))
	said := make([]float64, len(r.Observations)*i.spec.Outputs)
	for n, o := range r.Observations {
		at, end := n*i.spec.Outputs, (n+1)*i.spec.Outputs
		outcome := model.Outcome{Predictions: said[at:end:end]}
		lock.Lock()
		err := s.learner.Observe(&outcome, o.Features, o.Labels, o.Weight)
		if err == nil && (!finite(outcome.Predictions) || math.IsNaN(outcome.Loss)) {
			err = fmt.Errorf("a prequential prediction of %v", outcome.Predictions)
		}
		if err != nil {
			lock.Unlock()
			return nil, fmt.Errorf("sequence %d of model %q: %w: %w: %w", s.sequence+1, i.id, errUnlearnable, ErrCorrupt, err)
		}
		s.sequence++
		s.account.Time = r.Time
		a := Answer{Sequence: s.sequence, Predictions: outcome.Predictions, Loss: outcome.Loss, Regret: outcome.Regret}
		if o.Served != nil {
			a.Served, a.ServedPredictions = true, o.Served.Predictions
			for j, y := range o.Labels {
				a.ServedLoss += float64(o.Weight * lossOf(s.learner, o.Served.Predictions[j], y))
			}
			s.account.Served++
			s.account.ServedLoss += a.ServedLoss
		}
		lock.Unlock()
		answers[n] = a
	}
	return answers, nil
}

// lossOf is the learner's loss of a served prediction.
func lossOf(l model.Learner, prediction, label float64) float64 {
	if scored, ok := l.(model.Scored); ok {
		return scored.LossOf(prediction, label)
	}
	miss := label - prediction
	return float64(miss * miss)
}

// rememberSeen writes the ids of a record with their answers, by the store's
// AddSeen or PutSeen. The write is not synced: until the next snapshot recovery
// can derive it again.
func (i *instance) rememberSeen(
	r record, answers []Answer, put func(m store.Model, at time.Time, entries []store.Seen) error,
) error {
	entries := make([]store.Seen, 0, len(r.Observations))
	for n, o := range r.Observations {
		if o.ID != "" {
			entries = append(entries, store.Seen{ID: o.ID, Value: newSeen(o, answers[n]).encode()})
		}
	}
	if len(entries) == 0 {
		return nil
	}
	if err := put(i.number, unixTime(r.Time), entries); err != nil {
		return fmt.Errorf("remember ids of model %q: %w: %w", i.id, ErrStorage, err)
	}
	return nil
}
