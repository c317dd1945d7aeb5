package gateway

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/rs/cors"
	"google.golang.org/grpc/codes"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

func crossOrigin(message string) *failure {
	return reject(http.StatusForbidden, codes.PermissionDenied, hindsightv1.ErrorReason_CROSS_ORIGIN, message)
}

// protect lets pages of other origins call only if Origins names them. Otherwise a page of
// another origin can neither read a response nor change a model.
func (g *Gateway) protect(next http.Handler) (http.Handler, error) {
	if slices.Contains(g.Origins, "*") {
		return g.cors(next), nil
	}
	same := http.NewCrossOriginProtection()
	for _, origin := range g.Origins {
		if err := same.AddTrustedOrigin(origin); err != nil {
			return nil, fmt.Errorf("gateway: origin %q: %w", origin, err)
		}
	}
	same.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.write(w, crossOrigin(fmt.Sprintf("a page of origin %q may not call: the server's --cors-origins does not name it", r.Header.Get("Origin"))))
	}))
	return g.cors(same.Handler(next)), nil
}

func (g *Gateway) cors(next http.Handler) http.Handler {
	if len(g.Origins) == 0 {
		return next
	}
	return cors.New(cors.Options{
		AllowedOrigins: g.Origins,
		AllowedMethods: []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete},
		AllowedHeaders: []string{"Content-Type", "Authorization", "Grpc-Timeout", "Traceparent", "Tracestate"},
		ExposedHeaders: []string{"Retry-After", "Content-Disposition", ageHeader},
		MaxAge:         600,
	}).Handler(next)
}

// LocalHosts rejects requests to a host that is neither an address, nor localhost, nor the host of
// one of the origins. It protects a server that accepts every call on the loopback interface
// from DNS rebinding: a page of another host points its name to the loopback interface, and the browser takes
// the server for the page's host. The function rejected receives the reason of a rejection.
func LocalHosts(origins []string, rejected func(reason string), next http.Handler) http.Handler {
	if slices.Contains(origins, "*") {
		return next
	}
	named := map[string]bool{}
	for _, origin := range origins {
		if u, err := url.Parse(origin); err == nil {
			named[strings.ToLower(u.Hostname())] = true
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if host := hostOf(r); !isLocal(host) && !named[host] {
			f := crossOrigin(fmt.Sprintf(
				"this server takes every call of this machine, but none for the host %q: call localhost, name its origin in --cors-origins, or give the server --tokens", host))
			rejected(f.reason())
			write(w, f)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func hostOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil { // It has no port.
		host = strings.Trim(r.Host, "[]")
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

// isLocal reports whether nobody else controls what a host name points to. Browsers always
// send a name.
func isLocal(host string) bool {
	if host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	_, err := netip.ParseAddr(host)
	return err == nil
}
