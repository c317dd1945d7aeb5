package rpc

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/auth"
	"hindsight/internal/engine"
)

// access decides by the rules who may make a call, and writes the audit log.
type access struct {
	// auth is nil on a server without tokens, which accepts every call.
	auth   *auth.Authenticator
	audit  func(*auth.Record)
	now    func() time.Time
	target func(name string) string
	rules  map[string]*rule
}

func newAccess(o *Options) *access {
	if o.Auth == nil && o.Audit == nil {
		return nil
	}
	target := func(name string) string { return hosts{o.Groups}.engine(name).AliasTarget(name) }
	return &access{auth: o.Auth, audit: o.Audit, now: o.Now, target: target, rules: rules()}
}

func (a *access) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (response any, err error) {
	rule, p, err := a.enter(ctx, info.FullMethod)
	if err == nil {
		defer p.Leave()
		err = a.permit(rule, p, request)
	}
	if err == nil {
		if p != nil {
			ctx = rule.carry(ctx, p)
		}
		if response, err = handle(ctx, request); err == nil {
			redact(p, response)
		}
	}
	if a.audited(rule, err) {
		trial, ok := request.(interface{ GetValidateOnly() bool })
		a.record(ctx, p, &auth.Record{
			Call: info.FullMethod, Models: rule.names(nil, request), ValidateOnly: ok && trial.GetValidateOnly(),
		}, err)
	}
	return response, err
}

// carry gives the principal to the handler, and the principal's models to the engine. An
// alias may change after the request was checked, so the engine checks its target again.
func (r *rule) carry(ctx context.Context, p *auth.Principal) context.Context {
	ctx = auth.NewContext(ctx, p)
	if p.SeesAll() || r.predicts {
		return ctx
	}
	return engine.WithScope(ctx, p.Within)
}

// enter authenticates the caller, and counts the call until Leave. The principal is nil
// where the call needs none.
func (a *access) enter(ctx context.Context, method string) (*rule, *auth.Principal, error) {
	rule := a.rules[method]
	switch {
	case a.auth == nil:
		return rule, nil, nil
	case rule == nil:
		return nil, nil, fmt.Errorf("%w: %s has no rule", auth.ErrRole, method)
	case rule.role == auth.None:
		return rule, nil, nil
	}
	p, err := a.principal(ctx)
	if err != nil {
		return rule, p, err
	}
	if err := p.Valid(a.auth.Now()); err != nil {
		return rule, p, err
	}
	return rule, p, p.Enter(a.auth.Now())
}

// principal authenticates the caller: as the principal that the gateway has found, by the
// token, or by the client certificate. A caller that sends a token is checked by the token
// alone.
func (a *access) principal(ctx context.Context) (*auth.Principal, error) {
	if p := auth.FromContext(ctx); p != nil {
		return p, nil
	}
	switch values := metadata.ValueFromIncomingContext(ctx, "authorization"); len(values) {
	case 0:
	case 1:
		return a.auth.Header(values[0])
	default:
		return a.auth.Header("")
	}
	if from, ok := peer.FromContext(ctx); ok {
		if tls, ok := from.AuthInfo.(credentials.TLSInfo); ok && len(tls.State.VerifiedChains) > 0 {
			return a.auth.Certificate(tls.State.VerifiedChains[0][0])
		}
	}
	return nil, a.auth.Missing()
}

func (a *access) permit(rule *rule, p *auth.Principal, request any) error {
	if p == nil {
		return nil
	}
	role := rule.role
	if rule.unremembered != auth.None && !remembered(request) {
		role = rule.unremembered
	}
	if err := p.Has(role); err != nil {
		if rule.unremembered != auth.None && p.Role >= rule.unremembered {
			return fmt.Errorf("%w, or %s with remember: false", err, rule.unremembered)
		}
		return err
	}
	if p.SeesAll() {
		return nil
	}
	if rule.everyModel {
		return fmt.Errorf("%w: %s is limited to some models, but the call concerns all models", auth.ErrScope, p.Name)
	}
	m, ok := request.(proto.Message)
	if !ok {
		return fmt.Errorf("%w: not a message", auth.ErrScope)
	}
	for _, path := range rule.models {
		name := path.in(m.ProtoReflect())
		if name == "" || name == engine.NoModel {
			continue
		}
		if err := p.Within(name); err != nil {
			return err
		}
		if target := a.target(name); target != "" && !p.Sees(target) {
			return fmt.Errorf("%w, and the alias names none of them now", p.Within(target))
		}
	}
	return nil
}

// remembered reports whether a prediction waits for its label.
func remembered(request any) bool {
	switch r := request.(type) {
	case *hindsightv1.PredictRequest:
		return r.Remember == nil || r.GetRemember()
	case *hindsightv1.PredictBatchRequest:
		return r.Remember == nil || r.GetRemember()
	}
	return true
}

// rejected reports whether access rejected the call.
func rejected(err error) bool {
	r := rejectionOf(err)
	return r != nil && (r.code == codes.Unauthenticated || r.code == codes.PermissionDenied ||
		r.reason == hindsightv1.ErrorReason_RATE_LIMIT || r.reason == hindsightv1.ErrorReason_CONCURRENCY_LIMIT)
}

func (a *access) audited(rule *rule, err error) bool {
	return a.audit != nil && ((rule != nil && rule.audit) || (err != nil && rejected(err)))
}

// longestName bounds a name in the audit log: a request may name anything.
const longestName = 80

func (a *access) record(ctx context.Context, p *auth.Principal, r *auth.Record, err error) {
	r.Time, r.Who, r.Outcome, r.Rejected = a.now(), p, code.Code_OK.String(), rejected(err)
	for n, name := range r.Models {
		r.Models[n] = name[:min(len(name), longestName)]
	}
	if from, ok := peer.FromContext(ctx); ok && from.Addr != nil {
		r.Peer = from.Addr.String()
	}
	if err != nil {
		s := StatusOf(err)
		r.Outcome, r.Reason = code.Code(s.Code()).String(), reasonOf(s)
	}
	a.audit(r)
}
