package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"hindsight/cmd/server/internal/access"
	"hindsight/cmd/server/internal/certificates"
	"hindsight/cmd/server/internal/config"
	"hindsight/internal/auth"
	"hindsight/internal/clock"
	"hindsight/internal/cluster"
	"hindsight/internal/engine"
	"hindsight/internal/engine/storage"
	"hindsight/internal/gateway"
	"hindsight/internal/metrics"
	"hindsight/internal/rpc"
	"hindsight/internal/store"
)

const (
	sweepInterval = time.Second
	// The owner of a group compares a part of a model with the other servers in this interval.
	checkInterval = 10 * time.Second
	// At least minKnownIDs ids of observations are remembered, whatever their age.
	minKnownIDs = 1_000_000
	// One batch has at most maxBatchRows rows, and one model maxQueue queued observations.
	maxBatchRows, maxQueue = 4096, 1024
	// One model may have 1/pendingShare of the pending predictions of all models.
	pendingShare = 4
	// A model that has learned is snapshotted after this interval at the latest.
	snapshotInterval = 5 * time.Minute
	// Calls in flight have drainTimeout to end.
	drainTimeout = 10 * time.Second
	// Regrets are solved in the background in this share of one CPU.
	reportCPU = 0.05
)

// server is the part of the program that opens before the models and closes after them.
type server struct {
	config      config.Config
	log         *zap.Logger
	registry    *prometheus.Registry
	instruments *metrics.Metrics
	// spans is nil without tracing.
	spans *sdk.TracerProvider
	// keeper is nil without TLS.
	keeper     *certificates.Keeper
	access     *access.Access
	guard      *gateway.Guard
	grpc, http net.Listener
	web        *http.Server
	// ready is true while the server serves and is not draining.
	ready atomic.Bool
	// fault is why the disk takes no writes, nil if it does.
	fault  atomic.Pointer[string]
	models atomic.Pointer[groups]
	// observed counts and times calls. rejected counts rejections by reason.
	observed *metrics.Calls
	rejected func(reason string)
	view     clusterView
	dial     cluster.Dialer
	check    time.Duration
	// calls answers all HTTP requests but probes and scrapes; nil while the server starts.
	calls atomic.Pointer[gateway.Gateway]
}

// serve runs the server until the context ends. Then, in this order, health reports
// NOT_SERVING, calls in flight end, changed models are written as snapshots, the last backup
// is taken, the store closes, and the HTTP server closes.
func serve(ctx context.Context, c config.Config, stderr io.Writer) error {
	return serveBy(ctx, c, stderr, nil, checkInterval)
}

// serveBy is serve with a dialer for the other servers of the cluster; nil is the operating system's. Check is how often
// an owner checks a model.
func serveBy(ctx context.Context, c config.Config, stderr io.Writer, dial cluster.Dialer, check time.Duration) (err error) {
	s := &server{config: c, registry: prometheus.NewRegistry(), dial: dial, check: check}
	s.view.started = time.Now()
	if s.instruments, err = metrics.New(s.registry, metrics.Options{Version: version, MaxModels: c.MetricsMaxModels}); err != nil {
		return fmt.Errorf("instruments: %w", err)
	}
	log, level := newLogger(c, stderr)
	defer func() { _ = log.Sync() }() // Standard error may not be syncable.
	s.log = log
	if c.Durability == config.DurabilityAsync {
		log.Warn("durability is async: a crash of the machine may lose the last 100 ms of acknowledged observations")
	}
	if c.MemoryLimit > 0 {
		// The program's code and C memory, which the runtime does not count, take the rest.
		debug.SetMemoryLimit(c.MemoryLimit / 8 * 7)
	}
	if s.grpc, err = listen(ctx, "gRPC", c.GRPCAddress); err != nil {
		return err
	}
	defer func() { _ = s.grpc.Close() }() // Usually closed by the gRPC server.
	if s.http, err = listen(ctx, "HTTP", c.HTTPAddress); err != nil {
		return err
	}
	defer func() { _ = s.http.Close() }() // Usually closed by the HTTP server.
	warnExposed(log, c, s.grpc.Addr(), s.http.Addr())
	if err := s.registerCalls(); err != nil {
		return err
	}
	if err := s.openTracing(ctx); err != nil {
		return err
	}
	defer s.closeTracing(ctx)
	if err := s.openTLS(); err != nil {
		return err
	}
	if s.access, s.guard, err = openAccess(c, log, s.instruments, s.rejected); err != nil {
		return err
	}
	defer closing(&err, "access", s.access.Close) // After the last call.
	s.openWeb(levels(level, log))
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(s.serveHTTP)
	group.Go(func() error { return s.access.Run(groupCtx) })
	if s.keeper != nil {
		group.Go(func() error {
			s.keeper.Run(groupCtx)
			return nil
		})
	}
	group.Go(func() error {
		defer s.closeHTTP()
		return s.host(groupCtx)
	})
	return group.Wait()
}

func listen(ctx context.Context, what, address string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for %s on %s: %w", what, address, err)
	}
	return l, nil
}

func closing(err *error, what string, closePart func() error) {
	if bad := closePart(); bad != nil {
		*err = errors.Join(*err, fmt.Errorf("%s: %w", what, bad))
	}
}

func (s *server) host(ctx context.Context) (err error) {
	c, log := s.config, s.log
	transfers := auth.NewBudget(auth.RequestBytes(c.MemoryLimit))
	var host *cluster.Host
	if c.ClusterAddress != "" {
		if host, err = s.openHost(ctx, transfers); err != nil {
			return err
		}
		defer closing(&err, "close the cluster port", host.Close)
	}
	models := newGroups(host, log)
	server := rpc.New(rpc.Options{
		Groups: models, Log: log, Metrics: s.callMetrics,
		MaxMessageBytes: int(c.MaxMessageBytes), MaxBatchRows: maxBatchRows,
		MemoryLimit: c.MemoryLimit, Transfers: transfers, Tracer: s.tracer(), Rejected: s.rejected, Credentials: s.credentials(),
		Auth: s.access.Auth, Audit: s.access.Audit(), Now: time.Now,
	})
	api, err := s.newGateway(server)
	if err == nil {
		err = s.registerModels(models, server)
	}
	if err != nil {
		server.Drain(ctx)
		return err
	}
	work, ctx := errgroup.WithContext(ctx)
	// The models close after the last call.
	last, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	work.Go(func() error { return s.run(last, models, server) })
	work.Go(func() error {
		select {
		case <-models.first: // The directory is locked.
			return serveControl(last, c.DataDir, models.checkpoint, log.Named("control"))
		case <-last.Done():
			return nil
		}
	})
	work.Go(func() error {
		<-ctx.Done()
		s.drain(ctx, server, api, models)
		end()
		return nil
	})
	if host != nil {
		s.view.groups.Store(models)
		work.Go(func() error { return server.ServeMembers(host.Listener()) })
		work.Go(func() error {
			s.view.watchMembers(ctx)
			return nil
		})
	}
	work.Go(func() error {
		select {
		case <-models.first:
			return s.serveCalls(ctx, models, server, api)
		case <-ctx.Done():
			return nil
		}
	})
	err = work.Wait()
	log.Info("stopped serving")
	return err
}

// serveCalls serves calls until Drain. The listener holds calls until Serve accepts them.
func (s *server) serveCalls(ctx context.Context, models *groups, server *rpc.Server, api *gateway.Gateway) error {
	c := s.config
	s.calls.Store(api)
	s.models.Store(models)
	s.ready.Store(ctx.Err() == nil)
	s.log.Info("serving",
		zap.Stringer("grpc_address", s.grpc.Addr()), zap.Stringer("http_address", s.http.Addr()),
		zap.Bool("tls", s.keeper != nil), zap.String("data_dir", c.DataDir), zap.String("durability", string(c.Durability)), zap.String("version", version))
	work, ctx := errgroup.WithContext(ctx)
	work.Go(supervised(ctx, s.log.Named("systemd"), server, models))
	work.Go(func() error {
		// A signal may have ended the server before it served.
		if err := server.Serve(limited(s.grpc, s.keeper)); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			return fmt.Errorf("serve gRPC: %w", err)
		}
		return nil
	})
	return work.Wait()
}

func (s *server) storeOptions() store.Options {
	c := s.config
	return store.Options{
		Cache: c.MemoryLimit / 8, Version: version,
		Async: c.Durability == config.DurabilityAsync, Logger: s.log.Named("store"),
		Synced: s.instruments.Stages.Fsync,
	}
}

// isReady returns why the server is not ready, nil if it serves and, in a cluster, takes part.
func (s *server) isReady() error {
	if fault := s.fault.Load(); fault != nil {
		return errors.New(*fault)
	}
	if !s.ready.Load() {
		return errors.New("starting or draining")
	}
	return s.models.Load().takesPart()
}

// drain ends the calls in flight, within drainTimeout. An owner first hands ownership on.
func (s *server) drain(ctx context.Context, server *rpc.Server, api *gateway.Gateway, models *groups) {
	s.log.Info("draining")
	s.ready.Store(false)
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	models.drain(limit)
	var ended sync.WaitGroup
	ended.Go(func() {
		stop := context.AfterFunc(limit, func() {
			s.log.Warn("HTTP requests are cut off: they have not ended in time", zap.Duration("limit", drainTimeout))
			s.closeHTTP()
		})
		api.Drain()
		stop()
	})
	server.Drain(limit)
	ended.Wait()
}

func engineOptions(c config.Config, log *zap.Logger, models storage.Store, instruments *metrics.Metrics) engine.Options {
	return engine.Options{
		ModelOptions: engine.ModelOptions{
			Limits: engine.Limits{
				Queue: maxQueue, PendingLimit: int64(max(c.MaxPending/pendingShare, 1)), PendingTotalLimit: int64(c.MaxPending), ModelMemory: c.MemoryLimit / 2,
			},
			Store: models, Now: steadyClock(log).Now, Log: log.Named("engine"),
			NewID: func() (string, error) {
				id, err := uuid.NewV7()
				if err != nil {
					return "", fmt.Errorf("new id: %w", err)
				}
				return id.String(), nil
			},
			Stages:         instruments.Stages,
			SnapshotReplay: c.SnapshotReplay, SnapshotInterval: snapshotInterval, SnapshotsKept: c.SnapshotsKept,
			LabelTTL: c.LabelTTL,
		},
		Timings:       func(model, learner string) engine.Timings { return instruments.Timings(model, learner) },
		ForgetTimings: instruments.Forget,
		Counted:       instruments.Counted,
		Durability:    string(c.Durability),
		IDWindow:      c.IDWindow,
		IDWindowMin:   minKnownIDs,
		DeletedKept:   c.DeletedKept,
		ModelLimit:    c.MaxModels,
		ReportCPU:     reportCPU,
		Sweep:         sweepInterval,
	}
}

func steadyClock(log *zap.Logger) *clock.Steady {
	return clock.New(time.Now, func(by time.Duration, followed bool) {
		if followed {
			log.Warn("the machine's clock has jumped and stayed: the models follow it now", zap.Duration("by", by))
			return
		}
		log.Warn("the machine's clock has jumped: the models do not follow it for an hour, in case it returns", zap.Duration("by", by))
	})
}
