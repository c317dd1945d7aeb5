package hosted

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"hindsight/internal/engine/record"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model"
)

// MaxCommitRows bounds what one commit takes from the queue. The rows of one call are never split.
const MaxCommitRows = 1024

// afterCommit does what is due after observations were learned. It runs at the model's turn.
func (m *Model) afterCommit() {
	if m.state.machine == nil || m.state.broken != nil {
		return
	}
	if m.snapshots.replayDue(&m.env.Options) || m.snapshotDue(m.env.Now()) {
		m.handOver()
	}
	if m.usage.yields.CompareAndSwap(true, false) && m.hibernate() {
		m.handOver()
	}
}

type commit struct {
	*Model
	record  record.Record
	classes []string
	// append makes the record durable. It began at begun.
	append storage.Append
	begun  time.Time
	// places finds an id among the record's observations.
	places map[string]int
	// consumed are the predictions that the record answers.
	consumed []string
	// learning are the tickets with an observation in the record.
	learning []*Ticket
	// answers are one per observation of the record. Copies say which answer of which ticket each becomes.
	answers []Answer
	copies  []answerCopy
	digest  record.Digester
}

type answerCopy struct {
	to        *Answer
	from      int
	duplicate bool
}

// prepare places the rows of a batch, and reports whether the record has new ones to append.
func (c *commit) prepare(batch []*Ticket) bool {
	c.record.Time = max(c.state.machine.Time(), c.env.Time().UnixNano())
	room := c.state.machine.Room()
	for _, t := range batch {
		c.placeAll(t, room)
	}
	return len(c.record.Observations) > 0 && c.encode()
}

// encode prepares the append of the record, and reports whether it can.
func (c *commit) encode() bool {
	first, n := c.state.machine.Sequence()+1, uint64(len(c.record.Observations))
	c.append = c.journal.commit(c.env.appends, first, first+n-1, c.record.Append(nil), c.consumed)
	c.begun = c.env.Now()
	return c.append.Err == nil
}

// end applies the appended record, and fills in the answers.
func (c *commit) end() {
	if len(c.record.Observations) > 0 {
		if err := c.apply(); err != nil {
			// Duplicates of what was durable before keep their answers.
			for _, t := range c.learning {
				t.reject(err)
			}
			return
		}
	}
	for _, copied := range c.copies {
		*copied.to = c.answers[copied.from]
		copied.to.Duplicate = copied.duplicate
	}
}

// placeAll places every row of a ticket, or rejects the ticket and undoes its placements.
func (c *commit) placeAll(t *Ticket, room int) {
	observations, copies, consumed, known := len(c.record.Observations), len(c.copies), len(c.consumed), len(c.classes)
	var rejected error
	for n := range t.rows {
		if err := c.place(&t.rows[n], &t.answers[n]); err != nil {
			rejected = &RowError{Row: n, Err: err}
			break
		}
	}
	if rejected == nil && len(c.record.Observations) > room {
		rejected = fmt.Errorf("model %q: room for %d more observations: %w", c.ID(), room-observations, model.ErrObservationLimit)
	}
	switch {
	case rejected != nil:
		for _, o := range c.record.Observations[observations:] {
			delete(c.places, o.ID)
		}
		c.record.Observations = c.record.Observations[:observations]
		c.copies, c.consumed, c.classes = c.copies[:copies], c.consumed[:consumed], c.classes[:known]
		t.reject(rejected)
	case len(c.copies) > copies:
		c.learning = append(c.learning, t)
	}
}

// place finds the answer of a row: the answer of a remembered observation, of an observation already in
// the record, or of a new observation, which it adds to the record.
func (c *commit) place(r *row, answer *Answer) error {
	if r.id != "" {
		if known, err := c.placeKnown(r, answer); known || err != nil {
			return err
		}
	}
	if r.PredictionID != "" && r.pending == nil {
		return fmt.Errorf("prediction_id %q: %w", r.id, ErrPredictionNotFound)
	}
	o := record.Observation{ID: r.id, Features: r.Features, Inputs: r.inputs, Labels: r.Labels, Class: r.Class, Weight: r.Weight}
	if w := r.pending; w != nil {
		if !record.SameInput(w.Features, w.Inputs, r.Features, r.inputs) {
			return fmt.Errorf("observation_id %q: %w: it was predicted with other %s", r.id, ErrConflict, c.inputField())
		}
		if c.state.machine.Continues(w.Classes) {
			o.Served = &record.Served{
				Predictions: w.Values, Class: w.Class, Probabilities: w.Probabilities,
				Sequence: w.Sequence, Notes: w.Notes, Advice: w.Advice,
			}
		}
	}
	if err := c.admitClass(r.Class); err != nil {
		return err
	}
	if r.pending != nil {
		c.consumed = append(c.consumed, r.id)
	}
	if r.id != "" {
		if c.places == nil {
			c.places = map[string]int{}
		}
		c.places[r.id] = len(c.record.Observations)
	}
	c.copies = append(c.copies, answerCopy{to: answer, from: len(c.record.Observations)})
	c.record.Observations = append(c.record.Observations, o)
	return nil
}

// admitClass rejects a new class beyond the limit: others may have come since Submit checked the row.
func (c *commit) admitClass(class string) error {
	if class == "" || slices.Contains(c.classes, class) || slices.Contains(c.state.machine.Classes(), class) {
		return nil
	}
	if len(c.classes) >= c.state.machine.ClassRoom() {
		return &model.FieldError{
			Field: "class", Err: model.ErrClassLimit, Got: fmt.Sprintf("the new class %q", class),
			Want: model.KnownClasses(*c.source.Spec.Classes.MaxClasses),
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
	value, err := c.journal.lookUp(r.id)
	if err != nil || value == nil {
		return false, err
	}
	s, err := record.DecodeSeen(value, c.source.Spec.Outputs)
	if err != nil {
		return false, fmt.Errorf("engine: id %q: %w: %w", r.id, ErrCorrupt, err)
	}
	*answer = s.Answer
	answer.Duplicate = true
	return true, c.conflict(r, &s)
}

func (c *commit) conflict(r *row, s *record.Seen) error {
	if c.digest.Labels(r.Labels, r.Class, r.Weight) != s.Labels {
		return fmt.Errorf("id %q: %w: it was observed with another label or weight", r.id, ErrConflict)
	}
	if len(r.Features)+len(r.inputs) > 0 && c.digest.Input(r.Features, r.inputs) != s.Features {
		return fmt.Errorf("id %q: %w: it was observed with other %s", r.id, ErrConflict, c.inputField())
	}
	return nil
}

// apply lets the machine learn the durable record, and remembers its ids.
func (c *commit) apply() error {
	if err := c.journal.appended(&c.append); err != nil {
		return c.stepDown(err)
	}
	durable := c.env.Now()
	if err := c.learn(len(c.record.Observations)); err != nil {
		return err
	}
	learned := c.env.Now()
	c.reportStages(c.begun, durable, learned)
	c.learned(durable, learned)
	return nil
}

func (c *commit) learned(begun, ended time.Time) {
	n := len(c.record.Observations)
	cost := int64(ended.Sub(begun)) + int64(n)*int64(ReadCost)
	c.snapshots.replay.Add(cost)
	c.snapshots.cost.Store(cost / int64(n))
	c.journal.recent.add(&c.record, c.answers, &c.digest)
	c.usage.rate.add(begun, n)
	c.account()
	c.news.wake()
	c.owner.Learned(&c.record, c.answers)
}

// learn applies the durable record of n observations. It gives the lock up between those that the machine
// learns together, so that predictions are answered.
func (c *commit) learn(n int) error {
	c.answers = make([]Answer, n)
	c.state.Lock()
	defer c.state.Unlock()
	err := c.state.machine.Apply(&c.record, c.answers, func() {
		c.state.Unlock()
		c.state.Lock()
	})
	if err == nil {
		return nil
	}
	c.env.CountPanic(err)
	// Under the same lock: no reader sees a failed machine without the reason.
	c.state.broken = c.id.errorf("learn", err)
	c.env.Log.Error(c.state.broken.Error())
	return c.state.broken
}

// stepDown follows an append that failed. If the disk has failed, the model keeps its state and learns
// nothing more. Otherwise the log alone knows what it holds, and the model is loaded from the log again. Grown
// reports what a replicated log holds.
func (c *commit) stepDown(err error) error {
	switch {
	case errors.Is(err, storage.ErrFailed) || c.env.Store.Failed() != nil:
		err = fmt.Errorf("%w: %w", ErrStorage, err)
		c.Break(err)
		return err
	case errors.Is(err, ErrNotOwner):
		return err
	case errors.Is(err, storage.ErrDeleted): // Nothing was written.
		return NotFound(string(c.id))
	case c.journal.replicated:
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	c.forget()
	if loadErr := c.load(); loadErr != nil {
		err = errors.Join(err, loadErr)
	}
	return fmt.Errorf("%w: %w", ErrUnknown, err)
}

func (c *commit) reportStages(begun, durable, learned time.Time) {
	trace := ""
	for _, t := range c.learning {
		if t.stages != nil {
			t.stages.append, t.stages.learn, t.stages.learned = begun, durable, learned
			trace = t.stages.id
		}
	}
	c.env.Stages.Commit(durable.Sub(begun).Seconds(), trace)
	c.env.Stages.Learn(learned.Sub(durable).Seconds(), trace)
}
