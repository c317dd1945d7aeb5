package rpc

import (
	"slices"

	"google.golang.org/grpc"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/auth"
)

func (a *access) stream(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	rule, p, err := a.enter(stream.Context(), info.FullMethod)
	if err == nil {
		defer p.Leave()
	}
	if err == nil && p != nil {
		err = p.Has(rule.role)
	}
	checked := &checkedStream{contextStream: contextStream{stream, stream.Context()}, access: a, rule: rule, principal: p}
	if err == nil {
		if p != nil {
			checked.ctx = rule.carry(checked.ctx, p)
		}
		err = handle(service, checked)
	}
	if a.audited(rule, err) {
		a.record(stream.Context(), p, &auth.Record{Call: info.FullMethod, Models: checked.names}, err)
	}
	return err
}

// checkedStream checks each message of a stream, because a principal may expire during it.
type checkedStream struct {
	contextStream
	access    *access
	rule      *rule
	principal *auth.Principal
	// names are the models of the messages. Only calls whose handler alone reads the stream name
	// models.
	names []string
}

func (s *checkedStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	if s.rule != nil && len(s.rule.models) > 0 {
		s.names = slices.Compact(s.rule.names(s.names, m))
	}
	if s.principal == nil {
		return nil
	}
	if err := s.principal.Valid(s.access.auth.Now()); err != nil {
		return err
	}
	return s.access.permit(s.rule, s.principal, m)
}

func (s *checkedStream) SendMsg(m any) error {
	if s.principal != nil {
		if err := s.principal.Valid(s.access.auth.Now()); err != nil {
			return err
		}
		redact(s.principal, m)
	}
	return s.ServerStream.SendMsg(m)
}

func redact(p *auth.Principal, response any) {
	if p.SeesAll() {
		return
	}
	hidden := func(name string) bool { return !p.Sees(name) }
	switch r := response.(type) {
	case interface{ GetModel() *hindsightv1.Model }:
		redactModel(r.GetModel(), hidden)
	case interface{ GetModels() []*hindsightv1.Model }:
		for _, m := range r.GetModels() {
			redactModel(m, hidden)
		}
	case *hindsightv1.ListAliasesResponse:
		r.Aliases = slices.DeleteFunc(r.GetAliases(), func(a *hindsightv1.Alias) bool { return hidden(a.GetAlias()) || hidden(a.GetModel()) })
		for _, a := range r.GetAliases() {
			redactAlias(a, hidden)
		}
	case *hindsightv1.SetAliasResponse:
		redactAlias(r.GetAlias(), hidden)
	case *hindsightv1.CompareModelsResponse:
		// The first comparison belongs to the leader.
		if first := r.GetComparisons(); len(first) > 0 && hidden(first[0].GetModel()) {
			for _, c := range first {
				c.Followed, c.FollowedClasses, c.Difference = nil, nil, nil
			}
		}
		r.Comparisons = slices.DeleteFunc(r.GetComparisons(), func(c *hindsightv1.Comparison) bool { return hidden(c.GetModel()) })
	}
}

func redactModel(m *hindsightv1.Model, hidden func(string) bool) {
	if m == nil {
		return
	}
	m.Aliases = slices.DeleteFunc(m.GetAliases(), hidden)
	if hidden(m.GetFollows()) {
		m.Follows = ""
	}
}

func redactAlias(a *hindsightv1.Alias, hidden func(string) bool) {
	if a != nil && hidden(a.GetPreviousModel()) {
		a.PreviousModel = ""
	}
}
