package hosted

import (
	"hindsight/internal/engine/account"
	"hindsight/internal/engine/account/classes"
	"hindsight/internal/engine/account/confidence"
	"hindsight/internal/engine/account/drift"
	"hindsight/internal/engine/account/interval"
	"hindsight/internal/engine/machine"
	"hindsight/internal/model"
	"hindsight/internal/model/input"
)

// Figures are the cheap figures of a state.
type Figures struct {
	// Resident: the figures are of a state in memory that has not failed. It has learned Sequence observations.
	Resident bool
	Sequence uint64
	Stats    model.Stats
	Summary  account.Summary
	// Time is when the newest observation was learned, in nanoseconds since 1970; 0 without observations.
	Time int64
	// Inputs are the figures of named inputs, Classes the figures of a classifier, else nil.
	Inputs  []input.Statistics
	Classes *ClassStatistics
}

// ClassStatistics is how a classifier does.
type ClassStatistics struct {
	Names []string
	classes.Summary
}

// FiguresOf reads the figures of a machine with these statistics.
func FiguresOf(m *machine.Machine, stats model.Stats) Figures {
	summary := m.Summary()
	f := Figures{Sequence: m.Sequence(), Stats: stats, Summary: summary, Time: m.Time(), Inputs: m.Inputs()}
	if c := m.ClassSummary(); c != nil {
		f.Classes = &ClassStatistics{Names: m.Classes(), Summary: *c}
	}
	return f
}

// resting are the Figures of a model at rest, in less memory: rare is nil for most models.
type resting struct {
	stats model.Stats
	sums  account.Sums
	time  int64
	rare  *rare
}

type rare struct {
	pairs     confidence.Moments
	drift     drift.Statistics
	intervals []interval.Statistics
	inputs    []input.Statistics
	classes   *ClassStatistics
}

func newResting(f *Figures) *resting {
	r := &resting{stats: f.Stats, sums: f.Summary.Sums, time: f.Time}
	s := &f.Summary
	if len(f.Inputs) > 0 || f.Classes != nil || len(s.Intervals) > 0 || s.Pairs != (confidence.Moments{}) || s.Drift != (drift.Statistics{}) {
		r.rare = &rare{pairs: s.Pairs, drift: s.Drift, intervals: s.Intervals, inputs: f.Inputs, classes: f.Classes}
	}
	return r
}

func (r *resting) figures() Figures {
	f := Figures{Stats: r.stats, Summary: account.Summary{Sums: r.sums}, Time: r.time}
	if s := r.rare; s != nil {
		f.Summary.Pairs, f.Summary.Drift, f.Summary.Intervals, f.Inputs, f.Classes = s.pairs, s.drift, s.intervals, s.inputs, s.classes
	}
	return f
}
