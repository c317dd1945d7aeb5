package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
	"hindsight/cmd/client/internal/drive"
	"hindsight/cmd/client/internal/stream"
	"hindsight/cmd/internal/command"
	"hindsight/internal/dataset"
	"hindsight/internal/infer"
)

func (e *env) replay() verb {
	r := &replay{}
	return verb{
		use:   "replay --csv FILE --model ID",
		local: true,
		short: "Take the rows of a CSV file through a model",
		long: `Take the rows of a CSV file through a model. The model observes the rows in their
order, in batches, and each row is evaluated by its prequential prediction, made from all
rows before it. --serve and --delay serve the rows: each row is predicted, then observed,
one call after another, and evaluated by its served prediction too.

` + fileHelp + `

--target names the column of the label, or a column for each output; the default y also
means y1, y2 and so on. Every other column is a feature, unless --features names the
features or --ignore leaves columns out. Fields are finite numbers, such as -1.5e3, $1,234
and 45%. All rows are checked before the first call.

--create '{}' creates a model that picks its learner itself (auto), with the dimension
and the outputs of the file.

With --local and without --create the spec is the output of "hindsight infer", and without a
column y the target is the last column.

A model with named inputs takes the columns of their names, in any order. A column that is
neither an input nor a target is rejected, unless infer leaves it out or --ignore names it;
--ignore '*' leaves out all such columns. A cell becomes:

numeric      a number, with or without a sign of a currency or of percent
boolean      true: true, yes, t, y, on or 1; false: false, no, f, n, off or 0
categorical  the text; a number, if all cells of the column are integers
time         RFC 3339, from a form that infer knows and all cells have
vector       numbers with spaces, commas or semicolons between them, also in brackets

An empty cell is a missing value. So are NA and the like, but not in a column of texts. A
row whose target is empty, NA, NaN, null or ?, among numbers also none, nil, - or infinite,
is predicted and not observed.

--offset skips rows, and --limit counts rows after the offset. To continue a replay that was
stopped, give the same command with the --run that it printed: learned rows get their first
answers. With the --offset that it printed they are skipped.
` + roundsHelp,
		example: `  hindsight replay --csv energy.csv.gz --model energy --create '{}'
  hindsight replay --csv orders.csv --model orders --create '{}' --target paid --features amount,items --delay 24
  hindsight replay --csv trips.csv --model trips --create @trips.json
  hindsight replay --csv energy.csv.gz --model energy --run r0f3 --offset 1200 --serve`,
		flags: func(f *flagSet) {
			r.flags(f)
			f.file(&r.csv, &r.options.Delimiter, &r.options.Target, "the file; - is standard input (required)")
			f.IntVar(&r.options.Limit, "limit", 0, "take at most this many rows; 0: all")
			f.IntVar(&r.options.Offset, "offset", 0, "skip this many rows")
			f.BoolVar(&r.serve, "serve", false, "predict each row before it is observed")
			f.StringSliceVar(&r.options.Features, "features", nil, "comma-separated feature columns; default: all other columns")
			f.StringSliceVar(&r.options.Ignore, "ignore", nil, "comma-separated columns to ignore; '*': all that are neither a named input nor a target")
		},
		before: func(c *call) error {
			if r.model == "" && e.local.on {
				r.model = localModel
			}
			r.targetGiven = c.given("target")
			r.batches = !r.serve && r.delay == 0
			return r.execute(c.ctx(), e)
		},
	}
}

type replay struct {
	rounds
	csv         string
	serve       bool
	targetGiven bool
	options     stream.FileOptions
	leftOut     []*infer.Column // of the columns that are no inputs
}

type rows interface {
	drive.Source
	// Outputs is the number of labels.
	Outputs() int
	// Notes say what a user should know of the rows.
	Notes() []string
	Close() error
}

func (r *replay) check() error {
	switch {
	case r.csv == "":
		return command.Usagef("--csv is missing")
	case r.options.Limit < 0:
		return command.Usagef("--limit %d is negative", r.options.Limit)
	case r.options.Offset < 0:
		return command.Usagef("--offset %d is negative", r.options.Offset)
	}
	return r.rounds.check()
}

func (r *replay) execute(ctx context.Context, e *env) error {
	if err := r.check(); err != nil {
		return err
	}
	if isSameFile(r.csv, r.out) {
		return command.Usagef("--out: %s is the file of --csv, and would be lost", r.out)
	}
	return e.spooled(&r.csv, func() error {
		var spec *hindsightv1.ModelSpec
		var err error
		if e.local.on && r.create == "" {
			if spec, _, err = e.inferSpec(r.csv, &r.options, r.targetGiven, false); err != nil {
				return err
			}
		}
		// Mistakes are reported before the first call.
		if err := stream.CheckHeader(r.csv, r.options.Target, r.options.Delimiter); err != nil {
			return &command.UsageError{Err: err}
		}
		return e.withClient(ctx, func(c *client.Client) error { return r.through(ctx, e, c, spec) })
	})
}

// through takes the file through the model. It reads all rows before it creates the model
// and before it sends the first row. The spec is the inferred spec of a model to create, or nil.
func (r *replay) through(ctx context.Context, e *env, c *client.Client, spec *hindsightv1.ModelSpec) (err error) {
	inferred := spec != nil
	create := inferred || r.create != ""
	if !inferred {
		if spec, err = r.spec(ctx, e, c); err != nil {
			return err
		}
	}
	checked, dimension, err := r.open(spec)
	if err == nil {
		r.total, err = count(checked)
	}
	if err == nil && !inferred { // Else inferSpec has said it.
		e.notice(r.leftOut, checked.Notes(), &r.options)
	}
	if err == nil && r.total == 0 && r.options.Offset == 0 {
		err = stream.NoRow(r.csv)
	}
	if err != nil {
		return &command.UsageError{Err: err}
	}
	r.title, r.offset = "replay", r.options.Offset
	if create {
		if err := startModel(ctx, c, r.model, spec, dimension, checked.Outputs()); err != nil {
			return err
		}
	}
	source, _, err := r.open(spec)
	if err != nil {
		return &command.UsageError{Err: err}
	}
	return errors.Join(r.take(ctx, e, c, source), source.Close())
}

func isSameFile(a, b string) bool {
	first, err := os.Stat(a)
	if err != nil {
		return false
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second)
}

func count(source rows) (n int, err error) {
	defer func() { err = errors.Join(err, source.Close()) }()
	for ; ; n++ {
		if _, err := source.Next(); errors.Is(err, io.EOF) {
			return n, nil
		} else if err != nil {
			return n, err
		}
	}
}

// spooled calls do. Meanwhile a file "-", which is standard input, and a pipe are a temporary file,
// because commands read rows several times.
func (e *env) spooled(file *string, do func() error) (err error) {
	name, in := *file, e.Stdin
	switch {
	case name == "-":
		name = "standard input"
	case !isPipe(name):
		return do()
	default:
		pipe, err := os.Open(name) //nolint:gosec // the user names the file
		if err != nil {
			return err
		}
		defer pipe.Close() //nolint:errcheck // it was only read
		in = pipe
	}
	if *file, err = spool(in); err != nil {
		return err
	}
	err = do()
	if wrong, ok := errors.AsType[*dataset.Error](err); ok && wrong.File == *file {
		wrong.File = name
	}
	return errors.Join(err, os.Remove(*file))
}

func isPipe(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode()&(os.ModeNamedPipe|os.ModeSocket|os.ModeCharDevice) != 0
}

// spool writes standard input or a pipe to a temporary file.
func spool(in io.Reader) (name string, err error) {
	file, err := os.CreateTemp("", "hindsight-*.csv")
	if err != nil {
		return "", fmt.Errorf("copy the rows: %w", err)
	}
	_, err = io.Copy(file, in)
	if err = errors.Join(err, file.Close()); err != nil {
		return "", fmt.Errorf("copy the rows: %w", errors.Join(err, os.Remove(file.Name())))
	}
	return file.Name(), nil
}

func (r *replay) spec(ctx context.Context, e *env, c *client.Client) (*hindsightv1.ModelSpec, error) {
	if r.create != "" {
		return e.createSpec(r.create)
	}
	m, err := c.Model(r.model).Get(ctx)
	return m.GetSpec(), err
}

func (r *replay) open(spec *hindsightv1.ModelSpec) (source rows, dimension int, err error) {
	r.options.Classes, r.options.Label = isClassifier(spec), spec.GetLabel()
	if len(spec.GetInputs()) == 0 {
		file, err := stream.OpenFile(r.csv, r.options)
		if err != nil {
			return nil, 0, err
		}
		return file, file.Dimension(), nil
	}
	records, err := stream.OpenRecords(r.csv, stream.RecordOptions{FileOptions: r.options, Inputs: spec.GetInputs()})
	if err != nil {
		return nil, 0, err
	}
	r.leftOut = records.Noticed()
	return records, 0, nil
}

func isClassifier(spec *hindsightv1.ModelSpec) bool {
	return spec.GetClasses() != nil || spec.GetRlsc() != nil
}
