package figures

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"hindsight/internal/engine/account/interval"
	"hindsight/internal/engine/hosted"
	"hindsight/internal/engine/machine"
	"hindsight/internal/model"
	"hindsight/internal/model/input"
	"hindsight/internal/model/regret"
	"hindsight/internal/model/snapshot"
)

const (
	// A report of at least expensiveFlops multiply-adds, about a tenth of a second, waits until no other
	// expensive report is being solved.
	expensiveFlops = 1e8
	// A report of more than unaskedFlops multiply-adds is solved only for a caller that asks for it.
	unaskedFlops = 1e9
)

// Options of a Reporter.
type Options struct {
	Now        func() time.Time
	Log        *zap.Logger
	Durability string
	Learners   machine.Learners
	// Panicked takes the errors of reports.
	Panicked func(error)
}

// Reporter bounds and counts the reports and lists of an engine.
type Reporter struct {
	o Options
	// reporting bounds the reports, expensive the reports of many operations, lists the lists that look at every
	// model.
	reporting, expensive, lists hosted.Slots
	Counters                    ReportCounters
}

// NewReporter returns a Reporter without reports.
func NewReporter(o Options) *Reporter {
	return &Reporter{o: o, reporting: make(hosted.Slots, hosted.CopiesAtOnce), expensive: make(hosted.Slots, 1), lists: make(hosted.Slots, listsAtOnce)}
}

// ReportCounters count the reports solved.
type ReportCounters struct {
	Reports atomic.Int64
}

// Reader reads the figures of one model, and keeps its newest report.
type Reader struct {
	Model    *hosted.Model
	reporter *Reporter
	newest   atomic.Pointer[report]
}

// Init makes r the reader of a model.
func (r *Reader) Init(m *hosted.Model, reporter *Reporter) { r.Model, r.reporter = m, reporter }

// StatsOptions say which figures statistics have that they leave out otherwise.
type StatsOptions struct {
	// EffectiveDimension and RegretRKHS cost O(r³) to solve, HindsightPath is r + 1 numbers,
	// Importances cost some 16384 predictions of trees and at least 64 an input.
	EffectiveDimension, RegretRKHS, HindsightPath, Importances bool
	// Recent is RecentRegret, for which recentRounds observations are learned again.
	Recent bool
}

// recentRounds bounds the observations of RecentRegret.
const recentRounds = 1 << 14

// include reports whether o asks for nothing that p does not ask for.
func (p StatsOptions) include(o StatsOptions) bool {
	return (p.EffectiveDimension || !o.EffectiveDimension) && (p.RegretRKHS || !o.RegretRKHS) &&
		(p.HindsightPath || !o.HindsightPath) && (p.Importances || !o.Importances) && (p.Recent || !o.Recent)
}

type report struct {
	sequence, epoch uint64
	hosted.Figures
	intervals [][]interval.Statistics
	digest    [32]byte
	solved    model.Report
	recent    []regret.Window
	// features are the names of the features that solved has weights of.
	features []string
	effects  []KeyEffect
	// asked is what was asked for beside the rest.
	asked StatsOptions
	at    time.Time
}

func (r *report) serves(sequence, epoch uint64, o StatsOptions) bool {
	return r.sequence == sequence && r.epoch == epoch && r.asked.include(o)
}

// current is the newest report, nil if there is none or if the model was restored since.
func (r *Reader) current(epoch uint64) *report {
	if newest := r.newest.Load(); newest != nil && newest.epoch == epoch {
		return newest
	}
	return nil
}

var errLeft = errors.New("the model has left memory")

// report returns the report of the present state: the newest report if that is of the present state, else
// one solved on a copy, which holds up neither Predict nor Observe.
func (r *Reader) report(ctx context.Context, o StatsOptions) (*report, error) {
	for {
		solved, err := r.tryReport(ctx, o)
		if !errors.Is(err, errLeft) {
			return solved, err
		}
	}
}

// tryReport is report. It is errLeft if the model leaves memory before it is copied.
func (r *Reader) tryReport(ctx context.Context, o StatsOptions) (*report, error) {
	newest, expensive := r.newest.Load(), false
	err := r.Model.View(ctx, func(m *machine.Machine) error {
		if newest != nil && newest.serves(m.Sequence(), r.Model.Gauges().Epoch, o) {
			return nil
		}
		stats, err := m.Stats()
		newest, expensive = nil, o.Recent || flops(stats, o) >= expensiveFlops
		return err
	})
	if err != nil || newest != nil {
		return newest, err
	}
	if expensive {
		if err := r.reporter.expensive.Take(ctx, "other reports that take long"); err != nil {
			return nil, err
		}
		defer r.reporter.expensive.Free()
	}
	if err := r.reporter.reporting.Take(ctx, "other reports"); err != nil {
		return nil, err
	}
	defer r.reporter.reporting.Free()
	return r.reportCopy(ctx, o)
}

func (r *Reader) reportCopy(ctx context.Context, o StatsOptions) (*report, error) {
	s := &report{asked: o, at: r.reporter.o.Now()}
	copied, release, resident, err := r.Model.CopyState(ctx, func(m *machine.Machine) error {
		s.intervals, s.sequence, s.epoch = m.Intervals(), m.Sequence(), r.Model.Gauges().Epoch
		stats, err := m.Stats()
		s.Figures = hosted.FiguresOf(m, stats)
		return err
	})
	switch {
	case err == nil && !resident:
		return nil, errLeft
	case !resident:
		return nil, err
	case err == nil:
		if err = r.solve(s, copied, release); err == nil && o.Recent {
			s.recent, err = r.recentRegret(ctx, s)
		}
	}
	if err != nil {
		r.reporter.o.Panicked(err)
		return nil, errorf(r.Model, "report", err)
	}
	if s.epoch == r.Model.Gauges().Epoch {
		r.newest.Store(s)
	}
	return s, nil
}

// recentRegret learns the newest observations up to the report's again, and solves for the regret on them.
func (r *Reader) recentRegret(ctx context.Context, s *report) ([]regret.Window, error) {
	rounds := min(recentRounds, regret.Rounds(s.Stats.Features))
	rows, release, err := r.Model.RecentRows(ctx, s.sequence, s.epoch, rounds)
	if err != nil {
		return nil, err
	}
	defer release()
	return rows.Windows(rounds, runtime.Gosched), nil
}

func (r *Reader) solve(s *report, copied snapshot.Snapshot, release func()) error {
	defer release()
	s.digest = snapshot.Digest(copied.Learner)
	m, err := machine.Restore(*r.Model.Spec(), r.reporter.o.Learners, copied)
	if err != nil {
		r.reporter.o.Panicked(err)
		return fmt.Errorf("%w: %v", hosted.ErrUnreadable, err) //nolint:errorlint // The state in memory is whole.
	}
	s.solved, err = m.Report(model.ReportOptions{
		EffectiveDimension: s.asked.EffectiveDimension, RegretRKHS: s.asked.RegretRKHS, HindsightPath: s.asked.HindsightPath,
		Importances: s.asked.Importances, Pause: runtime.Gosched,
	})
	if err != nil {
		return err
	}
	if e := m.Encoder(); e != nil && len(s.solved.Weights)+len(s.solved.Importances) > 0 {
		s.features = e.Names()
		s.solved.Importances = nameInputs(s.solved.Importances, e.Schema(), s.features)
	}
	if e := m.Encoder(); e != nil {
		s.effects = nameEffects(s.solved.Effects, e)
	}
	r.reporter.Counters.Reports.Add(1)
	return nil
}

// nameInputs names importances by the named input, and the cycles of a time by the feature without ".sin".
// The key of a category is part of the input: its importance is added to the input's.
func nameInputs(importances []model.Importance, schema *input.Schema, features []string) []model.Importance {
	inputs := map[int]int{} // The importances of the inputs that have a key.
	named := importances[:0]
	for n := range importances {
		i := &importances[n]
		k, known := inputOf(schema, i)
		if _, keyed := schema.Key(k); known && keyed {
			i.Name = schema.Name(k)
			if first, twice := inputs[k]; twice {
				named[first].Gain += i.Gain
				named[first].Permutation += i.Permutation
				continue
			}
			inputs[k] = len(named)
			named = append(named, *i)
			continue
		}
		switch cycle, isCycle := strings.CutSuffix(features[i.From], ".sin"); {
		case i.From == i.To:
		case i.To == i.From+1:
			i.Name = features[i.From]
		case isCycle:
			i.Name = cycle
		case known:
			i.Name = schema.Name(k)
		}
		named = append(named, *i)
	}
	return named
}

func inputOf(schema *input.Schema, i *model.Importance) (k int, ok bool) {
	for k := range schema.Len() {
		if from, to := schema.Span(k); i.From < i.To && i.From >= from && i.From < to {
			return k, true
		}
	}
	return 0, false
}

func nameEffects(effects []model.Effect, e *input.Encoder) []KeyEffect {
	var named []KeyEffect
	for _, effect := range effects {
		if key, ok := e.KeyOf(effect.Feature, effect.Key); ok {
			named = append(named, KeyEffect{Input: e.Schema().Name(key.Input), Key: key, Effect: effect})
		}
	}
	return named
}

func flops(s model.Stats, o StatsOptions) float64 {
	work := float64(s.ReportFlops)
	if o.EffectiveDimension {
		work += math.Pow(float64(s.Features), 3) / 3
	}
	if o.RegretRKHS {
		work += math.Pow(float64(s.Features), 3) * 2 / 3
	}
	return work
}

// Refresh solves one report that nobody asked for: the oldest one that a scrape would show and that is not
// of its model's present state. It reports whether it solved one.
func (r *Reporter) Refresh(ctx context.Context, readers []*Reader) (worked bool) {
	var next *Reader
	var oldest time.Time
	for _, reader := range readers {
		at, stale := reader.stale()
		if stale && (next == nil || at.Before(oldest)) {
			next, oldest = reader, at
		}
	}
	if next == nil {
		return false
	}
	if _, err := next.report(ctx, StatsOptions{}); err != nil && ctx.Err() == nil {
		r.o.Log.Warn("report failed", zap.String("model", next.Model.ID()), zap.Error(err))
	}
	return true
}

// stale reports whether a scrape would show a regret of an earlier state, or none, and since when.
func (r *Reader) stale() (since time.Time, stale bool) {
	if !r.Model.Gauges().Resident {
		return time.Time{}, false
	}
	f, _, broken := r.Model.Figures()
	if broken != nil || f.Stats.ReportFlops == 0 || f.Stats.ReportFlops > unaskedFlops {
		return time.Time{}, false
	}
	sequence, err := r.Model.Sequence()
	if err != nil {
		return time.Time{}, false
	}
	newest := r.newest.Load()
	if newest == nil {
		return time.Time{}, sequence > 0
	}
	return newest.at, newest.sequence != sequence
}
