package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"hindsight/internal/cluster"
	"hindsight/internal/store"
)

// controlSocket is a Unix socket in the data directory, by which the commands of this
// program ask a running server. It has the permissions of the directory: everybody who may
// connect may also read and remove the files of the directory. The network does not reach it.
const controlSocket = "control.sock"

const (
	checkpointRoute = "/checkpoint"
	controlURL      = "http://hindsight" // The host name is not used.
	socketMode      = 0o600
	dialTimeout     = 5 * time.Second
)

// checkpointAnswer is the first line of the answer to POST /checkpoint?group=N. The checkpoint exists until
// the caller disconnects, or until the server no longer owns the group.
type checkpointAnswer struct {
	// Directory is relative to the directory of the group.
	Directory string `json:"directory"`
	Error     string `json:"error,omitempty"`
	// Moved is true if the error is errMoved.
	Moved bool `json:"moved,omitempty"`
}

// serveControl answers on the socket of a data directory until the context ends. Without a socket
// the server goes on, but no command can back up its directory.
func serveControl(ctx context.Context, dir string, checkpoint http.HandlerFunc, log *zap.Logger) error {
	path := filepath.Join(dir, controlSocket)
	// The directory is locked, so the socket belongs to a server that has ended.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		log.Warn("no backups while serving: the control socket is in the way", zap.Error(err))
		return nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err == nil {
		err = os.Chmod(path, socketMode)
	}
	if err != nil {
		log.Warn("no backups while serving: no control socket", zap.Error(err))
		if listener != nil {
			return listener.Close()
		}
		return nil
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+checkpointRoute, checkpoint)
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: readHeaderTimeout, MaxHeaderBytes: maxHeaderBytes, ErrorLog: zap.NewStdLog(log),
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	ended := make(chan error, 1)
	go func() {
		<-ctx.Done()
		// Handlers end with the context.
		ended <- server.Shutdown(context.WithoutCancel(ctx))
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the control socket: %w", err)
	}
	if err := <-ended; err != nil {
		return fmt.Errorf("close the control socket: %w", err)
	}
	return nil
}

// checkpoint answers POST /checkpoint, and holds the checkpoint until the caller disconnects.
func (g *groups) checkpoint(w http.ResponseWriter, r *http.Request) {
	var answer checkpointAnswer
	at, err := g.holdFor(r)
	if err == nil {
		answer.Directory = filepath.Base(at.directory)
	} else {
		answer.Error, answer.Moved = err.Error(), errors.Is(err, errMoved)
	}
	_ = json.NewEncoder(w).Encode(answer) // An error means that the caller has disconnected.
	_ = http.NewResponseController(w).Flush()
	if err != nil {
		return
	}
	<-at.gone.Done()
	_ = at.release() // It logs its error.
}

func (g *groups) holdFor(r *http.Request) (*checkpoint, error) {
	n, err := strconv.Atoi(cmp.Or(r.URL.Query().Get("group"), "0"))
	if err != nil || n < 0 || n >= len(g.all) || n == 0 && len(g.all) > 1 {
		return nil, fmt.Errorf("got group %q, want a group with models", r.URL.Query().Get("group"))
	}
	o := g.open[n].Load()
	if o == nil {
		return nil, fmt.Errorf("group %d is not open: the server opens it, or is no member any more", n)
	}
	ctx, stop := context.WithCancel(o.control.serving)
	context.AfterFunc(r.Context(), stop)
	at, err := o.control.hold(ctx) //nolint:contextcheck // It ends with the request, or with the open group.
	if !errors.Is(err, errMoved) {
		return at, err
	}
	if owner, known := g.host.Group(uint32(n)).Owner(); known {
		return nil, fmt.Errorf("%w: %s", err, owner.Address)
	}
	return nil, errors.New("the group has no owner")
}

var errNoServer = errors.New("no server answers")

// askServer asks the server of a data directory for a checkpoint of a group. It fails with errNoServer if none runs.
func askServer(ctx context.Context, dir string, group uint32) (*checkpoint, error) {
	path := filepath.Join(dir, controlSocket)
	dialer := net.Dialer{Timeout: dialTimeout}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, "unix", path)
		if err != nil {
			return nil, fmt.Errorf("%w on %s: %w", errNoServer, path, err)
		}
		return conn, nil
	}}
	gone, end := context.WithCancelCause(ctx)
	request, err := http.NewRequestWithContext(gone, http.MethodPost, fmt.Sprintf("%s%s?group=%d", controlURL, checkpointRoute, group), http.NoBody)
	if err != nil {
		end(err)
		return nil, fmt.Errorf("ask for a checkpoint: %w", err)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		end(err)
		return nil, fmt.Errorf("ask for a checkpoint: %w", err)
	}
	var answer checkpointAnswer
	lines := json.NewDecoder(response.Body)
	err = lines.Decode(&answer)
	switch {
	case err != nil:
		err = fmt.Errorf("ask for a checkpoint: the server ended: %w", err)
	case answer.Moved:
		err = fmt.Errorf("%w%s", errMoved, strings.TrimPrefix(answer.Error, errMoved.Error()))
	case answer.Error != "":
		err = fmt.Errorf("the server: %s", answer.Error) //nolint:err113 // It is the server's.
	case !filepath.IsLocal(answer.Directory):
		err = fmt.Errorf("the server names the checkpoint %q", answer.Directory)
	}
	if err != nil {
		end(err)
		_ = response.Body.Close() // The first error is the one to report.
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// The answer ends with the server, or with the release.
		_, _ = io.Copy(io.Discard, response.Body)
		end(errors.New("the server ended, and its checkpoint with it, or no longer owns the group"))
	}()
	return &checkpoint{directory: filepath.Join(store.GroupDirectory(dir, group), answer.Directory), gone: gone, release: func() error {
		end(context.Canceled)
		<-ended
		_ = response.Body.Close() // The request has ended.
		transport.CloseIdleConnections()
		return nil
	}}, nil
}

// checkpointOf asks the server of a data directory for a checkpoint of a group, or makes one if no server
// has the directory open.
func checkpointOf(ctx context.Context, dir string, group uint32) (*checkpoint, error) {
	c, err := askServer(ctx, dir, group)
	if !errors.Is(err, errNoServer) {
		return c, err
	}
	dir = store.GroupDirectory(dir, group)
	// store.Open would create the directory.
	if _, statErr := os.Stat(filepath.Join(dir, "log")); errors.Is(statErr, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", store.ErrNotThere, dir)
	} else if statErr != nil {
		return nil, fmt.Errorf("%w; %w", statErr, err)
	}
	disk, openErr := store.Open(dir, store.Options{Member: true}) //nolint:contextcheck // A directory is opened whole or not at all.
	if openErr != nil {
		return nil, fmt.Errorf("%w; %w", openErr, err)
	}
	unapplied, member, err := cluster.Unapplied(dir, disk, store.Options{})
	if err == nil {
		c, err = newControl(disk, zap.NewNop()).hold(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, disk.Close())
	}
	c.stopped, c.unapplied = member, unapplied
	remove := c.release
	c.release = func() error { return errors.Join(remove(), disk.Close()) }
	return c, nil
}
