package rpc

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/durationpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/engine"
	"hindsight/internal/model"
)

// place is the server of a cluster that answers a call.
type place int

const (
	// Every server answers from its own state.
	here place = iota
	// The owner answers, because the call changes a model or needs data that only the owner has.
	atOwner
	// The owner answers a prediction that is remembered. This server answers other predictions.
	byRequest
	// Each call within the session has its own place.
	byMessage
)

// places returns the place of every call of the API.
func places() map[string]place {
	return map[string]place{
		hindsightv1.PredictionService_Predict_FullMethodName:      byRequest,
		hindsightv1.PredictionService_PredictBatch_FullMethodName: byRequest,
		hindsightv1.PredictionService_Observe_FullMethodName:      atOwner,
		hindsightv1.PredictionService_ObserveBatch_FullMethodName: atOwner,
		hindsightv1.PredictionService_Session_FullMethodName:      byMessage,
		hindsightv1.ModelService_CreateModel_FullMethodName:       atOwner,
		hindsightv1.ModelService_GetModel_FullMethodName:          here,
		hindsightv1.ModelService_ListModels_FullMethodName:        here,
		hindsightv1.ModelService_UpdateModel_FullMethodName:       atOwner,
		hindsightv1.ModelService_DeleteModel_FullMethodName:       atOwner,
		hindsightv1.ModelService_UndeleteModel_FullMethodName:     atOwner,
		hindsightv1.ModelService_GetModelStats_FullMethodName:     here,
		hindsightv1.ModelService_GetModelHistory_FullMethodName:   here,
		hindsightv1.ModelService_WatchModel_FullMethodName:        here,
		hindsightv1.ModelService_ValidateSpec_FullMethodName:      here,
		hindsightv1.ModelService_ListLearners_FullMethodName:      here,
		// A comparison lets followers learn.
		hindsightv1.ModelService_CompareModels_FullMethodName: atOwner,
		// Each server has its own snapshots, and a restore uses the owner's.
		hindsightv1.ModelService_SnapshotModel_FullMethodName: atOwner,
		hindsightv1.ModelService_ListSnapshots_FullMethodName: atOwner,
		hindsightv1.ModelService_RestoreModel_FullMethodName:  atOwner,
		// Only the owner has the complete export of a model that moves.
		hindsightv1.ModelService_ExportModel_FullMethodName:  atOwner,
		hindsightv1.ModelService_ImportModel_FullMethodName:  atOwner,
		hindsightv1.ModelService_SetAlias_FullMethodName:     atOwner,
		hindsightv1.ModelService_ListAliases_FullMethodName:  here,
		hindsightv1.ModelService_DeleteAlias_FullMethodName:  atOwner,
		hindsightv1.ClusterService_GetCluster_FullMethodName: here,
		hindsightv1.ClusterService_MoveOwner_FullMethodName:  atOwner,
		// This server passes the call to the server that the request names.
		hindsightv1.ClusterService_DrainServer_FullMethodName:  here,
		hindsightv1.ClusterService_RemoveServer_FullMethodName: atOwner,
	}
}

const (
	// AgeTrailer bounds the age, in milliseconds, of the state from which a server that is not the
	// owner has answered.
	AgeTrailer = "hindsight-age-ms"
	// A server that is not the owner waits awaitHere for observations that it lacks, before it asks
	// the owner. A read waits as long for an owner.
	awaitHere = 250 * time.Millisecond
	// A call waits at most longestSearch for an owner. An election takes some seconds.
	longestSearch = 10 * time.Second
	// The pauses between tries grow from firstPause to longestPause.
	firstPause, longestPause = 5 * time.Millisecond, 100 * time.Millisecond
)

// The results of forwarded calls.
const (
	forwardAnswered = "answered" // The owner answered, or refused.
	forwardNoOwner  = "no_owner" // No server took the call, and nothing changed.
	forwardUnknown  = "unknown"  // The connection to the owner broke.
)

// ForwardResults returns the results that Options.Forwarded receives.
func ForwardResults() []string { return []string{forwardAnswered, forwardNoOwner, forwardUnknown} }

// ownerError is ErrNotOwner for a client. It names the owner if this server knows one.
type ownerError struct {
	address string
	err     error
}

func (e *ownerError) Error() string {
	if e.address == "" {
		return "no server owns the models at present; nothing was changed"
	}
	return "another server owns the models; nothing was changed; the owner is " + e.address
}

func (e *ownerError) Unwrap() error { return e.err }

// forwarding forwards calls to the owner. A server without a cluster has a nil forwarding, and
// answers all calls itself.
type forwarding struct {
	cluster Cluster
	// member: the calls come from other servers of the cluster. forwarding does not forward them
	// again.
	member   bool
	places   map[string]place
	messages map[string]messages
	await    func(ctx context.Context, name, key string, sequence uint64) error
	tracing  *tracing
	count    func(result string)
	// receivers read the streams that are forwarded.
	receivers sync.WaitGroup
	terms     terms
	watcher   sync.WaitGroup
	stop      context.CancelFunc
}

// newForwarding returns nil without a cluster.
func newForwarding(o *Options, t *tracing, member bool) *forwarding {
	if o.Cluster == nil {
		return nil
	}
	f := &forwarding{cluster: o.Cluster, member: member, places: places(), messages: methodMessages(), await: o.Engine.Await, tracing: t, count: o.Forwarded}
	if f.count == nil {
		f.count = func(string) {}
	}
	watching, stop := context.WithCancel(context.Background())
	f.stop = stop
	f.watcher.Go(func() { f.terms.watch(watching, f.cluster) })
	return f
}

// close waits for the forwarded streams, and stops the watcher of terms.
func (f *forwarding) close() {
	if f != nil {
		f.stop()
		f.watcher.Wait()
		f.receivers.Wait()
	}
}

// owns reports whether this server makes changes.
func (f *forwarding) owns() bool { return f == nil || f.cluster.Owns() }

// becomesOwner reports whether this server makes changes. A call that another server has forwarded
// may arrive just before this server owns the models. So becomesOwner waits up to farewell for such
// a call, unless another server owns the models.
func (f *forwarding) becomesOwner(ctx context.Context) bool {
	if f.owns() || !f.member {
		return f.owns()
	}
	ctx, cancel := context.WithTimeout(ctx, farewell)
	defer cancel()
	for {
		turned := f.cluster.Turned()
		if owner, _ := f.cluster.Owner(); f.owns() || owner != "" {
			return f.owns()
		}
		select {
		case <-turned:
		case <-ctx.Done():
			return f.owns()
		}
	}
}

// named adds the address of the owner to ErrNotOwner.
func (f *forwarding) named(err error) error {
	if f == nil || !errors.Is(err, engine.ErrNotOwner) {
		return err
	}
	_, address := f.cluster.Owner()
	return &ownerError{address, err}
}

// notOwner reports whether an error is ErrNotOwner, of this server or of another one. Nothing was
// changed then.
func notOwner(err error) bool {
	return errors.Is(err, engine.ErrNotOwner) || reasonOf(status.Convert(err)) == notOwnerReason
}

// fresh is a request that may bound the sequence and the age of the state.
type fresh interface {
	GetModel() string
	GetMinSequence() uint64
	GetMaxStaleness() *durationpb.Duration
}

// ofOwner reports whether the owner must answer a request. It waits up to awaitHere for the
// observations of min_sequence.
func (f *forwarding) ofOwner(ctx context.Context, method string, request any) (bool, error) {
	switch f.places[method] {
	case here, byMessage:
		return false, nil
	case atOwner:
		return true, nil
	case byRequest:
	}
	r, ok := request.(fresh)
	if !ok || remembered(request) {
		return true, nil
	}
	if limit := r.GetMaxStaleness(); limit != nil {
		if err := limit.CheckValid(); err != nil || limit.AsDuration() < 0 {
			return false, &model.FieldError{Field: "max_staleness", Err: engine.ErrInvalidRequest, Got: durationText(limit), Want: "0 or more"}
		}
		if f.cluster.Age() > limit.AsDuration() {
			return true, nil
		}
	}
	if r.GetMinSequence() == 0 || f.owns() {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, awaitHere)
	defer cancel()
	return f.await(ctx, r.GetModel(), keyOf(request), r.GetMinSequence()) != nil, nil
}

// unary answers a call or forwards it. After ErrNotOwner it tries again, within the deadline of the
// call.
func (f *forwarding) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	ofOwner, err := f.ofOwner(ctx, info.FullMethod, request)
	switch {
	case err != nil:
		return nil, err
	case !ofOwner:
		return f.local(ctx, request, info, handle)
	case f.member:
		if !f.becomesOwner(ctx) {
			return nil, f.named(engine.ErrNotOwner)
		}
		answer, err := handle(ctx, request)
		return answer, f.named(err)
	}
	search, cancel := searching(ctx)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		var answer any
		if f.owns() {
			answer, err = handle(ctx, request)
		} else {
			answer, err = f.forward(ctx, search, info.FullMethod, request)
		}
		if err == nil || !notOwner(err) || !sleep(search, pause) {
			return answer, f.named(err)
		}
	}
}

// local answers a read. If this server does not have the model, local asks the owner, because this
// server may lag behind.
func (f *forwarding) local(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	answer, err := handle(ctx, request)
	if f.owns() || f.member {
		return answer, err
	}
	age := f.cluster.Age() // Measured before the answer travels.
	if errors.Is(err, engine.ErrModelNotFound) {
		search, cancel := context.WithTimeout(ctx, awaitHere)
		defer cancel()
		answer, err := f.forward(ctx, search, info.FullMethod, request)
		return answer, f.named(err)
	}
	_ = grpc.SetTrailer(ctx, metadata.Pairs(AgeTrailer, strconv.FormatInt(age.Milliseconds(), 10)))
	return answer, err
}

// forward sends a call to the owner. The context search bounds the wait for an owner.
func (f *forwarding) forward(ctx, search context.Context, method string, request any) (any, error) {
	conn, err := f.conn(search)
	if err != nil {
		return nil, err
	}
	during, end := f.terms.during(ctx, f.cluster)
	defer end()
	answer := f.messages[method].answer.New().Interface()
	var to peer.Peer // It has an address if the call was sent.
	err = conn.Invoke(f.outgoing(during), method, request, answer, grpc.Peer(&to))
	if err := f.judge(ctx, err, to.Addr != nil); err != nil {
		return nil, err
	}
	return answer, nil
}

// conn returns the connection to the owner.
func (f *forwarding) conn(search context.Context) (grpc.ClientConnInterface, error) {
	conn, err := f.cluster.Conn(search)
	if err != nil {
		f.count(forwardNoOwner)
		return nil, fmt.Errorf("%w: %w", engine.ErrNotOwner, err)
	}
	return conn, nil
}

// judge counts a forwarded call and translates its error. It keeps an error of the owner. If the
// connection broke, or another server became the owner, the owner may have made a call that was
// sent.
func (f *forwarding) judge(ctx context.Context, err error, sent bool) error {
	s := status.Convert(err)
	reason := reasonOf(s)
	switch {
	case reason == notOwnerReason:
		f.count(forwardNoOwner)
	case !sent && reason == "" && s.Code() == codes.Unavailable:
		f.count(forwardNoOwner)
		return fmt.Errorf("%w: %s", engine.ErrNotOwner, s.Message())
	case ctx.Err() == nil && (s.Code() == codes.Unavailable && reason == "" || s.Code() == codes.Canceled):
		f.count(forwardUnknown)
		return fmt.Errorf("%w: the owner gave no answer: %s", engine.ErrUnknown, s.Message())
	default:
		f.count(forwardAnswered)
	}
	return err
}

// outgoing returns the context of a forwarded call, with the caller's deadline, principal and
// trace.
func (f *forwarding) outgoing(ctx context.Context) context.Context {
	carried := metadata.MD{}
	addPrincipal(ctx, carried)
	if f.tracing != nil {
		headers := propagation.MapCarrier{}
		f.tracing.w3c.Inject(ctx, headers)
		for key, value := range headers {
			carried.Set(key, value)
		}
	}
	return metadata.NewOutgoingContext(ctx, carried)
}

// searching bounds the wait for an owner. The wait ends before the deadline of the call, so that
// the caller gets ErrNotOwner and not DEADLINE_EXCEEDED.
func searching(ctx context.Context) (context.Context, context.CancelFunc) {
	wait := longestSearch
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(deadline)/10*9)
	}
	return context.WithTimeout(ctx, wait)
}

// sleep waits for a time. It returns false if the context ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// messages are the types of a call's messages.
type messages struct{ request, answer protoreflect.MessageType }

// methodMessages returns the messages of every call of the API. The generated code has registered
// their types.
func methodMessages() map[string]messages {
	typeOf := func(d protoreflect.MessageDescriptor) protoreflect.MessageType {
		t, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
		if err != nil {
			panic("rpc: " + err.Error())
		}
		return t
	}
	out := map[string]messages{}
	for _, service := range services() {
		for n := range service.Methods().Len() {
			m := service.Methods().Get(n)
			out[fmt.Sprintf("/%s/%s", service.FullName(), m.Name())] = messages{typeOf(m.Input()), typeOf(m.Output())}
		}
	}
	return out
}
