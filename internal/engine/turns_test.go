package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/codec"
)

func one(id string, x ...float64) []engine.Observation {
	return []engine.Observation{{Features: x, Labels: []float64{1}, Weight: 1, ObservationID: id}}
}

// While a snapshot is being written, observations are learned. A caller that
// waits for another snapshot and gives up delays no other call.
func TestSnapshotsKeepNobodyWaiting(t *testing.T) {
	h, f := startFaulty(t, newDisk(), newClock())
	h.create(t, "m", linear(1))
	h.observe(t, "m", one("a", 1)...)
	f.snapshotWaits.Store(true)
	var group sync.WaitGroup
	group.Go(func() {
		s, err := h.SnapshotModel(context.Background(), "m")
		assert.True(t, err == nil && s.Sequence == 1, "the snapshot: %+v, %v", s, err)
	})
	<-f.writing
	for n := range 3 {
		ctx, leave := context.WithCancel(context.Background())
		group.Go(func() {
			// It waits for its place, its turn, or the disk, and leaves.
			_, _ = h.SnapshotModel(ctx, "m")
		})
		h.observe(t, "m", one(fmt.Sprint("b", n), 1)...)
		leave()
		h.observe(t, "m", one(fmt.Sprint("c", n), 1)...)
	}
	assert.EqualValues(t, 7, h.stats(t, "m").Observations)
	f.snapshotWaits.Store(false)
	close(f.goOn)
	group.Wait()
}

// A deletion answers all calls that wait. It ends with its caller's context, and
// other calls do not wait for it.
func TestDeleteAnswersAllWhoWait(t *testing.T) {
	h, f := startFaulty(t, newDisk(), newClock())
	h.create(t, "m", linear(1))
	f.appends.next.Store(appendWaits)
	first := must(h.Submit(t.Context(), "m", one("a", 1)))(t)
	late, leave := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer leave()
	assert.ErrorIs(t, h.DeleteModel(late, "m"), context.DeadlineExceeded)
	h.create(t, "other", linear(1)) // It does not wait for the deletion.
	var group sync.WaitGroup
	deleting := make(chan struct{})
	group.Go(func() {
		close(deleting)
		assert.NoError(t, h.DeleteModel(t.Context(), "m"))
	})
	<-deleting
	var behind []*engine.Ticket
	for n := range 20 {
		ticket := must(h.Submit(t.Context(), "m", one(fmt.Sprint("b", n), 1)))(t)
		behind = append(behind, ticket)
	}
	close(f.goOn)
	group.Wait()
	a, err := first.Wait(t.Context())
	assert.True(t, err == nil && a[0].Sequence == 1, "what came before the deletion: %+v, %v", a, err)
	for _, ticket := range behind {
		// Before the deletion or behind it: answered in any case.
		_, err := ticket.Wait(t.Context())
		assert.True(t, err == nil || errors.Is(err, engine.ErrModelNotFound), "behind a deletion: %v", err)
	}
	assert.ErrorIs(t, errOf(h.Predict(t.Context(), "m", vectors([]float64{1}), engine.PredictOptions{})), engine.ErrModelNotFound)
}

// A restore whose caller leaves while a snapshot is being written changes
// nothing: the model goes on.
func TestRestoreThatIsGivenUp(t *testing.T) {
	h, f := startFaulty(t, newDisk(), newClock())
	h.create(t, "m", linear(1))
	for n := range 3 {
		h.observe(t, "m", one(strconv.Itoa(n), 1)...)
	}
	f.snapshotWaits.Store(true)
	var group sync.WaitGroup
	group.Go(func() {
		assert.NoError(t, errOf(h.SnapshotModel(context.Background(), "m")))
	})
	<-f.writing
	ctx, leave := context.WithCancel(t.Context())
	group.Go(func() {
		assert.ErrorIs(t, errOf(h.RestoreModel(ctx, "m", 2)), context.Canceled)
	})
	// The restore has its turn once a later job waits behind it.
	waitFor(t, h, func() bool { return !h.Hibernate("m") })
	leave()
	f.snapshotWaits.Store(false)
	close(f.goOn)
	group.Wait()
	a := h.observe(t, "m", one("3", 1)...)[0]
	assert.EqualValues(t, 4, a.Sequence, a)
	assert.NoError(t, errOf(h.RestoreModel(t.Context(), "m", 2)))
}

// panicking is a learner that panics at one label, and predicts what is no number
// before another.
type panicking struct{ model.Learner }

const (
	panicLabel = 666
	nanLabel   = 667
)

func (p panicking) Observe(o *model.Outcome, x, y []float64, weight float64) error {
	if y[0] == panicLabel {
		panic("a defect")
	}
	err := p.Learner.Observe(o, x, y, weight)
	if y[0] == nanLabel {
		o.Predictions[0] = math.NaN()
	}
	return err
}

func panickingLearners(spec model.Spec) (model.Learner, error) {
	l, err := catalog.New(spec)
	return panicking{l}, err
}

// A learner's panic, or a result that is no number, costs its model and nothing
// else: the server goes on and starts again, the model says what it is, is not
// kept in the middle of a record, and can go back.
func TestLearnerThatFails(t *testing.T) {
	rows := func(label float64) []engine.Observation {
		var out []engine.Observation
		for n := range 3 {
			out = append(out, engine.Observation{
				Features: []float64{0}, Labels: []float64{1}, Weight: 1, ObservationID: fmt.Sprint("o", n),
			})
		}
		out[1].Labels[0] = label
		return out
	}
	for name, label := range map[string]float64{"panic": panicLabel, "not a number": nanLabel} {
		t.Run(name, func(t *testing.T) {
			learnerFails(t, withLearners{newDisk(), panickingLearners}, linear(1), rows(label), label == panicLabel)
		})
	}
}

func learnerFails(t *testing.T, d disk, spec model.Spec, rows []engine.Observation, panics bool) {
	t.Helper()
	c := newClock()
	h := start(t, d, c)
	h.create(t, "bad", spec)
	h.create(t, "good", linear(1))
	require.ErrorIs(t, errOf(h.Observe(t.Context(), "bad", rows)), engine.ErrCorrupt)
	rejects := func() {
		t.Helper()
		assert.ErrorIs(t, errOf(h.Observe(t.Context(), "bad", one("x", 0))), engine.ErrCorrupt)
		assert.ErrorIs(t, errOf(h.Predict(t.Context(), "bad", vectors([]float64{0}), engine.PredictOptions{})), engine.ErrCorrupt)
		assert.ErrorIs(t, errOf(h.ModelStats(t.Context(), "bad", engine.StatsOptions{EffectiveDimension: true})), engine.ErrCorrupt)
		s, err := h.SnapshotModel(t.Context(), "bad")
		assert.ErrorIs(t, err, engine.ErrCorrupt, s)
		assert.ErrorIs(t, errOf(h.ExportModel(t.Context(), "bad", engine.ExportOptions{})), engine.ErrCorrupt)
		assert.True(t, (h.Totals().Panics.Load() > 0) == panics, "%d panics are counted", h.Totals().Panics.Load())
		readOnly := map[string]bool{}
		h.Each(func(l *engine.Live) { readOnly[l.ID] = l.ReadOnly })
		assert.True(t, readOnly["bad"] && !readOnly["good"], "read-only: %v", readOnly)
	}
	rejects()
	h.observe(t, "good", one("a", 1)...)
	h.stop(t)
	h = start(t, d, c)
	rejects()
	h.observe(t, "good", one("b", 1)...)
	kept, err := h.ListSnapshots(t.Context(), "bad")
	assert.True(t, err == nil && len(kept) == 0, "kept: %+v, %v", kept, err)
	must(h.RestoreModel(t.Context(), "bad", 0))(t)
	a := h.observe(t, "bad", rows[0])[0]
	assert.True(t, a.Sequence == 1 && !a.Duplicate, "after going back: %+v", a)
}

// What the disk cannot read is a failure of the storage, not a corrupt model,
// and is tried again.
func TestUnreadableLog(t *testing.T) {
	d, c := newDisk(), newClock()
	h := start(t, d, c)
	h.create(t, "m", linear(1))
	h.observe(t, "m", one("a", 1)...)
	h.stop(t)
	h, f := startFaulty(t, d, c)
	h.hibernate(t)
	unreadable := errors.New("input/output error")
	f.replayFails.Store(&unreadable)
	assert.ErrorIs(t, errOf(h.Predict(t.Context(), "m", vectors([]float64{1}), engine.PredictOptions{})), engine.ErrStorage)
	assert.ErrorIs(t, errOf(h.Observe(t.Context(), "m", one("b", 1))), engine.ErrStorage)
	f.replayFails.Store(nil)
	a := h.observe(t, "m", one("b", 1)...)[0]
	assert.EqualValues(t, 2, a.Sequence, a)
}

// Predictions that wait are counted once, whatever comes twice.
func TestOnePredictionIDTwice(t *testing.T) {
	c := newClock()
	h := start(t, newDisk(), c)
	h.create(t, "m", linear(1))
	batch := func(rows [][]float64, ids ...string) ([]engine.Prediction, error) {
		return h.Predict(t.Context(), "m", vectors(rows...), engine.PredictOptions{Remember: true, IDs: ids, TTL: time.Minute})
	}
	pending := func(want uint64, when string) {
		t.Helper()
		assert.Equal(t, want, h.stats(t, "m").Pending, when)
	}
	var row *engine.RowError
	if _, err := batch([][]float64{{1}, {2}}, "a", "a"); !errors.Is(err, engine.ErrConflict) || !errors.As(err, &row) || row.Row != 1 {
		t.Errorf("one id for two inputs: %v", err)
	}
	pending(0, "after a rejection")
	said, err := batch([][]float64{{1}, {1}, {1}}, "a", "a", "a")
	require.True(t, err == nil && said[0].ID == "a" && said[2].ID == "a", "%+v, %v", said, err)
	pending(1, "three rows of one id")
	h.observe(t, "m", engine.Observation{PredictionID: "a", Labels: []float64{1}})
	pending(0, "after the label")

	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			assert.NoError(t, errOf(batch([][]float64{{2}}, "b")))
		})
	}
	group.Wait()
	pending(1, "many at once under one id")

	c.advance(2 * time.Minute) // Expired, and soon swept.
	must(batch([][]float64{{3}}, "b"))(t)
	waitFor(t, h, func() bool {
		expired := uint64(0)
		h.Each(func(l *engine.Live) { expired = l.Expired })
		return expired <= 1 && h.stats(t, "m").Pending == 1
	})
	h.observe(t, "m", engine.Observation{PredictionID: "b", Labels: []float64{1}})
	pending(0, "after a reuse between expiry and sweep")
	assert.EqualValues(t, 0, h.Totals().Pending)
}

// ticking is a clock that goes on at every look.
func ticking(c *clock, step time.Duration) func() time.Time {
	return func() time.Time { return time.Unix(0, c.nanoseconds.Add(int64(step))) }
}

// A snapshot is due when replaying would take long, not after a count of
// observations.
func TestSnapshotIsDueByTheTimeOfAReplay(t *testing.T) {
	for _, c := range []struct {
		step time.Duration
		due  bool
	}{{time.Millisecond, false}, {50 * time.Millisecond, true}} {
		h := start(t, newDisk(), newClock(), func(o *engine.Options) {
			o.SnapshotReplay, o.Sweep = 200*time.Millisecond, time.Hour
		})
		h.create(t, "m", linear(1))
		h.stop(t)
		clock := newClock()
		h = start(t, newDisk(), clock, func(o *engine.Options) {
			o.Now = ticking(clock, c.step)
			o.SnapshotReplay, o.SnapshotInterval, o.Sweep = 200*time.Millisecond, 1<<60, time.Hour
		})
		h.create(t, "m", linear(1))
		for n := range 10 { // Each seems to take a step to be learned.
			h.observe(t, "m", one(strconv.Itoa(n), 1)...)
		}
		kept := func() int {
			list := must(h.ListSnapshots(t.Context(), "m"))(t)
			return len(list)
		}
		if c.due {
			waitFor(t, h, func() bool { return kept() > 0 })
		} else if kept() > 0 {
			t.Errorf("learning takes %s: a snapshot was written", c.step)
		}
		h.stop(t)
	}
}

// A restore is not stopped by an id that cannot be read.
func TestRestoreWithAnUnreadableID(t *testing.T) {
	h := start(t, newDisk(), newClock())
	h.create(t, "m", linear(1))
	for n := range 5 {
		h.observe(t, "m", one(strconv.Itoa(n), 1)...)
	}
	spoilID(t, h.store, "m", "spoiled")
	must(h.RestoreModel(t.Context(), "m", 2))(t)
	for n := range 5 {
		a := h.observe(t, "m", one(strconv.Itoa(n), 1)...)[0]
		assert.Equal(t, (n < 2), a.Duplicate, "%v %v", n, a)
	}
}

// A scrape shows what is known and solves nothing. What has to be solved is
// solved for who asks, is kept until the model learns again, and is shown with
// its age.
func TestReports(t *testing.T) {
	h := start(t, newDisk(), newClock(), func(o *engine.Options) { o.Sweep = time.Hour })
	h.create(t, "m", model.Spec{Dimension: 1, Scaling: model.Unscaled(), FOGD: &model.FOGD{FirstOrder: model.FirstOrder{Frequencies: ptr(8)}}})
	for n := range 5 {
		h.observe(t, "m", one(strconv.Itoa(n), float64(n))...)
	}
	live := func() (out engine.Live) {
		h.Each(func(l *engine.Live) { out = *l })
		return out
	}
	l := live()
	assert.True(t, math.IsNaN(l.Regret) && l.Observations == 5, "before anybody asked: %+v", l)
	s := h.stats(t, "m")
	assert.True(t, !math.IsNaN(s.Regret) && s.Regret == s.Loss-s.HindsightLoss, "asked: %+v", s)
	h.stats(t, "m")
	assert.EqualValues(t, 1, h.Totals().Reports.Load())
	l = live()
	assert.Equal(t, s.Regret, l.Regret, "%v %v", l, s)
	h.observe(t, "m", one("more", 9)...)
	l = live()
	assert.Equal(t, s.Regret, l.Regret, l)
	again := h.stats(t, "m")
	assert.True(t, again.Regret != s.Regret && h.Totals().Reports.Load() == 2, "of the new state: %+v", again)
	dimension, err := h.ModelStats(t.Context(), "m", engine.StatsOptions{EffectiveDimension: true})
	if err != nil || dimension.EffectiveDimension == nil || !(*dimension.EffectiveDimension > 0) || h.Totals().Reports.Load() != 3 {
		t.Errorf("with the effective dimension: %+v, %v", dimension, err)
	}
}

// A report that has more than a call asks for answers the call, which gets what it asks for alone.
func TestReportsOfOneState(t *testing.T) {
	h := start(t, files{newFS()}, newClock())
	h.create(t, "m", linear(1))
	for n := range 5 {
		h.observe(t, "m", one(strconv.Itoa(n), float64(n))...)
	}
	type asked = engine.StatsOptions
	for k, step := range []struct {
		asked   asked
		reports int64
	}{
		{asked{}, 1},
		{asked{HindsightPath: true}, 2},
		{asked{}, 2},
		{asked{EffectiveDimension: true, HindsightPath: true}, 3},
		{asked{HindsightPath: true}, 3},
		{asked{EffectiveDimension: true}, 3},
	} {
		s, err := h.ModelStats(t.Context(), "m", step.asked)
		require.True(t, err == nil && (s.EffectiveDimension != nil) == step.asked.EffectiveDimension && (s.HindsightPath != nil) == step.asked.HindsightPath, "step %d: %+v, %v", k, s, err)
		p := s.HindsightPath
		assert.True(t, p == nil || len(p) == 3 && math.Abs(p[2]-s.HindsightLoss) <= 1e-12, "step %d: the path %v to %g", k, p, s.HindsightLoss)
		d := s.EffectiveDimension
		assert.True(t, d == nil || *d > 0 && *d < 2, "step %d: an effective dimension of %v", k, d)
		assert.Equal(t, step.reports, h.Totals().Reports.Load(), k)
	}
	h.observe(t, "m", one("more", 9)...)
	s, err := h.ModelStats(t.Context(), "m", asked{HindsightPath: true})
	assert.False(t, err != nil || len(s.HindsightPath) != 3 || math.Abs(s.HindsightPath[2]-s.HindsightLoss) > 1e-12 || h.Totals().Reports.Load() != 4, "of a new state: %+v, %v", s, err)
}

// Where it is allowed, regrets are solved in the background.
func TestReportsThatNobodyAskedFor(t *testing.T) {
	h := start(t, files{newFS()}, newClock(), func(o *engine.Options) { o.ReportCPU = 1 })
	for _, id := range []string{"a", "b"} {
		h.create(t, id, model.Spec{Dimension: 1, Scaling: model.Unscaled(), FOGD: &model.FOGD{FirstOrder: model.FirstOrder{Frequencies: ptr(8)}}})
		h.observe(t, id, one("x", 1)...)
	}
	waitFor(t, h, func() bool {
		known := 0
		h.Each(func(l *engine.Live) {
			if !math.IsNaN(l.Regret) {
				known++
			}
		})
		return known == 2
	})
}

// A rejected call leaves nothing in its batch: a later call of the batch learns the same id.
func TestARejectedCallLeavesItsBatch(t *testing.T) {
	h, f := startFaulty(t, files{newFS()}, newClock())
	h.create(t, "m", linear(1))
	submit := func(observations ...engine.Observation) *engine.Ticket {
		t.Helper()
		return must(h.Submit(t.Context(), "m", observations))(t)
	}
	row := func(id string) engine.Observation {
		return engine.Observation{ObservationID: id, Features: []float64{1}, Labels: []float64{2}, Weight: 1}
	}
	f.appends.next.Store(appendWaits)
	first := submit(row("first"))
	waitFor(t, h, func() bool { return f.appends.next.Load() == appendWell }) // It has its turn.
	unknown := engine.Observation{PredictionID: "unknown", Labels: []float64{2}, Weight: 1}
	rejected, later := submit(row("a"), unknown), submit(row("a"), row("b"))
	close(f.goOn)
	if _, err := first.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	var at *engine.RowError
	if _, err := rejected.Wait(t.Context()); !errors.As(err, &at) || at.Row != 1 || !errors.Is(err, engine.ErrPredictionNotFound) {
		t.Errorf("a call with an unknown prediction: %v", err)
	}
	answers, err := later.Wait(t.Context())
	assert.True(t, err == nil && answers[0].Sequence == 2 && !answers[0].Duplicate && answers[1].Sequence == 3, "the call behind it: %+v, %v", answers, err)
}

// syncing is a store whose next sync waits until goOn, after it has closed begun.
type syncing struct {
	storage.Store
	armed       *atomic.Bool
	begun, goOn chan struct{}
}

func (s syncing) Sync(ctx context.Context) error {
	if s.armed.CompareAndSwap(true, false) {
		close(s.begun)
		<-s.goOn
	}
	return s.Store.Sync(ctx)
}

// A state that was captured before a restore is not written after it.
func TestNoSnapshotOfAnUndoneState(t *testing.T) {
	s := syncing{armed: new(atomic.Bool), begun: make(chan struct{}), goOn: make(chan struct{})}
	h := start(t, wrapped{files{newFS()}, func(of storage.Store) storage.Store { s.Store = of; return s }}, newClock())
	h.create(t, "m", linear(1))
	h.observe(t, "m", one("a", 1)...)
	h.observe(t, "m", one("b", 1)...)
	s.armed.Store(true)
	written := make(chan engine.Snapshot, 1)
	go func() {
		snapshot, err := h.SnapshotModel(context.Background(), "m")
		assert.NoError(t, err)
		written <- snapshot
	}()
	<-s.begun
	if _, err := h.RestoreModel(t.Context(), "m", 1); err != nil {
		t.Error(err)
	}
	close(s.goOn)
	got := <-written
	assert.EqualValues(t, 1, got.Sequence)
	kept, err := h.ListSnapshots(t.Context(), "m")
	assert.True(t, err == nil && len(kept) == 1 && kept[0].Sequence == 1, "kept are %+v, %v", kept, err)
}

// While a snapshot waits to be written, its model hands over no other one.
func TestOneSnapshotOfAModelAtATime(t *testing.T) {
	h, f := startFaulty(t, files{newFS()}, newClock(), after(10))
	h.create(t, "m", linear(1))
	f.snapshotWaits.Store(true)
	n := 0
	observe := func() {
		h.observe(t, "m", one(strconv.Itoa(n), 1)...)
		n++
	}
	snapshots := func() (sequences []uint64) {
		for _, s := range must(h.ListSnapshots(t.Context(), "m"))(t) {
			sequences = append(sequences, s.Sequence)
		}
		return sequences
	}
	for n < 10 {
		observe()
	}
	<-f.writing
	for n < 15 {
		observe()
	}
	close(f.goOn)
	waitFor(t, h, func() bool { return len(snapshots()) > 0 })
	waitFor(t, h, func() bool {
		observe() // The writer may have just written the first snapshot.
		return len(snapshots()) > 1
	})
	got := snapshots() // Newest first. Meanwhile a third may be written.
	slices.Reverse(got)
	assert.True(t, got[0] == 10 && got[1] >= 20, "snapshots of sequences %v, want one of 10 and the next of 20 or later", got)
}

// slowCopy is a learner whose copy calls copying before it ends.
type slowCopy struct {
	model.Learner
	copying func()
}

func (s slowCopy) Visit(v *codec.Visitor) {
	if !v.Reading() {
		s.copying()
	}
	s.Learner.Visit(v)
}

// TestPredictBesideACopy: a prediction waits neither for the copy of the state that a report takes, nor for the
// observation that waits for the copy.
func TestPredictBesideACopy(t *testing.T) {
	var reports atomic.Bool
	begun, answered := make(chan struct{}), make(chan struct{})
	learners := func(s model.Spec) (model.Learner, error) {
		l, err := catalog.New(s)
		return slowCopy{l, func() {
			if reports.CompareAndSwap(true, false) {
				close(begun)
				select {
				case <-answered:
				case <-time.After(patience):
					t.Error("a prediction waits for the copy of a report")
				}
			}
		}}, err
	}
	h := start(t, withLearners{files{newFS()}, learners}, newClock())
	h.create(t, "m", linear(1))
	h.observe(t, "m", one("0", 1)...)
	reports.Store(true)
	var others sync.WaitGroup
	others.Go(func() { h.stats(t, "m") })
	<-begun
	others.Go(func() { h.observe(t, "m", one("1", 1)...) })
	time.Sleep(50 * time.Millisecond) // The observation waits.
	h.predict(t, "m", 1)
	close(answered)
	others.Wait()
}
