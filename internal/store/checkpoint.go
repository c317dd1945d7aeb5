package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"
)

const (
	checkpointDirectory = "checkpoint"
	// A copy of a write-ahead log may be torn if the log was written during the copy.
	// Checkpoint then copies again, at most so often.
	checkpointAttempts = 5
)

// errTorn: a copy of a write-ahead log has a hole.
var errTorn = errors.New("a copied log was written meanwhile")

// Checkpoint copies the data directory to a directory below it and returns the path. The copy
// is a data directory for readers. Tables and snapshots in it are links, if the file system has
// links, and take no room until the store drops their originals. Checkpoint replaces the
// previous checkpoint. RemoveCheckpoint and the next Open remove it.
//
// What is acknowledged before the call is in the checkpoint. Checkpoint copies three parts, and
// meanwhile no snapshot is added or removed, no log is cut or rewound, and no import ends:
//
//   - snapshots first: both databases have what a snapshot stands for;
//   - then pending: a prediction in pending has no label yet, or log has its label;
//   - then log, the latest part: a prediction that has left pending has its label in log. A
//     replay of log behind a snapshot removes the predictions whose labels it has.
//
// Writers of observations and predictions do not wait for a checkpoint. It costs O(files). It
// fails after a rejected write.
func (s *Store) Checkpoint(ctx context.Context) (string, error) {
	dir := s.path(checkpointDirectory)
	err := s.Failed()
	for attempt := 0; err == nil && attempt < checkpointAttempts; attempt++ {
		if err = s.checkpoint(ctx, dir); err == nil {
			return dir, nil
		}
		if errors.Is(err, errTorn) && attempt < checkpointAttempts-1 {
			err = nil
		}
	}
	return "", fmt.Errorf("store: checkpoint: %w", errors.Join(err, s.RemoveCheckpoint()))
}

// RemoveCheckpoint removes the checkpoint, if there is one.
func (s *Store) RemoveCheckpoint() error { return s.removeAll(s.path(checkpointDirectory)) }

func (s *Store) checkpoint(ctx context.Context, dir string) error {
	// A flush moves rows from write-ahead logs, which are copied, to tables, which are linked.
	flush := func(db *database) error { return db.flush(ctx) }
	return inOrder(
		func() error { return s.removeAll(dir) },
		func() error { return s.fs.MkdirAll(s.fs.PathJoin(dir, snapshots), directoryMode) },
		func() error { return s.writeFile(s.fs.PathJoin(dir, lockFile), nil) },
		func() error { return errors.Join(s.usePending(ctx, flush), flush(s.logDB)) },
		func() error { return s.freeze(ctx, dir) },
		func() error { return s.whole(s.fs.PathJoin(dir, pendingDirectory)) },
		func() error { return s.whole(s.fs.PathJoin(dir, logDirectory)) },
		s.Failed,
	)
}

func (s *Store) freeze(ctx context.Context, dir string) error {
	s.files.Lock()
	defer s.files.Unlock()
	if err := s.linkSnapshots(ctx, s.fs.PathJoin(dir, snapshots)); err != nil {
		return err
	}
	to := s.fs.PathJoin(dir, pendingDirectory)
	err := s.usePending(ctx, func(db *database) error { return errors.Join(s.removeAll(to), db.checkpoint(to)) })
	if err != nil {
		return err
	}
	if err := s.logDB.checkpoint(s.fs.PathJoin(dir, logDirectory)); err != nil {
		return err
	}
	id, err := s.Identity()
	if err != nil {
		return err
	}
	s.format.Lock()
	defer s.format.Unlock()
	return errors.Join(s.writeFormat(dir, s.format.number, s.format.version), s.writeIdentity(dir, id))
}

// linkSnapshots links the finished snapshots. A concurrent Delete may remove some of them.
func (s *Store) linkSnapshots(ctx context.Context, to string) error {
	models, err := s.list(s.path(snapshots))
	if err != nil {
		return err
	}
	for _, model := range models {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		files, err := s.list(s.path(snapshots, model))
		if err != nil {
			return err
		}
		if err := s.fs.MkdirAll(s.fs.PathJoin(to, model), directoryMode); err != nil {
			return err
		}
		for _, f := range files {
			if !strings.HasSuffix(f, snapshotSuffix) {
				continue
			}
			err := vfs.LinkOrCopy(s.fs, s.path(snapshots, model, f), s.fs.PathJoin(to, model, f))
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("link a snapshot: %w", err)
			}
		}
	}
	return nil
}

// whole returns errTorn if a log of a copied database does not end as Pebble expects.
func (d *directory) whole(dir string) error {
	logs, err := wal.Scan(wal.Dir{FS: d.fs, Dirname: dir})
	if err != nil {
		return fmt.Errorf("find the logs of %s: %w", dir, err)
	}
	for _, log := range logs {
		if _, damaged, err := wholeLength(log); err != nil {
			return fmt.Errorf("read a log of %s: %w", dir, err)
		} else if damaged {
			return errTorn
		}
	}
	return nil
}

func (db *database) flush(ctx context.Context) error {
	if err := db.guard.err(); err != nil {
		return err
	}
	done, err := db.AsyncFlush()
	if err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	select {
	case <-done:
		return db.guard.err()
	case <-db.guard.failed: // A flush that failed never ends.
		return db.guard.err()
	case <-db.damaged:
		return errDamaged
	case <-ctx.Done():
		return fmt.Errorf("wait for a flush: %w", context.Cause(ctx))
	}
}

// checkpoint is Pebble's. The copy is no part of the store, so its failure does not end writing.
func (db *database) checkpoint(dir string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("checkpoint of a database: %v", p)
		}
	}()
	if err := db.Checkpoint(dir, pebble.WithFlushedWAL()); err != nil {
		return fmt.Errorf("checkpoint of a database: %w", err)
	}
	return db.guard.err()
}
