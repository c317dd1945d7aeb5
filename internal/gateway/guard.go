package gateway

import (
	"crypto/sha256"
	"errors"
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

// GuardOptions are the options of a Guard. Status and Now are required.
type GuardOptions struct {
	// Auth authenticates callers; nil accepts every request.
	Auth *auth.Authenticator
	// Audit receives the records of rejected requests and of sessions; nil is no log.
	Audit func(*auth.Record)
	// Rejected receives the reason of every request that the guard rejects; nil is no receiver.
	Rejected func(reason string)
	// Status returns the status of an error, by the table of errors.
	Status func(error) *status.Status
	Now    func() time.Time
}

// Guard authenticates requests: by the token in Authorization, by the cookie of a console
// session, or by the client certificate. A nil Guard accepts every request.
type Guard struct {
	GuardOptions
	sessions sessions
}

// NewGuard returns a guard without sessions.
func NewGuard(o GuardOptions) *Guard {
	return &Guard{GuardOptions: o, sessions: sessions{byID: map[[sha256.Size]byte]session{}}}
}

func (g *Guard) on() bool { return g != nil && g.Auth != nil }

// Require serves only principals that have the role and see all models. It protects pages
// that show all models, and those for operators. The audit log records requests that change
// something.
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
		g.admit(w, r, p, role, err, next)
	})
}

func (g *Guard) audited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isSafe(r.Method) {
			next.ServeHTTP(w, r)
			return
		}
		answer := answered{w, http.StatusOK}
		next.ServeHTTP(&answer, r)
		f := success()
		if answer.code >= http.StatusBadRequest {
			f = &failure{answer.code, status.New(codes.InvalidArgument, ""), false}
		}
		g.record(r, auth.FromContext(r.Context()), requestName(r), f)
	})
}

type answered struct {
	http.ResponseWriter
	code int
}

func (a *answered) WriteHeader(code int) {
	a.code = code
	a.ResponseWriter.WriteHeader(code)
}

// admit serves a request of a principal that has the role and is below its limits, unless err is set.
func (g *Guard) admit(w http.ResponseWriter, r *http.Request, p *auth.Principal, role auth.Role, err error, next http.Handler) {
	if err == nil {
		err = p.Has(role)
	}
	if err == nil {
		err = p.Enter(g.Now())
	}
	if err != nil {
		g.reject(w, r, p, requestName(r), err)
		return
	}
	defer p.Leave()
	next.ServeHTTP(w, r)
}

// withPeer puts the client's address into the context, for the audit log.
func withPeer(r *http.Request) *http.Request {
	address, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r
	}
	return r.WithContext(peer.NewContext(r.Context(), &peer.Peer{Addr: net.TCPAddrFromAddrPort(address)}))
}

// identify authenticates a request, and puts the principal into its context. A browser sends
// the cookie or the certificate by itself, so a request that changes something must then come
// from a page of this server.
func (g *Guard) identify(w http.ResponseWriter, r *http.Request) (*auth.Principal, *http.Request, error) {
	w.Header().Set("Cache-Control", "no-store")
	p, checkOrigin, err := g.principal(r)
	if err == nil && !isSafe(r.Method) {
		err = checkOrigin(r)
	}
	if err != nil {
		return p, r, err
	}
	return p, withPrincipal(r, p), nil
}

func withPrincipal(r *http.Request, p *auth.Principal) *http.Request {
	return r.WithContext(auth.NewContext(r.Context(), p))
}

// principal authenticates a request, by its token alone if it has one. A request that changes
// something must pass checkOrigin.
func (g *Guard) principal(r *http.Request) (p *auth.Principal, checkOrigin func(*http.Request) error, err error) {
	anyOrigin := func(*http.Request) error { return nil }
	if values := r.Header.Values("Authorization"); len(values) > 0 {
		value := values[0]
		if len(values) > 1 {
			value = "" // Which one is meant is unknown.
		}
		p, err = g.Auth.Header(value)
		return p, anyOrigin, err
	}
	if p := g.session(r); p != nil {
		return p, sameOrigin, nil
	}
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		p, err = g.Auth.Certificate(r.TLS.VerifiedChains[0][0])
		return p, notCrossOrigin, err
	}
	return nil, anyOrigin, g.Auth.Missing()
}

// reject answers a request that a principal, if known, may not make. It records and counts the rejection.
func (g *Guard) reject(w http.ResponseWriter, r *http.Request, p *auth.Principal, call string, err error) {
	f := g.rejection(r, p, call, err)
	if g.Rejected != nil {
		g.Rejected(f.reason())
	}
	write(w, f)
}

func (g *Guard) rejection(r *http.Request, p *auth.Principal, call string, err error) *failure {
	f := g.failed(err)
	g.record(r, p, call, f)
	return f
}

func requestName(r *http.Request) string { return r.Method + " " + r.URL.Path }

func (g *Guard) failed(err error) *failure {
	if f := new(failure); errors.As(err, &f) {
		return f
	}
	return failed(g.Status(err).Err())
}

// longestCall bounds the path in the audit log.
const longestCall = 200

func (g *Guard) record(r *http.Request, p *auth.Principal, call string, f *failure) {
	if g.Audit == nil {
		return
	}
	g.Audit(&auth.Record{
		Time: g.Now(), Who: p, Call: call[:min(len(call), longestCall)], Peer: r.RemoteAddr,
		Outcome: code.Code(f.status.Code()).String(), Reason: f.reason(), Rejected: f.status.Code() != codes.OK,
	})
}

// guard authenticates requests for calls and pages. Everybody gets the files of the console,
// because its page asks for the token; they hold nothing of a model.
func (g *Gateway) guard(next http.Handler) http.Handler {
	if g.Guard == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = withPeer(r)
		path := r.URL.Path
		switch {
		case !g.Guard.on():
			next.ServeHTTP(w, r)
			return
		case g.Console != nil && (path == loginPath || path == logoutPath):
			switch {
			case r.Method != http.MethodPost:
				g.write(w, methodNotAllowed(w, r, []string{http.MethodPost}))
			case path == loginPath:
				g.Guard.login(w, r)
			default:
				g.Guard.logout(w, r)
			}
			return
		case g.Console != nil && path == serverPath:
			if p, _, err := g.Guard.principal(r); err == nil {
				r = withPrincipal(r, p)
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
			g.Guard.reject(w, r, p, requestName(r), err)
		case isCall(path):
			next.ServeHTTP(w, r) // The gRPC server checks the call.
		default:
			g.Guard.admit(w, r, p, auth.Read, nil, next)
		}
	})
}
