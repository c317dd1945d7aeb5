package backup

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"hindsight/cmd/server/internal/bucket"
)

// Damage is a damaged file of a backup.
type Damage struct {
	Path, Problem string
}

// Fetch writes the files of a backup durably into a directory. It returns all damaged files,
// which it does not write.
func (p *Place) Fetch(ctx context.Context, m *Manifest, dir string, report Report) ([]Damage, error) {
	directories, err := makeDirectories(m, dir)
	if err != nil {
		return nil, fmt.Errorf("backup: %w", err)
	}
	var found struct {
		sync.Mutex
		damaged []Damage
	}
	progress := newCounter(report, m.Files)
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(transfers)
	for n := range m.Files {
		f := &m.Files[n]
		group.Go(func() error {
			if groupCtx.Err() != nil {
				return fmt.Errorf("interrupted: %w", context.Cause(groupCtx))
			}
			err := p.download(groupCtx, f, filepath.Join(dir, filepath.FromSlash(f.Path)), progress)
			if errors.Is(err, ErrDamaged) {
				found.Lock()
				defer found.Unlock()
				found.damaged = append(found.damaged, Damage{f.Path, err.Error()})
				err = nil
			}
			progress.add(1, 0)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("backup: %w", err)
	}
	if len(found.damaged) > 0 {
		// Retain may have removed the backup and its files meanwhile.
		if _, err := p.read(ctx, m.Name); errors.Is(err, ErrNoBackup) {
			return nil, fmt.Errorf("%w was removed while it was read", err)
		}
	}
	for _, d := range directories {
		if err := bucket.SyncDirectory(d); err != nil {
			return nil, fmt.Errorf("backup: %w", err)
		}
	}
	slices.SortFunc(found.damaged, func(a, b Damage) int { return strings.Compare(a.Path, b.Path) })
	return found.damaged, nil
}

// makeDirectories makes the directories of the files of a backup. It returns them, the deepest
// first.
func makeDirectories(m *Manifest, dir string) ([]string, error) {
	done := map[string]bool{dir: true}
	for _, f := range m.Files {
		for d := filepath.Dir(filepath.Join(dir, filepath.FromSlash(f.Path))); !done[d]; d = filepath.Dir(d) {
			done[d] = true
			if err := os.MkdirAll(d, directoryMode); err != nil {
				return nil, fmt.Errorf("make a directory: %w", err)
			}
		}
	}
	out := make([]string, 0, len(done))
	for d := range done {
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b string) int { return len(b) - len(a) })
	return out, nil
}

// download writes one file. If the digest differs it removes the file and returns ErrDamaged.
func (p *Place) download(ctx context.Context, f *File, name string, progress io.Writer) (err error) {
	from, err := p.bucket.Read(ctx, key(f.SHA256))
	if errors.Is(err, bucket.ErrNotFound) {
		return fmt.Errorf("%w: %s is missing", ErrDamaged, key(f.SHA256))
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", key(f.SHA256), err)
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // The manifest names files of a data directory alone.
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(to, h, progress), from)
	if err == nil {
		err = to.Sync()
	}
	if err := errors.Join(err, to.Close()); err != nil {
		return fmt.Errorf("restore %s: %w", f.Path, err)
	}
	if got := sum(h); got != f.SHA256 || n != f.Bytes {
		return errors.Join(fmt.Errorf("%w: %s has %d bytes with the digest %s, want %d", ErrDamaged, key(f.SHA256), n, got, f.Bytes), os.Remove(name))
	}
	return nil
}
