//go:build unix

package main_test

import (
	"net"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSystemdIsTold starts the server as a unit of Type=notify with a watchdog.
func TestSystemdIsNotified(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Skipf("no datagrams over a socket of Unix: %v", err)
	}
	defer func() { _ = socket.Close() }()
	require.NoError(t, socket.SetReadDeadline(time.Now().Add(time.Minute)))
	next := func() string {
		buffer := make([]byte, 4096)
		n := must(socket.Read(buffer))(t)
		return string(buffer[:n])
	}
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "1500000")
	p := launch(t, t.TempDir())
	for _, want := range []string{"READY=1", "WATCHDOG=1", "WATCHDOG=1"} {
		assert.Equal(t, want, next())
	}
	require.NoError(t, p.command.Process.Signal(syscall.SIGTERM))
	notice := next()
	for notice == "WATCHDOG=1" { // Sent before the signal.
		notice = next()
	}
	assert.Equal(t, "STOPPING=1", notice)
	assert.NoError(t, p.await(t))
}
