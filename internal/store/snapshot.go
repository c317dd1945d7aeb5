package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	snapshotSuffix  = ".hs"
	temporarySuffix = ".tmp"
	damagedSuffix   = ".damaged"
)

// WriteSnapshot writes a snapshot of a model at a sequence: to a temporary
// name, synced, then renamed, so that a snapshot is there whole or not at
// all. It is durable on return.
func (s *Store) WriteSnapshot(m Model, sequence uint64, data []byte) error {
	dir := s.path(snapshots, number(m))
	if err := s.fs.MkdirAll(dir, directoryMode); err != nil {
		return fmt.Errorf("store: create %s: %w", dir, err)
	}
	if err := s.syncDirectory(s.path(snapshots)); err != nil {
		return err
	}
	name := s.snapshotPath(m, sequence)
	if err := s.writeFile(name+temporarySuffix, data); err != nil {
		return fmt.Errorf("store: write snapshot: %w", err)
	}
	if err := s.fs.Rename(name+temporarySuffix, name); err != nil {
		return fmt.Errorf("store: name snapshot: %w", err)
	}
	return s.syncDirectory(dir)
}

func (s *Store) snapshotPath(m Model, sequence uint64) string {
	return s.path(snapshots, number(m), fmt.Sprintf("%020d%s", sequence, snapshotSuffix))
}

func (s *Store) writeFile(name string, data []byte) error {
	f, err := s.fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err //nolint:wrapcheck // The caller does.
	}
	// A vfs.File may change what it is given to write, so it gets copies.
	piece := make([]byte, min(len(data), writePiece))
	for len(data) > 0 && err == nil {
		n := copy(piece, data)
		data = data[n:]
		_, err = f.Write(piece[:n])
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

const writePiece = 256 << 10

// Snapshots are the sequences of a model's snapshots, the newest first.
func (s *Store) Snapshots(m Model) ([]uint64, error) {
	names, err := s.fs.List(s.path(snapshots, number(m)))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // None was written.
	}
	if err != nil {
		return nil, fmt.Errorf("store: list snapshots: %w", err)
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

// SnapshotFile is what a snapshot is as a file.
type SnapshotFile struct {
	Bytes    int64
	Modified time.Time
	// Head is its first bytes.
	Head []byte
}

// StatSnapshot reads the first bytes of a snapshot, at most head of them.
func (s *Store) StatSnapshot(m Model, sequence uint64, head int) (out SnapshotFile, err error) {
	f, err := s.fs.Open(s.snapshotPath(m, sequence))
	if err != nil {
		return out, fmt.Errorf("store: open snapshot: %w", err)
	}
	info, err := f.Stat()
	if err == nil {
		out = SnapshotFile{Bytes: info.Size(), Modified: info.ModTime(), Head: make([]byte, min(int64(head), info.Size()))}
		_, err = io.ReadFull(f, out.Head)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return out, fmt.Errorf("store: read snapshot: %w", err)
	}
	return out, nil
}

// ReadSnapshot gives the bytes of a snapshot.
func (s *Store) ReadSnapshot(m Model, sequence uint64) ([]byte, error) {
	f, err := s.fs.Open(s.snapshotPath(m, sequence))
	if err != nil {
		return nil, fmt.Errorf("store: open snapshot: %w", err)
	}
	data, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("store: read snapshot: %w", err)
	}
	return data, nil
}

// RemoveSnapshot drops a snapshot. It is gone for good on return: one that came
// back after the log was cut before it would stand against the log.
func (s *Store) RemoveSnapshot(m Model, sequence uint64) error {
	if err := s.fs.Remove(s.snapshotPath(m, sequence)); err != nil {
		return fmt.Errorf("store: remove snapshot: %w", err)
	}
	return s.syncDirectory(s.path(snapshots, number(m)))
}

// Metrics are the store's figures.
type Metrics struct {
	// DiskBytes is what both databases take, LogBytes their write-ahead
	// logs, MemTableBytes their memory tables.
	DiskBytes, LogBytes, MemTableBytes uint64
	// Fsyncs counts the syncs of write-ahead logs, FsyncSeconds their time.
	Fsyncs       uint64
	FsyncSeconds float64
	// RememberedIDs counts ids of learned observations.
	RememberedIDs int
	// Compactions counts compactions.
	Compactions int64
}

// Metrics reads the figures.
func (s *Store) Metrics() Metrics {
	out := Metrics{RememberedIDs: int(s.remembered.Load())}
	for _, db := range []*database{s.logDB, s.pendingDB} {
		m := db.Metrics()
		out.DiskBytes += m.DiskSpaceUsage()
		out.LogBytes += m.WAL.PhysicalSize
		out.MemTableBytes += m.MemTable.Size
		out.Compactions += m.Compact.Count
		out.Fsyncs += uint64(db.fs.syncs.Load())
		out.FsyncSeconds += float64(db.fs.nanoseconds.Load()) / 1e9
	}
	return out
}
