package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
	"hindsight/cmd/internal/child"
	"hindsight/cmd/internal/command"
	"hindsight/cmd/research/echo"
	"hindsight/cmd/research/load"
	"hindsight/cmd/research/scrape"
)

// What "serve" does unless its flags say otherwise.
const (
	serveDuration     = 10 * time.Second
	serveWarmup       = 2 * time.Second
	serveLabelTTL     = 10 * time.Minute
	serveDimension    = 10
	closedCallers     = 16
	openCallers       = 256
	defaultHTTPPort   = "9464"
	observationsDrawn = 1024
)

// newServe builds "serve".
func newServe(p *command.Program) *cobra.Command {
	f := &serveFlags{}
	cmd := &cobra.Command{
		Use:   "serve [--server PATH]",
		Short: "Put a load on a server, measure latency, rate and CPU",
		Long: `Compare calls of a server with the same calls of a bare gRPC server that answers at
once: calls a second, latencies, errors by reason, and CPU seconds a call. With --server
the program starts a server on free ports of 127.0.0.1 with a temporary directory.
Without it the server at --address is used. Its models are created before and
deleted after.

--mix says how often each kind of call is made. predict asks for a prediction that
is remembered. observe sends the label of the prediction that has waited longest;
where none waits, an observation with its features.

With --rate the loop is open: call n is due n/RATE seconds after the begin, and its
latency counts from then, whatever became of the calls before it. That is corrected
for coordinated omission. A call that is due while --callers are in flight waits, and
its waiting counts. Calls that have not begun when twice --duration has passed are
errors with the reason UNSENT. "service" is the latency from when a call was made.
Without --rate the loop is closed: each of --callers makes its next call when it has
the answer to the last, and latencies are service times.

The bare gRPC server runs after it, in a process of its own, and speaks no TLS. The
ratios to it say what hindsight costs beyond gRPC on this machine at this time.
--echo=false leaves it out.

CPU and memory of the server are read from --metrics, process_cpu_seconds_total
before and after. It is known with --server, and else the port ` + defaultHTTPPort + ` of the host of
--address. If it cannot be read, there is no figure.`,
		Example: `  hindsight-bench serve --server bin/hindsight-server
  hindsight-bench serve --server bin/hindsight-server --rate 2000 --mix predict=8,observe=1
  hindsight-bench serve --server bin/hindsight-server --spec '{"auto": {}, "classes": {"max_classes": 4}}'
  hindsight-bench serve --spec @energy.json --models 10 --callers 32 --duration 1m`,
		Args: command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, p) },
	}
	flags := cmd.Flags()
	p.ServerFlags(flags)
	flags.StringVar(&f.server, "server", "", "path of the server program to start")
	flags.StringVar(&f.metrics, "metrics", "", "URL of the metrics of the server")
	flags.StringVar(&f.spec, "spec", "{}", "the spec of the models as JSON; @FILE reads a file")
	flags.Int32Var(&f.dimension, "dimension", serveDimension, "dimension of a spec that has none")
	flags.IntVar(&f.models, "models", 1, "number of models")
	flags.StringToIntVar(&f.mix, "mix", map[string]int{"predict": 1, "observe": 1}, "how often predict and observe are called")
	flags.Float64Var(&f.Rate, "rate", 0, "calls a second of all kinds together; 0: a closed loop")
	flags.IntVar(&f.Callers, "callers", 0, "calls in flight at most; 0: "+strconv.Itoa(closedCallers)+" in a closed loop, "+strconv.Itoa(openCallers)+" in an open one")
	flags.IntVar(&f.connections, "connections", 1, "connections that the callers share")
	flags.DurationVar(&f.Duration, "duration", serveDuration, "how long calls begin")
	flags.DurationVar(&f.warmup, "warmup", serveWarmup, "the same load before it, which is not measured")
	flags.DurationVar(&f.labelTTL, "label-ttl", serveLabelTTL, "how long the server waits for a label")
	flags.Uint64Var(&f.Seed, "seed", 1, "seed of the inputs and of the order of calls")
	flags.BoolVar(&f.echo, "echo", true, "measure a bare gRPC server beside it")
	return cmd
}

// serveFlags is what the flags of "serve" say.
type serveFlags struct {
	load.Options

	server, metrics, spec string
	dimension             int32
	models, connections   int
	mix                   map[string]int
	warmup, labelTTL      time.Duration
	echo                  bool
}

// check checks the flags and fills in what follows from others.
func (f *serveFlags) check(cmd *cobra.Command) error {
	if f.server != "" && cmd.Flags().Changed("address") {
		return command.Usagef("--server starts a server, --address names a running one: give one of them")
	}
	if f.models < 1 || f.connections < 1 {
		return command.Usagef("--models and --connections must be positive")
	}
	for kind, part := range f.mix {
		switch kind {
		case "predict":
			f.Mix.Predict = part
		case "observe":
			f.Mix.Observe = part
		default:
			return command.Usagef("--mix: there is no %q; there are predict, observe", kind)
		}
	}
	if f.Callers == 0 {
		f.Callers = closedCallers
		if f.Rate > 0 {
			f.Callers = openCallers
		}
	}
	if err := f.Check(); err != nil {
		return &command.UsageError{Err: err}
	}
	return nil
}

// specIn parses the spec in a flag.
func specIn(text string, dimension int32) (*hindsightv1.ModelSpec, error) {
	raw := []byte(text)
	if name, ok := strings.CutPrefix(text, "@"); ok {
		var err error
		if raw, err = os.ReadFile(name); err != nil { //nolint:gosec // the user names the file
			return nil, command.Usagef("--spec: %w", err)
		}
	}
	spec := new(hindsightv1.ModelSpec)
	if err := protojson.Unmarshal(raw, spec); err != nil {
		return nil, command.Usagef("--spec: %w", err)
	}
	if spec.GetDimension() == 0 && len(spec.GetInputs()) == 0 {
		spec.Dimension = dimension
	}
	return spec, nil
}

func (f *serveFlags) run(cmd *cobra.Command, p *command.Program) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	spec, err := specIn(f.spec, f.dimension)
	if err != nil {
		return err
	}
	document := &serveDocument{}
	ctx := cmd.Context()
	options := []client.Option{client.WithTimeout(p.Timeout), client.WithRetry(client.Retry{})}
	plain := func(address string) dialer {
		return func() (*client.Client, error) { return client.Dial(address, options...) }
	}
	measure := func(address string, dial dialer, metrics string) error {
		p.Say("serve: %s, %s", address, f.what())
		if err := f.measure(ctx, p, spec, dial, metrics, document); err != nil || !f.echo {
			return err
		}
		return echo.With(ctx, func(bare *child.Server) (err error) {
			p.Say("serve: the same on a bare gRPC server")
			document.Echo, err = f.load(ctx, p, plain(bare.GRPC), metricsOf(bare), document)
			return err
		})
	}
	if f.server != "" {
		err = child.Serve(ctx, f.server, func(s *child.Server) error { return measure(s.GRPC, plain(s.GRPC), metricsOf(s)) })
	} else {
		err = measure(p.Address, func() (*client.Client, error) { return p.Dial(options...) }, f.metricsURL(p.Address))
	}
	if err != nil {
		return err
	}
	return p.Emit(document, document.write)
}

// metricsOf returns the URL of the metrics of a child process.
func metricsOf(s *child.Server) string { return "http://" + s.HTTP + "/metrics" }

// dialer connects to one server.
type dialer func() (*client.Client, error)

// metricsURL returns the URL of the metrics of a server, empty if it is not known.
func (f *serveFlags) metricsURL(address string) string {
	host, _, err := net.SplitHostPort(address)
	switch {
	case f.metrics != "":
		return f.metrics
	case err != nil:
		return ""
	default:
		return "http://" + net.JoinHostPort(host, defaultHTTPPort) + "/metrics"
	}
}

// what describes the load.
func (f *serveFlags) what() string {
	if f.Rate > 0 {
		return fmt.Sprintf("an open loop of %g calls a second for %v", f.Rate, f.Duration)
	}
	return fmt.Sprintf("a closed loop of %d callers for %v", f.Callers, f.Duration)
}

// measure creates models on a server, puts the load on them and deletes them.
func (f *serveFlags) measure(ctx context.Context, p *command.Program, spec *hindsightv1.ModelSpec, dial dialer, metrics string, to *serveDocument) (err error) {
	c, err := dial()
	if err != nil {
		return &command.UsageError{Err: err}
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	defer func() {
		for _, id := range to.models {
			_, failed := c.Model(id).Delete(context.WithoutCancel(ctx), &hindsightv1.DeleteModelRequest{Purge: true})
			err = errors.Join(err, failed)
		}
	}()
	run := uuid.NewString()[:8]
	completed := spec
	for n := range f.models {
		id := fmt.Sprintf("serve-%s-%d", run, n)
		created, err := c.Model(id).Create(ctx, spec)
		if err != nil {
			return err
		}
		completed = created.GetSpec()
		to.models = append(to.models, id)
	}
	to.rows = load.Rows(completed, observationsDrawn, f.Seed)
	to.Server, err = f.load(ctx, p, dial, metrics, to)
	return err
}

// load puts the load on one server, warmed up.
func (f *serveFlags) load(ctx context.Context, p *command.Program, dial dialer, metrics string, of *serveDocument) (r *load.Result, err error) {
	t := load.Target{Models: of.models, Rows: of.rows, LabelTTL: f.labelTTL}
	for range f.connections {
		c, err := dial()
		if err != nil {
			return nil, &command.UsageError{Err: err}
		}
		defer func() { err = errors.Join(err, c.Close()) }()
		t.Clients = append(t.Clients, c)
	}
	l := load.New(t)
	if f.warmup > 0 {
		warm := f.Options
		warm.Duration = f.warmup
		if _, err := l.Run(ctx, warm); err != nil {
			return nil, err
		}
	}
	if _, err := scrape.Read(ctx, metrics); err != nil {
		p.Say("serve: no figures of the process: %v", err)
		return l.Run(ctx, f.Options)
	}
	return l.Measure(ctx, f.Options, metrics)
}
