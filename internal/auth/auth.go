// Package auth knows who may call. The tokens file names the principals: by the hash of
// a token, by the name in a client's certificate, or by a claim of a JWT. A principal
// has a role, the models it may see, limits, and an end. This package reads no file and
// speaks to no network: its callers bring what they read.
package auth

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

// Refusals. The table of errors of the gRPC server says how each is answered.
var (
	// ErrMissing: the call has no token and no client certificate.
	ErrMissing = errors.New("no token and no client certificate")
	// ErrInvalid: the token is not known. Whether it is malformed, unknown or revoked is
	// not told.
	ErrInvalid = errors.New("the token is not valid")
	// ErrExpired: the token was valid once.
	ErrExpired = errors.New("the token has expired")
	// ErrCertificate: the client's certificate is verified, and no entry names it.
	ErrCertificate = errors.New("no entry names this client certificate")
	// ErrRole: the call needs a higher role.
	ErrRole = errors.New("the role is too low")
	// ErrScope: the call names a model, or all models, outside of the principal's.
	ErrScope = errors.New("outside of the principal's models")
	// ErrRate: the principal calls too often.
	ErrRate = errors.New("too many calls a second")
	// ErrConcurrency: the principal has too many calls open.
	ErrConcurrency = errors.New("too many calls at once")
	// ErrSessions: the principal, or the server, has too many sessions of the console.
	ErrSessions = errors.New("too many sessions")
)

// Role says what a principal may do. Each role may do what the lower ones may.
type Role int

// The roles.
const (
	// None may do what needs no principal.
	None Role = iota
	// Read looks at models, and predicts without leaving anything behind.
	Read
	// Write predicts and observes.
	Write
	// Admin makes, changes and removes models, and takes them out and in.
	Admin
)

// String is the name of the role, as the tokens file has it.
func (r Role) String() string {
	switch r {
	case Read:
		return "read"
	case Write:
		return "write"
	case Admin:
		return "admin"
	case None:
	}
	return "none"
}

// ParseRole reads the name of a role that a principal may have.
func ParseRole(name string) (Role, bool) {
	for _, r := range []Role{Read, Write, Admin} {
		if name == r.String() {
			return r, true
		}
	}
	return None, false
}

// Principal is one who calls. A nil *Principal is a caller of a server without tokens:
// it may do all.
type Principal struct {
	// Name is that of the entry, Subject what the entry let in: the subject of a JWT or
	// the name of a certificate. It is empty for a token.
	Name, Subject string
	Role          Role
	// Models are the prefixes of the models that it may see. Empty is all.
	Models []string
	// notAfter is the end of the principal, the zero time if it has none.
	notAfter time.Time
	entry    *entry
	// withdrawn is that of the claims of a JWT, nil of others.
	withdrawn *atomic.Bool
}

// Valid fails once the principal has expired, its entry is gone or has changed, or the key of
// its JWT is withdrawn. It is asked again while a stream lasts. It allocates nothing while the
// principal is valid.
func (p *Principal) Valid(now time.Time) error {
	switch {
	case p == nil:
		return nil
	case p.entry.gone.Load(), p.withdrawn != nil && p.withdrawn.Load():
		return ErrInvalid
	case !p.notAfter.IsZero() && !now.Before(p.notAfter):
		return ErrExpired
	}
	return nil
}

// NotAfter is when the principal ends, the zero time if it does not.
func (p *Principal) NotAfter() time.Time { return p.notAfter }

// Has fails unless the principal has the role.
func (p *Principal) Has(role Role) error {
	if p == nil || p.Role >= role {
		return nil
	}
	return fmt.Errorf("%w: %s is %s, the call needs %s", ErrRole, p.Name, p.Role, role)
}

// Sees tells whether the principal may see the model or the alias of this name.
func (p *Principal) Sees(model string) bool {
	if p == nil || len(p.Models) == 0 {
		return true
	}
	for _, prefix := range p.Models {
		if strings.HasPrefix(model, prefix) {
			return true
		}
	}
	return false
}

// Prefixes are those of the models that the principal may see; empty is all.
func (p *Principal) Prefixes() []string {
	if p == nil {
		return nil
	}
	return p.Models
}

// SeesAll tells whether the principal may see every model.
func (p *Principal) SeesAll() bool { return p == nil || len(p.Models) == 0 }

// Within fails unless the principal may see the model.
func (p *Principal) Within(model string) error {
	if p.Sees(model) {
		return nil
	}
	return fmt.Errorf("%w: %s may touch models that begin with %s", ErrScope, p.Name, strings.Join(p.Models, " or "))
}

// Whole fails unless the principal may see every model.
func (p *Principal) Whole() error {
	if p.SeesAll() {
		return nil
	}
	return fmt.Errorf("%w: this shows all models, %s may see those that begin with %s", ErrScope, p.Name, strings.Join(p.Models, " or "))
}

// Spend counts a call, and fails with ErrRate when there are too many.
func (p *Principal) Spend(now time.Time) error {
	if p == nil {
		return nil
	}
	return p.entry.limits.spend(now)
}

// Enter counts a call, and holds a place until Leave. It fails with ErrRate or
// ErrConcurrency, and holds no place then.
func (p *Principal) Enter(now time.Time) error {
	if p == nil {
		return nil
	}
	return p.entry.limits.enter(now)
}

// Hold holds a place until Leave, for what comes before a call. It fails with ErrConcurrency.
func (p *Principal) Hold() error {
	if p == nil {
		return nil
	}
	return p.entry.limits.hold()
}

// Leave gives the place of Enter or Hold back.
func (p *Principal) Leave() {
	if p != nil {
		p.entry.limits.leave()
	}
}

// Record is what the audit log keeps of a call.
type Record struct {
	Time time.Time
	// Who is nil when the caller is not known.
	Who *Principal
	// Call is the full name of the call, Peer where it came from.
	Call, Peer string
	// Models are those that the call names.
	Models []string
	// Outcome is the name of a status, such as OK, and Reason that of its ErrorInfo.
	Outcome, Reason string
	// ValidateOnly: the call was only to say what it would do.
	ValidateOnly bool
	// Refused: the caller may not make the call, or makes too many.
	Refused bool
}

type key struct{}

// NewContext is a context that carries the principal.
func NewContext(ctx context.Context, p *Principal) context.Context {
	return context.WithValue(ctx, key{}, p)
}

// FromContext is the principal that a context carries, nil if it carries none.
func FromContext(ctx context.Context) *Principal {
	p, _ := ctx.Value(key{}).(*Principal)
	return p
}
