package gateway_test

import (
	"bytes"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"

	"hindsight/api/openapi"
	"hindsight/internal/gateway"
)

func TestDescription(t *testing.T) {
	h := serve(t)
	described := h.want(t, "GET", "/openapi.json", "")
	if !bytes.Equal(described.body, openapi.Document()) || described.header.Get("Content-Type") != "application/json" {
		t.Errorf("%d bytes of %s", len(described.body), described.header.Get("Content-Type"))
	}
	a := h.call(t, "HEAD", "/openapi.json", "")
	assert.True(t, a.status == http.StatusOK && len(a.body) == 0, "HEAD: %d", a.status)
}

// With a console its files are at /, beside the calls.
func TestConsole(t *testing.T) {
	h := serve(t, func(o *gateway.Options) {
		o.Console = fstest.MapFS{
			"index.html":       {Data: []byte("<!doctype html><title>console</title>")},
			"favicon.svg":      {Data: []byte("<svg/>")},
			"assets/app-1a.js": {Data: []byte("1")},
		}
	})
	for path, want := range map[string][2]string{
		"/":                 {"text/html", "no-cache"},
		"/favicon.svg":      {"image/svg+xml", "no-cache"},
		"/assets/app-1a.js": {"text/javascript", "public, max-age=31536000, immutable"},
	} {
		a := h.want(t, "GET", path, "")
		if !strings.HasPrefix(a.header.Get("Content-Type"), want[0]) || a.header.Get("Cache-Control") != want[1] ||
			!strings.HasPrefix(a.header.Get("Content-Security-Policy"), "default-src 'self'") {
			t.Errorf("%s: %v", path, a.header)
		}
	}
	for _, path := range []string{"/assets", "/assets/", "/other.js", "/../etc/passwd", "/%2e%2e/x"} {
		a := h.call(t, "GET", path, "")
		assert.True(t, a.status == http.StatusNotFound && a.at("error", "status") == "NOT_FOUND", "%s: %d %s", path, a.status, a.body)
	}
	h.want(t, "GET", "/v1/models", "")
}

// The console is told where gRPC listens; without a console nobody asks.
func TestGRPCAddressOfTheConsole(t *testing.T) {
	const path = "/server.json"
	for want, address := range map[string]net.Addr{
		`{"grpcHost":"127.0.0.1","grpcPort":4321}`: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4321},
		`{"grpcPort":4321}`:                        &net.TCPAddr{IP: net.IPv6unspecified, Port: 4321},
		`{}`:                                       nil,
	} {
		h := serve(t, func(o *gateway.Options) {
			o.Console, o.GRPC = fstest.MapFS{"index.html": {Data: []byte("<!doctype html>")}}, address
		})
		a := h.want(t, "GET", path, "")
		assert.True(t, string(a.body) == want && a.header.Get("Content-Type") == "application/json", "%v: %s %v", address, a.body, a.header)
		a = h.call(t, "POST", path, "")
		assert.EqualValues(t, http.StatusMethodNotAllowed, a.status)
	}
	h := serve(t, func(o *gateway.Options) { o.Console = fstest.MapFS{"index.html": {Data: []byte("<!doctype html>")}} })
	r, w := httptest.NewRequestWithContext(t.Context(), "GET", path, http.NoBody), httptest.NewRecorder()
	r.TLS = &tls.ConnectionState{HandshakeComplete: true}
	h.gateway.ServeHTTP(w, r)
	assert.Equal(t, `{"tls":true}`, w.Body.String(), "with TLS: %s", w.Body)
	assert.EqualValues(t, http.StatusNotFound, serve(t).call(t, "GET", path, "").status)
}

// Pages of other origins may call if they are named, and not otherwise.
func TestOrigins(t *testing.T) {
	named := func(origins ...string) func(*gateway.Options) {
		return func(o *gateway.Options) { o.Origins = origins }
	}
	const page, stranger = "https://page.example", "https://stranger.example"
	for _, c := range []struct {
		what     string
		set      func(*gateway.Options)
		origin   string
		status   int
		allowed  string
		preRight bool
	}{
		{"nobody is named", named(), page, 403, "", false},
		{"it is named", named(page, "http://localhost:1"), page, 200, page, true},
		{"another is named", named(page), stranger, 403, "", false},
		{"all are", named("*"), stranger, 200, "*", true},
	} {
		h := serve(t, c.set)
		a := h.call(t, "POST", "/v1/models", linear("m"), "Origin", c.origin, "Sec-Fetch-Site", "cross-site")
		assert.True(t, a.status == c.status && a.header.Get("Access-Control-Allow-Origin") == c.allowed, "%s: %d %v %s", c.what, a.status, a.header, a.body)
		if c.status == 403 {
			a.rejected(t, c.what, 403, "PERMISSION_DENIED", "CROSS_ORIGIN", "", c.origin)
			h.call(t, "GET", "/v1/models/m", "").rejected(t, c.what, 404, "NOT_FOUND", "MODEL_NOT_FOUND", "", "")
		}
		before := h.call(t, "OPTIONS", "/v1/models", "", "Origin", c.origin,
			"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "content-type")
		right := before.header.Get("Access-Control-Allow-Methods") == "POST" && before.header.Get("Access-Control-Allow-Headers") == "content-type"
		assert.Equal(t, c.preRight, right, "%v %v %v", c.what, before.status, before.header)
	}
	// The page of the server itself, and a program that is no browser.
	h := serve(t)
	a := h.call(t, "POST", "/v1/models", linear("a"), "Origin", h.url, "Sec-Fetch-Site", "same-origin")
	assert.Equal(t, 200, a.status, a.body)
	a = h.call(t, "POST", "/v1/models", linear("b"))
	assert.Equal(t, 200, a.status, a.body)
}

func TestBadOrigin(t *testing.T) {
	_, err := gateway.New(gateway.Options{Origins: []string{"page.example"}})
	assert.True(t, err != nil && strings.Contains(err.Error(), `"page.example"`), "an origin without a scheme: %v", err)
}
