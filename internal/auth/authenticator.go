package auth

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// At most so many bytes are hashed for a caller who is not known yet. JWTs of some
	// hundred claims are shorter.
	longestToken = 8 << 10
	// A JWT is verified again after so long at the latest, so that one whose key was
	// withdrawn ends.
	rememberJWT = time.Minute
	// So many JWTs are remembered at most.
	maxRemembered = 10_000
)

// Claims are those of a JWT that was verified.
type Claims struct {
	Subject string
	// Expires is required of a JWT.
	Expires time.Time
	// Withdrawn is set once the key that signed the JWT is not taken any more; nil is never.
	Withdrawn *atomic.Bool
	All       map[string]any
}

// Options of an Authenticator. Now is required.
type Options struct {
	Now func() time.Time
	// VerifyJWT verifies a JWT; nil is none are taken. Its errors are ErrInvalid or
	// ErrExpired. It does not wait for anything.
	VerifyJWT func(token string) (Claims, error)
}

// Authenticator tells who calls. Its methods may be called at once.
type Authenticator struct {
	o      Options
	table  atomic.Pointer[table]
	setter sync.Mutex
	// mu guards the JWTs that were verified.
	mu struct {
		sync.RWMutex
		jwts map[[sha256.Size]byte]remembered
	}
	stats struct{ accepted, unknown, forbidden, limited, logins, loginFailures atomic.Uint64 }
}

type remembered struct {
	*Principal
	until time.Time
}

// entry is an entry in use.
type entry struct {
	Entry
	// gone: the entry is not in the file any more, or another has its place.
	gone   atomic.Bool
	limits *limits
	// principal is that of a token or of a certificate, which is the same in every call.
	principal *Principal
}

// table is a tokens file in use. It does not change.
type table struct {
	byName map[string]*entry
	// tokens are found by the first 8 bytes of their hash.
	tokens       map[uint64][]*entry
	certificates map[string]*entry
	// claims are in the order of the file.
	claims []*entry
}

// New is an authenticator that knows nobody until Set.
func New(o Options) *Authenticator {
	a := &Authenticator{o: o}
	a.table.Store(new(table))
	a.ForgetJWTs()
	return a
}

// Set puts other entries in the place of those before. An entry that is the same stays,
// with what it has used of its limits. One that changed keeps that too unless its limits
// changed. The principals of an entry that changed or is gone are not valid from here on.
func (a *Authenticator) Set(entries []Entry) {
	a.setter.Lock()
	defer a.setter.Unlock()
	old := a.table.Load()
	t := &table{byName: map[string]*entry{}, tokens: map[uint64][]*entry{}, certificates: map[string]*entry{}}
	for n := range entries {
		e := newEntry(&entries[n], old.byName[entries[n].Name])
		t.byName[e.Name] = e
		switch {
		case e.Hash != nil:
			head := binary.BigEndian.Uint64(e.Hash[:])
			t.tokens[head] = append(t.tokens[head], e)
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
	// Which entry lets a JWT in may have changed.
	a.ForgetJWTs()
}

// newEntry is before if nothing changed.
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

// same tells whether an entry says what another says.
func (e *entry) same(o *Entry) bool {
	hashes := (e.Hash == nil) == (o.Hash == nil) && (e.Hash == nil || *e.Hash == *o.Hash)
	return hashes && e.Role == o.Role && slices.Equal(e.Models, o.Models) && e.Certificate == o.Certificate &&
		e.Claim == o.Claim && e.Value == o.Value && e.NotAfter.Equal(o.NotAfter) && e.Rate == o.Rate && e.Concurrency == o.Concurrency
}

// let is a principal that the entry lets in until the sooner end.
func (e *entry) let(subject string, until time.Time) *Principal {
	end := e.NotAfter
	if end.IsZero() || (!until.IsZero() && until.Before(end)) {
		end = until
	}
	return &Principal{Name: e.Name, Subject: subject, Role: e.Role, Models: e.Models, notAfter: end, entry: e}
}

// Header is the principal of the value of an Authorization header. It allocates nothing
// for a token of the file, and waits for nothing.
func (a *Authenticator) Header(value string) (*Principal, error) {
	const scheme = "Bearer "
	if len(value) <= len(scheme) || !strings.EqualFold(value[:len(scheme)], scheme) {
		return nil, a.refuse(ErrInvalid)
	}
	return a.Token(value[len(scheme):])
}

// Token is the principal of a token.
func (a *Authenticator) Token(token string) (*Principal, error) {
	if len(token) > longestToken {
		return nil, a.refuse(ErrInvalid)
	}
	hash := sum(token)
	p, err := a.byHash(&hash)
	if p == nil && err == nil && a.o.VerifyJWT != nil && strings.Count(token, ".") == 2 {
		p, err = a.byJWT(token, hash)
	}
	if p == nil && err == nil {
		err = ErrInvalid
	}
	if err != nil {
		return nil, a.refuse(err)
	}
	return p, nil
}

// sum is HashOf without an allocation for what is as short as a token of the file.
func sum(token string) [sha256.Size]byte {
	var room [64]byte
	if len(token) > len(room) {
		return HashOf(token)
	}
	return sha256.Sum256(room[:copy(room[:], token)])
}

// byHash is the principal of a token of the file, nil if it is of none. The hashes are
// compared in constant time. The lookup is by a part of the hash of what the caller sent:
// the time that it takes tells nothing by which a token could be found.
func (a *Authenticator) byHash(hash *[sha256.Size]byte) (*Principal, error) {
	var found *entry
	for _, e := range a.table.Load().tokens[binary.BigEndian.Uint64(hash[:])] {
		if subtle.ConstantTimeCompare(e.Hash[:], hash[:]) == 1 {
			found = e
		}
	}
	if found == nil {
		return nil, nil
	}
	return found.principal, found.principal.Valid(a.o.Now())
}

// byJWT is the principal of a JWT, nil if no entry lets it in.
func (a *Authenticator) byJWT(token string, hash [sha256.Size]byte) (*Principal, error) {
	now := a.o.Now()
	a.mu.RLock()
	known, ok := a.mu.jwts[hash]
	a.mu.RUnlock()
	// One that is not valid any more may have another entry now.
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

// ForgetJWTs has every JWT verified again. It is called when the keys change.
func (a *Authenticator) ForgetJWTs() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.jwts = map[[sha256.Size]byte]remembered{}
}

// has tells whether a claim is a value, or a list that has it. The claim is named as it
// is, or by the names on its path with dots between.
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

// Certificate is the principal of a client's certificate that was verified. Its first
// URI, its first DNS name and its common name are looked up, in this order.
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
				return nil, a.refuse(err)
			}
			return e.principal, nil
		}
	}
	return nil, a.refuse(ErrCertificate)
}

// Missing is the refusal of a caller without a token and a certificate.
func (a *Authenticator) Missing() error { return a.refuse(ErrMissing) }

// Now is the time of the authenticator's clock.
func (a *Authenticator) Now() time.Time { return a.o.Now() }

func (a *Authenticator) refuse(err error) error {
	a.stats.unknown.Add(1)
	return err
}

// Judged counts a call of a known principal by what was said of it. A call of one who is
// not known is counted where the token is looked at.
func (a *Authenticator) Judged(err error) {
	switch {
	case err == nil:
		a.stats.accepted.Add(1)
	case errors.Is(err, ErrRole), errors.Is(err, ErrScope):
		a.stats.forbidden.Add(1)
	case errors.Is(err, ErrRate), errors.Is(err, ErrConcurrency):
		a.stats.limited.Add(1)
	}
}

// LoggedIn counts a login by how it ended.
func (a *Authenticator) LoggedIn(err error) {
	if err == nil {
		a.stats.logins.Add(1)
	} else {
		a.stats.loginFailures.Add(1)
	}
}

// Stats are the figures of an Authenticator.
type Stats struct {
	Entries       int    `metric:"hindsight_auth_entries" help:"Entries of the tokens file."`
	Accepted      uint64 `metric:"hindsight_auth_accepted_total" help:"Calls of known principals that their role allows."`
	Unknown       uint64 `metric:"hindsight_auth_unauthenticated_total" help:"Calls without a good token or certificate."`
	Forbidden     uint64 `metric:"hindsight_auth_forbidden_total" help:"Calls that the role or the scope of their principal does not allow."`
	Limited       uint64 `metric:"hindsight_auth_limited_total" help:"Calls beyond the rate or the concurrency of their principal."`
	Logins        uint64 `metric:"hindsight_auth_logins_total" help:"Sessions of the console that were begun."`
	LoginFailures uint64 `metric:"hindsight_auth_login_failures_total" help:"Sessions of the console that were refused."`
}

// Stats are the figures of this moment.
func (a *Authenticator) Stats() Stats {
	s := &a.stats
	return Stats{
		Entries:  len(a.table.Load().byName),
		Accepted: s.accepted.Load(), Unknown: s.unknown.Load(), Forbidden: s.forbidden.Load(), Limited: s.limited.Load(),
		Logins: s.logins.Load(), LoginFailures: s.loginFailures.Load(),
	}
}
