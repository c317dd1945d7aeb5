package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"hindsight/cmd/server/internal/config"
)

const healthcheckTimeout = 3 * time.Second

func healthcheck(ctx context.Context, c config.Config, _ io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, healthcheckTimeout)
	defer cancel()
	host, port, err := net.SplitHostPort(c.GRPCAddress)
	if err != nil {
		return fmt.Errorf("gRPC address %q: %w", c.GRPCAddress, err)
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		host = "127.0.0.1" // The server listens on every address.
	}
	target := net.JoinHostPort(host, port)
	if c.TLSClientCA != "" && c.TLSClientAuth == config.ClientRequired {
		return handshake(ctx, target)
	}
	transport := insecure.NewCredentials()
	if c.TLSCert != "" {
		transport = credentials.NewTLS(unverified())
	}
	connection, err := grpc.NewClient("passthrough:///"+target, grpc.WithTransportCredentials(transport))
	if err != nil {
		return fmt.Errorf("connect to %s: %w", target, err)
	}
	defer func() { _ = connection.Close() }() // The answer is complete.
	answer, err := healthv1.NewHealthClient(connection).Check(ctx, &healthv1.HealthCheckRequest{})
	if err != nil {
		return fmt.Errorf("health of %s: %w", target, err)
	}
	if answer.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		return fmt.Errorf("health of %s: %s", target, answer.GetStatus())
	}
	return nil
}

// unverified accepts any TLS certificate: the server's names another address, and may just have
// been replaced. The request has no secret.
func unverified() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}, InsecureSkipVerify: true} //nolint:gosec // G402: see above
}

// errNotAsked: another program listens on the port.
var errNotAsked = errors.New("it asks for no certificate of the client")

// handshake checks a server that requires TLS certificates of clients; healthcheck has none.
// The server accepts connections while it serves, so its request for a certificate proves that
// it serves.
func handshake(ctx context.Context, target string) error {
	asked := false
	settings := unverified()
	settings.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		asked = true
		return new(tls.Certificate), nil
	}
	connection, err := (&tls.Dialer{Config: settings}).DialContext(ctx, "tcp", target)
	if asked {
		if err == nil {
			_ = connection.Close() // The server rejects it.
		}
		return nil
	}
	if err == nil {
		err = errors.Join(errNotAsked, connection.Close())
	}
	return fmt.Errorf("health of %s: %w", target, err)
}
