package rpc

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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

// access lets calls through by the rules, and tells the audit log of them.
type access struct {
	// auth is nil on a server without tokens, which takes every call.
	auth  *auth.Authenticator
	audit func(*auth.Record)
	now   func() time.Time
	// target is the model that an alias names, empty if no alias has the name.
	target func(name string) string
	rules  map[string]*judge
	// passed are the callers of streams from within the process, by number.
	passed sync.Map
	next   atomic.Uint64
}

// judge is a rule with the paths to the models that a request names.
type judge struct {
	rule
	paths []path
	// predicts: a call of the data path, which judges by itself the model that it resolves.
	predicts bool
}

// newAccess is nil if there is nothing to do.
func newAccess(o *Options) *access {
	if o.Auth == nil && o.Audit == nil {
		return nil
	}
	a := &access{auth: o.Auth, audit: o.Audit, now: o.Now, target: o.Engine.AliasTarget, rules: map[string]*judge{}}
	for _, r := range rules() {
		a.rules[r.method] = &judge{r, r.paths(), strings.HasPrefix(r.method, "/"+hindsightv1.PredictionService_ServiceDesc.ServiceName+"/")}
	}
	return a
}

// interceptors are those before a call; none if there is nothing to do.
func (a *access) interceptors() ([]grpc.UnaryServerInterceptor, []grpc.StreamServerInterceptor) {
	if a == nil {
		return nil, nil
	}
	return []grpc.UnaryServerInterceptor{a.unary}, []grpc.StreamServerInterceptor{a.stream}
}

func (a *access) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (response any, err error) {
	rule, p, err := a.enter(ctx, info.FullMethod)
	if err == nil {
		defer p.Leave()
		err = a.permit(rule, p, request)
	}
	a.judged(p, err)
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

// carry gives a call its principal, and its engine the models of the principal. An alias may
// be set after the request was judged: what it names is judged where the engine finds it.
func (j *judge) carry(ctx context.Context, p *auth.Principal) context.Context {
	ctx = auth.NewContext(ctx, p)
	if p.SeesAll() || j.predicts {
		return ctx
	}
	return engine.WithScope(ctx, p.Within)
}

// enter finds who calls, and holds a place for the call. The principal is nil where none
// is needed.
func (a *access) enter(ctx context.Context, method string) (*judge, *auth.Principal, error) {
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

// principal is who calls: the one whom the gateway has found, or that of the token, or
// that of the client's certificate. One who sends a token is judged by it alone.
func (a *access) principal(ctx context.Context) (*auth.Principal, error) {
	if p := auth.FromContext(ctx); p != nil {
		return p, nil
	}
	from, ok := peer.FromContext(ctx)
	if p, _ := a.brought(ctx, from); p != nil {
		return p, nil
	}
	switch values := metadata.ValueFromIncomingContext(ctx, "authorization"); len(values) {
	case 0:
	case 1:
		return a.auth.Header(values[0])
	default:
		return a.auth.Header("")
	}
	if ok {
		if tls, ok := from.AuthInfo.(credentials.TLSInfo); ok && len(tls.State.VerifiedChains) > 0 {
			return a.auth.Certificate(tls.State.VerifiedChains[0][0])
		}
	}
	return nil, a.auth.Missing()
}

// caller is who makes a stream from within the process, and from where.
type caller struct {
	principal *auth.Principal
	peer      *peer.Peer
}

const (
	localNetwork = "bufconn"
	localCaller  = "hindsight-local-caller"
)

// pass keeps the caller of a stream from within the process until the context ends. The
// stream finds it by a number in its metadata.
func (a *access) pass(ctx context.Context) context.Context {
	if a == nil {
		return ctx
	}
	from, _ := peer.FromContext(ctx)
	number := a.next.Add(1)
	a.passed.Store(number, caller{auth.FromContext(ctx), from})
	context.AfterFunc(ctx, func() { a.passed.Delete(number) })
	return metadata.AppendToOutgoingContext(ctx, localCaller, strconv.FormatUint(number, 10))
}

// brought is the caller of a stream from within the process. Metadata from elsewhere say
// nothing, because no other connection is of this network.
func (a *access) brought(ctx context.Context, from *peer.Peer) (*auth.Principal, *peer.Peer) {
	if from == nil || from.Addr == nil || from.Addr.Network() != localNetwork {
		return nil, from
	}
	for _, text := range metadata.ValueFromIncomingContext(ctx, localCaller) {
		number, err := strconv.ParseUint(text, 10, 64)
		if c, ok := a.passed.Load(number); ok && err == nil {
			caller, _ := c.(caller)
			return caller.principal, caller.peer
		}
	}
	return nil, from
}

// permit judges a request by the role and the models of the principal.
func (a *access) permit(rule *judge, p *auth.Principal, request any) error {
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
	m, ok := request.(proto.Message)
	if !ok {
		return fmt.Errorf("%w: not a message", auth.ErrScope)
	}
	for _, path := range rule.paths {
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

// remembered tells whether a prediction waits for its label.
func remembered(request any) bool {
	switch r := request.(type) {
	case *hindsightv1.PredictRequest:
		return r.Remember == nil || r.GetRemember()
	case *hindsightv1.PredictBatchRequest:
		return r.Remember == nil || r.GetRemember()
	}
	return true
}

// judged counts a call of a known principal.
func (a *access) judged(p *auth.Principal, err error) {
	if p != nil {
		a.auth.Judged(err)
	}
}

// message judges a call within a session.
func (a *access) message(ctx context.Context, method string, request any) error {
	if a == nil || a.auth == nil {
		return nil
	}
	p := auth.FromContext(ctx)
	err := p.Spend(a.auth.Now())
	if err == nil {
		err = a.permit(a.rules[method], p, request)
	}
	a.judged(p, err)
	if rule := a.rules[method]; err != nil && a.audited(rule, err) {
		a.record(ctx, p, &auth.Record{Call: method, Models: rule.names(nil, request)}, err)
	}
	return err
}

// names appends the models that a request names.
func (j *judge) names(to []string, request any) []string {
	m, ok := request.(proto.Message)
	if j == nil || !ok {
		return to
	}
	for _, path := range j.paths {
		if name := path.in(m.ProtoReflect()); name != "" {
			to = append(to, name)
		}
	}
	return to
}

// refused tells whether an error is of this package's judgement.
func refused(err error) bool {
	for _, e := range []error{
		auth.ErrMissing, auth.ErrInvalid, auth.ErrExpired, auth.ErrCertificate, auth.ErrRole, auth.ErrScope, auth.ErrRate, auth.ErrConcurrency,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// audited tells whether a call is for the audit log.
func (a *access) audited(rule *judge, err error) bool {
	return a.audit != nil && ((rule != nil && rule.control) || (err != nil && refused(err)))
}

// longestName bounds a name in the audit log, which may be no id at all.
const longestName = 80

// record completes a record of a call and its models.
func (a *access) record(ctx context.Context, p *auth.Principal, r *auth.Record, err error) {
	r.Time, r.Who, r.Outcome, r.Refused = a.now(), p, code.Code_OK.String(), err != nil && refused(err)
	for n, name := range r.Models {
		r.Models[n] = name[:min(len(name), longestName)]
	}
	from, _ := peer.FromContext(ctx)
	if _, from = a.brought(ctx, from); from != nil && from.Addr != nil {
		r.Peer = from.Addr.String()
	}
	if err != nil {
		s := statusOf(err)
		r.Outcome = code.Code(s.Code()).String()
		if row := find(err); row != nil && s.Code() != codes.OK {
			r.Reason = row.reason
		}
	}
	a.audit(r)
}
