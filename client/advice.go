package client

import (
	"strings"

	"google.golang.org/grpc/codes"
)

func advices() []struct{ part, advice string } {
	return []struct{ part, advice string }{
		{"looked like an HTTP/1.1 header", "this is a port of HTTP: the server has another port for gRPC, " + DefaultPort + " by default"},
		{"first record does not look like a TLS handshake", "the server does not speak TLS: connect without TLS, or start the server with a certificate"},
		{"signed by unknown authority", "the CA of the server's certificate is not trusted: give its file as CA"},
		{"certificate is not trusted", "the CA of the server's certificate is not trusted: give its file as CA"},
		{"certificate is valid for", wrongHost},
		{"cannot validate certificate for", wrongHost},
		{"certificate is not valid for any names", wrongHost},
		{"certificate has expired or is not yet valid", "the server's certificate is not valid now: renew it, or set the clock of this machine"},
		{"tls: certificate required", certificateRequired},
		{"tls: expired certificate", "the certificate of the client has expired: renew it"},
		{"tls: unknown certificate authority", "the server does not trust the CA of the client's certificate"},
		{"tls: bad certificate", "the server does not take the client's certificate: it must be a certificate for clients, from a CA that the server trusts"},
		{"tls: protocol version not supported", "the server speaks TLS 1.2 and 1.3"},
	}
}

const (
	wrongHost           = "the server's certificate is for another host: call the server by a name of the certificate, or give that name as server name"
	certificateRequired = "the server asks for a certificate of the client: give the files of a certificate and its key"
	mayWantTLS          = "the server ended the connection before the call: it may want TLS"
	tokenWanted         = "the server wants to know who calls: give a token"
	tokenRejected       = "the server does not take the token: it is wrong, expired or revoked"
)

func (c *Client) adviseOn(e *Error) string {
	if e.Code == codes.Unauthenticated {
		switch {
		case !c.hasToken:
			return tokenWanted
		case strings.Contains(e.Message, "per-RPC creds failed"):
			return "" // The error says that the token could not be read.
		}
		return tokenRejected
	}
	if !e.unreachable {
		return ""
	}
	for _, a := range advices() {
		if strings.Contains(e.Message, a.part) {
			return a.advice
		}
	}
	ended := strings.Contains(e.Message, "EOF") || strings.Contains(e.Message, "broken pipe") || strings.Contains(e.Message, "connection reset")
	switch {
	case !ended:
	case c.tls != nil && c.tls.asked.Load():
		return certificateRequired
	case c.tls == nil && strings.Contains(e.Message, "server preface"):
		return mayWantTLS
	}
	return ""
}
