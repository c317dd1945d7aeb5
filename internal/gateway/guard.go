package gateway

import (
	"net"
	"net/http"
	"net/netip"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"hindsight/internal/auth"
)

// GuardOptions are those of a Guard. Status and Now are required.
type GuardOptions struct {
	// Auth tells who calls; nil takes every request.
	Auth *auth.Authenticator
	// Audit is told of refused requests, and of sessions; nil is no log.
	Audit func(*auth.Record)
	// Status is the status of an error, by the table of errors.
	Status func(error) *status.Status
	Now    func() time.Time
}

// Guard finds who makes a request: by the token in Authorization, by the cookie of a
// session of the console, or by the client's certificate. A nil Guard takes every request.
type Guard struct {
	GuardOptions
	sessions sessions
}

// NewGuard is a guard without sessions.
func NewGuard(o GuardOptions) *Guard { return &Guard{GuardOptions: o, sessions: newSessions()} }

// on tells whether requests need a principal.
func (g *Guard) on() bool { return g != nil && g.Auth != nil }

// Require answers those alone who have the role and see all models. It is for pages that
// show all of them, and for those of operators. What changes something is told to the audit log.
func (g *Guard) Require(role auth.Role, next http.Handler) http.Handler {
	if g == nil {
		return next
	}
	next = g.audited(next)
	if !g.on() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, r, err := g.identify(w, r)
		if err == nil {
			err = p.Whole()
		}
		g.serve(w, r, p, role, err, next)
	})
}

// audited tells the audit log of requests that change something, and how they ended.
func (g *Guard) audited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isSafe(r.Method) {
			next.ServeHTTP(w, r)
			return
		}
		answer := answered{w, http.StatusOK}
		next.ServeHTTP(&answer, r)
		f := done()
		if answer.code >= http.StatusBadRequest {
			f = failure{answer.code, status.New(codes.InvalidArgument, ""), false}
		}
		g.record(r, auth.FromContext(r.Context()), callOf(r), f)
	})
}

// answered keeps the code of an answer.
type answered struct {
	http.ResponseWriter
	code int
}

// WriteHeader implements http.ResponseWriter.
func (a *answered) WriteHeader(code int) {
	a.code = code
	a.ResponseWriter.WriteHeader(code)
}

// page answers those who have the role.
func (g *Guard) page(w http.ResponseWriter, r *http.Request, p *auth.Principal, next http.Handler) {
	g.serve(w, r, p, auth.Read, nil, next)
}

// serve answers one who has the role, unless there was an error before.
func (g *Guard) serve(w http.ResponseWriter, r *http.Request, p *auth.Principal, role auth.Role, err error, next http.Handler) {
	if err == nil {
		err = p.Has(role)
	}
	if err == nil {
		err = p.Enter(g.Now())
	}
	g.Auth.Judged(err)
	if err != nil {
		g.refuse(w, r, p, err)
		return
	}
	defer p.Leave()
	next.ServeHTTP(w, r)
}

// from gives a request the address that it came from, for the audit log.
func from(r *http.Request) *http.Request {
	address, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r
	}
	return r.WithContext(peer.NewContext(r.Context(), &peer.Peer{Addr: net.TCPAddrFromAddrPort(address)}))
}

// identify finds who makes a request, and gives the request its principal. One who sends
// a token is judged by it alone. Where a browser sends the cookie or the certificate by
// itself, a request that changes something has to come from a page of this server.
func (g *Guard) identify(w http.ResponseWriter, r *http.Request) (*auth.Principal, *http.Request, error) {
	w.Header().Set("Cache-Control", "no-store")
	p, by, err := g.principal(r)
	if err == nil && !isSafe(r.Method) {
		switch by {
		case byCookie:
			err = sameOrigin(r)
		case byCertificate:
			err = notCrossOrigin(r)
		case byToken:
		}
	}
	if err != nil {
		return p, r, err
	}
	return p, carry(r, p), nil
}

// carry gives a request its principal.
func carry(r *http.Request, p *auth.Principal) *http.Request {
	return r.WithContext(auth.NewContext(r.Context(), p))
}

// proof is how a request shows who makes it.
type proof int

const (
	byToken proof = iota
	byCookie
	byCertificate
)

func (g *Guard) principal(r *http.Request) (p *auth.Principal, by proof, err error) {
	if values := r.Header.Values("Authorization"); len(values) > 0 {
		value := values[0]
		if len(values) > 1 {
			value = "" // Which one is meant is not known.
		}
		p, err = g.Auth.Header(value)
		return p, byToken, err
	}
	if p := g.session(r); p != nil {
		return p, byCookie, nil
	}
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		p, err = g.Auth.Certificate(r.TLS.VerifiedChains[0][0])
		return p, byCertificate, err
	}
	return nil, byToken, g.Auth.Missing()
}

// refuse answers a refusal and tells the audit log.
func (g *Guard) refuse(w http.ResponseWriter, r *http.Request, p *auth.Principal, err error) failure {
	f := g.failureOf(err)
	g.record(r, p, callOf(r), f)
	write(w, f)
	return f
}

// callOf is a request as the audit log names it.
func callOf(r *http.Request) string { return r.Method + " " + r.URL.Path }

// failureOf is how an error of the guard is answered.
func (g *Guard) failureOf(err error) failure {
	if err == errCrossOrigin { //nolint:errorlint // Nothing wraps it.
		return refuse(http.StatusForbidden, codes.PermissionDenied, "CROSS_ORIGIN", errCrossOrigin.Error())
	}
	return failed(g.Status(err).Err())
}

// longestCall bounds the path in the audit log.
const longestCall = 200

func (g *Guard) record(r *http.Request, p *auth.Principal, call string, f failure) {
	if g.Audit == nil {
		return
	}
	record := &auth.Record{
		Time: g.Now(), Who: p, Call: call[:min(len(call), longestCall)], Peer: r.RemoteAddr,
		Outcome: code.Code(f.status.Code()).String(), Refused: f.status.Code() != codes.OK,
	}
	record.Reason = f.reason()
	g.Audit(record)
}

// guard lets requests through to the pages and the calls. The files of the console are
// for all, because its page asks for the token; they have nothing of a model.
func (g *Gateway) guard(next http.Handler) http.Handler {
	if g.Guard == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = from(r)
		if !g.Guard.on() {
			next.ServeHTTP(w, r)
			return
		}
		switch path := r.URL.Path; {
		case path == loginPath && g.Console != nil:
			g.only(w, r, http.MethodPost, g.Guard.login)
			return
		case path == logoutPath && g.Console != nil:
			g.only(w, r, http.MethodPost, g.Guard.logout)
			return
		case path == serverPath && g.Console != nil:
			if p, _, err := g.Guard.principal(r); err == nil {
				r = carry(r, p)
			}
			next.ServeHTTP(w, r)
			return
		case g.isConsole(path):
			next.ServeHTTP(w, r)
			return
		}
		p, r, err := g.Guard.identify(w, r)
		switch {
		case err != nil:
			g.count(g.Guard.refuse(w, r, p, err))
		case isCall(r.URL.Path):
			next.ServeHTTP(w, r) // The gRPC server judges the call.
		default:
			g.Guard.page(w, r, p, next)
		}
	})
}

// only answers a path that takes one method.
func (g *Gateway) only(w http.ResponseWriter, r *http.Request, method string, handle http.HandlerFunc) {
	if r.Method != method {
		g.write(w, methodNotAllowed(w, r, []string{method}))
		return
	}
	handle(w, r)
}
