package main_test

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// half is a request that promises 100 bytes, or chunks, and sends two bytes.
func half(path string, chunked bool, headers ...string) string {
	body := "Content-Length: 100\r\n\r\n{ "
	if chunked {
		body = "Transfer-Encoding: chunked\r\n\r\n64\r\n{ "
	}
	more := strings.Join(append(headers, ""), "\r\n")
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nContent-Type: application/json\r\n%s%s", path, more, body)
}

// Clients that send a part of a body, or read no answer, hold up no shutdown.
func TestShutdownIsNotHeldByHalfRequests(t *testing.T) {
	endToEnd(t)
	directory := t.TempDir()
	file := filepath.Join(directory, "tokens.yaml")
	admin := newToken(t, file, "admin", "admin")
	for name, c := range map[string]struct {
		flags   []string
		request string
	}{
		"a rejected body":              {[]string{"--tokens", file}, half("/v1/models/m:observe", false)},
		"a login":                      {[]string{"--tokens", file}, half("/login", false)},
		"a body of a call":             {nil, half("/v1/models/m:observe", false)},
		"an import":                    {nil, strings.Replace(half("/v1/models:import?id=m", true), "json", "octet-stream", 1)},
		"a body with a token":          {[]string{"--tokens", file}, half("/v1/models/m:observe", true, "Authorization: Bearer "+admin)},
		"answers that nobody reads":    {[]string{"--tokens", file}, strings.Repeat("GET ASSET HTTP/1.1\r\nHost: localhost\r\n\r\n", 1000)},
		"rejections that nobody reads": {[]string{"--tokens", file}, strings.Repeat("POST /v1/models HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n ", 20_000)},
	} {
		t.Run(name, func(t *testing.T) {
			p := launch(t, t.TempDir(), c.flags...)
			_, page := p.ask(t, "/", "")
			request := strings.ReplaceAll(c.request, "ASSET", regexp.MustCompile(`/assets/[^"]*js`).FindString(page))
			for range 30 {
				// What the server does not read of it stays in the buffers.
				dialer := net.Dialer{Timeout: 5 * time.Second}
				conn := must(dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(p.http, "http://")))(t)
				defer func() { _ = conn.Close() }()
				_ = conn.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
				_, _ = io.WriteString(conn, request)
			}
			p.ask(t, "/healthz", "")
			began := time.Now()
			require.NoError(t, p.command.Process.Signal(syscall.SIGTERM))
			assert.NoError(t, p.await(t))
			took := time.Since(began)
			t.Logf("%v", took)
			assert.True(t, took <= 5*time.Second, "the shutdown took %v", took)
		})
	}
}
