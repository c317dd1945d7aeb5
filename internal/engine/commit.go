package engine

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"hindsight/internal/engine/mailbox"
	"hindsight/internal/engine/record"
	"hindsight/internal/engine/recovery"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model"
	"hindsight/internal/model/input"
)

// maxCommitRows bounds what one commit takes from the queue. A single call may
// be larger: its rows are never split.
const maxCommitRows = 1024

// newInstance is a model that is not in memory.
func newInstance(s *shared, id string, from recovery.Source, entry *record.Entry) *instance {
	i := &instance{shared: s, Source: from, id: id, disk: make(chan struct{}, 1)}
	i.entry.Store(entry)
	if len(from.Spec.Inputs) > 0 {
		i.schema = input.NewSchema(from.Spec.Inputs)
	}
	now := s.o.Now().UnixNano()
	i.snapshotTime.Store(now)
	i.snapshotMade.Store(now)
	i.box = mailbox.New[*Ticket](writer{i}, mailbox.Options{
		Limit: s.o.Queue, Batch: maxCommitRows, Goroutines: &s.turns,
	})
	return i
}

// writer makes the observations that wait for a model durable and lets the
// model learn them, at its turn.
type writer struct{ *instance }

// Refuse answers a ticket that gets no turn.
func (w writer) Refuse(t *Ticket, why error) {
	t.refuse(why)
	w.finish(t)
}

func (w writer) finish(t *Ticket) {
	if errors.Is(t.err, ErrConflict) {
		w.conflicts.Add(1)
	}
	for n := range t.answers {
		if t.answers[n].Duplicate {
			w.duplicates.Add(1)
		}
	}
	trace := t.stages.trace() // Once it is done it is the caller's.
	close(t.done)
	w.timings.Observe(w.o.Now().Sub(t.started).Seconds(), trace)
}

// begin notes that the turn of a batch has come.
func (w writer) begin(batch []*Ticket) {
	now := w.o.Now()
	for _, t := range batch {
		w.o.Stages.Queue(now.Sub(t.started).Seconds(), t.stages.trace())
		if t.stages != nil {
			t.stages.turn = now
		}
	}
}

// Handle makes the new observations of a batch durable in one record, lets the
// model learn them in order and answers every ticket.
func (w writer) Handle(batch []*Ticket) {
	w.begin(batch)
	c, ok := w.commits.Get().(*commit)
	if !ok {
		c = &commit{places: map[string]int{}}
	}
	if err := w.ready(); err != nil {
		for _, t := range batch {
			t.refuse(err)
		}
	} else {
		c.instance = w.instance
		c.perform(batch)
	}
	for _, t := range batch {
		w.finish(t)
	}
	c.reset()
	w.commits.Put(c)
	w.afterCommit()
}

// afterCommit does what is due once observations were learned.
func (i *instance) afterCommit() {
	if i.mu.machine == nil || i.mu.broken != nil {
		return
	}
	if i.replayDue() || i.intervalDue(i.o.Now()) {
		i.handOver()
	}
	if len(i.answered) >= answeredAtOnce {
		// A failure is one of the storage, which the next commit meets.
		_ = i.removeAnswered()
	}
	if i.yields.CompareAndSwap(true, false) {
		if _, wanted := i.goIdle(); wanted {
			i.handOver()
		}
	}
}

// ready loads the model, and refuses one that no longer learns or is moved.
func (w writer) ready() error {
	if err := w.here(); err != nil {
		return err
	}
	if err := w.load(); err != nil {
		return err
	}
	return w.mu.broken
}

// commit is a batch on its way to become a record.
type commit struct {
	*instance
	record record.Record
	// classes are those that the record brings.
	classes []string
	// places finds an id among the record's observations.
	places map[string]int
	// consumed are the predictions that the record answers.
	consumed []string
	// learning are the tickets with an observation in the record.
	learning []*Ticket
	// answers are one per observation of the record; copies say which answer of
	// which ticket each becomes.
	answers []Answer
	copies  []answerCopy
	data    []byte
	digest  record.Digester
}

type answerCopy struct {
	to        *Answer
	from      int
	duplicate bool
}

// keptBytes is the size of an encoded record whose memory the pool keeps.
const keptBytes = 1 << 20

// reset lets go of all that the commit refers to.
func (c *commit) reset() {
	c.instance = nil
	clear(c.record.Observations)
	clear(c.places)
	clear(c.classes)
	c.classes = c.classes[:0]
	clear(c.consumed)
	clear(c.learning)
	clear(c.answers)
	clear(c.copies)
	c.record.Observations, c.consumed, c.learning = c.record.Observations[:0], c.consumed[:0], c.learning[:0]
	c.answers, c.copies, c.data = c.answers[:0], c.copies[:0], c.data[:0]
	if cap(c.data) > keptBytes {
		c.data = nil
	}
}

// perform resolves the batch, applies what is new and fills in the answers.
func (c *commit) perform(batch []*Ticket) {
	c.record.Time = max(c.mu.machine.Time(), c.o.Now().UnixNano())
	room := c.mu.machine.Room()
	for _, t := range batch {
		c.resolve(t, room)
	}
	if len(c.record.Observations) > 0 {
		if err := c.apply(); err != nil {
			// Duplicates of what was durable before keep their answers.
			for _, t := range c.learning {
				t.refuse(err)
			}
			return
		}
	}
	for _, copied := range c.copies {
		*copied.to = c.answers[copied.from]
		copied.to.Duplicate = copied.duplicate
	}
}

// resolve decides of each row of a ticket whether it is new, a duplicate or
// refused. A ticket is refused whole.
func (c *commit) resolve(t *Ticket, room int) {
	observations, copies, consumed, known := len(c.record.Observations), len(c.copies), len(c.consumed), len(c.classes)
	var refused error
	for n := range t.rows {
		if err := c.place(&t.rows[n], &t.answers[n]); err != nil {
			refused = &RowError{Row: n, Err: err}
			break
		}
	}
	if refused == nil && len(c.record.Observations) > room {
		refused = fmt.Errorf("model %q: room for %d more observations: %w", c.id, room-observations, model.ErrObservationLimit)
	}
	switch {
	case refused != nil:
		for _, o := range c.record.Observations[observations:] {
			delete(c.places, o.ID)
		}
		c.record.Observations = c.record.Observations[:observations]
		c.copies, c.consumed, c.classes = c.copies[:copies], c.consumed[:consumed], c.classes[:known]
		t.refuse(refused)
	case len(c.copies) > copies:
		c.learning = append(c.learning, t)
	}
}

// place finds where one row's answer comes from: an observation remembered
// from before, one already in this commit, or a new one that it adds.
func (c *commit) place(r *row, answer *Answer) error {
	if r.id != "" {
		if known, err := c.placeKnown(r, answer); known || err != nil {
			return err
		}
	}
	if r.PredictionID != "" && r.waiting == nil {
		return fmt.Errorf("prediction_id %q: %w", r.id, ErrPredictionNotFound)
	}
	o := record.Observation{ID: r.id, Features: r.Features, Inputs: r.inputs, Labels: r.Labels, Class: r.Class, Weight: r.Weight}
	if w := r.waiting; w != nil {
		if !record.SameInput(w.Features, w.Inputs, r.Features, r.inputs) {
			return fmt.Errorf("observation_id %q: %w: it was predicted with other %s", r.id, ErrConflict, c.inputField())
		}
		if c.mu.machine.Continues(w.Classes) {
			o.Served = &record.Served{
				Predictions: w.Values, Class: w.Class, Probabilities: w.Probabilities,
				Sequence: w.Sequence, Notes: w.Notes, Advice: w.Advice,
			}
		}
	}
	if err := c.admitClass(r.Class); err != nil {
		return err
	}
	if r.waiting != nil {
		c.consumed = append(c.consumed, r.id)
	}
	if r.id != "" {
		c.places[r.id] = len(c.record.Observations)
	}
	c.copies = append(c.copies, answerCopy{to: answer, from: len(c.record.Observations)})
	c.record.Observations = append(c.record.Observations, o)
	return nil
}

// admitClass refuses a class that is one too many: others may have come since the
// row was checked.
func (c *commit) admitClass(class string) error {
	if class == "" || slices.Contains(c.classes, class) || slices.Contains(c.mu.machine.Classes(), class) {
		return nil
	}
	if len(c.classes) >= c.mu.machine.ClassRoom() {
		return &model.FieldError{
			Field: "class", Err: model.ErrClassLimit, Got: fmt.Sprintf("the new class %q", class),
			Want: model.KnownClasses(*c.Spec.Classes.MaxClasses),
		}
	}
	c.classes = append(c.classes, class)
	return nil
}

// placeKnown is place for a row whose id stands for an observation already.
func (c *commit) placeKnown(r *row, answer *Answer) (known bool, err error) {
	if at, ok := c.places[r.id]; ok {
		o := &c.record.Observations[at]
		s := record.Seen{Labels: c.digest.Labels(o.Labels, o.Class, o.Weight), Features: c.digest.Input(o.Features, o.Inputs)}
		c.copies = append(c.copies, answerCopy{to: answer, from: at, duplicate: true})
		return true, c.conflict(r, &s)
	}
	value, err := c.seenNow(r)
	if err != nil || value == nil {
		return false, err
	}
	s, err := record.DecodeSeen(value, c.Spec.Outputs)
	if err != nil {
		return false, fmt.Errorf("engine: id %q: %w: %w", r.id, ErrCorrupt, err)
	}
	*answer = s.Answer
	answer.Duplicate = true
	return true, c.conflict(r, &s)
}

// seenNow is what is remembered under the row's id now. It looks for what can
// have changed since it was looked for before the row's turn.
func (c *commit) seenNow(r *row) ([]byte, error) {
	switch c.recent.generation.Load() - r.looked {
	case 0:
		return r.seen, nil
	case 1:
		if value, ok := c.recent.lookUp(r.id); ok {
			return value, nil
		}
		return r.seen, nil
	default:
		return c.lookUp(r.id)
	}
}

// conflict compares a row with what its id stands for.
func (c *commit) conflict(r *row, s *record.Seen) error {
	if c.digest.Labels(r.Labels, r.Class, r.Weight) != s.Labels {
		return fmt.Errorf("id %q: %w: it was observed with another label or weight", r.id, ErrConflict)
	}
	if len(r.Features)+len(r.inputs) > 0 && c.digest.Input(r.Features, r.inputs) != s.Features {
		return fmt.Errorf("id %q: %w: it was observed with other %s", r.id, ErrConflict, c.inputField())
	}
	return nil
}

// apply makes the record durable together with the ids of the record before it,
// then lets the model learn it.
func (c *commit) apply() error {
	n := len(c.record.Observations)
	first := c.mu.machine.Sequence() + 1
	last := first + uint64(n) - 1
	c.data = c.record.Append(c.data)
	begun := c.o.Now()
	err := c.Kept.Append(c.appends, storage.Commit{
		Record: storage.Record{First: first, Last: last, Data: c.data}, IDs: c.recent.rows,
	})
	if err != nil {
		return c.stepDown(fmt.Errorf("append observations %d to %d of model %q: %w", first, last, c.id, err))
	}
	c.recent.clear()
	started := c.o.Now()
	if cap(c.answers) < n {
		c.answers = make([]Answer, n)
	}
	c.answers = c.answers[:n]
	if err := c.learn(); err != nil {
		return err
	}
	learned := c.o.Now()
	c.tellStages(n, begun, started, learned)
	c.replay.Add(int64(learned.Sub(started)) + int64(n)*int64(readCost))
	c.recent.add(&c.record, c.answers, &c.digest)
	c.answered = append(c.answered, c.consumed...)
	c.unremoved.Store(int64(len(c.answered)))
	c.rate.add(started, n)
	c.measure()
	c.watchers.tell(&c.record, c.answers)
	c.wakeFollowers()
	return nil
}

// tellStages tells what the commit of n observations cost: it was appended from begun to
// durable, and learned until learned.
func (c *commit) tellStages(n int, begun, durable, learned time.Time) {
	trace := ""
	for _, t := range c.learning {
		if t.stages != nil {
			t.stages.append, t.stages.learn, t.stages.learned = begun, durable, learned
			trace = t.stages.id
		}
	}
	c.o.Stages.Commit(n, durable.Sub(begun).Seconds(), trace)
	c.o.Stages.Learn(learned.Sub(durable).Seconds(), trace)
}

// learn applies the durable record. Between two observations it lets go of the
// lock, so that predictions are answered.
func (c *commit) learn() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.mu.machine.Apply(&c.record, c.answers, func() {
		c.mu.Unlock()
		c.mu.Lock()
	})
	if err == nil {
		return nil
	}
	c.countPanic(err)
	// Readers see a broken model and never a machine at an end alone.
	c.mu.broken = c.errorf("learn", err)
	c.o.Log.Error(c.mu.broken.Error())
	return c.mu.broken
}

// stepDown follows an append that did not succeed. Where the disk has failed,
// the model keeps its state and learns nothing more. Else the log tells what is
// in it: the model is loaded again from there.
func (c *commit) stepDown(err error) error {
	if errors.Is(err, storage.ErrFailed) || c.o.Store.Failed() != nil {
		err = fmt.Errorf("%w: %w", ErrStorage, err)
		c.takeBroken(err)
		return err
	}
	c.reloads.Add(1)
	c.forget()
	if loadErr := c.load(); loadErr != nil {
		err = errors.Join(err, loadErr)
	}
	return fmt.Errorf("%w: %w", ErrUnknown, err)
}
