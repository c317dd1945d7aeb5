package rpc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/clock"
	"hindsight/internal/engine"
)

type place int

const (
	// Every server answers, whatever groups it has. The handler itself asks other servers if it must.
	anywhere place = iota
	// Every server with a copy of the group answers from its own state.
	here
	// The owner answers: the call changes something, lets followers learn, or needs what only the owner has, such as the
	// snapshots that a restore uses.
	atOwner
	// The owner answers a prediction that is remembered. This server answers other predictions.
	byRequest
)

// placeOf returns the place of a call. Calls of health and reflection are no calls of the API.
func (f *forwarding) placeOf(method string) place {
	switch method {
	case hindsightv1.PredictionService_Predict_FullMethodName, hindsightv1.PredictionService_PredictBatch_FullMethodName:
		return byRequest
	case hindsightv1.ModelService_GetModel_FullMethodName, hindsightv1.ModelService_GetModelStats_FullMethodName,
		hindsightv1.ModelService_GetModelHistory_FullMethodName, hindsightv1.ModelService_WatchModel_FullMethodName:
		return here
	case hindsightv1.ModelService_ListModels_FullMethodName, hindsightv1.ModelService_ListAliases_FullMethodName,
		hindsightv1.ModelService_ValidateSpec_FullMethodName, hindsightv1.ModelService_InferSpec_FullMethodName,
		hindsightv1.ModelService_ListLearners_FullMethodName, hindsightv1.ClusterService_GetCluster_FullMethodName,
		hindsightv1.ClusterService_DrainServer_FullMethodName: // It goes to the server that the request names.
		return anywhere
	}
	if r := f.rules[method]; r == nil || r.request == nil {
		return anywhere
	}
	return atOwner
}

const (
	// AgeTrailer bounds the age, in milliseconds, of the state from which a server that is not the
	// owner has answered.
	AgeTrailer = "hindsight-age-ms"
	// ForwardedKey is the trailer with the group of a call that this server has forwarded to the group's
	// owner. A client may send further calls of the group to other servers, until it finds the owner.
	ForwardedKey = "hindsight-forwarded"
	// A server that is not the owner waits awaitHere for observations that it lacks, before it asks
	// the owner. A read waits as long for an owner.
	awaitHere = 250 * time.Millisecond
	// A call waits at most longestSearch for an owner. An election takes some seconds.
	longestSearch = 10 * time.Second
	// The pauses between tries grow from firstPause to longestPause.
	firstPause, longestPause = 5 * time.Millisecond, 100 * time.Millisecond
	// A previous owner has graceTime to answer its last calls.
	graceTime = 500 * time.Millisecond
)

// ownerError is ErrNotOwner for a client. It names the owner if this server knows one.
type ownerError struct{ address string }

func (e *ownerError) Error() string {
	if e.address == "" {
		return "no server owns the models at present; nothing was changed"
	}
	return "another server owns the models; nothing was changed; the owner is " + e.address
}

func (e *ownerError) Unwrap() error { return engine.ErrNotOwner }

// forwarding forwards calls to the owners of groups. A server without a cluster has a nil forwarding,
// and answers all calls itself.
type forwarding struct {
	groups hosts
	// member: the calls come from other servers of the cluster. forwarding does not forward them
	// again.
	member   bool
	rules    map[string]*rule
	tracing  *tracing
	draining chan struct{}
}

func newForwarding(o *Options, t *tracing, draining chan struct{}, member bool) *forwarding {
	if g, _ := o.Groups.Numbered(0); g.Cluster == nil {
		return nil
	}
	return &forwarding{
		groups: hosts{o.Groups}, member: member, rules: rules(), tracing: t, draining: draining,
	}
}

// confirm reports whether this server is the owner of a group, and its engine has taken over the changes of earlier owners.
func confirm(ctx context.Context, g Group) bool {
	return g.Cluster.Confirm(ctx) && (g.Engine == nil || g.Engine.AwaitChanges(ctx) == nil)
}

// becomesOwner reports whether this server is the owner of a group. A call that another server
// has forwarded may arrive just before this server owns the models. So becomesOwner waits up to
// graceTime for such a call, unless another server owns the models.
func (f *forwarding) becomesOwner(ctx context.Context, g Group) bool {
	if owns := confirm(ctx, g); owns || !f.member {
		return owns
	}
	ctx, cancel := context.WithTimeout(ctx, graceTime)
	defer cancel()
	for {
		turned := g.Cluster.Turned()
		owner, _ := g.Cluster.Owner()
		if owns := confirm(ctx, g); owns || owner != "" {
			return owns
		}
		select {
		case <-turned:
		case <-ctx.Done():
			return false
		}
	}
}

func (f *forwarding) named(g Group, err error) error {
	if f == nil || !errors.Is(err, engine.ErrNotOwner) {
		return err
	}
	_, address := g.Cluster.Owner()
	return &ownerError{address}
}

// absent returns errAbsent for the error of a closed engine: this server has no copy of the group, or
// opens the store of the group again. The engine has changed nothing.
func (f *forwarding) absent(err error) error {
	if f != nil && errors.Is(err, engine.ErrClosed) {
		return errAbsent
	}
	return err
}

// notOwner reports whether an error is ErrNotOwner, of this server or of another one. Nothing was
// changed then.
func notOwner(err error) bool {
	return errors.Is(err, engine.ErrNotOwner) || reasonOf(status.Convert(err)) == hindsightv1.ErrorReason_NOT_OWNER.String()
}

// fresh is a request that may bound the sequence and the age of the state.
type fresh interface {
	GetModel() string
	GetMinSequence() uint64
	GetMaxStaleness() *durationpb.Duration
}

// ownerMustAnswer reports whether the owner of a group must answer a request. It waits up to awaitHere for
// the observations of min_sequence, and of a log that max_staleness accepts.
func (f *forwarding) ownerMustAnswer(ctx context.Context, g Group, method string, request any) (bool, error) {
	switch f.placeOf(method) {
	case anywhere, here:
		return false, nil
	case atOwner:
		return true, nil
	case byRequest:
	}
	r, ok := request.(fresh)
	if !ok || remembered(request) || g.Engine == nil {
		return true, nil
	}
	if limit := r.GetMaxStaleness(); limit != nil {
		if err := limit.CheckValid(); err != nil || limit.AsDuration() < 0 {
			return false, engine.Invalid("max_staleness", durationText(limit), "0 or more")
		}
		if g.Cluster.Age() > limit.AsDuration() {
			return true, nil
		}
	}
	limited := r.GetMaxStaleness() != nil
	if !limited && r.GetMinSequence() == 0 || g.Cluster.Confirm(ctx) {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, awaitHere)
	defer cancel()
	if limited && g.Engine.AwaitLog(ctx, r.GetModel()) != nil {
		return true, nil // The log is young enough, and the state lags behind the log.
	}
	return g.Engine.Await(ctx, r.GetModel(), r.GetMinSequence()) != nil, nil
}

func (f *forwarding) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if f.placeOf(info.FullMethod) == anywhere {
		return handle(ctx, request)
	}
	g, exists := f.groups.of(request)
	if !exists {
		return handle(ctx, request) // The handler rejects the number of the group.
	}
	owner, err := f.ownerMustAnswer(ctx, g, info.FullMethod, request)
	switch {
	case err != nil:
		return nil, err
	case !owner:
		return f.answerHere(ctx, g, request, info, handle)
	case f.member:
		if !f.becomesOwner(ctx, g) {
			return nil, f.named(g, engine.ErrNotOwner)
		}
		answer, err := handle(ctx, request)
		return answer, f.named(g, f.absent(err))
	}
	search, cancel := searching(ctx)
	defer cancel()
	return f.byOwner(ctx, search, g, request, info.FullMethod, handle)
}

// byOwner lets the owner of a group answer a call. After ErrNotOwner it tries again, until the
// context search ends. This server answers by handle if it is the owner. A nil handle always
// forwards.
func (f *forwarding) byOwner(
	ctx, search context.Context, g Group, request any, method string, handle grpc.UnaryHandler, options ...grpc.CallOption,
) (answer any, err error) {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		if handle != nil && confirm(ctx, g) {
			answer, err = handle(ctx, request)
			err = f.absent(err)
		} else {
			answer, err = f.forward(ctx, search, g, method, request, options...)
			if handle != nil && err == nil {
				_ = grpc.SetTrailer(ctx, forwardedBy(g))
			}
		}
		if err == nil || !notOwner(err) || !clock.Sleep(search, pause) {
			return answer, f.named(g, err)
		}
	}
}

// answerHere answers a read. If this server does not have the model, answerHere asks the owner, because this
// server may lag behind. Another server forwards a read only for the state of the owner.
func (f *forwarding) answerHere(ctx context.Context, g Group, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	owns := f.becomesOwner(ctx, g)
	if f.member && !owns {
		return nil, f.named(g, engine.ErrNotOwner)
	}
	age := g.Cluster.Age() // Before handle reads the state, which may be newer then.
	answer, err := handle(ctx, request)
	err = f.absent(err)
	absent := errors.Is(err, errAbsent)
	if f.member || owns && !absent {
		return answer, f.named(g, err)
	}
	if absent {
		search, cancel := searching(ctx)
		defer cancel()
		return f.byOwner(ctx, search, g, request, info.FullMethod, handle)
	}
	if errors.Is(err, engine.ErrModelNotFound) {
		search, cancel := context.WithTimeout(ctx, awaitHere)
		defer cancel()
		answer, err := f.forward(ctx, search, g, info.FullMethod, request)
		if err == nil {
			_ = grpc.SetTrailer(ctx, forwardedBy(g))
		}
		return answer, f.named(g, err)
	}
	setAge(ctx, age)
	return answer, err
}

func setAge(ctx context.Context, age time.Duration) {
	_ = grpc.SetTrailer(ctx, metadata.Pairs(AgeTrailer, strconv.FormatInt(age.Milliseconds(), 10)))
}

func forwardedBy(g Group) metadata.MD {
	return metadata.Pairs(ForwardedKey, strconv.FormatUint(uint64(g.Number), 10))
}

// forward sends a call to the owner of a group. The context search bounds the wait for an owner.
func (f *forwarding) forward(ctx, search context.Context, g Group, method string, request any, options ...grpc.CallOption) (any, error) {
	conn, owner, err := f.conn(search, g)
	if err != nil {
		return nil, err
	}
	during, end := f.underOwner(ctx, g, owner, nil)
	defer end()
	answer := f.rules[method].answer.New().Interface()
	var to peer.Peer // It has an address if the call was sent.
	err = conn.Invoke(f.outgoing(during, g), method, request, answer, append(options, grpc.Peer(&to), grpc.MaxCallRecvMsgSize(math.MaxInt32))...)
	if err := f.translate(ctx, err, to.Addr != nil); err != nil {
		return nil, err
	}
	return answer, nil
}

// underOwner returns the context of a call to an owner of a group. It ends, after graceTime, once another server is the
// owner: a previous owner that hangs never answers, and the log rejects its changes. It also ends when draining closes.
func (f *forwarding) underOwner(ctx context.Context, g Group, called string, draining <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			turned := g.Cluster.Turned()
			_, owner := g.Cluster.Owner()
			if owner != "" && owner != called {
				clock.Sleep(ctx, graceTime)
				cancel()
			}
			select {
			case <-turned:
			case <-draining:
				cancel()
			case <-ctx.Done():
			}
		}
	}()
	return ctx, func() { cancel(); <-ended }
}

// conn returns a connection to the owner of a group, and the owner's address: unlike the id, a server that is no member of the
// group knows the address too.
func (f *forwarding) conn(search context.Context, g Group) (conn grpc.ClientConnInterface, owner string, err error) {
	for {
		_, owner = g.Cluster.Owner()
		if conn, err = g.Cluster.Conn(search); err != nil {
			return nil, "", fmt.Errorf("%w: %w", engine.ErrNotOwner, err)
		}
		if _, now := g.Cluster.Owner(); now == owner && now != "" { // Otherwise the connection may be to another owner.
			return conn, owner, nil
		}
	}
}

// translate maps the error of a forwarded call. It keeps an error of the owner. If the
// connection broke, or another server became the owner, the owner may have made a call that was
// sent.
func (f *forwarding) translate(ctx context.Context, err error, sent bool) error {
	s := status.Convert(err)
	reason := reasonOf(s)
	switch {
	case reason == hindsightv1.ErrorReason_NOT_OWNER.String():
		return err
	case !sent && reason == "" && s.Code() == codes.Unavailable:
		return fmt.Errorf("%w: %s", engine.ErrNotOwner, s.Message())
	case ctx.Err() == nil && (s.Code() == codes.Unavailable && reason == "" || s.Code() == codes.Canceled):
		return fmt.Errorf("%w: the owner gave no answer: %s", engine.ErrUnknown, s.Message())
	}
	return err
}

// outgoing returns the context of a forwarded call to a group, with the caller's deadline, principal
// and trace.
func (f *forwarding) outgoing(ctx context.Context, g Group) context.Context {
	carried := metadata.MD{}
	addPrincipal(ctx, carried)
	if g.Number != 0 {
		carried.Set(groupKey, strconv.FormatUint(uint64(g.Number), 10))
	}
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
