package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
)

// Token yields the bearer token of a call. Calls ask it concurrently. Its error must not
// contain the token.
type Token func(context.Context) (string, error)

// TokenText is one token for all calls.
func TokenText(text string) Token { return func(context.Context) (string, error) { return text, nil } }

// TokenFile is the token in a file, without the spaces around it. A call looks at the time
// and the size of the file, and reads it again after a change.
func TokenFile(path string) Token {
	f := &tokenFile{path: filepath.Clean(path)}
	return func(context.Context) (string, error) { return f.read() }
}

// WithToken sends a bearer token with each call. It is sent over TLS, or to an address of
// this machine; Dial rejects others, and calls fail, unless WithTokenInPlaintext is given.
func WithToken(t Token) Option { return func(s *settings) { s.token, s.hasToken = t, true } }

// WithTokenInPlaintext sends the token over a connection without TLS too. Others on the network
// can read it and use it.
func WithTokenInPlaintext() Option { return func(s *settings) { s.plaintextToken = true } }

// tokenFile reads a file when it has changed.
type tokenFile struct {
	path string
	mu   struct {
		sync.Mutex
		text string
		time time.Time
		size int64
	}
}

func (f *tokenFile) read() (string, error) {
	info, err := os.Stat(f.path)
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.text != "" && f.mu.time.Equal(info.ModTime()) && f.mu.size == info.Size() {
		return f.mu.text, nil
	}
	text, err := os.ReadFile(f.path)
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	f.mu.text, f.mu.time, f.mu.size = strings.TrimSpace(string(text)), info.ModTime(), info.Size()
	if f.mu.text == "" {
		return "", fmt.Errorf("token: %s is empty", f.path)
	}
	return f.mu.text, nil
}

type bearer struct {
	token Token
	plain bool // The token is sent without TLS too.
}

var errTokenText = errors.New("token: want printable ASCII without spaces")

func (b bearer) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	text, err := b.token(ctx)
	if err != nil {
		return nil, err
	}
	if text == "" || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errTokenText
	}
	return map[string]string{"authorization": "Bearer " + text}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials. The library obeys it.
func (b bearer) RequireTransportSecurity() bool { return !b.plain }

var _ credentials.PerRPCCredentials = bearer{}

// isRemote reports whether a target of gRPC may be on another machine, so that others on the
// network can listen.
func isRemote(target string) bool {
	if scheme, rest, ok := strings.Cut(target, ":"); ok && (scheme == "unix" || scheme == "unix-abstract") {
		return rest == ""
	}
	for _, scheme := range []string{"dns:///", "passthrough:///"} {
		target = strings.TrimPrefix(target, scheme)
	}
	host, _, err := net.SplitHostPort(target)
	if err != nil {
		host = target
	}
	ip := net.ParseIP(host)
	return host != "localhost" && (ip == nil || !ip.IsLoopback())
}
