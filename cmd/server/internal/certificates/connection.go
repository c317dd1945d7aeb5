package certificates

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"time"

	"go.uber.org/zap"
)

// Listener wraps the listener of a server with a Config of the keeper, directly below the
// handshake.
func (k *Keeper) Listener(l net.Listener) net.Listener { return listener{l, k} }

type listener struct {
	net.Listener
	keeper *Keeper
}

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &connection{Conn: c, keeper: l.keeper}, nil
}

type connection struct {
	net.Conn
	keeper *Keeper
	// chain is the client's certificate and the intermediate ones, valid until expires. gone is
	// true after Close. The keeper's lock guards them.
	chain   []*x509.Certificate
	expires time.Time
	gone    bool
}

func (c *connection) Close() error {
	c.keeper.mu.Lock()
	c.gone = true
	delete(c.keeper.mu.clients, c)
	c.keeper.mu.Unlock()
	return c.Conn.Close()
}

// enter ends a handshake that began with m. It rejects a certificate whose CA was removed
// since then, because sweep did not see the connection.
func (k *Keeper) enter(c *connection, m *material, s tls.ConnectionState) error {
	if len(s.PeerCertificates) == 0 {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	chains := s.VerifiedChains
	if now := k.current.Load(); now != m {
		var err error
		if chains, err = now.verify(s.PeerCertificates, k.o.Now()); err != nil {
			return err
		}
	}
	if c.gone { // The handshake timed out.
		return net.ErrClosed
	}
	c.chain, c.expires = s.PeerCertificates, expiry(chains)
	k.mu.clients[c] = struct{}{}
	if len(k.mu.clients) == 1 || c.expires.Before(k.mu.soonest) {
		k.mu.soonest = c.expires
	}
	return nil
}

// expiry returns the latest expiry of the chains. A chain expires with the first of its
// certificates.
func expiry(chains [][]*x509.Certificate) time.Time {
	var last time.Time
	for _, chain := range chains {
		first := chain[0].NotAfter
		for _, c := range chain {
			if c.NotAfter.Before(first) {
				first = c.NotAfter
			}
		}
		if first.After(last) {
			last = first
		}
	}
	return last
}

// sweep closes connections whose clients' certificates have expired or, after a change of the
// files, no longer verify. It costs O(1) if nothing has changed or expired.
func (k *Keeper) sweep(changed bool) {
	now, m := k.o.Now(), k.current.Load()
	var bad []*connection
	k.mu.Lock()
	if changed || (len(k.mu.clients) > 0 && now.After(k.mu.soonest)) {
		k.mu.soonest = time.Time{}
		for c := range k.mu.clients {
			if changed {
				chains, _ := m.verify(c.chain, now) // No chain is an expired one.
				c.expires = expiry(chains)
			}
			if now.After(c.expires) {
				bad = append(bad, c)
				continue
			}
			if k.mu.soonest.IsZero() || c.expires.Before(k.mu.soonest) {
				k.mu.soonest = c.expires
			}
		}
	}
	k.mu.Unlock()
	for _, c := range bad {
		_ = c.Close() // The server closes it too.
	}
	if len(bad) > 0 {
		k.o.Log.Info("connections closed whose clients' certificates have expired or whose CA is no longer trusted", zap.Int("connections", len(bad)))
	}
}
