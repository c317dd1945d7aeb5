package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
	"hindsight/cmd/client/internal/drive"
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

Of a model with named inputs, each input is the column of its name, in any order.
A column that is neither an input nor a target is refused, or left out with
--ignore-columns. What becomes of a cell:

numeric      a number
boolean      true, yes, t, y, on or 1; false, no, f, n, off or 0
categorical  the text; a number, if all cells of the column are integers
time         RFC 3339, of any form that infer knows and all cells have
vector       numbers with spaces, commas or semicolons between them, and brackets
             around them or not

An empty cell is a missing value. So is NA and the like, but not in a column of
texts. "hindsight infer" prints a spec for a file. The target of a classifier has
the classes as texts, whether its inputs have names or not.

--shuffle permutes the rows of the whole file; the same seed gives the same
order. --offset then skips rows. With the same --run it continues a replay that
was stopped, and no row is learned twice. --limit counts rows after the offset.
--normalize minmax scales every feature to [0, 1] by its smallest and largest
value. The range covers the rows from the first one of the file to the last one
taken. A constant becomes 0. Labels are not scaled.
` + roundsHelp,
		Example: `  hindsight replay --csv energy.csv.gz --model energy --create '{}'
  hindsight replay --csv energy.csv.gz --model late --create '{}' --delay 10
  hindsight infer --csv trips.csv > trips.json
  hindsight replay --csv trips.csv --model trips --create @trips.json
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
	flags.BoolVar(&r.ignore, "ignore-columns", false, "leave out the columns that are neither a named input nor a target")
	return cmd
}

// replay is what the flags of "replay" say.
type replay struct {
	rounds
	csv, normalize string
	seed           uint64
	ignore         bool
	options        stream.FileOptions
}

// rows are the rows of a file.
type rows interface {
	drive.Source
	// Outputs is the number of labels, Total the number of rows, -1 if not known.
	Outputs() int
	Total() int
	Close() error
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
	// Mistakes are reported before the first call.
	if err := stream.CheckHeader(r.csv, r.options.Target); err != nil {
		return &command.UsageError{Err: err}
	}
	return e.withClient(func(c *client.Client) error {
		spec, err := r.spec(cmd.Context(), e, c)
		if err != nil {
			return err
		}
		source, dimension, err := r.open(spec)
		if err != nil {
			return &command.UsageError{Err: err}
		}
		r.title, r.total, r.offset = "replay", source.Total(), r.options.Offset
		if r.create != "" {
			err = startModel(cmd.Context(), c, r.model, spec, dimension, source.Outputs())
		}
		if err == nil {
			err = r.take(cmd.Context(), e, c, source)
		}
		return errors.Join(err, source.Close())
	})
}

// spec is the spec of the model: that of --create, or that of the model that exists.
func (r *replay) spec(ctx context.Context, e *env, c *client.Client) (*hindsightv1.ModelSpec, error) {
	if r.create != "" {
		return e.createSpec(r.create)
	}
	m, err := c.Model(r.model).Get(ctx)
	return m.GetSpec(), err
}

// open opens the file as the spec of a model asks for. The dimension is that of the
// features, 0 for named inputs.
func (r *replay) open(spec *hindsightv1.ModelSpec) (source rows, dimension int, err error) {
	r.options.Classes = isClassifier(spec)
	if len(spec.GetInputs()) == 0 {
		if r.ignore {
			return nil, 0, errors.New("--ignore-columns: the model has no named inputs, every column is a feature")
		}
		file, err := stream.OpenFile(r.csv, r.options)
		if err != nil {
			return nil, 0, err
		}
		return file, file.Dimension(), nil
	}
	if r.options.MinMax {
		return nil, 0, errors.New("--normalize: the model has named inputs, which it encodes itself")
	}
	records, err := stream.OpenRecords(r.csv, stream.RecordOptions{
		FileOptions: r.options, Inputs: spec.GetInputs(), IgnoreColumns: r.ignore,
	})
	if err != nil {
		return nil, 0, err
	}
	return records, 0, nil
}

// isClassifier tells whether the labels of a model are classes.
func isClassifier(spec *hindsightv1.ModelSpec) bool {
	return spec.GetClasses() != nil || spec.GetRlsc() != nil
}
