package engine

import (
	"context"
	"math"
	"runtime"
	"time"

	"go.uber.org/zap"

	"hindsight/internal/engine/machine"
	"hindsight/internal/model"
	"hindsight/internal/model/codec"
)

const (
	// A report of at least dearFlops multiply-adds, about a tenth of a second,
	// waits until no other like it is being solved.
	dearFlops = 1e8
	// A report of more than unaskedFlops multiply-adds is solved only for a
	// caller that asks for it.
	unaskedFlops = 1e9
)

// serves tells whether the report is of the state at a sequence and has what is
// asked for.
func (s *solved) serves(sequence, epoch uint64, o StatsOptions) bool {
	return s != nil && s.sequence == sequence && s.epoch == epoch &&
		(s.asked.EffectiveDimension || !o.EffectiveDimension) && (s.asked.HindsightPath || !o.HindsightPath)
}

// keep takes over what was asked of an earlier report of the same state.
func (s *solved) keep(earlier *solved) {
	if earlier == nil || earlier.sequence != s.sequence || earlier.epoch != s.epoch {
		return
	}
	if earlier.asked.EffectiveDimension && !s.asked.EffectiveDimension {
		s.asked.EffectiveDimension, s.report.EffectiveDimension = true, earlier.report.EffectiveDimension
	}
	if earlier.asked.HindsightPath && !s.asked.HindsightPath {
		s.asked.HindsightPath, s.report.HindsightPath = true, earlier.report.HindsightPath
	}
}

// solve gives the report of the present state. It copies the state under the
// read lock and solves the copy, unless the newest report is of this state.
func (i *instance) solve(ctx context.Context, o StatsOptions) (s *solved, err error) {
	for s == nil && err == nil { // It has left memory otherwise.
		s, err = i.solveLoaded(ctx, o)
	}
	return s, err
}

// solveLoaded is solve. It answers nothing if the model leaves memory before it is copied.
func (i *instance) solveLoaded(ctx context.Context, o StatsOptions) (*solved, error) {
	s, err := i.fresh(ctx, o)
	if err != nil || s != nil {
		return s, err
	}
	done, err := i.takeTurn(ctx, o)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := take(ctx, i.reporting, "other reports"); err != nil {
		return nil, err
	}
	defer func() { <-i.reporting }()
	// The state, the one that it is restored to, and what solving takes.
	given, err := i.takeBytes(ctx, (copiesOf+1)*i.stateBytes())
	if err != nil {
		return nil, err
	}
	defer given()
	buffer := i.buffer()
	if loaded, err := i.lockIfLoaded(); err != nil || !loaded {
		return nil, err
	}
	m := i.mu.machine
	s = &solved{
		intervals: m.Intervals(), sequence: m.Sequence(), epoch: i.epoch.Load(), asked: o, at: i.o.Now(),
	}
	var stats model.Stats
	stats, err = m.Stats()
	s.figuresOf = figuresNow(m, stats)
	var copied codec.Snapshot
	if err == nil {
		copied, err = m.Snapshot(buffer)
	}
	i.mu.RUnlock()
	if err == nil {
		err = i.finish(s, copied, o)
	}
	if err != nil {
		i.countPanic(err)
		return nil, i.errorf("report", err)
	}
	if s.epoch == i.epoch.Load() {
		s.keep(i.solved.Load())
		i.solved.Store(s)
	}
	return s, nil
}

// takeTurn lets reports that take long be solved one at a time.
func (i *instance) takeTurn(ctx context.Context, o StatsOptions) (done func(), err error) {
	if err := i.lockLoaded(ctx); err != nil {
		return nil, err
	}
	stats, err := i.mu.machine.Stats()
	i.mu.RUnlock()
	if err != nil || flops(stats, o) < dearFlops {
		return func() {}, err
	}
	return func() { <-i.solving }, take(ctx, i.solving, "other reports that take long")
}

// fresh is the newest report if it is of the present state, else nil.
func (i *instance) fresh(ctx context.Context, o StatsOptions) (*solved, error) {
	s := i.solved.Load()
	if s == nil {
		return nil, nil
	}
	if err := i.lockLoaded(ctx); err != nil {
		return nil, err
	}
	defer i.mu.RUnlock()
	if s.serves(i.mu.machine.Sequence(), i.epoch.Load(), o) {
		return s, nil
	}
	return nil, nil
}

// finish solves a copied state.
func (i *instance) finish(s *solved, copied codec.Snapshot, o StatsOptions) error {
	started := i.o.Now()
	s.digest = codec.Digest(copied.Learner)
	m, err := machine.Restore(i.Spec, i.Learners, copied)
	if err != nil {
		return err
	}
	s.report, err = m.Report(model.ReportOptions{
		EffectiveDimension: o.EffectiveDimension, HindsightPath: o.HindsightPath, Pause: runtime.Gosched,
	})
	if err != nil {
		return err
	}
	if e := m.Encoder(); e != nil && len(s.report.Weights) > 0 {
		s.features = e.Names()
	}
	i.reports.Add(1)
	i.reportNanoseconds.Add(int64(i.o.Now().Sub(started)))
	return nil
}

// flops estimates the multiply-adds of a report.
func flops(s model.Stats, o StatsOptions) float64 {
	work := float64(s.ReportFlops)
	if o.EffectiveDimension {
		work += math.Pow(float64(s.Features), 3) / 3
	}
	return work
}

// solveUnasked solves the report that is the oldest among those that a scrape
// would show and that lag behind their models. It tells whether there was one.
func (s *shared) solveUnasked(models []*instance) (worked bool) {
	var next *instance
	var oldest time.Time
	for _, i := range models {
		at, lags := i.lags()
		if lags && (next == nil || at.Before(oldest)) {
			next, oldest = i, at
		}
	}
	if next == nil {
		return false
	}
	if _, err := next.solve(s.lifetime, StatsOptions{}); err != nil && s.lifetime.Err() == nil {
		s.o.Log.Warn("report failed", zap.String("model", next.id), zap.Error(err))
	}
	return true
}

// lags tells whether a scrape would show a regret of before, or none, and since
// when.
func (i *instance) lags() (since time.Time, lags bool) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if i.mu.machine == nil || i.mu.broken != nil {
		return since, false
	}
	stats, err := i.mu.machine.Stats()
	if err != nil || stats.ReportFlops == 0 || stats.ReportFlops > unaskedFlops {
		return since, false
	}
	s := i.solved.Load()
	if s == nil {
		return since, i.mu.machine.Sequence() > 0
	}
	return s.at, s.sequence != i.mu.machine.Sequence()
}
