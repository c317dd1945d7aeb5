package consensus

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"hindsight/internal/engine/storage"
)

// errBehind: the owner's log begins after the state of this server.
var errBehind = errors.New("cluster: the state ends before the mark: a checkpoint of the owner must replace the state")

// machine applies entries to the state of this server. Raft calls it from one goroutine.
//
//	state <= applied <= committed
type machine struct {
	o     Options
	marks *marks
	// applied is the index of the last applied entry. Of the entries without commands it counts only configurations,
	// because the library does not pass on the others.
	applied atomic.Uint64
	// member: the last committed configuration has this server. Only the goroutine of raft uses the field.
	member bool
	// failed is the first error. After it the machine applies no further entry, because a later entry must not be
	// applied without the failed one.
	failed atomic.Pointer[error]
	// report receives failed once, unless the machine is held.
	report func(error)
}

func (m *machine) fail(err error) error {
	if m.failed.CompareAndSwap(nil, &err) && m.held() == nil {
		m.report(err)
	}
	return *m.failed.Load()
}

// held returns why the machine applies no further entry, if a newer program wrote the next one. The log goes on: this
// server votes and keeps entries, and a newer program applies them from the log.
func (m *machine) held() error {
	if err := m.failed.Load(); err != nil && errors.Is(*err, storage.ErrNewer) {
		return *err
	}
	return nil
}

func (m *machine) Apply(l *raft.Log) any {
	if err := m.failed.Load(); err != nil {
		return *err
	}
	if err := m.o.Apply(l.Index, l.Data); err != nil {
		return m.fail(fmt.Errorf("cluster: apply entry %d: %w", l.Index, err))
	}
	m.applied.Store(l.Index)
	return nil
}

func (m *machine) StoreConfiguration(index uint64, c raft.Configuration) {
	if m.failed.Load() != nil {
		return
	}
	m.applied.Store(index)
	has := slices.ContainsFunc(c.Servers, func(s raft.Server) bool { return string(s.ID) == m.o.Self.ID })
	if m.member && !has {
		_ = m.fail(ErrRemoved) // fail has reported the error.
	}
	m.member = has
}

func (m *machine) Snapshot() (raft.FSMSnapshot, error) {
	if err := m.failed.Load(); err != nil {
		return nil, *err
	}
	return snapshot{m.applied.Load(), m.o.Sync}, nil
}

// Restore implements raft.FSM. Another server has made the mark. If the state of this server does not reach the mark,
// a checkpoint replaces the state before the process uses the log again.
func (m *machine) Restore(r io.ReadCloser) error {
	content, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("cluster: read a mark: %w", err)
	}
	if len(content) != contentBytes {
		return fmt.Errorf("cluster: a mark of %d bytes, want %d", len(content), contentBytes)
	}
	index := binary.BigEndian.Uint64(content)
	if !m.o.Has(index) {
		m.o.Behind(index)
		return errBehind
	}
	if err := m.marks.accept(); err != nil {
		return m.fail(err)
	}
	m.applied.Store(max(index, m.applied.Load()))
	return nil
}

type snapshot struct {
	index uint64
	sync  func(context.Context) error
}

// Persist implements raft.FSMSnapshot. It first makes the state durable, because the entries up to the mark leave the
// log.
func (s snapshot) Persist(to raft.SnapshotSink) error {
	if err := s.sync(context.Background()); err != nil {
		return fmt.Errorf("cluster: sync before a mark: %w", err)
	}
	if mark, ok := to.(*sink); ok {
		mark.local = true
	}
	if _, err := to.Write(binary.BigEndian.AppendUint64(nil, s.index)); err != nil {
		return err
	}
	return to.Close()
}

func (snapshot) Release() {}
