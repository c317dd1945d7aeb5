package auth

import (
	"crypto/sha256"
	"crypto/x509"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// Longer tokens are not hashed for an unknown caller. JWTs of some hundred claims are
	// shorter.
	longestToken = 8 << 10
	// A JWT is verified again after this time, so that it ends when its key is withdrawn.
	rememberJWT   = time.Minute
	maxRemembered = 10_000
)

// Claims are the claims of a verified JWT.
type Claims struct {
	Subject string
	// Expires is required.
	Expires time.Time
	// Withdrawn is set when the server no longer trusts the key of the JWT; nil is never.
	Withdrawn *atomic.Bool
	All       map[string]any
}

// Options of an Authenticator. Now is required.
type Options struct {
	Now func() time.Time
	// VerifyJWT verifies a JWT without waiting; nil accepts none. Its errors are ErrInvalid or
	// ErrExpired.
	VerifyJWT func(token string) (Claims, error)
}

// Authenticator authenticates callers. Its methods may be called concurrently.
type Authenticator struct {
	o      Options
	table  atomic.Pointer[table]
	setter sync.Mutex
	mu     struct {
		sync.RWMutex
		jwts map[[sha256.Size]byte]remembered
	}
	// unknown counts the calls without a good token or certificate.
	unknown atomic.Uint64
}

type remembered struct {
	*Principal
	until time.Time
}

type entry struct {
	Entry
	// gone: the entry was removed or replaced.
	gone   atomic.Bool
	limits *limits
	// principal belongs to a token or a certificate. Each JWT has another principal.
	principal *Principal
}

// table is a tokens file in use. It is immutable.
type table struct {
	byName map[string]*entry
	// tokens are the entries by the hash of their token.
	tokens       map[[sha256.Size]byte]*entry
	certificates map[string]*entry
	claims       []*entry
}

// New returns an authenticator that knows nobody until Set.
func New(o Options) *Authenticator {
	a := &Authenticator{o: o}
	a.table.Store(new(table))
	a.ForgetJWTs()
	return a
}

// Set replaces the entries. An unchanged entry keeps what it has used of its limits, and so does
// a changed entry with the same limits. The principals of changed and removed entries become
// invalid.
func (a *Authenticator) Set(entries []Entry) {
	a.setter.Lock()
	defer a.setter.Unlock()
	old := a.table.Load()
	t := &table{byName: map[string]*entry{}, tokens: map[[sha256.Size]byte]*entry{}, certificates: map[string]*entry{}}
	for n := range entries {
		e := newEntry(&entries[n], old.byName[entries[n].Name])
		t.byName[e.Name] = e
		switch {
		case e.Hash != nil:
			t.tokens[*e.Hash] = e
		case e.Certificate != "":
			t.certificates[e.Certificate] = e
		default:
			t.claims = append(t.claims, e)
		}
	}
	a.table.Store(t)
	for name, e := range old.byName {
		if t.byName[name] != e {
			e.gone.Store(true)
		}
	}
	// Another entry may match a JWT now.
	a.ForgetJWTs()
}

// newEntry returns before if nothing changed.
func newEntry(e *Entry, before *entry) *entry {
	if before != nil && before.same(e) {
		return before
	}
	n := &entry{Entry: *e}
	if before != nil && before.Rate == e.Rate && before.Concurrency == e.Concurrency {
		n.limits = before.limits
	} else {
		n.limits = newLimits(e.Rate, e.Concurrency)
	}
	n.principal = n.let(e.Certificate, time.Time{})
	return n
}

// same reports whether an entry is the same, on whatever line.
func (e *entry) same(o *Entry) bool {
	at := *o
	at.from = e.from
	return reflect.DeepEqual(e.Entry, at)
}

// let returns a principal of the entry that ends with the entry or at until.
func (e *entry) let(subject string, until time.Time) *Principal {
	end := e.NotAfter
	if end.IsZero() || (!until.IsZero() && until.Before(end)) {
		end = until
	}
	return &Principal{Name: e.Name, Subject: subject, Role: e.Role, Models: e.Models, notAfter: end, entry: e}
}

// Header authenticates the value of an Authorization header. It does not wait, and allocates
// nothing for a token of the file.
func (a *Authenticator) Header(value string) (*Principal, error) {
	const scheme = "Bearer "
	if len(value) <= len(scheme) || !strings.EqualFold(value[:len(scheme)], scheme) {
		return nil, a.reject(ErrInvalid)
	}
	return a.Token(value[len(scheme):])
}

// Token authenticates a token.
func (a *Authenticator) Token(token string) (*Principal, error) {
	if len(token) > longestToken {
		return nil, a.reject(ErrInvalid)
	}
	hash := sum(token)
	p, err := a.byHash(hash)
	if p == nil && err == nil && a.o.VerifyJWT != nil && strings.Count(token, ".") == 2 {
		p, err = a.byJWT(token, hash)
	}
	if p == nil && err == nil {
		err = ErrInvalid
	}
	if err != nil {
		return nil, a.reject(err)
	}
	return p, nil
}

// sum is HashOf without an allocation for short tokens.
func sum(token string) [sha256.Size]byte {
	var room [64]byte
	if len(token) > len(room) {
		return HashOf(token)
	}
	return sha256.Sum256(room[:copy(room[:], token)])
}

// byHash returns the principal of a token of the file, nil if the file has no token of this hash. The time of the
// lookup could reveal a part of a hash, which reveals nothing about the token.
func (a *Authenticator) byHash(hash [sha256.Size]byte) (*Principal, error) {
	e := a.table.Load().tokens[hash]
	if e == nil {
		return nil, nil
	}
	return e.principal, e.principal.Valid(a.o.Now())
}

func (a *Authenticator) byJWT(token string, hash [sha256.Size]byte) (*Principal, error) {
	now := a.o.Now()
	a.mu.RLock()
	known, ok := a.mu.jwts[hash]
	a.mu.RUnlock()
	// An invalid principal may have another entry now.
	if ok && now.Before(known.until) && known.Valid(now) == nil {
		return known.Principal, nil
	}
	claims, err := a.o.VerifyJWT(token)
	if err != nil {
		return nil, err
	}
	for _, e := range a.table.Load().claims {
		if !has(claims.All, e.Claim, e.Value) {
			continue
		}
		p := e.let(claims.Subject, claims.Expires)
		p.withdrawn = claims.Withdrawn
		if err := p.Valid(now); err != nil {
			return nil, err
		}
		a.remember(hash, p, now)
		return p, nil
	}
	return nil, nil
}

func (a *Authenticator) remember(hash [sha256.Size]byte, p *Principal, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.mu.jwts) >= maxRemembered {
		clear(a.mu.jwts)
	}
	a.mu.jwts[hash] = remembered{p, now.Add(rememberJWT)}
}

// ForgetJWTs makes every JWT be verified again, after the keys have changed.
func (a *Authenticator) ForgetJWTs() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.jwts = map[[sha256.Size]byte]remembered{}
}

// has reports whether the claim of a name is a value, or a list with the value. The name may be a path of names
// with dots.
func has(claims map[string]any, name, value string) bool {
	claim, ok := claims[name]
	for within := claims; !ok; {
		outer, inner, more := strings.Cut(name, ".")
		if !more {
			return false
		}
		if within, more = within[outer].(map[string]any); !more {
			return false
		}
		name = inner
		claim, ok = within[name]
	}
	switch claim := claim.(type) {
	case string:
		return claim == value
	case []any:
		return slices.Contains(claim, any(value))
	}
	return false
}

// Certificate authenticates a verified client certificate, by its first URI, its first DNS name
// or its common name, in this order.
func (a *Authenticator) Certificate(c *x509.Certificate) (*Principal, error) {
	var names [3]string
	if len(c.URIs) > 0 {
		names[0] = c.URIs[0].String()
	}
	if len(c.DNSNames) > 0 {
		names[1] = c.DNSNames[0]
	}
	names[2] = c.Subject.CommonName
	t := a.table.Load()
	for _, name := range names {
		if e := t.certificates[name]; e != nil {
			if err := e.principal.Valid(a.o.Now()); err != nil {
				return nil, a.reject(err)
			}
			return e.principal, nil
		}
	}
	return nil, a.reject(ErrCertificate)
}

// Missing rejects a caller without token and certificate.
func (a *Authenticator) Missing() error { return a.reject(ErrMissing) }

// Now reads the clock.
func (a *Authenticator) Now() time.Time { return a.o.Now() }

func (a *Authenticator) reject(err error) error {
	a.unknown.Add(1)
	return err
}

// Stats are the figures of an Authenticator.
type Stats struct {
	Entries int
	// Unknown counts the calls without a good token or certificate.
	Unknown uint64
}

// Stats are the figures of this moment.
func (a *Authenticator) Stats() Stats {
	return Stats{Entries: len(a.table.Load().byName), Unknown: a.unknown.Load()}
}
