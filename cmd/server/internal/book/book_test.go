package book_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hindsight/cmd/server/internal/book"
)

// site makes a directory with files and returns it.
func site(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestHandler(t *testing.T) {
	dir := site(t, map[string]string{
		"site/index.html": "first page", "site/adr/index.html": "decisions", "site/images/a.svg": "<svg/>",
		"site/search.json": strings.Repeat("words ", 1000), "secret": "secret",
	})
	handler, err := book.Handler(filepath.Join(dir, "site"))
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET "+book.Path, handler)
	for _, c := range []struct {
		path   string
		status int
		body   string
	}{
		{"/docs/", 200, "first page"},
		{"/docs/adr/", 200, "decisions"},
		{"/docs/images/a.svg", 200, "<svg/>"},
		{"/docs", 307, "/docs/"},
		{"/docs/adr", 301, "adr/"},
		{"/docs/images/", 404, "not found"},
		{"/docs/none.html", 404, "not found"},
		{"/docs/..%2fsecret", 404, "not found"},
		{"/docs/%2e%2e/secret", 404, "not found"},
	} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, c.path, http.NoBody))
		body := w.Body.String() + w.Header().Get("Location")
		if w.Code != c.status || !strings.Contains(body, c.body) || strings.Contains(w.Body.String(), "secret\n") {
			t.Errorf("%s: %d %q, want %d %q", c.path, w.Code, body, c.status, c.body)
		}
		if strings.HasSuffix(c.path, "/") && !strings.Contains(w.Header().Get("Content-Security-Policy"), "script-src 'self'") {
			t.Errorf("%s: headers %v", c.path, w.Header())
		}
	}
}

// A large file is compressed for who takes it.
func TestCompression(t *testing.T) {
	text := strings.Repeat("words ", 1000)
	handler, err := book.Handler(site(t, map[string]string{"index.html": "", "search.json": text}))
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/docs/search.json", http.NoBody)
	r.Header.Set("Accept-Encoding", "gzip")
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	if w.Body.Len() > len(text)/10 {
		t.Errorf("%d bytes of %d", w.Body.Len(), len(text))
	}
	plain, err := gzip.NewReader(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(plain); err != nil || string(got) != text {
		t.Errorf("%v, %d bytes", err, len(got))
	}
}

// A directory that is no site is refused at the start.
func TestNoSite(t *testing.T) {
	for _, files := range []map[string]string{nil, {"index.html/x": ""}} {
		if _, err := book.Handler(site(t, files)); err == nil || !strings.Contains(err.Error(), "make docs") {
			t.Errorf("%v: error %v", files, err)
		}
	}
}
