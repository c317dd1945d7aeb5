package cli

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
	"hindsight/cmd/client/internal/stream"
	"hindsight/cmd/internal/child"
	"hindsight/cmd/internal/command"
	"hindsight/internal/infer"
)

const (
	serverProgram = "hindsight-server"
	serverUsage   = "path of the server program; default: " + serverProgram + " beside this program, or on the PATH"
	localModel    = "local"
)

// localServer has the flags of a command that can start a server.
type localServer struct {
	on      bool
	program string
}

func (l *localServer) flags(f *flagSet) {
	f.BoolVar(&l.on, "local", false, "start a server in a temporary directory, and stop it at the end")
	f.StringVar(&l.program, "server", "", "with --local: "+serverUsage)
}

func (l *localServer) check(c *call) error {
	switch {
	case l.on && c.given("address"):
		return command.Usagef("--local and --address exclude each other")
	case !l.on && l.program != "":
		return command.Usagef("--server needs --local")
	}
	return nil
}

// findServer returns the path of the server program: the given path, the program beside this
// one, or the program on the PATH.
func findServer(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	if program, err := os.Executable(); err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(program), serverProgram)); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath(serverProgram)
	if err != nil {
		return "", command.Usagef("--server: %s is neither beside this program nor on the PATH; name its path", serverProgram)
	}
	return path, nil
}

// serve starts the server, calls do with a connection to it, and stops it. No observation
// outlives the server, so none waits for the disk.
func (l *localServer) serve(ctx context.Context, e *env, do func(*client.Client) error) error {
	path, err := findServer(l.program)
	if err != nil {
		return err
	}
	return child.Serve(ctx, path, func(server *child.Server) error {
		c, err := dialChild(server.GRPC, e.Timeout)
		if err != nil {
			return err
		}
		return errors.Join(do(c), c.Close())
	}, "--durability", "async")
}

// inferSpec infers the spec of a model that a command creates for a file by itself, without
// the ignored columns, and counts the rows. A target that the command line leaves out is set: y,
// or the last column.
func (e *env) inferSpec(path string, o *stream.FileOptions, targetGiven, classes bool) (spec *hindsightv1.ModelSpec, rows int, err error) {
	if err := e.likelyTarget(path, o, targetGiven); err != nil {
		return nil, 0, err
	}
	if o.Target == "" {
		return nil, 0, command.Usagef("--target is empty: a model learns from labels")
	}
	result, err := inferFile(path, o.Delimiter, infer.Options{Target: o.Target, Classes: classes})
	if err != nil {
		return nil, 0, &command.UsageError{Err: err}
	}
	e.notice(result.Columns, result.Notes, o)
	spec = proto.CloneOf(result.Spec)
	spec.Inputs = slices.DeleteFunc(spec.GetInputs(), func(in *hindsightv1.Input) bool { return o.Ignores(in.GetName()) })
	if len(spec.GetInputs()) == 0 {
		return nil, 0, command.Usagef("%s: no column can be an input", path)
	}
	return spec, result.Rows, nil
}

// likelyTarget sets a target that the command line leaves out.
func (e *env) likelyTarget(path string, o *stream.FileOptions, given bool) error {
	if given {
		return nil
	}
	target, err := stream.LikelyTarget(path, o.Delimiter)
	if err != nil {
		return &command.UsageError{Err: err}
	}
	if target != o.Target {
		e.Say("the label is the last column, %s; --target names another", target)
	}
	o.Target = target
	return nil
}

// notice says which columns are left out, and which cell made a column what it is, unless the user has ignored the
// column. The notes of the file follow.
func (e *env) notice(columns []*infer.Column, notes []string, o *stream.FileOptions) {
	for _, c := range columns {
		if text := c.Notice(); text != "" && !o.Ignores(c.Name) {
			e.Say("%s", text)
		}
	}
	for _, note := range notes {
		e.Say("%s", note)
	}
}

// dialChild prepares a connection to a server that the program has started.
func dialChild(address string, timeout time.Duration) (*client.Client, error) {
	c, err := client.Dial(address, client.WithTimeout(timeout), client.WithRetry(client.Retry{}))
	if err != nil {
		return nil, &command.UsageError{Err: err}
	}
	return c, nil
}
