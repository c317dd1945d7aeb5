package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"

	"hindsight/internal/engine/storage"
)

// TailError is a newest write-ahead log that cannot be read as far as it was synced:
// acknowledged commits are lost. It is a storage.ErrCorrupt. CutTail lets the directory
// open without them.
type TailError struct {
	Log string
	// Whole is how many bytes can be read, Synced how many were synced; 0 is not known.
	Whole, Synced int64
}

// Error names the log and both lengths.
func (e *TailError) Error() string {
	synced := "bytes that were synced"
	if e.Synced > 0 {
		synced = fmt.Sprintf("byte %d, which was synced", e.Synced)
	}
	return fmt.Sprintf("store: the write-ahead log %s is damaged at byte %d, before %s: acknowledged commits are lost; restore the directory from a copy, or go on without them by fsck --truncate",
		e.Log, e.Whole, synced)
}

// Unwrap makes it a storage.ErrCorrupt.
func (e *TailError) Unwrap() error { return storage.ErrCorrupt }

// syncedFile says how far the newest write-ahead log of the log database is synced.
// Pebble takes damage behind the last chunk that proves an earlier sync for a torn write.
//
// The file is written after each sync of the log and is not synced itself: after a killed
// process it covers every acknowledged commit, and after a power cut it may be older.
// recorded <= synced always.
const (
	syncedFile   = "log.synced"
	syncedLength = 20 // number of the log, length, checksum
	// A log that was closed ends with a trailer of Pebble, behind at most 18 bytes of
	// padding. No commit is so short.
	trailerLength = 18 + 11
)

// syncedMark writes syncedFile.
type syncedMark struct {
	mu     sync.Mutex
	file   vfs.File
	number wal.NumWAL
	length int64
	data   [syncedLength]byte
}

// openMark opens syncedFile for writing. It keeps what the file says until the first sync.
func (s *Store) openMark() (err error) {
	if s.mark.file, err = s.fs.OpenReadWrite(s.path(syncedFile), vfs.WriteCategoryUnspecified); err != nil {
		return fmt.Errorf("store: open %s: %w", s.path(syncedFile), err)
	}
	return s.syncDirectory(s.dir)
}

// record records that a log is synced up to a length.
func (m *syncedMark) record(number wal.NumWAL, length int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if number < m.number || (number == m.number && length <= m.length) {
		return nil
	}
	m.number, m.length = number, length
	binary.BigEndian.PutUint64(m.data[:], uint64(number))
	binary.BigEndian.PutUint64(m.data[8:], uint64(length))
	binary.BigEndian.PutUint32(m.data[16:], crc32.Checksum(m.data[:16], crc32.MakeTable(crc32.Castagnoli)))
	if _, err := m.file.WriteAt(m.data[:], 0); err != nil {
		return fmt.Errorf("record the synced length of log %s: %w", number, err)
	}
	return nil
}

func (m *syncedMark) close() error {
	if m.file == nil {
		return nil
	}
	return m.file.Close()
}

// readMark reads syncedFile. A file that is missing or damaged says nothing.
func (s *Store) readMark() (number wal.NumWAL, length int64, err error) {
	f, err := s.fs.Open(s.path(syncedFile))
	if errors.Is(err, os.ErrNotExist) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, fmt.Errorf("store: %w", err)
	}
	data, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return 0, 0, fmt.Errorf("store: read %s: %w", s.path(syncedFile), err)
	}
	if len(data) != syncedLength || binary.BigEndian.Uint32(data[16:]) != crc32.Checksum(data[:16], crc32.MakeTable(crc32.Castagnoli)) {
		return 0, 0, nil
	}
	return wal.NumWAL(binary.BigEndian.Uint64(data)), int64(binary.BigEndian.Uint64(data[8:])), nil
}

// checkTail is a TailError if the newest write-ahead log of the log database is damaged
// before its synced end. In a lazy log Pebble's own proof counts for nothing, because
// Pebble was told of syncs that were left out.
func (s *Store) checkTail(lazy bool) error {
	number, length, err := s.readMark()
	if err != nil {
		return err
	}
	t, err := s.newestTail(logDirectory)
	switch {
	case err != nil:
		return err
	case t == nil || t.number < number:
		if number == 0 {
			return nil
		}
		return &TailError{Log: s.path(logDirectory, number.String()+".log"), Synced: length}
	case t.number == number && t.whole+trailerLength < length:
		return &TailError{Log: t.path, Whole: t.whole, Synced: length}
	case t.damaged && !lazy:
		return &TailError{Log: t.path, Whole: t.whole}
	}
	return nil
}

// CutTail lets a directory open whose Open fails with a TailError, without what is lost:
// it cuts the newest write-ahead log of the log database where the log is damaged.
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
	if err := s.removeAll(s.path(syncedFile)); err != nil {
		return err
	}
	return s.syncDirectory(s.dir)
}
