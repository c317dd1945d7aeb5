package gateway_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/auth"
	"hindsight/internal/gateway"
	"hindsight/internal/rpc"
)

// guarded is a gateway with tokens and a console. The token of a principal is its name.
type guarded struct {
	*host
	auth   *auth.Authenticator
	passed atomic.Int64
	mu     sync.Mutex
	audit  []auth.Record
}

func (g *guarded) now() time.Time { return time.Now().Add(time.Duration(g.passed.Load())) }

func guard(tb testing.TB, entries ...auth.Entry) *guarded {
	tb.Helper()
	g := new(guarded)
	g.auth = auth.New(auth.Options{Now: g.now})
	g.auth.Set(entries)
	record := func(r *auth.Record) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.audit = append(g.audit, *r)
	}
	g.host = serveBehind(tb, func(o *rpc.Options) { o.Auth, o.Audit, o.Now = g.auth, record, time.Now }, func(o *gateway.Options) {
		o.Guard = gateway.NewGuard(gateway.GuardOptions{Auth: g.auth, Audit: record, Status: rpc.StatusOf, Now: g.now})
		o.MemoryLimit = 64 << 20
		o.Console = fstest.MapFS{"index.html": {Data: []byte("page")}, "assets/a.js": {Data: []byte("a")}}
	})
	return g
}

func who(name string, role auth.Role, models ...string) auth.Entry {
	hash := auth.HashOf(name)
	return auth.Entry{Name: name, Role: role, Models: models, Hash: &hash}
}

// roles are those that each route needs: of a page by this table, of a call by its option in
// the proto files, which docs/reference/access.md shows.
func roles(t *testing.T) map[string]auth.Role {
	t.Helper()
	table := map[string]auth.Role{
		"GET /": auth.None, "GET /assets/a.js": auth.None, "GET /server.json": auth.None,
		"GET /openapi.json": auth.Read, "GET /nothing": auth.Read, "GET /v1/nothing": auth.Read,
	}
	for path, item := range load(t).Paths.Map() {
		for method, operation := range item.Operations() {
			name := protoreflect.FullName("hindsight.v1." + operation.Tags[0] + "." + operation.OperationID)
			d := must(protoregistry.GlobalFiles.FindDescriptorByName(name))(t)
			option, ok := proto.GetExtension(d.Options(), hindsightv1.E_Access).(*hindsightv1.Access)
			assert.True(t, ok && option.GetRole() != hindsightv1.Access_ROLE_UNSPECIFIED, "%s has no role", name)
			table[method+" "+path] = auth.Role(option.GetRole())
		}
	}
	return table
}

// route is a request of a route that names the model m-1 wherever it can.
func (g *guarded) route(tb testing.TB, route string, headers ...string) *http.Request {
	tb.Helper()
	method, path, _ := strings.Cut(route, " ")
	for _, parameter := range []string{"{model}", "{alias}"} {
		path = strings.ReplaceAll(path, parameter, "m-1")
	}
	body := ""
	switch {
	case strings.HasSuffix(path, ":import"):
		path += "?id=m-1"
		headers = append(headers, "Content-Type", "application/octet-stream")
	case path == "/v1/models" && method == http.MethodPost:
		body = `{"id": "m-1"}`
	case method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch:
		body = "{}"
	}
	return g.request(tb, method, path, body, headers...)
}

// Every route of the document and every page, by everyone.
func TestEveryRouteByEveryRole(t *testing.T) {
	expired := who("expired", auth.Admin)
	expired.NotAfter = time.Now().Add(-time.Hour)
	stay := []auth.Entry{
		who("read", auth.Read), who("write", auth.Write), who("admin", auth.Admin), who("scoped", auth.Admin, "m"), who("elsewhere", auth.Admin, "o-"), expired,
	}
	g := guard(t, append(stay, who("revoked", auth.Admin))...)
	g.auth.Set(stay)
	table := roles(t)
	known := map[string]auth.Role{"read": auth.Read, "write": auth.Write, "admin": auth.Admin, "scoped": auth.Admin, "elsewhere": auth.Admin}
	for _, route := range slices.Sorted(maps.Keys(table)) {
		need := table[route]
		names := strings.Contains(route, "{") || route == "POST /v1/models" || strings.HasSuffix(route, ":import")
		aboutAll := need == auth.Admin && (strings.Contains(route, "/v1/cluster") || strings.Contains(route, "/v1/servers"))
		for _, caller := range []string{"", "expired", "revoked", "malformed token", "read", "write", "admin", "scoped", "elsewhere"} {
			headers := []string{"Authorization", "Bearer " + caller}
			if caller == "" {
				headers = nil
			}
			a := g.do(t, g.route(t, route, headers...))
			role, ok := known[caller]
			want := "let through"
			switch {
			case need == auth.None:
			case !ok:
				want = "401"
			case role < need, caller == "elsewhere" && names, aboutAll && (caller == "elsewhere" || caller == "scoped"):
				want = "403"
			}
			got := "let through"
			switch a.status {
			case http.StatusUnauthorized:
				got = "401"
				assert.True(t, a.header.Get("WWW-Authenticate") == "Bearer" && a.at("error", "status") == "UNAUTHENTICATED", "%s by %q: %v %s", route, caller, a.header, a.body)
			case http.StatusForbidden:
				got = "403"
				assert.True(t, a.at("error", "status") == "PERMISSION_DENIED", "%s by %q: %s", route, caller, a.body)
			}
			assert.True(t, got == want, "%s by %q: %d %s, want %s", route, caller, a.status, a.body, want)
		}
	}
}

// login signs a principal in, and answers the header of the cookie.
func (g *guarded) login(tb testing.TB, token string, headers ...string) (cookie *http.Cookie, a *answer) {
	tb.Helper()
	a = g.call(tb, http.MethodPost, "/login", `{"token": "`+token+`"}`, append([]string{"Origin", g.url}, headers...)...)
	for _, c := range (&http.Response{Header: a.header}).Cookies() {
		cookie = c
	}
	return cookie, a
}

func TestSessions(t *testing.T) {
	g := guard(t, who("admin", auth.Admin), who("read", auth.Read, "m"))
	if a := g.want(t, http.MethodGet, "/server.json", ""); a.at("tokens") != true || a.at("signedIn") != nil {
		t.Errorf("%s", a.body)
	}
	if cookie, a := g.login(t, "unknown"); a.status != http.StatusUnauthorized || cookie != nil {
		t.Errorf("a wrong token: %d %s", a.status, a.body)
	}
	for _, body := range []string{"", "x", `{"token": 1}`, `{"token": "admin"}` + strings.Repeat(" ", 20_000)} {
		a := g.call(t, http.MethodPost, "/login", body, "Origin", g.url, "Content-Type", "application/json")
		assert.True(t, a.status != http.StatusOK && !strings.Contains(string(a.body), "admin"), "%.40q: %d %s", body, a.status, a.body)
	}
	cookie, a := g.login(t, "read")
	require.True(t, a.status == http.StatusOK && a.at("name") == "read" && a.at("role") == "read" && a.at("models", 0) == "m", "%d %s", a.status, a.body)
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Secure || cookie.Path != "/" || cookie.Name != "hindsight" || cookie.MaxAge < 43_000 || len(cookie.Value) != 43 {
		t.Errorf("%+v", cookie)
	}
	// Behind a proxy that speaks TLS.
	secure, _ := g.login(t, "read", "X-Forwarded-Proto", "https", "Origin", strings.Replace(g.url, "http:", "https:", 1))
	assert.True(t, secure != nil && secure.Secure && secure.Name == "__Host-hindsight", "%+v", secure)
	header := cookie.Name + "=" + cookie.Value
	a = g.call(t, http.MethodGet, "/v1/models", "", "Cookie", header, "X-Forwarded-Proto", "https")
	assert.Equal(t, http.StatusUnauthorized, a.status, "a cookie without the prefix under TLS")
	a = g.want(t, http.MethodGet, "/server.json", "", "Cookie", header)
	assert.True(t, a.at("signedIn", "name") == "read", a.body)
	a = g.want(t, http.MethodGet, "/v1/models", "", "Cookie", header)
	assert.Equal(t, "no-store", a.header.Get("Cache-Control"), a.header)
	a = g.call(t, http.MethodGet, "/v1/models/x", "", "Cookie", header)
	assert.Equal(t, http.StatusForbidden, a.status, "another model")
	// A token counts more than the cookie.
	a = g.call(t, http.MethodGet, "/v1/models", "", "Cookie", header, "Authorization", "Bearer x")
	assert.Equal(t, http.StatusUnauthorized, a.status, "a wrong token with a good cookie")
	// It ends by logout, by the revocation of its token, and by time.
	a = g.call(t, http.MethodPost, "/logout", "", "Cookie", header, "Origin", g.url)
	assert.True(t, a.status == http.StatusOK && strings.Contains(a.header.Get("Set-Cookie"), "Max-Age=0"), "%d %v", a.status, a.header)
	ended := func(why string, cookie *http.Cookie) {
		t.Helper()
		assert.EqualValues(t, http.StatusUnauthorized, g.call(t, http.MethodGet, "/v1/models", "", "Cookie", cookie.Name+"="+cookie.Value).status, why)
	}
	ended("logout", cookie)
	revoked, _ := g.login(t, "read")
	old, _ := g.login(t, "admin")
	g.auth.Set([]auth.Entry{who("admin", auth.Admin)})
	ended("revoked", revoked)
	g.passed.Store(int64(12*time.Hour) + 1)
	ended("after 12 hours", old)
	for range gateway.MaxSessionsEach {
		old, _ = g.login(t, "admin")
	}
	g.want(t, http.MethodGet, "/v1/models", "", "Cookie", old.Name+"="+old.Value)
	for range gateway.MaxSessionsEach {
		g.login(t, "admin")
	}
	ended("too many others", old)
}

// With a cookie, no other origin changes anything, whatever may be trusted with a token.
func TestCrossSiteRequests(t *testing.T) {
	g := guard(t, who("admin", auth.Admin))
	cookie, _ := g.login(t, "admin")
	header := cookie.Name + "=" + cookie.Value
	create := func(headers ...string) int {
		t.Helper()
		return g.call(t, http.MethodPost, "/v1/models", linear("m"), append([]string{"Cookie", header}, headers...)...).status
	}
	for name, c := range map[string]struct {
		headers []string
		want    int
	}{
		"the same origin":    {[]string{"Origin", g.url}, http.StatusOK},
		"the browser's word": {[]string{"Sec-Fetch-Site", "same-origin"}, http.StatusOK},
		"another origin":     {[]string{"Origin", "https://evil.example"}, http.StatusForbidden},
		"another site":       {[]string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		"a sibling":          {[]string{"Sec-Fetch-Site", "same-site"}, http.StatusForbidden},
		"no word":            {nil, http.StatusForbidden},
		"a null origin":      {[]string{"Origin", "null"}, http.StatusForbidden},
	} {
		assert.Equal(t, c.want, create(c.headers...), name)
	}
	for _, path := range []string{"/login", "/logout"} {
		for _, headers := range [][]string{nil, {"Origin", "https://evil.example"}} {
			a := g.call(t, http.MethodPost, path, `{"token": "admin"}`, headers...)
			assert.True(t, a.status == http.StatusForbidden, "%s from %v: %d", path, headers, a.status)
		}
		a := g.call(t, http.MethodGet, path, "")
		assert.True(t, a.status == http.StatusMethodNotAllowed && a.header.Get("Allow") == "POST", "GET %s: %d", path, a.status)
	}
}

// Sessions and rejections are in the audit log, without a token.
func TestAuditOfRequests(t *testing.T) {
	g := guard(t, who("admin", auth.Admin), who("read", auth.Read))
	cookie, _ := g.login(t, "admin")
	g.login(t, "wrong")
	header := cookie.Name + "=" + cookie.Value
	g.call(t, http.MethodPost, "/v1/models", linear("m"), "Cookie", header, "Origin", g.url)
	g.call(t, http.MethodPost, "/v1/models", linear("m"), "Cookie", header, "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site")
	g.call(t, http.MethodGet, "/openapi.json", "", "Authorization", "Bearer wrong")
	g.call(t, http.MethodPost, "/logout", "", "Cookie", header, "Origin", g.url)
	g.mu.Lock()
	defer g.mu.Unlock()
	var got []string
	for _, r := range g.audit {
		name := ""
		if r.Who != nil {
			name = r.Who.Name
		}
		assert.True(t, strings.HasPrefix(r.Peer, "127.0.0.1:"), "%+v", r)
		got = append(got, strings.Join([]string{name, r.Call, r.Outcome, r.Reason}, " "))
	}
	want := []string{
		"admin login OK ", " login UNAUTHENTICATED TOKEN_INVALID", "admin /hindsight.v1.ModelService/CreateModel OK ",
		" GET /openapi.json UNAUTHENTICATED TOKEN_INVALID", "admin logout OK ",
	}
	assert.Equal(t, want, got)
}

// What changes something at a page of operators is in the audit log, with and without tokens.
func TestAuditOfPages(t *testing.T) {
	a := auth.New(auth.Options{Now: time.Now})
	a.Set([]auth.Entry{who("admin", auth.Admin)})
	for name, authenticator := range map[string]*auth.Authenticator{"admin": a, "": nil} {
		var got []string
		guard := gateway.NewGuard(gateway.GuardOptions{Auth: authenticator, Status: rpc.StatusOf, Now: time.Now, Audit: func(r *auth.Record) {
			who := ""
			if r.Who != nil {
				who = r.Who.Name
			}
			got = append(got, who+" "+r.Call+" "+r.Outcome)
		}})
		page := guard.Require(auth.Admin, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ContentLength == 0 {
				http.Error(w, "no body", http.StatusBadRequest)
			}
		}))
		for _, r := range []*http.Request{
			httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/debug/loglevel", http.NoBody),
			httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/debug/loglevel", strings.NewReader("level=debug")),
			httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/debug/loglevel", http.NoBody),
		} {
			r.Header.Set("Authorization", "Bearer admin")
			page.ServeHTTP(httptest.NewRecorder(), r)
		}
		want := []string{name + " PUT /debug/loglevel OK", name + " PUT /debug/loglevel INVALID_ARGUMENT"}
		assert.Equal(t, want, got)
	}
}

// The pages that run scripts take them from this server alone, and none within the page.
func TestPolicyOfTheConsole(t *testing.T) {
	g := guard(t)
	policy := g.want(t, http.MethodGet, "/", "").header.Get("Content-Security-Policy")
	assert.True(t, strings.HasPrefix(policy, "default-src 'self';") && !strings.Contains(policy, "unsafe") && strings.Contains(policy, "frame-ancestors 'none'"), policy)
}

// A limit is checked for pages as they are for calls.
func TestLimitsOfPages(t *testing.T) {
	limited := who("limited", auth.Read)
	limited.Rate = 0.001 // No second call within 1,000 s.
	g := guard(t, limited)
	g.want(t, http.MethodGet, "/openapi.json", "", "Authorization", "Bearer limited")
	a := g.call(t, http.MethodGet, "/openapi.json", "", "Authorization", "Bearer limited")
	wait, err := strconv.Atoi(a.header.Get("Retry-After"))
	assert.True(t, err == nil && wait > 0 && wait <= 1000 && a.status == http.StatusTooManyRequests && a.at("error", "details", 0, "reason") == "RATE_LIMIT", "%d %v %s", a.status, a.header, a.body)
}

// A body that does not come holds a place of its caller, and no room of others.
func TestBodiesThatDoNotCome(t *testing.T) {
	slow := who("slow", auth.Admin)
	slow.Concurrency = 2
	g := guard(t, slow, who("other", auth.Admin))
	begin := func() (answer *bufio.Reader) {
		t.Helper()
		connection := g.dial(t)
		must(fmt.Fprintf(connection, "POST /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer slow\r\n"+
			"Expect: 100-continue\r\nContent-Type: application/json\r\nContent-Length: 1048576\r\n\r\n"))(t)
		return bufio.NewReader(connection)
	}
	// The server asks for the body when it begins to read it, or rejects the request.
	for n, want := range []string{"HTTP/1.1 100 Continue\r\n", "HTTP/1.1 100 Continue\r\n", "HTTP/1.1 429 Too Many Requests\r\n"} {
		line, err := begin().ReadString('\n')
		assert.True(t, err == nil && line == want, "request %d: %q, %v", n, line, err)
	}
	a := g.call(t, http.MethodPost, "/v1/models", linear("m"), "Authorization", "Bearer other")
	assert.EqualValues(t, http.StatusOK, a.status, a.body)
}

// A client certificate that was verified is a principal over HTTP.
func TestCertificatesOverHTTP(t *testing.T) {
	a := auth.New(auth.Options{Now: time.Now})
	a.Set([]auth.Entry{{Name: "scraper", Role: auth.Read, Certificate: "scraper"}, {Name: "team", Role: auth.Admin, Models: []string{"t"}, Certificate: "team"}})
	rejected := map[string]int{}
	guard := gateway.NewGuard(gateway.GuardOptions{Auth: a, Status: rpc.StatusOf, Now: time.Now, Rejected: func(reason string) { rejected[reason]++ }})
	page := guard.Require(auth.Read, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	for name, c := range map[string]struct {
		common   string
		verified bool
		want     int
	}{
		"verified": {"scraper", true, http.StatusNoContent}, "not verified": {"scraper", false, http.StatusUnauthorized},
		"not named": {"evil", true, http.StatusUnauthorized}, "of some models": {"team", true, http.StatusForbidden},
	} {
		certificate := &x509.Certificate{Subject: pkix.Name{CommonName: c.common}}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody)
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{certificate}}
		if c.verified {
			r.TLS.VerifiedChains = [][]*x509.Certificate{{certificate}}
		}
		w := httptest.NewRecorder()
		page.ServeHTTP(w, r)
		assert.Equal(t, c.want, w.Code, "%v %v", name, w.Body)
	}
	certificate := &x509.Certificate{Subject: pkix.Name{CommonName: "scraper"}}
	for origin, want := range map[string]int{"": http.StatusNoContent, "https://example.com": http.StatusNoContent, "https://evil.example": http.StatusForbidden} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "https://example.com/debug/loglevel", http.NoBody)
		r.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{certificate}}}
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		w := httptest.NewRecorder()
		page.ServeHTTP(w, r)
		assert.Equal(t, want, w.Code, "a page of %q whose browser has a certificate", origin)
	}
	assert.Equal(t, map[string]int{"TOKEN_MISSING": 1, "CERTIFICATE_UNKNOWN": 1, "MODEL_OUT_OF_SCOPE": 1, "CROSS_ORIGIN": 1}, rejected)
	var none *gateway.Guard
	w := httptest.NewRecorder()
	none.Require(auth.Admin, page).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody))
	assert.EqualValues(t, http.StatusUnauthorized, w.Code)
}
