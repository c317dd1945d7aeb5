package offsite_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"gocloud.dev/blob/memblob"

	"hindsight/cmd/server/internal/offsite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var created = time.Unix(0, 1234)

func options(keep int) offsite.Options {
	return offsite.Options{Keep: keep, Log: zap.NewNop(), Backoff: time.Millisecond}
}

func closed(t *testing.T, c *offsite.Copier) {
	t.Helper()
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestCopiesAreFiles(t *testing.T) {
	dir := t.TempDir()
	c, err := offsite.Open(t.Context(), "file://"+filepath.ToSlash(dir), options(2))
	if err != nil {
		t.Fatal(err)
	}
	for n := range uint64(4) {
		c.Copy("m", created, n, []byte(fmt.Sprint("data ", n)))
		for c.Stats().Copied != int64(n+1) {
			time.Sleep(time.Millisecond)
		}
	}
	c.Copy("other", created, 7, []byte("x"))
	closed(t, c)
	for name, want := range map[string]string{
		"m/1234/00000000000000000002.hs": "data 2", "m/1234/00000000000000000003.hs": "data 3",
		"other/1234/00000000000000000007.hs": "x",
	} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "m/1234/00000000000000000001.hs")); err == nil {
		t.Error("an old copy is left")
	}
	if s := c.Stats(); s.Copied != 5 || s.Failed != 0 || s.LastSuccess.IsZero() {
		t.Errorf("%+v", s)
	}
	c.Copy("m", created, 9, nil) // After the end: nothing.
}

func TestBadURL(t *testing.T) {
	for _, url := range []string{"", "nowhere", "ftp://host/x", "file:///does/not/exist"} {
		if c, err := offsite.Open(t.Context(), url, options(1)); err == nil {
			t.Errorf("%q opens", url)
			closed(t, c)
		}
	}
}

// A bucket that cannot be written is tried again, then given up; meanwhile the
// newest snapshot of a model takes the place of an older, and of too many
// models the first gives way. Nothing blocks.
func TestBucketThatFails(t *testing.T) {
	bucket := memblob.OpenBucket(nil)
	if err := bucket.Close(); err != nil { // Whatever is done to it fails.
		t.Fatal(err)
	}
	o := options(1)
	o.Backoff = 20 * time.Millisecond
	c := offsite.Start(bucket, o)
	for n := range 40 {
		c.Copy(fmt.Sprint("m", n%20), created, uint64(n), nil)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := c.Close(ctx); err == nil {
		t.Error("closing a closed bucket is no error")
	}
	if s := c.Stats(); s.Copied != 0 || s.Failed < 20 {
		t.Errorf("%+v", s)
	}
}

func TestCloseCopiesWhatWaits(t *testing.T) {
	bucket := memblob.OpenBucket(nil)
	c := offsite.Start(bucket, options(1))
	want := bytes.Repeat([]byte("s"), 1<<20)
	for n := range 10 {
		c.Copy(fmt.Sprint("m", n), created, 1, want)
	}
	read := make(chan error, 1)
	go func() {
		for c.Stats().Copied != 10 {
			time.Sleep(time.Millisecond)
		}
		got, err := bucket.ReadAll(context.WithoutCancel(t.Context()), "m9/1234/00000000000000000001.hs")
		if err == nil && !bytes.Equal(got, want) {
			err = fmt.Errorf("%d bytes", len(got))
		}
		read <- err
	}()
	if err := <-read; err != nil {
		t.Error(err)
	}
	closed(t, c)
}
