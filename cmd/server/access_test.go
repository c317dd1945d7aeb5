package main_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	server "hindsight/cmd/server"
	"hindsight/cmd/server/internal/config"
)

// command runs the program with flags, and answers what it prints.
func command(t *testing.T, wantCode int, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), binary, args...)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	_ = c.Run() // The code says how it ended.
	if code := c.ProcessState.ExitCode(); code != wantCode {
		t.Fatalf("%q: code %d, want %d\n%s", args, code, wantCode, out.String())
	}
	return out.String()
}

// newToken adds an entry to a tokens file and answers the last line of what is printed.
func newToken(t *testing.T, file, name, role string, more ...string) string {
	t.Helper()
	out := command(t, 0, append([]string{"token", "create", "--tokens", file, "--name", name, "--role", role}, more...)...)
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	return lines[len(lines)-1]
}

// revoke removes an entry of a file that token create wrote.
func revoke(t *testing.T, file, name string) {
	t.Helper()
	entries := strings.SplitAfter("\n"+string(must(os.ReadFile(file))(t)), "\n- ")
	rest := slices.DeleteFunc(entries, func(e string) bool { return strings.HasPrefix(e, "name: "+name+"\n") })
	require.NoError(t, os.WriteFile(file+".new", []byte(strings.TrimSuffix(strings.TrimPrefix(strings.Join(rest, ""), "\n"), "\n- ")), 0o600))
	require.NoError(t, os.Rename(file+".new", file))
}

func bearing(ctx context.Context, token string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}

func TestTokenCommands(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	token := newToken(t, file, "ci", "write", "--models", "a-,b-", "--expires", "720h", "--rate", "2.5", "--concurrency", "4")
	text := must(os.ReadFile(file))(t)
	hash := sha256.Sum256([]byte(token))
	assert.True(t, len(token) == 46 && !strings.Contains(string(text), token) && strings.Contains(string(text), hex.EncodeToString(hash[:])), "token %q, file\n%s", token, text)
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Error(info.Mode(), err)
	}
	newToken(t, file, "scraper", "read", "--certificate", "prometheus.example")
	newToken(t, file, "people", "admin", "--claim", "groups=ml")
	text = must(os.ReadFile(file))(t)
	for _, want := range []string{"name: ci\n", `[a-, b-]`, "certificate: prometheus.example", "claim: groups=ml"} {
		assert.Contains(t, string(text), want)
	}
	for _, c := range []struct {
		code int
		args []string
		want string
	}{
		{2, nil, "want create"},
		{2, []string{"make"}, "want create"},
		{2, []string{"create", "--tokens", file, "--nam", "x"}, "unknown flag: --nam"},
		{1, []string{"create"}, "--tokens: want the tokens file"},
		{1, []string{"create", "--tokens", file, "--name", "x", "--role", "root"}, `--role: got "root", want admin, write or read`},
		{1, []string{"create", "--tokens", file, "--role", "read"}, "--name: want"},
		{1, []string{"create", "--tokens", file, "--name", "people", "--role", "read"}, `field name: got "people"`},
		{1, []string{"create", "--tokens", file, "--name", "x", "--role", "read", "--models", "A"}, "field models: got a list, want"},
		{1, []string{"create", "--tokens", file, "--name", "x", "--role", "read", "--rate", "-1"}, `field rate: got "-1"`},
		{1, []string{"create", "--tokens", file, "--name", "x", "--role", "read", "--expires", "-1h"}, "--expires: got -1h0m0s"},
		{1, []string{"create", "--tokens", file, "--name", "x", "--role", "read", "--expires", "1ms"}, "--expires: got 1ms"},
		{2, []string{"create", "--tokens", file, "--name", "x", "--role", "read", "--models", ""}, "--models: got nothing, want a value"},
		{2, []string{"create", "--tokens", file, "--name", "x", "--role", "read", "--claim="}, "--claim: got nothing"},
		{2, []string{"create", "--tokens", file, "--name", "x", "--role", "read", "shop-"}, `got the argument "shop-", want flags only`},
		{1, []string{"create", "--tokens", file, "--name", "x", "--role", "read", "--claim", "a"}, "field claim"},
	} {
		out := command(t, c.code, append([]string{"token"}, c.args...)...)
		assert.True(t, strings.Contains(out, c.want) && !strings.Contains(out, "hs_"), "%q: %s, want %s", c.args, out, c.want)
	}
}

// ask asks for a path with a token, and answers the status and the body.
func (p *process) ask(t *testing.T, path, token string) (int, string) {
	t.Helper()
	r := must(http.NewRequestWithContext(t.Context(), http.MethodGet, p.http+path, http.NoBody))(t)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer := must(http.DefaultClient.Do(r))(t)
	body, err := io.ReadAll(answer.Body)
	closeErr := answer.Body.Close()
	require.True(t, err == nil && closeErr == nil, "%v %v", err, closeErr)
	return answer.StatusCode, string(body)
}

// A server with tokens, from the first token to the last line of the audit log: who may
// see what, the rotation of a token under load, and no secret where others may look.
func TestServerWithTokens(t *testing.T) {
	directory := t.TempDir()
	file, audit := filepath.Join(directory, "tokens.yaml"), filepath.Join(directory, "audit.log")
	admin := newToken(t, file, "admin", "admin")
	old := newToken(t, file, "old", "write", "--models", "m")
	p := launch(t, filepath.Join(directory, "data"), "--tokens", file, "--audit-log", audit, "--log-level", "debug")
	for path, want := range map[string][3]int{ // Nobody, old and admin.
		"/healthz": {200, 200, 200}, "/readyz": {200, 200, 200}, "/": {200, 200, 200}, "/server.json": {200, 200, 200},
		"/metrics": {401, 403, 200}, "/openapi.json": {401, 200, 200}, "/v1/models": {401, 200, 200}, "/nothing": {401, 404, 404},
	} {
		for n, token := range []string{"", old, admin} {
			got, body := p.ask(t, path, token)
			assert.True(t, got == want[n], "%s by %d: %d %.200s, want %d", path, n, got, body, want[n])
		}
	}
	command(t, 0, "healthcheck", "--grpc-address", p.connection.Target())
	spec := &hindsightv1.ModelSpec{Dimension: 2, Scaling: unscaled(), Learner: &hindsightv1.ModelSpec_LinearAwv{LinearAwv: &hindsightv1.LinearAwv{}}}
	must(p.models.CreateModel(bearing(t.Context(), admin), &hindsightv1.CreateModelRequest{Id: "m", Spec: spec}))(t)
	// Clients go from the old token to the next one while they observe. None is rejected.
	next := newToken(t, file, "next", "write", "--models", "m")
	var current atomic.Pointer[string]
	current.Store(&old)
	var clients sync.WaitGroup
	done := make(chan struct{})
	var learned atomic.Int64
	for range 4 {
		clients.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if _, err := p.predictor.Observe(bearing(t.Context(), *current.Load()), &hindsightv1.ObserveRequest{
					Model: "m", Features: []float64{1, 2}, Target: &hindsightv1.ObserveRequest_Label{Label: 1},
				}); err != nil {
					t.Error("under load:", err)
					return
				}
				learned.Add(1)
			}
		})
	}
	// until waits for the answer of a call by a token.
	until := func(token string, want codes.Code) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; {
			_, err := p.models.GetModel(bearing(t.Context(), token), &hindsightv1.GetModelRequest{Model: "m"})
			if status.Code(err) == want {
				return
			}
			require.False(t, time.Now().After(end), "%v, want %v", err, want)
		}
	}
	until(next, codes.OK)
	current.Store(&next)
	revoke(t, file, "admin")
	until(admin, codes.Unauthenticated)
	close(done)
	clients.Wait()
	revoke(t, file, "old")
	until(old, codes.Unauthenticated)
	assert.True(t, learned.Load() != 0, "nothing was learned")
	// No secret is in the list of processes and in the audit log.
	arguments, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.command.Process.Pid))
	assert.True(t, err != nil || !bytes.Contains(arguments, []byte("hs_")), "%q", arguments)
	require.NoError(t, p.command.Process.Signal(os.Interrupt))
	assert.NoError(t, p.await(t))
	lines, err := os.ReadFile(audit)
	require.NoError(t, err)
	for _, secret := range []string{admin, old, next, "hs_"} {
		assert.False(t, bytes.Contains(lines, []byte(secret)), "the audit log has a token")
	}
	var first struct{ Call, Outcome, Reason string }
	err = json.Unmarshal(lines[:bytes.IndexByte(lines, '\n')], &first)
	assert.True(t, err == nil && first.Outcome != "", "%v: %s", err, lines)
	assert.True(t, strings.Contains(string(lines), `"name":"admin","role":"admin","call":"hindsight.v1.ModelService/CreateModel","models":["m"],"outcome":"OK"`), lines)
}

// What others can do who reach the server is said for each address that they reach.
func TestWarnings(t *testing.T) {
	const tls, clients = "listens without TLS", "does not authenticate its clients"
	open, own := &net.TCPAddr{Port: 1}, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}
	six, far := &net.TCPAddr{IP: net.IPv6loopback, Port: 1}, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1}
	certificate := config.Config{TLSCert: "c", TLSKey: "k"}
	required := certificate
	required.TLSClientCA, required.TLSClientAuth = "ca", config.ClientRequired
	optional := required
	optional.TLSClientAuth = config.ClientOptional
	for name, c := range map[string]struct {
		settings  config.Config
		addresses []net.Addr
		want      []string
	}{
		"loopback":       {config.Config{}, []net.Addr{own, six}, nil},
		"all interfaces": {config.Config{}, []net.Addr{open}, []string{tls, clients}},
		"one of two":     {config.Config{}, []net.Addr{own, far}, []string{tls, clients}},
		"both":           {config.Config{}, []net.Addr{open, far}, []string{tls, clients, tls, clients}},
		"TLS":            {certificate, []net.Addr{open}, []string{clients}},
		"mTLS":           {required, []net.Addr{open, far}, nil},
		"optional mTLS":  {optional, []net.Addr{open}, []string{clients}},
	} {
		core, log := observer.New(zap.WarnLevel)
		server.WarnExposed(zap.New(core), c.settings, c.addresses...)
		lines := log.All()
		if len(lines) != len(c.want) {
			t.Errorf("%s: %v", name, lines)
			continue
		}
		for i, want := range c.want {
			assert.True(t, strings.Contains(lines[i].Message, want), "%s: %s, want %s", name, lines[i].Message, want)
		}
	}
	for _, address := range []net.Addr{own, six, open, far} {
		loopback := address == own || address == six
		for _, c := range []config.Config{{}, certificate, {Tokens: "t"}} {
			assert.Equal(t, loopback && c == (config.Config{}), server.TakesEveryCall(c, address), "%s takes every call with %+v", address, c)
		}
	}
}
