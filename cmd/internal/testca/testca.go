// Package testca issues certificates for tests.
package testca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// CA signs certificates.
type CA struct {
	PEM         []byte
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// Leaf is what a certificate says. Without times it is valid now.
type Leaf struct {
	Name string
	// Hosts are names and addresses of a server. A certificate without them is a
	// client's.
	Hosts []string
	// Member: the certificate is valid for a server and for a client, as the servers of a cluster
	// need.
	Member      bool
	From, Until time.Time
}

// New returns a CA with a new key.
func New(tb testing.TB, name string) *CA {
	tb.Helper()
	a := &CA{key: newKey(tb)}
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.certificate = a.sign(tb, template, template, &a.key.PublicKey)
	a.PEM = encode("CERTIFICATE", a.certificate.Raw)
	return a
}

// Issue returns a certificate and its key, in PEM.
func (a *CA) Issue(tb testing.TB, l Leaf) (certificate, key []byte) {
	tb.Helper()
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: l.Name},
		NotBefore: l.From, NotAfter: l.Until, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if l.From.IsZero() {
		template.NotBefore = time.Now().Add(-time.Hour)
	}
	if l.Until.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	for _, host := range l.Hosts {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	if l.Member {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	}
	private := newKey(tb)
	signed := a.sign(tb, template, a.certificate, &private.PublicKey)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	check(tb, err)
	return encode("CERTIFICATE", signed.Raw), encode("PRIVATE KEY", der)
}

// Pair is Issue for a program.
func (a *CA) Pair(tb testing.TB, l Leaf) tls.Certificate {
	tb.Helper()
	pair, err := tls.X509KeyPair(a.Issue(tb, l))
	check(tb, err)
	return pair
}

// Files is Issue into the files name.crt and name.key of a directory.
func (a *CA) Files(tb testing.TB, dir, name string, l Leaf) (certificate, key string) {
	tb.Helper()
	c, k := a.Issue(tb, l)
	return Write(tb, dir, name+".crt", c), Write(tb, dir, name+".key", k)
}

// Pool has the CA alone.
func (a *CA) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// Write writes a file and returns its path.
func Write(tb testing.TB, dir, name string, text []byte) string {
	tb.Helper()
	path := filepath.Join(dir, name)
	check(tb, os.WriteFile(path, text, 0o600))
	return path
}

func (a *CA) sign(tb testing.TB, template, parent *x509.Certificate, public *ecdsa.PublicKey) *x509.Certificate {
	tb.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, a.key)
	check(tb, err)
	c, err := x509.ParseCertificate(der)
	check(tb, err)
	return c
}

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(tb, err)
	return key
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
