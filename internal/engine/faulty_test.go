package engine_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
	return m.Model.WriteSnapshot(sequence, data)
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
