package load_test

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
	"hindsight/cmd/research/echo"
	"hindsight/cmd/research/load"
)

// stall is an interceptor that answers at once, but one call after a time.
type stall struct {
	at   int64
	long time.Duration
	seen atomic.Int64
}

func (s *stall) unary(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if s.seen.Add(1) == s.at {
		time.Sleep(s.long) // In the bubble's time.
	}
	return handle(ctx, request)
}

// serve serves calls of an echo over pipes in memory, calls do with a connection to it,
// and ends all.
func serve(t *testing.T, server *grpc.Server, do func(*client.Client)) {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	c, err := client.Dial("passthrough:memory", client.WithRetry(client.Retry{}), client.WithDialOptions(
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) })))
	if err != nil {
		t.Fatal(err)
	}
	do(c)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	server.Stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// rows are observations of a spec.
func rows() []load.Row { return load.Rows(&hindsightv1.ModelSpec{Dimension: 3}, 16, 1) }

// A server that stalls for 500 ms delays the 50 calls that are due meanwhile. In an open
// loop of 100 calls a second by one caller they wait 500, 490, ... 10 ms. The times that
// they were served in say nothing of it.
func TestCoordinatedOmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stall{at: 21, long: 500 * time.Millisecond}
		serve(t, echo.New(grpc.UnaryInterceptor(s.unary)), func(c *client.Client) {
			l := load.New(load.Target{Clients: []*client.Client{c}, Models: []string{"m"}, Rows: rows()})
			r, err := l.Run(t.Context(), load.Options{Mix: load.Mix{Predict: 1}, Rate: 100, Callers: 1, Duration: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			if r.Calls != 100 || len(r.Errors) != 0 || len(r.Operations) != 1 || r.Operations[0].Latency.Count != 100 {
				t.Fatalf("%+v", r)
			}
			// 50 of the 100 calls wait 10, 20, ... 500 ms, the others not at all.
			latency, served := r.Operations[0].Latency, r.Operations[0].Service
			near(t, "latency p50", latency.P50, 0)
			near(t, "latency p90", latency.P90, 400*time.Millisecond)
			near(t, "latency p99", latency.P99, 490*time.Millisecond)
			near(t, "latency max", latency.Max, 500*time.Millisecond)
			near(t, "service p99", served.P99, 0)
			near(t, "service max", served.Max, 500*time.Millisecond)
		})
	})
}

// near compares a duration with the precision of the histogram.
func near(t *testing.T, what string, seconds float64, want time.Duration) {
	t.Helper()
	got := time.Duration(seconds * float64(time.Second))
	if d := got - want; max(d, -d) > want/500+time.Microsecond {
		t.Errorf("%s %v, want %v", what, got, want)
	}
}

// A server that takes 100 ms a call serves 10 of 100 calls a second to one caller. What is
// due and not sent when twice the time has passed is told, with what it had waited.
func TestOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			time.Sleep(100 * time.Millisecond)
			return handle(ctx, request)
		}
		serve(t, echo.New(grpc.UnaryInterceptor(slow)), func(c *client.Client) {
			l := load.New(load.Target{Clients: []*client.Client{c}, Models: []string{"m"}, Rows: rows()})
			r, err := l.Run(t.Context(), load.Options{Mix: load.Mix{Observe: 1}, Rate: 100, Callers: 1, Duration: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			if r.Calls != 20 || r.Errors[load.Unsent] != 80 || r.Operations[0].Latency.Count != 100 {
				t.Fatalf("%+v", r)
			}
			// Call 20 was due after 0.2 s and waited until 2 s.
			near(t, "latency max", r.Operations[0].Latency.Max, 1810*time.Millisecond)
			near(t, "service max", r.Operations[0].Service.Max, 100*time.Millisecond)
			// In a closed loop there is nothing to be late for.
			r, err = l.Run(t.Context(), load.Options{Mix: load.Mix{Observe: 1}, Callers: 2, Duration: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			if r.Calls != 20 || len(r.Errors) != 0 {
				t.Fatalf("%+v", r)
			}
			near(t, "closed max", r.Operations[0].Latency.Max, 100*time.Millisecond)
		})
	})
}

// The parts of a mix, a number of calls, and labels of what was predicted.
func TestMix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var labelled, unlabelled atomic.Int64
		count := func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			if o, ok := request.(*hindsightv1.ObserveRequest); ok {
				switch {
				case o.GetPredictionId() != "" && len(o.GetFeatures()) == 0:
					labelled.Add(1)
				case o.GetObservationId() != "" && len(o.GetFeatures()) == 3:
					unlabelled.Add(1)
				}
			}
			return handle(ctx, request)
		}
		serve(t, echo.New(grpc.UnaryInterceptor(count)), func(c *client.Client) {
			l := load.New(load.Target{Clients: []*client.Client{c, c}, Models: []string{"a", "b"}, Rows: rows()})
			r, err := l.Run(t.Context(), load.Options{Mix: load.Mix{Predict: 1, Observe: 2}, Callers: 4, Calls: 4000})
			if err != nil {
				t.Fatal(err)
			}
			counts := map[string]int64{}
			for _, o := range r.Operations {
				counts[o.Name] = o.Latency.Count
			}
			names := []string{"Observe", "Predict"}
			if !slices.Equal(slices.Sorted(maps.Keys(counts)), names) || r.Calls != 4000 || len(r.Errors) != 0 {
				t.Fatalf("%v, %+v", counts, r)
			}
			// Four deviations of a binomial count.
			if n := counts["Observe"]; n < 2547 || n > 2786 {
				t.Errorf("%d of 4000 calls are Observe, want two thirds", n)
			}
			// Of two labels for each prediction one has none.
			if labelled.Load()+unlabelled.Load() != counts["Observe"] || labelled.Load() < 500 || unlabelled.Load() < 500 {
				t.Errorf("%d labels of predictions, %d observations with features", labelled.Load(), unlabelled.Load())
			}
		})
	})
}

// Rejections are counted by their reason or code, and have no latency.
func TestErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reject := func(context.Context, any, *grpc.UnaryServerInfo, grpc.UnaryHandler) (any, error) {
			return nil, status.Error(codes.ResourceExhausted, "full")
		}
		serve(t, echo.New(grpc.UnaryInterceptor(reject)), func(c *client.Client) {
			l := load.New(load.Target{Clients: []*client.Client{c}, Models: []string{"m"}, Rows: rows()})
			r, err := l.Run(t.Context(), load.Options{Mix: load.Mix{Predict: 1}, Callers: 2, Calls: 10})
			if err != nil {
				t.Fatal(err)
			}
			if r.Calls != 0 || r.Errors["RESOURCE_EXHAUSTED"] != 10 || len(r.Operations) != 0 {
				t.Errorf("%+v", r)
			}
		})
	})
}

// A call of one's own is made instead of the mix. The echo answers a batch row by row.
func TestCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		serve(t, echo.New(), func(c *client.Client) {
			l := load.New(load.Target{Clients: []*client.Client{c}, Models: []string{"m"}, Rows: rows()})
			call := func(ctx context.Context, m *client.Model, row *load.Row) error {
				predictions, err := m.PredictBatch(ctx, &hindsightv1.PredictBatchRequest{Rows: []*hindsightv1.Row{{Features: row.Features}, {Features: row.Features}}})
				if err != nil || len(predictions) != 2 {
					t.Error(len(predictions), err)
				}
				outcomes, err := m.ObserveBatch(ctx, []*hindsightv1.ObserveRequest{row.Observation("")})
				if err != nil || len(outcomes) != 1 || outcomes[0].GetLoss() != row.Labels[0] {
					t.Error(outcomes, err)
				}
				return err
			}
			r, err := l.Run(t.Context(), load.Options{Call: call, Callers: 2, Calls: 10})
			if err != nil || r.Calls != 10 || len(r.Errors) != 0 || len(r.Operations) != 1 || r.Operations[0].Name != "Call" {
				t.Errorf("%+v, %v", r, err)
			}
		})
	})
}

func TestCheck(t *testing.T) {
	good := load.Options{Mix: load.Mix{Predict: 1}, Callers: 1, Duration: time.Second}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*load.Options){
		"mix":      func(o *load.Options) { o.Mix = load.Mix{} },
		"negative": func(o *load.Options) { o.Mix.Observe = -1 },
		"rate":     func(o *load.Options) { o.Rate = -1 },
		"callers":  func(o *load.Options) { o.Callers = 0 },
		"duration": func(o *load.Options) { o.Duration = 0 },
	} {
		o := good
		spoil(&o)
		if o.Check() == nil {
			t.Errorf("%s: %+v is accepted", name, o)
		}
	}
}
