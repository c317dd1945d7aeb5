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

// place says which server of a cluster answers a call.
type place int

const (
	// Every server answers from its own state.
	here place = iota
	// The owner answers, because the call changes something, or is about the owner's own.
	atOwner
	// A prediction that is remembered is the owner's, another one is answered here.
	byRequest
	// Each call within the session has its own place.
	byMessage
)

// places is the place of every call of the API.
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
		hindsightv1.ModelService_CompareModels_FullMethodName:     here,
		hindsightv1.ModelService_ValidateSpec_FullMethodName:      here,
		hindsightv1.ModelService_ListLearners_FullMethodName:      here,
		// Each server has snapshots of its own. Those of the owner are the ones to restore from.
		hindsightv1.ModelService_SnapshotModel_FullMethodName: atOwner,
		hindsightv1.ModelService_ListSnapshots_FullMethodName: atOwner,
		hindsightv1.ModelService_RestoreModel_FullMethodName:  atOwner,
		// The export of a moving model is complete at the owner.
		hindsightv1.ModelService_ExportModel_FullMethodName:  atOwner,
		hindsightv1.ModelService_ImportModel_FullMethodName:  atOwner,
		hindsightv1.ModelService_SetAlias_FullMethodName:     atOwner,
		hindsightv1.ModelService_ListAliases_FullMethodName:  here,
		hindsightv1.ModelService_DeleteAlias_FullMethodName:  atOwner,
		hindsightv1.ClusterService_GetCluster_FullMethodName: here,
		hindsightv1.ClusterService_MoveOwner_FullMethodName:  atOwner,
		// The drained server answers.
		hindsightv1.ClusterService_DrainServer_FullMethodName:  here,
		hindsightv1.ClusterService_RemoveServer_FullMethodName: atOwner,
	}
}

const (
	// AgeTrailer is how old the state is at most from which a server that is not the owner
	// answered, in milliseconds.
	AgeTrailer = "hindsight-age-ms"
	// How long a server that is not the owner waits for what it lacks before it asks the owner, and
	// for the owner.
	awaitHere = 250 * time.Millisecond
	// The longest wait of a call for an owner. An election takes some seconds.
	longestSearch = 10 * time.Second
	// The pauses between tries while the next owner is not ready.
	firstPause, longestPause = 5 * time.Millisecond, 100 * time.Millisecond
)

// The results of forwarded calls.
const (
	forwardAnswered = "answered" // The owner answered, or refused.
	forwardNoOwner  = "no_owner" // No server took the call: nothing was changed.
	forwardUnknown  = "unknown"  // The connection to the owner broke.
)

// ForwardResults are those that Options.Forwarded receives.
func ForwardResults() []string { return []string{forwardAnswered, forwardNoOwner, forwardUnknown} }

// ownerError is ErrNotOwner for a client, with the owner if one is known.
type ownerError struct {
	address string
	err     error
}

func (e *ownerError) Error() string {
	if e.address == "" {
		return "no server owns the models now, and nothing was changed"
	}
	return "another server owns the models, and nothing was changed; the owner is " + e.address
}

func (e *ownerError) Unwrap() error { return e.err }

// forwarding sends the calls of the owner to the owner. A nil forwarding is that of a server
// without a cluster: all calls are answered here.
type forwarding struct {
	cluster Cluster
	// member: the calls come from a server of the cluster, and are not forwarded again.
	member   bool
	places   map[string]place
	messages map[string]messages
	await    func(ctx context.Context, name string, sequence uint64) error
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

// close ends what is forwarded.
func (f *forwarding) close() {
	if f != nil {
		f.stop()
		f.watcher.Wait()
		f.receivers.Wait()
	}
}

// owns reports whether this server makes changes.
func (f *forwarding) owns() bool { return f == nil || f.cluster.Owns() }

// becomesOwner reports whether this server makes changes. If another server has sent the call here,
// this one may be about to own the models: it waits, unless another one owns them.
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

// named adds the owner to ErrNotOwner.
func (f *forwarding) named(err error) error {
	if f == nil || !errors.Is(err, engine.ErrNotOwner) {
		return err
	}
	_, address := f.cluster.Owner()
	return &ownerError{address, err}
}

// notOwner reports whether the owner, here or there, was not the owner: nothing was changed.
func notOwner(err error) bool {
	return errors.Is(err, engine.ErrNotOwner) || reasonOf(status.Convert(err)) == notOwnerReason
}

// fresh is a request that may ask for a state.
type fresh interface {
	GetModel() string
	GetMinSequence() uint64
	GetMaxStaleness() *durationpb.Duration
}

// ofOwner reports whether the owner has to answer a request. It waits for the observations of
// min_sequence.
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
	return f.await(ctx, r.GetModel(), r.GetMinSequence()) != nil, nil
}

// unary answers a call here, or forwards it. While the owner is not known or not ready, nothing
// is changed and the call is tried again, within its deadline.
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

// local answers a read. A server that is not the owner may not have a model yet, so the owner alone
// says that a model does not exist.
func (f *forwarding) local(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	answer, err := handle(ctx, request)
	if f.owns() || f.member {
		return answer, err
	}
	age := f.cluster.Age() // Before the answer goes on its way.
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

// conn is the connection to the owner.
func (f *forwarding) conn(search context.Context) (grpc.ClientConnInterface, error) {
	conn, err := f.cluster.Conn(search)
	if err != nil {
		f.count(forwardNoOwner)
		return nil, fmt.Errorf("%w: %w", engine.ErrNotOwner, err)
	}
	return conn, nil
}

// judge counts a forwarded call and translates its error. What the owner says stays as it is. If
// the connection broke, or another server has become the owner, a call that was sent may have been
// made.
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
		return fmt.Errorf("%w: the owner did not answer: %s", engine.ErrUnknown, s.Message())
	default:
		f.count(forwardAnswered)
	}
	return err
}

// outgoing is the context of a forwarded call: the caller's deadline, principal and trace.
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

// searching bounds the wait for an owner. It ends before the deadline of the call, so that the
// caller learns why.
func searching(ctx context.Context) (context.Context, context.CancelFunc) {
	wait := longestSearch
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(deadline)/10*9)
	}
	return context.WithTimeout(ctx, wait)
}

// sleep waits, and returns false if the context ends before.
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

// methodMessages are those of every call of the API. The generated code has registered them.
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
