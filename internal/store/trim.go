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

type tail struct {
	number wal.NumWAL
	path   string
	// whole is where the log ends or its first hole begins. damaged: Pebble wrote behind the
	// hole after a sync.
	whole   int64
	damaged bool
}

// newestTail reads the newest write-ahead log of a database, nil for a new database. The log is as
// large as a memory table at most.
func (d *directory) newestTail(directory string) (*tail, error) {
	logs, err := wal.Scan(wal.Dir{FS: d.fs, Dirname: d.path(directory)})
	if errors.Is(err, os.ErrNotExist) || (err == nil && len(logs) == 0) {
		return nil, nil //nolint:nilnil // New.
	}
	if err != nil {
		return nil, fmt.Errorf("store: find the logs of %s: %w", directory, err)
	}
	newest := logs[len(logs)-1]
	out := &tail{number: newest.Num}
	_, out.path = newest.SegmentLocation(0)
	if out.whole, out.damaged, err = wholeLength(newest); err != nil {
		return nil, fmt.Errorf("store: read the newest log of %s: %w", directory, err)
	}
	return out, nil
}

// trimTail cuts the newest write-ahead log of a lazy database at its first hole, if it has one. A
// power cut may leave holes in the unsynced end, and Pebble, which believes that the end is synced,
// rejects to open. The synced part is before the first hole and stays. All older logs were synced
// when they were closed.
func (d *directory) trimTail(directory string) error {
	t, err := d.newestTail(directory)
	if err != nil || t == nil || !t.damaged {
		return err
	}
	d.log.Warn("cut off the damaged end of an unsynced log",
		zap.String("log", t.path), zap.Int64("kept_bytes", t.whole))
	return d.cutTail(directory, t)
}

// cutTail cuts a log behind its whole part. One rename puts the cut copy in place.
func (d *directory) cutTail(directory string, t *tail) error {
	if err := d.cut(t.path, t.whole); err != nil {
		return fmt.Errorf("store: cut the newest log of %s: %w", directory, err)
	}
	return d.syncDirectory(d.path(directory))
}

// wholeLength returns where a log ends or its first hole begins.
func wholeLength(log wal.LogicalLog) (offset int64, damaged bool, err error) {
	r := log.OpenForRead()
	defer func() { err = errors.Join(err, r.Close()) }()
	for {
		_, at, err := r.NextRecord()
		switch {
		case err == nil:
		case errors.Is(err, io.EOF), errors.Is(err, record.ErrUnexpectedEOF):
			return at.Physical, false, nil // Pebble stops there too.
		case errors.Is(err, record.ErrInvalidChunk), errors.Is(err, record.ErrZeroedChunk), pebble.IsCorruptionError(err):
			return at.Physical, true, nil
		default:
			return 0, false, err
		}
	}
}

func (d *directory) cut(path string, length int64) error {
	from, err := d.fs.Open(path)
	if err != nil {
		return err
	}
	whole, err := io.ReadAll(io.LimitReader(from, length))
	if err := errors.Join(err, from.Close()); err != nil {
		return err
	}
	temporary := d.path("cut.tmp")
	if err := d.writeFile(temporary, whole); err != nil {
		return err
	}
	return d.fs.Rename(temporary, path)
}

// asyncMarker exists while the database log may hold commits that were acknowledged without a sync.
const asyncMarker = "log.async"

func (s *Store) beforeLog(async bool) error {
	marked, err := s.exists(s.path(asyncMarker))
	if err == nil {
		err = s.checkTail(logDirectory, marked)
	}
	switch {
	case errors.As(err, new(*TailError)):
		return fmt.Errorf("%w: acknowledged commits are lost; restore the directory from a copy, or go on without them by fsck --truncate", err)
	case err != nil:
		return err
	case marked:
		return s.trimTail(logDirectory)
	case !async:
		return nil
	}
	if err := s.writeFile(s.path(asyncMarker), nil); err != nil {
		return fmt.Errorf("store: mark the log as not synced: %w", err)
	}
	return s.syncDirectory(s.dir)
}

// afterLog removes the marker: once the database log is open, its tables have what the older logs
// held, and the new log is synced.
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
