package main_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	server "hindsight/cmd/server"
)

// manager is a service manager that listens. The test's own messages come to the same
// socket, so that they are in order with the server's.
type manager struct {
	socket *net.UnixConn
	path   string
}

func newManager(t *testing.T) *manager {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Skipf("no datagrams over a socket of Unix: %v", err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	require.NoError(t, socket.SetReadDeadline(time.Now().Add(time.Minute)))
	t.Setenv("NOTIFY_SOCKET", path)
	return &manager{socket, path}
}

func (m *manager) next(t *testing.T) string {
	t.Helper()
	buffer := make([]byte, 4096)
	n, err := m.socket.Read(buffer)
	require.NoError(t, err)
	return string(buffer[:n])
}

func (m *manager) say(t *testing.T, text string) {
	t.Helper()
	connection, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: m.path, Net: "unixgram"})
	require.NoError(t, err)
	_, err = connection.Write([]byte(text))
	assert.NoError(t, err)
	assert.NoError(t, connection.Close())
}

func TestWatchdogIsToldWhileTheServerServes(t *testing.T) {
	m := newManager(t)
	t.Setenv("WATCHDOG_USEC", "30000")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	answers, calls := []string{"ready", "well", "ill", "ill", "well"}, 0
	ended := make(chan error, 1)
	go func() {
		ended <- server.Supervise(ctx, zap.NewNop(), func(context.Context) error {
			defer func() { calls++ }()
			if calls >= len(answers) {
				cancel()
				return errors.New("it does not serve")
			}
			m.say(t, answers[calls])
			if answers[calls] == "ill" {
				return errors.New("it does not serve")
			}
			return nil
		})
	}()
	want := []string{"ready", "READY=1", "well", "WATCHDOG=1", "ill", "ill", "well", "WATCHDOG=1", "STOPPING=1"}
	got := make([]string, 0, len(want))
	for range want {
		got = append(got, m.next(t))
	}
	assert.True(t, slices.Equal(got, want), "systemd got\n%s\nand not\n%s", strings.Join(got, ", "), strings.Join(want, ", "))
	assert.NoError(t, <-ended)
}

func TestReadyWithoutWatchdog(t *testing.T) {
	m := newManager(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Supervise(ctx, zap.NewNop(), func(context.Context) error { return nil }) }()
	assert.Equal(t, "READY=1", m.next(t))
	cancel()
	assert.Equal(t, "STOPPING=1", m.next(t))
	assert.NoError(t, <-ended)
}

func TestNotReady(t *testing.T) {
	newManager(t)
	ill := errors.New("it does not serve")
	assert.ErrorIs(t, server.Supervise(t.Context(), zap.NewNop(), func(context.Context) error { return ill }), ill)
	t.Setenv("WATCHDOG_USEC", "often")
	assert.Error(t, server.Supervise(t.Context(), zap.NewNop(), func(context.Context) error { return nil }))
}
