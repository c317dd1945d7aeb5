package offsite_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"gocloud.dev/blob"
	"gocloud.dev/blob/driver"
	"gocloud.dev/gcerrors"
)

var errUnreachable = errors.New("unreachable")

// fake is a bucket that asks before it writes, and keeps the keys.
type fake struct {
	driver.Bucket // Nothing else is called.
	// write is asked at every write, in which it may block; nil allows all.
	write func(ctx context.Context, key string) error
	mu    struct {
		sync.Mutex
		// folders hold keys by what they begin with, up to the last slash.
		folders map[string]map[string]bool
	}
}

func newFake(write func(ctx context.Context, key string) error) (*fake, *blob.Bucket) {
	f := &fake{write: write}
	f.mu.folders = map[string]map[string]bool{}
	return f, blob.NewBucket(f)
}

// keys are those of all objects, sorted.
func (f *fake) keys() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var keys []string
	for _, folder := range f.mu.folders {
		keys = slices.AppendSeq(keys, maps.Keys(folder))
	}
	slices.Sort(keys)
	return keys
}

func folder(key string) string { return key[:strings.LastIndexByte(key, '/')+1] }

func (f *fake) put(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.folders[folder(key)] == nil {
		f.mu.folders[folder(key)] = map[string]bool{}
	}
	f.mu.folders[folder(key)][key] = true
}

func (f *fake) expect(t *testing.T, keys ...string) {
	t.Helper()
	if got := f.keys(); !slices.Equal(got, keys) {
		t.Errorf("the bucket has %q, want %q", got, keys)
	}
}

func (f *fake) NewTypedWriter(ctx context.Context, key, _ string, _ *driver.WriterOptions) (driver.Writer, error) {
	return &writing{fake: f, key: key, allowed: func() error {
		if f.write == nil {
			return nil
		}
		return f.write(ctx, key)
	}}, nil
}

type writing struct {
	fake    *fake
	key     string
	allowed func() error
}

func (*writing) Write(p []byte) (int, error) { return len(p), nil }

func (w *writing) Close() error {
	if err := w.allowed(); err != nil {
		return err
	}
	w.fake.put(w.key)
	return nil
}

func (f *fake) ListPaged(_ context.Context, o *driver.ListOptions) (*driver.ListPage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	page := new(driver.ListPage)
	for key := range f.mu.folders[o.Prefix] { // In no order.
		page.Objects = append(page.Objects, &driver.ListObject{Key: key})
	}
	return page, nil
}

func (f *fake) Delete(_ context.Context, key string, _ *driver.DeleteOptions) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.mu.folders[folder(key)], key)
	return nil
}

func (*fake) ErrorCode(error) gcerrors.ErrorCode { return gcerrors.Unknown }
func (*fake) ErrorAs(error, any) bool            { return false }
func (*fake) As(any) bool                        { return false }
func (*fake) Close() error                       { return nil }
