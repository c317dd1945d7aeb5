package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"

	"hindsight/internal/engine/storage"
)

// TailError says that the newest write-ahead log is damaged before its synced end. TailError
// wraps storage.ErrCorrupt. In the database log acknowledged commits are lost, and CutTail lets the
// directory open without them.
type TailError struct {
	Log string
	// Whole counts the readable bytes, Synced the synced bytes; 0 is unknown.
	Whole, Synced int64
}

func (e *TailError) Error() string {
	synced := "bytes that were synced"
	if e.Synced > 0 {
		synced = fmt.Sprintf("byte %d, which was synced", e.Synced)
	}
	return fmt.Sprintf("store: the write-ahead log %s is damaged at byte %d, before %s", e.Log, e.Whole, synced)
}

func (e *TailError) Unwrap() error { return storage.ErrCorrupt }

// syncedFile, in the directory of a database, records how far the newest write-ahead log and the
// newest manifest are synced. Without it Pebble takes damage near the end of either for a torn
// write and drops what follows.
//
// The store writes syncedFile after each sync of either, without a sync of its own: after a killed
// process it covers every acknowledged commit, after a power cut it may be older.
// Always recorded <= synced.
const (
	syncedFile   = "synced"
	syncedLength = 36 // number and length of the log and of the manifest, checksum
	// A closed log ends with at most 18 bytes of padding and a trailer of Pebble. No commit is
	// so short.
	trailerLength = 18 + 11
)

type extent struct {
	number uint64
	length int64
}

type extents struct{ log, manifest extent }

type syncedMark struct {
	mu   sync.Mutex
	file vfs.File
	at   extents
	data [syncedLength]byte
}

func (d *directory) openMark(directory string) (*syncedMark, error) {
	if err := d.fs.MkdirAll(d.path(directory), directoryMode); err != nil {
		return nil, fmt.Errorf("store: create %s: %w", d.path(directory), err)
	}
	at, err := d.readMark(directory)
	if err != nil {
		return nil, err
	}
	f, err := d.fs.OpenReadWrite(d.path(directory, syncedFile), vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, fmt.Errorf("store: open %s: %w", d.path(directory, syncedFile), err)
	}
	return &syncedMark{file: f, at: at}, nil
}

func (m *syncedMark) record(name string, length int64) error {
	number, isLog, ok := numberOf(name)
	if !ok {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	at := &m.at.manifest
	if isLog {
		at = &m.at.log
	}
	if number < at.number || (number == at.number && length <= at.length) {
		return nil
	}
	*at = extent{number, length}
	for n, e := range []extent{m.at.log, m.at.manifest} {
		binary.BigEndian.PutUint64(m.data[16*n:], e.number)
		binary.BigEndian.PutUint64(m.data[16*n+8:], uint64(e.length))
	}
	binary.BigEndian.PutUint32(m.data[32:], crc32.Checksum(m.data[:32], crc32.MakeTable(crc32.Castagnoli)))
	if _, err := m.file.WriteAt(m.data[:], 0); err != nil {
		return fmt.Errorf("record the synced length of %s: %w", name, err)
	}
	return nil
}

func numberOf(name string) (number uint64, isLog, ok bool) {
	digits, isLog := strings.CutSuffix(name, ".log")
	if !isLog {
		digits, ok = strings.CutPrefix(name, "MANIFEST-")
		if !ok {
			return 0, false, false
		}
	}
	number, err := strconv.ParseUint(digits, 10, 64)
	return number, isLog, err == nil
}

// readMark reads the syncedFile of a database. A missing or damaged file reads as zero.
func (d *directory) readMark(directory string) (extents, error) {
	data, err := d.readSmall(d.path(directory, syncedFile))
	if err != nil || len(data) != syncedLength || binary.BigEndian.Uint32(data[32:]) != crc32.Checksum(data[:32], crc32.MakeTable(crc32.Castagnoli)) {
		return extents{}, err
	}
	at := func(n int) extent {
		return extent{binary.BigEndian.Uint64(data[n:]), int64(binary.BigEndian.Uint64(data[n+8:]))}
	}
	return extents{at(0), at(16)}, nil
}

// checkTail returns an error if the newest write-ahead log or the manifest of a database is damaged
// before its synced end: a TailError for the log. In a lazy log the damage that Pebble finds proves
// nothing, because Pebble believes in syncs that did not happen.
func (d *directory) checkTail(directory string, lazy bool) error {
	synced, err := d.readMark(directory)
	if err != nil {
		return err
	}
	if err := d.checkManifest(directory, synced.manifest); err != nil {
		return err
	}
	t, err := d.newestTail(directory)
	switch {
	case err != nil:
		return err
	case t == nil || uint64(t.number) < synced.log.number:
		if synced.log.number == 0 {
			return nil
		}
		return &TailError{Log: d.path(directory, fmt.Sprintf("%06d.log", synced.log.number)), Synced: synced.log.length}
	case uint64(t.number) == synced.log.number && t.whole+trailerLength < synced.log.length:
		return &TailError{Log: t.path, Whole: t.whole, Synced: synced.log.length}
	case t.damaged && !lazy:
		return &TailError{Log: t.path, Whole: t.whole}
	}
	return nil
}

// checkManifest returns storage.ErrCorrupt if the current manifest of a database is damaged before
// its synced end: the database would open in an older state.
func (d *directory) checkManifest(directory string, synced extent) error {
	if synced.number == 0 {
		return nil
	}
	current, err := pebble.Peek(d.path(directory), d.fs)
	if err != nil {
		return fmt.Errorf("store: find the manifest of %s: %w", directory, err)
	}
	if !current.Exists {
		return fmt.Errorf("store: %s has no manifest any more: %w", d.path(directory), storage.ErrCorrupt)
	}
	// A crash may come after the first sync of a manifest and before it becomes current.
	if number, _, ok := numberOf(d.fs.PathBase(current.ManifestFilename)); !ok || number != synced.number {
		return nil
	}
	path := d.path(directory, d.fs.PathBase(current.ManifestFilename))
	f, err := d.fs.Open(path)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	whole := int64(0)
	for records := record.NewReader(f, 0); err == nil; {
		whole = records.Offset()
		var r io.Reader
		if r, err = records.Next(); err == nil {
			_, err = io.Copy(io.Discard, r)
		}
	}
	if !errors.Is(err, io.EOF) && !record.IsInvalidRecord(err) && !pebble.IsCorruptionError(err) {
		return fmt.Errorf("store: read %s: %w", path, errors.Join(err, f.Close()))
	}
	if whole < synced.length {
		return fmt.Errorf("store: %s is damaged at byte %d, before byte %d, which was synced: %w; restore the directory from a copy, or import models into a new one",
			path, whole, synced.length, errors.Join(storage.ErrCorrupt, f.Close()))
	}
	return f.Close()
}

// CutTail cuts the newest write-ahead log of the database log where the log is damaged, so that a
// directory opens whose Open failed with a TailError.
func CutTail(dir string, o Options) (err error) {
	s := newStore(dir, o)
	if err := s.lockDirectory(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	t, err := s.newestTail(logDirectory)
	if err != nil {
		return err
	}
	if t != nil {
		if err := s.cutTail(logDirectory, t); err != nil {
			return err
		}
	}
	if err := s.removeAll(s.path(logDirectory, syncedFile)); err != nil {
		return err
	}
	return s.syncDirectory(s.path(logDirectory))
}
