package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"hindsight/cmd/server/internal/config"
)

const healthcheckTimeout = 3 * time.Second

// healthcheck asks the server at the configured gRPC address whether it serves. A
// container engine runs it.
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
	connection, err := grpc.NewClient("passthrough:///"+target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("connect to %s: %w", target, err)
	}
	defer func() { _ = connection.Close() }() // The answer has come.
	answer, err := healthv1.NewHealthClient(connection).Check(ctx, &healthv1.HealthCheckRequest{})
	if err != nil {
		return fmt.Errorf("health of %s: %w", target, err)
	}
	if answer.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		return fmt.Errorf("health of %s: %s", target, answer.GetStatus())
	}
	return nil
}
