package papers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"time"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/research/remote"
)

// Bench takes streams through the models of a server.
type Bench struct{ *remote.Server }

// Plan says which streams and learners to run.
type Plan struct {
	// Data is the directory of the streams.
	Data string
	// Rows is how many rows of a stream to take at most; 0: all.
	Rows int
	// Streams and Learners are what to run, in the order of the report.
	Streams  []Stream
	Learners []Learner
	// Baselines says that the report of the papers' baselines is written too.
	Baselines bool
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
	// Rejected is the rejection of the server; empty: none.
	Rejected string
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
		e, err := b.Take(ctx, s, l, table, grid)
		if err != nil {
			return nil, fmt.Errorf("%s through %s: %w", s.Name, l.Name, err)
		}
		b.Report("%-18s %-14s %s", s.Name, l.Name, e.brief(s))
		r.Entries = append(r.Entries, e)
		if l.Name == NameAuto && e.Rejected == "" {
			if r.Late, err = b.late(ctx, s, table); err != nil {
				return nil, fmt.Errorf("%s with late labels: %w", s.Name, err)
			}
		}
	}
	mean, last := Baselines(table.Y, grid)
	r.Entries = append(r.Entries, baseline(NameMean, mean), baseline(NameLast, last))
	return r, nil
}

// brief describes an entry in one line of progress.
func (e Entry) brief(s Stream) string {
	if e.Rejected != "" {
		return e.Rejected
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

// Take takes the table through a new model of a learner. A rejection of the server becomes
// part of the entry. The error means that the server does not answer or that
// ctx has ended.
func (b *Bench) Take(ctx context.Context, s Stream, l Learner, t *Table, grid []int) (e Entry, err error) {
	e = Entry{
		Name: l.Name, Loss: l.Loss(s), Score: NewScore(grid),
		Skill: math.NaN(), Regret: math.NaN(), Bound: math.NaN(), Rate: math.NaN(),
	}
	id := b.Run + "-" + s.Name + "-" + l.Name
	created, err := b.Create(ctx, id, l.Spec(s, t.Dimension(), t.Sigma))
	if err != nil {
		e.Rejected, err = remote.Rejected(err, 0)
		return e, err
	}
	defer func() { err = errors.Join(err, b.Remove(ctx, id)) }()
	elapsed, err := b.replay(ctx, id, l, t, &e)
	e.Close()
	if elapsed > 0 && e.Rows > 0 {
		e.Rate = float64(e.Rows) / elapsed.Seconds()
	}
	if err != nil {
		e.Rejected, err = remote.Rejected(err, e.Rows)
	}
	if err != nil {
		return e, err
	}
	stats, err := b.Stats(ctx, id)
	if err != nil {
		return e, err
	}
	e = e.with(stats)
	if s.Signs {
		e.Intervals = nil // Those of auto by default, which say nothing of a sign.
	}
	most := max(created.GetPkawvNystrom().GetMaxDictionary(), created.GetProsNKons().GetMaxDictionary())
	e.DictionaryFull = most > 0 && stats.GetDictionary() >= most
	return e, nil
}

// replay observes the rows in order. It returns the time of the calls.
func (b *Bench) replay(ctx context.Context, id string, l Learner, t *Table, e *Entry) (elapsed time.Duration, err error) {
	end := len(t.Y)
	if l.MaxRows > 0 {
		end = min(end, l.MaxRows)
	}
	for from := 0; from < end; from += remote.BatchRows {
		to := min(end, from+remote.BatchRows)
		rows := make([]*hindsightv1.ObserveRequest, 0, to-from)
		for i := from; i < to; i++ {
			rows = append(rows, &hindsightv1.ObserveRequest{
				Features: t.Inputs(i, l),
				Target:   &hindsightv1.ObserveRequest_Label{Label: t.Y[i]},
			})
		}
		outcomes, took, err := b.ObserveBatch(ctx, id, rows)
		if err != nil {
			return elapsed, err
		}
		elapsed += took
		for i, o := range outcomes {
			e.Add(o.GetPrediction(), t.Y[from+i], o.GetLoss())
		}
	}
	return elapsed, nil
}

// with returns the entry with the values of the server.
func (e Entry) with(stats *hindsightv1.ModelStats) Entry {
	e.Skill = skill(stats.GetPerformance().GetPrequential())
	e.Regret = remote.Known(stats.Regret)
	if stats.RegretBound != nil {
		e.Bound = stats.GetRegretBound()
	}
	for _, i := range stats.GetIntervals() {
		e.Intervals = append(e.Intervals, Interval{Level: i.GetCoverage(), Inside: remote.Known(i.Realised), Least: remote.Known(i.Least)})
	}
	e.StateBytes, e.Features = stats.GetStateBytes(), int(stats.GetFeatures())
	return e
}

// skill returns the skill of figures, NaN if it is absent.
func skill(f *hindsightv1.PerformanceFigures) float64 {
	if f == nil {
		return math.NaN()
	}
	return remote.Known(f.Skill)
}
