// Package book serves the documentation that make docs writes.
package book

import (
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strings"

	"github.com/klauspost/compress/gzhttp"
)

// Path is the path of the pages.
const Path = "/docs/"

// policy limits pages to requests to this host. Pages have no inline script or style.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Handler answers requests below Path with the files of a directory. The directory must have
// an index.html. Its files may be replaced while the server runs.
func Handler(dir string) (http.Handler, error) {
	site := os.DirFS(dir)
	if info, err := fs.Stat(site, "index.html"); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s has no index.html: it is not what make docs writes", dir)
	}
	files := http.FileServerFS(site)
	pages := http.StripPrefix(strings.TrimSuffix(Path, "/"), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", policy)
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Cache-Control", "no-cache")
		if name := strings.TrimPrefix(r.URL.Path, "/"); strings.HasSuffix(name, "/") {
			// The file server would list a directory without an index.
			if _, err := fs.Stat(site, name+"index.html"); err != nil {
				http.NotFound(w, r)
				return
			}
		}
		files.ServeHTTP(w, r)
	}))
	compress, err := gzhttp.NewWrapper()
	if err != nil {
		return nil, fmt.Errorf("compression of the documentation: %w", err)
	}
	return compress(pages), nil
}
