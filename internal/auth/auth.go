// Package auth authenticates callers. The tokens file names the principals: by the hash of a
// token, by the name in a client certificate, or by a claim of a JWT. A principal has a role,
// models, limits and an end. The package reads no file and uses no network.
package auth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Rejections. Their responses are in the table of errors of package rpc.
var (
	ErrMissing = errors.New("no token and no client certificate")
	// ErrInvalid does not say whether the token is malformed, unknown or revoked.
	ErrInvalid     = errors.New("the token is not valid")
	ErrExpired     = errors.New("the token has expired")
	ErrCertificate = errors.New("no entry names this client certificate")
	ErrRole        = errors.New("the role is too low")
	ErrScope       = errors.New("outside of the principal's models")
	ErrRate        = errors.New("too many calls a second")
	ErrConcurrency = errors.New("too many calls at once")
	// ErrSessions is about sessions of the console, of a principal or of all.
	ErrSessions = errors.New("too many sessions")
)

// Role is what a principal may do. Each role includes the lower ones.
type Role int

// The roles.
const (
	// None makes calls that need no principal.
	None Role = iota
	// Read looks at models, and predicts without remembering.
	Read
	// Write predicts and observes.
	Write
	// Admin creates, changes, removes, exports and imports models.
	Admin
)

func roleNames() []string { return []string{"none", "read", "write", "admin"} }

func (r Role) String() string {
	if names := roleNames(); r >= None && int(r) < len(names) {
		return names[r]
	}
	return fmt.Sprintf("role %d", int(r))
}

// ParseRole reads the name of a role that a principal may have.
func ParseRole(name string) (Role, bool) {
	r := max(Role(slices.Index(roleNames(), name)), None)
	return r, r > None
}

// Principal is an authenticated caller. A nil *Principal is a caller of a server without tokens,
// and may do everything.
type Principal struct {
	// Name is the name of the entry. Subject is the subject of a JWT or the name of a certificate,
	// empty for a token.
	Name, Subject string
	Role          Role
	// Models are prefixes of the ids that the principal may see. Empty is all.
	Models []string
	// notAfter is the zero time without an end.
	notAfter time.Time
	entry    *entry
	// withdrawn is Claims.withdrawn, nil without a JWT.
	withdrawn *atomic.Bool
}

// Valid fails after the principal has expired, its entry was changed or removed, or the key of
// its JWT was withdrawn. Streams call it for every message. It allocates nothing for a valid
// principal.
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

// NotAfter is the end of the principal, the zero time without one.
func (p *Principal) NotAfter() time.Time { return p.notAfter }

// Has fails unless the principal has the role.
func (p *Principal) Has(role Role) error {
	if p == nil || p.Role >= role {
		return nil
	}
	return fmt.Errorf("%w: %s is %s, the call needs %s", ErrRole, p.Name, p.Role, role)
}

// Sees reports whether the principal may see the model or alias of this name.
func (p *Principal) Sees(model string) bool {
	return p.SeesAll() || slices.ContainsFunc(p.Models, func(prefix string) bool { return strings.HasPrefix(model, prefix) })
}

// Prefixes returns the prefixes in Models; empty is all.
func (p *Principal) Prefixes() []string {
	if p == nil {
		return nil
	}
	return p.Models
}

// SeesAll reports whether the principal may see every model.
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

// Record is a line of the audit log.
type Record struct {
	Time time.Time
	// Who is nil for an unknown caller.
	Who        *Principal
	Call, Peer string
	Models     []string
	// Outcome is the name of a status, such as OK. Reason is the reason of its ErrorInfo.
	Outcome, Reason string
	// ValidateOnly: the call changes nothing.
	ValidateOnly bool
	// Rejected: the caller may not make the call, or exceeds a limit.
	Rejected bool
}

type key struct{}

// NewContext adds the principal to a context.
func NewContext(ctx context.Context, p *Principal) context.Context {
	return context.WithValue(ctx, key{}, p)
}

// FromContext returns the principal of a context, nil without one.
func FromContext(ctx context.Context) *Principal {
	p, _ := ctx.Value(key{}).(*Principal)
	return p
}
