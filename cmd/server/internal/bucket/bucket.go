// Package bucket holds objects by keys, in a directory or in S3.
package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"
)

// Errors of buckets.
var (
	ErrNotFound = errors.New("no such object")
	// ErrExists: Create found an object of the key.
	ErrExists = errors.New("the object exists")
)

const s3Scheme = "s3"

// Object is an object of a list. Size is zero for a common prefix, whose Key ends in a slash.
type Object struct {
	Key  string
	Size int64
}

// Bucket holds objects by keys. Keys have slashes. Its methods may be called concurrently.
type Bucket interface {
	// Each calls f for every object whose key begins with a prefix.
	Each(ctx context.Context, prefix string, f func(Object)) error
	// Prefixes returns the distinct beginnings, up to and with the first slash, of the keys at the top that
	// begin with a prefix without a slash.
	Prefixes(ctx context.Context, prefix string) ([]string, error)
	// Read opens an object, or returns ErrNotFound. The caller closes it.
	Read(ctx context.Context, key string) (io.ReadCloser, error)
	// Write writes an object of size bytes, or replaces it. If it returns an error, the object is as before.
	Write(ctx context.Context, key string, from io.Reader, size int64) error
	// Create writes an object as Write does, or returns ErrExists.
	Create(ctx context.Context, key string, from io.Reader, size int64) error
	// Delete removes an object if it exists.
	Delete(ctx context.Context, key string) error
	// Sync makes durable what was written, also by a process that was killed.
	Sync() error
}

// Open opens a directory by its path or file:///DIR, or a bucket by a URL such as s3://bucket?prefix=hindsight/.
func Open(place string) (b Bucket, err error) {
	dir, err := Directory(place)
	if err == nil && dir != "" {
		b, err = openDirectory(dir)
	} else if err == nil {
		b, err = openS3(place)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", place, err)
	}
	return b, nil
}

// Directory returns the absolute path of a place that is a directory, empty for the URL of a bucket.
func Directory(place string) (string, error) {
	if !strings.Contains(place, "://") {
		return filepath.Abs(place)
	}
	u, err := url.Parse(place)
	if err != nil || u.Scheme == s3Scheme {
		return "", err
	}
	if u.Scheme != "file" {
		return "", fmt.Errorf("the scheme is %q, want file or %s", u.Scheme, s3Scheme)
	}
	root := filepath.FromSlash(u.Path)
	if runtime.GOOS == "windows" {
		root = strings.TrimPrefix(root, `\`)
	}
	return filepath.Clean(root), nil
}
