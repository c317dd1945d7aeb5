package rpc

import (
	"context"
	"encoding/base64"
	"fmt"
	"strconv"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/engine"
	"hindsight/internal/model"
)

// models serves ModelService. What it does not define answers UNIMPLEMENTED.
type models struct {
	hindsightv1.UnimplementedModelServiceServer
	engine *engine.Engine
	// transfers counts the models that are exported and imported.
	transfers *budget
}

func (m *models) CreateModel(ctx context.Context, r *hindsightv1.CreateModelRequest) (*hindsightv1.CreateModelResponse, error) {
	spec, err := specFromProto(r.GetSpec())
	if err != nil {
		return nil, err
	}
	info, err := m.engine.CreateModel(ctx, r.GetId(), spec)
	if err != nil {
		return nil, err
	}
	return &hindsightv1.CreateModelResponse{Model: infoToProto(info)}, nil
}

func (m *models) GetModel(ctx context.Context, r *hindsightv1.GetModelRequest) (*hindsightv1.GetModelResponse, error) {
	info, err := m.engine.GetModel(ctx, r.GetModel())
	if err != nil {
		return nil, err
	}
	return &hindsightv1.GetModelResponse{Model: infoToProto(info)}, nil
}

// maxPage is the default and the largest page of ListModels.
const maxPage = 1000

func (m *models) ListModels(_ context.Context, r *hindsightv1.ListModelsRequest) (*hindsightv1.ListModelsResponse, error) {
	size := int(r.GetPageSize())
	if size < 0 {
		return nil, &model.FieldError{
			Field: "page_size", Err: engine.ErrInvalidRequest, Got: strconv.Itoa(size), Want: "0 or more",
		}
	}
	if size == 0 || size > maxPage {
		size = maxPage
	}
	after, err := base64.RawURLEncoding.DecodeString(r.GetPageToken())
	if err != nil {
		return nil, &model.FieldError{
			Field: "page_token", Err: engine.ErrInvalidRequest,
			Got: fmt.Sprintf("%q", r.GetPageToken()), Want: "the next_page_token of the page before",
		}
	}
	// One more than asked for tells whether there is a next page.
	infos, err := m.engine.ListModels(r.GetPrefix(), string(after), size+1)
	if err != nil {
		return nil, err
	}
	response := &hindsightv1.ListModelsResponse{}
	if len(infos) > size {
		infos = infos[:size]
		response.NextPageToken = base64.RawURLEncoding.EncodeToString([]byte(infos[size-1].ID))
	}
	for _, i := range infos {
		response.Models = append(response.Models, infoToProto(i))
	}
	return response, nil
}

func (m *models) DeleteModel(ctx context.Context, r *hindsightv1.DeleteModelRequest) (*hindsightv1.DeleteModelResponse, error) {
	if err := m.engine.DeleteModel(ctx, r.GetModel()); err != nil {
		return nil, err
	}
	return &hindsightv1.DeleteModelResponse{}, nil
}

func (m *models) GetModelStats(ctx context.Context, r *hindsightv1.GetModelStatsRequest) (*hindsightv1.GetModelStatsResponse, error) {
	stats, err := m.engine.ModelStats(ctx, r.GetModel(), engine.StatsOptions{
		EffectiveDimension: r.GetIncludeEffectiveDimension(), HindsightPath: r.GetIncludeHindsightPath(),
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
	spec, cost, err := m.engine.ValidateSpec(spec)
	if err != nil {
		return nil, err
	}
	return &hindsightv1.ValidateSpecResponse{
		Spec: specToProto(spec), Features: int32(cost.Features), StateBytes: cost.StateBytes,
		PredictFlops: cost.PredictFlops, ObserveFlops: cost.ObserveFlops,
	}, nil
}
