// Package bucket holds objects by keys, in a directory or in S3.
package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"
)

// Errors of buckets.
var (
	// ErrNotFound: the object does not exist.
	ErrNotFound = errors.New("no such object")
	// ErrExists: Create found an object of the key.
	ErrExists = errors.New("the object exists")
)

// The schemes of URLs of buckets.
const (
	FileScheme = "file"
	s3Scheme   = "s3"
)

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
}

// Open opens a bucket by its URL, for instance s3://bucket?prefix=hindsight/ or file:///var/backups.
func Open(address string) (Bucket, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", address, err)
	}
	var b Bucket
	switch u.Scheme {
	case FileScheme:
		b, err = openDirectory(DirectoryOf(u))
	case s3Scheme:
		b, err = openS3(u)
	default:
		err = fmt.Errorf("the scheme is %q, want %s or %s", u.Scheme, FileScheme, s3Scheme)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", address, err)
	}
	return b, nil
}

// URL returns a directory as a URL, and a URL unchanged.
func URL(place string) (string, error) {
	if strings.Contains(place, "://") {
		return place, nil
	}
	dir, err := filepath.Abs(place)
	if err != nil {
		return "", fmt.Errorf("directory %s: %w", place, err)
	}
	u := url.URL{Scheme: FileScheme, Path: "/" + strings.TrimPrefix(filepath.ToSlash(dir), "/")}
	return u.String(), nil
}
