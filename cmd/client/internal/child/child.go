// Package child runs a server as a child process.
package child

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
)

const (
	tailLines   = 5
	longestLine = 1 << 20
)

// Server is a running server. It writes JSON lines to its standard error, one
// of which says where it serves.
type Server struct {
	// GRPC and HTTP are the addresses it serves at.
	GRPC, HTTP string

	cmd   *exec.Cmd
	kill  context.CancelFunc
	begun chan struct{} // closed when the addresses are known
	ended chan struct{} // closed when the process has ended
	err   error         // why, set before ended is closed
	tail  []string      // the last lines of the log, likewise
}

// serving is the line of the log that says where the server serves.
type serving struct {
	Message string `json:"msg"`
	GRPC    string `json:"grpc_address"`
	HTTP    string `json:"http_address"`
}

// Start starts the program and waits until it serves, it ends, or ctx does.
// Stop must be called if the error is nil.
func Start(ctx context.Context, path string, args ...string) (*Server, error) {
	// An interrupt must leave time to stop the server in order, so its life is
	// not that of ctx.
	life, kill := context.WithCancel(context.WithoutCancel(ctx))
	s := &Server{
		cmd:   exec.CommandContext(life, path, args...), //nolint:gosec // the user names the program
		kill:  kill,
		begun: make(chan struct{}),
		ended: make(chan struct{}),
	}
	s.cmd.SysProcAttr = attributes()
	go s.own()
	select {
	case <-s.begun:
		return s, nil
	case <-s.ended:
		kill()
		return nil, fmt.Errorf("server %s ended before it served: %w", path, s.reason())
	case <-ctx.Done():
		kill()
		<-s.ended
		return nil, fmt.Errorf("server %s: not serving in time: %w", path, ctx.Err())
	}
}

// own starts the process, reads its log, and waits for its end. All of it is
// on one thread, because on Linux the child's parent is the thread that
// started it: were that to end, the child would be killed.
func (s *Server) own() {
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
	s.read(log)
	s.err = s.cmd.Wait()
}

// read reads the log to its end.
func (s *Server) read(log io.Reader) {
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
	// A line that is too long ends the scanner; the process must not wait for
	// a reader.
	_, _ = io.Copy(io.Discard, log)
}

// reason tells why the process has ended.
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

// Stop asks the server to end by SIGTERM and waits until it has; if ctx ends
// first, it is killed. The error is nil if the server ended with status 0.
func (s *Server) Stop(ctx context.Context) error {
	defer s.kill()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.kill()
		<-s.ended
		return fmt.Errorf("stop server: %w: %w", err, s.reason())
	}
	select {
	case <-s.ended:
	case <-ctx.Done():
		s.kill()
		<-s.ended
		return fmt.Errorf("server did not stop: %w", ctx.Err())
	}
	if s.err != nil {
		return fmt.Errorf("server stopped badly: %w", s.reason())
	}
	return nil
}
