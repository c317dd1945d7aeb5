package store

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/wal"
	"go.uber.org/zap"
)

// trimTail cuts the newest write-ahead log of a database at its first hole. It
// is for a log whose syncs are left out. A power cut may leave holes in its
// unsynced end, and Pebble, which was told that the end is synced, takes a hole
// for damage and refuses to open. What was really synced is before the first
// hole, and stays. All older logs were synced when they were closed.
//
// It reads the one log, at most a memory table's worth, and changes nothing
// when it has no hole. The cut copy takes the log's name in one rename.
func (s *Store) trimTail(directory string) error {
	logs, err := wal.Scan(wal.Dir{FS: s.fs, Dirname: s.path(directory)})
	if errors.Is(err, os.ErrNotExist) || (err == nil && len(logs) == 0) {
		return nil // New.
	}
	if err != nil {
		return fmt.Errorf("store: find the logs of %s: %w", directory, err)
	}
	newest := logs[len(logs)-1]
	whole, damaged, err := wholeLength(newest)
	if err != nil {
		return fmt.Errorf("store: read the newest log of %s: %w", directory, err)
	}
	if !damaged {
		return nil
	}
	_, path := newest.SegmentLocation(0)
	s.log.Warn("the end of a log that was not synced is damaged, and cut off",
		zap.String("log", path), zap.Int64("kept_bytes", whole))
	if err := s.cut(path, whole); err != nil {
		return fmt.Errorf("store: cut the newest log of %s: %w", directory, err)
	}
	return s.syncDirectory(s.path(directory))
}

// wholeLength is where a log's first hole begins.
func wholeLength(log wal.LogicalLog) (offset int64, damaged bool, err error) {
	r := log.OpenForRead()
	defer func() { err = errors.Join(err, r.Close()) }()
	for {
		_, at, err := r.NextRecord()
		switch {
		case err == nil:
		case errors.Is(err, io.EOF), errors.Is(err, record.ErrUnexpectedEOF):
			return 0, false, nil // Pebble ends there too.
		case errors.Is(err, record.ErrInvalidChunk), errors.Is(err, record.ErrZeroedChunk), pebble.IsCorruptionError(err):
			return at.Physical, true, nil
		default:
			return 0, false, err
		}
	}
}

// cut leaves the first bytes of a file.
func (s *Store) cut(path string, length int64) error {
	from, err := s.fs.Open(path)
	if err != nil {
		return err
	}
	kept, err := io.ReadAll(io.LimitReader(from, length))
	if err := errors.Join(err, from.Close()); err != nil {
		return err
	}
	temporary := s.path("cut.tmp")
	if err := s.writeFile(temporary, kept); err != nil {
		return err
	}
	return s.fs.Rename(temporary, path)
}

// asyncMarker is there while the log database may hold commits that were
// acknowledged without a sync.
const asyncMarker = "log.async"

// beforeLog makes the log database ready to be opened.
func (s *Store) beforeLog(async bool) error {
	_, err := s.fs.Stat(s.path(asyncMarker))
	switch {
	case err == nil:
		return s.trimTail(logDirectory)
	case !errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("store: %w", err)
	case !async:
		return nil
	}
	if err := s.writeFile(s.path(asyncMarker), nil); err != nil {
		return fmt.Errorf("store: mark the log as not synced: %w", err)
	}
	return s.syncDirectory(s.dir)
}

// afterLog removes the marker: when the log database is open, what its older
// logs held is in its tables, and the new one is synced.
func (s *Store) afterLog(async bool) error {
	if async {
		return nil
	}
	err := s.fs.Remove(s.path(asyncMarker))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("store: unmark the log: %w", err)
	}
	return s.syncDirectory(s.dir)
}
