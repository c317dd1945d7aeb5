package rpc

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/engine"
	"hindsight/internal/engine/account"
	"hindsight/internal/engine/account/classes"
	"hindsight/internal/engine/account/drift"
	"hindsight/internal/engine/account/history"
	"hindsight/internal/engine/account/interval"
	"hindsight/internal/model"
)

func statsToProto(s engine.Stats) *hindsightv1.ModelStats {
	p := &hindsightv1.ModelStats{
		Model: s.ID, Learner: s.Learner,
		Observations: s.Observations, LossSum: s.Loss,
		Certified: s.Certified, LogDeterminant: some(s.LogDeterminant), LabelBound: some(s.LabelBound),
		Features: int32(s.Features), ServedObservations: s.Predicted,
		PendingLabels: s.Pending, StateBytes: s.StateBytes, MeanLoss: known(s.Whole.MeanLoss(&s.Whole.Prequential)),
		Durability: s.Durability, SnapshotSequence: s.Snapshot,
		Intervals: intervalStatsToProto(s.OutputIntervals), Drift: driftToProto(s.Drift), Experts: expertsToProto(s.Experts),
		Inputs: inputStatsToProto(s.Inputs), Classes: classStatsToProto(s.ClassAccount), Weights: weightsToProto(s.Weights, s.FeatureNames),
		Families: partsToProto(s.Families), Importances: importancesToProto(s.Importances), Effects: effectsToProto(s.Effects),
		HindsightPath: s.HindsightPath, ParametricShare: s.ParametricShare, Recoding: s.Recoding,
	}
	baselines := s.ClassAccount == nil // A classifier's are beside its errors.
	p.Performance, p.Recent = performanceToProto(s.Whole, baselines), performanceToProto(s.Recent, baselines)
	if !math.IsNaN(s.Regret) {
		p.HindsightLoss, p.Regret = &s.HindsightLoss, &s.Regret
		p.RegretUnpenalized, p.ServedRegret = known(s.RegretUnpenalized), known(s.ServedRegret)
	}
	p.Certificate, p.SwitchingRegret = known(s.KnownCertificate), s.SwitchingRegret
	p.RegretBound = optional(s.Certified, s.RegretBound)
	for _, w := range s.RecentRegret {
		p.RecentRegret = append(p.RecentRegret, &hindsightv1.RecentRegret{
			Observations: uint64(w.Rounds), LossSum: w.Loss, HindsightLoss: w.HindsightLoss, Regret: w.Regret(), Gap: w.Gap,
		})
	}
	p.ServedCertificate = known(s.ServedCertificate)
	p.CertificateOk = optional(s.Certified || !s.CertificateOK, s.CertificateOK)
	p.ServedLossSum = optional(s.Predicted > 0, s.Served.Loss)
	if s.Digest != [32]byte{} { // Statistics that are not solved for have none.
		p.StateDigest = hex.EncodeToString(s.Digest[:])
	}
	if s.EffectiveDimension != nil {
		p.EffectiveDimension = known(*s.EffectiveDimension)
	}
	if s.RegretRKHS != nil {
		p.RegretRkhs = known(*s.RegretRKHS)
	}
	p.Dictionary = optional(s.Dictionary > 0, int32(s.Dictionary))
	if m := s.LogLoss; m != nil {
		p.LogLoss = &hindsightv1.LogLossStats{LossSum: m.Loss, Regret: m.Regret, RegretBound: m.Bound, Experts: expertsToProto(m.Experts)}
	}
	if s.Gate.On {
		p.LabelGate = gateToProto(s.Gate, s.Observations)
	}
	return p
}

func gateToProto(g model.Gate, observations uint64) *hindsightv1.LabelGateStats {
	p := &hindsightv1.LabelGateStats{
		SetAside: g.SetAside, LastSetAside: g.LastSetAside, SetAsideLoss: g.SetAsideLoss,
		Starts: g.Starts, LastStart: g.LastStart, RegretBeside: optional(g.Compared, g.RegretBeside),
	}
	if observations > 0 {
		p.Share = float64(g.SetAside) / float64(observations)
	}
	return p
}

// optional returns the value of a field that is set only if it is present.
func optional[T any](present bool, v T) *T {
	if !present {
		return nil
	}
	return &v
}

// known is nil for NaN, which stands for an unknown number.
func known(v float64) *float64 { return optional(!math.IsNaN(v), v) }

// some is nil for 0, which stands for a figure that a learner lacks, or for no limit.
func some[N int64 | float64](v N) *N { return optional(v != 0, v) }

func performanceToProto(p account.Performance, baselines bool) *hindsightv1.Performance {
	out := &hindsightv1.Performance{Observations: p.Observations}
	if p.Observations == 0 {
		return out
	}
	means := func(f account.Figures) *hindsightv1.PerformanceFigures {
		out := &hindsightv1.PerformanceFigures{MeanLoss: p.MeanLoss(&f), Rmse: known(p.RMSE(&f)), Mae: known(p.MAE(&f))}
		if baselines {
			mean, last := f.RunningMean/p.Observations, f.LastLabel/p.Observations
			out.RunningMeanLoss, out.LastLabelLoss, out.Skill = &mean, &last, known(f.Skill())
		}
		return out
	}
	out.Prequential, out.Served = means(p.Prequential), means(p.Served)
	return out
}

func intervalStatsToProto(outputs [][]interval.Statistics) []*hindsightv1.IntervalStats {
	var out []*hindsightv1.IntervalStats
	for j, levels := range outputs {
		for _, s := range levels {
			out = append(out, &hindsightv1.IntervalStats{
				Coverage: s.Level, Output: int32(j), Observations: s.Scored,
				Realised: known(s.Coverage), Recent: known(s.RecentCoverage), Least: known(s.LeastCoverage),
				MeanWidth: known(s.MeanWidth), MeanScore: known(s.MeanScore),
			})
		}
	}
	return out
}

func driftToProto(s drift.Statistics) *hindsightv1.Drift {
	if s.Detected == 0 {
		return &hindsightv1.Drift{}
	}
	return &hindsightv1.Drift{
		Detected: s.Detected, Rises: s.Rises, LastChangeSequence: &s.Change, LossBefore: &s.Before, LossAfter: &s.After,
	}
}

func expertsToProto(experts []model.Expert) []*hindsightv1.Expert {
	out := make([]*hindsightv1.Expert, len(experts))
	for n, e := range experts {
		out[n] = &hindsightv1.Expert{Name: e.Name, LossSum: e.Loss, Weight: e.Weight, Awake: e.Awake}
	}
	return out
}

func partsToProto(parts []model.Part) []*hindsightv1.FamilyPart {
	out := make([]*hindsightv1.FamilyPart, len(parts))
	for n, p := range parts {
		out[n] = &hindsightv1.FamilyPart{Family: p.Family, Weights: p.Weights, Contributions: p.Contributions}
		for _, k := range p.Keys {
			out[n].Keys = append(out[n].Keys, &hindsightv1.KeyPart{Input: k.Input, Contributions: k.Contributions})
		}
	}
	return out
}

func effectsToProto(effects []engine.KeyEffect) []*hindsightv1.KeyEffect {
	out := make([]*hindsightv1.KeyEffect, len(effects))
	for n, e := range effects {
		out[n] = &hindsightv1.KeyEffect{
			Input: e.Input, Missing: e.Key.Missing, Effect: e.Value, Observations: e.Observations, Output: int32(e.Output),
			Category: optional(e.Key.Known && !e.Key.Missing, e.Key.Text),
		}
	}
	return out
}

func importancesToProto(importances []model.Importance) []*hindsightv1.InputImportance {
	sorted := slices.SortedStableFunc(slices.Values(importances), func(a, b model.Importance) int {
		return cmp.Compare(b.Permutation, a.Permutation)
	})
	out := make([]*hindsightv1.InputImportance, len(sorted))
	for n, i := range sorted {
		name := i.Name
		if name == "" {
			name = featureName(i.From, nil)
		}
		out[n] = &hindsightv1.InputImportance{Input: name, Gain: i.Gain, Permutation: i.Permutation}
	}
	return out
}

func classStatsToProto(s *engine.ClassStatistics) *hindsightv1.ClassStats {
	if s == nil {
		return nil
	}
	out := &hindsightv1.ClassStats{
		Performance: classPerformanceToProto(&s.Whole), Recent: classPerformanceToProto(&s.Recent),
		Reliability: make([]*hindsightv1.ReliabilityBin, len(s.Reliability)),
		Classes:     make([]*hindsightv1.ClassCounts, len(s.Names)),
	}
	for n, b := range s.Reliability {
		members := float64(b.Members)
		out.Reliability[n] = &hindsightv1.ReliabilityBin{
			Low: float64(n) / classes.Bins, High: float64(n+1) / classes.Bins, Members: b.Members,
			Predicted: known(b.Expected / members), Found: known(float64(b.Found) / members), // NaN without members.
		}
	}
	for k, name := range s.Names {
		out.Classes[k] = &hindsightv1.ClassCounts{Class: name}
		if k < len(s.Classes) { // A class that a learner has known from the start has no counts yet.
			c := s.Classes[k]
			out.Classes[k].Observed, out.Classes[k].Errors = c.Observed, c.Errors
			out.Classes[k].Predicted, out.Classes[k].Expected = c.Predicted, c.Expected
		}
	}
	if r := s.Ranking; r != nil && r.Class < len(s.Names) {
		out.Ranking = &hindsightv1.ClassRanking{
			Class: s.Names[r.Class], Auc: r.AUC, F1: r.F1, Precision: r.Precision, Recall: r.Recall, Threshold: r.Threshold,
		}
	}
	return out
}

// classPerformanceToProto returns nil for a model without classes.
func classPerformanceToProto(p *classes.Performance) *hindsightv1.ClassPerformance {
	if p == nil {
		return nil
	}
	out := &hindsightv1.ClassPerformance{Observations: p.Observations}
	if p.Observations == 0 {
		return out
	}
	means := func(f classes.Figures) *hindsightv1.ClassFigures {
		return &hindsightv1.ClassFigures{
			ErrorRate: f.Errors / p.Observations, LogLoss: f.LogLoss / p.Observations, BrierScore: f.Brier / p.Observations,
			MajorityErrorRate: f.Majority / p.Observations, LastClassErrorRate: f.Last / p.Observations, Skill: known(f.Skill()),
		}
	}
	out.Prequential, out.Served = means(p.Prequential), means(p.Served)
	return out
}

func inputStatsToProto(inputs []engine.InputStatistics) []*hindsightv1.InputStats {
	out := make([]*hindsightv1.InputStats, len(inputs))
	for i, in := range inputs {
		s := &hindsightv1.InputStats{
			Name: in.Name, Seen: in.Seen, Missing: in.Missing, Categories: uint32(in.Categories),
			Outside: in.Outside, OutsideShare: optional(in.Seen > 0, in.OutsideShare()), Keys: uint32(in.Keys),
			Shift: optional(in.ShiftKnown, in.Shift),
		}
		if in.NumbersKnown {
			s.Low, s.High, s.Mean, s.Deviation = &in.Low, &in.High, &in.Mean, &in.Deviation
		}
		out[i] = s
	}
	return out
}

// maxWeights bounds the weights in the statistics, over all outputs.
const maxWeights = 100

// weightsToProto returns the weights with the largest effects, then weights of unknown effect by
// size. The sort is stable.
func weightsToProto(weights []model.Weight, names []string) []*hindsightv1.FeatureWeight {
	sorted := slices.SortedStableFunc(slices.Values(weights), func(a, b model.Weight) int {
		return cmp.Or(cmp.Compare(math.Abs(b.Effect), math.Abs(a.Effect)), cmp.Compare(math.Abs(b.Value), math.Abs(a.Value)))
	})
	out := make([]*hindsightv1.FeatureWeight, min(len(sorted), maxWeights))
	for n := range out {
		w := sorted[n]
		out[n] = &hindsightv1.FeatureWeight{
			Feature: featureName(w.Input, names), Weight: w.Value, Effect: known(w.Effect), Output: int32(w.Output),
		}
	}
	return out
}

func featureName(input int, names []string) string {
	switch {
	case input == model.NoInput:
		return ""
	case input < len(names):
		return names[input]
	default:
		return fmt.Sprintf("x[%d]", input)
	}
}

func (m *models) GetModelHistory(ctx context.Context, r *hindsightv1.GetModelHistoryRequest) (*hindsightv1.GetModelHistoryResponse, error) {
	h, err := m.groups.engine(r.GetModel()).ModelHistory(ctx, r.GetModel())
	if err != nil {
		return nil, err
	}
	out := &hindsightv1.GetModelHistoryResponse{
		Points: make([]*hindsightv1.HistoryPoint, len(h.Points)), Experts: h.Experts,
		Drifts: make([]*hindsightv1.DriftMark, len(h.Changes)),
	}
	for n := range h.Points {
		out.Points[n] = pointToProto(&h.Points[n])
	}
	for n, change := range h.Changes {
		out.Drifts[n] = &hindsightv1.DriftMark{Sequence: change.Sequence, Time: momentToProto(change.Time), Rise: change.Rise}
	}
	return out, nil
}

func momentToProto(nanoseconds int64) *timestamppb.Timestamp {
	return timestamppb.New(time.Unix(0, nanoseconds))
}

func pointToProto(p *history.Point) *hindsightv1.HistoryPoint {
	out := &hindsightv1.HistoryPoint{
		Sequence: p.Sequence, Time: momentToProto(p.Time), Performance: performanceToProto(p.Performance, p.Classes == nil),
		Regret: known(p.Regret), RegretBound: known(p.RegretBound), ExpertWeights: p.Weights,
		Classes: classPerformanceToProto(p.Classes), Dictionary: optional(p.Dictionary > 0, int32(p.Dictionary)),
	}
	// Of a point either all levels are known or none is.
	if len(p.Coverage) > 0 && !math.IsNaN(p.Coverage[0]) {
		out.Realised = p.Coverage
	}
	return out
}
