package rpc

import (
	"context"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/engine"
	"hindsight/internal/engine/account/confidence"
)

func (m *models) SetAlias(ctx context.Context, r *hindsightv1.SetAliasRequest) (*hindsightv1.SetAliasResponse, error) {
	if err := m.groups.together("model", r.GetModel(), r.GetAlias()); err != nil {
		return nil, err
	}
	a, err := m.groups.engine(r.GetAlias()).SetAlias(ctx, r.GetAlias(), r.GetModel(), r.GetExpectedModel())
	if err != nil {
		return nil, err
	}
	return &hindsightv1.SetAliasResponse{Alias: aliasToProto(&a)}, nil
}

func (m *models) ListAliases(ctx context.Context, r *hindsightv1.ListAliasesRequest) (*hindsightv1.ListAliasesResponse, error) {
	groups, err := m.listedGroups(ctx)
	if err != nil {
		return nil, err
	}
	answers := make([]any, len(groups))
	asking, each := errgroup.WithContext(ctx)
	asking.SetLimit(asksAtOnce)
	for n, g := range groups {
		asking.Go(func() (err error) {
			answers[n], err = m.ask(each, g, hindsightv1.ModelService_ListAliases_FullMethodName, r, aliasesHere)
			return err
		})
	}
	if err := asking.Wait(); err != nil {
		return nil, err
	}
	response := new(hindsightv1.ListAliasesResponse)
	for _, answer := range answers {
		part, _ := answer.(*hindsightv1.ListAliasesResponse)
		response.Aliases = append(response.Aliases, part.GetAliases()...)
	}
	slices.SortFunc(response.GetAliases(), func(a, b *hindsightv1.Alias) int { return strings.Compare(a.GetAlias(), b.GetAlias()) })
	return response, nil
}

func aliasesHere(e *engine.Engine) (any, error) {
	aliases, err := e.ListAliases()
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
	return new(hindsightv1.DeleteAliasResponse), m.groups.engine(r.GetAlias()).DeleteAlias(ctx, r.GetAlias())
}

func aliasToProto(a *engine.Alias) *hindsightv1.Alias {
	return &hindsightv1.Alias{Alias: a.Name, Model: a.Model, UpdateTime: timeToProto(a.Updated), PreviousModel: a.Previous}
}

func (m *models) CompareModels(ctx context.Context, r *hindsightv1.CompareModelsRequest) (*hindsightv1.CompareModelsResponse, error) {
	comparisons, err := m.groups.engine(r.GetModel()).CompareModels(ctx, r.GetModel())
	if err != nil {
		return nil, err
	}
	response := new(hindsightv1.CompareModelsResponse)
	for n := range comparisons {
		response.Comparisons = append(response.Comparisons, comparisonToProto(&comparisons[n]))
	}
	return response, nil
}

func comparisonToProto(c *engine.Comparison) *hindsightv1.Comparison {
	baselines := c.OwnClasses == nil // A classifier's are beside its errors.
	out := &hindsightv1.Comparison{
		Model: c.ID, Learner: c.Learner, Observations: c.Observations, Behind: c.Behind,
		Performance: performanceToProto(c.Own, baselines),
		Classes:     classPerformanceToProto(c.OwnClasses), FollowedClasses: classPerformanceToProto(c.FollowedClasses),
	}
	if d := c.Difference; d != nil {
		out.Difference = &hindsightv1.LossDifference{
			Mean: d.Mean, Lower: d.Lower, Upper: d.Upper, Confidence: confidence.Level, Observations: c.Paired,
		}
	}
	if c.Followed != nil {
		out.Followed = performanceToProto(*c.Followed, baselines)
	}
	return out
}
