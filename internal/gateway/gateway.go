// Package gateway answers JSON over HTTP. It turns each request into a call of the gRPC
// services, and the response into JSON, by the option google.api.http of each call. The gRPC
// server checks, limits and counts these calls like all others.
package gateway

import (
	"context"
	"io/fs"
	"net"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"hindsight/internal/auth"
)

// Server answers calls from within the process.
type Server interface {
	Invoke(ctx context.Context, method string, request, response any, options ...grpc.CallOption) error
	// Stream lets the handler of a method receive from a stream and send to the stream, and returns with the handler.
	Stream(method string, stream grpc.ServerStream) error
}

// Options of a gateway. Every field but Console, Docs, GRPC, Guard and Origins is required.
type Options struct {
	Server Server
	Log    *zap.Logger
	Now    func() time.Time
	// MaxMessageBytes bounds the body of a request. An imported model may be larger: it is
	// sent in pieces.
	MaxMessageBytes int
	// MemoryLimit is the memory limit of the process; 0 is no limit. Bodies of requests
	// in progress hold at most an eighth of it together.
	MemoryLimit int64
	// Origins are the origins whose pages may call, besides the server's own: "*", or
	// the origins of Access-Control-Allow-Origin, for example https://example.com.
	Origins []string
	// Console are the files of the page at /; nil is none.
	Console fs.FS
	// GRPC is where the gRPC server listens, for the console to show; nil is not known.
	GRPC net.Addr
	// Traced continues the W3C trace of a request in its calls.
	Traced bool
	// Guard authenticates requests; nil accepts every request.
	Guard *Guard
	// Rejected receives the reason of every request that the gateway itself rejects; nil is
	// no receiver.
	Rejected func(reason string)
	// heartbeat is the interval of comments in a stream of events: heartbeatInterval unless
	// a test sets it.
	heartbeat time.Duration
}

// Limits that no user has asked to set.
const (
	heartbeatInterval = 15 * time.Second
	// The longest time until a call is answered. The server gives it ten minutes.
	answerTimeout = 11 * time.Minute
	// The server gives an import one hour.
	importTimeout = time.Hour + time.Minute
	// A client that takes nothing for this long loses its request.
	writeTimeout = 30 * time.Second
	// The maximum of streams at once: events, exports and imports.
	maxStreams = 200
)

// Gateway is an http.Handler.
type Gateway struct {
	Options
	handler http.Handler
	table   []*route
	// streams counts the open streams, bodies the bytes of bodies.
	streams, bodies *auth.Budget
	// draining is closed when Drain begins, and ends streams of events.
	draining chan struct{}
	mu       struct {
		sync.Mutex
		closed bool
		bodies map[*incoming]struct{}
	}
	requests sync.WaitGroup
}

// New returns a gateway that answers until Drain.
func New(o Options) (*Gateway, error) {
	if o.heartbeat == 0 {
		o.heartbeat = heartbeatInterval
	}
	g := &Gateway{
		Options: o, streams: auth.NewBudget(maxStreams), bodies: auth.NewBudget(auth.RequestBytes(o.MemoryLimit)), draining: make(chan struct{}),
	}
	g.mu.bodies = map[*incoming]struct{}{}
	g.table = g.routes()
	var err error
	if g.handler, err = g.protect(g.guard(http.HandlerFunc(g.serve))); err != nil {
		return nil, err
	}
	return g, nil
}

func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
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
		// A copy, because net/http sees by the body of its own request whether a client waits
		// for 100 Continue.
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

// enter rejects requests while the gateway drains. Drain waits for calls and shortens the
// time of their bodies. It does not wait for pages: a client that reads no response would
// delay it.
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

// Drain rejects further requests, ends the streams of events and the bodies that do not
// arrive, and waits until the calls in flight are answered, or their contexts end.
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

func (g *Gateway) drains() bool {
	select {
	case <-g.draining:
		return true
	default:
		return false
	}
}

// Starting answers a request before the gateway exists.
func Starting(w http.ResponseWriter) { write(w, shuttingDown()) }
