package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hindsight/cmd/server/internal/bucket"
)

const (
	objects   = "objects/"
	manifests = "backups/"
	extension = ".json"
	// A name sorts by its time.
	nameLayout = "20060102T150405.000Z"
	// At most transfers files are copied at once.
	transfers        = 4
	maxManifestBytes = 1 << 30
	directoryMode    = 0o700
)

// Place is a directory or a bucket with backups.
type Place struct{ bucket bucket.Bucket }

// Open opens a place: a directory, or the URL of a bucket. With create it creates a missing
// directory.
func Open(place string, create bool) (*Place, error) {
	root, err := bucket.Directory(place)
	if err == nil && create && root != "" {
		err = os.MkdirAll(root, directoryMode)
	}
	p := new(Place)
	if err == nil {
		p.bucket, err = bucket.Open(place)
	}
	if err != nil {
		return nil, fmt.Errorf("backup: %w", err)
	}
	return p, nil
}

// Within reports whether a place is dir or a directory inside dir. The place need not exist.
func Within(place, dir string) (bool, error) {
	root, err := bucket.Directory(place)
	if err != nil || root == "" {
		return false, err
	}
	of, err := os.Stat(dir)
	if err != nil {
		return false, fmt.Errorf("backup: %w", err)
	}
	at, err := filepath.EvalSymlinks(root)
	for ; errors.Is(err, os.ErrNotExist) && root != filepath.Dir(root); at, err = filepath.EvalSymlinks(root) {
		root = filepath.Dir(root)
	}
	if err != nil {
		return false, fmt.Errorf("backup: %w", err)
	}
	for {
		if info, err := os.Stat(at); err == nil && os.SameFile(info, of) {
			return true, nil
		}
		if at == filepath.Dir(at) {
			return false, nil
		}
		at = filepath.Dir(at)
	}
}

// Names returns the names of the backups, the oldest first.
func (p *Place) Names(ctx context.Context) (names []string, err error) {
	err = p.bucket.Each(ctx, manifests, func(o bucket.Object) {
		if name, ok := strings.CutSuffix(strings.TrimPrefix(o.Key, manifests), extension); ok && isName(name) {
			names = append(names, name)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("backup: %w", err)
	}
	slices.Sort(names)
	return names, nil
}

// Newest returns the time at which the newest backup began, the zero time without a backup.
func (p *Place) Newest(ctx context.Context) (time.Time, error) {
	names, err := p.Names(ctx)
	if err != nil || len(names) == 0 {
		return time.Time{}, err
	}
	newest, _ := time.Parse(nameLayout, names[len(names)-1]) // Names are times.
	return newest, nil
}

// isName reports whether a name names a backup. An unfinished object has another name.
func isName(name string) bool {
	_, err := time.Parse(nameLayout, name)
	return err == nil
}

// Find returns the backup of a name, or the newest backup if the name is empty.
func (p *Place) Find(ctx context.Context, name string) (*Manifest, error) {
	if name == "" {
		names, err := p.Names(ctx)
		if err != nil {
			return nil, err
		}
		if len(names) == 0 {
			return nil, fmt.Errorf("backup: %w: the place has none", ErrNoBackup)
		}
		name = names[len(names)-1]
	}
	if !isName(name) {
		return nil, fmt.Errorf("backup: %w: %q is no name of a backup", ErrNoBackup, name)
	}
	return p.read(ctx, name)
}

// Since returns the oldest backup begun at or after a time, or the newest backup if none was.
func (p *Place) Since(ctx context.Context, at time.Time) (*Manifest, error) {
	names, err := p.Names(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if begun, err := time.Parse(nameLayout, name); err == nil && !begun.Before(at) {
			return p.read(ctx, name)
		}
	}
	return p.Find(ctx, "")
}

// Until returns the newest backup begun at or before the time that a name of a backup is.
func (p *Place) Until(ctx context.Context, name string) (*Manifest, error) {
	names, err := p.Names(ctx)
	if err != nil {
		return nil, err
	}
	n, exact := slices.BinarySearch(names, name)
	if !isName(name) || n == 0 && !exact {
		return nil, fmt.Errorf("backup: %w: none begun at or before %q", ErrNoBackup, name)
	}
	if !exact {
		n--
	}
	return p.read(ctx, names[n])
}

func (p *Place) read(ctx context.Context, name string) (*Manifest, error) {
	from, err := p.bucket.Read(ctx, manifests+name+extension)
	if errors.Is(err, bucket.ErrNotFound) {
		return nil, fmt.Errorf("backup: %w: %s", ErrNoBackup, name)
	}
	if err != nil {
		return nil, fmt.Errorf("backup: read the manifest of %s: %w", name, err)
	}
	data, err := io.ReadAll(io.LimitReader(from, maxManifestBytes))
	if err := errors.Join(err, from.Close()); err != nil {
		return nil, fmt.Errorf("backup: read the manifest of %s: %w", name, err)
	}
	m, err := decode(name, data)
	if err != nil {
		return nil, fmt.Errorf("backup: %w", err)
	}
	return m, nil
}
