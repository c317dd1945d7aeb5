// Package certificates keeps the server's certificate and key and the authorities of its
// clients. It takes changed files without a restart: a handshake has what the files held
// last, and a connection ends when its client's certificate is no longer good.
//
// The files are read once a second and compared, which costs some microseconds. It sees
// every way of replacing a file, such as the links that Kubernetes exchanges. It needs no
// library: the pemfile provider of gRPC writes private keys into its log, does not tell
// what failed, and leaves connections open whose certificates were revoked.
package certificates

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// interval is how often the files are read.
const interval = time.Second

// Files names the files. All are in PEM.
type Files struct {
	// Certificate is the server's certificate, with those between it and its authority.
	Certificate, Key string
	// ClientCA has the authorities of clients; "" asks clients for no certificate.
	ClientCA string
	// Optional says that a client may come without a certificate.
	Optional bool
}

// Options of a keeper. Every field is required.
type Options struct {
	Files
	Log *zap.Logger
	Now func() time.Time
}

// Stats counts since the start.
type Stats struct {
	Reloads           uint64    `metric:"hindsight_tls_reloads_total" help:"Changes of the certificate files that were taken."`
	ReloadFailures    uint64    `metric:"hindsight_tls_reload_failures_total" help:"Changes of the certificate files that could not be used; those before stay."`
	HandshakeFailures uint64    `metric:"hindsight_tls_handshake_failures_total" help:"Connections that ended before their TLS handshake was done."`
	Closed            uint64    `metric:"hindsight_tls_connections_closed_total" help:"Connections that were closed because their client's certificate had expired or lost its authority."`
	Expires           time.Time `metric:"hindsight_tls_certificate_expiry_timestamp_seconds" help:"When the server's TLS certificate expires; absent without TLS."`
}

// Keeper is safe for concurrent use, but for Run, which is called once.
type Keeper struct {
	o       Options
	current atomic.Pointer[material]
	// seen is what was read last, taken what was tried last. Run has them.
	seen, taken content

	reloads, reloadFailures, handshakeFailures, closed atomic.Uint64

	mu struct {
		sync.Mutex
		// clients are the connections with a certificate of the client, and soonest is
		// when the first of their certificates expires, if there is one.
		clients map[*connection]struct{}
		soonest time.Time
	}
}

// Open reads the files.
func Open(o Options) (*Keeper, error) {
	k := &Keeper{o: o}
	k.mu.clients = map[*connection]struct{}{}
	k.seen = o.read()
	k.taken = k.seen
	m, err := o.parse(k.taken)
	if err != nil {
		return nil, err
	}
	if err := m.invalidAt(o.Now()); err != nil {
		// The clock may be wrong: the server of another time is better than none.
		o.Log.Error("clients will refuse the server's certificate", zap.Error(err))
	}
	k.take(m)
	return k, nil
}

// Run takes changed files until the context ends.
func (k *Keeper) Run(ctx context.Context) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			k.look()
		}
	}
}

// look reads the files. It takes what they hold when they were the same one interval
// before: until then somebody may be writing them, one after the other.
func (k *Keeper) look() {
	changed := false
	switch now := k.o.read(); now {
	case k.seen:
		if now != k.taken {
			k.taken = now
			changed = k.reload()
		}
	default:
		k.seen = now
	}
	k.sweep(changed)
}

// reload tells whether the files were taken. What cannot be used leaves what there is.
func (k *Keeper) reload() bool {
	m, err := k.o.parse(k.taken)
	if err == nil {
		if bad := m.invalidAt(k.o.Now()); bad != nil && k.current.Load().invalidAt(k.o.Now()) == nil {
			err = bad
		}
	}
	if err != nil {
		k.reloadFailures.Add(1)
		k.o.Log.Error("the changed certificate files cannot be used; the server goes on with those from before", zap.Error(err))
		return false
	}
	k.take(m)
	k.reloads.Add(1)
	return true
}

func (k *Keeper) take(m *material) {
	k.current.Store(m)
	leaf := m.certificate.Leaf
	k.o.Log.Info("certificate",
		zap.Stringer("subject", leaf.Subject), zap.Strings("dns_names", leaf.DNSNames), zap.Stringers("addresses", leaf.IPAddresses),
		zap.Stringer("serial", leaf.SerialNumber), zap.Time("not_after", leaf.NotAfter), zap.Bool("client_ca", m.clients != nil))
}

// Config is for a listener of the keeper. The protocols are those of ALPN, the preferred
// one first.
func (k *Keeper) Config(protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: protocols,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			c, ok := hello.Conn.(*connection)
			if !ok {
				return nil, errors.New("certificates: the connection is not of Keeper.Listener")
			}
			m := k.current.Load()
			return &tls.Config{
				MinVersion: tls.VersionTLS12, NextProtos: protocols, Time: k.o.Now,
				Certificates: []tls.Certificate{m.certificate},
				ClientCAs:    m.clients, ClientAuth: k.clientAuth(m),
				// A ticket would let a client in without its certificate being verified.
				SessionTicketsDisabled: m.clients != nil,
				VerifyConnection:       func(s tls.ConnectionState) error { return k.enter(c, m, s) },
			}, nil
		},
	}
}

func (k *Keeper) clientAuth(m *material) tls.ClientAuthType {
	switch {
	case m.clients == nil:
		return tls.NoClientCert
	case k.o.Optional:
		return tls.VerifyClientCertIfGiven
	}
	return tls.RequireAndVerifyClientCert
}

// Stats costs O(1).
func (k *Keeper) Stats() Stats {
	return Stats{
		Reloads: k.reloads.Load(), ReloadFailures: k.reloadFailures.Load(), HandshakeFailures: k.handshakeFailures.Load(),
		Closed: k.closed.Load(), Expires: k.current.Load().certificate.Leaf.NotAfter,
	}
}

// verify verifies a client's certificate, which comes with those between it and its
// authority.
func (m *material) verify(chain []*x509.Certificate, now time.Time) ([][]*x509.Certificate, error) {
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	return chain[0].Verify(x509.VerifyOptions{
		Roots: m.clients, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}
