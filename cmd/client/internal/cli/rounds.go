package cli

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/client/internal/drive"
	"hindsight/cmd/client/internal/refusal"
)

const (
	defaultRetries = 6
	maxPipeline    = 4096
)

// roundsHelp tells what replay and simulate have in common.
const roundsHelp = `
Rounds are taken strictly in turn by unary calls. --pipeline N keeps up to N of
them in flight through one session: the labels are learned in the same order
and the losses and the regret are the same, only a prediction that is served
may not have learned from the rounds in flight before it.

Every prediction has an id, RUN-t, where RUN is drawn anew unless --run gives
it. A call that no server answers (UNAVAILABLE, or no answer in time) is sent
again under the same id up to --retries times, 100 ms after the first failure
and twice as long after each further one, 5 s at most; so is one the server
asks to repeat. What the server had learned already it does not learn again.
If it stays away the exit code is 3, and the table says how many observations
were acknowledged. An interrupt lets the rounds in flight finish, prints the
table, and exits with 130; a second one kills.

Losses are those of the prequential predictions, each made from all earlier
observations. The table compares their mean with two predictors that ignore
the inputs: the running mean of the labels, and the last label. Regret,
guarantee and certificate are those of the model's whole history.

--out writes t,y,prediction,loss,regret for every acknowledged round, with as
many digits as it takes to read the number back; of several outputs y1, y2, ...
and prediction1, prediction2, ...`

// rounds are the flags of the commands that take a stream through a model.
type rounds struct {
	model, create, out, run string
	pipeline, retries       int
	offset                  int
	title                   string
	total                   int // rounds that will come, -1 when not known
	observed                func(drive.Observed)
}

// flags adds the flags to a command.
func (r *rounds) flags(e *env, cmd *cobra.Command) {
	e.modelFlag(cmd, &r.model)
	flags := cmd.Flags()
	flags.StringVar(&r.create, "create", "", "create the model first; "+specUsage+", dimension filled in when it is left out")
	flags.StringVar(&r.out, "out", "", "write a CSV file with a line a round")
	flags.StringVar(&r.run, "run", "", "begins the ids of the predictions; drawn anew when empty")
	flags.IntVar(&r.pipeline, "pipeline", 0, "keep up to this many rounds in flight through one session; 0: strictly in turn")
	flags.IntVar(&r.retries, "retries", defaultRetries, "how often a call is sent again when no server answers")
}

// check looks for mistakes in the flags and draws the run.
func (r *rounds) check() error {
	switch {
	case r.model == "":
		return usagef("--model is missing")
	case r.pipeline < 0 || r.pipeline > maxPipeline:
		return usagef("--pipeline %d is not in 0..%d", r.pipeline, maxPipeline)
	case r.retries < 0:
		return usagef("--retries %d is negative", r.retries)
	case r.run != "" && !regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,39}$`).MatchString(r.run):
		return usagef("--run %q: want up to 40 of a-z, 0-9, '.', '_' and '-'", r.run)
	}
	if r.run == "" {
		drawn := make([]byte, 8)
		if _, err := rand.Read(drawn); err != nil {
			return fmt.Errorf("draw a run: %w", err)
		}
		r.run = "r" + hex.EncodeToString(drawn)
	}
	return nil
}

// take takes a stream through the model, prints the table, and returns why it
// ended early, if it did.
func (r *rounds) take(ctx context.Context, e *env, c *client, source drive.Source) error {
	s, err := r.measure(ctx, e, c, source)
	if s == nil {
		return err
	}
	if failed := e.emit(s, s.write); failed != nil {
		return errors.Join(err, failed)
	}
	return err
}

// measure takes a stream through the model. The summary is nil only if nothing
// was begun.
func (r *rounds) measure(ctx context.Context, e *env, c *client, source drive.Source) (*summary, error) {
	out, err := newOutcomes(r.out)
	if err != nil {
		return nil, usagef("--out: %w", err)
	}
	bar := newProgress(e.stderr, r.title, r.total)
	result, err := drive.Run(ctx, c.predictions, source, drive.Options{
		Model:    r.model,
		Run:      r.run,
		Offset:   r.offset,
		Pipeline: r.pipeline,
		Timeout:  c.timeout,
		Retries:  r.retries,
		OnObserved: func(o drive.Observed) error {
			bar.step()
			if r.observed != nil {
				r.observed(o)
			}
			return out.write(o)
		},
	})
	bar.end()
	err = c.mark(err)
	if failed := out.close(); failed != nil {
		err = errors.Join(err, fmt.Errorf("--out: %w", failed))
	}
	s := newSummary(r.model, r.run, result)
	if err == nil || !refusal.Unreachable(err) {
		stats, failed := c.stats(context.WithoutCancel(ctx), r.model, false)
		if failed == nil {
			s.take(stats)
		} else if err == nil {
			err = fmt.Errorf("statistics: %w", failed)
		}
	}
	if err != nil {
		err = fmt.Errorf("%d observations acknowledged, run %s, next offset %d: %w",
			result.Acknowledged, r.run, result.NextOffset, err)
		s.Error = newFailure(err, e.exitCode(ctx, err))
	}
	return s, err
}

// start creates the model if the flags say so.
func (r *rounds) start(ctx context.Context, e *env, c *client, dimension, outputs int) error {
	if r.create == "" {
		return nil
	}
	spec, err := e.createSpec(r.create)
	if err != nil {
		return err
	}
	return c.startModel(ctx, r.model, spec, dimension, outputs)
}

// createSpec reads the spec of --create.
func (e *env) createSpec(text string) (*hindsightv1.ModelSpec, error) {
	spec, err := e.spec(text)
	if err != nil {
		return nil, fmt.Errorf("--create: %w", err)
	}
	return spec, nil
}

// startModel creates a model, whose dimension and outputs are filled in if the
// spec leaves them out.
func (c *client) startModel(ctx context.Context, id string, spec *hindsightv1.ModelSpec, dimension, outputs int) error {
	if spec.GetDimension() == 0 {
		spec.Dimension = int32(dimension)
	}
	if spec.GetOutputs() == 0 {
		spec.Outputs = int32(outputs)
	}
	if _, err := c.create(ctx, id, spec); err != nil {
		return fmt.Errorf("create %s: %w", id, err)
	}
	return nil
}

// outcomes writes the file of --out. Without a name it writes nothing.
type outcomes struct {
	file   *os.File
	w      *bufio.Writer
	line   []byte
	header bool
}

func newOutcomes(name string) (*outcomes, error) {
	if name == "" {
		return &outcomes{}, nil
	}
	file, err := os.Create(name) //nolint:gosec // the user names the file
	if err != nil {
		return nil, err
	}
	return &outcomes{file: file, w: bufio.NewWriter(file)}, nil
}

// begin writes the header, for so many outputs. An error of the writer stays
// with it until the end.
func (o *outcomes) begin(outputs int) {
	if o.header {
		return
	}
	o.header = true
	_, _ = o.w.WriteString("t")
	for _, name := range []string{"y", "prediction"} {
		if outputs == 1 {
			_, _ = o.w.WriteString("," + name)
			continue
		}
		for j := range outputs {
			_, _ = o.w.WriteString("," + name + strconv.Itoa(j+1))
		}
	}
	_, _ = o.w.WriteString(",loss,regret\n")
}

// write writes the line of one round.
func (o *outcomes) write(r drive.Observed) error {
	if o.file == nil {
		return nil
	}
	o.begin(len(r.Labels))
	o.line = strconv.AppendInt(o.line[:0], int64(r.T), 10)
	predictions := r.Outcome.GetPredictions()
	if r.Outcome.Prediction != nil {
		predictions = []float64{r.Outcome.GetPrediction()}
	}
	for _, v := range slices.Concat(r.Labels, predictions, []float64{r.Outcome.GetLoss()}) {
		o.line = append(o.line, ',')
		o.line = strconv.AppendFloat(o.line, v, 'g', -1, 64)
	}
	o.line = append(o.line, ',')
	if r.Outcome.Regret != nil { // Empty where it is not known a round.
		o.line = strconv.AppendFloat(o.line, r.Outcome.GetRegret(), 'g', -1, 64)
	}
	o.line = append(o.line, '\n')
	_, err := o.w.Write(o.line)
	return err
}

func (o *outcomes) close() error {
	if o.file == nil {
		return nil
	}
	o.begin(1) // Of no round at all.
	return errors.Join(o.w.Flush(), o.file.Close())
}
