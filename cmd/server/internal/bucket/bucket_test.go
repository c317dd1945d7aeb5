package bucket_test

import (
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/cmd/server/internal/bucket"
)

// server imitates the part of S3 that a bucket uses, by path. It lists two objects a page.
type server struct {
	mu struct {
		sync.Mutex
		objects map[string][]byte
		parts   map[string][]byte
		reject  bool
	}
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	sum := md5.Sum(body)
	key, query := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/bucket"), "/"), r.URL.Query()
	answer := func(code int, name string) {
		w.WriteHeader(code)
		_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code><Message>said by the server</Message></Error>", name)
	}
	part := query.Get("partNumber")
	data, exists := s.mu.objects[key]
	switch {
	case err != nil:
		return
	case s.mu.reject || !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=id/"):
		answer(http.StatusForbidden, "SignatureDoesNotMatch")
	case r.Method == http.MethodPut && r.Header.Get("Content-Md5") != base64.StdEncoding.EncodeToString(sum[:]):
		answer(http.StatusBadRequest, "BadDigest")
	case r.Method == http.MethodPut && part != "":
		s.mu.parts[part] = body
		w.Header().Set("ETag", `"`+part+`"`)
	case r.Method == http.MethodPut && exists && r.Header.Get("If-None-Match") == "*":
		answer(http.StatusPreconditionFailed, "PreconditionFailed")
	case r.Method == http.MethodPut:
		s.mu.objects[key] = body
	case r.Method == http.MethodPost && query.Has("uploads"):
		_, _ = io.WriteString(w, "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>")
	case r.Method == http.MethodPost:
		s.mu.objects[key] = nil
		for n := range len(s.mu.parts) {
			s.mu.objects[key] = append(s.mu.objects[key], s.mu.parts[strconv.Itoa(n+1)]...)
		}
		_, _ = io.WriteString(w, "<CompleteMultipartUploadResult><Bucket>bucket</Bucket></CompleteMultipartUploadResult>")
	case r.Method == http.MethodDelete && query.Has("uploadId"):
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodDelete:
		delete(s.mu.objects, key)
		w.WriteHeader(http.StatusNoContent)
	case key == "":
		s.list(w, query.Get("prefix"), query.Get("delimiter"), query.Get("continuation-token"))
	case exists:
		w.Header().Set("Last-Modified", time.Unix(0, 0).UTC().Format(http.TimeFormat))
		_, _ = w.Write(data)
	default:
		answer(http.StatusNotFound, "NoSuchKey")
	}
}

// list answers a page of a list, from behind a key.
func (s *server) list(w io.Writer, prefix, delimiter, after string) {
	entries := map[string]string{}
	for key, data := range s.mu.objects {
		rest, ok := strings.CutPrefix(key, prefix)
		if !ok {
			continue
		}
		if top, _, found := strings.Cut(rest, delimiter); delimiter != "" && found {
			entries[prefix+top+"/"] = "<CommonPrefixes><Prefix>" + prefix + top + "/</Prefix></CommonPrefixes>"
		} else {
			entries[key] = fmt.Sprintf("<Contents><Key>%s</Key><Size>%d</Size></Contents>", key, len(data))
		}
	}
	var keys []string
	for key := range entries {
		if key > after {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	page := keys[:min(2, len(keys))]
	_, _ = fmt.Fprintf(w, "<ListBucketResult><IsTruncated>%t</IsTruncated>", len(page) < len(keys))
	for _, key := range page {
		_, _ = io.WriteString(w, entries[key])
	}
	if len(page) < len(keys) {
		_, _ = fmt.Fprintf(w, "<NextContinuationToken>%s</NextContinuationToken>", page[1])
	}
	_, _ = io.WriteString(w, "</ListBucketResult>")
}

// openS3 opens a bucket of a new server.
func openS3(t *testing.T) (*server, bucket.Bucket) {
	t.Helper()
	s := &server{}
	s.mu.objects, s.mu.parts = map[string][]byte{}, map[string][]byte{}
	listener := httptest.NewServer(s)
	t.Cleanup(listener.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	b, err := bucket.Open("s3://bucket?region=r&use_path_style=true&prefix=p/&endpoint=" + listener.URL)
	require.NoError(t, err)
	return s, b
}

func openDirectory(t *testing.T) bucket.Bucket {
	t.Helper()
	b, err := bucket.Open(t.TempDir())
	require.NoError(t, err)
	return b
}

// The two kinds of buckets do the same. The large object takes two parts in S3.
func TestBuckets(t *testing.T) {
	t.Run("directory", func(t *testing.T) { testBucket(t, openDirectory(t)) })
	t.Run("s3", func(t *testing.T) {
		_, b := openS3(t)
		testBucket(t, b)
	})
}

func testBucket(t *testing.T, b bucket.Bucket) {
	t.Helper()
	large := bytes.Repeat([]byte("0123456789abcdef"), 20<<20/16)
	objects := map[string][]byte{"objects/aa/1": []byte("one"), "objects/aa/2": {}, "objects/b": large, "backups/x.json": []byte("{}"), "group-7/objects/a": []byte("a")}
	for key, data := range objects {
		require.NoError(t, b.Write(t.Context(), key, &plain{bytes.NewReader(data)}, int64(len(data))), key)
	}
	for key, data := range objects {
		from, err := b.Read(t.Context(), key)
		require.NoError(t, err, key)
		got, err := io.ReadAll(from)
		if err := errors.Join(err, from.Close()); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: %d bytes, %v, want %d", key, len(got), err, len(data))
		}
	}
	listed := func(prefix string) (out []string) {
		t.Helper()
		assert.NoError(t, b.Each(t.Context(), prefix, func(o bucket.Object) { out = append(out, fmt.Sprint(o.Key, " ", o.Size)) }))
		slices.Sort(out)
		return out
	}
	if got, want := listed("objects/"), []string{"objects/aa/1 3", "objects/aa/2 0", fmt.Sprint("objects/b ", len(large))}; !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
	assert.Nil(t, listed("none/"))
	got, err := b.Prefixes(t.Context(), "group-")
	assert.True(t, err == nil && slices.Equal(got, []string{"group-7/"}), "prefixes %q, %v", got, err)
	assert.ErrorIs(t, b.Create(t.Context(), "backups/x.json", strings.NewReader("no"), 2), bucket.ErrExists)
	assert.NoError(t, b.Create(t.Context(), "backups/y.json", strings.NewReader("{}"), 2))
	failure := errors.New("changed")
	for _, size := range []int64{2, int64(len(large))} {
		assert.ErrorIs(t, b.Write(t.Context(), "objects/c", io.MultiReader(bytes.NewReader(large[:size/2]), &broken{failure}), size), failure)
	}
	for range 2 { // The second time nothing is left.
		assert.NoError(t, b.Delete(t.Context(), "objects/aa/1"))
	}
	for _, key := range []string{"objects/aa/1", "objects/c"} {
		_, err := b.Read(t.Context(), key)
		assert.ErrorIs(t, err, bucket.ErrNotFound, key)
	}
	assert.Len(t, listed("objects/"), 2)
}

// plain hides all but Read.
type plain struct{ io.Reader }

type broken struct{ err error }

func (b *broken) Read([]byte) (int, error) { return 0, b.err }

// Rejected and missing credentials are named.
func TestS3Credentials(t *testing.T) {
	s, b := openS3(t)
	s.mu.Lock()
	s.mu.reject = true
	s.mu.Unlock()
	check := func(b bucket.Bucket, want string) {
		t.Helper()
		_, read := b.Read(t.Context(), "a")
		for _, err := range []error{
			b.Each(t.Context(), "", func(bucket.Object) {}), read,
			b.Write(t.Context(), "a", strings.NewReader("a"), 1), b.Delete(t.Context(), "a"),
		} {
			assert.True(t, err != nil && strings.Contains(err.Error(), want), "%v, want %q", err, want)
		}
	}
	check(b, "said by the server")
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY", "AWS_SECRET_KEY"} {
		t.Setenv(name, "")
	}
	none := filepath.Join(t.TempDir(), "none")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", none)
	t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", none) // Otherwise the machine is asked for its role.
	if b, err := bucket.Open("s3://bucket?region=r&use_path_style=true&endpoint=http://127.0.0.1:1"); err != nil {
		t.Error(err)
	} else {
		check(b, "no credentials of AWS")
	}
	const profile = "[other]\naws_access_key_id = id\naws_secret_access_key = secret\n"
	require.NoError(t, os.WriteFile(none, []byte(profile), 0o600))
	listener := httptest.NewServer(s)
	defer listener.Close()
	s.mu.Lock()
	s.mu.reject = false
	s.mu.Unlock()
	b, err := bucket.Open("s3://bucket?region=r&use_path_style=true&profile=other&endpoint=" + listener.URL)
	if err == nil {
		err = b.Delete(t.Context(), "a")
	}
	assert.NoError(t, err)
}

func TestOpenRejectsURLs(t *testing.T) {
	for address, want := range map[string]string{
		"ftp://host/dir":                  `the scheme is "ftp", want file or s3`,
		"s3://":                           "want s3://BUCKET",
		"s3://bucket/dir":                 "want s3://BUCKET",
		"s3://bucket?regoin=r":            `unknown parameter "regoin", want prefix, region`,
		"s3://bucket?use_path_style=yes":  `use_path_style is "yes", want true or false`,
		"s3://bucket?endpoint=host:9000":  "want http://HOST or https://HOST",
		"file:///none/hindsight":          "no such file",
		"file://" + os.Args[0]:            "is a file, want a directory",
		"s3://bucket?endpoint=http://h/p": "want http://HOST or https://HOST",
	} {
		_, err := bucket.Open(address)
		assert.True(t, err != nil && strings.Contains(err.Error(), want), "%s: %v, want %q", address, err, want)
	}
}
