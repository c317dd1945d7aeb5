package store

import (
	"context"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"hindsight/internal/engine/storage"
)

// The file formatFile has what AppendFormat appends. A program reads formatFile before it changes anything, so a program
// that is too old leaves the directory as it is.
const formatFile = "format"

// AppendFormat appends the format of a directory, the version of a program that reads it, and their CRC-32C, between
// spaces.
func AppendFormat(dst []byte, format uint32, version string) []byte {
	text := fmt.Appendf(nil, "%d %s", format, version)
	return fmt.Appendf(append(dst, text...), " %08x\n", crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli)))
}

// pebbleFormat is the newest format of Pebble that programs of storage.OldestFormat read.
const pebbleFormat = pebble.FormatValueSeparation

// Format implements storage.Formats.
func (s *Store) Format() uint32 {
	s.format.Lock()
	defer s.format.Unlock()
	return s.format.number
}

// Raise implements storage.Formats.
func (s *Store) Raise(ctx context.Context, format uint32, version string) error {
	if err := s.raiseFormat(format, version); err != nil {
		return err
	}
	return s.complete(ctx, s.logDB.commitDurably, func(*pebble.Batch) error { return nil })
}

func (s *Store) raiseFormat(format uint32, version string) error {
	s.format.Lock()
	defer s.format.Unlock()
	if format <= s.format.number {
		return nil
	}
	if format > storage.Format {
		return fmt.Errorf("store: %w: format %d of version %s, want at most %d", storage.ErrNewer, format, version, storage.Format)
	}
	if err := s.writeFormat(s.dir, format, version); err != nil {
		return err
	}
	s.format.number, s.format.version = format, version
	return nil
}

func (s *Store) writeFormat(dir string, format uint32, version string) error {
	if err := s.replaceFile(s.fs.PathJoin(dir, formatFile), AppendFormat(nil, format, version)); err != nil {
		return fmt.Errorf("store: write the format: %w", err)
	}
	return s.syncDirectory(dir)
}

// checkFormat rejects a directory that this program does not read, and changes nothing.
func (s *Store) checkFormat() error {
	format, version, err := s.readFormat(s.dir)
	if err != nil {
		return err
	}
	if exists, err := s.exists(s.path(logDirectory)); !exists && format == 0 {
		return err // The directory is new.
	}
	s.format.Lock()
	s.format.number, s.format.version = format, version
	s.format.Unlock()
	if err := s.rejectFormat(format, version); err != nil {
		return err
	}
	incoming, version, err := s.readIncoming()
	if err != nil || incoming == 0 {
		return err
	}
	return s.rejectFormat(incoming, version)
}

func (s *Store) rejectFormat(format uint32, version string) error {
	switch {
	case format == 0:
		return fmt.Errorf("%w, an older one: %s has no file %q", ErrVersion, s.dir, formatFile)
	case format < storage.OldestFormat:
		return fmt.Errorf("%w, an older one: format %d of version %s, want %d to %d", ErrVersion, format, version, storage.OldestFormat, storage.Format)
	case format > storage.Format:
		return fmt.Errorf("%w, a newer one: format %d, want at most %d: start version %s or a newer one", ErrVersion, format, storage.Format, version)
	}
	return nil
}

// readFormat reads the format of a directory, 0 if it has none.
func (s *Store) readFormat(dir string) (format uint32, version string, err error) {
	data, err := s.readSmall(s.fs.PathJoin(dir, formatFile))
	if err != nil || data == nil {
		return 0, "", err
	}
	text, _ := strings.CutSuffix(string(data), "\n")
	number, version, _ := strings.Cut(text[:max(0, strings.LastIndexByte(text, ' '))], " ")
	parsed, err := strconv.ParseUint(number, 10, 32)
	format = uint32(parsed)
	if err != nil || format == 0 || string(data) != string(AppendFormat(nil, format, version)) {
		return 0, "", fmt.Errorf("store: %w: %s has %.40q, want a format, a version and their checksum", storage.ErrCorrupt, s.fs.PathJoin(dir, formatFile), data)
	}
	return format, version, nil
}

// readIncoming reads the format of a complete checkpoint of another member, and returns 0 without a checkpoint.
func (s *Store) readIncoming() (format uint32, version string, err error) {
	if complete, err := s.exists(s.path(incomingDirectory, completeFile)); !complete {
		return 0, "", err
	}
	return s.readFormat(s.path(incomingDirectory))
}

// beginFormat gives a new directory a format. A server alone writes the newest format at once. The members of a cluster
// begin with the oldest, and their owner raises the format once all of them write a newer one.
func (s *Store) beginFormat(member bool, version string) error {
	if !member {
		return s.raiseFormat(storage.Format, version)
	}
	return s.raiseFormat(storage.OldestFormat, version)
}
