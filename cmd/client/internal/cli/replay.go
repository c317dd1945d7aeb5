package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"hindsight/cmd/client/internal/stream"
	"hindsight/cmd/internal/command"
)

// newReplay builds "replay".
func newReplay(e *env) *cobra.Command {
	r := &replay{}
	cmd := &cobra.Command{
		Use:   "replay --csv FILE --model ID",
		Short: "Take the rows of a CSV file through a model",
		Long: `Take the rows of a CSV file through a model: predict, then observe, row by row.

The first line names the columns. --target names the column with the labels, or
one column for each output; every other column is a feature. If there is no
column y, the default targets are y1, y2 and so on. The file may be compressed
with gzip. Fields are finite numbers. An error names its line and column.

--create '{}' creates a model that picks its learner itself (auto), with the
dimension and the outputs of the file.

--shuffle permutes the rows of the whole file; the same seed gives the same
order. --offset then skips rows. With the same --run it continues a replay that
was stopped, and no row is learned twice. --limit counts rows after the offset.
--normalize minmax scales every feature to [0, 1] by its smallest and largest
value. The range covers the rows from the first one of the file to the last one
taken. A constant becomes 0. Labels are not scaled.
` + roundsHelp,
		Example: `  hindsight replay --csv energy.csv.gz --model energy --create '{}'
  hindsight replay --csv energy.csv.gz --model late --create '{}' --delay 10
  hindsight replay --csv energy.csv.gz --model taylor --normalize minmax \
      --create '{"pkawv_taylor": {"degree": 2}}' --out outcomes.csv
  hindsight replay --csv energy.csv.gz --model taylor --normalize minmax \
      --run r0f3 --offset 1200 --pipeline 64`,
		Args: command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("shuffle") {
				r.options.Shuffle = &r.seed
			}
			return r.execute(cmd, e)
		},
	}
	r.flags(e, cmd)
	flags := cmd.Flags()
	flags.StringVar(&r.csv, "csv", "", "the file, plain or gzip (required)")
	flags.StringVar(&r.options.Target, "target", "y", "the column with the labels, or several columns with commas between them")
	flags.StringVar(&r.normalize, "normalize", "", "minmax scales every feature to [0, 1]")
	flags.IntVar(&r.options.Limit, "limit", 0, "take at most this many rows; 0: all")
	flags.IntVar(&r.options.Offset, "offset", 0, "skip this many rows")
	flags.Uint64Var(&r.seed, "shuffle", 0, "permute the rows with this seed")
	return cmd
}

// replay is what the flags of "replay" say.
type replay struct {
	rounds
	csv, normalize string
	seed           uint64
	options        stream.FileOptions
}

// check checks the flags.
func (r *replay) check() error {
	switch {
	case r.csv == "":
		return command.Usagef("--csv is missing")
	case r.options.Limit < 0:
		return command.Usagef("--limit %d is negative", r.options.Limit)
	case r.options.Offset < 0:
		return command.Usagef("--offset %d is negative", r.options.Offset)
	case r.normalize != "" && r.normalize != "minmax":
		return command.Usagef("--normalize %q: only minmax is known", r.normalize)
	}
	r.options.MinMax = r.normalize == "minmax"
	return r.rounds.check()
}

func (r *replay) execute(cmd *cobra.Command, e *env) error {
	if err := r.check(); err != nil {
		return err
	}
	source, err := stream.OpenFile(r.csv, r.options)
	if err != nil {
		return &command.UsageError{Err: err}
	}
	r.title, r.total, r.offset = "replay", source.Total(), r.options.Offset
	err = e.withClient(func(c *client) error {
		if err := r.start(cmd.Context(), e, c, source.Dimension(), source.Outputs()); err != nil {
			return err
		}
		return r.take(cmd.Context(), e, c, source)
	})
	return errors.Join(err, source.Close())
}
