package rpc

import (
	"context"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/auth"
	"hindsight/internal/engine"
	"hindsight/internal/model"
)

type models struct {
	hindsightv1.UnimplementedModelServiceServer
	groups  hosts
	forward *forwarding
	// transfers counts the bytes of exports and imports.
	transfers *auth.Budget
	// learners are the learners of ListLearners, described at the first call.
	learners func() ([]*hindsightv1.Learner, error)
	draining chan struct{}
}

func (m *models) CreateModel(ctx context.Context, r *hindsightv1.CreateModelRequest) (*hindsightv1.CreateModelResponse, error) {
	spec, specErr := specFromProto(r.GetSpec())
	metadata, err := metadataFromProto(r, r.MaxPendingLabels != nil)
	if specErr != nil || err != nil {
		if specErr == nil {
			_, _, specErr = engine.ValidateSpec(spec)
		}
		return nil, model.JoinFields(engine.CheckID(r.GetId()), specErr, err, engine.CheckMetadata(&metadata))
	}
	if err := m.groups.together("follows", r.GetFollows(), r.GetId()); err != nil {
		return nil, err
	}
	info, err := m.groups.engine(r.GetId()).CreateModel(ctx, r.GetId(), spec, engine.CreateOptions{Metadata: metadata, Follows: r.GetFollows(), ValidateOnly: r.GetValidateOnly()})
	if err != nil {
		return nil, err
	}
	return &hindsightv1.CreateModelResponse{Model: infoToProto(&info)}, nil
}

func (m *models) GetModel(ctx context.Context, r *hindsightv1.GetModelRequest) (*hindsightv1.GetModelResponse, error) {
	info, err := m.groups.engine(r.GetModel()).GetModel(ctx, r.GetModel())
	if err != nil {
		return nil, err
	}
	return &hindsightv1.GetModelResponse{Model: infoToProto(&info)}, nil
}

func (m *models) GetModelStats(ctx context.Context, r *hindsightv1.GetModelStatsRequest) (*hindsightv1.GetModelStatsResponse, error) {
	stats, err := m.groups.engine(r.GetModel()).ModelStats(ctx, r.GetModel(), engine.StatsOptions{
		EffectiveDimension: r.GetIncludeEffectiveDimension(), HindsightPath: r.GetIncludeHindsightPath(),
		RegretRKHS: r.GetIncludeRegretRkhs(), Importances: r.GetIncludeImportances(), Recent: r.GetIncludeRecentRegret(),
	})
	if err != nil {
		return nil, err
	}
	return &hindsightv1.GetModelStatsResponse{Stats: statsToProto(stats)}, nil
}

func (m *models) ValidateSpec(_ context.Context, r *hindsightv1.ValidateSpecRequest) (*hindsightv1.ValidateSpecResponse, error) {
	spec, err := specFromProto(r.GetSpec())
	if err != nil {
		return nil, err
	}
	spec, cost, err := engine.ValidateSpec(spec)
	if err != nil {
		return nil, err
	}
	return &hindsightv1.ValidateSpecResponse{
		Spec: specToProto(spec), Features: int32(cost.Features), StateBytes: cost.StateBytes,
		PredictFlops: cost.PredictFlops, ObserveFlops: cost.ObserveFlops,
	}, nil
}
