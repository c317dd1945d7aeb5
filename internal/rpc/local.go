package rpc

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
)

// localBuffer is what one direction of a connection within the process holds.
const localBuffer = 256 << 10

// Local is a connection to the server from within the process: no socket, and the
// same interceptors, limits and deadlines as any other. The caller closes it. Drain
// ends it. A connection has at most 256 calls in progress.
func (s *Server) Local() (*grpc.ClientConn, error) {
	s.localOnce.Do(func() {
		s.local = bufconn.Listen(localBuffer)
		s.listeners.Go(func() {
			_ = s.Serve(s.local) // It ends with the server, and has no other error.
		})
	})
	connection, err := grpc.NewClient("passthrough:///local",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return s.local.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(s.maxMessageBytes), grpc.MaxCallSendMsgSize(s.maxMessageBytes)),
		grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(),
	)
	if err != nil {
		return nil, fmt.Errorf("rpc: local connection: %w", err)
	}
	return connection, nil
}
