package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
)

func TestAddress(t *testing.T) {
	for in, want := range map[string]string{
		"localhost": "localhost:50051", "localhost:7": "localhost:7", "10.0.0.1": "10.0.0.1:50051", "10.0.0.1:7": "10.0.0.1:7",
		"::1": "[::1]:50051", "[::1]": "[::1]:50051", "[::1]:7": "[::1]:7", "unix:/run/h.sock": "unix:/run/h.sock", "dns:///h": "dns:///h",
	} {
		got, err := client.Address(in)
		assert.True(t, got == want && err == nil, "%q: %q, %v, want %q", in, got, err, want)
	}
	for in, want := range map[string]string{"": "it is empty", "http://localhost:9464": "it is a URL", "localhost:": "no port", ":": "no port"} {
		_, err := client.Dial(in)
		assert.True(t, err != nil && strings.Contains(err.Error(), want), "%q: %v, want %q", in, err, want)
	}
}

// A lost answer is asked for again under the same id, which is drawn before the first
// try.
func TestRetrySameID(t *testing.T) {
	f := &fake{fault: func(n int, done bool) error {
		if n == 1 && !done || n == 2 && done || n == 4 && done {
			return status.Error(codes.Unavailable, "lost")
		}
		return nil
	}}
	retries := 0
	c := serve(t, f, client.WithRetry(client.Retry{Max: 3, Backoff: time.Millisecond, OnRetry: func(error, time.Duration) { retries++ }}))
	m := c.Model("m")
	p := must(m.Predict(t.Context(), &hindsightv1.PredictRequest{Features: []float64{1, 2}}))(t)
	id, err := uuid.Parse(p.GetPredictionId())
	assert.True(t, err == nil && id.Version() == 7, "id %q: %v", p.GetPredictionId(), err)
	o, err := m.Observe(t.Context(), &hindsightv1.ObserveRequest{Features: []float64{1, 2}, Target: client.Label(0)})
	assert.True(t, err == nil && o.GetDuplicate() && o.GetSequence() == 1, "outcome %v, %v: want the first answer", o, err)
	assert.True(t, retries == 3 && len(f.ids) == 4 && f.ids[0] == f.ids[1] && f.ids[2] == f.ids[3] && f.ids[0] != f.ids[2], "%d retries, ids %q", retries, f.ids)
}

func TestNoRetry(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		calls int
	}{
		"rejected": {reject(codes.InvalidArgument, "NOT_FINITE"), 1},
		"storage":  {reject(codes.Unavailable, "STORAGE_FAILED"), 1},
		"too long": {reject(codes.ResourceExhausted, "PENDING_LIMIT", after(time.Minute)), 1},
		"asked":    {reject(codes.ResourceExhausted, "OVERLOADED", after(time.Millisecond)), 4},
		"lost":     {status.Error(codes.Unavailable, "lost"), 4},
	} {
		f := &fake{fault: func(int, bool) error { return c.err }}
		_, err := serve(t, f).Model("m").Predict(t.Context(), &hindsightv1.PredictRequest{Features: []float64{1}})
		assert.True(t, err != nil && f.calls == c.calls, "%s: %d calls, want %d: %v", name, f.calls, c.calls, err)
	}
}

// The wait grows from try to try, also if the server asks for a short one, and is at least what the server asks for.
func TestWaitGrows(t *testing.T) {
	const first, asked = 4 * time.Millisecond, 5 * time.Millisecond
	f := &fake{fault: func(int, bool) error { return reject(codes.Unavailable, "NOT_OWNER", after(asked)) }}
	var waits []time.Duration
	_, err := serve(t, f, client.WithRetry(client.Retry{Max: 5, Backoff: first, OnRetry: func(_ error, wait time.Duration) {
		waits = append(waits, wait)
	}})).Model("m").Predict(t.Context(), &hindsightv1.PredictRequest{Features: []float64{1}})
	require.True(t, err != nil && len(waits) == 5, "waited %v: %v", waits, err)
	for n, wait := range waits {
		least := max(asked, first<<n/2)
		assert.True(t, wait >= least && wait <= max(asked+asked/10, first<<n), "wait %d is %v, want %v to %v", n, wait, least, first<<n)
	}
}

// A delete without an etag is sent again, one with an etag is not.
func TestDeleteAgain(t *testing.T) {
	for etag, want := range map[string]int{"": 3, "7": 1} {
		calls := 0
		lost := func(context.Context, string, any, any, *grpc.ClientConn, grpc.UnaryInvoker, ...grpc.CallOption) error {
			calls++
			return status.Error(codes.Unavailable, "lost")
		}
		c := serve(t, &fake{}, client.WithRetry(client.Retry{Max: 2, Backoff: time.Millisecond}), client.WithDialOptions(grpc.WithChainUnaryInterceptor(lost)))
		_, err := c.Model("m").Delete(t.Context(), &hindsightv1.DeleteModelRequest{Etag: etag})
		assert.True(t, err != nil && calls == want, "etag %q: %d calls, want %d: %v", etag, calls, want, err)
	}
}

// The deadline of the context bounds all tries, and Stop ends them.
func TestRetryWithinDeadline(t *testing.T) {
	f := &fake{fault: func(int, bool) error { return reject(codes.ResourceExhausted, "OVERLOADED", after(time.Hour)) }}
	c := serve(t, f, client.WithRetry(client.Retry{Max: 3, MaxBackoff: 2 * time.Hour}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := c.Model("m").Predict(ctx, &hindsightv1.PredictRequest{Features: []float64{1}}); !errors.Is(err, client.ErrOverloaded) || f.calls != 1 {
		t.Errorf("%d calls, %v: want no wait beyond the deadline", f.calls, err)
	}
	stop := make(chan struct{})
	close(stop)
	_, err := c.With(client.Retry{Max: 3, MaxBackoff: 2 * time.Hour, Stop: stop}).Model("m").Predict(t.Context(), &hindsightv1.PredictRequest{Features: []float64{1}})
	assert.True(t, errors.Is(err, client.ErrOverloaded) && f.calls == 2, "%d calls, %v: want none after Stop", f.calls, err)
}

// WithTimeout bounds all tries together.
func TestTimeoutBoundsAllTries(t *testing.T) {
	f := &fake{fault: func(int, bool) error { return reject(codes.ResourceExhausted, "OVERLOADED", after(2*time.Minute)) }}
	patient := client.WithRetry(client.Retry{Max: 3, MaxBackoff: time.Hour})
	_, err := serve(t, f, client.WithTimeout(time.Minute), patient).Model("m").Predict(t.Context(), &hindsightv1.PredictRequest{Features: []float64{1}})
	assert.True(t, errors.Is(err, client.ErrOverloaded) && f.calls == 1, "%d calls, %v: want no wait beyond the timeout", f.calls, err)
	var deadlines []time.Time
	lost := func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption) error {
		deadline, _ := ctx.Deadline()
		deadlines = append(deadlines, deadline)
		return status.Error(codes.Unavailable, "lost")
	}
	c := serve(t, f, client.WithTimeout(time.Hour), client.WithRetry(client.Retry{Max: 2, Backoff: time.Millisecond}), client.WithDialOptions(grpc.WithChainUnaryInterceptor(lost)))
	_, err = c.Model("m").Get(t.Context())
	assert.True(t, err != nil && len(deadlines) == 3 && deadlines[2].Sub(deadlines[0]) <= time.Minute, "deadlines %v: %v", deadlines, err)
	endless := client.WithRetry(client.Retry{Max: math.MaxInt, Backoff: time.Millisecond, MaxBackoff: time.Millisecond})
	m := serve(t, &fake{fault: func(int, bool) error { return status.Error(codes.Unavailable, "lost") }}, client.WithTimeout(100*time.Millisecond), endless).Model("m")
	_, err = m.Observe(t.Context(), &hindsightv1.ObserveRequest{Features: []float64{1}, Target: client.Label(1)})
	assert.Error(t, err, "a call without an answer succeeded")
}

func TestErrors(t *testing.T) {
	violation := &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: "features[0]", Description: "got NaN", Reason: "NOT_FINITE"}}}
	f := &fake{fault: func(int, bool) error { return reject(codes.InvalidArgument, "NOT_FINITE", violation) }}
	_, err := serve(t, f).Model("m").Predict(t.Context(), &hindsightv1.PredictRequest{Features: []float64{1}})
	err = fmt.Errorf("round 3: %w", err)
	var e *client.Error
	require.True(t, errors.As(err, &e) && e.Reason == "NOT_FINITE" && e.Code == codes.InvalidArgument && len(e.Violations) == 1 && e.Violations[0].Field == "features[0]", "%#v", err)
	for target, want := range map[error]bool{
		client.ErrNotFinite: true, client.ErrInvalid: true, client.ErrNotFound: false, client.ErrLabelMissing: false,
		client.ErrUnreachable: false, context.DeadlineExceeded: false,
	} {
		assert.Equal(t, want, errors.Is(err, target), "%v %v", err, target)
	}
	got, want := err.Error(), "round 3: rejected (INVALID_ARGUMENT, NOT_FINITE); features[0]: got NaN"
	assert.Equal(t, want, got)
	assert.Equal(t, codes.InvalidArgument, status.Code(err))
	assert.Nil(t, client.FromError(errors.New("other")), "another error is that of a call")
}

// A violation that the message says already is not said again.
func TestViolationsOnce(t *testing.T) {
	s, err := status.New(codes.InvalidArgument, "features: got 1, want 2").WithDetails(&errdetails.BadRequest{
		FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: "features", Description: "got 1, want 2"}},
	})
	require.NoError(t, err)
	assert.Equal(t, "features: got 1, want 2 (INVALID_ARGUMENT)", client.FromError(s.Err()).Error())
}

func TestUnreachable(t *testing.T) {
	var listen net.ListenConfig
	silent := must(listen.Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	defer silent.Close() //nolint:errcheck // the test is over
	gone := must(listen.Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	require.NoError(t, gone.Close())
	for _, l := range []net.Listener{silent, gone} {
		c, err := client.Dial(l.Addr().String(), client.WithTimeout(100*time.Millisecond), client.WithRetry(client.Retry{}))
		require.NoError(t, err)
		_, err = c.Model("m").Get(t.Context())
		assert.True(t, errors.Is(err, client.ErrUnreachable) && client.FromError(err).Address() == l.Addr().String(), "%v", err)
		assert.NoError(t, c.Close())
	}
}

// A label whose prediction is forgotten is learned by its input, once.
func TestLateLabel(t *testing.T) {
	f := &fake{}
	m := serve(t, f).Model("m")
	late := &hindsightv1.ObserveRequest{PredictionId: "old", Features: []float64{1}, Target: client.Label(0)}
	o, err := m.Observe(t.Context(), late)
	assert.True(t, err == nil && o.GetSequence() == 1 && f.learned["old"] != nil, "%v, %v", o, err)
	o, err = m.Observe(t.Context(), late)
	assert.True(t, err == nil && o.GetDuplicate(), "%v, %v", o, err)
	_, err = m.Observe(t.Context(), &hindsightv1.ObserveRequest{PredictionId: "other", Target: client.Class("c")})
	assert.ErrorIs(t, err, client.ErrPredictionNotFound)
}

func TestBatches(t *testing.T) {
	f := &fake{}
	m := serve(t, f).Model("m")
	predictions, err := m.PredictBatch(t.Context(), &hindsightv1.PredictBatchRequest{Rows: []*hindsightv1.Row{{Features: []float64{1}}, {Features: []float64{2}}}})
	assert.True(t, err == nil && predictions[0].GetPredictionId() != predictions[1].GetPredictionId() && predictions[0].GetPredictionId() != "", "%v, %v", predictions, err)
	_, err = m.PredictBatch(t.Context(), &hindsightv1.PredictBatchRequest{Rows: []*hindsightv1.Row{{}}, Remember: new(bool)})
	assert.ErrorIs(t, err, client.ErrProtocol, "a missing answer")
	outcomes, err := m.ObserveBatch(t.Context(), []*hindsightv1.ObserveRequest{
		{Features: []float64{1}, Target: client.Labels(1, 2)}, {Features: []float64{2}, Target: client.Label(0), ObservationId: "mine", Weight: proto.Float64(2)},
	})
	assert.True(t, err == nil && len(outcomes) == 2 && f.order[1] == "mine" && f.order[0] != "", "%v, %v", outcomes, err)
}

func TestListAndWatch(t *testing.T) {
	c := serve(t, &fake{})
	var ids []string
	for m, err := range c.List(t.Context(), nil) {
		require.NoError(t, err)
		ids = append(ids, m.GetId())
	}
	assert.Equal(t, []string{"a", "b", "c"}, ids)
	events := 0
	for event, err := range c.Model("m").Watch(t.Context(), nil) {
		if err != nil {
			assert.ErrorIs(t, err, client.ErrModelNotFound)
			continue
		}
		assert.Equal(t, "m", event.GetStats().GetModel(), event)
		events++
	}
	assert.Equal(t, 3, events)
	_, err := c.Aliases(t.Context())
	assert.ErrorIs(t, err, client.ErrUnimplemented)
}

// Import sends a file again if another server owns the models, and neither a pipe nor another error.
func TestImportAgain(t *testing.T) {
	const size, before = 600_000, 10
	for _, of := range []struct {
		what   string
		from   io.Reader
		reason string
		calls  int
	}{
		{"a file", bytes.NewReader(make([]byte, size)), "NOT_OWNER", 3},
		{"a pipe", io.MultiReader(bytes.NewReader(make([]byte, size))), "NOT_OWNER", 1},
		{"an unknown outcome", bytes.NewReader(make([]byte, size)), "OUTCOME_UNKNOWN", 1},
	} {
		f := &fake{fault: func(n int, done bool) error {
			if n < 3 && !done {
				return reject(codes.Unavailable, of.reason, after(time.Millisecond))
			}
			return nil
		}}
		c := serve(t, f)
		if _, err := io.CopyN(io.Discard, of.from, before); err != nil {
			t.Fatal(err)
		}
		m, err := c.Model("m").Import(t.Context(), of.from)
		assert.True(t, f.calls == of.calls && (err == nil) == (of.calls == 3) && (err != nil || m.GetSequence() == size-before), "%s: %d calls, %v, %v", of.what, f.calls, m, err)
	}
}

// calling calls do with a client of a server that predicts the number of labels so far.
func calling(do func(context.Context, *client.Client) error) {
	var listen net.ListenConfig
	l, err := listen.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer (&fake{}).start(l)()
	c, err := client.Dial(l.Addr().String())
	if err == nil {
		err = errors.Join(do(context.Background(), c), c.Close())
	}
	if err != nil {
		panic(err)
	}
}

// Predict, act, and observe what happened.
func Example() {
	calling(func(ctx context.Context, c *client.Client) error {
		m := c.Model("energy")
		p, err := m.Predict(ctx, &hindsightv1.PredictRequest{Features: []float64{0.1, -0.4}})
		if err != nil {
			return err
		}
		o, err := m.Observe(ctx, &hindsightv1.ObserveRequest{PredictionId: p.GetPredictionId(), Target: client.Label(2.5)})
		if err != nil {
			return err
		}
		fmt.Println("predicted", p.GetValue(), "learned", o.GetSequence())
		return nil
	})
	// Output: predicted 0 learned 1
}

// A label that comes after the server has forgotten the prediction is learned by its
// input. Errors compare by reason.
func ExampleError() {
	calling(func(ctx context.Context, c *client.Client) error {
		m := c.Model("energy")
		_, err := m.Observe(ctx, &hindsightv1.ObserveRequest{PredictionId: "order-7", Target: client.Label(1)})
		var rejected *client.Error
		if errors.Is(err, client.ErrPredictionNotFound) && errors.As(err, &rejected) {
			fmt.Println(rejected.Reason)
		}
		o, err := m.Observe(ctx, &hindsightv1.ObserveRequest{PredictionId: "order-7", Features: []float64{3}, Target: client.Label(1)})
		if err != nil {
			return err
		}
		fmt.Println("learned", o.GetSequence())
		return nil
	})
	// Output:
	// PREDICTION_NOT_FOUND
	// learned 1
}
