package access

import (
	"context"
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"hindsight/internal/auth"
)

const (
	leeway       = 30 * time.Second
	fetchTimeout = 10 * time.Second
	maxKeys      = 1 << 20
)

// algorithms are the algorithms of public keys. It omits none and shared secrets: a server that knows the
// secret could make tokens.
func algorithms() []jose.SignatureAlgorithm {
	return []jose.SignatureAlgorithm{
		jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512,
		jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
	}
}

type keys struct {
	file             watched
	url              string
	issuer, audience string
	now              func() time.Time
	client           *http.Client
	// set is the last set, by kid; nil before the first.
	set  atomic.Pointer[map[string][]verifier]
	last string
}

type verifier struct {
	jose.JSONWebKey
	id string
	// withdrawn is set when the key leaves the set.
	withdrawn *atomic.Bool
}

func newKeys(o *Options) *keys {
	k := &keys{issuer: o.JWTIssuer, audience: o.JWTAudience, now: o.Now}
	if strings.Contains(o.JWTKeys, "://") {
		// A redirect could leave TLS.
		keepRedirect := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		k.url, k.client = o.JWTKeys, &http.Client{Timeout: fetchTimeout, CheckRedirect: keepRedirect}
	} else {
		k.file = watched{path: o.JWTKeys}
	}
	return k
}

func (k *keys) readFile() (changed bool, err error) {
	data, changed, err := k.file.read()
	if err != nil || !changed {
		return false, err
	}
	if _, err = k.take(data); err != nil {
		return false, fmt.Errorf("%s: %w", k.file.path, err)
	}
	return true, nil
}

func (k *keys) fetch(ctx context.Context) (changed bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, k.url, nil)
	if err != nil {
		return false, err
	}
	answer, err := k.client.Do(request)
	if err != nil {
		return false, err
	}
	defer func() { _ = answer.Body.Close() }() // It was only read.
	if answer.StatusCode != http.StatusOK {
		return false, fmt.Errorf("%s answers %s", k.url, answer.Status)
	}
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxKeys+1))
	if err != nil {
		return false, fmt.Errorf("%s: %w", k.url, err)
	}
	if len(data) > maxKeys {
		return false, fmt.Errorf("%s: got more than the maximum of %d bytes", k.url, maxKeys)
	}
	if changed, err = k.take(data); err != nil {
		return false, fmt.Errorf("%s: %w", k.url, err)
	}
	return changed, nil
}

// take accepts a key set. It keeps the public keys for signatures, and ignores others as section
// 5 of RFC 7517 says: providers have keys for other uses.
func (k *keys) take(data []byte) (changed bool, err error) {
	if k.last == string(data) {
		return false, nil
	}
	var all struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(data, &all); err != nil {
		return false, fmt.Errorf("want a JSON Web Key Set: %w", err)
	}
	before := map[string]verifier{}
	if set := k.set.Load(); set != nil {
		for _, v := range slices.Concat(slices.Collect(maps.Values(*set))...) {
			before[v.id] = v
		}
	}
	set := map[string][]verifier{}
	for _, text := range all.Keys {
		v, ok := newVerifier(text)
		if !ok {
			continue
		}
		if same, ok := before[v.id]; ok {
			v = same
			delete(before, v.id)
		}
		set[v.KeyID] = append(set[v.KeyID], v)
	}
	if len(set) == 0 {
		return false, errors.New("want a JSON Web Key Set with a public key for signatures, and a kid in each key")
	}
	k.set.Store(&set)
	k.last = string(data)
	for _, v := range before {
		v.withdrawn.Store(true)
	}
	return true, nil
}

// newVerifier reads a key. It returns !ok for a key of another use or kind.
func newVerifier(text []byte) (v verifier, ok bool) {
	if json.Unmarshal(text, &v.JSONWebKey) != nil || !v.Valid() || !v.IsPublic() || v.KeyID == "" || (v.Use != "" && v.Use != "sig") {
		return v, false
	}
	digest, err := v.Thumbprint(crypto.SHA256)
	v.id = fmt.Sprintf("%q %q %x", v.KeyID, v.Algorithm, digest)
	v.withdrawn = new(atomic.Bool)
	return v, err == nil
}

// verify is auth.Options.VerifyJWT. An error names the wrong claim, and shows nothing of the
// token.
func (k *keys) verify(token string) (auth.Claims, error) {
	set := k.set.Load()
	if set == nil {
		return auth.Claims{}, fmt.Errorf("%w: the server has no keys of JWTs yet", auth.ErrInvalid)
	}
	parsed, err := jwt.ParseSigned(token, algorithms())
	if err != nil || len(parsed.Headers) != 1 {
		return auth.Claims{}, fmt.Errorf("%w: it is no JWT of an algorithm with a public key", auth.ErrInvalid)
	}
	matching := (*set)[parsed.Headers[0].KeyID]
	if len(matching) != 1 || (matching[0].Algorithm != "" && matching[0].Algorithm != parsed.Headers[0].Algorithm) {
		return auth.Claims{}, fmt.Errorf("%w: no key of the server has its kid and its algorithm", auth.ErrInvalid)
	}
	var claims jwt.Claims
	all := map[string]any{}
	if err := parsed.Claims(matching[0].Key, &claims, &all); err != nil {
		return auth.Claims{}, fmt.Errorf("%w: its signature is not of the key", auth.ErrInvalid)
	}
	return auth.Claims{Subject: claims.Subject, Expires: expiry(&claims), Withdrawn: matching[0].withdrawn, All: all}, k.check(&claims)
}

func expiry(c *jwt.Claims) time.Time {
	if c.Expiry == nil {
		return time.Time{}
	}
	return c.Expiry.Time().Add(leeway)
}

func (k *keys) check(c *jwt.Claims) error {
	err := c.ValidateWithLeeway(jwt.Expected{Issuer: k.issuer, AnyAudience: jwt.Audience{k.audience}, Time: k.now()}, leeway)
	switch {
	case errors.Is(err, jwt.ErrExpired):
		return auth.ErrExpired
	case errors.Is(err, jwt.ErrInvalidIssuer):
		return fmt.Errorf("%w: its issuer is not %s", auth.ErrInvalid, k.issuer)
	case errors.Is(err, jwt.ErrInvalidAudience):
		return fmt.Errorf("%w: its audience is not %s", auth.ErrInvalid, k.audience)
	case err != nil:
		return fmt.Errorf("%w: it is not valid yet", auth.ErrInvalid)
	case c.Expiry == nil:
		return fmt.Errorf("%w: it has no exp", auth.ErrInvalid)
	}
	return nil
}
