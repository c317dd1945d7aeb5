package access_test

import (
	"bufio"
	"bytes"
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
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"hindsight/cmd/server/internal/access"
	"hindsight/internal/auth"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is an Access over files of a test, with a clock of its own.
type fixture struct {
	*access.Access
	path string
	logs *observer.ObservedLogs
	now  atomic.Int64
}

func open(t *testing.T, file string, change ...func(*access.Options)) *fixture {
	t.Helper()
	f := &fixture{path: filepath.Join(t.TempDir(), "tokens.yaml")}
	// Far behind the times of files: they are always settled.
	f.now.Store(time.Now().Add(time.Hour).UnixNano())
	write(t, f.path, file)
	var core zapcore.Core
	core, f.logs = observer.New(zap.InfoLevel)
	o := access.Options{Tokens: f.path, Log: zap.New(core), Now: func() time.Time { return time.Unix(0, f.now.Load()) }}
	for _, c := range change {
		c(&o)
	}
	var err error
	f.Access, err = access.Open(o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, f.Close()) })
	return f
}

// Reload looks twice, so that a change is taken.
func (f *fixture) Reload() {
	f.Access.Reload()
	f.Access.Reload()
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func add(t *testing.T, path, name, token string) {
	t.Helper()
	hash := auth.HashOf(token)
	require.NoError(t, access.Edit(path, func(file []byte) ([]byte, error) {
		return auth.Add(file, &auth.Entry{Name: name, Role: auth.Read, Hash: &hash})
	}))
}

// A file that changed is taken; one that cannot be taken leaves the entries of before,
// and is logged and counted once.
func TestReload(t *testing.T) {
	f := open(t, "")
	if f.logs.FilterMessageSnippet("nobody may call").Len() != 1 {
		t.Error("an empty file:", f.logs.All())
	}
	knows := func(token string, want bool) {
		t.Helper()
		_, err := f.Auth.Token(token)
		assert.Equal(t, want, (err == nil), "%v %v", token, err)
	}
	add(t, f.path, "a", "token-a")
	knows("token-a", false)
	f.Reload()
	knows("token-a", true)
	good := must(os.ReadFile(f.path))(t)
	for n, bad := range []string{"- name: b\n", "- nonsense", "\x00"} {
		write(t, f.path, bad+strings.Repeat("#", n))
		f.Reload()
		f.Reload()
		knows("token-a", true)
		s := f.Stats()
		assert.Equal(t, uint64(n+1), s.ReloadFailures, "%v %v", bad, s)
	}
	require.NoError(t, os.Remove(f.path))
	f.Reload()
	f.Reload()
	knows("token-a", true)
	write(t, f.path, string(good))
	add(t, f.path, "b", "token-b")
	f.Reload()
	knows("token-b", true)
	require.NoError(t, access.Edit(f.path, func(file []byte) ([]byte, error) { return bytes.TrimPrefix(file, good), nil }))
	f.Reload()
	knows("token-a", false)
	knows("token-b", true)
	s := f.Stats()
	assert.True(t, s.ReloadFailures == 4 && s.Entries == 1, "%+v", s)
	errorsLogged := f.logs.FilterLevelExact(zap.ErrorLevel).All()
	assert.True(t, len(errorsLogged) == 4 && strings.Contains(fmt.Sprint(errorsLogged[0].ContextMap()), "line 1: field role: got nothing"), errorsLogged)
}

// A second change within the tick of the file system's clock is seen too.
func TestReloadOfAYoungFile(t *testing.T) {
	f := open(t, "")
	f.now.Store(time.Now().UnixNano())
	hash := auth.HashOf("x")
	e := auth.Entry{Name: "a", Role: auth.Read, Hash: &hash}
	young := time.Now()
	for _, name := range []string{"a", "b", "c"} {
		e.Name = name
		write(t, f.path, e.Text())
		require.NoError(t, os.Chtimes(f.path, young, young))
		f.Reload()
		p, err := f.Auth.Token("x")
		assert.True(t, err == nil && p.Name == name, "%v %v %v", name, p, err)
	}
}

// A file that is written in parts is taken when it is whole: until then nobody's principal
// ends, and nothing is logged.
func TestReloadOfAFileInParts(t *testing.T) {
	f := open(t, "")
	f.now.Store(time.Now().UnixNano())
	add(t, f.path, "a", "token-a")
	add(t, f.path, "b", "token-b")
	f.Reload()
	p := must(f.Auth.Token("token-b"))(t)
	add(t, f.path, "c", "token-c")
	whole := must(os.ReadFile(f.path))(t)
	for n := range 8 {
		write(t, f.path, string(whole[:n*len(whole)/8]))
		f.Access.Reload()
		require.NoError(t, p.Valid(time.Now()), n)
	}
	write(t, f.path, string(whole))
	f.Reload()
	if _, err := f.Auth.Token("token-c"); err != nil || p.Valid(time.Now()) != nil || f.Stats().ReloadFailures != 0 {
		t.Error("the whole file:", err, f.Stats())
	}
}

func TestOpenRejects(t *testing.T) {
	directory := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(directory, name)
		write(t, path, text)
		require.NoError(t, os.Chmod(path, mode))
		return path
	}
	good := file("good", "", 0o600)
	for _, c := range []struct {
		o    access.Options
		want string
	}{
		{access.Options{Tokens: filepath.Join(directory, "none")}, "--tokens: stat "},
		{access.Options{Tokens: directory}, "want a file that can be read again"},
		{access.Options{Tokens: file("bad", "x", 0o600)}, "--tokens: " + directory + "/bad: line 1: want a list"},
		{access.Options{Tokens: file("open", "", 0o602)}, "everybody may write it"},
		{access.Options{Tokens: good, JWTKeys: filepath.Join(directory, "none")}, "--jwt-keys: stat "},
		{access.Options{Tokens: good, JWTKeys: file("keys", `{"keys":[]}`, 0o600)}, "want a JSON Web Key Set with a public key"},
		{access.Options{AuditLog: filepath.Join(directory, "none", "audit")}, "--audit-log: open "},
	} {
		c.o.Log, c.o.Now = zap.NewNop(), time.Now
		_, err := access.Open(c.o)
		assert.True(t, err != nil && strings.Contains(err.Error(), c.want), "%v, want %s", err, c.want)
	}
	none, err := access.Open(access.Options{Log: zap.NewNop(), Now: time.Now})
	assert.True(t, err == nil && none.Auth == nil && none.Audit() == nil && none.Run(t.Context()) == nil && none.Close() == nil, "without settings there is nothing: %v", err)
}

// Edits at the same time lose nothing. The file is for its owner alone, a link stays a
// link, and an edit that fails changes nothing.
func TestEdit(t *testing.T) {
	directory := t.TempDir()
	path, link := filepath.Join(directory, "tokens"), filepath.Join(directory, "link")
	if err := os.Symlink("tokens", link); err != nil {
		t.Skip(err)
	}
	add(t, path, "first", "first")
	var writers sync.WaitGroup
	for n := range 20 {
		writers.Go(func() { add(t, link, fmt.Sprint("e-", n), fmt.Sprint("t-", n)) })
	}
	writers.Wait()
	entries, err := auth.Parse(must(os.ReadFile(path))(t))
	require.True(t, err == nil && len(entries) == 21, "%d entries: %v", len(entries), err)
	if info, err := os.Lstat(path); err != nil || info.Mode() != 0o600 {
		t.Error(info.Mode(), err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Error("the link:", info.Mode(), err)
	}
	before, _ := os.ReadFile(path)
	failure := errors.New("no")
	assert.ErrorIs(t, access.Edit(path, func([]byte) ([]byte, error) { return nil, failure }), failure)
	after, _ := os.ReadFile(path)
	assert.Equal(t, after, before, "a failed edit changed the file")
	left, err := os.ReadDir(directory)
	assert.True(t, err == nil && len(left) == 2, "%v %v", left, err)
}

// The log follows its path: it goes on in a new file after a rename or a removal, and fails while the directory is
// gone. Every other line is written.
func TestAuditLogIsRenamed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows renames no open file")
	}
	directory := filepath.Join(t.TempDir(), "audit")
	require.NoError(t, os.Mkdir(directory, 0o700))
	path := filepath.Join(directory, "audit.log")
	f := open(t, "", func(o *access.Options) { o.AuditLog = path })
	record := func(call string) { f.Audit()(&auth.Record{Time: time.Unix(0, 0), Call: call, Outcome: "OK"}) }
	wrote := func(path, call string) {
		t.Helper()
		text, err := os.ReadFile(path)
		want := `{"time":"1970-01-01T00:00:00Z","call":"` + call + `","outcome":"OK"}` + "\n"
		assert.True(t, err == nil && string(text) == want, "%s: %q, %v, want %q", path, text, err, want)
	}
	record("one")
	require.NoError(t, os.Rename(path, path+".1"))
	record("two")
	wrote(path+".1", "one")
	wrote(path, "two")
	require.NoError(t, os.RemoveAll(directory))
	record("three")
	s := f.Stats()
	assert.EqualValues(t, 1, s.AuditFailures, s)
	require.NoError(t, os.Mkdir(directory, 0o700))
	record("four")
	wrote(path, "four")
}

func TestAuditLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	f := open(t, "", func(o *access.Options) { o.AuditLog = path })
	record := f.Audit()
	hash := auth.HashOf("x")
	f.Auth.Set([]auth.Entry{{Name: "ann", Role: auth.Admin, Hash: &hash}})
	p := must(f.Auth.Token("x"))(t)
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	record(&auth.Record{Time: at, Who: p, Call: "/hindsight.v1.ModelService/DeleteModel", Models: []string{"m"}, Outcome: "OK", Peer: "127.0.0.1:1", ValidateOnly: true})
	for range 500 {
		record(&auth.Record{Time: at, Call: "GET /\n\"x", Outcome: "UNAUTHENTICATED", Reason: "TOKEN_MISSING", Rejected: true})
	}
	record(&auth.Record{Time: at.Add(time.Hour), Who: p, Call: "login", Outcome: "OK"})
	var lines []string
	file := must(os.Open(path))(t)
	for s := bufio.NewScanner(file); s.Scan(); {
		assert.True(t, json.Valid(s.Bytes()), "%s", s.Text())
		lines = append(lines, s.Text())
	}
	require.NoError(t, file.Close())
	require.Len(t, lines, 202)
	const first = `{"time":"2026-01-02T03:04:05.000000006Z","name":"ann","role":"admin","call":"hindsight.v1.ModelService/DeleteModel","models":["m"],"outcome":"OK","peer":"127.0.0.1:1","validate_only":true}`
	assert.True(t, lines[0] == first && strings.HasSuffix(lines[201], `"call":"login","outcome":"OK","omitted":300}`), "%s\n%s", lines[0], lines[201])
	s := f.Stats()
	assert.EqualValues(t, 0, s.AuditFailures, s)
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Error(info.Mode(), err)
	}
}

// must returns the value of a call that must not fail.
func must[T any](v T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		require.NoError(tb, err)
		return v
	}
}

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

// Keys come from a URL too. While it answers nothing good, the previous keys stay.
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
	for end := time.Now().Add(3 * time.Minute); ; {
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
