package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// directoryMode lets only the server's user read the objects.
const directoryMode = 0o700

type directory struct{ root string }

func openDirectory(root string) (*directory, error) {
	info, err := os.Stat(root)
	if err != nil {
		return nil, err //nolint:wrapcheck // It names the directory.
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is a file, want a directory", root)
	}
	return &directory{root}, nil
}

func (d *directory) path(key string) string { return filepath.Join(d.root, filepath.FromSlash(key)) }

// Each lists the directory of the prefix. A file that is removed meanwhile is left out.
func (d *directory) Each(ctx context.Context, prefix string, f func(Object)) error {
	top := d.path(prefix[:strings.LastIndex(prefix, "/")+1])
	err := filepath.WalkDir(top, func(name string, entry fs.DirEntry, err error) error {
		if err == nil {
			err = context.Cause(ctx)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err //nolint:wrapcheck // As in the other errors of the walk.
		}
		relative, err := filepath.Rel(d.root, name)
		if key := filepath.ToSlash(relative); err == nil && strings.HasPrefix(key, prefix) {
			f(Object{key, info.Size()})
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("list %s: %w", prefix, err)
	}
	return nil
}

func (d *directory) Prefixes(_ context.Context, prefix string) (out []string, err error) {
	entries, err := os.ReadDir(d.root)
	for _, entry := range entries {
		if entry.IsDir() && strings.HasPrefix(entry.Name(), prefix) {
			out = append(out, entry.Name()+"/")
		}
	}
	return out, err //nolint:wrapcheck // It names the directory.
}

func (d *directory) Read(_ context.Context, key string) (io.ReadCloser, error) {
	f, err := os.Open(d.path(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotFound
	}
	return f, err //nolint:wrapcheck // It names the file.
}

func (d *directory) Write(ctx context.Context, key string, from io.Reader, size int64) error {
	return d.write(ctx, key, from, size, os.Rename)
}

func (d *directory) Create(ctx context.Context, key string, from io.Reader, size int64) error {
	return d.write(ctx, key, from, size, func(temporary, name string) error {
		switch err := os.Link(temporary, name); { // Of two concurrent calls one fails.
		case errors.Is(err, fs.ErrExist):
			return ErrExists
		case err == nil:
			return os.Remove(temporary) //nolint:wrapcheck // It names the file.
		}
		if _, err := os.Lstat(name); err == nil { // The file system has no links.
			return ErrExists
		}
		return os.Rename(temporary, name) //nolint:wrapcheck // It names the files.
	})
}

// write writes a temporary file beside the object, because renaming from os.TempDir fails across file systems.
func (d *directory) write(ctx context.Context, key string, from io.Reader, size int64, rename func(temporary, name string) error) (err error) {
	name := d.path(key)
	if err := os.MkdirAll(filepath.Dir(name), directoryMode); err != nil {
		return err //nolint:wrapcheck // It names the directory.
	}
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".tmp*")
	if err != nil {
		return err //nolint:wrapcheck // It names the file.
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = io.CopyN(f, contextReader{ctx, from}, size)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return rename(f.Name(), name)
}

// Sync syncs the directories. Write has synced the files before it renamed them.
func (d *directory) Sync() error {
	return filepath.WalkDir(d.root, func(name string, entry fs.DirEntry, err error) error { //nolint:wrapcheck // It names the directory.
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !entry.IsDir() {
			return err
		}
		return SyncDirectory(name)
	})
}

// SyncDirectory makes the names in a directory durable. It does nothing on Windows, which cannot sync directories.
func SyncDirectory(name string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(name) //nolint:gosec // The operator names the directory.
	if err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("sync %s: %w", name, err)
	}
	return nil
}

type contextReader struct {
	ctx  context.Context //nolint:containedctx // A reader takes no context.
	from io.Reader
}

func (r contextReader) Read(p []byte) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	return r.from.Read(p) //nolint:wrapcheck // io.EOF must stay.
}

func (d *directory) Delete(_ context.Context, key string) error {
	if err := os.Remove(d.path(key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err //nolint:wrapcheck // It names the file.
	}
	return nil
}
