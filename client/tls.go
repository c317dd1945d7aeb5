package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"

	"google.golang.org/grpc/credentials"
)

// TLS says whom a client trusts and who the client is. The files are PEM. They are read at Dial and
// again at each new connection, so a changed file needs no new client.
type TLS struct {
	// CA is the file of the CAs that may sign the server's TLS certificate. Empty means the
	// CAs of the system.
	CA string
	// Cert and Key are the TLS certificate of the client and its key. Both may be empty.
	Cert, Key string
	// ServerName is the name that the server's TLS certificate must have. Empty means the host
	// of the address.
	ServerName string
}

// WithTLS encrypts the connection, by TLS 1.2 or 1.3.
func WithTLS(t TLS) Option { return func(s *settings) { s.tls = &transport{files: t} } }

func (t TLS) config() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CA != "" {
		text, err := os.ReadFile(filepath.Clean(t.CA))
		if err != nil {
			return nil, fmt.Errorf("CA: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("CA: %s has no certificate in PEM", t.CA)
		}
	}
	if (t.Cert == "") != (t.Key == "") {
		return nil, fmt.Errorf("certificate %q and key %q: want both or none", t.Cert, t.Key)
	}
	if t.Cert != "" {
		pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, fmt.Errorf("certificate %s and key %s: %w", t.Cert, t.Key, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// transport is TLS for gRPC. It is for clients alone.
type transport struct {
	files TLS
	// asked: the server has asked for a certificate that the client has not.
	asked atomic.Bool
}

func (t *transport) ClientHandshake(ctx context.Context, authority string, c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	config, err := t.files.config()
	if err != nil {
		return nil, nil, err
	}
	if len(config.Certificates) == 0 {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			t.asked.Store(true)
			return new(tls.Certificate), nil
		}
	}
	return credentials.NewTLS(config).ClientHandshake(ctx, authority, c)
}

func (*transport) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("the credentials are for clients only")
}

func (*transport) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

// Clone implements credentials.TransportCredentials. The copy shares what was asked.
func (t *transport) Clone() credentials.TransportCredentials { return t }

func (*transport) OverrideServerName(string) error {
	return errors.New("TLS.ServerName sets the name of the server")
}
