package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"go.uber.org/zap"
	"golang.org/x/net/netutil"
	"google.golang.org/grpc/credentials"

	"hindsight/cmd/server/internal/certificates"
	"hindsight/cmd/server/internal/config"
	"hindsight/internal/metrics"
)

// openTLS reads the certificates of the settings. It is nil for a server without TLS.
func openTLS(c config.Config, log *zap.Logger, instruments *metrics.Metrics) (*certificates.Keeper, error) {
	if c.TLSCert == "" {
		return nil, nil
	}
	keeper, err := certificates.Open(certificates.Options{
		Files: certificates.Files{
			Certificate: c.TLSCert, Key: c.TLSKey, ClientCA: c.TLSClientCA, Optional: c.TLSClientAuth == config.ClientOptional,
		},
		Log: log.Named("tls"), Now: time.Now,
	})
	if err != nil {
		return nil, fmt.Errorf("TLS: %w", err)
	}
	err = metrics.Watch(instruments, keeper.Stats)
	if err != nil {
		return nil, fmt.Errorf("instruments of TLS: %w", err)
	}
	return keeper, nil
}

// limited bounds the connections of a listener, and lets the keeper, if there is one, see
// them.
func limited(l net.Listener, keeper *certificates.Keeper) net.Listener {
	l = netutil.LimitListener(l, maxConnections)
	if keeper == nil {
		return l
	}
	return keeper.Listener(l)
}

// grpcCredentials are nil for plaintext.
func grpcCredentials(keeper *certificates.Keeper) credentials.TransportCredentials {
	if keeper == nil {
		return nil
	}
	return credentials.NewTLS(keeper.Config("h2"))
}

// serveHTTP serves until the HTTP server is closed.
func serveHTTP(web *http.Server, l net.Listener, keeper *certificates.Keeper) error {
	serve := web.Serve
	if keeper != nil {
		web.TLSConfig = keeper.Config("h2", "http/1.1")
		serve = func(l net.Listener) error { return web.ServeTLS(l, "", "") }
	}
	if err := serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP: %w", err)
	}
	return nil
}

// warnExposed says in the log what others can do who reach an address of the server.
func warnExposed(log *zap.Logger, c config.Config, addresses ...net.Addr) {
	for _, a := range addresses {
		address, ok := a.(*net.TCPAddr)
		if !ok || address.IP.IsLoopback() {
			continue
		}
		if c.TLSCert == "" {
			log.Warn("the server listens without TLS: who is on the way can read and change every call; see --tls-cert", zap.Stringer("address", a))
		}
		if !knowsClients(c) {
			log.Warn("the server does not know its clients: who reaches the address can do all; see --tokens and --tls-client-ca", zap.Stringer("address", a))
		}
	}
}

// knowsClients says whether a client has to show who it is.
func knowsClients(c config.Config) bool {
	return c.Tokens != "" || (c.TLSClientCA != "" && c.TLSClientAuth == config.ClientRequired)
}

// takesEveryCall tells whether the server trusts the loopback interface alone: a browser of the
// machine reaches it for pages of any host. With tokens a page has none, and with TLS the
// certificate is of another host.
func takesEveryCall(c config.Config, address net.Addr) bool {
	a, ok := address.(*net.TCPAddr)
	return ok && a.IP.IsLoopback() && c.Tokens == "" && c.TLSCert == ""
}

// profiles serves /debug/pprof/. Guard lets in who may see it.
func profiles(mux *http.ServeMux, guard func(http.Handler) http.Handler) {
	for pattern, show := range map[string]http.HandlerFunc{
		"GET /debug/pprof/":        pprof.Index,
		"GET /debug/pprof/cmdline": pprof.Cmdline,
		"GET /debug/pprof/profile": pprof.Profile,
		"GET /debug/pprof/symbol":  pprof.Symbol,
		"POST /debug/pprof/symbol": pprof.Symbol,
		"GET /debug/pprof/trace":   pprof.Trace,
	} {
		mux.Handle(pattern, guard(show))
	}
}
