package rpc

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/engine"
	"hindsight/internal/model"
)

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
