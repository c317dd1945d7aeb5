// Package certificates has the server's TLS certificate and key and the CAs of its
// clients. It applies changed files without a restart: a handshake uses the newest files, and a
// connection closes when the TLS certificate of its client becomes invalid.
//
// A keeper reads and compares the files once a second, which costs some microseconds and
// notices every way of replacing a file, such as the links of Kubernetes. The pemfile
// provider of gRPC would log private keys, hide errors, and leave connections with revoked
// certificates open.
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

// interval is the time between two readings of the files.
const interval = time.Second

// Files names the files. All are in PEM.
type Files struct {
	// Certificate is the server's certificate, with the intermediate certificates.
	Certificate, Key string
	// ClientCA has the CAs of clients; "" requests no certificate of clients.
	ClientCA string
	// Optional lets clients connect without a certificate.
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
	ReloadFailures uint64
	Expires        time.Time
}

// Keeper is safe for concurrent use, but for Run, which is called once.
type Keeper struct {
	o       Options
	current atomic.Pointer[material]
	// seen is the content read last, taken the content parsed last. Only Run uses them.
	seen, taken content

	reloadFailures atomic.Uint64

	mu struct {
		sync.Mutex
		// clients are the connections with a certificate of the client. soonest is the
		// earliest expiry of these certificates.
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
		// The clock may be wrong, so the server starts.
		o.Log.Error("clients will reject the server's certificate", zap.Error(err))
	}
	k.take(m)
	return k, nil
}

// Run applies changed files until the context ends.
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

// look reads the files. It applies a content that was the same one interval before, because
// somebody may be writing the files one after the other.
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

// reload applies the content of the files, and reports whether it could. Unusable files change
// nothing.
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
	return true
}

func (k *Keeper) take(m *material) {
	k.current.Store(m)
	leaf := m.certificate.Leaf
	k.o.Log.Info("certificate",
		zap.Stringer("subject", leaf.Subject), zap.Strings("dns_names", leaf.DNSNames), zap.Stringers("addresses", leaf.IPAddresses),
		zap.Stringer("serial", leaf.SerialNumber), zap.Time("not_after", leaf.NotAfter), zap.Bool("client_ca", m.clients != nil))
}

// Config returns the configuration for a listener of the keeper. The protocols are the protocols of
// ALPN, the preferred one first.
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
				// A ticket would admit a client without a verification of its certificate.
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

// Stats returns the figures, at a cost of O(1).
func (k *Keeper) Stats() Stats {
	return Stats{ReloadFailures: k.reloadFailures.Load(), Expires: k.current.Load().certificate.Leaf.NotAfter}
}

func (m *material) verify(chain []*x509.Certificate, now time.Time) ([][]*x509.Certificate, error) {
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	return chain[0].Verify(x509.VerifyOptions{
		Roots: m.clients, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}
