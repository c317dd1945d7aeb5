package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

const chunkBytes = 256 << 10

func newModelSnapshot(e *env) *cobra.Command {
	return &cobra.Command{
		Use:               "snapshot ID",
		Short:             "Write a snapshot of a model now",
		Args:              exactly("ID"),
		ValidArgsFunction: e.completeModel,
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.withClient(func(c *client) error {
				ctx, cancel := c.bounded(cmd.Context())
				defer cancel()
				answer, err := c.models.SnapshotModel(ctx, &hindsightv1.SnapshotModelRequest{Id: args[0]})
				if err != nil {
					return err
				}
				s := answer.GetSnapshot()
				return e.emit(s, func(w *page) {
					w.printf("sequence\t%d\n", s.GetSequence())
					w.row("written", s.GetCreateTime().AsTime().Format(time.RFC3339))
					w.printf("size\t%d bytes\n", s.GetBytes())
					w.row("state digest", s.GetStateDigest())
				})
			})
		},
	}
}

func newModelSnapshots(e *env) *cobra.Command {
	return &cobra.Command{
		Use:               "snapshots ID",
		Short:             "List the snapshots kept of a model, the newest first",
		Args:              exactly("ID"),
		ValidArgsFunction: e.completeModel,
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.withClient(func(c *client) error {
				ctx, cancel := c.bounded(cmd.Context())
				defer cancel()
				answer, err := c.models.ListSnapshots(ctx, &hindsightv1.ListSnapshotsRequest{Id: args[0]})
				if err != nil {
					return err
				}
				return e.emit(answer, func(w *page) {
					w.printf("SEQUENCE\tWRITTEN\tBYTES\tSTATE DIGEST\n")
					for _, s := range answer.GetSnapshots() {
						w.printf("%d\t%s\t%d\t%s\n", s.GetSequence(), s.GetCreateTime().AsTime().Format(time.RFC3339), s.GetBytes(), s.GetStateDigest())
					}
				})
			})
		},
	}
}

func newModelRestore(e *env) *cobra.Command {
	var sequence uint64
	var yes bool
	cmd := &cobra.Command{
		Use:   "restore ID --sequence N --yes",
		Short: "Take a model back to an earlier sequence",
		Long: `Take a model back to the sequence of a snapshot, or to any that the server's log
still reaches from one. What it had learned after that is undone for good, and
the ids of those observations are forgotten: they can be learned again. Export
the model first to keep both. Without --yes it only says what would be undone.`,
		Example: `  hindsight model restore energy --sequence 12000 --yes`,
		Args:    exactly("ID"), ValidArgsFunction: e.completeModel,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("sequence") {
				return usagef("--sequence is missing (0 undoes everything)")
			}
			return e.withClient(func(c *client) error {
				m, err := c.get(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				if !yes {
					return usagef("%d of %d observations of %s would be undone: --yes does it", m.GetSequence()-min(sequence, m.GetSequence()), m.GetSequence(), args[0])
				}
				ctx, cancel := c.bounded(cmd.Context())
				defer cancel()
				answer, err := c.models.RestoreModel(ctx, &hindsightv1.RestoreModelRequest{Id: args[0], Sequence: &sequence})
				if err != nil {
					return err
				}
				return e.emitModel(answer.GetModel())
			})
		},
	}
	cmd.Flags().Uint64Var(&sequence, "sequence", 0, "how many observations to keep (required)")
	cmd.Flags().BoolVar(&yes, "yes", false, "undo what came after")
	return cmd
}

func newModelExport(e *env) *cobra.Command {
	var out string
	var force bool
	cmd := &cobra.Command{
		Use:   "export ID --out FILE",
		Short: "Write a model, as it is now, to a file",
		Long: `Write a model, as it is now, to a file: its spec and its state. Ids that it
remembers and predictions that wait for labels stay behind. The file appears
whole or not at all. "-" is standard output.`,
		Example: `  hindsight model export energy --out energy.hs
  hindsight model export energy --out - | hindsight --address other:50051 model import energy --in -`,
		Args: exactly("ID"), ValidArgsFunction: e.completeModel,
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return usagef("--out is missing")
			}
			if out == "-" && e.json {
				return usagef("--out - and --json both want standard output")
			}
			return e.withClient(func(c *client) error {
				if out == "-" {
					e.emitted = true
					_, err := c.export(cmd.Context(), args[0], e.stdout)
					return err
				}
				return e.exportTo(cmd.Context(), c, args[0], out, force)
			})
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "the file (required)")
	cmd.Flags().BoolVar(&force, "force", false, "write over a file that is there")
	return cmd
}

// exportTo writes a temporary file and names it when it is whole.
func (e *env) exportTo(ctx context.Context, c *client, id, name string, force bool) (err error) {
	if _, err := os.Stat(name); err == nil && !force {
		return usagef("--out: %s is there already; --force writes over it", name)
	}
	file, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*.tmp")
	if err != nil {
		return usagef("--out: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name()) // What failed is already told.
		}
	}()
	size, err := c.export(ctx, id, file)
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
		ID    string `json:"id"`
		File  string `json:"file"`
		Bytes int64  `json:"bytes"`
	}{id, name, size}
	return e.emit(exported, func(w *page) { w.printf("exported %s to %s, %d bytes\n", id, name, size) })
}

// export writes the pieces of a model as they come.
func (c *client) export(ctx context.Context, id string, to io.Writer) (size int64, err error) {
	stream, err := c.models.ExportModel(ctx, &hindsightv1.ExportModelRequest{Id: id})
	if err != nil {
		return 0, err
	}
	for {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return size, nil
		}
		if err != nil {
			return size, err
		}
		n, err := to.Write(piece.GetChunk())
		size += int64(n)
		if err != nil {
			return size, err
		}
	}
}

func newModelImport(e *env) *cobra.Command {
	var in string
	cmd := &cobra.Command{
		Use:     "import ID --in FILE",
		Short:   "Start a model from an exported one",
		Long:    `Start a model from what export wrote, under any id that is free. "-" is standard input.`,
		Example: `  hindsight model import energy-copy --in energy.hs`,
		Args:    exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if in == "" {
				return usagef("--in is missing")
			}
			from := e.stdin
			if in != "-" {
				file, err := os.Open(in) //nolint:gosec // the user names the file
				if err != nil {
					return usagef("--in: %w", err)
				}
				defer file.Close() //nolint:errcheck // only read
				from = file
			}
			return e.withClient(func(c *client) error {
				m, err := c.importFrom(cmd.Context(), args[0], from)
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

// importFrom sends a model in pieces.
func (c *client) importFrom(ctx context.Context, id string, from io.Reader) (*hindsightv1.Model, error) {
	stream, err := c.models.ImportModel(ctx)
	if err != nil {
		return nil, err
	}
	piece := make([]byte, chunkBytes)
	for first := true; ; first = false {
		n, err := io.ReadFull(from, piece)
		if n > 0 || first {
			// The server's refusal comes with the answer.
			if sent := stream.Send(&hindsightv1.ImportModelRequest{Id: id, Chunk: piece[:n]}); sent != nil {
				break
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return nil, usagef("--in: %w", err)
		}
	}
	answer, err := stream.CloseAndRecv()
	return answer.GetModel(), err
}
