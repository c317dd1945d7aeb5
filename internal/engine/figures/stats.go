package figures

import (
	"context"
	"math"

	"hindsight/internal/engine/account"
	"hindsight/internal/engine/account/interval"
	"hindsight/internal/engine/hosted"
	"hindsight/internal/engine/machine"
	"hindsight/internal/model"
	"hindsight/internal/model/input"
	"hindsight/internal/model/regret"
)

// Stats are the statistics of one state of a model. Regret, HindsightLoss and CertificateOK come from a
// report where the learner does not track them.
type Stats struct {
	Info
	model.Stats
	account.Summary
	Reported
	ServedFigures
	// OutputIntervals[j][k] has the statistics of the intervals of output j at level k.
	OutputIntervals [][]interval.Statistics
	// Inputs is nil without named inputs, ClassAccount without classes.
	Inputs       []InputStatistics
	ClassAccount *ClassStatistics
	Pending      uint64
	Durability   string
	Snapshot     uint64
}

// Reported are the statistics that only a report has.
type Reported struct {
	// RegretUnpenalized is NaN without a report.
	RegretUnpenalized float64
	ParametricShare   *float64
	Recoding          *float64
	// SwitchingRegret is read only.
	SwitchingRegret []float64
	// RecentRegret is nil unless it was asked for, and read only.
	RecentRegret []regret.Window
	// EffectiveDimension, RegretRKHS and HindsightPath are nil unless they were asked for.
	// HindsightPath is read only.
	EffectiveDimension *float64
	RegretRKHS         *float64
	HindsightPath      []float64
	Experts            []model.Expert
	Families           []model.Part
	// Importances are nil unless they were asked for.
	Importances []model.Importance
	// Effects are the largest effects of keys, by size.
	Effects []KeyEffect
	// LogLoss is the mixture of probabilities of classes, nil without one.
	LogLoss      *model.LogLoss
	Weights      []model.Weight
	FeatureNames []string
	Digest       [32]byte
}

// KeyEffect is the effect of a key of a named input.
type KeyEffect struct {
	Input string
	Key   input.Key
	model.Effect
}

// InputStatistics is what has been seen of one named input.
type InputStatistics struct {
	Name string
	input.Statistics
}

// ClassStatistics is how a classifier does.
type ClassStatistics = hosted.ClassStatistics

func inputsOf(f *hosted.Figures, s *input.Schema) []InputStatistics {
	if len(f.Inputs) == 0 {
		return nil
	}
	all := make([]InputStatistics, len(f.Inputs))
	for n := range all {
		all[n] = InputStatistics{Name: s.Name(n), Statistics: f.Inputs[n]}
	}
	return all
}

// ServedFigures are the certificate C, of a report if the learner is not Certified, and regret and
// certificate of what was served. They are NaN if they are not known.
//
// A label that comes late is scored by a prediction that lacks the labels learned in between. No
// theorem bounds its loss beforehand; Excess is what all of them lost beyond prequential
// predictions, and is known afterwards:
//
//	regret ≤ C  implies  served regret = regret + Excess ≤ C + Excess
type ServedFigures struct{ KnownCertificate, ServedRegret, ServedCertificate float64 }

// servedOf are the served figures of a state, given the certificate of a report or NaN. A learner that
// forgets discounts the past, and the account does not: its figures are not known.
func servedOf(s *model.Stats, a *account.Summary, certificate float64) ServedFigures {
	if s.Certified {
		certificate = s.Certificate
	}
	if s.Discounted {
		return ServedFigures{math.NaN(), math.NaN(), math.NaN()}
	}
	return ServedFigures{certificate, s.Regret + a.Excess, certificate + a.Excess}
}

// Stats returns the statistics of a model, with a report of its present state.
func (r *Reader) Stats(ctx context.Context, o StatsOptions) (Stats, error) {
	report, err := r.report(ctx, o)
	if err != nil {
		return Stats{}, err
	}
	s := r.statsOf(report.sequence, &report.Figures, report.intervals)
	solved := &report.solved
	s.Regret, s.HindsightLoss, s.CertificateOK = solved.Regret, solved.HindsightLoss, solved.CertificateOK
	s.ServedFigures = servedOf(&s.Stats, &s.Summary, solved.Certificate)
	s.Reported = Reported{
		RegretUnpenalized: solved.RegretUnpenalized, SwitchingRegret: solved.SwitchingRegret, ParametricShare: solved.ParametricShare, Recoding: solved.Recoding, Experts: solved.Experts,
		Families: solved.Families, Effects: report.effects, LogLoss: solved.LogLoss,
		Weights: solved.Weights, FeatureNames: report.features, Digest: report.digest,
	}
	if o.EffectiveDimension {
		s.EffectiveDimension = &solved.EffectiveDimension
	}
	if o.RegretRKHS {
		s.RegretRKHS = &solved.RegretRKHS
	}
	if o.Recent {
		s.RecentRegret = report.recent
	}
	if o.Importances {
		s.Importances = solved.Importances
	}
	if o.HindsightPath {
		s.HindsightPath = solved.HindsightPath
	}
	return s, nil
}

// CheapStats returns the statistics without a report: what only a report has is NaN, absent or 0. It costs
// O(r).
func (r *Reader) CheapStats(ctx context.Context) (s Stats, err error) {
	err = r.Model.View(ctx, func(m *machine.Machine) error {
		stats, err := m.Stats()
		if err != nil {
			return errorf(r.Model, "read the statistics", err)
		}
		f := hosted.FiguresOf(m, stats)
		s = r.statsOf(m.Sequence(), &f, m.Intervals())
		return nil
	})
	return s, err
}

func (r *Reader) statsOf(sequence uint64, f *hosted.Figures, intervals [][]interval.Statistics) Stats {
	gauges := r.Model.Gauges()
	s := Stats{
		Info: describe(r.Model), Stats: f.Stats, Summary: f.Summary, Reported: Reported{RegretUnpenalized: math.NaN()},
		ServedFigures: servedOf(&f.Stats, &f.Summary, math.NaN()), OutputIntervals: intervals,
		Inputs: inputsOf(f, r.Model.Schema()), ClassAccount: f.Classes,
		Pending: gauges.Pending, Durability: r.reporter.o.Durability, Snapshot: gauges.Snapshot,
	}
	s.Sequence = sequence
	return s
}

// Live is what a scrape reads of a model.
type Live struct {
	ID, Learner string
	model.Stats
	account.Summary
	hosted.Gauges
	ServedFigures
	// Inputs and ClassAccount are as in Stats.
	Inputs       []InputStatistics
	ClassAccount *ClassStatistics
	ReadOnly     bool
	// SwitchingRegret is the regret against the best sequence of functions with the most switches, NaN
	// without a report that has it.
	SwitchingRegret float64
	// Unsnapshotted counts the observations that the newest snapshot does not have.
	Unsnapshotted uint64
	// Behind is how many observations of its leader a follower has not learned, -1 if that is not known or
	// the model is no follower.
	Behind int64
}

// Live reads the live statistics of a model that was in memory since the start, or that is broken; others
// are not known, and leave l as it was. A model that has left memory has the statistics of then. It costs O(r). The
// caller fills in Behind.
func (r *Reader) Live(l *Live) (known bool) {
	f, known, broken := r.Model.Figures()
	if !known {
		return false
	}
	l.ID, l.Learner, l.ReadOnly = r.Model.ID(), r.Model.Learner(), broken != nil
	l.Stats, l.Summary, l.Inputs, l.ClassAccount = f.Stats, f.Summary, inputsOf(&f, r.Model.Schema()), f.Classes
	l.Gauges = r.Model.Gauges()
	l.Unsnapshotted = f.Stats.Observations - min(l.Snapshot, f.Stats.Observations)
	reported, certificate := &f.Summary, math.NaN()
	l.SwitchingRegret = math.NaN()
	if s := r.current(l.Epoch); s != nil && math.IsNaN(f.Stats.Regret) {
		// Both parts of the served regret are of one state.
		reported, certificate = &s.Summary, s.solved.Certificate
		if n := len(s.solved.SwitchingRegret); n > 0 {
			l.SwitchingRegret = s.solved.SwitchingRegret[n-1]
		}
		l.Regret, l.HindsightLoss = s.solved.Regret, s.solved.HindsightLoss
		l.CertificateOK = f.Stats.CertificateOK && s.solved.CertificateOK
	}
	l.ServedFigures = servedOf(&l.Stats, reported, certificate)
	return true
}

// Figures returns the figures of the state, or of the last state in memory.
func (r *Reader) Figures() Figures {
	f, known, broken := r.Model.Figures()
	gauges := r.Model.Gauges()
	out := Figures{Known: known, Recent: f.Summary.Recent, Regret: f.Stats.Regret, Rate: gauges.Rate, Time: f.Time}
	if f.Classes != nil {
		out.Classes = &f.Classes.Recent
	}
	if s := r.current(gauges.Epoch); s != nil && math.IsNaN(out.Regret) {
		out.Regret = s.solved.Regret
	}
	switch {
	case r.Model.Registered().Deleted != 0:
		out.State = StateDeleted
	case broken != nil && gauges.Resident:
		out.State = StateReadOnly
	case broken != nil:
		out.State = StateFailed
	case gauges.Resident:
		out.State = StateLoaded
	default:
		out.State = StateHibernated
	}
	if !known || f.Stats.Observations == 0 {
		out.Regret = math.NaN()
	}
	return out
}
