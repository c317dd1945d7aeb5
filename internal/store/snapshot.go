package store

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"hindsight/internal/engine/storage"
)

const (
	snapshotSuffix  = ".hs"
	temporarySuffix = ".tmp"
	damagedSuffix   = ".damaged"
)

// WriteSnapshot implements storage.Snapshots. It writes and syncs a file under a temporary name
// and renames the file, so that a snapshot exists whole or not at all.
func (m *Model) WriteSnapshot(sequence uint64, data []byte) error {
	m.store.files.RLock()
	defer m.store.files.RUnlock()
	err := m.store.syncCommits() // A snapshot must not be ahead of the log.
	if err == nil {
		err = m.writeSnapshot(sequence, data)
	}
	if errors.Is(err, os.ErrNotExist) {
		err = cmp.Or(m.gone(), err) // A concurrent Delete has removed the directory.
	}
	return m.failed(fmt.Sprintf("write the snapshot %d", sequence), err)
}

func (m *Model) writeSnapshot(sequence uint64, data []byte) error {
	m.snapshotting.Lock()
	defer m.snapshotting.Unlock()
	if err := m.gone(); err != nil {
		return err
	}
	s := m.store
	if err := s.fs.MkdirAll(m.directory(), directoryMode); err != nil {
		return fmt.Errorf("create %s: %w", m.directory(), err)
	}
	// An earlier process may have created the directory without a sync.
	if err := s.syncDirectory(s.path(snapshots)); err != nil {
		return err
	}
	name := m.snapshotPath(sequence)
	if err := s.writeFile(name+temporarySuffix, data); err != nil {
		return err
	}
	if err := s.fs.Rename(name+temporarySuffix, name); err != nil {
		return fmt.Errorf("rename: %w", err)
	}
	return s.syncDirectory(m.directory())
}

func (m *Model) directory() string { return m.store.path(snapshots, number(m.number)) }

func (m *Model) snapshotPath(sequence uint64) string {
	return m.store.fs.PathJoin(m.directory(), fmt.Sprintf("%020d%s", sequence, snapshotSuffix))
}

const writePiece = 256 << 10

// Snapshots implements storage.Snapshots.
func (m *Model) Snapshots() ([]uint64, error) {
	sequences, err := m.snapshots()
	return sequences, m.failed("list the snapshots", err)
}

func (m *Model) snapshots() ([]uint64, error) {
	if err := m.gone(); err != nil {
		return nil, err
	}
	names, err := m.store.list(m.directory())
	if err != nil {
		return nil, err
	}
	var sequences []uint64
	for _, name := range names {
		digits, ok := strings.CutSuffix(name, snapshotSuffix)
		if !ok {
			continue
		}
		if n, err := strconv.ParseUint(digits, 10, 64); err == nil {
			sequences = append(sequences, n)
		}
	}
	slices.Sort(sequences)
	slices.Reverse(sequences)
	return sequences, nil
}

// list lists a directory of snapshots. A missing directory is empty: no snapshot was written yet.
func (d *directory) list(directory string) ([]string, error) {
	names, err := d.fs.List(directory)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("list %s: %w", directory, err)
	}
	return names, nil
}

// StatSnapshot implements storage.Snapshots. Place is the path of the file.
func (m *Model) StatSnapshot(sequence uint64, head int) (out storage.SnapshotFile, err error) {
	what := fmt.Sprintf("describe the snapshot %d", sequence)
	f, err := m.openSnapshot(sequence)
	if err != nil {
		return out, m.failed(what, err)
	}
	info, err := f.Stat()
	if err == nil {
		out = storage.SnapshotFile{
			Bytes: info.Size(), Created: info.ModTime(), Place: m.snapshotPath(sequence),
			Head: make([]byte, min(int64(max(head, 0)), info.Size())),
		}
		_, err = io.ReadFull(f, out.Head)
	}
	return out, m.failed(what, errors.Join(err, f.Close()))
}

// ReadSnapshot implements storage.Snapshots.
func (m *Model) ReadSnapshot(sequence uint64) ([]byte, error) {
	what := fmt.Sprintf("read the snapshot %d", sequence)
	f, err := m.openSnapshot(sequence)
	if err != nil {
		return nil, m.failed(what, err)
	}
	data, err := io.ReadAll(f)
	return data, m.failed(what, errors.Join(err, f.Close()))
}

func (m *Model) openSnapshot(sequence uint64) (vfs.File, error) {
	if err := m.gone(); err != nil {
		return nil, err
	}
	f, err := m.store.fs.Open(m.snapshotPath(sequence))
	return f, m.absent(err)
}

// absent wraps an error about a missing file as storage.ErrNotFound, or as storage.ErrDeleted if a concurrent Delete has
// removed the file.
func (m *Model) absent(err error) error {
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return fmt.Errorf("%w: %w", cmp.Or(m.gone(), storage.ErrNotFound), err)
}

// RemoveSnapshot implements storage.Snapshots. It is durable: a snapshot that came back after the
// log was cut behind it would contradict the log.
func (m *Model) RemoveSnapshot(sequence uint64) error {
	m.store.files.RLock()
	defer m.store.files.RUnlock()
	err := m.gone()
	if err == nil {
		err = m.absent(m.store.fs.Remove(m.snapshotPath(sequence)))
	}
	if err == nil {
		err = m.store.syncDirectory(m.directory())
	}
	return m.failed(fmt.Sprintf("remove the snapshot %d", sequence), err)
}

// removeSnapshotsAfter removes, durably, the snapshots after a sequence.
func (m *Model) removeSnapshotsAfter(sequence uint64) error {
	sequences, err := m.snapshots()
	if err != nil {
		return err
	}
	for _, later := range sequences {
		if later <= sequence {
			break // The newest come first.
		}
		if err := m.store.fs.Remove(m.snapshotPath(later)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove the snapshot %d: %w", later, err)
		}
	}
	// Sync even if no snapshot is left: an earlier call may have removed them without a sync.
	if err := m.store.syncDirectory(m.directory()); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// SetSnapshotAside implements storage.Snapshots: it renames the file.
func (m *Model) SetSnapshotAside(sequence uint64) (place string, err error) {
	m.store.files.RLock()
	defer m.store.files.RUnlock()
	from := m.snapshotPath(sequence)
	place = from + damagedSuffix
	if err = m.gone(); err == nil {
		err = m.absent(m.store.fs.Rename(from, place))
	}
	if err == nil {
		err = m.store.syncDirectory(m.directory())
	}
	return place, m.failed(fmt.Sprintf("set aside the snapshot %d", sequence), err)
}
