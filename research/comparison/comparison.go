// Package comparison takes published streams through the baselines of the papers,
// and through a few learners in process. It writes a report beside what the papers
// print, tables, curves, and figures like theirs. It needs no server.
package comparison

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"

	"hindsight/cmd/research/baselines"
	"hindsight/cmd/research/papers"
)

// GridPoints is the number of points of a curve.
const GridPoints = 100

// Result is the result of one stream.
type Result struct {
	// Stream is the stream.
	Stream papers.Stream
	// Rounds is how many of its rounds were taken, the first ones.
	Rounds int
	// Courses are the online baselines with every step.
	Courses []Course
	// Traces are learners of the server, run in process on the same rounds.
	Traces []Trace
	// Accuracies and Passes are the results of NYTRO and of SIGM on the stream that
	// has a split of its own.
	Accuracies []baselines.Accuracy
	Passes     []baselines.Passes
}

// Course is what one baseline with one step did.
type Course struct {
	baselines.Course
	// MeanLoss is the mean loss, NaN if the course has diverged. ErrorRate is the
	// share of the predictions with the wrong sign.
	MeanLoss, ErrorRate float64
	// Curve are the means over the rounds.
	Curve []papers.Point
}

// Trace is what one learner did.
type Trace struct {
	// Name is the name in the API.
	Name string
	// Points are its figures over the rounds.
	Points []TracePoint
}

// TracePoint are the figures of a learner after T rounds.
type TracePoint struct {
	papers.Point
	// Regret is NaN for a learner that does not know it. Dictionary is 0 for one
	// without centres.
	Regret     float64
	Dictionary int
}

// Bench runs the comparison.
type Bench struct {
	// Data is the directory of the streams.
	Data string
	// Rows is how many rows of a stream to take at most; 0: baselines.MaxRounds.
	Rows int
	// Say reports progress; it may be nil.
	Say func(format string, args ...any)
}

// Stream takes one stream through the baselines and the learners. The result is nil
// if the stream has no file, or is not served.
func (b *Bench) Stream(ctx context.Context, s papers.Stream) (*Result, error) {
	if s.Unserved != "" {
		return nil, nil //nolint:nilnil // there is nothing to report of the stream
	}
	limit := baselines.MaxRounds
	if b.Rows > 0 {
		limit = min(limit, b.Rows)
	}
	table, err := papers.Load(b.Data, s, limit)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // there is nothing to report of the stream
	}
	if err != nil {
		return nil, err
	}
	r := &Result{Stream: s, Rounds: len(table.Y)}
	grid := papers.Grid(r.Rounds, GridPoints)
	if r.Courses, err = courses(ctx, table, s, grid); err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	b.say("%-18s %d baselines over %d rounds", s.Name, len(r.Courses), r.Rounds)
	for _, l := range learners() {
		trace, err := l.trace(ctx, table, s, grid)
		if err != nil {
			return nil, fmt.Errorf("%s through %s: %w", s.Name, l.name, err)
		}
		r.Traces = append(r.Traces, trace)
	}
	b.say("%-18s %d learners in process", s.Name, len(r.Traces))
	if s.Name == splitStream {
		err = b.split(ctx, s, r)
	}
	return r, err
}

func (b *Bench) say(format string, args ...any) {
	if b.Say != nil {
		b.Say(format, args...)
	}
}

// courses takes the table through the online baselines.
func courses(ctx context.Context, t *papers.Table, s papers.Stream, grid []int) ([]Course, error) {
	online := baselines.NewOnline(s.Signs, len(t.Y))
	all := make([]Course, len(online.Courses()))
	scores := make([]*papers.Score, len(all))
	for i, c := range online.Courses() {
		all[i].Course, scores[i] = c, papers.NewScore(grid)
	}
	for i, x := range t.X {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for c, told := range online.Observe(x, t.Y[i]) {
			scores[c].Add(told, t.Y[i], online.Loss().Of(told, t.Y[i]))
		}
	}
	for i, score := range scores {
		score.Close()
		all[i].MeanLoss, all[i].ErrorRate, all[i].Curve = score.MeanLoss(), score.ErrorRate(), score.Curve
	}
	return all, nil
}

// splitStream is the stream that its publishers split into a sample and a test,
// sampleRows the size of the sample.
const (
	splitStream = "ijcnn1"
	sampleRows  = 49990
)

// split runs NYTRO and SIGM. The thesis uses the file of LIBSVM as it is, so the
// columns are not scaled again.
func (b *Bench) split(ctx context.Context, s papers.Stream, r *Result) error {
	s.AsPublished = true
	table, err := papers.Load(b.Data, s, 0)
	if err != nil {
		return err
	}
	n, end := sampleRows, len(table.Y)
	if b.Rows > 0 {
		n = min(n, b.Rows)
		end = min(end, sampleRows+b.Rows)
	}
	if end <= sampleRows {
		return nil // The file is not the published one.
	}
	split := baselines.Split{
		X: table.X[:n], Y: table.Y[:n], TestX: table.X[sampleRows:end], TestY: table.Y[sampleRows:end],
	}
	if r.Accuracies, err = baselines.Accuracies(ctx, split); err != nil {
		return fmt.Errorf("%s: NYTRO: %w", s.Name, err)
	}
	b.say("%-18s NYTRO with %d sizes", s.Name, len(r.Accuracies))
	if r.Passes, err = baselines.SIGM(ctx, split); err != nil {
		return fmt.Errorf("%s: SIGM: %w", s.Name, err)
	}
	b.say("%-18s SIGM with %d steps", s.Name, len(r.Passes))
	return nil
}

// main is the number by which methods are compared on the stream: the mean loss, or
// the error rate if the labels are signs.
func (r *Result) main(loss, errs float64) float64 {
	if r.Stream.Signs {
		return errs
	}
	return loss
}

// course returns the number of a method with a step, NaN if it has diverged or was
// not run.
func (r *Result) course(method string, step int) float64 {
	for _, c := range r.Courses {
		if c.Method == method && c.Step == step {
			return r.main(c.MeanLoss, c.ErrorRate)
		}
	}
	return math.NaN()
}

// best returns the step with which a method did best, and its number.
func (r *Result) best(method string) (step int, least float64) {
	step, least = baselines.NoStep, math.Inf(1)
	for s := range baselines.Steps {
		if v := r.course(method, s); v < least {
			step, least = s, v
		}
	}
	return step, least
}

// methods returns the names of the methods in their order, and whether they have
// steps.
func (r *Result) methods() (names []string, stepped []bool) {
	for _, c := range r.Courses {
		if len(names) == 0 || names[len(names)-1] != c.Method {
			names, stepped = append(names, c.Method), append(stepped, c.Step != baselines.NoStep)
		}
	}
	return names, stepped
}
