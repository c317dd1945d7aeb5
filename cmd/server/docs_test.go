package main_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The pages of --docs-dir are below /docs, beside all else that the port has.
func TestDocumentation(t *testing.T) {
	site := t.TempDir()
	if err := os.WriteFile(filepath.Join(site, "index.html"), []byte("the first page"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := launch(t, t.TempDir(), "--docs-dir", site)
	for address, want := range map[string]string{
		"/docs": "the first page", "/docs/": "the first page", "/docs/none.html": "not found", "/readyz": "ready", "/v1/models": `"models"`,
		"/server.json": `"docs":true`,
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.http+address, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		if err := answer.Body.Close(); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(body), want) {
			t.Errorf("%s: %d %q, want %q", address, answer.StatusCode, body, want)
		}
	}
	p.terminate(t)
}
