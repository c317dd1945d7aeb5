package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
	"hindsight/cmd/internal/command"
)

func (e *env) modelExport() verb {
	var (
		request = new(hindsightv1.ExportModelRequest)
		force   bool
	)
	return verb{
		use:   "export ID FILE",
		short: "Write a model to a file",
		long: `Write the spec and the state of a model to a file, with the ids that it
remembers and its pending predictions, or without them. The file is complete, or as
before. "-" is standard output.`,
		example: `  hindsight model export energy energy.hs
  hindsight model export energy - | hindsight --address other:50051 model import energy -`,
		flags: func(f *flagSet) {
			f.BoolVar(&force, "force", false, "replace an existing file")
			f.BoolVar(&request.WithoutIds, "without-ids", false, "leave out remembered ids and pending predictions")
		},
		before: func(c *call) error {
			request.Model = c.args[0]
			if c.args[1] == "-" && e.JSON() {
				return command.Usagef("the file - and --json both write to standard output")
			}
			return nil
		},
		run: func(c *call) error {
			if c.args[1] == "-" {
				_, err := c.model().Export(c.ctx(), e.Stdout, request)
				return err
			}
			return e.exportTo(c.ctx(), c.client, request, c.args[1], force)
		},
	}
}

func (e *env) exportTo(ctx context.Context, c *client.Client, request *hindsightv1.ExportModelRequest, name string, force bool) error {
	if _, err := os.Stat(name); err == nil && !force {
		return command.Usagef("%s exists; --force replaces it", name)
	}
	var size int64
	err := replaceFile(name, func(w io.Writer) (err error) {
		size, err = c.Model(request.GetModel()).Export(ctx, w, request)
		return err
	})
	if err != nil {
		return err
	}
	exported := struct {
		Model string `json:"model"`
		File  string `json:"file"`
		Bytes int64  `json:"bytes"`
	}{request.GetModel(), name, size}
	return e.emit(exported, func(w *command.Page) { w.Printf("exported %s to %s, %d bytes\n", request.GetModel(), name, size) })
}

// replaceFile writes a temporary file beside the file of a name, and renames it when write has
// ended without an error: the file is complete, or as before.
func replaceFile(name string, write func(io.Writer) error) (err error) {
	file, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*.tmp")
	if err != nil {
		return &command.UsageError{Err: err}
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name()) // The first error is the one to report.
		}
	}()
	if err = write(file); err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), name)
}

func (e *env) modelImport() verb {
	return verb{
		use:     "import ID FILE",
		short:   "Create a model from an exported one",
		long:    `Create a model from a file of export, under a new id. "-" is standard input.`,
		example: `  hindsight model import energy-copy energy.hs`,
		run: func(c *call) error {
			from := e.Stdin
			if in := c.args[1]; in != "-" {
				file, err := os.Open(in) //nolint:gosec // the user names the file
				if err != nil {
					return &command.UsageError{Err: err}
				}
				defer file.Close() //nolint:errcheck // it was only read
				from = file
			}
			return e.showModel(c.model().Import(c.ctx(), from))
		},
	}
}
