package rpc

import (
	"context"
	"fmt"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/engine"
)

const (
	// How long a call may take from its first byte on: a request that is only
	// half sent holds memory. A model may take long to come back.
	predictionTimeout = time.Minute
	modelTimeout      = 10 * time.Minute
	// What the requests in progress may take together without a limit of memory.
	requestBytes = 256 << 20
	// Memory is looked at once a glance. While what the last collection of garbage
	// left takes more than 3/4 of the limit, calls end that have sent no whole
	// message for patience glances, on a connection that has sent more than little
	// meanwhile: others hold nothing.
	glance   = 25 * time.Millisecond
	patience = 4
	little   = 16 << 10
	// A session that was asked to end is cut off after farewell glances: its client
	// does not read.
	farewell = 40
	// Then, or when the answers that wait to be read take more than requests may,
	// connections are closed that in slow glances send less than they owe.
	slow = 4
	// What was ended is logged once a second.
	logGlances = 40
)

// An admission bounds the time and the memory of calls. A request, the calls of a
// connection and the connections have bounds of their own, but all of that
// together is more than any memory, and what is not whole is seen by no
// interceptor. See docs/adr/0011.
type admission struct {
	log *zap.Logger
	// The limit is of the memory of the process, 0 for none.
	limit int64
	// The requests in progress take inProgress bytes, and may take mayTake.
	inProgress atomic.Int64
	mayTake    int64

	connections connections
	// What was done about it.
	ended, closed atomic.Int64
	glances       atomic.Int64
	mu            struct {
		sync.Mutex
		// open are the calls that are to send more.
		open map[*call]bool
	}
	stop    chan struct{}
	watcher sync.WaitGroup
}

// call is one that may end before its time.
type call struct {
	end        context.CancelFunc
	connection *counted
	// since is the glance after which it has sent no whole message, before what had
	// come on its connection then.
	since, before atomic.Int64
	// over is closed to ask a session to end, which tells its client more than to
	// be cut off; asked is the glance at which it was, 0 before.
	over  chan struct{}
	asked int64
}

// callKey is that of a call in its context.
type callKey struct{}

// admit begins to look at memory if it has a limit, until close.
func admit(log *zap.Logger, limit int64) *admission {
	a := &admission{log: log, limit: limit, mayTake: requestBytes, stop: make(chan struct{})}
	a.mu.open, a.connections.open = map[*call]bool{}, map[*counted]bool{}
	if limit > 0 {
		a.mayTake = limit / 8
		a.watcher.Go(a.watch)
	}
	return a
}

// close joins what admit began. It is called once.
func (a *admission) close() {
	close(a.stop)
	a.watcher.Wait()
}

// overOf is closed when a session is to end for want of memory. It is nil where
// there is no limit.
func overOf(ctx context.Context) <-chan struct{} {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c.over
	}
	return nil
}

// tap gives every call its time, and a way to end it before. An interceptor
// would come too late.
func (a *admission) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	c := &call{end: func() {}}
	bounded := ctx
	switch info.FullMethodName {
	case hindsightv1.PredictionService_Session_FullMethodName:
		c.over = make(chan struct{})
	case hindsightv1.ModelService_ExportModel_FullMethodName, hindsightv1.ModelService_ImportModel_FullMethodName,
		healthv1.Health_Watch_FullMethodName:
	case hindsightv1.PredictionService_Predict_FullMethodName, hindsightv1.PredictionService_Observe_FullMethodName,
		hindsightv1.PredictionService_PredictBatch_FullMethodName, hindsightv1.PredictionService_ObserveBatch_FullMethodName:
		bounded, c.end = context.WithTimeout(ctx, predictionTimeout)
	default:
		bounded, c.end = context.WithTimeout(ctx, modelTimeout)
	}
	if c.connection = connectionOf(ctx); c.connection != nil && a.limit > 0 {
		if bounded == ctx {
			bounded, c.end = context.WithCancel(ctx)
		}
		bounded = context.WithValue(bounded, callKey{}, c)
		a.add(c)
		context.AfterFunc(ctx, func() { a.remove(c) })
	}
	context.AfterFunc(ctx, c.end)
	return bounded, nil
}

// connectionOf is what a call came on.
func connectionOf(ctx context.Context) *counted {
	if from, ok := peer.FromContext(ctx); ok {
		if address, ok := from.Addr.(countedAddr); ok {
			return address.connection
		}
	}
	return nil
}

func (a *admission) add(c *call) {
	a.whole(c)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.open[c] = true
}

func (a *admission) remove(c *call) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.mu.open, c)
}

// whole notes that a call begins, or that a message of it is whole.
func (a *admission) whole(c *call) {
	c.since.Store(a.glances.Load())
	c.before.Store(c.connection.received.Load())
}

// unary bounds what whole requests take together, of which one alone is always
// taken, and notes their answers.
func (a *admission) unary(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		a.remove(c)
	}
	size := sizeOf(request)
	defer a.inProgress.Add(-size)
	if all := a.inProgress.Add(size); all > a.mayTake && all > size {
		return nil, fmt.Errorf("%w: requests of %d bytes in progress, at most %d", engine.ErrOverloaded, all, a.mayTake)
	}
	response, err := handle(ctx, request)
	if connection := connectionOf(ctx); connection != nil && err == nil && ctx.Err() == nil {
		connection.owe(sizeOf(response))
	}
	return response, err
}

func sizeOf(message any) int64 {
	if m, ok := message.(proto.Message); ok {
		return int64(proto.Size(m))
	}
	return 0
}

// stream notes when messages come.
func (a *admission) stream(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if c, ok := stream.Context().Value(callKey{}).(*call); ok {
		stream = &noted{stream, a, c, !info.IsClientStream}
	}
	return handle(service, stream)
}

// noted is a stream that tells when a message was whole.
type noted struct {
	grpc.ServerStream
	admission *admission
	call      *call
	// single says that no other message comes.
	single bool
}

// RecvMsg implements grpc.ServerStream.
func (n *noted) RecvMsg(m any) error {
	err := n.ServerStream.RecvMsg(m)
	n.admission.whole(n.call)
	if n.single {
		n.admission.remove(n.call)
	}
	return err //nolint:wrapcheck // It is the stream's.
}

var errMemoryFull = fmt.Errorf("%w: memory is full", engine.ErrOverloaded)

// watch looks at memory until close.
func (a *admission) watch() {
	ticker := time.NewTicker(glance)
	defer ticker.Stop()
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	logged := int64(0)
	for n := 1; ; n++ {
		select {
		case <-ticker.C:
		case <-a.stop:
			return
		}
		metrics.Read(live)
		full := int64(live[0].Value.Uint64()) > a.limit/4*3
		a.ended.Add(a.look(full))
		if full || a.connections.owed.Load() > a.mayTake {
			a.closed.Add(a.connections.closeSlow(little, slow))
		}
		if done := a.ended.Load() + a.closed.Load(); done > logged && n%logGlances == 0 {
			a.log.Warn("memory is full: ended calls that were not whole, closed connections that were not read",
				zap.Int64("calls_ended", a.ended.Load()), zap.Int64("connections_closed", a.closed.Load()))
			logged = done
		}
	}
}

// look is one glance. It tells how many calls it ended.
func (a *admission) look(full bool) (ended int64) {
	now := a.glances.Add(1)
	if !full {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for c := range a.mu.open {
		switch {
		case now-c.since.Load() < patience || c.connection.received.Load()-c.before.Load() < little:
		case c.over != nil && c.asked == 0:
			c.asked = now
			close(c.over)
			ended++
		case c.over != nil && now-c.asked < farewell: // It ends.
		default:
			c.end()
			delete(a.mu.open, c)
			ended++
		}
	}
	return ended
}

// Stats are what calls take, and what was done about it since the start.
type Stats struct {
	// RequestBytes are the requests in progress, UnreadBytes at most the answers
	// that connections have to send yet.
	RequestBytes, UnreadBytes int64
	// EndedCalls and ClosedConnections count those that ended for want of memory.
	EndedCalls, ClosedConnections int64
}

// Stats are the figures of this moment.
func (s *Server) Stats() Stats {
	a := s.admission
	return Stats{
		RequestBytes: a.inProgress.Load(), UnreadBytes: a.connections.owed.Load(),
		EndedCalls: a.ended.Load(), ClosedConnections: a.closed.Load(),
	}
}
