package rpc

import (
	"net"

	"go.uber.org/zap"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// handshakes are credentials that log failed handshakes.
type handshakes struct {
	credentials.TransportCredentials
	log *zap.Logger
}

// newHandshakes takes nil for plaintext.
func newHandshakes(c credentials.TransportCredentials, log *zap.Logger) handshakes {
	if c == nil {
		c = insecure.NewCredentials()
	}
	return handshakes{c, log}
}

// ServerHandshake implements credentials.TransportCredentials.
func (h handshakes) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secured, info, err := h.TransportCredentials.ServerHandshake(c)
	if err != nil {
		h.log.Debug("handshake failed", zap.Stringer("peer", c.RemoteAddr()), zap.Error(err))
	}
	return secured, info, err
}

// Clone implements credentials.TransportCredentials.
func (h handshakes) Clone() credentials.TransportCredentials {
	return handshakes{h.TransportCredentials.Clone(), h.log}
}
