package gateway

import (
	"bytes"
	"io/fs"
	"net"
	"net/http"
	"path"
	"strings"
	"time"

	"hindsight/api/openapi"
	"hindsight/internal/auth"
)

// Pages load scripts, styles and data from this host alone.
const consolePolicy = "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// serve answers a call of the API, or a page: the description of the API, or the console at /.
func (g *Gateway) serve(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	switch isRead := r.Method == http.MethodGet || r.Method == http.MethodHead; {
	case isCall(path):
		_ = http.NewResponseController(w).SetWriteDeadline(g.Now().Add(answerTimeout)) // Only a writer of a test has none.
		c, err := g.callOf(w, r)
		if err == nil {
			err = c.handle(w, r, c)
		}
		if err != nil {
			g.write(w, err)
		}
	case !isRead && g.isPage(path):
		g.write(w, methodNotAllowed(w, r, []string{http.MethodGet, http.MethodHead}))
	case !isRead:
		g.write(w, g.notFound(r))
	case path == "/openapi.json":
		file(w, r, contentJSON, openapi.Document())
	case path == serverPath && g.Console != nil:
		file(w, r, contentJSON, g.about(r))
	case g.isConsole(path):
		w.Header().Set("Content-Security-Policy", consolePolicy)
		w.Header().Set("Referrer-Policy", "no-referrer")
		w.Header().Set("Cache-Control", "no-cache")
		if strings.HasPrefix(path, "/assets/") { // The name of an asset changes with its content.
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		}
		http.FileServerFS(g.Console).ServeHTTP(w, r)
	default:
		g.write(w, g.notFound(r))
	}
}

func (g *Gateway) isPage(path string) bool {
	switch path {
	case "/openapi.json":
		return true
	case serverPath:
		return g.Console != nil
	}
	return g.isConsole(path)
}

func isCall(path string) bool { return strings.HasPrefix(path, "/v1/") }

// about describes the server to the console: its gRPC address, whose host is empty if the
// server listens on all addresses, whether its ports have TLS, whether it needs a token,
// and who is signed in.
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
	return asJSON(about)
}

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

func file(w http.ResponseWriter, r *http.Request, kind string, data []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-cache")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}
