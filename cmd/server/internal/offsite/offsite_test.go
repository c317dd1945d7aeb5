package offsite_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"hindsight/cmd/server/internal/offsite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var created = time.Unix(0, 1234)

func options(keep int) offsite.Options {
	return offsite.Options{Keep: keep, Log: zap.NewNop(), Backoff: time.Second}
}

func closed(t *testing.T, c *offsite.Copier) {
	t.Helper()
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func expect(t *testing.T, c *offsite.Copier, copied, failed int64) {
	t.Helper()
	if s := c.Stats(); s.Copied != copied || s.Failed != failed || s.LastSuccess.IsZero() != (copied == 0) {
		t.Errorf("%+v, want %d copied and %d failed", s, copied, failed)
	}
}

func key(model string, sequence uint64) string {
	return fmt.Sprintf("%s/1234/%020d.hs", model, sequence)
}

func TestCopiesAreFiles(t *testing.T) {
	dir := t.TempDir()
	// Wherever temporary files are, and though nothing can be put there.
	t.Setenv("TMPDIR", filepath.Join(dir, "none"))
	c, err := offsite.Open(t.Context(), "file://"+filepath.ToSlash(dir), options(1))
	if err != nil {
		t.Fatal(err)
	}
	c.Copy("m", created, 7, []byte("seven"))
	c.Copy("a..", created, 8, []byte("eight"))
	closed(t, c)
	expect(t, c, 2, 0)
	if got, err := os.ReadFile(filepath.Join(dir, "m/1234/00000000000000000007.hs")); err != nil || string(got) != "seven" {
		t.Errorf("%q, %v", got, err)
	}
	left := 0
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if !d.IsDir() {
			left++
		} else if path != dir && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is for %v", path, info.Mode())
		}
		return nil
	})
	if err != nil || left != 2 {
		t.Errorf("%d files, %v; want the two copies alone", left, err)
	}
	c.Copy("m", created, 9, nil) // After the end: nothing.
}

func TestBadURL(t *testing.T) {
	for _, url := range []string{
		"", "nowhere", "ftp://host/x", "file:///does/not/exist", "file:///%zz", "s3://bucket?unknown=1", "s3://?region=x",
	} {
		if c, err := offsite.Open(t.Context(), url, options(1)); err == nil {
			t.Errorf("%q opens", url)
			closed(t, c)
		}
	}
}

func TestRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, bucket := newFake(nil)
		others := []string{"m/1234/notes.txt", "m/12345/00000000000000000001.hs"}
		for _, other := range others {
			f.put(other)
		}
		c := offsite.Start(bucket, options(2))
		copies := func(sequence uint64, want ...uint64) {
			t.Helper()
			c.Copy("m", created, sequence, nil)
			synctest.Wait()
			keys := slices.Clone(others)
			for _, s := range want {
				keys = append(keys, key("m", s))
			}
			slices.Sort(keys)
			f.expect(t, keys...)
		}
		copies(100, 100)
		copies(200, 100, 200)
		copies(300, 200, 300)
		// Taken back to 120: what it learns now stays, and so does what was
		// ahead, until it is behind.
		copies(130, 130, 200, 300)
		copies(140, 130, 140, 200, 300)
		copies(150, 140, 150, 200, 300)
		copies(250, 200, 250, 300)
		copies(350, 300, 350)
		closed(t, c)
		expect(t, c, 8, 0)
	})
}

// blocked is a bucket whose first write lasts until release is closed.
func blocked(t *testing.T, o offsite.Options) (*fake, *offsite.Copier, chan struct{}) {
	t.Helper()
	release := make(chan struct{})
	f, bucket := newFake(func(ctx context.Context, _ string) error {
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	c := offsite.Start(bucket, o)
	c.Copy("first", created, 1, nil)
	synctest.Wait()
	return f, c, release
}

func TestNewerTakesThePlaceOfOlder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c, release := blocked(t, options(9))
		for n := range uint64(1000) {
			c.Copy("a", created, n, make([]byte, 1<<20))
			c.Copy("b", created, n, nil)
		}
		close(release)
		closed(t, c)
		f.expect(t, key("a", 999), key("b", 999), key("first", 1))
		expect(t, c, 3, 0)
	})
}

// A burst of small models is copied, of large ones as many as there is room
// for, the newest; one that is larger than all the room is copied too.
func TestWhatWaitsIsBounded(t *testing.T) {
	const mib = 1 << 20
	for name, c := range map[string]struct{ models, bytes, copied int }{
		"small":       {4000, 100, 4000},
		"many":        {5000, 1, 4096},
		"large":       {100, mib, 64},
		"larger":      {3, 40 * mib, 1},
		"beyond room": {2, 100 * mib, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, copier, release := blocked(t, options(1))
				data := make([]byte, c.bytes)
				for n := range c.models {
					copier.Copy(fmt.Sprintf("m%05d", n), created, 1, data)
				}
				close(release)
				closed(t, copier)
				expect(t, copier, int64(c.copied)+1, int64(c.models-c.copied))
				if got := f.keys(); len(got) != c.copied+1 || got[len(got)-1] != key(fmt.Sprintf("m%05d", c.models-1), 1) {
					t.Errorf("%d copies to %s", len(got), got[len(got)-1])
				}
			})
		})
	}
}

// A snapshot that grows in the place of its older does not push itself out.
func TestReplacementDoesNotGiveWayToItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c, release := blocked(t, options(1))
		c.Copy("a", created, 1, nil)
		c.Copy("b", created, 1, make([]byte, 40<<20))
		c.Copy("a", created, 2, make([]byte, 40<<20))
		close(release)
		closed(t, c)
		f.expect(t, key("a", 2), key("first", 1))
		expect(t, c, 2, 1)
	})
}

func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		begin := time.Now()
		f, bucket := newFake(func(context.Context, string) error {
			if at = append(at, time.Since(begin)); len(at) < 5 {
				return errUnreachable
			}
			return nil
		})
		c := offsite.Start(bucket, options(1))
		c.Copy("m", created, 1, nil)
		closed(t, c)
		f.expect(t, key("m", 1))
		expect(t, c, 1, 0)
		for n := 1; n < len(at); n++ {
			wait, backoff := at[n]-at[n-1], time.Second<<(n-1)
			if wait < backoff/2 || wait > backoff*3/2 {
				t.Errorf("retry %d after %v, want about %v", n, wait, backoff)
			}
		}
	})
}

// It is given up without a wait for nothing, and the next is tried anew.
func TestGivesUpAndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		var last time.Time
		f, bucket := newFake(func(_ context.Context, key string) error {
			if strings.HasPrefix(key, "bad") {
				tries++
				last = time.Now()
				return errUnreachable
			}
			if wait := time.Since(last); wait != 0 {
				t.Errorf("%v after the last try", wait)
			}
			return nil
		})
		c := offsite.Start(bucket, options(1))
		c.Copy("bad", created, 1, nil)
		c.Copy("good", created, 1, nil)
		if err := c.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "1 snapshots were not copied") {
			t.Error(err)
		}
		f.expect(t, key("good", 1))
		expect(t, c, 1, 1)
		if tries != 5 {
			t.Errorf("%d tries, want 5", tries)
		}
	})
}

func TestRetryTakesTheNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tried []string
		_, bucket := newFake(func(_ context.Context, key string) error {
			if tried = append(tried, key); len(tried) == 1 {
				return errUnreachable
			}
			return nil
		})
		c := offsite.Start(bucket, options(1))
		c.Copy("m", created, 1, nil)
		synctest.Wait() // It waits for the retry.
		c.Copy("m", created, 2, nil)
		closed(t, c)
		if want := []string{key("m", 1), key("m", 2)}; !slices.Equal(tried, want) {
			t.Errorf("tried %q, want %q", tried, want)
		}
		expect(t, c, 1, 0)
	})
}

func TestAnUploadHasItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		_, bucket := newFake(func(ctx context.Context, _ string) error {
			<-ctx.Done()
			return ctx.Err()
		})
		c := offsite.Start(bucket, options(1))
		c.Copy("m", created, 1, nil)
		if err := c.Close(t.Context()); err == nil {
			t.Error("a bucket that never answers is no error")
		}
		expect(t, c, 0, 1)
		if took := time.Since(begin); took < 10*time.Minute || took > 11*time.Minute {
			t.Errorf("given up after %v", took)
		}
	})
}

// Close returns at the end of its context, in an upload as in a wait.
func TestCloseGivesUp(t *testing.T) {
	for name, write := range map[string]func(context.Context, string) error{
		"in an upload": func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() },
		"in a wait":    func(context.Context, string) error { return errUnreachable },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, bucket := newFake(write)
				o := options(1)
				o.Backoff = time.Hour
				c := offsite.Start(bucket, o)
				for n := range 7 {
					c.Copy(fmt.Sprint("m", n), created, 1, nil)
				}
				begin := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				if err := c.Close(ctx); err == nil || !strings.Contains(err.Error(), "7 snapshots were not copied") {
					t.Error(err)
				}
				if took := time.Since(begin); took != 3*time.Second {
					t.Errorf("closed after %v", took)
				}
				expect(t, c, 0, 7)
			})
		})
	}
}

// An unreachable bucket does not fill the log: ten lines a minute.
func TestLogIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.DebugLevel)
		_, bucket := newFake(func(context.Context, string) error { return errUnreachable })
		o := offsite.Options{Keep: 1, Log: zap.New(core), Backoff: time.Nanosecond}
		c := offsite.Start(bucket, o)
		for n := range 1000 {
			c.Copy(fmt.Sprint("m", n), created, 1, nil)
		}
		synctest.Wait()
		time.Sleep(time.Second) // Of the bubble's clock.
		expect(t, c, 0, 1000)
		if n := logs.Len(); n != 10 {
			t.Errorf("%d lines of 1000 failures, want 10", n)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// server speaks as much of S3 as is asked of it. Objects that it lists are
// described by the text.
func server(t *testing.T, description string) (bucketURL string, asked func() []string) {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	var got []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got = append(got, fmt.Sprintf("%s %s %s", r.Method, r.URL.Path, body))
		switch r.Method {
		case http.MethodGet:
			_, err := fmt.Fprintf(w, "<ListBucketResult><Contents><Key>p/%s</Key>%s</Contents><Contents><Key>p/%s</Key>%[2]s</Contents></ListBucketResult>",
				key("m", 1), description, key("m", 2))
			if err != nil {
				t.Error(err)
			}
		case http.MethodPut:
			if r.Header.Get("X-Amz-Checksum-Crc32") == "" {
				t.Error("no checksum")
			}
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	}))
	t.Cleanup(s.Close)
	return "s3://bucket?prefix=p/&region=r&use_path_style=true&endpoint=" + s.URL, func() []string { return got }
}

func TestS3(t *testing.T) {
	put, list := "PUT /bucket/p/"+key("m", 2)+" two", "GET /bucket "
	for name, tt := range map[string]struct {
		description string
		asked       []string
	}{
		"proper": {
			`<Size>3</Size><ETag>"0"</ETag><LastModified>2026-01-01T00:00:00.000Z</LastModified>`,
			[]string{put, list, "HEAD /bucket/p/" + key("m", 1) + " ", "DELETE /bucket/p/" + key("m", 1) + " "},
		},
		// The driver panics.
		"brief": {"", []string{put, list}},
	} {
		t.Run(name, func(t *testing.T) {
			url, asked := server(t, tt.description)
			c, err := offsite.Open(t.Context(), url, options(1))
			if err != nil {
				t.Fatal(err)
			}
			c.Copy("m", created, 2, []byte("two"))
			closed(t, c)
			expect(t, c, 1, 0)
			if got := asked(); !slices.Equal(got, tt.asked) {
				t.Errorf("asked %q, want %q", got, tt.asked)
			}
		})
	}
}
