package gateway

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
)

// OwnHosts refuses requests to a host that is neither an address, nor localhost, nor that of
// one of the origins. It is for a server that takes every call on the loopback interface: a
// page of another host may have its name point there for a moment, and then the browser takes
// the server for the page's own.
func OwnHosts(origins []string, next http.Handler) http.Handler {
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
		if host := hostOf(r); !isOwn(host) && !named[host] {
			write(w, refuse(http.StatusForbidden, codes.PermissionDenied, "CROSS_ORIGIN", fmt.Sprintf(
				"this server takes every call of this machine, but none for the host %q: call localhost, name its origin in --cors-origins, or give the server --tokens", host)))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostOf is the name of the host that a request is for, without its port.
func hostOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil { // It has no port.
		host = strings.Trim(r.Host, "[]")
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

// isOwn tells whether nobody else can let a name point here. No browser leaves the name out.
func isOwn(host string) bool {
	if host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	_, err := netip.ParseAddr(host)
	return err == nil
}
