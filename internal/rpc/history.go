package rpc

import (
	"context"
	"math"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/engine/account/history"
)

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
