package gateway

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"hindsight/internal/auth"
)

const (
	loginPath  = "/login"
	logoutPath = "/logout"
	serverPath = "/server.json"
	// The cookie of a session. Under TLS its name has the prefix with which browsers accept
	// it from this host alone, and over TLS alone.
	cookieName   = "hindsight"
	securePrefix = "__Host-"
	// A session ends after this, or with its token.
	sessionLife = 12 * time.Hour
	// The maximum of sessions in all, and of one principal.
	maxSessions     = 10_000
	maxSessionsEach = 32
	maxLogin        = 16 << 10
	idBytes         = 32
)

// errCrossOrigin: a page of another origin used the browser's cookie or certificate.
var errCrossOrigin = crossOrigin("with a cookie or a client certificate, only a page of this server may change something")

type session struct {
	*auth.Principal
	expires, created time.Time
}

// sessions are found by the hash of their id, so that memory holds no id.
type sessions struct {
	mu   sync.Mutex
	byID map[[sha256.Size]byte]session
}

func (s *sessions) add(p *auth.Principal, now time.Time) (id string, expires time.Time, err error) {
	expires = now.Add(sessionLife)
	if end := p.NotAfter(); !end.IsZero() && end.Before(expires) {
		expires = end
	}
	var secret [idBytes]byte
	_, _ = rand.Read(secret[:]) // It fills the bytes, or ends the program.
	id = base64.RawURLEncoding.EncodeToString(secret[:])
	s.mu.Lock()
	defer s.mu.Unlock()
	s.evict(p, now)
	if len(s.byID) >= maxSessions {
		return "", expires, auth.ErrSessions
	}
	s.byID[sha256.Sum256([]byte(id))] = session{p, expires, now}
	return id, expires, nil
}

func (s *sessions) evict(p *auth.Principal, now time.Time) {
	var oldest [sha256.Size]byte
	sessions := 0
	for hash, other := range s.byID {
		switch {
		case !other.valid(now):
			delete(s.byID, hash)
		case other.Name == p.Name && other.Subject == p.Subject:
			if sessions++; sessions == 1 || other.created.Before(s.byID[oldest].created) {
				oldest = hash
			}
		}
	}
	if sessions >= maxSessionsEach {
		delete(s.byID, oldest)
	}
}

func (s *session) valid(now time.Time) bool { return now.Before(s.expires) && s.Valid(now) == nil }

func (s *sessions) find(id string, now time.Time) *auth.Principal {
	hash := sha256.Sum256([]byte(id))
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.byID[hash]
	if !ok {
		return nil
	}
	if !found.valid(now) {
		delete(s.byID, hash)
		return nil
	}
	return found.Principal
}

func (s *sessions) remove(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, sha256.Sum256([]byte(id)))
}

// isSecure reports whether the browser speaks TLS, to this server or to a proxy before it. A
// client that forges X-Forwarded-Proto only changes the flags of its own cookie.
func isSecure(r *http.Request) bool {
	return r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"
}

func cookieOf(r *http.Request) string {
	if isSecure(r) {
		return securePrefix + cookieName
	}
	return cookieName
}

func (g *Guard) session(r *http.Request) *auth.Principal {
	cookie, err := r.Cookie(cookieOf(r))
	if err != nil {
		return nil
	}
	return g.sessions.find(cookie.Value, g.Now())
}

func setCookie(w http.ResponseWriter, r *http.Request, id string, age int) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // It is Secure where the browser speaks TLS; it would be lost where it does not.
		Name: cookieOf(r), Value: id, Path: "/", MaxAge: age,
		HttpOnly: true, Secure: isSecure(r), SameSite: http.SameSiteStrictMode,
	})
}

func isSafe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// sameOrigin fails unless the browser says that a page of this server makes the request.
// --cors-origins does not count: pages of other origins call with a token.
func sameOrigin(r *http.Request) error {
	if r.Header.Get("Origin") == "" && r.Header.Get("Sec-Fetch-Site") == "" {
		return errCrossOrigin
	}
	return notCrossOrigin(r)
}

// notCrossOrigin fails if a browser says that a page of another origin makes the request.
// Other clients say nothing.
func notCrossOrigin(r *http.Request) error {
	if http.NewCrossOriginProtection().Check(r) != nil {
		return errCrossOrigin
	}
	return nil
}

type signedIn struct {
	Name    string    `json:"name"`
	Role    string    `json:"role"`
	Models  []string  `json:"models,omitempty"`
	Expires time.Time `json:"expires,omitzero"`
}

// login answers POST /login with the cookie of a session. The body is {"token": TOKEN}.
func (g *Guard) login(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	p, err := g.tokenOf(w, r)
	if err == nil {
		err = p.Spend(g.Now())
	}
	var id string
	var expires time.Time
	if err == nil {
		id, expires, err = g.sessions.add(p, g.Now())
	}
	if err != nil {
		g.reject(w, r, p, "login", err)
		return
	}
	g.record(r, p, "login", success())
	setCookie(w, r, id, int(expires.Sub(g.Now()).Seconds()))
	writeJSON(w, asJSON(signedIn{p.Name, p.Role.String(), p.Models, expires.UTC().Truncate(time.Second)}))
}

func (g *Guard) tokenOf(w http.ResponseWriter, r *http.Request) (*auth.Principal, error) {
	if err := sameOrigin(r); err != nil {
		return nil, err
	}
	var body struct {
		Token string `json:"token"`
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxLogin))
	// The error does not show the body, which has a token.
	if err != nil || !isContent(r, contentJSON) || json.Unmarshal(data, &body) != nil {
		return nil, invalidJSON(`want {"token": "TOKEN"} as ` + contentJSON)
	}
	return g.Auth.Token(body.Token)
}

func (g *Guard) logout(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if err := sameOrigin(r); err != nil {
		g.reject(w, r, nil, "logout", err)
		return
	}
	if cookie, err := r.Cookie(cookieOf(r)); err == nil {
		if p := g.session(r); p != nil {
			g.record(r, p, "logout", success())
		}
		g.sessions.remove(cookie.Value)
	}
	setCookie(w, r, "", -1)
	writeJSON(w, []byte("{}"))
}

// success is the outcome OK in the audit log.
func success() *failure { return &failure{http.StatusOK, status.New(codes.OK, ""), false} }

// asJSON encodes texts, numbers and times, which are always JSON.
func asJSON(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic("gateway: " + err.Error())
	}
	return text
}
