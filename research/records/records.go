// Package records takes streams through a server as an application has them: by the
// names of their columns, unscaled, with classes as texts and a spec that is inferred
// from the file. It writes a report beside the runs of the same streams scaled by hand.
package records

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"

	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/research/papers"
	"hindsight/cmd/research/remote"
	"hindsight/internal/infer"
)

// Plan says what to run.
type Plan struct {
	// Data is the directory of the streams.
	Data string
	// Rows is how many rows of a stream to take at most; 0: all.
	Rows int
}

// Results are what the report shows. An unknown number is NaN.
type Results struct {
	// Rows is that of the plan.
	Rows int
	// Skipped are the streams without a file.
	Skipped []string
	// Inferred are the specs of the streams of named columns.
	Inferred []Inferred
	// Beside are the runs of named columns beside those that were scaled by hand.
	Beside []Beside
	// Digits are the runs of the ten digits.
	Digits []Digits
	// Withheld are the runs in which one of them comes late.
	Withheld []Withheld
	// Reliability are the tables of the probabilities of two classes.
	Reliability []Reliability
}

// Inferred is the spec that was inferred of a stream.
type Inferred struct {
	// Stream is the name of the stream, Rows how many rows its file has.
	Stream string
	Rows   int
	// Columns are what was found of the columns.
	Columns []Column
}

// Column is what was found of a column, and why.
type Column struct{ Name, Kind, Reason string }

// Beside is a learner on the named columns of a stream, with a column more if the name
// says so, and on the scaled ones.
type Beside struct {
	Stream, Learner string
	Named, Scaled   Side
}

// Side is one of the two runs.
type Side struct {
	// Rows is the number of rounds, Features what the learner has of them.
	Rows, Features int
	// Value is the mean loss in units of the range of the labels, squared; of classes
	// the share of errors.
	Value float64
	// Skill is the one that the server says of quantities, Rate is in rounds per second.
	Skill, Rate float64
	// Rejected is the rejection of the server; empty: none.
	Rejected string
}

// Ratio is the loss or the errors of named columns divided by those of scaled ones.
func (b Beside) Ratio() float64 { return b.Named.Value / b.Scaled.Value }

// Digits is a run of the ten digits with one scaling.
type Digits struct {
	Scaling string
	// Rows is the number of rounds, Errors their share that was decided wrongly.
	Rows           int
	Errors         float64
	LogLoss, Brier float64
	Rate           float64
	Rejected       string
}

// Withheld is what became of digits each of which was left out at first: the means
// over the ten digits.
type Withheld struct {
	Scaling  string
	Recoding float64
	// First is the share of errors of the first rows of the digit, Others that of the
	// other digits from its first row on.
	First, Others float64
}

// Reliability is what became of the probabilities of a classifier of two classes.
type Reliability struct {
	Stream, Learner string
	// Rows is the number of rounds, Errors their share that was decided wrongly, Last
	// that of the last class.
	Rows           int
	Errors, Last   float64
	LogLoss, Brier float64
	// Bins are ten, of the same width.
	Bins     []Bin
	Rejected string
}

// Bin is a bin of probabilities: their number, their mean, and the share of them
// whose class came.
type Bin struct {
	Members          uint64
	Predicted, Found float64
}

// crowd is how many members a bin has that is scored.
const crowd = 500

// Worst is the largest distance of a bin of 500 members or more from its mean
// probability, NaN if there is none.
func (r Reliability) Worst() float64 {
	worst := math.NaN()
	for _, b := range r.Bins {
		if b.Members >= crowd && !(math.Abs(b.Found-b.Predicted) <= worst) {
			worst = math.Abs(b.Found - b.Predicted)
		}
	}
	return worst
}

// Bench takes streams through the models of a server.
type Bench struct{ *remote.Server }

// Measure runs what has its file.
func (b *Bench) Measure(ctx context.Context, p Plan) (*Results, error) {
	r := &Results{Rows: p.Rows}
	for _, part := range []struct {
		stream string
		run    func(context.Context, Plan, *Results) error
	}{{"bike", b.bike}, {"elec2", b.elec2}, {"ijcnn1", b.ijcnn1}, {"digits", b.digits}} {
		err := part.run(ctx, p, r)
		if errors.Is(err, fs.ErrNotExist) {
			b.Report("%-8s skipped: it has no file", part.stream)
			r.Skipped = append(r.Skipped, part.stream)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", part.stream, err)
		}
	}
	return r, nil
}

// bike is a stream of quantities. Its day is no part of its file, and is added in
// runs of their own.
func (b *Bench) bike(ctx context.Context, p Plan, r *Results) error {
	n, err := readNamed(p, bikeNames())
	if err != nil {
		return err
	}
	_, sides, err := b.beside(ctx, p, n, nil, r)
	if err != nil {
		return err
	}
	if n, err = readNamed(p, dated()); err != nil {
		return err
	}
	_, _, err = b.beside(ctx, p, n, sides, r)
	return err
}

// elec2 is a stream of two classes.
func (b *Bench) elec2(ctx context.Context, p Plan, r *Results) error {
	n, err := readNamed(p, elec2Names())
	if err != nil {
		return err
	}
	games, _, err := b.beside(ctx, p, n, nil, r)
	if err != nil {
		return err
	}
	return b.reliable(ctx, n.set, games, r)
}

// ijcnn1 is a stream of two classes whose columns have no names.
func (b *Bench) ijcnn1(ctx context.Context, p Plan, r *Results) error {
	f, err := readFile(p, "ijcnn1")
	if err != nil {
		return err
	}
	s, err := f.vectors()
	if err != nil {
		return err
	}
	s.spec.Classes = &hindsightv1.Classes{MaxClasses: proto.Int32(2)}
	return b.reliable(ctx, s, nil, r)
}

// stream is the stream of that name, with or without a column that was added.
func stream(name string) papers.Stream {
	name, _, _ = strings.Cut(name, plus)
	for _, s := range papers.Streams() {
		if s.Name == name {
			return s
		}
	}
	panic("records: no stream " + name)
}

// described copies what the report shows of columns.
func described(columns []*infer.Column) []Column {
	out := make([]Column, len(columns))
	for i, c := range columns {
		out[i] = Column{Name: c.Name, Kind: string(c.Kind), Reason: c.Reason}
	}
	return out
}
