package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
	"hindsight/cmd/client/internal/drive"
	"hindsight/cmd/internal/command"
)

const (
	defaultRetries = 6
	maxDelay       = 1_000_000 // predictions wait in the server, which bounds them too
)

const roundsHelp = `
The label of each served round is sent before the next round is predicted. --delay N sends
the label of round t after the prediction of round t+N, and the rest at the end.

Every round has an id, RUN-t. RUN is random unless --run gives it. A call without an answer,
or one that the server asks to repeat, is sent again under the same id, at most --retries
times within --timeout: after 100 ms at most, then after twice as long, 5 s at most. If no server answers in
the end, the exit code is 3 and the table shows how many observations were acknowledged.
After an interrupt the calls in flight are finished, the labels that are due are sent, the
table is printed, and the exit code is 130. A second interrupt kills the client.

Skill, errors and the share inside of the intervals are of the whole history of the model;
model stats --all says more.

--out writes t,y,prediction,loss,regret for every acknowledged round, with all digits. With
several outputs the columns are y1, y2, ... and prediction1, prediction2, ... Of a
classifier y and prediction are classes, the first prediction empty.`

// rounds are the flags of the commands that take a stream through a model.
type rounds struct {
	model, create, out, run string
	delay                   int
	batches                 bool // rounds are observed in batches and not served
	retries                 int
	offset                  int
	once                    bool // no other run goes on: the server ends with this one
	title                   string
	total                   int // number of rounds, -1 if not known
	observed                func(drive.Observed)
}

func (r *rounds) flags(f *flagSet) {
	f.model(&r.model)
	f.StringVar(&r.create, "create", "", "create the model first; "+specUsage+"; a missing dimension is filled in")
	f.StringVar(&r.out, "out", "", "write a CSV file with one line for each round")
	f.StringVar(&r.run, "run", "", "prefix of the prediction ids; random if empty")
	f.IntVar(&r.delay, "delay", 0, "send each label this many rounds late")
	f.IntVar(&r.retries, "retries", defaultRetries, "how often a call without an answer is sent again")
}

func (r *rounds) check() error {
	switch {
	case r.model == "":
		return command.Usagef("--model is missing")
	case r.delay < 0 || r.delay > maxDelay:
		return command.Usagef("--delay %d is not in 0..%d", r.delay, maxDelay)
	case r.retries < 0:
		return command.Usagef("--retries %d is negative", r.retries)
	case r.run != "" && !regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,39}$`).MatchString(r.run):
		return command.Usagef("--run %q: want up to 40 of a-z, 0-9, '.', '_' and '-'", r.run)
	}
	r.run = cmp.Or(r.run, strings.ToLower(rand.Text()))
	return nil
}

// take takes a stream through the model and prints the table. The error is the
// reason for an early end.
func (r *rounds) take(ctx context.Context, e *env, c *client.Client, source drive.Source) error {
	s, err := r.measure(ctx, e, c, source)
	if s == nil {
		return err
	}
	if s.Acknowledged == 0 && err != nil && !e.JSON() {
		return err // A table of zeros says nothing.
	}
	if failed := e.emit(s, s.write); failed != nil {
		return errors.Join(err, failed)
	}
	return err
}

// measure takes a stream through the model. The summary is nil only if no round
// began.
func (r *rounds) measure(ctx context.Context, e *env, c *client.Client, source drive.Source) (*summary, error) {
	out, err := newOutcomes(r.out)
	if err != nil {
		return nil, command.Usagef("--out: %w", err)
	}
	bar := newProgress(e.Stderr, r.title, r.total)
	result, err := drive.Run(ctx, c, r.model, source, drive.Options{
		Run:     r.run,
		Offset:  r.offset,
		Delay:   r.delay,
		Batches: r.batches,
		Retry:   client.Retry{Max: r.retries},
		OnObserved: func(o drive.Observed) error {
			bar.step()
			if r.observed != nil {
				r.observed(o)
			}
			return out.write(o)
		},
	})
	bar.end()
	if failed := out.close(); failed != nil {
		err = errors.Join(err, fmt.Errorf("--out: %w", failed))
	}
	s := newSummary(r, result)
	if err == nil || !errors.Is(err, client.ErrUnreachable) {
		stats, failed := c.Model(r.model).Stats(context.WithoutCancel(ctx), nil)
		if failed == nil {
			failed = s.take(stats)
		}
		if failed != nil && err == nil {
			err = fmt.Errorf("statistics: %w", failed)
		}
	}
	if err != nil {
		s.unfinished(r, result)
		progress := s.progress
		if s.remedy != "" {
			progress += "; " + s.remedy
		}
		err = fmt.Errorf("unfinished: %s: %w", progress, err)
		s.Error = e.NewFailure(ctx, err)
	}
	return s, err
}

func (e *env) createSpec(text string) (*hindsightv1.ModelSpec, error) {
	spec, err := e.spec(text)
	if err != nil {
		return nil, fmt.Errorf("--create: %w", err)
	}
	return spec, nil
}

// startModel creates a model. It fills in the dimension and the outputs that the spec leaves
// out, unless they follow from named inputs or classes.
func startModel(ctx context.Context, c *client.Client, id string, spec *hindsightv1.ModelSpec, dimension, outputs int) error {
	if spec.GetDimension() == 0 && len(spec.GetInputs()) == 0 {
		spec.Dimension = int32(dimension)
	}
	if spec.GetOutputs() == 0 && !isClassifier(spec) {
		spec.Outputs = int32(outputs)
	}
	if _, err := c.Model(id).Create(ctx, spec); err != nil {
		return fmt.Errorf("create %s: %w", id, err)
	}
	return nil
}

// outcomes writes the file of --out. Without a file name it writes nothing.
type outcomes struct {
	file   *os.File
	csv    *csv.Writer
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
	return &outcomes{file: file, csv: csv.NewWriter(file)}, nil
}

func (o *outcomes) begin(outputs int) error {
	if o.header {
		return nil
	}
	o.header = true
	fields := []string{"t"}
	for _, name := range []string{"y", "prediction"} {
		if outputs == 1 {
			fields = append(fields, name)
			continue
		}
		for j := range outputs {
			fields = append(fields, name+strconv.Itoa(j+1))
		}
	}
	return o.csv.Write(append(fields, "loss", "regret"))
}

// write writes the line of one round. The regret is empty where the learner does not know it.
func (o *outcomes) write(r drive.Observed) error {
	if o.file == nil {
		return nil
	}
	if err := o.begin(max(1, len(r.Labels))); err != nil {
		return err
	}
	fields := []string{strconv.Itoa(r.T)}
	numbers := func(values ...float64) {
		for _, v := range values {
			fields = append(fields, exact(v))
		}
	}
	switch {
	case r.Class != "":
		fields = append(fields, r.Class, r.Outcome.GetClass())
	case r.Outcome.Prediction != nil:
		numbers(slices.Concat(r.Labels, []float64{r.Outcome.GetPrediction()})...)
	default:
		numbers(slices.Concat(r.Labels, r.Outcome.GetPredictions())...)
	}
	numbers(r.Outcome.GetLoss())
	return o.csv.Write(append(fields, command.Optional(r.Outcome.Regret, exact)))
}

func (o *outcomes) close() error {
	if o.file == nil {
		return nil
	}
	err := o.begin(1) // If there was no round.
	o.csv.Flush()
	return errors.Join(err, o.csv.Error(), o.file.Close())
}

const (
	barWidth    = 30
	barInterval = 100 * time.Millisecond
)

// progress is a bar on a terminal. Elsewhere it writes nothing.
type progress struct {
	w           io.Writer // nil: no terminal
	title       string
	total, done int
	start, last time.Time
}

// newProgress starts a bar. A negative total means unknown.
func newProgress(w io.Writer, title string, total int) *progress {
	now := time.Now()
	p := &progress{title: title, total: total, start: now, last: now}
	if command.IsTerminal(w) {
		p.w = w
	}
	return p
}

func (p *progress) step() {
	p.done++
	if p.w == nil || p.done%16 != 0 && p.done != p.total {
		return
	}
	now := time.Now()
	if now.Sub(p.last) < barInterval && p.done != p.total {
		return
	}
	p.last = now
	rate := float64(p.done) / max(now.Sub(p.start).Seconds(), 1e-9)
	if p.total <= 0 {
		p.draw("\r%s %d rounds, %.0f/s\x1b[K", p.title, p.done, rate)
		return
	}
	filled := min(barWidth, barWidth*p.done/p.total)
	left := time.Duration(float64(p.total-p.done) / rate * float64(time.Second)).Round(time.Second)
	p.draw("\r%s [%s%s] %d%%, %d/%d, %.0f/s, %v left\x1b[K", p.title,
		strings.Repeat("=", filled), strings.Repeat(" ", barWidth-filled), 100*p.done/p.total, p.done, p.total, rate, left)
}

func (p *progress) end() {
	if p.w != nil {
		p.draw("\r\x1b[K")
	}
}

// draw writes to the terminal. Its errors are ignored: a bar is not an answer.
func (p *progress) draw(format string, args ...any) {
	_, _ = fmt.Fprintf(p.w, format, args...)
}
