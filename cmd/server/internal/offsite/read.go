package offsite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"hindsight/cmd/server/internal/bucket"
)

// registryKey is that of the registry. No model has an id that begins so.
const registryKey = "_registry.json"

// PutRegistry writes the registry in place of the one before. It is not tried again.
func (c *Copier) PutRegistry(ctx context.Context, data []byte) (err error) {
	defer bucket.Contain(&err)
	ctx, cancel := context.WithTimeout(ctx, uploadTimeout)
	defer cancel()
	if err := c.bucket.WriteAll(ctx, registryKey, data, &blob.WriterOptions{ContentType: "application/json"}); err != nil {
		return fmt.Errorf("offsite: write %s: %w", registryKey, err)
	}
	return nil
}

// Reader reads what a copier wrote.
type Reader struct {
	bucket *blob.Bucket
	copies map[Model][]found
}

// Model is a model of which there are copies.
type Model struct {
	ID string
	// Created is when it was made, in nanoseconds since 1970.
	Created int64
}

type found struct {
	key     string
	written time.Time
}

// NewReader opens a bucket and lists what is in it.
func NewReader(ctx context.Context, bucketURL string) (_ *Reader, err error) {
	defer bucket.Contain(&err)
	b, err := bucket.Open(ctx, bucketURL)
	if err != nil {
		return nil, fmt.Errorf("offsite: %w", err)
	}
	r := &Reader{bucket: b, copies: map[Model][]found{}}
	for list := b.List(nil); ; {
		object, err := list.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("offsite: list: %w", err), b.Close())
		}
		if m, ok := parse(object.Key); ok {
			r.copies[m] = append(r.copies[m], found{object.Key, object.ModTime})
		}
	}
	for _, copies := range r.copies {
		// After a RestoreModel the newest copy is the one that was written last.
		slices.SortFunc(copies, func(a, b found) int {
			return cmp.Or(b.written.Compare(a.written), cmp.Compare(b.key, a.key))
		})
	}
	return r, nil
}

// parse takes the key of a copy apart.
func parse(key string) (m Model, ok bool) {
	parts := strings.Split(key, "/")
	if len(parts) != 3 || !strings.HasSuffix(parts[2], ".hs") {
		return m, false
	}
	created, err := strconv.ParseInt(parts[1], 10, 64)
	return Model{parts[0], created}, err == nil
}

// Close closes the bucket.
func (r *Reader) Close() error {
	if err := r.bucket.Close(); err != nil {
		return fmt.Errorf("offsite: close: %w", err)
	}
	return nil
}

// Models are the models of which there are copies, in their order.
func (r *Reader) Models() []Model {
	out := make([]Model, 0, len(r.copies))
	for m := range r.copies {
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b Model) int { return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Created, b.Created)) })
	return out
}

// Registry is the registry; nil if there is none.
func (r *Reader) Registry(ctx context.Context) (_ []byte, err error) {
	defer bucket.Contain(&err)
	data, err := r.bucket.ReadAll(ctx, registryKey)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("offsite: read %s: %w", registryKey, err)
	}
	return data, nil
}

// Copies gives the copies of a model, the newest first, until f answers false.
func (r *Reader) Copies(ctx context.Context, m Model, f func(data []byte) (more bool)) (err error) {
	defer bucket.Contain(&err)
	for _, c := range r.copies[m] {
		data, err := r.bucket.ReadAll(ctx, c.key)
		if err != nil {
			return fmt.Errorf("offsite: read %s: %w", c.key, err)
		}
		if !f(data) {
			return nil
		}
	}
	return nil
}
