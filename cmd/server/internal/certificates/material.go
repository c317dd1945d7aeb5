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

// content is what the files held when they were read, or the error of the reading. Two
// contents are compared with ==.
type content struct {
	certificate, key, clientCA string
	err                        string
}

// read reads the files.
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

// material is what a handshake needs. It does not change.
type material struct {
	certificate tls.Certificate
	// clients are the authorities of clients; nil if clients need no certificates.
	clients *x509.CertPool
}

// parse makes material of the files' content. Its errors name files and say nothing of
// what is in a key.
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
	if m.clients, err = authorities(c.clientCA); err != nil {
		return nil, fmt.Errorf("%s: %w", f.ClientCA, err)
	}
	return m, nil
}

// authorities reads certificates. A file of which a part cannot be read is refused whole:
// to pass the part over would refuse clients without a word.
func authorities(text string) (*x509.CertPool, error) {
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

// invalidAt says why clients would refuse the certificate at a time; nil if they would not.
func (m *material) invalidAt(now time.Time) error {
	switch leaf := m.certificate.Leaf; {
	case now.After(leaf.NotAfter):
		return fmt.Errorf("the certificate expired at %s", leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("the certificate is valid from %s on", leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	return nil
}
