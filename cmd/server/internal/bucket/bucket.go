// Package bucket opens object stores.
package bucket

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	_ "gocloud.dev/blob/s3blob" // It opens s3:// URLs.
)

// Open opens a bucket by its URL, for instance s3://bucket?prefix=hindsight/ or
// file:///var/backups.
//
// Open completes a file:// URL: temporary files are made beside the objects, because
// renaming from os.TempDir fails across file systems; only the server's user may
// read the objects; no files of attributes are written.
func Open(ctx context.Context, bucketURL string) (*blob.Bucket, error) {
	u, err := url.Parse(bucketURL)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", bucketURL, err)
	}
	if u.Scheme == fileblob.Scheme {
		query := u.Query()
		for name, standard := range map[string]string{"no_tmp_dir": "true", "metadata": "skip", "dir_file_mode": "0700"} {
			if !query.Has(name) {
				query.Set(name, standard)
			}
		}
		u.RawQuery = query.Encode()
	}
	b, err := blob.OpenBucket(ctx, u.String())
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", bucketURL, err)
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
	u := url.URL{Scheme: fileblob.Scheme, Path: "/" + strings.TrimPrefix(filepath.ToSlash(dir), "/")}
	return u.String(), nil
}

// Contain turns a panic of a driver into an error. The driver of S3 panics over a listed object
// without a size.
func Contain(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the bucket's driver panicked: %v", p)
	}
}
