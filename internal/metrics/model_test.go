package metrics_test

import (
	"math"
	"time"

	"hindsight/internal/engine/account"
	"hindsight/internal/engine/account/classes"
	"hindsight/internal/engine/account/drift"
	"hindsight/internal/engine/account/interval"
	"hindsight/internal/engine/figures"
	"hindsight/internal/model"
	"hindsight/internal/model/input"
)

// Model is what metrics show of a model, number by number. Its method live returns what a scrape
// reads. NaN stands for an unknown number.
type Model struct {
	Name, Learner                                                  string
	Observations, Predictions, ServedObservations                  uint64
	PrequentialLoss, ServedLoss                                    float64
	PrequentialBaselines, ServedBaselines                          Baselines
	PrequentialSkill, ServedSkill                                  float64 // They follow from losses and baselines.
	Recent                                                         Recent
	Regret, ServedRegret, RegretBound, ReplaySeconds, Behind       float64
	RegretAge, StateBytes, PendingLabels, ExpiredLabels, Conflicts uint64
	Duplicates, Unsnapshotted                                      uint64
	CertificateOK, ReadOnly                                        bool
	Features, Queued, Dictionary                                   int
	PendingLimit, SnapshotBytes                                    int64
	SnapshotTime                                                   time.Time
	Drift                                                          Drift
	Gate                                                           Gate
	Intervals                                                      []Interval
	Inputs                                                         []Input
	Classifier                                                     *Classifier
}

type Baselines struct{ Mean, Last float64 }

// Recent has the mean loss and the skill of so many observations.
type Recent struct {
	Observations    uint64
	MeanLoss, Skill float64
}

type Drift struct {
	Detected, Rises, Sequence uint64
	LossBefore, LossAfter     float64
}

type Gate struct {
	On               bool
	SetAside, Starts uint64
}

type Interval struct {
	Coverage                               float64
	Judged                                 uint64
	Realised, Recent, MeanWidth, MeanScore float64
}

type Input struct {
	Name                   string
	Seen, Missing, Outside uint64
	Mean, Deviation, Shift float64
}

type Classifier struct {
	Prequential, Served ClassFigures
	Recent              RecentClasses
	Reliability         [classes.Bins]classes.Bin
	Classes             []Class
}

// ClassFigures are sums. Skill follows from the errors.
type ClassFigures struct{ Errors, LogLoss, Brier, MajorityErrors, LastErrors, Skill float64 }

type RecentClasses struct {
	Observations     uint64
	ErrorRate, Skill float64
}

type Class struct {
	Name                        string
	Observed, Errors, Predicted uint64
}

// skill is 1 less the loss divided by the better baseline.
func skill(loss, first, second float64) float64 {
	if best := math.Min(first, second); best > 0 {
		return 1 - loss/best
	}
	return math.NaN()
}

// underlying returns a loss and a baseline of n observations that have a mean loss and a skill.
func underlying(n, mean, skill float64) (loss, baseline float64) {
	return mean * n, mean * n / (1 - skill)
}

func (m Model) live() figures.Live {
	l := figures.Live{
		ID: m.Name, Learner: m.Learner, RegretAge: m.RegretAge, ServedRegret: m.ServedRegret, ReadOnly: m.ReadOnly,
		Unsnapshotted: m.Unsnapshotted, Behind: -1,
		Stats: model.Stats{
			Observations: m.Observations, Loss: m.PrequentialLoss, Regret: m.Regret, CertificateOK: m.CertificateOK, Features: m.Features,
			StateBytes: m.StateBytes, Dictionary: m.Dictionary, Gate: model.Gate{On: m.Gate.On, SetAside: m.Gate.SetAside, Starts: m.Gate.Starts},
		},
	}
	if l.Certified = !math.IsNaN(m.RegretBound); l.Certified {
		l.RegretBound = m.RegretBound
	}
	if m.Gate.On { // The loss of the account then leaves out what was set aside.
		l.Loss++
	}
	if !math.IsNaN(m.Behind) {
		l.Behind = int64(m.Behind)
	}
	l.Predictions, l.Expired, l.Duplicates, l.Conflicts = m.Predictions, m.ExpiredLabels, m.Duplicates, m.Conflicts
	l.Pending, l.PendingLimit, l.Queued = m.PendingLabels, m.PendingLimit, m.Queued
	l.SnapshotMade, l.SnapshotBytes, l.Replay = m.SnapshotTime, m.SnapshotBytes, time.Duration(m.ReplaySeconds*1e9)
	l.Predicted = m.ServedObservations
	l.Whole.Prequential = account.Figures{Loss: m.PrequentialLoss, RunningMean: m.PrequentialBaselines.Mean, LastLabel: m.PrequentialBaselines.Last}
	l.Served = account.Figures{Loss: m.ServedLoss, RunningMean: m.ServedBaselines.Mean, LastLabel: m.ServedBaselines.Last}
	n := float64(m.Recent.Observations)
	loss, baseline := underlying(n, m.Recent.MeanLoss, m.Recent.Skill)
	l.Recent = account.Performance{Observations: n, Served: account.Figures{Loss: loss, RunningMean: baseline, LastLabel: 2 * baseline}}
	l.Drift = drift.Statistics{Detected: m.Drift.Detected, Rises: m.Drift.Rises, Change: m.Drift.Sequence, Before: m.Drift.LossBefore, After: m.Drift.LossAfter}
	for _, in := range m.Intervals {
		l.Intervals = append(l.Intervals, interval.Statistics{
			Level: in.Coverage, Judged: in.Judged, Coverage: in.Realised, RecentCoverage: in.Recent, MeanWidth: in.MeanWidth, MeanScore: in.MeanScore,
		})
	}
	for _, in := range m.Inputs {
		s := input.Statistics{Seen: in.Seen, Missing: in.Missing, Outside: in.Outside}
		if s.NumbersKnown = !math.IsNaN(in.Mean + in.Deviation); s.NumbersKnown {
			s.Mean, s.Deviation = in.Mean, in.Deviation
		}
		if s.ShiftKnown = !math.IsNaN(in.Shift); s.ShiftKnown {
			s.Shift = in.Shift
		}
		l.Inputs = append(l.Inputs, figures.InputStatistics{Name: in.Name, Statistics: s})
	}
	if c := m.Classifier; c != nil {
		l.ClassAccount = c.account()
		// A classifier has no baselines of the loss.
		for _, f := range []*account.Figures{&l.Whole.Prequential, &l.Served, &l.Recent.Served} {
			f.RunningMean, f.LastLabel = 0, 0
		}
	}
	return l
}

func (c *Classifier) account() *figures.ClassStatistics {
	s := &figures.ClassStatistics{}
	s.Reliability = c.Reliability
	s.Whole.Prequential, s.Served = c.Prequential.figures(), c.Served.figures()
	n := float64(c.Recent.Observations)
	errors, baseline := underlying(n, c.Recent.ErrorRate, c.Recent.Skill)
	s.Recent = classes.Performance{Observations: n, Served: classes.Figures{Errors: errors, Majority: 2 * baseline, Last: baseline}}
	for _, one := range c.Classes {
		s.Names = append(s.Names, one.Name)
		s.Classes = append(s.Classes, classes.Class{Observed: one.Observed, Errors: one.Errors, Predicted: one.Predicted})
	}
	return s
}

func (f ClassFigures) figures() classes.Figures {
	return classes.Figures{Errors: f.Errors, LogLoss: f.LogLoss, Brier: f.Brier, Majority: f.MajorityErrors, Last: f.LastErrors}
}
