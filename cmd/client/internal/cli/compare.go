package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
	"hindsight/cmd/client/internal/drive"
	"hindsight/cmd/client/internal/stream"
	"hindsight/cmd/internal/command"
	"hindsight/internal/infer"
	"hindsight/internal/nearest"
)

const comparisonCoverage = 0.9

func (e *env) compare() verb {
	v := &comparison{}
	return verb{
		use:   "compare --csv FILE",
		local: true,
		short: "Compare learners on the rows of a CSV file",
		long: `Compare learners on the rows of a CSV file. Each learner gets a temporary model, which is
deleted at the end. All models see the same rows in the same order: a row is predicted,
then observed, so that each prediction is made from earlier rows alone.

` + fileHelp + `

The columns are named inputs, as "hindsight infer" declares them; --ignore leaves columns
out. The target is --target, else y, else the last column.

The table has the best learner first. RMSE and MAE are in the unit of the label, over all
rows with a label but the first, and all outputs. Skill is 1 - squared error / that of the better of two
trivial predictors, the running mean and the last label; of classes it counts errors. The
time is for a prediction and an observation.

The last lines compare the two best learners by the differences of their losses on each
row. The 95 % confidence interval of the mean difference is that of "model compare": it holds
for every number of rows at once, and does not correct for having chosen the two among
several. Fewer than 100 rows have no interval.`,
		example: `  hindsight compare --csv trips.csv --local
  hindsight compare --csv energy.csv.gz --target y --learners auto,linear_awv,kernel_awv --delay 24`,
		flags: func(f *flagSet) {
			f.file(&v.csv, &v.options.Delimiter, &v.options.Target, "the file; - is standard input (required)")
			f.StringSliceVar(&v.learners, "learners", []string{"auto", "linear_awv", "fourier_awv", "ada_raker"}, "comma-separated learners")
			f.fixed("learners", learners())
			f.IntVar(&v.delay, "delay", 0, "observe each row this many rows late")
			f.StringSliceVar(&v.options.Ignore, "ignore", nil, "comma-separated columns to ignore")
			f.BoolVar(&v.options.Classes, "classes", false, "the labels are classes, though they are numbers")
		},
		before: func(c *call) error {
			if err := v.check(); err != nil {
				return err
			}
			if v.name = v.csv; v.csv == "-" {
				v.name = "standard input"
			}
			return e.spooled(&v.csv, func() (err error) {
				if v.spec, v.rows, err = e.inferSpec(v.csv, &v.options, c.given("target"), v.options.Classes); err != nil {
					return err
				}
				v.options.Classes, v.options.Label = isClassifier(v.spec), v.spec.GetLabel()
				return e.withClient(c.ctx(), func(server *client.Client) error { return v.run(c.ctx(), e, server) })
			})
		},
	}
}

type comparison struct {
	csv      string
	name     string // of --csv, for people
	learners []string
	delay    int
	options  stream.FileOptions

	spec *hindsightv1.ModelSpec // without a learner
	rows int
}

func (v *comparison) check() error {
	switch {
	case v.csv == "":
		return command.Usagef("--csv is missing")
	case len(v.learners) == 0:
		return command.Usagef("--learners is empty")
	case v.delay < 0 || v.delay > maxDelay:
		return command.Usagef("--delay %d is not in 0..%d", v.delay, maxDelay)
	}
	for i, name := range v.learners {
		switch {
		case !slices.Contains(learners(), name):
			return command.Usagef("--learners: %q is no learner%s; they are %s", name, nearest.Meant(name, learners()), strings.Join(learners(), ", "))
		case slices.Contains(v.learners[:i], name):
			return command.Usagef("--learners names %s twice", name)
		}
	}
	return nil
}

func (v *comparison) specOf(learner string) *hindsightv1.ModelSpec {
	spec := proto.CloneOf(infer.For(v.spec, learner))
	m := spec.ProtoReflect()
	m.Mutable(m.Descriptor().Fields().ByName(protoreflect.Name(learner)))
	if spec.GetRlsc() != nil {
		spec.Classes = nil // It is a classifier by itself.
	}
	if !isClassifier(spec) {
		spec.Coverage = []float64{comparisonCoverage}
	}
	return spec
}

// run takes the rows through all learners, one after another, and writes the report.
func (v *comparison) run(ctx context.Context, e *env, c *client.Client) error {
	for _, learner := range v.learners {
		if _, err := c.Validate(ctx, v.specOf(learner)); err != nil {
			return fmt.Errorf("%s: %w", learner, err)
		}
	}
	drawn := strings.ToLower(rand.Text())
	r := &report{File: v.name, Target: v.options.Target, Delay: v.delay, classes: v.options.Classes}
	for _, learner := range v.learners {
		a, err := v.evaluate(ctx, e, c, learner, "compare-"+drawn+"-"+learner)
		if err != nil {
			return fmt.Errorf("%s: %w", learner, err)
		}
		r.Learners = append(r.Learners, a)
	}
	r.conclude()
	return e.emit(r, r.write)
}

// evaluate takes the rows through a temporary model of a learner.
func (v *comparison) evaluate(ctx context.Context, e *env, c *client.Client, learner, id string) (a *contestant, err error) {
	if _, err := c.Model(id).Create(ctx, v.specOf(learner)); err != nil {
		return nil, err
	}
	defer func() {
		// Also after an interrupt.
		_, failed := c.Model(id).Delete(context.WithoutCancel(ctx), &hindsightv1.DeleteModelRequest{Purge: true})
		err = errors.Join(err, failed)
	}()
	source, err := stream.OpenRecords(v.csv, stream.RecordOptions{FileOptions: v.options, Inputs: v.spec.GetInputs()})
	if err != nil {
		return nil, &command.UsageError{Err: err}
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	a = &contestant{Learner: learner, delay: v.delay}
	bar := newProgress(e.Stderr, learner, v.rows)
	result, err := drive.Run(ctx, c, id, source, drive.Options{
		Run: "compare", Delay: v.delay, Batches: v.delay == 0,
		Retry: client.Retry{Max: defaultRetries},
		OnObserved: func(o drive.Observed) error {
			bar.step()
			a.add(o)
			return nil
		},
	})
	bar.end()
	if err != nil {
		return nil, err
	}
	if len(a.losses) == 0 {
		return nil, command.Usagef("%s: got %s with all labels of %s, want at least 2", v.name, command.Count(len(a.rounds), "row"), v.options.Target)
	}
	stats, err := c.Model(id).Stats(ctx, nil)
	if err != nil {
		return nil, err
	}
	a.finish(result, stats)
	return a, nil
}
