package auth_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/auth"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// clock is a clock that a test sets.
type clock struct{ passed atomic.Int64 }

func (c *clock) now() time.Time          { return start.Add(time.Duration(c.passed.Load())) }
func (c *clock) advance(d time.Duration) { c.passed.Add(int64(d)) }

func entry(name, token string, change ...func(*auth.Entry)) auth.Entry {
	hash := auth.HashOf(token)
	e := auth.Entry{Name: name, Role: auth.Write, Hash: &hash}
	for _, c := range change {
		c(&e)
	}
	return e
}

func TestTokens(t *testing.T) {
	c := new(clock)
	a := auth.New(auth.Options{Now: c.now})
	one, two, ends := auth.NewToken(), auth.NewToken(), auth.NewToken()
	require.True(t, one != two && len(one) == 46 && strings.HasPrefix(one, "hs_"), "tokens %q, %q", one, two)
	a.Set([]auth.Entry{entry("one", one), entry("ends", ends, func(e *auth.Entry) { e.NotAfter = start.Add(time.Hour) })})
	for header, want := range map[string]error{
		"Bearer " + one: nil, "bearer " + one: nil, "Bearer " + two: auth.ErrInvalid, "Bearer  " + one: auth.ErrInvalid, "Basic " + one: auth.ErrInvalid,
		one: auth.ErrInvalid, "Bearer": auth.ErrInvalid, "Bearer ": auth.ErrInvalid, "": auth.ErrInvalid, "Bearer " + one[:45]: auth.ErrInvalid,
		"Bearer " + one + "x": auth.ErrInvalid, "Bearer " + strings.Repeat("x", 100_000): auth.ErrInvalid, "Bearer " + ends: nil, "Bearer a.b.c": auth.ErrInvalid,
	} {
		p, err := a.Header(header)
		assert.True(t, errors.Is(err, want) && (err == nil) == (p != nil), "%.60q: %v, %v, want %v", header, p, err, want)
	}
	p, err := a.Token(ends)
	require.True(t, err == nil && p.Name == "ends" && p.NotAfter().Equal(start.Add(time.Hour)), "%v %v", p, err)
	c.advance(time.Hour - 1)
	assert.NoError(t, p.Valid(c.now()))
	c.advance(1)
	_, err = a.Token(ends)
	assert.True(t, errors.Is(err, auth.ErrExpired) && errors.Is(p.Valid(c.now()), auth.ErrExpired), "at its end: %v", err)
	s := a.Stats()
	assert.True(t, s.Entries == 2 && s.Unknown == 12, "%+v", s)
}

// A principal ends with its entry, and with every change of it; one whose entry is the
// same stays.
func TestSet(t *testing.T) {
	c := new(clock)
	a := auth.New(auth.Options{Now: c.now})
	entries := []auth.Entry{entry("stays", "s"), entry("goes", "g"), entry("changes", "c"), entry("rotates", "r")}
	a.Set(entries)
	principals := map[string]*auth.Principal{}
	for _, token := range []string{"s", "g", "c", "r"} {
		p, err := a.Token(token)
		require.NoError(t, err)
		principals[p.Name] = p
	}
	a.Set([]auth.Entry{
		entry("rotates", "r2"), entry("changes", "c", func(e *auth.Entry) { e.Models = []string{"m"} }), entry("stays", "s"),
	})
	for name, want := range map[string]error{"stays": nil, "goes": auth.ErrInvalid, "changes": auth.ErrInvalid, "rotates": auth.ErrInvalid} {
		assert.ErrorIs(t, principals[name].Valid(c.now()), want, name)
	}
	for token, want := range map[string]error{"s": nil, "g": auth.ErrInvalid, "c": nil, "r": auth.ErrInvalid, "r2": nil} {
		_, err := a.Token(token)
		assert.ErrorIs(t, err, want, token)
	}
	p, err := a.Token("c")
	assert.True(t, err == nil && !p.SeesAll() && p.Sees("m1") && !p.Sees("x"), "%v %v %v", "the entry that changed:", p, err)
}

func TestPrincipal(t *testing.T) {
	var nobody *auth.Principal
	if nobody.Valid(start) != nil || nobody.Has(auth.Admin) != nil || nobody.Within("m") != nil || nobody.Whole() != nil || nobody.Enter(start) != nil || nobody.Spend(start) != nil {
		t.Error("without tokens everybody may do all")
	}
	nobody.Leave()
	a := auth.New(auth.Options{Now: func() time.Time { return start }})
	a.Set([]auth.Entry{entry("ci", "t", func(e *auth.Entry) { e.Models = []string{"a-", "b"} })})
	p, err := a.Token("t")
	require.NoError(t, err)
	for model, want := range map[string]bool{"a-1": true, "b": true, "bc": true, "a": false, "c": false, "": false} {
		if err := p.Within(model); p.Sees(model) != want || errors.Is(err, auth.ErrScope) == want {
			t.Errorf("%q: %v, %v", model, p.Sees(model), err)
		}
	}
	assert.True(t, p.Has(auth.Write) == nil && errors.Is(p.Has(auth.Admin), auth.ErrRole) && errors.Is(p.Whole(), auth.ErrScope), "role and models")
	got := auth.FromContext(auth.NewContext(t.Context(), p))
	assert.True(t, got == p && auth.FromContext(t.Context()) == nil, "%v %v", "context", got)
}

// A burst of a second's calls is taken, then one each period. The limits outlive a
// change of the entry, unless they change.
func TestLimits(t *testing.T) {
	c := new(clock)
	a := auth.New(auth.Options{Now: c.now})
	limited := func(rate float64) func(*auth.Entry) { return func(e *auth.Entry) { e.Rate, e.Concurrency = rate, 2 } }
	a.Set([]auth.Entry{entry("a", "t", limited(4))})
	p, err := a.Token("t")
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, p.Enter(c.now()))
	}
	var wait *auth.LimitError
	if err := p.Enter(c.now()); !errors.Is(err, auth.ErrConcurrency) || !errors.As(err, &wait) || wait.Wait <= 0 {
		t.Error("a third place:", err)
	}
	p.Leave()
	assert.True(t, p.Enter(c.now()) == nil && p.Spend(c.now()) == nil, "four calls at once")
	p.Leave()
	if err := p.Enter(c.now()); !errors.Is(err, auth.ErrRate) || !errors.As(err, &wait) || wait.Wait != 250*time.Millisecond {
		t.Error("a fifth call:", err)
	}
	assert.ErrorIs(t, p.Spend(c.now()), auth.ErrRate)
	a.Set([]auth.Entry{entry("a", "t", limited(4), func(e *auth.Entry) { e.Role = auth.Admin })})
	p, err = a.Token("t")
	assert.True(t, err == nil && p.Role == auth.Admin && errors.Is(p.Spend(c.now()), auth.ErrRate), "the limits are spent still: %v %v", p, err)
	c.advance(250 * time.Millisecond)
	assert.NoError(t, p.Enter(c.now()))
	assert.ErrorIs(t, p.Enter(c.now()), auth.ErrConcurrency)
	a.Set([]auth.Entry{entry("a", "t", limited(5))})
	p, err = a.Token("t")
	assert.True(t, err == nil && p.Spend(c.now()) == nil, "other limits begin anew: %v", err)
}

func TestJWTs(t *testing.T) {
	c := new(clock)
	verified := 0
	valid := map[string]auth.Claims{
		"ops.x.y":    {Subject: "ann", Expires: start.Add(time.Hour), All: map[string]any{"groups": []any{"staff", "ops"}}},
		"staff.x.y":  {Subject: "bob", Expires: start.Add(time.Hour), All: map[string]any{"groups": "staff", "n": 1.0}},
		"nested.x.y": {Subject: "eve", Expires: start.Add(time.Hour), All: map[string]any{"realm": map[string]any{"roles": []any{map[string]any{}, "r"}}}},
		"nobody.x.y": {Subject: "joe", Expires: start.Add(time.Hour), All: map[string]any{"realm": "roles", "groups": []any{1.0}}},
	}
	a := auth.New(auth.Options{Now: c.now, VerifyJWT: func(token string) (auth.Claims, error) {
		verified++
		claims, ok := valid[token]
		if !ok {
			return claims, fmt.Errorf("%w: its signature", auth.ErrInvalid)
		}
		return claims, nil
	}})
	claim := func(name, claim, value string, role auth.Role) auth.Entry {
		return auth.Entry{Name: name, Role: role, Claim: claim, Value: value}
	}
	a.Set([]auth.Entry{claim("operators", "groups", "ops", auth.Admin), claim("staff", "groups", "staff", auth.Read), claim("deep", "realm.roles", "r", auth.Write)})
	for token, want := range map[string]string{"ops.x.y": "operators", "staff.x.y": "staff", "nested.x.y": "deep", "nobody.x.y": "", "forged.x.y": ""} {
		p, err := a.Token(token)
		assert.True(t, (err == nil) == (want != "") && (err != nil || (p.Name == want && p.Subject != "")) && (err == nil || errors.Is(err, auth.ErrInvalid)), "%s: %+v, %v", token, p, err)
	}
	// What was verified is not verified again within a minute; what was rejected is.
	verified = 0
	p, err := a.Token("staff.x.y")
	_, forged := a.Token("forged.x.y")
	assert.True(t, err == nil && verified == 1 && forged != nil, "verified %d times: %v", verified, err)
	c.advance(time.Minute)
	if _, err := a.Token("staff.x.y"); err != nil || verified != 2 {
		t.Errorf("after a minute verified %d times: %v", verified, err)
	}
	// Another entry lets it in from now on.
	a.Set([]auth.Entry{claim("all", "groups", "staff", auth.Write)})
	assert.ErrorIs(t, p.Valid(c.now()), auth.ErrInvalid, "the principal of an entry that is gone is valid")
	p, err = a.Token("staff.x.y")
	assert.True(t, err == nil && p.Name == "all" && p.Subject == "bob", "%v %v", p, err)
	c.advance(time.Hour)
	assert.ErrorIs(t, p.Valid(c.now()), auth.ErrExpired, "it ends with the JWT")
}

func TestCertificates(t *testing.T) {
	c := new(clock)
	a := auth.New(auth.Options{Now: c.now})
	certificate := func(name string, end time.Time) auth.Entry {
		return auth.Entry{Name: "e-" + name, Role: auth.Read, Certificate: name, NotAfter: end}
	}
	a.Set([]auth.Entry{certificate("Ann", time.Time{}), certificate("host.example", time.Time{}), certificate("spiffe://x/y", time.Time{}), certificate("old", start)})
	uri, err := url.Parse("spiffe://x/y")
	require.NoError(t, err)
	for _, c := range []struct {
		certificate x509.Certificate
		want        string
		err         error
	}{
		{x509.Certificate{Subject: pkix.Name{CommonName: "Ann"}}, "e-Ann", nil},
		{x509.Certificate{Subject: pkix.Name{CommonName: "Ann"}, DNSNames: []string{"host.example"}}, "e-host.example", nil},
		{x509.Certificate{Subject: pkix.Name{CommonName: "Ann"}, DNSNames: []string{"host.example"}, URIs: []*url.URL{uri}}, "e-spiffe://x/y", nil},
		{x509.Certificate{DNSNames: []string{"other.example", "host.example"}}, "", auth.ErrCertificate},
		{x509.Certificate{Subject: pkix.Name{CommonName: "old"}}, "", auth.ErrExpired},
		{x509.Certificate{}, "", auth.ErrCertificate},
	} {
		p, err := a.Certificate(&c.certificate)
		assert.True(t, errors.Is(err, c.err) && (err != nil || p.Name == c.want && p.Subject == c.want[2:]), "%s: %v, %v", c.want, p, err)
	}
}

// Tokens that stay are taken while the file changes without end; those that went are not.
func TestSetUnderLoad(t *testing.T) {
	a := auth.New(auth.Options{Now: time.Now})
	stays, goes := entry("stays", "s"), entry("goes", "g")
	a.Set([]auth.Entry{stays, goes})
	var readers sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				p, err := a.Token("s")
				if err != nil || p.Valid(time.Now()) != nil {
					t.Error("rejected while the file changed:", err)
					return
				}
				_, _ = a.Token("g")
			}
		})
	}
	for range 500 {
		a.Set([]auth.Entry{stays})
		_, err := a.Token("g")
		assert.ErrorIs(t, err, auth.ErrInvalid)
		a.Set([]auth.Entry{stays, goes})
	}
	close(done)
	readers.Wait()
}

// A token of the file, and a JWT that is remembered, cost no allocation.
func TestTokenAllocatesNothing(t *testing.T) {
	token := auth.NewToken()
	a := auth.New(auth.Options{Now: time.Now})
	a.Set([]auth.Entry{entry("a", token, func(e *auth.Entry) { e.Rate, e.Concurrency = 1e6, 10 })})
	header := "Bearer " + token
	n := testing.AllocsPerRun(100, func() {
		p, err := a.Header(header)
		require.True(t, err == nil && p.Enter(time.Now()) == nil, err)
		p.Leave()
	})
	assert.EqualValues(t, 0, n)
}

func BenchmarkHeader(b *testing.B) {
	a := auth.New(auth.Options{Now: time.Now})
	tokens := make([]string, 1000)
	entries := make([]auth.Entry, len(tokens))
	for n := range tokens {
		tokens[n] = auth.NewToken()
		entries[n] = entry(fmt.Sprint("e-", n), tokens[n])
	}
	a.Set(entries)
	header := "Bearer " + tokens[500]
	b.ReportAllocs()
	for b.Loop() {
		_, err := a.Header(header)
		require.NoError(b, err)
	}
}
