package access_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/cmd/server/internal/access"
	"hindsight/internal/auth"
)

// issuer signs JWTs.
type issuer struct {
	key       any
	algorithm jose.SignatureAlgorithm
	kid       string
}

func newIssuer(t *testing.T, kid string, algorithm jose.SignatureAlgorithm) issuer {
	t.Helper()
	var key any
	var err error
	switch algorithm {
	case jose.RS256:
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	case jose.EdDSA:
		_, key, err = ed25519.GenerateKey(rand.Reader)
	default:
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	require.NoError(t, err)
	return issuer{key, algorithm, kid}
}

// set is a key set of issuers.
func set(t *testing.T, issuers ...issuer) string {
	t.Helper()
	var s jose.JSONWebKeySet
	for _, i := range issuers {
		signer, ok := i.key.(crypto.Signer)
		require.True(t, ok, "%T", i.key)
		s.Keys = append(s.Keys, jose.JSONWebKey{Key: signer.Public(), KeyID: i.kid, Algorithm: string(i.algorithm), Use: "sig"})
	}
	text := must(json.Marshal(s))(t)
	return string(text)
}

// sign is a JWT of claims.
func (i issuer) sign(t *testing.T, claims map[string]any) string {
	t.Helper()
	signer := must(jose.NewSigner(jose.SigningKey{Algorithm: i.algorithm, Key: i.key}, (&jose.SignerOptions{}).WithHeader("kid", i.kid)))(t)
	return must(jwt.Signed(signer).Claims(claims).Serialize())(t)
}

const jwtEntries = "- name: ml\n  role: write\n  claim: groups=ml\n"

// good are claims that are taken, with changes.
func (f *fixture) good(change map[string]any) map[string]any {
	now := time.Unix(0, f.now.Load()).Unix()
	claims := map[string]any{"iss": "https://id.example", "aud": []string{"hindsight", "other"}, "sub": "ann", "exp": now + 600, "groups": []string{"ml"}}
	for name, value := range change {
		claims[name] = value
		if value == nil {
			delete(claims, name)
		}
	}
	return claims
}

func openJWT(t *testing.T, keys string) *fixture {
	t.Helper()
	return open(t, jwtEntries, func(o *access.Options) {
		o.JWTKeys, o.JWTIssuer, o.JWTAudience = keys, "https://id.example", "hindsight"
	})
}

func TestJWTs(t *testing.T) {
	issuers := []issuer{newIssuer(t, "r", jose.RS256), newIssuer(t, "e", jose.ES256), newIssuer(t, "d", jose.EdDSA)}
	path := filepath.Join(t.TempDir(), "keys.json")
	write(t, path, set(t, issuers...))
	f := openJWT(t, path)
	for _, i := range issuers {
		p, err := f.Auth.Token(i.sign(t, f.good(nil)))
		assert.True(t, err == nil && p.Name == "ml" && p.Subject == "ann" && p.Role == auth.Write, "%s: %+v, %v", i.algorithm, p, err)
	}
	now := time.Unix(0, f.now.Load()).Unix()
	r := issuers[0]
	for name, c := range map[string]struct {
		change map[string]any
		want   error
	}{
		"another issuer":      {map[string]any{"iss": "https://evil.example"}, auth.ErrInvalid},
		"no issuer":           {map[string]any{"iss": nil}, auth.ErrInvalid},
		"another audience":    {map[string]any{"aud": "other"}, auth.ErrInvalid},
		"no audience":         {map[string]any{"aud": nil}, auth.ErrInvalid},
		"expired":             {map[string]any{"exp": now - 31}, auth.ErrExpired},
		"within the leeway":   {map[string]any{"exp": now - 29}, nil},
		"no end":              {map[string]any{"exp": nil}, auth.ErrInvalid},
		"not yet":             {map[string]any{"nbf": now + 31}, auth.ErrInvalid},
		"issued in future":    {map[string]any{"iat": now + 31}, auth.ErrInvalid},
		"no group":            {map[string]any{"groups": nil}, auth.ErrInvalid},
		"another group":       {map[string]any{"groups": "mlx"}, auth.ErrInvalid},
		"claims of odd types": {map[string]any{"groups": map[string]any{"ml": true}}, auth.ErrInvalid},
	} {
		token := r.sign(t, f.good(c.change))
		_, err := f.Auth.Token(token)
		assert.True(t, errors.Is(err, c.want) && (err == nil || !strings.Contains(err.Error(), token[:20])), "%s: %v, want %v", name, err, c.want)
	}
}

// What is no signature of the server's keys is rejected: none, a shared secret made of the
// public key, a foreign key of the same kid, a key of another algorithm, another kid.
func TestForgedJWTs(t *testing.T) {
	r, e := newIssuer(t, "r", jose.ES256), newIssuer(t, "e", jose.EdDSA)
	path := filepath.Join(t.TempDir(), "keys.json")
	write(t, path, set(t, r, e))
	f := openJWT(t, path)
	part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	claims := must(json.Marshal(f.good(nil)))(t)
	signer, _ := r.key.(crypto.Signer)
	public := must(x509.MarshalPKIXPublicKey(signer.Public()))(t)
	secret := issuer{public, jose.HS256, "r"}
	good := r.sign(t, f.good(nil))
	parts := strings.Split(good, ".")
	for name, token := range map[string]string{
		"none":                 part(`{"alg":"none","kid":"r"}`) + "." + part(string(claims)) + ".",
		"NONE with signature":  part(`{"alg":"NONE","kid":"r"}`) + "." + part(string(claims)) + "." + parts[2],
		"a shared secret":      secret.sign(t, f.good(nil)),
		"a foreign key":        newIssuer(t, "r", jose.ES256).sign(t, f.good(nil)),
		"another algorithm":    newIssuer(t, "r", jose.EdDSA).sign(t, f.good(nil)),
		"a key of another kid": issuer{r.key, jose.ES256, "e"}.sign(t, f.good(nil)),
		"no kid":               issuer{r.key, jose.ES256, ""}.sign(t, f.good(nil)),
		"other claims":         parts[0] + "." + part(strings.Replace(string(claims), "ann", "eve", 1)) + "." + parts[2],
		"no signature":         parts[0] + "." + parts[1] + ".",
		"cut":                  good[:len(good)-4],
		"empty parts":          "..",
		"its own key":          part(`{"alg":"ES256","kid":"r","jwk":`+strings.Trim(set(t, r)[len(`{"keys":[`):], "]}")+`}}`) + "." + parts[1] + "." + parts[2],
	} {
		p, err := f.Auth.Token(token)
		assert.ErrorIs(t, err, auth.ErrInvalid, "%v %v", name, p)
	}
	_, err := f.Auth.Token(good)
	assert.NoError(t, err)
}

// A key that is withdrawn ends its JWTs, also those that were taken before.
func TestRotationOfKeys(t *testing.T) {
	old, next := newIssuer(t, "1", jose.ES256), newIssuer(t, "2", jose.ES256)
	path := filepath.Join(t.TempDir(), "keys.json")
	write(t, path, set(t, old))
	f := openJWT(t, path)
	byOld, byNext := old.sign(t, f.good(nil)), next.sign(t, f.good(nil))
	check := func(when string, takesOld, takesNext bool) {
		t.Helper()
		_, oldErr := f.Auth.Token(byOld)
		_, nextErr := f.Auth.Token(byNext)
		assert.True(t, (oldErr == nil) == takesOld && (nextErr == nil) == takesNext, "%s: %v, %v", when, oldErr, nextErr)
	}
	check("at first", true, false)
	signedIn := must(f.Auth.Token(byOld))(t)
	write(t, path, set(t, old, next))
	f.Reload()
	check("both", true, true)
	assert.NoError(t, signedIn.Valid(time.Unix(0, f.now.Load())))
	write(t, path, "{}")
	f.Reload()
	check("a bad file", true, true)
	write(t, path, set(t, next))
	f.Reload()
	check("withdrawn", false, true)
	// As that of a stream, or of a session of the console.
	assert.ErrorIs(t, signedIn.Valid(time.Unix(0, f.now.Load())), auth.ErrInvalid)
	s := f.Stats()
	assert.EqualValues(t, 1, s.ReloadFailures, s)
}

// Keys for others, and those of kinds that are not known, leave the rest of the set as it is.
func TestKeysOfOtherKinds(t *testing.T) {
	i := newIssuer(t, "1", jose.ES256)
	others := []string{
		`{"kty":"AKP","kid":"1","alg":"ML-DSA-65","pub":"AAAA"}`, `{"kty":"OKP","crv":"X25519","kid":"1","x":"AAAA"}`,
		`{"kty":"EC","crv":"secp256k1","kid":"1","x":"AAAA","y":"AAAA"}`, `{"kty":"RSA","kid":"1"}`, `7`, `null`,
	}
	path := filepath.Join(t.TempDir(), "keys.json")
	write(t, path, strings.Replace(set(t, i), `[`, "["+strings.Join(others, ",")+",", 1))
	f := openJWT(t, path)
	_, err := f.Auth.Token(i.sign(t, f.good(nil)))
	assert.NoError(t, err)
}

// Keys come from a URL too. While it answers nothing good, those of before stay.
func TestKeysOfAURL(t *testing.T) {
	i := newIssuer(t, "1", jose.ES256)
	var bad atomic.Bool
	asked := make(chan struct{}, 16)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		defer func() { asked <- struct{}{} }()
		if bad.Load() {
			http.Redirect(w, &http.Request{Method: http.MethodGet}, "http://evil.example/", http.StatusFound)
			return
		}
		_, _ = w.Write([]byte(set(t, i)))
	}))
	defer server.Close()
	f := openJWT(t, server.URL)
	token := i.sign(t, f.good(nil))
	_, err := f.Auth.Token(token)
	assert.ErrorIs(t, err, auth.ErrInvalid)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	<-asked
	for end := time.Now().Add(10 * time.Second); ; {
		if _, err := f.Auth.Token(token); err == nil {
			break
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	cancel()
	assert.NoError(t, <-ended)
	bad.Store(true)
	f.FetchKeys(t.Context())
	if _, err := f.Auth.Token(token); err != nil || f.Stats().ReloadFailures != 1 {
		t.Error("after a bad answer:", err, f.Stats())
	}
}
