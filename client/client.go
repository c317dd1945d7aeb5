package client

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

const (
	// DefaultPort is the port of an address that has none.
	DefaultPort = "50051"
	// DefaultTimeout bounds a call, all its tries together.
	DefaultTimeout = 10 * time.Second
)

// Client is a connection to a server, or to the servers of a cluster. It is safe for concurrent
// use.
type Client struct {
	servers     *servers
	models      hindsightv1.ModelServiceClient
	predictions hindsightv1.PredictionServiceClient
	cluster     hindsightv1.ClusterServiceClient
	address     string
	timeout     time.Duration
	retry       Retry
	tls         *transport // nil without WithTLS
	hasToken    bool
}

// Option changes how Dial connects and calls.
type Option func(*settings)

type settings struct {
	timeout        time.Duration
	retry          Retry
	dial           []grpc.DialOption
	tls            *transport
	token          Token
	hasToken       bool // Calls have credentials.
	plaintextToken bool // The token is sent without TLS too.
}

// WithTimeout bounds a call, all its tries together, in place of DefaultTimeout; 0 is no bound. The
// context of a call may bound the call further. With several servers a try has a share of the time,
// until every server had a try.
func WithTimeout(timeout time.Duration) Option { return func(s *settings) { s.timeout = timeout } }

// WithRetry says how calls are sent again, in place of DefaultRetry.
func WithRetry(retry Retry) Option { return func(s *settings) { s.retry = retry } }

// WithDialOptions adds options of gRPC, such as credentials or the probes of a silent connection. By default a
// connection with a call in flight is probed after 30 s of silence, and is lost 10 s later; a server closes the
// connection of a client that probes more often than every 10 s.
func WithDialOptions(options ...grpc.DialOption) Option {
	return func(s *settings) { s.dial = append(s.dial, options...) }
}

// Dial prepares a connection. The first call makes it. An address without a port gets
// DefaultPort; see Address. Addresses between commas are servers of one cluster: the client uses
// the first server that answers, and after a failure the next. The caller must call Close.
func Dial(address string, options ...Option) (*Client, error) {
	addresses, err := Addresses(address)
	if err != nil {
		return nil, err
	}
	c := &Client{address: strings.Join(addresses, ",")}
	s := settings{timeout: DefaultTimeout, retry: DefaultRetry(), dial: []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithConnectParams(grpc.ConnectParams{
			// The client finds a restarted server again within a second.
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithChainUnaryInterceptor(c.translated),
	}}
	for _, option := range options {
		option(&s)
	}
	if s.tls != nil {
		if _, err := s.tls.files.config(); err != nil {
			return nil, fmt.Errorf("TLS: %w", err)
		}
		s.dial = append(s.dial, grpc.WithTransportCredentials(s.tls))
		if name := s.tls.files.ServerName; name != "" {
			s.dial = append(s.dial, grpc.WithAuthority(name))
		}
	}
	if s.token != nil {
		s.dial = append(s.dial, grpc.WithPerRPCCredentials(bearer{s.token, s.plaintextToken || !slices.ContainsFunc(addresses, isRemote)}))
	}
	conns, err := connect(addresses, s.dial)
	if err != nil && s.token != nil && strings.Contains(err.Error(), "require transport level security") {
		return nil, fmt.Errorf("address %q: a token is not sent in plaintext to another machine: use TLS", address)
	}
	if err != nil {
		return nil, fmt.Errorf("address %q: %w", address, err)
	}
	c.servers, c.timeout, c.retry, c.tls, c.hasToken = conns, s.timeout, s.retry, s.tls, s.hasToken
	c.models, c.predictions = hindsightv1.NewModelServiceClient(conns), hindsightv1.NewPredictionServiceClient(conns)
	c.cluster = hindsightv1.NewClusterServiceClient(conns)
	return c, nil
}

// Address completes an address: without a port it gets DefaultPort. Targets of gRPC
// with a scheme, such as unix:/run/hindsight.sock, stay as they are.
func Address(address string) (string, error) {
	host := strings.TrimSuffix(strings.TrimPrefix(address, "["), "]")
	switch {
	case address == "":
		return "", fmt.Errorf("address %q: it is empty", address)
	case strings.HasPrefix(address, "http://"), strings.HasPrefix(address, "https://"):
		return "", fmt.Errorf("address %q: it is a URL, want HOST or HOST:PORT without the scheme; the port of gRPC is %s by default", address, DefaultPort)
	case net.ParseIP(host) != nil:
		return net.JoinHostPort(host, DefaultPort), nil
	case strings.HasSuffix(address, ":"):
		return "", fmt.Errorf("address %q: got no port after the colon, want HOST:PORT", address)
	case strings.Contains(address, ":"):
		return address, nil
	default:
		return net.JoinHostPort(address, DefaultPort), nil
	}
}

// With returns a client with another way of retrying, over the same connection. Close
// of either closes both.
func (c *Client) With(retry Retry) *Client {
	other := *c
	other.retry = retry
	return &other
}

// Address is the address of the server, or the addresses of the cluster between commas.
func (c *Client) Address() string { return c.address }

// Predictions is the service of the data path, for calls that this package does not have. Its
// calls have no timeout and are not sent again. The errors of its unary calls are translated,
// the errors of its streams are not; see FromError.
func (c *Client) Predictions() hindsightv1.PredictionServiceClient { return c.predictions }

// Models is the service of the control path. See Predictions.
func (c *Client) Models() hindsightv1.ModelServiceClient { return c.models }

// Cluster is the service of the servers that keep the same models. See Predictions.
func (c *Client) Cluster() hindsightv1.ClusterServiceClient { return c.cluster }

// Close ends the connection.
func (c *Client) Close() error { return c.servers.close() }

// failed translates the error of a call. If the time of a call passed without a connection, no
// server answered it.
func (c *Client) failed(err error) error {
	e := FromError(err)
	if e == nil {
		return err
	}
	if e.timedOut() && !c.servers.ready() {
		e.unreachable = true
	}
	if e.unreachable {
		e.address = c.address
	}
	e.advice = c.adviseOn(e)
	return e
}

func (c *Client) translated(
	ctx context.Context, method string, request, answer any, conn *grpc.ClientConn, invoker grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	if err := invoker(ctx, method, request, answer, conn, options...); err != nil {
		return c.failed(err)
	}
	return nil
}

func invoke[Q, A any](
	ctx context.Context, c *Client, repeatable bool, rpc func(context.Context, Q, ...grpc.CallOption) (A, error), request Q,
) (answer A, err error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	for attempt := 0; ; attempt++ {
		answer, err = try(ctx, c, repeatable, attempt, rpc, request)
		if err == nil || !repeatable || ctx.Err() != nil || !c.retry.wait(ctx, attempt, err) {
			return answer, err
		}
	}
}

func (c *Client) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, c.timeout)
}

func try[Q, A any](
	ctx context.Context, c *Client, repeatable bool, attempt int, rpc func(context.Context, Q, ...grpc.CallOption) (A, error), request Q,
) (A, error) {
	if deadline, ok := ctx.Deadline(); ok && repeatable {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.share(time.Until(deadline), attempt))
		defer cancel()
	}
	return rpc(ctx, request)
}

// share returns the time of one try. A server that does not answer leaves time for the servers without a try.
func (c *Client) share(left time.Duration, attempt int) time.Duration {
	further := min(len(c.servers.conns)-1, c.retry.Max) - attempt
	return left / time.Duration(1+max(0, further))
}
