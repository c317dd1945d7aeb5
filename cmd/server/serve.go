package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"hindsight/cmd/server/internal/access"
	"hindsight/cmd/server/internal/config"
	"hindsight/cmd/server/internal/tracing"
	"hindsight/internal/clock"
	"hindsight/internal/engine"
	"hindsight/internal/gateway"
	"hindsight/internal/metrics"
	"hindsight/internal/rpc"
	"hindsight/internal/store"
)

// Limits that no user has asked to set.
const (
	sweepInterval     = time.Second
	readHeaderTimeout = 5 * time.Second
	idleTimeout       = 2 * time.Minute
	// The gateway gives a call more, and what streams more with each write.
	writeTimeout   = time.Minute
	maxHeaderBytes = 16 << 10
	lastSpans      = 5 * time.Second
	maxConnections = 16_384
)

// serve runs the server until the context ends, then in this order: health
// says NOT_SERVING, calls in flight end, models that changed are written as
// snapshots, the last backup is taken, the store closes, the HTTP server
// last.
func serve(ctx context.Context, c config.Config, stderr io.Writer) (err error) {
	registry := prometheus.NewRegistry()
	instruments, err := metrics.New(registry, metrics.Options{Version: version, MaxModels: c.MetricsMaxModels})
	if err != nil {
		return fmt.Errorf("instruments: %w", err)
	}
	log, logLevel, err := newLogger(c, stderr, instruments)
	if err != nil {
		return err
	}
	defer func() { _ = log.Sync() }() // Standard error may not be syncable.
	if c.Durability == config.DurabilityAsync {
		log.Warn("durability is async: a crash of the machine may lose the last 100 ms of acknowledged observations")
	}
	if c.MemoryLimit > 0 {
		// The program itself, which the runtime does not count, takes the rest.
		debug.SetMemoryLimit(c.MemoryLimit / 8 * 7)
	}
	listener := net.ListenConfig{}
	grpcListener, err := listener.Listen(ctx, "tcp", c.GRPCAddress)
	if err != nil {
		return fmt.Errorf("listen for gRPC on %s: %w", c.GRPCAddress, err)
	}
	defer func() { _ = grpcListener.Close() }() // Closed by the gRPC server as a rule.
	httpListener, err := listener.Listen(ctx, "tcp", c.HTTPAddress)
	if err != nil {
		return fmt.Errorf("listen for HTTP on %s: %w", c.HTTPAddress, err)
	}
	defer func() { _ = httpListener.Close() }() // Closed by the HTTP server as a rule.
	warnExposed(log, c, grpcListener.Addr(), httpListener.Addr())
	spans, err := openTracing(ctx, c, log, instruments)
	if err != nil {
		return err
	}
	defer closeTracing(ctx, spans, log)
	keeper, err := openTLS(c, log, instruments)
	if err != nil {
		return err
	}
	who, guard, err := openAccess(c, log, instruments)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, who.Close()) }() // After the last call.
	open := new(front)
	handler, err := routes(c, registry, instruments, open, levels(logLevel, log), spans != nil, guard)
	if err != nil {
		return err
	}
	if takesEveryCall(c, httpListener.Addr()) {
		handler = gateway.OwnHosts(c.Origins(), handler)
	}
	web := &http.Server{
		Handler: gateway.BoundBodies(handler), ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout, WriteTimeout: writeTimeout,
		MaxHeaderBytes: maxHeaderBytes, ErrorLog: zap.NewStdLog(log.Named("http")),
	}
	open.cut = func() { _ = web.Close() } // Requests that did not end in time are lost.
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return serveHTTP(web, limited(httpListener, keeper), keeper) })
	if keeper != nil {
		group.Go(func() error {
			keeper.Run(groupCtx)
			return nil
		})
	}
	group.Go(func() error {
		defer open.cut()
		return host(groupCtx, c, log, surroundings{
			registry, instruments, spans, open, limited(grpcListener, keeper), grpcCredentials(keeper), httpListener.Addr(),
			who, guard,
		})
	})
	group.Go(func() error { return who.Run(groupCtx) })
	return group.Wait()
}

// surroundings is what opens before the models and closes after them.
type surroundings struct {
	registry    *prometheus.Registry
	instruments *metrics.Metrics
	spans       *tracing.Tracing
	open        *front
	listener    net.Listener
	transport   credentials.TransportCredentials
	httpAddress net.Addr
	who         *access.Access
	guard       *gateway.Guard
}

// host opens the store and the engine, and serves gRPC and the gateway to it until the
// context ends.
func host(ctx context.Context, c config.Config, log *zap.Logger, s surroundings) (err error) {
	disk, err := store.Open(c.DataDir, store.Options{ //nolint:contextcheck // A directory is opened whole or not at all.
		Cache: c.MemoryLimit / 8,
		Async: c.Durability == config.DurabilityAsync, PendingSync: c.PendingDurability == config.PendingSync, Logger: log.Named("store"),
		Synced: s.instruments.Stages.Fsync,
	})
	if err != nil {
		return fmt.Errorf("open the store: %w", err)
	}
	defer func() {
		if closeErr := disk.Close(); closeErr != nil {
			err = errors.Join(err, fmt.Errorf("close the store: %w", closeErr))
		}
	}()
	checkpoints := newControl(disk, log.Named("control"))
	scheduled, err := openSchedule(ctx, c, checkpoints, log.Named("backup"), s.instruments)
	if err != nil {
		return err
	}
	endBackups := scheduled.start(ctx)
	defer func() { endBackups(ctx) }() // After the engine's last snapshots.
	models, err := engine.Open(ctx, engineOptions(c, log, disk, s.instruments))
	if err != nil {
		return fmt.Errorf("open the models: %w", err)
	}
	defer func() {
		if closeErr := models.Close(); closeErr != nil {
			err = errors.Join(err, fmt.Errorf("shut down: %w", closeErr))
		}
	}()
	calls := newCalls()
	if err := watch(s.registry, s.instruments, calls, models, disk); err != nil {
		return err
	}
	refusals, err := s.instruments.Refusals(slices.Concat(gateway.Reasons(), rpc.Reasons()))
	if err != nil {
		return fmt.Errorf("instruments of refusals: %w", err)
	}
	server := rpc.New(rpc.Options{
		Engine: models, Log: log, Metrics: calls, Observed: exemplars(s.spans != nil),
		MaxMessageBytes: int(c.MaxMessageBytes), MaxBatchRows: c.MaxBatchRows, Reflection: c.Reflection,
		MemoryLimit: c.MemoryLimit, Tracer: s.spans.Provider(), Refused: refusals.Count, Credentials: s.transport,
		Auth: s.who.Auth, Audit: s.who.Audit(), Now: time.Now,
	})
	if err := watchCalls(s.instruments, c, server); err != nil {
		server.Drain(ctx)
		return err
	}
	api, err := newGateway(c, log, server, s.listener.Addr(), s.spans != nil, s.guard, refusals.Count)
	if err != nil {
		server.Drain(ctx)
		return err
	}
	s.open.calls.Store(api)
	group, groupCtx := errgroup.WithContext(ctx)
	s.open.ready.Store(true) // The listener holds calls until Serve takes them. A drain comes later.
	group.Go(supervised(groupCtx, log.Named("systemd"), server, models))
	group.Go(func() error {
		// A signal may have ended the server before it served.
		if err := server.Serve(s.listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			return fmt.Errorf("serve gRPC: %w", err)
		}
		return nil
	})
	group.Go(func() error { return checkpoints.serve(groupCtx, c.DataDir) })
	group.Go(func() error {
		<-groupCtx.Done()
		log.Info("draining")
		s.open.ready.Store(false)
		limit, cancel := context.WithTimeout(context.WithoutCancel(groupCtx), c.ShutdownTimeout)
		defer cancel()
		var ended sync.WaitGroup
		ended.Go(func() {
			stop := context.AfterFunc(limit, s.open.cut)
			api.Drain()
			stop()
		})
		server.Drain(limit)
		ended.Wait()
		return nil
	})
	group.Go(func() error { return watchDisk(groupCtx, disk, server, s.open, log) })
	log.Info("serving",
		zap.String("grpc_address", s.listener.Addr().String()), zap.String("http_address", s.httpAddress.String()),
		zap.Bool("tls", s.transport != nil), zap.String("data_dir", c.DataDir), zap.String("durability", string(c.Durability)), zap.String("version", version))
	err = group.Wait()
	log.Info("stopped serving")
	return err
}

func engineOptions(c config.Config, log *zap.Logger, disk *store.Store, instruments *metrics.Metrics) engine.Options {
	return engine.Options{
		ModelOptions: engine.ModelOptions{
			Limits: engine.Limits{
				Queue: c.Queue, PendingLimit: int64(c.MaxPending), PendingTotalLimit: int64(c.MaxPendingTotal), ModelMemory: c.MemoryLimit / 2,
			},
			Store: disk, Now: steadyClock(log).Now, Log: log.Named("engine"),
			NewID: func() (string, error) {
				id, err := uuid.NewV7()
				if err != nil {
					return "", fmt.Errorf("new id: %w", err)
				}
				return id.String(), nil
			},
			Stages:         instruments.Stages,
			SnapshotReplay: c.SnapshotReplay, SnapshotInterval: c.SnapshotInterval, SnapshotsKept: c.SnapshotsKept,
			LabelTTL: c.LabelTTL,
		},
		Timings:       func(model, learner string) engine.Timings { return instruments.Timings(model, learner) },
		ForgetTimings: instruments.Forget,
		Durability:    string(c.Durability),
		IDWindow:      c.IDWindow,
		IDWindowMin:   c.IDWindowMin,
		DeletedKept:   c.DeletedKept,
		ModelLimit:    c.MaxModels,
		ReportCPU:     c.ReportCPU,
		Sweep:         sweepInterval,
	}
}

// steadyClock is the clock of the models. It tells the log of jumps.
func steadyClock(log *zap.Logger) *clock.Steady {
	return clock.New(time.Now, func(by time.Duration, followed bool) {
		if followed {
			log.Warn("the clock of the machine has jumped and stayed: it is followed now", zap.Duration("by", by))
			return
		}
		log.Warn("the clock of the machine has jumped: nothing expires by it for an hour, unless it comes back", zap.Duration("by", by))
	})
}
