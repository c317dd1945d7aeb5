package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"hindsight/internal/gateway"
)

// A name that another may let point to this machine is rejected, whatever the page says of
// its origin; addresses, localhost and the hosts of named origins are not.
func TestOwnHosts(t *testing.T) {
	answered := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	origins := []string{"https://Console.example:8443"}
	for host, want := range map[string]int{
		"localhost:9464": http.StatusNoContent, "LOCALHOST": http.StatusNoContent, "localhost.:9464": http.StatusNoContent,
		"app.localhost:9464": http.StatusNoContent, "127.0.0.1:9464": http.StatusNoContent, "127.0.0.1": http.StatusNoContent,
		"[::1]:9464": http.StatusNoContent, "[::1]": http.StatusNoContent, "": http.StatusNoContent,
		"console.example": http.StatusNoContent, "CONSOLE.example:8443": http.StatusNoContent,
		"evil.example:9464": http.StatusForbidden, "evil.example": http.StatusForbidden, "notlocalhost": http.StatusForbidden,
		"localhost.evil.example:9464": http.StatusForbidden, "127.0.0.1.evil.example": http.StatusForbidden,
		"127.1": http.StatusForbidden, "x.console.example": http.StatusForbidden, "localhost:9464:1": http.StatusForbidden,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/models", http.NoBody)
		r.Host = host
		r.Header.Set("Origin", "http://"+host)
		w := httptest.NewRecorder()
		gateway.OwnHosts(origins, answered).ServeHTTP(w, r)
		assert.True(t, w.Code == want && (want != http.StatusForbidden || strings.Contains(w.Body.String(), "CROSS_ORIGIN")), "host %q: %d %s, want %d", host, w.Code, w.Body, want)
		w = httptest.NewRecorder()
		gateway.OwnHosts([]string{"*"}, answered).ServeHTTP(w, r)
		assert.Equal(t, http.StatusNoContent, w.Code, "host %q with all origins", host)
	}
}
