// Package child runs a server as a child process.
package child

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const (
	startLimit  = 20 * time.Second
	stopLimit   = 15 * time.Second
	tailLines   = 5
	longestLine = 1 << 20
)

// Server is a running server. It writes JSON lines to its standard error. One of them has its
// addresses.
type Server struct {
	GRPC, HTTP string // The addresses of its services.

	cmd   *exec.Cmd
	kill  context.CancelFunc
	begun chan struct{} // closed when the addresses are known
	ended chan struct{} // closed when the process has ended
	err   error         // how the process ended; set before ended is closed
	tail  []string      // the last lines of the log; set before ended is closed
}

// Serve starts the program on free ports of 127.0.0.1 with a temporary directory and further
// arguments, calls do, stops the server and removes the directory. The server has ended when
// Serve returns.
func Serve(ctx context.Context, path string, do func(*Server) error, args ...string) (err error) {
	dir, err := os.MkdirTemp("", "hindsight-")
	if err != nil {
		return fmt.Errorf("directory of the server: %w", err)
	}
	defer func() {
		if failed := os.RemoveAll(dir); failed != nil {
			err = errors.Join(err, fmt.Errorf("directory of the server: %w", failed))
		}
	}()
	starting, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	s, err := Start(starting, path, append([]string{
		"--grpc-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0",
		"--data-dir", dir, "--log-level", "info",
	}, args...)...)
	if err != nil {
		return err
	}
	defer func() {
		// The server is stopped in order even when ctx has ended.
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
		defer cancel()
		err = errors.Join(err, s.Stop(stopping))
	}()
	return do(s)
}

type serving struct {
	Message string `json:"msg"`
	GRPC    string `json:"grpc_address"`
	HTTP    string `json:"http_address"`
}

// Start starts the program. It waits until the server serves, the process ends
// or ctx ends. Stop must be called if the error is nil.
func Start(ctx context.Context, path string, args ...string) (*Server, error) {
	// The process outlives ctx: after an interrupt it is stopped in order.
	life, kill := context.WithCancel(context.WithoutCancel(ctx))
	s := &Server{
		cmd:   exec.CommandContext(life, path, args...), //nolint:gosec // the user names the program
		kill:  kill,
		begun: make(chan struct{}),
		ended: make(chan struct{}),
	}
	s.cmd.SysProcAttr = attributes()
	go s.run()
	select {
	case <-s.begun:
		return s, nil
	case <-s.ended:
		kill()
		return nil, fmt.Errorf("server %s ended before it was ready: %w", path, s.reason())
	case <-ctx.Done():
		kill()
		<-s.ended
		return nil, fmt.Errorf("server %s was not ready in time: %w", path, ctx.Err())
	}
}

// run starts the process, reads its log, and waits for its end. It stays on one thread: on Linux
// the child is killed when the thread that started it ends.
func (s *Server) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(s.ended)
	log, err := s.cmd.StderrPipe()
	if err != nil {
		s.err = err
		return
	}
	if err := s.cmd.Start(); err != nil {
		s.err = err
		return
	}
	s.readLog(log)
	s.err = s.cmd.Wait()
}

func (s *Server) readLog(log io.Reader) {
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, longestLine)
	serves := false
	for lines.Scan() {
		var line serving
		if !serves && json.Unmarshal(lines.Bytes(), &line) == nil && line.Message == "serving" {
			s.GRPC, s.HTTP = line.GRPC, line.HTTP
			serves = true
			close(s.begun)
		}
		s.tail = append(s.tail, lines.Text())
		s.tail = s.tail[max(0, len(s.tail)-tailLines):]
	}
	// A line that is too long ends the scanner. Without a reader the process would block.
	_, _ = io.Copy(io.Discard, log)
}

// reason returns how the process ended, with the last lines of its log.
func (s *Server) reason() error {
	err := s.err
	if err == nil {
		err = errors.New("exit status 0")
	}
	if len(s.tail) == 0 {
		return err
	}
	return fmt.Errorf("%w: %s", err, strings.Join(s.tail, " | "))
}

// Stop sends SIGTERM to the server and waits for its end. If ctx ends first,
// the server is killed. The error is nil if the server ended with status 0.
func (s *Server) Stop(ctx context.Context) error {
	defer s.kill()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.Kill()
		return fmt.Errorf("stop server: %w: %w", err, s.reason())
	}
	select {
	case <-s.ended:
	case <-ctx.Done():
		s.Kill()
		return fmt.Errorf("server did not stop: %w", ctx.Err())
	}
	if s.err != nil {
		return fmt.Errorf("server stopped with an error: %w", s.reason())
	}
	return nil
}

// Kill ends the server at once, as a crash does, and waits for its end.
func (s *Server) Kill() {
	s.kill()
	<-s.ended
}
