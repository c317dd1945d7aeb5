package rpc

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/auth"
	"hindsight/internal/engine"
)

const (
	// The longest time of a call, from its first byte to its response. A call on a model may
	// have to load the model, or carry it over the network.
	predictionTimeout = time.Minute
	modelTimeout      = 10 * time.Minute
	// An import passes the links of a cluster slowly, because the changes of others pass it.
	importTimeout = time.Hour
)

// An admission bounds the time of every call, and the memory of all requests together.
// What it does not bound: docs/operating.md, Memory.
type admission struct {
	predictionTimeout, modelTimeout, importTimeout time.Duration
	// requests counts the requests of unary calls, transfers the models of exports and imports.
	requests, transfers *auth.Budget
}

func newAdmission(memoryLimit int64) *admission {
	limit := auth.RequestBytes(memoryLimit)
	return &admission{
		predictionTimeout: predictionTimeout, modelTimeout: modelTimeout, importTimeout: importTimeout,
		requests: auth.NewBudget(limit), transfers: auth.NewBudget(limit),
	}
}

// timeout bounds a call of a method. 0 is no bound, for watches.
func (a *admission) timeout(method string) time.Duration {
	switch method {
	case hindsightv1.ModelService_WatchModel_FullMethodName, healthv1.Health_Watch_FullMethodName:
		return 0
	case hindsightv1.ModelService_ImportModel_FullMethodName:
		return a.importTimeout
	}
	if strings.HasPrefix(method, "/"+hindsightv1.PredictionService_ServiceDesc.ServiceName+"/") {
		return a.predictionTimeout
	}
	return a.modelTimeout
}

func (a *admission) bounded(ctx context.Context, method string) (context.Context, context.CancelFunc) {
	if timeout := a.timeout(method); timeout > 0 {
		return context.WithTimeout(ctx, timeout)
	}
	return context.WithCancel(ctx)
}

// tap bounds the time of a call from the arrival of its headers. An interceptor would not see a
// call that never sends the rest of its request. A call that the client bounds by less costs nothing.
func (a *admission) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	timeout := a.timeout(info.FullMethodName)
	until, ok := ctx.Deadline()
	if timeout <= 0 || ok && time.Until(until) <= timeout {
		return ctx, nil
	}
	bounded, cancel := a.bounded(ctx, info.FullMethodName)
	context.AfterFunc(ctx, cancel) // gRPC ends ctx with the call.
	return bounded, nil
}

func (a *admission) unary(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	size := heldBytes(request)
	if err := take(a.requests, size, size); err != nil {
		return nil, err
	}
	defer a.requests.Give(size)
	return handle(ctx, request)
}

// structBytes is the memory per byte of an encoded Struct: 6 to 8 bytes in records of texts and
// numbers.
const structBytes = 8

// heldBytes estimates the memory of a request: its size, or the size of its decoded Structs.
func heldBytes(request any) int64 {
	m, ok := request.(proto.Message)
	if !ok {
		return 0
	}
	size := int64(proto.Size(m))
	named := false
	switch r := request.(type) {
	case *hindsightv1.PredictRequest:
		named = r.GetInputs() != nil
	case *hindsightv1.ObserveRequest:
		named = r.GetInputs() != nil
	case *hindsightv1.PredictBatchRequest:
		named = len(r.GetInputs()) > 0
	case *hindsightv1.ObserveBatchRequest:
		named = slices.ContainsFunc(r.GetObservations(), hasInputs)
	}
	if named {
		size *= structBytes
	}
	return size
}

func take(b *auth.Budget, n, holds int64) error {
	if all, ok := b.Take(n, holds); !ok {
		return fmt.Errorf("%w: calls hold %d bytes in progress, at most %d", engine.ErrOverloaded, all, b.Limit())
	}
	return nil
}

// A reservation is what one call holds of a budget. An export may continue in the engine after
// its call has ended, so take fails after release.
type reservation struct {
	budget   *auth.Budget
	mu       sync.Mutex
	held     int64
	released bool
}

func (r *reservation) take(n int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.released {
		return context.Canceled
	}
	if err := take(r.budget, n, r.held+n); err != nil {
		return err
	}
	r.held += n
	return nil
}

func (r *reservation) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.budget.Give(r.held)
	r.released = true
}

// RequestBytes returns what the requests and the model transfers in progress hold.
func (s *Server) RequestBytes() int64 {
	return s.admission.requests.Held() + s.admission.transfers.Held()
}
