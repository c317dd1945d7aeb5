package papers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"time"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/internal/refusal"
)

// BatchRows is how many rounds one ObserveBatch carries.
const BatchRows = 128

// Bench takes streams through the models of a server.
type Bench struct {
	// Models and Predictions are the services of the server.
	Models      hindsightv1.ModelServiceClient
	Predictions hindsightv1.PredictionServiceClient
	// Run is the prefix of the model ids. Every model is deleted after its run.
	Run string
	// Timeout bounds every call.
	Timeout time.Duration
	// Now is the clock.
	Now func() time.Time
	// Say reports progress; it may be nil.
	Say func(format string, args ...any)
}

// Plan says which streams and learners to run.
type Plan struct {
	// Data is the directory of the streams.
	Data string
	// Rows is how many rows of a stream to take at most; 0: all.
	Rows int
	// Streams and Learners are what to run, in the order of the report.
	Streams  []Stream
	Learners []Learner
}

// Result is the result of one stream.
type Result struct {
	// Stream is the stream.
	Stream Stream
	// Skipped says why it was not run; empty: it was run.
	Skipped string
	// Rows is the number of rows that were used, Missing the number of rows
	// without a label, Dimension the number of inputs. Sigma is the bandwidth.
	Rows, Missing, Dimension int
	Sigma                    float64
	// Entries are the results of the learners, then of the baselines.
	Entries []Entry
	// Late are the results of auto with late labels, of some streams.
	Late []Late
}

// Entry is the result of one learner or baseline on one stream. An unknown
// number is NaN.
type Entry struct {
	// Name is the name of the learner or the baseline.
	Name string
	// Baseline says that it is a baseline.
	Baseline bool
	// Loss is the name of the loss: squared or logistic.
	Loss string
	// Score is the account of its rounds.
	*Score
	// Skill, Regret and Bound are the values of the server. Skill is 1 - loss / the
	// loss of the better baseline, in the loss of the learner. Bound is known only
	// for a certified learner.
	Skill, Regret, Bound float64
	// Intervals says how the prediction intervals did, of a stream of quantities.
	Intervals []Interval
	// Rate is in rounds per second.
	Rate float64
	// StateBytes is the memory of the state, Features the number of features.
	StateBytes uint64
	Features   int
	// DictionaryFull says that the dictionary has the largest size that its
	// spec allows.
	DictionaryFull bool
	// Refused is the refusal of the server; empty: none.
	Refused string
}

// Interval says how the prediction intervals of one level did. An unknown number
// is NaN.
type Interval struct {
	// Level is the share of labels that were to lie inside.
	Level float64
	// Inside is the share of those that did, Least the least share over 500 rounds
	// in a row after the first 500.
	Inside, Least float64
}

// interval returns the intervals of a level.
func (e Entry) interval(level float64) Interval {
	for _, i := range e.Intervals {
		if i.Level == level {
			return i
		}
	}
	return Interval{Level: level, Inside: math.NaN(), Least: math.NaN()}
}

// absentFile says that a stream was skipped because it has no file.
const absentFile = "its file is not there"

// Stream takes one stream of the plan through its learners.
func (b *Bench) Stream(ctx context.Context, p Plan, s Stream) (*Result, error) {
	if s.Unserved != "" {
		return &Result{Stream: s, Skipped: s.Unserved}, nil
	}
	table, err := Load(p.Data, s, p.Rows)
	if errors.Is(err, fs.ErrNotExist) {
		return &Result{Stream: s, Skipped: absentFile}, nil
	}
	if err != nil {
		return nil, err
	}
	r := &Result{
		Stream: s, Rows: len(table.Y), Missing: table.Missing,
		Dimension: table.Dimension(), Sigma: table.Sigma,
	}
	grid := Grid(len(table.Y), GridPoints)
	for _, l := range p.Learners {
		e, err := b.learner(ctx, s, l, table, grid)
		if err != nil {
			return nil, fmt.Errorf("%s through %s: %w", s.Name, l.Name, err)
		}
		b.say("%-18s %-14s %s", s.Name, l.Name, e.brief(s))
		r.Entries = append(r.Entries, e)
		if l.Name == NameAuto && e.Refused == "" {
			if r.Late, err = b.late(ctx, s, table); err != nil {
				return nil, fmt.Errorf("%s with late labels: %w", s.Name, err)
			}
		}
	}
	mean, last := Baselines(table.Y, grid)
	r.Entries = append(r.Entries, baseline(NameMean, mean), baseline(NameLast, last))
	return r, nil
}

func (b *Bench) say(format string, args ...any) {
	if b.Say != nil {
		b.Say(format, args...)
	}
}

// brief describes an entry in one line of progress.
func (e Entry) brief(s Stream) string {
	if e.Refused != "" {
		return e.Refused
	}
	if s.Signs {
		return fmt.Sprintf("%7d rows  %6.2f %% errors  %9.0f rounds/s", e.Rows, 100*e.ErrorRate(), e.Rate)
	}
	return fmt.Sprintf("%7d rows  loss %-10.4g %9.0f rounds/s", e.Rows, e.MeanLoss(), e.Rate)
}

func baseline(name string, s *Score) Entry {
	return Entry{
		Name: name, Baseline: true, Loss: squared, Score: s,
		Skill: math.NaN(), Regret: math.NaN(), Bound: math.NaN(), Rate: math.NaN(),
	}
}

// learner takes the table through a new model. A refusal of the server becomes
// part of the entry. The error means that the server does not answer or that
// ctx has ended.
func (b *Bench) learner(ctx context.Context, s Stream, l Learner, t *Table, grid []int) (e Entry, err error) {
	e = Entry{
		Name: l.Name, Loss: l.Loss(s), Score: NewScore(grid),
		Skill: math.NaN(), Regret: math.NaN(), Bound: math.NaN(), Rate: math.NaN(),
	}
	id := b.Run + "-" + s.Name + "-" + l.Name
	created, err := b.create(ctx, id, l.Spec(s, t.Dimension(), t.Sigma))
	if err != nil {
		e.Refused, err = refused(err, 0)
		return e, err
	}
	defer func() { err = errors.Join(err, b.remove(ctx, id)) }()
	elapsed, err := b.replay(ctx, id, l, t, &e)
	e.Close()
	if elapsed > 0 && e.Rows > 0 {
		e.Rate = float64(e.Rows) / elapsed.Seconds()
	}
	if err != nil {
		e.Refused, err = refused(err, e.Rows)
	}
	if err != nil {
		return e, err
	}
	stats, err := b.stats(ctx, id)
	if err != nil {
		return e, err
	}
	e = e.with(stats)
	if s.Signs {
		e.Intervals = nil // Those of auto by default, which say nothing of a sign.
	}
	most := created.GetPkawvNystrom().GetMaxDictionary()
	e.DictionaryFull = most > 0 && stats.GetDictionary() >= most
	return e, nil
}

// create creates a model and returns its spec with every default filled in.
func (b *Bench) create(ctx context.Context, id string, spec *hindsightv1.ModelSpec) (*hindsightv1.ModelSpec, error) {
	var created *hindsightv1.CreateModelResponse
	err := b.call(ctx, func(ctx context.Context) (err error) {
		created, err = b.Models.CreateModel(ctx, &hindsightv1.CreateModelRequest{Id: id, Spec: spec})
		return err
	})
	return created.GetModel().GetSpec(), err
}

// remove deletes a model, even when ctx has ended.
func (b *Bench) remove(ctx context.Context, id string) error {
	return b.call(context.WithoutCancel(ctx), func(ctx context.Context) error {
		_, err := b.Models.DeleteModel(ctx, &hindsightv1.DeleteModelRequest{Id: id})
		return err
	})
}

// replay observes the rows in order. It returns the time of the calls.
func (b *Bench) replay(ctx context.Context, id string, l Learner, t *Table, e *Entry) (elapsed time.Duration, err error) {
	rows := len(t.Y)
	if l.MaxRows > 0 {
		rows = min(rows, l.MaxRows)
	}
	for from := 0; from < rows; from += BatchRows {
		to := min(rows, from+BatchRows)
		request := &hindsightv1.ObserveBatchRequest{Model: id}
		for i := from; i < to; i++ {
			request.Observations = append(request.Observations, &hindsightv1.ObserveRequest{
				Features: t.Inputs(i, l),
				Target:   &hindsightv1.ObserveRequest_Label{Label: t.Y[i]},
			})
		}
		var answer *hindsightv1.ObserveBatchResponse
		start := b.Now()
		err := b.call(ctx, func(ctx context.Context) (err error) {
			answer, err = b.Predictions.ObserveBatch(ctx, request)
			return err
		})
		if err != nil {
			return elapsed, err
		}
		elapsed += b.Now().Sub(start)
		if got := len(answer.GetOutcomes()); got != to-from {
			return elapsed, fmt.Errorf("the server answered %d outcomes to %d observations", got, to-from)
		}
		for i, o := range answer.GetOutcomes() {
			e.Add(o.GetPrediction(), t.Y[from+i], o.GetLoss())
		}
	}
	return elapsed, nil
}

// stats returns the statistics of a model.
func (b *Bench) stats(ctx context.Context, id string) (*hindsightv1.ModelStats, error) {
	var answer *hindsightv1.GetModelStatsResponse
	err := b.call(ctx, func(ctx context.Context) (err error) {
		answer, err = b.Models.GetModelStats(ctx, &hindsightv1.GetModelStatsRequest{Id: id})
		return err
	})
	return answer.GetStats(), err
}

// with returns the entry with the values of the server.
func (e Entry) with(stats *hindsightv1.ModelStats) Entry {
	e.Skill = skill(stats.GetPerformance().GetPrequential())
	e.Regret = known(stats.Regret)
	if stats.GetCertified() {
		e.Bound = stats.GetRegretBound()
	}
	for _, i := range stats.GetIntervals() {
		e.Intervals = append(e.Intervals, Interval{Level: i.GetCoverage(), Inside: known(i.Realised), Least: known(i.Least)})
	}
	e.StateBytes, e.Features = stats.GetStateBytes(), int(stats.GetFeatures())
	return e
}

// skill returns the skill of figures, NaN if it is absent.
func skill(f *hindsightv1.PerformanceFigures) float64 {
	if f == nil {
		return math.NaN()
	}
	return known(f.Skill)
}

// known returns a number, NaN if it is absent.
func known(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

// call makes one call within the timeout.
func (b *Bench) call(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, b.Timeout)
	defer cancel()
	return do(ctx)
}

// refused describes the refusal of a server after a number of rounds, without
// names that differ from run to run. An error that is not a refusal is returned.
func refused(err error, rows int) (string, error) {
	reason := refusal.Reason(err)
	if reason == "" || reason == "SHUTTING_DOWN" || reason == "STORAGE_FAILED" {
		return "", err
	}
	if rows == 0 {
		return "refused: " + reason, nil
	}
	return fmt.Sprintf("refused after %s rows: %s", thousands(rows), reason), nil
}
