package main_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.uber.org/zap"

	server "hindsight/cmd/server"
	"hindsight/cmd/server/internal/config"
)

// logTo is a logger to a buffer, and what answers its level.
func logTo(stderr *bytes.Buffer) (*zap.Logger, http.Handler) {
	return server.NewLogger(config.Config{LogLevel: config.LogInfo}, stderr)
}

// The level can be read and set while the server runs, but by no page of another origin.
func TestLogLevel(t *testing.T) {
	var stderr bytes.Buffer
	log, level := logTo(&stderr)
	ask := func(method, kind, body string, header ...string) (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), method, "/debug/loglevel", strings.NewReader(body))
		r.Header.Set("Content-Type", kind)
		for n := 0; n < len(header); n += 2 {
			r.Header.Set(header[n], header[n+1])
		}
		w := httptest.NewRecorder()
		level.ServeHTTP(w, r)
		return w.Code, strings.TrimSpace(w.Body.String())
	}
	const form = "application/x-www-form-urlencoded"
	for _, c := range []struct {
		method, kind, body string
		header             []string
		code               int
		answer             string
	}{
		{http.MethodGet, "", "", nil, http.StatusOK, `{"level":"info"}`},
		{http.MethodPut, form, "level=debug", []string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden, "cross-origin"},
		{http.MethodPut, form, "level=loud", nil, http.StatusBadRequest, "loud"},
		{http.MethodPut, form, "level=" + strings.Repeat("x", 1<<11), nil, http.StatusBadRequest, ""},
		{http.MethodPost, form, "level=debug", nil, http.StatusMethodNotAllowed, ""},
		{http.MethodGet, "", "", nil, http.StatusOK, `{"level":"info"}`},
		{http.MethodPut, form, "level=debug", nil, http.StatusOK, `{"level":"debug"}`},
		{http.MethodPut, "application/json", `{"level":"error"}`, nil, http.StatusOK, `{"level":"error"}`},
		{http.MethodPut, "application/json", `{"level":"debug"}`, nil, http.StatusOK, `{"level":"debug"}`},
	} {
		code, answer := ask(c.method, c.kind, c.body, c.header...)
		assert.True(t, code == c.code && strings.Contains(answer, c.answer), "%s %.30s: %d %s, want %d %s", c.method, c.body, code, answer, c.code, c.answer)
	}
	log.Debug("of the new level")
	code, answer := ask(http.MethodPut, form, "level=fatal")
	assert.Equal(t, http.StatusOK, code, "fatal %s", answer)
	log.Error("an error at the level fatal")
	log.Warn("a warning at the level fatal")
	text := stderr.String()
	assert.True(t, strings.Contains(text, "an error at the level fatal") && !strings.Contains(text, "a warning at the level fatal"), "at the level fatal the log is %s", text)
	text = stderr.String()
	assert.True(t, strings.Contains(text, "of the new level") && strings.Count(text, "log level changed") == 4, "the log is %s", text)
}
