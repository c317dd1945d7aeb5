package main

import (
	"errors"
	"fmt"
	"net"
	"time"

	"go.uber.org/zap"
	"golang.org/x/net/netutil"
	"google.golang.org/grpc/credentials"

	"hindsight/cmd/server/internal/access"
	"hindsight/cmd/server/internal/certificates"
	"hindsight/cmd/server/internal/config"
	"hindsight/internal/gateway"
	"hindsight/internal/metrics"
	"hindsight/internal/rpc"
)

func (s *server) openTLS() (err error) {
	c := s.config
	if c.TLSCert == "" {
		return nil
	}
	s.keeper, err = certificates.Open(certificates.Options{
		Files: certificates.Files{
			Certificate: c.TLSCert, Key: c.TLSKey, ClientCA: c.TLSClientCA, Optional: c.TLSClientAuth == config.ClientOptional,
		},
		Log: s.log.Named("tls"), Now: time.Now,
	})
	if err != nil {
		return fmt.Errorf("TLS: %w", err)
	}
	if err := watchTLS(s.instruments, s.keeper.Stats); err != nil {
		return fmt.Errorf("instruments of TLS: %w", err)
	}
	return nil
}

func (s *server) credentials() credentials.TransportCredentials {
	if s.keeper == nil {
		return nil
	}
	return credentials.NewTLS(s.keeper.Config("h2"))
}

const maxConnections = 16_384

// limited bounds the connections of a listener, and shows them to the keeper, unless nil.
func limited(l net.Listener, keeper *certificates.Keeper) net.Listener {
	l = netutil.LimitListener(l, maxConnections)
	if keeper == nil {
		return l
	}
	return keeper.Listener(l)
}

func warnExposed(log *zap.Logger, c config.Config, addresses ...net.Addr) {
	for _, a := range addresses {
		address, ok := a.(*net.TCPAddr)
		if !ok || address.IP.IsLoopback() {
			continue
		}
		if c.TLSCert == "" {
			log.Warn("the server listens without TLS: everybody on the network path can read and change every call; see --tls-cert", zap.Stringer("address", a))
		}
		if !knowsClients(c) {
			log.Warn("the server does not authenticate its clients: everybody who reaches the address can call everything; see --tokens and --tls-client-ca", zap.Stringer("address", a))
		}
	}
}

func knowsClients(c config.Config) bool {
	return c.Tokens != "" || (c.TLSClientCA != "" && c.TLSClientAuth == config.ClientRequired)
}

// takesEveryCall reports whether only the loopback interface protects the server. A browser on
// the machine then lets pages of any host call it. Pages have no token, and with TLS they do not
// have the host of the certificate.
func takesEveryCall(c config.Config, address net.Addr) bool {
	a, ok := address.(*net.TCPAddr)
	return ok && a.IP.IsLoopback() && c.Tokens == "" && c.TLSCert == ""
}

// openAccess reads who may call. The guard checks HTTP requests, and is nil if it has nothing to do.
func openAccess(c config.Config, log *zap.Logger, instruments *metrics.Metrics, rejected func(reason string)) (*access.Access, *gateway.Guard, error) {
	a, err := access.Open(access.Options{
		Tokens: c.Tokens, JWTKeys: c.JWTKeys, JWTIssuer: c.JWTIssuer, JWTAudience: c.JWTAudience,
		AuditLog: c.AuditLog, Log: log.Named("access"), Now: time.Now,
	})
	if err != nil {
		return nil, nil, err
	}
	if err := watchAccess(instruments, a.Stats); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("instruments of access: %w", err), a.Close())
	}
	if a.Auth == nil && a.Audit() == nil {
		return a, nil, nil
	}
	return a, gateway.NewGuard(gateway.GuardOptions{Auth: a.Auth, Audit: a.Audit(), Rejected: rejected, Status: rpc.StatusOf, Now: time.Now}), nil
}
