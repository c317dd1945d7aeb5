package gateway

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"net"
	"net/http"
	"path"
	"strings"
	"time"

	"hindsight/internal/auth"
	"hindsight/api/openapi"
)

// What pages may do: ask this host for scripts, styles and answers. The pages that this
// package makes have no script.
const (
	consolePolicy = "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	pagePolicy    = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

// pages answers what is no call: the description of the API, the page that shows it,
// and the console at /. Without a console the page of the API is at / too.
func (g *Gateway) pages(calls http.Handler) http.Handler {
	console := http.Handler(nil)
	if g.Console != nil {
		console = http.FileServerFS(g.Console)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		switch {
		case isCall(r.URL.Path):
			_ = http.NewResponseController(w).SetWriteDeadline(g.Now().Add(answerTimeout)) // Only a writer of a test has none.
			calls.ServeHTTP(w, r)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			g.notAPage(w, r)
		case r.URL.Path == "/openapi.json":
			file(w, r, contentJSON, openapi.Document())
		case r.URL.Path == "/api", r.URL.Path == "/" && console == nil:
			w.Header().Set("Content-Security-Policy", pagePolicy)
			file(w, r, "text/html; charset=utf-8", g.page)
		case r.URL.Path == serverPath && console != nil:
			file(w, r, contentJSON, g.about(r))
		case r.URL.Path == "/api/page.css":
			http.ServeFileFS(w, r, pageFiles, "page/page.css")
		case g.isConsole(r.URL.Path):
			w.Header().Set("Content-Security-Policy", consolePolicy)
			w.Header().Set("Referrer-Policy", "no-referrer")
			w.Header().Set("Cache-Control", "no-cache")
			if strings.HasPrefix(r.URL.Path, "/assets/") { // Their names change with what is in them.
				w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
			}
			console.ServeHTTP(w, r)
		default:
			g.write(w, g.notFound(r))
		}
	})
}

// isCall tells whether a path is one of the API's.
func isCall(path string) bool { return strings.HasPrefix(path, "/v1/") }

// about is what the console is told of the server: its gRPC address, whose host is empty
// if the server listens on all of them, whether its ports have TLS, whether it needs a
// token, and who is signed in.
func (g *Gateway) about(r *http.Request) []byte {
	about := struct {
		Host   string    `json:"grpcHost,omitempty"`
		Port   int       `json:"grpcPort,omitempty"`
		TLS    bool      `json:"tls,omitempty"`
		Tokens bool      `json:"tokens,omitempty"`
		Signed *signedIn `json:"signedIn,omitempty"`
	}{TLS: r.TLS != nil, Tokens: g.Guard.on()}
	if p := auth.FromContext(r.Context()); p != nil {
		about.Signed = &signedIn{Name: p.Name, Role: p.Role.String(), Models: p.Models}
	}
	if a, ok := g.GRPC.(*net.TCPAddr); ok {
		about.Port = a.Port
		if !a.IP.IsUnspecified() {
			about.Host = a.IP.String()
		}
	}
	text, err := json.Marshal(about)
	if err != nil {
		panic("gateway: " + err.Error()) // A text and a number are JSON.
	}
	return text
}

// notAPage refuses what changes something at the address of a page.
func (g *Gateway) notAPage(w http.ResponseWriter, r *http.Request) {
	switch p := r.URL.Path; {
	case p == "/", p == "/openapi.json", p == "/api", p == "/api/page.css", p == serverPath && g.Console != nil, g.isConsole(p):
		g.write(w, methodNotAllowed(w, r, []string{http.MethodGet, http.MethodHead}))
	default:
		g.write(w, g.notFound(r))
	}
}

// isConsole tells whether a path is a file of the console.
func (g *Gateway) isConsole(name string) bool {
	if g.Console == nil {
		return false
	}
	name = strings.TrimPrefix(name, "/")
	if name == "" {
		return true
	}
	info, err := fs.Stat(g.Console, path.Clean(name))
	return err == nil && info.Mode().IsRegular()
}

// file answers a file of the program, which changes with the program alone.
func file(w http.ResponseWriter, r *http.Request, kind string, data []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-cache")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}
