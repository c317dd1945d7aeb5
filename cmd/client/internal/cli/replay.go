package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"hindsight/cmd/client/internal/dataset"
)

// newReplay builds "replay".
func newReplay(e *env) *cobra.Command {
	r := &replay{}
	cmd := &cobra.Command{
		Use:   "replay --csv FILE --model ID",
		Short: "Take the rows of a CSV file through a model",
		Long: `Take the rows of a CSV file through a model: predict, then observe, row by row.

The first line names the columns. One of them is the target, or several, whose
labels go to as many outputs; every other one is a feature. Without a column y,
the targets are y1, y2 and so on. Gzip is recognised by the content of the file. Fields are finite
numbers; a mistake is reported with its line and column.

--shuffle permutes the rows of the whole file, the same way for the same seed.
--offset then skips rows, so that a replay that has stopped can be continued,
with the same --run without learning any row twice. --limit counts rows after
the offset. --normalize minmax scales every feature to [0, 1] by its smallest
and largest value among the rows from the first, skipped ones included, to the
last one taken; a constant becomes 0. The target is left as it is.
` + roundsHelp,
		Example: `  hindsight replay --csv energy.csv.gz --model energy --normalize minmax \
      --create '{"pkawv_taylor": {"degree": 2}}' --out outcomes.csv
  hindsight replay --csv energy.csv.gz --model energy --normalize minmax \
      --run r0f3 --offset 1200 --pipeline 64`,
		Args: exactly(),
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
	flags.StringVar(&r.options.Target, "target", "y", "the column with the labels, or several with commas between them")
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
	options        dataset.Options
}

// check looks for mistakes in the flags.
func (r *replay) check() error {
	switch {
	case r.csv == "":
		return usagef("--csv is missing")
	case r.options.Limit < 0:
		return usagef("--limit %d is negative", r.options.Limit)
	case r.options.Offset < 0:
		return usagef("--offset %d is negative", r.options.Offset)
	case r.normalize != "" && r.normalize != "minmax":
		return usagef("--normalize %q: only minmax is known", r.normalize)
	}
	r.options.MinMax = r.normalize == "minmax"
	return r.rounds.check()
}

func (r *replay) execute(cmd *cobra.Command, e *env) error {
	if err := r.check(); err != nil {
		return err
	}
	source, err := dataset.Open(r.csv, r.options)
	if err != nil {
		return &usageError{err}
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
