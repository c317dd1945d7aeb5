package rpc

import (
	"context"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/engine"
)

func (m *models) SetAlias(ctx context.Context, r *hindsightv1.SetAliasRequest) (*hindsightv1.SetAliasResponse, error) {
	a, err := m.engine.SetAlias(ctx, r.GetAlias(), r.GetModel(), r.GetExpectedModel())
	if err != nil {
		return nil, err
	}
	return &hindsightv1.SetAliasResponse{Alias: aliasToProto(&a)}, nil
}

func (m *models) ListAliases(context.Context, *hindsightv1.ListAliasesRequest) (*hindsightv1.ListAliasesResponse, error) {
	aliases, err := m.engine.ListAliases()
	if err != nil {
		return nil, err
	}
	response := new(hindsightv1.ListAliasesResponse)
	for n := range aliases {
		response.Aliases = append(response.Aliases, aliasToProto(&aliases[n]))
	}
	return response, nil
}

func (m *models) DeleteAlias(ctx context.Context, r *hindsightv1.DeleteAliasRequest) (*hindsightv1.DeleteAliasResponse, error) {
	if err := m.engine.DeleteAlias(ctx, r.GetAlias()); err != nil {
		return nil, err
	}
	return new(hindsightv1.DeleteAliasResponse), nil
}

func aliasToProto(a *engine.Alias) *hindsightv1.Alias {
	return &hindsightv1.Alias{Alias: a.Name, Model: a.Model, UpdateTime: timeToProto(a.Updated), PreviousModel: a.Previous}
}
