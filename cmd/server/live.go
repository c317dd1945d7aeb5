package main

import (
	"math"

	"hindsight/internal/engine"
	"hindsight/internal/engine/account"
	"hindsight/internal/engine/account/classes"
	"hindsight/internal/engine/account/interval"
	"hindsight/internal/metrics"
)

// liveModels shows the engine's models to the instruments.
type liveModels struct{ engine *engine.Engine }

// Each implements metrics.Source.
func (l liveModels) Each(f func(metrics.Model)) {
	var room parts // Each model is read at once.
	l.engine.Each(func(m engine.Live) { f(room.model(&m)) })
}

// parts is room for what a model has several of. It serves one model after another.
type parts struct {
	intervals []metrics.Interval
	inputs    []metrics.Input
	classes   metrics.Classifier
}

// model is what the instruments show of a model, until the next call.
func (p *parts) model(m *engine.Live) metrics.Model {
	p.intervals = appendIntervals(p.intervals[:0], m.Intervals)
	p.inputs = appendInputs(p.inputs[:0], m.Inputs)
	bound := m.RegretBound
	if !m.Certified {
		bound = math.NaN() // Nothing is promised, so nothing is shown.
	}
	behind := math.NaN()
	if m.Behind >= 0 {
		behind = float64(m.Behind)
	}
	return metrics.Model{
		Name: m.ID, Learner: m.Learner,
		Observations: m.Observations, Predictions: m.Predictions,
		PrequentialLoss: judgedLoss(m), PrequentialBaselines: baselines(m, m.Whole.Prequential), PrequentialSkill: m.Whole.Prequential.Skill(),
		ServedObservations: m.Predicted, ServedLoss: m.Served.Loss,
		ServedBaselines: baselines(m, m.Served), ServedSkill: m.Served.Skill(),
		Recent: metrics.Recent{
			Observations: uint64(m.Recent.Observations),
			MeanLoss:     m.Recent.Served.Loss / m.Recent.Observations, Skill: m.Recent.Served.Skill(),
		},
		Drift: metrics.Drift{
			Detected: m.Drift.Detected, Rises: m.Drift.Rises, Sequence: m.Drift.Change, LossBefore: m.Drift.Before, LossAfter: m.Drift.After,
		},
		Gate:      metrics.Gate{On: m.Gate.On, SetAside: m.Gate.SetAside, Starts: m.Gate.Starts},
		Intervals: p.intervals, Inputs: p.inputs, Classifier: p.classifier(m.ClassAccount),
		Regret: m.Regret, RegretAge: m.RegretAge, ServedRegret: m.ServedRegret, RegretBound: bound, CertificateOK: m.CertificateOK,
		Features: m.Features, StateBytes: m.StateBytes,
		PendingLabels: m.Pending, PendingLimit: m.PendingLimit, ExpiredLabels: m.Expired, ReadOnly: m.ReadOnly,
		Duplicates: m.Duplicates, Conflicts: m.Conflicts, Queued: m.Queued, Dictionary: m.Dictionary, Behind: behind,
		SnapshotTime: m.SnapshotMade, SnapshotBytes: m.SnapshotBytes, Unsnapshotted: m.Unsnapshotted, ReplaySeconds: m.Replay.Seconds(),
	}
}

// judgedLoss is the loss over the observations that the baselines are judged by: behind a
// label gate, those that were not set aside.
func judgedLoss(m *engine.Live) float64 {
	if m.Gate.On {
		return m.Whole.Prequential.Loss
	}
	return m.Loss
}

// baselines are not known of a classifier, whose baselines are beside its errors.
func baselines(m *engine.Live, f account.Figures) metrics.Baselines {
	if m.ClassAccount != nil {
		return metrics.Baselines{Mean: math.NaN(), Last: math.NaN()}
	}
	return metrics.Baselines{Mean: f.RunningMean, Last: f.LastLabel}
}

func appendIntervals(dst []metrics.Interval, levels []interval.Statistics) []metrics.Interval {
	for _, s := range levels {
		dst = append(dst, metrics.Interval{
			Coverage: s.Level, Judged: s.Judged, Realised: s.Coverage, Recent: s.RecentCoverage,
			MeanWidth: s.MeanWidth, MeanScore: s.MeanScore,
		})
	}
	return dst
}

func appendInputs(dst []metrics.Input, inputs []engine.InputStatistics) []metrics.Input {
	for i := range inputs {
		in := &inputs[i]
		shown := metrics.Input{
			Name: in.Name, Seen: in.Seen, Missing: in.Missing, Outside: in.Outside,
			Mean: math.NaN(), Deviation: math.NaN(), Shift: math.NaN(),
		}
		if in.NumbersKnown {
			shown.Mean, shown.Deviation = in.Mean, in.Deviation
		}
		if in.ShiftKnown {
			shown.Shift = in.Shift
		}
		dst = append(dst, shown)
	}
	return dst
}

// classifier is nil of a model that is none.
func (p *parts) classifier(s *engine.ClassStatistics) *metrics.Classifier {
	if s == nil {
		return nil
	}
	c := &p.classes
	*c = metrics.Classifier{
		Prequential: classFigures(s.Whole.Prequential), Served: classFigures(s.Served),
		Recent: metrics.RecentClasses{
			Observations: uint64(s.Recent.Observations),
			ErrorRate:    s.Recent.Served.Errors / s.Recent.Observations, Skill: s.Recent.Served.Skill(),
		},
		Classes: c.Classes[:0],
	}
	for n, b := range s.Reliability {
		c.Reliability[n] = metrics.Bin{Members: b.Members, Found: b.Found, Expected: b.Expected}
	}
	for k, counts := range s.Classes[:min(len(s.Classes), len(s.Names))] {
		c.Classes = append(c.Classes, metrics.Class{
			Name: s.Names[k], Observed: counts.Observed, Errors: counts.Errors, Predicted: counts.Predicted,
		})
	}
	return c
}

func classFigures(f classes.Figures) metrics.ClassFigures {
	return metrics.ClassFigures{
		Errors: f.Errors, LogLoss: f.LogLoss, Brier: f.Brier,
		MajorityErrors: f.Majority, LastErrors: f.Last, Skill: f.Skill(),
	}
}
