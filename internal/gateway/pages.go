package gateway

import (
	"net/http"
	"strings"
)

// pages answers what is no call: the console, and what is nowhere.
func (g *Gateway) pages(calls http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if strings.HasPrefix(r.URL.Path, "/v1/") {
			calls.ServeHTTP(w, r)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			write(w, notFound(r))
			return
		}
		if g.Console != nil {
			http.FileServerFS(g.Console).ServeHTTP(w, r)
			return
		}
		write(w, notFound(r))
	})
}
