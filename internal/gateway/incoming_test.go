package gateway_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A call is answered after the time that pages have, a page is not.
func TestCallsHaveLongerThanPages(t *testing.T) {
	h := serve(t)
	web := httptest.NewUnstartedServer(h.gateway)
	web.Config.WriteTimeout = time.Nanosecond
	web.Start()
	defer web.Close()
	h.url = web.URL
	h.want(t, http.MethodGet, "/v1/models", "")
	if response, err := h.client.Do(h.request(t, http.MethodGet, "/openapi.json", "")); err == nil {
		_ = response.Body.Close()
		t.Errorf("a page was answered: %d", response.StatusCode)
	}
}

// A call whose body has not come when the gateway drains is rejected at once, in a way that
// tells the client to send it to the next server.
func TestDrainEndsABodyOnItsWay(t *testing.T) {
	h := serve(t)
	dialer := net.Dialer{Timeout: 5 * time.Second}
	c, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(h.url, "http://"))
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	// The server answers 100 Continue once it reads the body.
	must(io.WriteString(c, "POST /v1/models HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n"))(t)
	const proceed = "HTTP/1.1 100 Continue\r\n\r\n"
	got := make([]byte, len(proceed))
	_, err = io.ReadFull(c, got)
	require.True(t, err == nil && string(got) == proceed, "%q, %v", got, err)
	began := time.Now()
	h.gateway.Drain()
	took := time.Since(began)
	answer, err := io.ReadAll(c)
	assert.True(t, err == nil && strings.Contains(string(answer), "SHUTTING_DOWN") && took <= 10*time.Second, "after %v: %s, %v", took, answer, err)
}
