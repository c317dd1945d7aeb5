package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"hindsight/cmd/server/internal/bucket"
)

// Progress is the progress of a backup, a restore or a verification.
type Progress struct {
	Files, TotalFiles int
	Bytes, TotalBytes int64
}

// Report is called with the progress, from several goroutines. It must not block.
type Report func(Progress)

type counter struct {
	report     Report
	total      Progress
	files      atomic.Int64
	bytesSoFar atomic.Int64
}

func newCounter(report Report, files []File) *counter {
	c := &counter{report: report, total: Progress{TotalFiles: len(files)}}
	for _, f := range files {
		c.total.TotalBytes += f.Bytes
	}
	return c
}

func (c *counter) add(files int, bytes int64) {
	n, b := c.files.Add(int64(files)), c.bytesSoFar.Add(bytes)
	if c.report != nil {
		p := c.total
		p.Files, p.Bytes = int(n), b
		c.report(p)
	}
}

func (c *counter) Write(p []byte) (int, error) {
	c.add(0, int64(len(p)))
	return len(p), nil
}

// Taken is the outcome of Take.
type Taken struct {
	Manifest *Manifest
	// NewFiles and NewBytes count the files that the place did not have.
	NewFiles int
	NewBytes int64
}

// Take backs up a directory of a store, which does not change. It fails with ErrHeld if the place belongs to another
// store. About has the fields of the manifest but its files and its name. The name is the time. If the clock was set
// back, the name follows the name of the newest backup, so that the last backup taken is the newest.
func (p *Place) Take(ctx context.Context, store, dir string, about Manifest, report Report) (Taken, error) {
	m := &about
	if err := p.claim(ctx, store, m.Created); err != nil {
		return Taken{}, fmt.Errorf("backup: %w", err)
	}
	names, err := p.Names(ctx)
	if err != nil {
		return Taken{}, err
	}
	m.Format, m.Name = format, nameAfter(names, m.Created)
	if err := m.walk(dir); err != nil {
		return Taken{}, fmt.Errorf("backup: %w", err)
	}
	objects, err := p.objects(ctx)
	if err != nil {
		return Taken{}, fmt.Errorf("backup: %w", err)
	}
	taken, err := p.put(ctx, dir, m, objects, report)
	if err != nil {
		return Taken{}, fmt.Errorf("backup: %w", err)
	}
	if err = p.checkObjects(ctx, m); err == nil {
		err = p.bucket.Sync()
	}
	if err == nil {
		err = p.publish(ctx, m)
	}
	if err != nil {
		return Taken{}, fmt.Errorf("backup: %w", err)
	}
	// Another program that has removed the lease or objects meanwhile may have damaged the backup.
	if err = p.checkObjects(ctx, m); err == nil {
		err = p.checkOwner(ctx, store)
	}
	if err != nil {
		return Taken{}, errors.Join(fmt.Errorf("backup: the place has changed meanwhile: %w", err), p.remove(ctx, manifests+m.Name+extension))
	}
	return taken, nil
}

// checkObjects fails unless the place has all files of a backup.
func (p *Place) checkObjects(ctx context.Context, m *Manifest) error {
	objects, err := p.objects(ctx)
	for _, f := range m.Files {
		if size, ok := objects[key(f.SHA256)]; err == nil && (!ok || size != f.Bytes) {
			err = fmt.Errorf("%s is not in the place after it was written", key(f.SHA256))
		}
	}
	return err
}

// nameAfter returns the name of a time, which sorts after names.
func nameAfter(names []string, at time.Time) string {
	if len(names) > 0 {
		if newest, err := time.Parse(nameLayout, names[len(names)-1]); err == nil && !at.After(newest) {
			at = newest.Add(time.Millisecond)
		}
	}
	return at.UTC().Format(nameLayout)
}

func (m *Manifest) walk(dir string) error {
	m.Files = nil
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		relative, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		relative = filepath.ToSlash(relative)
		if !belongs(relative) {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		m.Files = append(m.Files, File{Path: relative, Bytes: info.Size()})
		return nil
	})
	if err != nil {
		return fmt.Errorf("list the files: %w", err)
	}
	return nil
}

func (p *Place) objects(ctx context.Context) (map[string]int64, error) {
	out := map[string]int64{}
	err := p.bucket.Each(ctx, objects, func(o bucket.Object) { out[o.Key] = o.Size })
	return out, err
}

func (p *Place) put(ctx context.Context, dir string, m *Manifest, present map[string]int64, report Report) (Taken, error) {
	taken := Taken{Manifest: m}
	var mu sync.Mutex
	// claim reports whether to write a file. It is true for the first of equal files.
	claim := func(f *File) bool {
		mu.Lock()
		defer mu.Unlock()
		if size, ok := present[key(f.SHA256)]; ok && size == f.Bytes {
			return false
		}
		present[key(f.SHA256)] = f.Bytes
		taken.NewFiles++
		taken.NewBytes += f.Bytes
		return true
	}
	progress := newCounter(report, m.Files)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(transfers)
	for n := range m.Files {
		f := &m.Files[n]
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("interrupted: %w", context.Cause(ctx))
			}
			name := filepath.Join(dir, filepath.FromSlash(f.Path))
			var err error
			if f.SHA256, err = digest(name, f.Bytes); err != nil {
				return err
			}
			if claim(f) {
				if err := p.upload(ctx, name, f); err != nil {
					return err
				}
			}
			progress.add(1, f.Bytes)
			return nil
		})
	}
	err := group.Wait()
	return taken, err
}

// digest returns the digest of a file, which must have the size.
func digest(name string, size int64) (string, error) {
	f, err := os.Open(name) //nolint:gosec // The operator names the directory.
	if err != nil {
		return "", fmt.Errorf("digest: %w", err)
	}
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err := errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("digest %s: %w", name, err)
	}
	if n != size {
		return "", fmt.Errorf("digest %s: %d bytes, it had %d", name, n, size)
	}
	return sum(h), nil
}

func sum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// upload writes a file under its digest. It fails if the file has changed since.
func (p *Place) upload(ctx context.Context, name string, f *File) (err error) {
	from, err := os.Open(name) //nolint:gosec // As above.
	if err != nil {
		return fmt.Errorf("upload: %w", err)
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	if err := p.bucket.Write(ctx, key(f.SHA256), &checked{from: from, file: f, hash: sha256.New()}, f.Bytes); err != nil {
		return fmt.Errorf("upload %s: %w", f.Path, err)
	}
	return nil
}

// checked reads a file, and fails at its end if the digest differs.
type checked struct {
	from io.Reader
	file *File
	hash hash.Hash
	read int64
}

func (c *checked) Read(p []byte) (int, error) {
	if c.read == c.file.Bytes {
		return 0, io.EOF
	}
	n, err := c.from.Read(p[:min(int64(len(p)), c.file.Bytes-c.read)])
	c.hash.Write(p[:n])
	c.read += int64(n)
	if (err != nil || c.read == c.file.Bytes) && sum(c.hash) != c.file.SHA256 {
		return 0, errors.Join(errChanged, err)
	}
	return n, err //nolint:wrapcheck // io.EOF must stay.
}

var errChanged = errors.New("its bytes have changed meanwhile")

func (p *Place) publish(ctx context.Context, m *Manifest) error {
	data, err := m.encode()
	if err != nil {
		return err
	}
	name := manifests + m.Name + extension
	if err := p.bucket.Create(ctx, name, bytes.NewReader(data), int64(len(data))); err != nil {
		return fmt.Errorf("write the manifest %s: %w", name, err)
	}
	return p.bucket.Sync()
}

// Retired counts what Retain removed.
type Retired struct {
	Backups, Files int
	Bytes          int64
}

// Retain removes all backups but the newest keep, and then the objects that no backup names.
// Nothing else may write to the place meanwhile.
func (p *Place) Retain(ctx context.Context, keep int) (r Retired, err error) {
	names, err := p.Names(ctx)
	if err != nil {
		return r, err
	}
	remaining := names[max(0, len(names)-keep):]
	named := map[string]bool{}
	for _, name := range remaining {
		m, err := p.read(ctx, name)
		if err != nil {
			return r, fmt.Errorf("nothing is removed: %w", err)
		}
		for _, f := range m.Files {
			named[key(f.SHA256)] = true
		}
	}
	for _, name := range names[:len(names)-len(remaining)] {
		if err := p.remove(ctx, manifests+name+extension); err != nil {
			return r, err
		}
		r.Backups++
	}
	objects, err := p.objects(ctx)
	if err != nil {
		return r, fmt.Errorf("backup: %w", err)
	}
	for name, size := range objects {
		if named[name] {
			continue
		}
		if err := p.remove(ctx, name); err != nil {
			return r, err
		}
		r.Files++
		r.Bytes += size
	}
	return r, nil
}

func (p *Place) remove(ctx context.Context, name string) error {
	if err := p.bucket.Delete(ctx, name); err != nil {
		return fmt.Errorf("backup: remove %s: %w", name, err)
	}
	return nil
}

// Now returns a time with the precision of the names of backups.
func Now(now time.Time) time.Time { return now.UTC().Truncate(time.Millisecond) }
