package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
	"hindsight/cmd/internal/command"
)

func newModelSnapshot(e *env) *cobra.Command {
	return &cobra.Command{
		Use:               "snapshot ID",
		Short:             "Write a snapshot of a model",
		Args:              command.Exactly("ID"),
		ValidArgsFunction: e.completeModel,
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.withClient(func(c *client.Client) error {
				s, err := c.Model(args[0]).Snapshot(cmd.Context())
				if err != nil {
					return err
				}
				return e.emit(s, func(w *command.Page) {
					w.Printf("sequence\t%d\n", s.GetSequence())
					w.Row("written", s.GetCreateTime().AsTime().Format(time.RFC3339))
					w.Printf("size\t%d bytes\n", s.GetBytes())
					w.Row("state digest", s.GetStateDigest())
				})
			})
		},
	}
}

func newModelSnapshots(e *env) *cobra.Command {
	return &cobra.Command{
		Use:               "snapshots ID",
		Short:             "List the snapshots of a model, the newest first",
		Args:              command.Exactly("ID"),
		ValidArgsFunction: e.completeModel,
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.withClient(func(c *client.Client) error {
				snapshots, err := c.Model(args[0]).Snapshots(cmd.Context())
				if err != nil {
					return err
				}
				rows := make([][]any, len(snapshots))
				for i, s := range snapshots {
					rows[i] = []any{s.GetSequence(), s.GetCreateTime().AsTime().Format(time.RFC3339), s.GetBytes(), s.GetStateDigest()}
				}
				return e.emitRows(&hindsightv1.ListSnapshotsResponse{Snapshots: snapshots},
					[]string{"sequence", "written", "bytes", "state_digest"}, rows)
			})
		},
	}
}

func newModelRestore(e *env) *cobra.Command {
	var sequence uint64
	var at string
	var yes bool
	cmd := &cobra.Command{
		Use:   "restore ID --sequence N|--at TIME --yes",
		Short: "Take a model back to an earlier sequence or time",
		Long: `Take a model back to the sequence of a snapshot, or to a later sequence or time
that the server's log still contains. The observations after it are undone for ever, and
their ids are forgotten: they can be learned again. Export the model first to
keep both states. The command says what would be undone. On a terminal it asks;
elsewhere it wants --yes.`,
		Example: `  hindsight model restore energy --sequence 12000 --yes
  hindsight model restore energy --at 2026-03-01T09:30:00Z --yes`,
		Args: command.Exactly("ID"), ValidArgsFunction: e.completeModel,
		RunE: func(cmd *cobra.Command, args []string) error {
			request := &hindsightv1.RestoreModelRequest{}
			switch byNumber := cmd.Flags().Changed("sequence"); {
			case byNumber == (at != ""):
				return command.Usagef("one of --sequence and --at is wanted (--sequence 0 undoes all observations)")
			case byNumber:
				request.Sequence = &sequence
			default:
				t, err := time.Parse(time.RFC3339Nano, at)
				if err != nil {
					return command.Usagef("--at: got %q, want a time such as 2026-03-01T09:30:00Z", at)
				}
				request.Time = timestamppb.New(t)
			}
			return e.withClient(func(c *client.Client) error {
				if err := e.confirmRestore(cmd.Context(), c.Model(args[0]), request, yes); err != nil {
					return err
				}
				answer, err := c.Model(args[0]).Restore(cmd.Context(), request)
				if err != nil {
					return err
				}
				e.Say("%d observations of %s are undone", answer.GetUndone(), answer.GetModel().GetId())
				return e.emitModel(answer.GetModel())
			})
		},
	}
	cmd.Flags().Uint64Var(&sequence, "sequence", 0, "how many observations to keep")
	cmd.Flags().StringVar(&at, "at", "", "keep what was learned up to this time")
	cmd.Flags().BoolVar(&yes, "yes", false, "undo the later observations")
	return cmd
}

// confirmRestore says what would be undone and asks, unless the user has said yes.
func (e *env) confirmRestore(ctx context.Context, m *client.Model, request *hindsightv1.RestoreModelRequest, yes bool) error {
	if yes {
		return nil
	}
	answer, err := m.Restore(ctx, &hindsightv1.RestoreModelRequest{Sequence: request.Sequence, Time: request.GetTime(), ValidateOnly: true})
	if err != nil {
		return err
	}
	there := answer.GetModel().GetSequence()
	return e.confirm(ctx, fmt.Sprintf("%d of %d observations of %s would be undone", answer.GetUndone(), there, answer.GetModel().GetId()))
}

func newModelExport(e *env) *cobra.Command {
	var out string
	var force, withoutIDs bool
	cmd := &cobra.Command{
		Use:   "export ID --out FILE",
		Short: "Write a model to a file",
		Long: `Write the spec and the state of a model to a file, with the ids that it
remembers and the predictions that wait for labels, or without them. A file
that could not be written completely is removed. "-" is standard output.`,
		Example: `  hindsight model export energy --out energy.hs
  hindsight model export energy --out - | hindsight --address other:50051 model import energy --in -`,
		Args: command.Exactly("ID"), ValidArgsFunction: e.completeModel,
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return command.Usagef("--out is missing")
			}
			if out == "-" && e.JSON() {
				return command.Usagef("--out - and --json both write to standard output")
			}
			request := &hindsightv1.ExportModelRequest{Model: args[0], WithoutIds: withoutIDs}
			return e.withClient(func(c *client.Client) error {
				if out == "-" {
					_, err := c.Model(args[0]).Export(cmd.Context(), e.Stdout, request)
					return err
				}
				return e.exportTo(cmd.Context(), c, request, out, force)
			})
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "the file (required)")
	cmd.Flags().BoolVar(&force, "force", false, "replace an existing file")
	cmd.Flags().BoolVar(&withoutIDs, "without-ids", false, "leave out remembered ids and waiting predictions")
	return cmd
}

// exportTo writes a temporary file and gives it its name when it is complete.
func (e *env) exportTo(
	ctx context.Context, c *client.Client, request *hindsightv1.ExportModelRequest, name string, force bool,
) (err error) {
	if _, err := os.Stat(name); err == nil && !force {
		return command.Usagef("--out: %s exists; --force replaces it", name)
	}
	file, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*.tmp")
	if err != nil {
		return command.Usagef("--out: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name()) // The first error is the one to report.
		}
	}()
	size, err := c.Model(request.GetModel()).Export(ctx, file, request)
	if err == nil {
		err = file.Sync()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), name); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	exported := struct {
		Model string `json:"model"`
		File  string `json:"file"`
		Bytes int64  `json:"bytes"`
	}{request.GetModel(), name, size}
	return e.emit(exported, func(w *command.Page) { w.Printf("exported %s to %s, %d bytes\n", request.GetModel(), name, size) })
}

func newModelImport(e *env) *cobra.Command {
	var in string
	cmd := &cobra.Command{
		Use:     "import ID --in FILE",
		Short:   "Create a model from an exported one",
		Long:    `Create a model from a file of export, under a new id. "-" is standard input.`,
		Example: `  hindsight model import energy-copy --in energy.hs`,
		Args:    command.Exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if in == "" {
				return command.Usagef("--in is missing")
			}
			from := e.Stdin
			if in != "-" {
				file, err := os.Open(in) //nolint:gosec // the user names the file
				if err != nil {
					return command.Usagef("--in: %w", err)
				}
				defer file.Close() //nolint:errcheck // it was only read
				from = file
			}
			return e.withClient(func(c *client.Client) error {
				m, err := c.Model(args[0]).Import(cmd.Context(), from)
				if err != nil {
					return err
				}
				return e.emitModel(m)
			})
		},
	}
	cmd.Flags().StringVar(&in, "in", "", "the file (required)")
	return cmd
}
