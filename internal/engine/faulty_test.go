package engine_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"hindsight/internal/engine"
	"hindsight/internal/engine/storage"
)

// fate is what happens to the next append of a faulty store.
type fate struct{ next atomic.Int32 }

const (
	appendWell     = iota
	appendDone     // It is appended, and the outcome is not known.
	appendNotDone  // It is not appended, and the outcome is not known.
	appendRejected // Another writer came before.
	appendWaits    // It waits until goOn.
)

var errOutcome = errors.New("the connection was lost")

// faulty is a store whose appends may end otherwise than they should, and that
// fails every write while failing is set.
type faulty struct {
	storage.Store
	appends *fate
	failing *atomic.Bool
	// goOn lets appends and snapshots go on that wait.
	goOn chan struct{}
	// snapshotWaits lets snapshots wait before they are written; writing is
	// told each that does.
	snapshotWaits atomic.Bool
	writing       chan struct{}
	// damages flips a bit of every snapshot that is written.
	damages atomic.Bool
	// vanishes removes every snapshot that is written, as a rewind beside the check of a snapshot does.
	vanishes atomic.Bool
	// replayFails fails replays with this error.
	replayFails atomic.Pointer[error]
	// changed is called after an entry or an alias was written, rewinding before a rewind.
	changed, rewinding func()
	// interrupted is the sequence of a rewind of every model that a crash interrupted.
	interrupted *uint64
	// putting, unless nil, receives predictions before they are written, once goOn lets them go on.
	putting chan []storage.Prediction
	mu      sync.Mutex
	models  map[storage.Model]*faultyModel
}

func newFaulty() *faulty {
	return &faulty{
		appends: &fate{}, failing: &atomic.Bool{}, goOn: make(chan struct{}), writing: make(chan struct{}, 100),
	}
}

// wrap gives the one wrapper of a model.
func (f *faulty) wrap(m storage.Model) storage.Model {
	if m == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.models == nil {
		f.models = map[storage.Model]*faultyModel{}
	}
	if f.models[m] == nil {
		f.models[m] = &faultyModel{Model: m, store: f}
	}
	return f.models[m]
}

func (f *faulty) broken() error {
	if f.failing.Load() {
		return fmt.Errorf("injected: %w", storage.ErrFailed)
	}
	return nil
}

func (f *faulty) Models(ctx context.Context, each func(storage.RegistryEntry) error) error {
	return f.Store.Models(ctx, func(e storage.RegistryEntry) error {
		e.Model, e.Rewinding = f.wrap(e.Model), cmp.Or(f.interrupted, e.Rewinding)
		return each(e)
	})
}

func (f *faulty) Create(ctx context.Context, name string, value []byte) (storage.Model, error) {
	m, err := f.Store.Create(ctx, name, value)
	if err != nil {
		return nil, err
	}
	return f.wrap(m), nil
}

func (f *faulty) Import(ctx context.Context, name string, value []byte, from storage.Import) (storage.Model, error) {
	m, err := f.Store.Import(ctx, name, value, from)
	if err != nil {
		return nil, err
	}
	return f.wrap(m), nil
}

func (f *faulty) Failed() error { return errors.Join(f.broken(), f.Store.Failed()) }

func (f *faulty) Sync(ctx context.Context) error { return errors.Join(f.broken(), f.Store.Sync(ctx)) }

func (f *faulty) PutAlias(ctx context.Context, name string, value []byte) error {
	err := f.Store.PutAlias(ctx, name, value)
	if f.changed != nil {
		f.changed()
	}
	return err
}

func (m *faultyModel) SetValue(ctx context.Context, value []byte, also ...storage.Alias) error {
	err := m.Model.SetValue(ctx, value, also...)
	if m.store.changed != nil {
		m.store.changed()
	}
	return err
}

func (m *faultyModel) Rewind(ctx context.Context, r storage.Rewind) error {
	if m.store.rewinding != nil {
		m.store.rewinding()
	}
	return m.Model.Rewind(ctx, r)
}

type faultyModel struct {
	storage.Model
	store *faulty
}

func (m *faultyModel) Append(ctx context.Context, c storage.Commit) error {
	if err := m.store.broken(); err != nil {
		return err
	}
	switch m.store.appends.next.Swap(appendWell) {
	case appendDone:
		return errors.Join(errOutcome, m.Model.Append(ctx, c))
	case appendNotDone:
		return errOutcome
	case appendRejected:
		return fmt.Errorf("injected: %w", storage.ErrRejected)
	case appendWaits:
		<-m.store.goOn
	}
	return m.Model.Append(ctx, c)
}

func (m *faultyModel) WriteSnapshot(sequence uint64, data []byte) error {
	if m.store.snapshotWaits.Load() {
		m.store.writing <- struct{}{}
		<-m.store.goOn
	}
	if m.store.damages.Load() {
		data = bytes.Clone(data)
		data[len(data)/2] ^= 1
	}
	err := m.Model.WriteSnapshot(sequence, data)
	if m.store.vanishes.Load() {
		err = errors.Join(err, m.RemoveSnapshot(sequence))
	}
	return err
}

func (m *faultyModel) PutPending(rows []storage.Prediction) error {
	if m.store.putting != nil {
		m.store.putting <- rows
		<-m.store.goOn
	}
	return m.Model.PutPending(rows)
}

func (m *faultyModel) Replay(ctx context.Context, after uint64, f func(storage.Record) error) error {
	if err := m.store.replayFails.Load(); err != nil {
		return *err
	}
	return m.Model.Replay(ctx, after, f)
}

// startFaulty is start over a faulty store.
func startFaulty(t *testing.T, d disk, c *clock, options ...option) (*host, *faulty) {
	t.Helper()
	f := newFaulty()
	h := start(t, wrapped{d, func(s storage.Store) storage.Store { f.Store = s; return f }}, c, options...)
	return h, f
}

// spoilID remembers bytes under an id that cannot be decoded.
func spoilID(t *testing.T, s storage.Store, name, id string) {
	t.Helper()
	err := s.Models(t.Context(), func(e storage.RegistryEntry) error {
		if e.Name != name {
			return nil
		}
		return e.Model.PutIDs(context.Background(), []storage.ID{{ID: id, At: time.Unix(1, 0), Value: []byte("no remembered observation")}})
	})
	require.NoError(t, err)
}

// TestClosed: every call about a model fails with ErrClosed.
func TestClosed(t *testing.T) {
	e, ctx := engine.Closed(), t.Context()
	assert.Equal(t, "", e.AliasTarget("a"), "an alias")
	for name, call := range map[string]func() error{
		"Await":         func() error { return e.Await(ctx, "m", 1) },
		"CompareModels": func() error { _, err := e.CompareModels(ctx, "m"); return err },
		"CreateModel":   func() error { _, err := e.CreateModel(ctx, "m", linear(2), engine.CreateOptions{}); return err },
		"a follower":    func() error { return errOf(e.CreateModel(ctx, "m", linear(2), engine.CreateOptions{Follows: "n"})) },
		"DeleteAlias":   func() error { return e.DeleteAlias(ctx, "a") },
		"DeleteModel":   func() error { _, err := e.DeleteModel(ctx, "m", engine.DeleteOptions{}); return err },
		"ExportModel":   func() error { _, err := e.ExportModel(ctx, "m", engine.ExportOptions{}); return err },
		"GetModel":      func() error { _, err := e.GetModel(ctx, "m"); return err },
		"ListSnapshots": func() error { _, err := e.ListSnapshots(ctx, "m"); return err },
		"ModelHistory":  func() error { _, err := e.ModelHistory(ctx, "m"); return err },
		"ModelStats":    func() error { _, err := e.ModelStats(ctx, "m", engine.StatsOptions{}); return err },
		"Resolve":       func() error { _, err := e.Resolve("m"); return err },
		"RestoreModel":  func() error { _, _, err := e.RestoreModel(ctx, "m", 1, false); return err },
		"Route":         func() error { _, err := e.Route(ctx, "m"); return err },
		"SequenceAt":    func() error { _, err := e.SequenceAt(ctx, "m", time.Now()); return err },
		"SetAlias":      func() error { _, err := e.SetAlias(ctx, "a", "m", ""); return err },
		"SnapshotModel": func() error { _, err := e.SnapshotModel(ctx, "m"); return err },
		"UndeleteModel": func() error { _, err := e.UndeleteModel(ctx, "m"); return err },
		"UpdateModel":   func() error { _, err := e.UpdateModel(ctx, "m", engine.UpdateOptions{}); return err },
		"Watch":         func() error { _, err := e.Watch(ctx, "m", 1); return err },
	} {
		assert.ErrorIs(t, call(), engine.ErrClosed, name)
	}
}

// asked is a store whose expiries end as the test says, one after the other.
type asked struct {
	storage.Store
	ends <-chan error
}

// Expire implements storage.Store.
func (a asked) Expire(ctx context.Context, _ time.Time, _ func(storage.Model)) error {
	select {
	case err := <-a.ends:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Sweeps that fail for one cause, one after the other, make one line of the log.
func TestFailedSweepIsToldOnce(t *testing.T) {
	core, lines := observer.New(zap.ErrorLevel)
	ends := make(chan error)
	d := wrapped{files{newFS()}, func(s storage.Store) storage.Store { return asked{s, ends} }}
	h := start(t, d, newClock(), func(o *engine.Options) { o.Log, o.Sweep = zap.New(core), time.Millisecond })
	full, gone := errors.New("no space left"), errors.New("input/output error")
	for _, err := range []error{full, full, full, nil, full, gone, gone, nil} {
		ends <- err
	}
	h.stop(t)
	var told []string
	for _, l := range lines.All() {
		told = append(told, fmt.Sprint(l.ContextMap()["error"]))
	}
	assert.True(t, len(told) == 3 && strings.Contains(told[0], full.Error()) && strings.Contains(told[1], full.Error()) && strings.Contains(told[2], gone.Error()), "the log has %q", told)
}

// The last snapshots of many models fail for one cause, which is told once.
func TestFailedLastSnapshotsAreToldOnce(t *testing.T) {
	h, f := startFaulty(t, files{newFS()}, newClock())
	const models = 20
	for n := range models {
		id := fmt.Sprintf("m%02d", n)
		h.create(t, id, linear(1))
		h.observe(t, id, engine.Observation{Features: []float64{1}, Labels: []float64{0.5}})
	}
	f.failing.Store(true)
	err := h.Close()
	h.abandon()
	assert.True(t, err != nil && !strings.Contains(err.Error(), "\n") && strings.Contains(err.Error(), fmt.Sprint(models-1, " more models")), "Close: %v", err)
}

// On a disk that stands still, predictions are answered, callers leave at their
// deadlines, the queue rejects what is beyond it, and what was taken is learned
// once the disk goes on: sent again it is a duplicate.
func TestDiskThatStandsStill(t *testing.T) {
	var still atomic.Bool
	goOn := make(chan struct{})
	fs := errorfs.Wrap(newFS(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
			if still.Load() {
				<-goOn
			}
		default:
		}
		return nil
	}))
	h := startOn(t, fs, newClock(), func(o *engine.Options) { o.Queue = 16 })
	h.create(t, "m", linear(1))
	row := func(n int) []engine.Observation {
		return []engine.Observation{{Features: []float64{float64(n)}, Labels: []float64{1}, Weight: 1, ObservationID: strconv.Itoa(n)}}
	}
	must(h.Observe(t.Context(), "m", row(0)))(t)
	still.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	var group, submitted sync.WaitGroup
	var late, turnedAway atomic.Int64
	taken := make([]atomic.Bool, 100)
	for n := 1; n < len(taken); n++ {
		submitted.Add(1)
		group.Go(func() {
			ticket, err := h.Submit(ctx, "m", row(n))
			submitted.Done()
			if err == nil {
				_, err = ticket.Wait(ctx)
			}
			switch {
			case errors.Is(err, context.Canceled):
				late.Add(1)
				taken[n].Store(true)
			case errors.Is(err, engine.ErrOverloaded):
				turnedAway.Add(1)
			default:
				t.Errorf("observation %d: %v", n, err)
			}
		})
	}
	submitted.Wait()
	cancel()
	group.Wait() // All leave, while the disk stands still.
	p, err := h.Predict(t.Context(), "m", vectors([]float64{1}), engine.PredictOptions{})
	assert.True(t, err == nil && p[0].Sequence == 1, "predict: %+v, %v", p, err)
	still.Store(false)
	close(goOn)
	// The queue holds 16; what the writer had taken from it waits for the disk.
	assert.True(t, late.Load() >= 16 && late.Load() <= 32 && late.Load()+turnedAway.Load() == 99, "%d were late, %d turned away", late.Load(), turnedAway.Load())
	for n := 1; n < len(taken); n++ {
		answers, err := h.Observe(t.Context(), "m", row(n))
		for ; errors.Is(err, engine.ErrOverloaded); answers, err = h.Observe(t.Context(), "m", row(n)) {
			time.Sleep(time.Millisecond) // The queue is still full.
		}
		assert.True(t, err == nil && answers[0].Duplicate == taken[n].Load(), "observation %d again: %+v, %v; it was taken: %v", n, answers, err, taken[n].Load())
	}
	assert.EqualValues(t, 100, h.stats(t, "m").Observations, "observations learned")
}
