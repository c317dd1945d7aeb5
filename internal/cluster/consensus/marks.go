package consensus

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/hashicorp/raft"
)

// A mark is a snapshot of raft without the state, because the directory of the server has the state. The content of a
// mark is an index: the state has all entries up to the index.
//
// The type marks keeps one durable mark beside the log. It stores a mark of this server at once, and a mark of
// another server after Restore has checked that the state of this server reaches the mark. So after any crash:
//
//	durable mark <= state
type marks struct {
	stable raft.StableStore
	mu     struct {
		sync.Mutex
		// durable and received may be nil.
		durable, received *mark
	}
}

type mark struct {
	meta  raft.SnapshotMeta
	index uint64
}

const (
	markKey    = "mark"
	markLayout = 1
	// The bytes of a mark are the layout, then the index, the term, the index of the configuration, and the index of
	// the state.
	markBytes    = 1 + 4*8
	contentBytes = 8
)

func openMarks(stable raft.StableStore) (*marks, error) {
	s := &marks{stable: stable}
	data, err := stable.Get([]byte(markKey))
	switch {
	case err != nil && err.Error() == notFound, err == nil && len(data) == 0:
		return s, nil
	case err != nil:
		return nil, fmt.Errorf("cluster: read the mark: %w", err)
	case len(data) < markBytes || data[0] != markLayout:
		return nil, fmt.Errorf("cluster: the mark of the log has %d bytes and layout %d", len(data), data[0])
	}
	m := newMark(
		binary.BigEndian.Uint64(data[1:]), binary.BigEndian.Uint64(data[9:]),
		raft.DecodeConfiguration(data[markBytes:]), binary.BigEndian.Uint64(data[17:]), binary.BigEndian.Uint64(data[25:]),
	)
	s.mu.durable = m
	return s, nil
}

func newMark(index, term uint64, c raft.Configuration, configuration, state uint64) *mark {
	return &mark{
		meta: raft.SnapshotMeta{
			Version: 1, ID: fmt.Sprintf("%d-%d", term, index), Index: index, Term: term,
			Configuration: c, ConfigurationIndex: configuration, Size: contentBytes,
		},
		index: state,
	}
}

func (s *marks) state() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.durable == nil {
		return 0
	}
	return s.mu.durable.index
}

func (s *marks) put(m *mark) error {
	data := binary.BigEndian.AppendUint64([]byte{markLayout}, m.meta.Index)
	data = binary.BigEndian.AppendUint64(data, m.meta.Term)
	data = binary.BigEndian.AppendUint64(data, m.meta.ConfigurationIndex)
	data = binary.BigEndian.AppendUint64(data, m.index)
	data = append(data, raft.EncodeConfiguration(m.meta.Configuration)...)
	if err := s.stable.Set([]byte(markKey), data); err != nil {
		return fmt.Errorf("cluster: write the mark: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.durable, s.mu.received = m, nil
	return nil
}

func (s *marks) accept() error {
	s.mu.Lock()
	m := s.mu.received
	s.mu.Unlock()
	if m == nil {
		return errors.New("cluster: no mark was received")
	}
	return s.put(m)
}

func (s *marks) Create(_ raft.SnapshotVersion, index, term uint64, c raft.Configuration, configuration uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	return &sink{marks: s, mark: newMark(index, term, c, configuration, 0)}, nil
}

func (s *marks) List() ([]*raft.SnapshotMeta, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.durable == nil {
		return nil, nil
	}
	meta := s.mu.durable.meta
	return []*raft.SnapshotMeta{&meta}, nil
}

func (s *marks) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range []*mark{s.mu.received, s.mu.durable} {
		if m != nil && m.meta.ID == id {
			meta := m.meta
			content := binary.BigEndian.AppendUint64(nil, m.index)
			return &meta, io.NopCloser(bytes.NewReader(content)), nil
		}
	}
	return nil, nil, fmt.Errorf("cluster: no mark %s", id)
}

type sink struct {
	marks   *marks
	mark    *mark
	content []byte
	// local: this server has made the mark.
	local bool
}

func (s *sink) ID() string { return s.mark.meta.ID }

func (s *sink) Write(p []byte) (int, error) {
	if len(s.content)+len(p) > contentBytes {
		return 0, errors.New("cluster: a mark is too long")
	}
	s.content = append(s.content, p...)
	return len(p), nil
}

func (s *sink) Cancel() error { return nil }

func (s *sink) Close() error {
	if len(s.content) != contentBytes {
		return fmt.Errorf("cluster: a mark of %d bytes, want %d", len(s.content), contentBytes)
	}
	s.mark.index = binary.BigEndian.Uint64(s.content)
	if s.local {
		return s.marks.put(s.mark)
	}
	s.marks.mu.Lock()
	defer s.marks.mu.Unlock()
	s.marks.mu.received = s.mark
	return nil
}
