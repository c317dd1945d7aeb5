package rpc

import (
	"net"

	"go.uber.org/zap"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// localListener marks the connections from within the process.
type localListener struct{ net.Listener }

// Accept implements net.Listener.
func (l localListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return localConn{c}, nil
}

type localConn struct{ net.Conn }

// handshakes secures connections from outside. One from within the process needs
// nothing.
type handshakes struct {
	credentials.TransportCredentials
	log *zap.Logger
}

// newHandshakes takes nil for plaintext.
func newHandshakes(outside credentials.TransportCredentials, log *zap.Logger) handshakes {
	if outside == nil {
		outside = insecure.NewCredentials()
	}
	return handshakes{outside, log}
}

// ServerHandshake implements credentials.TransportCredentials.
func (h handshakes) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if _, local := c.(localConn); local {
		return insecure.NewCredentials().ServerHandshake(c)
	}
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
