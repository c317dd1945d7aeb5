package rpc

import (
	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/engine"
	"hindsight/internal/engine/account/classes"
)

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
