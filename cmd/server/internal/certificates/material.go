package certificates

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// content is the content of the files, or the error of reading them. It is comparable.
type content struct {
	certificate, key, clientCA string
	err                        string
}

func (f Files) read() content {
	var c content
	for _, file := range []struct {
		name string
		into *string
	}{{f.Certificate, &c.certificate}, {f.Key, &c.key}, {f.ClientCA, &c.clientCA}} {
		if file.name == "" {
			continue // Only ClientCA may be absent.
		}
		text, err := os.ReadFile(filepath.Clean(file.name))
		if err != nil {
			return content{err: err.Error()}
		}
		*file.into = string(text)
	}
	return c
}

// material has the certificates of a handshake. It is immutable.
type material struct {
	certificate tls.Certificate
	// clients are the CAs of clients; nil if clients need no certificates.
	clients *x509.CertPool
}

func (f Files) parse(c content) (*material, error) {
	if c.err != "" {
		return nil, errors.New(c.err)
	}
	pair, err := tls.X509KeyPair([]byte(c.certificate), []byte(c.key))
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", f.Certificate, f.Key, err)
	}
	m := &material{certificate: pair}
	if f.ClientCA == "" {
		return m, nil
	}
	if m.clients, err = ParseCAs(c.clientCA); err != nil {
		return nil, fmt.Errorf("%s: %w", f.ClientCA, err)
	}
	return m, nil
}

// ParseCAs parses certificates in PEM. It rejects a file with an unreadable block, because skipping
// the block would silently reject clients.
func ParseCAs(text string) (*x509.CertPool, error) {
	pool, n := x509.NewCertPool(), 0
	for rest := []byte(text); ; n++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("block %d is a %s, want a CERTIFICATE", n+1, block.Type)
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("block %d: %w", n+1, err)
		}
		pool.AddCert(certificate)
	}
	if n == 0 {
		return nil, errors.New("it has no certificate in PEM")
	}
	return pool, nil
}

func (m *material) invalidAt(now time.Time) error {
	switch leaf := m.certificate.Leaf; {
	case now.After(leaf.NotAfter):
		return fmt.Errorf("the certificate expired at %s", leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("the certificate is valid from %s on", leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	return nil
}
