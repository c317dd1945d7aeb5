package auth_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net/url"
	"reflect"
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

const (
	digits = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	secret = "hs_0123456789012345678901234567890123456789012"
)

func TestParse(t *testing.T) {
	entries, err := auth.Parse([]byte(`# the team's
- name: ci
  role: write
  models: [team-a-, b]   # two
  sha256: ` + digits + `
  not-after: 2027-01-31T00:00:00Z
  rate: 2.5
  concurrency: 8

- {name: scraper, role: read, certificate: "Prometheus of Ops", models: one}
- name: 'people'
  role: admin
  claim: groups=ml team
`))
	require.NoError(t, err)
	ci, scraper, people := entries[0], entries[1], entries[2]
	if ci.Name != "ci" || ci.Role != auth.Write || !reflect.DeepEqual(ci.Models, []string{"team-a-", "b"}) || ci.Hash == nil || ci.Hash[1] != 0x23 ||
		!ci.NotAfter.Equal(time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC)) || ci.Rate != 2.5 || ci.Concurrency != 8 {
		t.Errorf("ci: %+v", ci)
	}
	assert.True(t, scraper.Role == auth.Read && scraper.Certificate == "Prometheus of Ops" && reflect.DeepEqual(scraper.Models, []string{"one"}), "scraper: %+v", scraper)
	assert.True(t, people.Role == auth.Admin && people.Claim == "groups" && people.Value == "ml team" && people.Models == nil, "people: %+v", people)
	for _, empty := range []string{"", "# nobody\n", "~\n", "[]\n"} {
		entries, err := auth.Parse([]byte(empty))
		assert.True(t, err == nil && len(entries) == 0, "%q: %v, %v", empty, entries, err)
	}
}

func TestParseRejects(t *testing.T) {
	good := "- name: a\n  role: read\n  sha256: " + digits + "\n"
	for _, c := range []struct{ file, want string }{
		{"name: a\n", `line 1: want a list of entries`},
		{"- a\n", `line 1: want an entry of fields`},
		{good + "---\n[]\n", `line 4: got a second document, want one`},
		{"- name: a\n  rôle: read\n", `line 2: field rôle: it is not known, want certificate, claim, concurrency, models, name, not-after, rate, role, sha256`},
		{"- name: a\n  name: b\n", `line 2: field name: got it twice, want it once`},
		{"- name: [a]\n", `line 1: field name: want one value`},
		{"- name: &x a\n  role: *x\n", `line 2: field role: want one value`},
		{"- name:\n", `line 1: field name: want one value`},
		{"- name: a b\n", `line 1: field name: got "a b", want 1 to 253 printable characters without spaces`},
		{"- name: a\n  role: root\n", `line 2: field role: got "root", want admin, write or read`},
		{"- name: a\n  role: none\n", `line 2: field role: got "none", want admin, write or read`},
		{"- name: a\n  models: []\n", `line 2: field models: got a list, want a list of beginnings of ids`},
		{"- name: a\n  models: [team/]\n", `line 2: field models: got a list, want`},
		{"- name: a\n  models: -x\n", `line 2: field models: got "-x", want`},
		{"- name: a\n  models: [x, x]\n", `line 2: field models: got a list, want`},
		{"- name: a\n  models: [[x]]\n", `line 2: field models: got a list, want`},
		{"- name: a\n  sha256: abc\n", `line 2: field sha256: got 3 characters, want 64 hexadecimal digits`},
		{"- name: a\n  sha256: " + secret + "\n", `line 2: field sha256: got 46 characters, want`},
		{"- name: a\n  not-after: tomorrow\n", `line 2: field not-after: got "tomorrow", want a time such as`},
		{"- name: a\n  rate: 0\n", `line 2: field rate: got "0", want calls a second, from 0.001`},
		{"- name: a\n  rate: NaN\n", `line 2: field rate: got "NaN", want`},
		{"- name: a\n  concurrency: 0.5\n", `line 2: field concurrency: got "0.5", want calls at once, from 1`},
		{"- name: a\n  claim: groups\n", `line 2: field claim: got "groups", want CLAIM=VALUE`},
		{"- name: a\n  certificate: ' a'\n", `line 2: field certificate: got " a", want the name in the certificate`},
		{"- role: read\n  sha256: " + digits + "\n", `line 1: field name: got nothing, want it in every entry`},
		{"- name: a\n  sha256: " + digits + "\n", `line 1: field role: got nothing, want it in every entry`},
		{"- name: a\n  role: read\n", `line 1: entry a: got 0 of sha256, certificate and claim, want one`},
		{good + "  certificate: b\n", `line 1: entry a: got 2 of sha256, certificate and claim, want one`},
		{good + strings.Replace(good, digits, digits[1:]+"0", 1), `line 4: field name: got "a", which line 1 has, want another`},
		{good + strings.Replace(good, "name: a", "name: b", 1), `line 4: entry b: it lets in what the entry of line 1 lets in`},
		// A secret in a wrong place is not shown.
		{"- name: a\n  role: " + secret + "\n", `line 2: field role: got 46 characters, want`},
		{"- name: a\n  " + secret + ": x\n", `line 2: want the fields certificate`},
		{"- '" + secret + "\n", "yaml: line 2: found unexpected end of stream"},
		{strings.Repeat("#", auth.MaxFile+1), `got 4194305 bytes, want at most 4194304`},
	} {
		_, err := auth.Parse([]byte(c.file))
		assert.True(t, err != nil && strings.HasPrefix(err.Error(), c.want) && !strings.Contains(err.Error(), "hs_"), "%.200q: %v, want %s", c.file, err, c.want)
	}
}

// Adding leaves all else of the file as it is.
func TestAdd(t *testing.T) {
	file := []byte("# head\n- name: a   # first\n  role: read\n  sha256: " + digits + "\n\n# about b\n- name: b\n  role: read\n  certificate: b\n# tail")
	hash := auth.HashOf(secret)
	added, err := auth.Add(file, &auth.Entry{
		Name: "it's-c", Role: auth.Admin, Models: []string{"m-", "null"}, Hash: &hash,
		NotAfter: time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC), Rate: 0.5, Concurrency: 3,
	})
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(string(added), string(file)+"\n- name: it's-c\n") && !strings.Contains(string(added), secret), "added:\n%s", added)
	entries, err := auth.Parse(added)
	require.NoError(t, err)
	c := entries[2]
	assert.True(t, c.Name == "it's-c" && *c.Hash == hash && c.Models[1] == "null" && c.Rate == 0.5 && c.Concurrency == 3 && c.NotAfter.Second() == 5, "%+v", c)
	_, err = auth.Add(added, &c)
	assert.True(t, err != nil && strings.Contains(err.Error(), "want another"), "twice: %v", err)
	for _, flow := range []string{"[{name: a, role: read, certificate: x}]\n", "[{name: a, role: read, certificate: x}, {name: b, role: read, certificate: y}]\n"} {
		out, err := auth.Add([]byte(flow), &c)
		assert.Error(t, err, "an entry behind a list in brackets: %s", out)
	}
}

// FuzzParse looks for a file that makes Parse panic, speak more than a line, or take
// what Add then breaks.
func FuzzParse(f *testing.F) {
	f.Add("- name: a\n  role: read\n  sha256: "+digits+"\n", "a")
	f.Add("- {name: a, role: write, certificate: b, models: [x, y-]}\n# end", "a")
	f.Add("- name: a\n  role: admin\n  claim: a.b=c\n  rate: 1e3\n  not-after: 2027-01-31T00:00:00Z\n", "z")
	f.Add("- &a [*a]\n", "")
	f.Add("- <<: {name: a}\n", "a")
	f.Add("-\n  name: 'a'\n\n\n", "a")
	f.Fuzz(func(t *testing.T, file, name string) {
		entries, err := auth.Parse([]byte(file))
		if err != nil {
			assert.False(t, strings.ContainsAny(err.Error(), "\r\n"), "more than one line: %q", err)
			return
		}
		hash := auth.HashOf(name)
		if added, err := auth.Add([]byte(file), &auth.Entry{Name: "added", Role: auth.Read, Hash: &hash}); err == nil {
			same(t, added, append(entries[:len(entries):len(entries)], auth.Entry{Name: "added", Role: auth.Read, Hash: &hash}))
		}
	})
}

// same fails unless a file has these entries.
func same(t *testing.T, file []byte, want []auth.Entry) {
	t.Helper()
	got, err := auth.Parse(file)
	require.NoError(t, err, file)
	require.Equal(t, len(want), len(got), file)
	for n := range got {
		assert.Equal(t, want[n].Text(), got[n].Text(), "%v %v", n, file)
	}
}
