package rpc_test

import (
	"context"
	"math"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/auth"
	"hindsight/internal/engine"
	"hindsight/internal/engine/storage"
	"hindsight/internal/rpc"
)

// pair is two servers with separate stores. One owns the models. A forwarded call changes only the
// store of the owner.
type pair struct {
	owner, replica     *service
	ofOwner, ofReplica *fakeCluster
}

func servePair(t *testing.T, settings ...func(*rpc.Options)) *pair {
	t.Helper()
	p := &pair{ofOwner: new(fakeCluster), ofReplica: new(fakeCluster)}
	p.ofOwner.owns.Store(true)
	p.owner = serve(t, func(o *rpc.Options) { rpc.WithCluster(o, p.ofOwner) })
	listener := must(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	var served sync.WaitGroup
	served.Go(func() { assert.NoError(t, p.owner.server.ServeMembers(listener)) })
	t.Cleanup(func() { p.owner.end(); served.Wait() })
	conn := must(grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	p.ofReplica.conn.Store(conn)
	p.replica = serve(t, append(settings, func(o *rpc.Options) { rpc.WithCluster(o, p.ofReplica) })...)
	t.Cleanup(func() {
		p.replica.end()
		assert.NoError(t, conn.Close())
	})
	return p
}

// both creates the model m at both servers, as a replica has it.
func (p *pair) both(t *testing.T) {
	t.Helper()
	p.owner.create(t, "m", linear(2))
	p.ofReplica.owns.Store(true)
	p.replica.create(t, "m", linear(2))
	p.ofReplica.owns.Store(false)
}

func observation(n int) *hindsightv1.ObserveRequest {
	return &hindsightv1.ObserveRequest{Model: "m", ObservationId: "o-" + strconv.Itoa(n), Features: []float64{1, float64(n)}, Target: label(float64(n))}
}

// A server that is not the owner sends changes to the owner, and answers reads itself.
func TestCallsAreForwarded(t *testing.T) {
	p := servePair(t)
	p.both(t)
	ctx := t.Context()
	for n := range 3 {
		var there, here metadata.MD
		r, err := p.replica.Observe(ctx, observation(n), grpc.Trailer(&there))
		require.True(t, err == nil && r.GetOutcome().GetSequence() == uint64(n+1) && slices.Equal(there.Get(rpc.ForwardedKey), []string{"0"}), "observe: %v, %v, trailer %v", r, err, there)
		r, err = p.owner.Observe(ctx, observation(n), grpc.Trailer(&here))
		require.True(t, err == nil && r.GetOutcome().GetDuplicate() && len(here.Get(rpc.ForwardedKey)) == 0, "observe at the owner: %v, %v, trailer %v", r, err, here)
	}
	if r, err := p.replica.ObserveBatch(ctx, &hindsightv1.ObserveBatchRequest{Model: "m", Observations: []*hindsightv1.ObserveRequest{observation(2), observation(3)}}); err != nil ||
		!r.GetOutcomes()[0].GetDuplicate() || r.GetOutcomes()[1].GetSequence() != 4 {
		t.Errorf("a batch: %v, %v", r, err)
	}
	sequence := func(s *service) uint64 {
		r := must(s.models.GetModel(ctx, &hindsightv1.GetModelRequest{Model: "m"}))(t)
		return r.GetModel().GetSequence()
	}
	here, there := sequence(p.replica), sequence(p.owner)
	assert.True(t, here == 0 && there == 4, "%d observations here and %d at the owner, want 0 and 4", here, there)
	for age, want := range map[time.Duration]uint64{time.Minute: 0, math.MaxInt64: 4} { // No owner has confirmed the state.
		p.ofReplica.age.Store(int64(age))
		r, err := p.replica.models.ListModels(ctx, &hindsightv1.ListModelsRequest{})
		assert.True(t, err == nil && r.GetModels()[0].GetSequence() == want, "a list at age %v: %v, %v", age, r, err)
	}
	for remember, want := range map[bool]uint64{true: 4, false: 0} {
		var trailer metadata.MD
		p.ofReplica.age.Store(int64(1500 * time.Millisecond))
		r, err := p.replica.Predict(ctx, &hindsightv1.PredictRequest{Model: "m", Features: []float64{1, 2}, Remember: &remember}, grpc.Trailer(&trailer))
		assert.True(t, err == nil && r.GetPrediction().GetStateSequence() == want && (r.GetPrediction().GetPredictionId() != "") == remember, "remember %t: %v, %v", remember, r, err)
		age := trailer.Get(rpc.AgeTrailer)
		assert.True(t, len(age) > 0 != remember && (remember || age[0] == "1500"), "remember %t: age %v", remember, age)
		b, err := p.replica.PredictBatch(ctx, &hindsightv1.PredictBatchRequest{Model: "m", Rows: []*hindsightv1.Row{{Features: []float64{1, 2}}}, Remember: &remember})
		assert.True(t, err == nil && b.GetPredictions()[0].GetStateSequence() == want, "a batch, remember %t: %v, %v", remember, b, err)
	}
	// A rejection of the owner arrives unchanged.
	_, err := p.replica.Observe(ctx, &hindsightv1.ObserveRequest{Model: "m", Features: []float64{1}, Target: label(1)})
	assert.Equal(t, "DIMENSION_MISMATCH", reason(status.Convert(err)), err)
	// A call from within the process, as JSON makes it, is forwarded too.
	var created hindsightv1.CreateModelResponse
	require.NoError(t, p.replica.local().Invoke(ctx, hindsightv1.ModelService_CreateModel_FullMethodName, &hindsightv1.CreateModelRequest{Id: "n", Spec: linear(1)}, &created))
	var trailer metadata.MD
	var predicted hindsightv1.PredictResponse
	request := &hindsightv1.PredictRequest{Model: "m", Features: []float64{1, 2}, Remember: proto.Bool(false)}
	err = p.replica.local().Invoke(ctx, hindsightv1.PredictionService_Predict_FullMethodName, request, &predicted, grpc.Trailer(&trailer))
	age := trailer.Get(rpc.AgeTrailer)
	assert.True(t, err == nil && len(age) == 1 && age[0] == "1500", "a prediction from within: age %v, %v", age, err)
	// The replica does not have the new model, and asks the owner.
	r, err := p.replica.models.GetModel(ctx, &hindsightv1.GetModelRequest{Model: "n"})
	assert.True(t, err == nil && r.GetModel().GetId() == "n", "a new model: %v, %v", r, err)
	r, err = p.replica.models.GetModel(ctx, &hindsightv1.GetModelRequest{Model: "none"})
	assert.Equal(t, "MODEL_NOT_FOUND", reason(status.Convert(err)), "no model: %v, %v", r, err)
}

// A request may ask for a state that the replica does not have.
func TestFreshness(t *testing.T) {
	p := servePair(t)
	p.both(t)
	must(p.owner.Observe(t.Context(), observation(1)))(t)
	p.ofReplica.age.Store(int64(time.Second))
	for name, c := range map[string]struct {
		sequence  uint64
		staleness *durationpb.Duration
		want      uint64
	}{
		"any":         {0, nil, 0},
		"sequence":    {1, nil, 1},
		"young":       {0, durationpb.New(time.Millisecond), 1},
		"old":         {0, durationpb.New(time.Minute), 0},
		"young, zero": {0, durationpb.New(0), 1},
	} {
		r, err := p.replica.Predict(t.Context(), &hindsightv1.PredictRequest{
			Model: "m", Features: []float64{1, 2}, Remember: proto.Bool(false), MinSequence: c.sequence, MaxStaleness: c.staleness,
		})
		assert.True(t, err == nil && r.GetPrediction().GetStateSequence() == c.want, "%s: %v, %v, want sequence %d", name, r, err, c.want)
	}
	for name, bad := range map[string]*durationpb.Duration{"negative": {Seconds: -1}, "invalid": {Nanos: -1, Seconds: 1}} {
		_, err := p.replica.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "m", Features: []float64{1, 2}, Remember: proto.Bool(false), MaxStaleness: bad})
		assert.Equal(t, "INVALID_REQUEST", reason(status.Convert(err)), "%v %v", name, err)
	}
}

// An export is read from the owner and an import goes there.
func TestTransfersAreForwarded(t *testing.T) {
	p := servePair(t)
	p.owner.create(t, "m", linear(2))
	must(p.owner.Observe(t.Context(), observation(1)))(t)
	data := p.replica.export(t, "m")
	load := func(id string) (*hindsightv1.ImportModelResponse, error) {
		load := must(p.replica.models.ImportModel(t.Context()))(t)
		require.NoError(t, load.Send(&hindsightv1.ImportModelRequest{Id: id}))
		if id == "new" {
			if _, err := load.Header(); err != nil { // The chunks may follow.
				t.Fatal(err)
			}
		}
		for chunk := range slices.Chunk(data, 100) {
			if err := load.Send(&hindsightv1.ImportModelRequest{Chunk: chunk}); err != nil {
				break // CloseAndRecv says why.
			}
		}
		return load.CloseAndRecv()
	}
	r, err := load("new")
	assert.True(t, err == nil && r.GetModel().GetSequence() == 1, "import: %v, %v", r, err)
	assert.NoError(t, errOf(p.owner.models.GetModel(t.Context(), &hindsightv1.GetModelRequest{Model: "new"})))
	_, err = load("-")
	assert.Equal(t, "INVALID_ID", reason(status.Convert(err)), err)
	_, err = load("m")
	assert.Equal(t, "MODEL_EXISTS", reason(status.Convert(err)), err)
}

// Without an owner, changes wait within their deadline, and reads are answered. The log has no error.
func TestNoOwner(t *testing.T) {
	core, lines := observer.New(zap.ErrorLevel)
	p := servePair(t, func(o *rpc.Options) { o.Log = zap.New(core) })
	p.both(t)
	conn := p.ofReplica.conn.Swap(nil)
	err := inTime(t, func(ctx context.Context) error { return errOf(p.replica.Observe(ctx, observation(1))) })
	s := status.Convert(err)
	if s.Code() != codes.Unavailable || reason(s) != "NOT_OWNER" || !slices.ContainsFunc(s.Details(), func(d any) bool {
		_, ok := d.(*errdetails.RetryInfo)
		return ok
	}) {
		t.Errorf("observe: %v", err)
	}
	r, err := p.replica.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "m", Features: []float64{1, 2}, Remember: proto.Bool(false)})
	assert.NoError(t, err, "predict: %v", r)
	// The owner alone knows that a model does not exist.
	_, err = p.replica.models.GetModel(t.Context(), &hindsightv1.GetModelRequest{Model: "n"})
	assert.Equal(t, "NOT_OWNER", reason(status.Convert(err)), "no model: %v", err)
	answered := make(chan error, 1)
	go func() {
		_, err := p.replica.Observe(t.Context(), observation(1))
		answered <- err
	}()
	p.ofReplica.conn.Store(conn)
	// The context ends the first search for an owner. The next search finds the owner.
	err = <-answered
	assert.True(t, err == nil || reason(status.Convert(err)) == "NOT_OWNER", "observe after an election: %v", err)
	// An owner that is not ready yet is asked again.
	p.ofOwner.owns.Store(false)
	err = inTime(t, func(ctx context.Context) error { return errOf(p.replica.Observe(ctx, observation(1))) })
	assert.True(t, reason(status.Convert(err)) == "NOT_OWNER" && lines.Len() == 0, "an owner that is not ready: %v, lines %v", err, lines.All())
	go func() {
		_, err := p.replica.Observe(t.Context(), observation(2))
		answered <- err
	}()
	p.ofOwner.owns.Store(true)
	assert.NoError(t, <-answered)
}

// heldModel is a model of a change that an engine cannot take over before a test continues.
type heldModel struct {
	storage.Model
	goOn chan struct{}
}

func (heldModel) Number() uint64 { return 1000 }

func (m heldModel) Value() ([]byte, error) { <-m.goOn; return nil, storage.ErrDeleted }

// A list lacks nothing that a cluster acknowledged before: neither a server that leads, but has not applied all earlier
// changes, answers a list of a server that has just started, nor an engine that has not taken over an applied change.
func TestAListLacksNothing(t *testing.T) {
	p := servePair(t)
	p.owner.create(t, "m", linear(2))
	list := func(ctx context.Context, s *service) (n int, err error) {
		r, err := s.models.ListModels(ctx, &hindsightv1.ListModelsRequest{})
		return len(r.GetModels()), err
	}
	p.ofReplica.age.Store(math.MaxInt64) // No owner has confirmed the state.
	p.ofOwner.owns.Store(false)
	var n int
	err := inTime(t, func(ctx context.Context) (err error) {
		n, err = list(ctx, p.replica)
		return err
	})
	assert.True(t, err == nil && n == 0, "a server that has not applied all changes answers: %d models, %v", n, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		n, err := list(t.Context(), p.replica)
		assert.True(t, err == nil && n == 1, "%d models, %v", n, err)
	}()
	p.ofOwner.owns.Store(true)
	<-done
	held := heldModel{goOn: make(chan struct{})}
	replica := serveOver(t, vfs.NewMem(), func(o *engine.Options) { o.Owner = func() bool { return false } }, func(o *rpc.Options) {
		rpc.WithCluster(o, new(fakeCluster))
		o.Groups.Of("").Engine.Changed(storage.Change{Kind: storage.Created, Name: "n", Model: held})
	})
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = list(short, replica)
	assert.Equal(t, codes.DeadlineExceeded, status.Code(err), "an engine lists before it has taken over a change")
	close(held.goOn)
	assert.NoError(t, errOf(list(t.Context(), replica)))
}

// If the connection breaks during a call, the owner may have made the call. Without a connection
// the owner has not made the call.
func TestTheOwnerDies(t *testing.T) {
	listener := must(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	called := make(chan struct{})
	dying := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		close(called)
		<-stream.Context().Done()
		return nil
	}))
	var served sync.WaitGroup
	served.Go(func() { _ = dying.Serve(listener) })
	t.Cleanup(func() { dying.Stop(); served.Wait() })
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	p := servePair(t)
	p.replica.end()
	p.ofReplica = new(fakeCluster)
	p.ofReplica.conn.Store(conn)
	p.replica = serve(t, func(o *rpc.Options) { rpc.WithCluster(o, p.ofReplica) })
	t.Cleanup(func() { p.replica.end(); _ = conn.Close() })
	go func() {
		<-called
		dying.Stop()
	}()
	_, err = p.replica.Observe(t.Context(), observation(1))
	assert.Equal(t, "OUTCOME_UNKNOWN", reason(status.Convert(err)), "the connection broke: %v", err)
	err = inTime(t, func(ctx context.Context) error { return errOf(p.replica.Observe(ctx, observation(1))) })
	assert.Equal(t, "NOT_OWNER", reason(status.Convert(err)), err)
}

// inTime calls a server that answers before the deadline. On a busy machine the answer of a short deadline comes too late.
func inTime(t *testing.T, call func(context.Context) error) error {
	t.Helper()
	for wait := 200 * time.Millisecond; ; wait *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		err := call(ctx)
		cancel()
		if status.Code(err) != codes.DeadlineExceeded || wait > time.Minute {
			return err
		}
	}
}

// A call to an owner that hangs ends when another server has become the owner, and not when this server joins the group and
// learns the owner's id.
func TestTheOwnerHangs(t *testing.T) {
	listener := must(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	called, ended := make(chan struct{}, 2), make(chan struct{}, 2)
	hung := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		called <- struct{}{}
		<-stream.Context().Done()
		ended <- struct{}{}
		return nil
	}))
	var served sync.WaitGroup
	served.Go(func() { _ = hung.Serve(listener) })
	t.Cleanup(func() { hung.Stop(); served.Wait() })
	conn := must(grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	c := new(fakeCluster)
	c.conn.Store(conn)
	s := serve(t, func(o *rpc.Options) { rpc.WithCluster(o, c) })
	t.Cleanup(func() { s.end(); _ = conn.Close() })
	stream, err := s.models.ExportModel(t.Context(), &hindsightv1.ExportModelRequest{Model: "m"})
	require.NoError(t, err)
	var turned sync.WaitGroup
	turned.Go(func() {
		<-called
		<-called
		c.turn(&c.member)
		select {
		case <-ended:
			t.Error("a call ended while the owner stayed")
		case <-time.After(time.Second):
		}
		c.turn(&c.other)
	})
	_, err = s.Observe(t.Context(), observation(1))
	assert.Equal(t, "OUTCOME_UNKNOWN", reason(status.Convert(err)), "observe: %v", err)
	_, err = stream.Recv()
	assert.Equal(t, "OUTCOME_UNKNOWN", reason(status.Convert(err)), "export: %v", err)
	turned.Wait()
}

// A principal is authenticated where its call came in, and its limits hold at the owner. Metadata
// of a caller outside of the cluster names no principal.
func TestThePrincipalIsForwarded(t *testing.T) {
	known := auth.New(auth.Options{Now: time.Now})
	known.Set([]auth.Entry{who("scoped", auth.Admin, "mine-"), who("reader", auth.Read), who("all", auth.Admin)})
	var mu sync.Mutex
	audit := map[string]string{}
	p := servePair(t, func(o *rpc.Options) {
		o.Auth, o.Now = known, time.Now
		o.Audit = func(r *auth.Record) {
			mu.Lock()
			defer mu.Unlock()
			if r.Who == nil {
				return
			}
			audit[r.Who.Name+" "+r.Call[len("/hindsight.v1."):]] = r.Outcome + " " + r.Reason
		}
	})
	p.owner.create(t, "theirs", linear(2))
	create := func(as_, id, follows string) error {
		return errOf(p.replica.models.CreateModel(as(t.Context(), as_), &hindsightv1.CreateModelRequest{Id: id, Spec: linear(2), Follows: follows}))
	}
	assert.NoError(t, create("scoped", "mine-1", ""))
	err := create("scoped", "theirs", "")
	assert.Equal(t, "MODEL_OUT_OF_SCOPE", reason(status.Convert(err)), err)
	err = create("reader", "mine-2", "")
	assert.Equal(t, "ROLE_TOO_LOW", reason(status.Convert(err)), err)
	// The alias is known to the owner alone, which checks its target.
	must(p.owner.models.SetAlias(t.Context(), &hindsightv1.SetAliasRequest{Alias: "mine-alias", Model: "theirs"}))(t)
	o := observation(1)
	o.Model = "mine-alias"
	_, err = p.replica.Observe(as(t.Context(), "scoped"), o)
	assert.Equal(t, "MODEL_OUT_OF_SCOPE", reason(status.Convert(err)), err)
	_, err = p.replica.models.DeleteModel(as(t.Context(), "all"), &hindsightv1.DeleteModelRequest{Model: "none"})
	assert.Equal(t, "MODEL_NOT_FOUND", reason(status.Convert(err)), err)
	forged := metadata.AppendToOutgoingContext(t.Context(), "hindsight-principal-bin", `{"name":"forged","role":3}`)
	_, err = p.replica.models.DeleteModel(forged, &hindsightv1.DeleteModelRequest{Model: "theirs"})
	assert.Equal(t, "TOKEN_MISSING", reason(status.Convert(err)), err)
	_, err = p.replica.cluster.MoveOwner(as(t.Context(), "scoped"), &hindsightv1.MoveOwnerRequest{})
	assert.Equal(t, "MODEL_OUT_OF_SCOPE", reason(status.Convert(err)), err)
	mu.Lock()
	defer mu.Unlock()
	for call, want := range map[string]string{
		"scoped ModelService/CreateModel": "PERMISSION_DENIED MODEL_OUT_OF_SCOPE", "all ModelService/DeleteModel": "NOT_FOUND MODEL_NOT_FOUND",
	} {
		assert.Equal(t, want, audit[call], call)
	}
}
