package main

import (
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"

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

// newGateway is the gateway to a server, and the function that closes its connections
// after it was drained.
func newGateway(c config.Config, log *zap.Logger, server *rpc.Server) (g *gateway.Gateway, closeAll func() error, err error) {
	calls, err := server.Local()
	if err != nil {
		return nil, nil, err
	}
	streams, err := server.Local()
	if err != nil {
		return nil, nil, errors.Join(err, calls.Close())
	}
	g, err = gateway.New(gateway.Options{
		Calls: calls, Streams: streams, Log: log.Named("gateway"), Now: time.Now,
		MaxMessageBytes: int(c.MaxMessageBytes), MemoryLimit: c.MemoryLimit,
		Origins: c.Origins(), Console: web.Files(),
	})
	closeAll = func() error { return closeConnections(calls, streams) }
	if err != nil {
		return nil, nil, errors.Join(err, closeAll())
	}
	return g, closeAll, nil
}

func closeConnections(connections ...*grpc.ClientConn) error {
	var err error
	for _, c := range connections {
		err = errors.Join(err, c.Close())
	}
	return err
}
