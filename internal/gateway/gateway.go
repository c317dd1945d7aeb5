// Package gateway answers JSON over HTTP. It turns each request into a call of the
// gRPC services and the answer into JSON, by the google.api.http rules of the proto
// files. What the gRPC server checks, limits and counts it checks, limits and counts
// here too, because every request is a call of it.
package gateway

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"go.opentelemetry.io/otel/propagation"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/api/openapi"
	routes "hindsight/internal/gateway/routes/hindsight/v1"
)

// Options of a gateway. Every field but Console, GRPC, Guard and Origins is required.
type Options struct {
	// Server leads to the gRPC server.
	Server grpc.ClientConnInterface
	Log    *zap.Logger
	Now    func() time.Time
	// MaxMessageBytes bounds the body of a request. A model that is imported may be
	// larger: it comes in pieces.
	MaxMessageBytes int
	// MemoryLimit is the memory limit of the process; 0 is no limit. Bodies of requests
	// in progress may hold an eighth of it together.
	MemoryLimit int64
	// Origins are the origins whose pages may call, besides the server's own: "*", or
	// those of Access-Control-Allow-Origin, such as https://example.com.
	Origins []string
	// Console are the files of the page at /; nil is none.
	Console fs.FS
	// GRPC is where the gRPC server listens, which the console tells; nil is not known.
	GRPC net.Addr
	// Traced says that the W3C trace of a request is that of its calls.
	Traced bool
	// Guard finds who makes a request; nil takes every request.
	Guard *Guard
	// Refused is told why a request was refused that is no call of the server: one of
	// Reasons, or a reason of the server. It may be nil.
	Refused func(reason string)
	// heartbeat is how often a stream of events without an event has a comment, but in
	// tests heartbeatInterval.
	heartbeat time.Duration
}

// Limits that no user has asked to set.
const (
	heartbeatInterval = 15 * time.Second
	// A call is answered after so long at the latest. The server gives it ten minutes.
	answerTimeout = 11 * time.Minute
	// A write to a client that takes nothing for so long ends its request.
	writeTimeout = 30 * time.Second
	// So many requests may stream at once: events, exports and imports.
	maxStreams = 200
)

// Gateway is an http.Handler.
type Gateway struct {
	Options
	handler http.Handler
	// table are the paths of the calls, and page shows them.
	table  []route
	page   []byte
	models hindsightv1.ModelServiceClient
	// places are the streams that may be open.
	places chan struct{}
	bodies budget
	// draining is closed when Drain begins: events end with it.
	draining chan struct{}
	mu       struct {
		sync.Mutex
		closed bool
		// bodies are those of the calls in flight.
		bodies map[*incoming]struct{}
	}
	// requests counts the calls in flight.
	requests sync.WaitGroup
}

// New is a gateway that answers until Drain. The context is not that of its requests.
func New(ctx context.Context, o Options) (*Gateway, error) {
	if o.heartbeat == 0 {
		o.heartbeat = heartbeatInterval
	}
	g := &Gateway{
		Options: o, models: hindsightv1.NewModelServiceClient(o.Server),
		places: make(chan struct{}, maxStreams), bodies: budget{limit: limitOf(o.MemoryLimit)}, draining: make(chan struct{}),
	}
	g.mu.bodies = map[*incoming]struct{}{}
	d, err := parseDocument(openapi.Document())
	if err != nil {
		return nil, err
	}
	g.table = d.table()
	if g.page, err = d.page(); err != nil {
		return nil, err
	}
	mux := runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, codec{}),
		runtime.WithErrorHandler(g.callFailed),
		runtime.WithRoutingErrorHandler(g.routeFailed),
		runtime.WithDisablePathLengthFallback(),
		runtime.WithWriteContentLength(),
		runtime.WithMiddlewares(g.checkRoute, g.readBody),
		// Authorization is passed on without being named here; nothing else is.
		runtime.WithIncomingHeaderMatcher(func(string) (string, bool) { return "", false }),
		runtime.WithOutgoingHeaderMatcher(func(string) (string, bool) { return "", false }),
		runtime.WithOutgoingTrailerMatcher(func(string) (string, bool) { return "", false }),
	)
	server := names{o.Server}
	if err := routes.RegisterPredictionServiceHandlerClient(ctx, mux, hindsightv1.NewPredictionServiceClient(server)); err != nil {
		return nil, fmt.Errorf("gateway: routes: %w", err)
	}
	if err := routes.RegisterModelServiceHandlerClient(ctx, mux, hindsightv1.NewModelServiceClient(server)); err != nil {
		return nil, fmt.Errorf("gateway: routes: %w", err)
	}
	// A later route is asked before an earlier one.
	for _, r := range []struct {
		method, path string
		handle       runtime.HandlerFunc
	}{
		{http.MethodGet, "/v1/models/{model}/events", g.events},
		{http.MethodGet, "/v1/models/{model}:export", g.export},
		{http.MethodPost, "/v1/models:import", g.importModel},
	} {
		if err := mux.HandlePath(r.method, r.path, r.handle); err != nil {
			return nil, fmt.Errorf("gateway: route %s: %w", r.path, err)
		}
	}
	if g.handler, err = g.protect(g.guard(g.pages(mux))); err != nil {
		return nil, err
	}
	return g, nil
}

// ServeHTTP implements http.Handler.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body *incoming
	if r.ContentLength != 0 {
		body = &incoming{ReadCloser: r.Body, control: http.NewResponseController(w)}
	}
	if !g.enter(r, body) {
		w.Header().Set("Connection", "close")
		g.write(w, shuttingDown())
		return
	}
	if g.Traced {
		r = r.WithContext(propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header)))
	}
	if body != nil {
		// A copy: net/http looks at the body of its own request, whether a client waits for
		// 100 Continue.
		r = r.WithContext(r.Context())
		r.Body = body
	}
	func() {
		defer g.leave(r, body)
		g.handler.ServeHTTP(w, r)
	}()
	if body != nil {
		body.linger(r)
	}
}

// enter refuses requests while the gateway drains. Drain waits for a call, and hurries its
// body. Drain does not wait for a page: a client that reads no answer would hold it up.
func (g *Gateway) enter(r *http.Request, body *incoming) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.mu.closed && isCall(r.URL.Path) {
		g.requests.Add(1)
		if body != nil {
			g.mu.bodies[body] = struct{}{}
		}
	}
	return !g.mu.closed
}

func (g *Gateway) leave(r *http.Request, body *incoming) {
	if !isCall(r.URL.Path) {
		return
	}
	if body != nil {
		g.mu.Lock()
		delete(g.mu.bodies, body)
		g.mu.Unlock()
	}
	g.requests.Done()
}

// Drain refuses further requests, ends the streams of events and the bodies that do not
// come, and waits until the calls in flight are answered. Their contexts end them sooner.
func (g *Gateway) Drain() {
	g.mu.Lock()
	if !g.mu.closed {
		g.mu.closed = true
		close(g.draining)
		for body := range g.mu.bodies {
			body.drain()
		}
	}
	g.mu.Unlock()
	g.requests.Wait()
}

// Starting answers a request that comes before there is a gateway.
func Starting(w http.ResponseWriter) { write(w, shuttingDown()) }
