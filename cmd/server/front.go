package main

import (
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"hindsight/cmd/server/internal/config"
	"hindsight/internal/gateway"
	"hindsight/internal/rpc"
	"hindsight/web"
)

// front is what the HTTP server knows of the server behind it, which opens after it
// and closes before it.
type front struct {
	// ready: the server serves and is not draining.
	ready atomic.Bool
	// cut closes the HTTP server, and ends its requests.
	cut func()
	// calls answers what is not a probe or a scrape; nil while the server starts.
	calls atomic.Pointer[gateway.Gateway]
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if calls := f.calls.Load(); calls != nil {
		calls.ServeHTTP(w, r)
		return
	}
	gateway.Starting(w)
}

// newGateway returns the gateway to a server.
func newGateway(c config.Config, log *zap.Logger, server *rpc.Server, grpc net.Addr, traced bool, guard *gateway.Guard, refused func(string)) (*gateway.Gateway, error) {
	return gateway.New(gateway.Options{
		Server: server.Local(), Log: log.Named("gateway"), Now: time.Now,
		MaxMessageBytes: int(c.MaxMessageBytes), MemoryLimit: c.MemoryLimit,
		Origins: c.Origins(), Console: web.Files(), GRPC: grpc, Traced: traced, Guard: guard, Refused: refused,
	})
}
