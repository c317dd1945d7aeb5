//go:build unix

package main_test

import (
	"net"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestSystemdIsTold starts the server as a unit of Type=notify with a watchdog.
func TestSystemdIsNotified(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Skipf("no datagrams over a socket of Unix: %v", err)
	}
	defer func() { _ = socket.Close() }()
	if err := socket.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	next := func() string {
		buffer := make([]byte, 4096)
		n, err := socket.Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		return string(buffer[:n])
	}
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "1500000")
	p := launch(t, t.TempDir())
	for _, want := range []string{"READY=1", "WATCHDOG=1", "WATCHDOG=1"} {
		if got := next(); got != want {
			t.Errorf("systemd got %s, want %s", got, want)
		}
	}
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	notice := next()
	for notice == "WATCHDOG=1" { // Sent before the signal.
		notice = next()
	}
	if notice != "STOPPING=1" {
		t.Errorf("systemd got %s, want STOPPING=1", notice)
	}
	if err := p.await(t); err != nil {
		t.Errorf("SIGTERM: %v", err)
	}
}
