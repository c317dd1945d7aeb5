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
	"time"

	"github.com/google/uuid"
	grpcprom "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/net/netutil"
	"golang.org/x/sync/errgroup"

	"hindsight/cmd/server/internal/access"
	"hindsight/cmd/server/internal/config"
	"hindsight/cmd/server/internal/offsite"
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
	// The longest call takes ten minutes. What streams moves this limit on.
	writeTimeout   = 11 * time.Minute
	maxHeaderBytes = 16 << 10
	lastCopies     = 30 * time.Second
	maxConnections = 16_384
)

// serve runs the server until the context ends, then in this order: health
// says NOT_SERVING, calls in flight end, models that changed are written as
// snapshots, the last snapshots are copied, the store closes, the HTTP server
// last.
func serve(ctx context.Context, c config.Config, stderr io.Writer) (err error) {
	log := newLogger(c, stderr)
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
	registry := prometheus.NewRegistry()
	instruments, err := metrics.New(registry, metrics.Options{Version: version, MaxModels: c.MetricsMaxModels})
	if err != nil {
		return fmt.Errorf("instruments: %w", err)
	}
	who, guard, err := openAccess(c, log, instruments)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, who.Close()) }() // After the last call.
	open := new(front)
	handler, err := routes(registry, instruments, open, guard)
	if err != nil {
		return err
	}
	web := &http.Server{
		Handler: handler, ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout, WriteTimeout: writeTimeout,
		MaxHeaderBytes: maxHeaderBytes, ErrorLog: zap.NewStdLog(log.Named("http")),
	}
	open.cut = func() { _ = web.Close() } // Requests that did not end in time are lost.
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := web.Serve(netutil.LimitListener(httpListener, maxConnections)); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve HTTP: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		defer open.cut()
		return host(groupCtx, c, log, registry, instruments, open, grpcListener, httpListener.Addr(), who, guard)
	})
	group.Go(func() error { return who.Run(groupCtx) })
	return group.Wait()
}

// host opens the store and the engine, and serves gRPC and the gateway to it until the
// context ends.
func host(
	ctx context.Context, c config.Config, log *zap.Logger,
	registry *prometheus.Registry, instruments *metrics.Metrics, open *front,
	listener net.Listener, httpAddress net.Addr, who *access.Access, guard *gateway.Guard,
) (err error) {
	disk, err := store.Open(c.DataDir, store.Options{ //nolint:contextcheck // A directory is opened whole or not at all.
		Cache: c.MemoryLimit / 8,
		Async: c.Durability == config.DurabilityAsync, PendingSync: c.PendingDurability == config.PendingSync, Logger: log.Named("store"),
	})
	if err != nil {
		return fmt.Errorf("open the store: %w", err)
	}
	defer func() {
		if closeErr := disk.Close(); closeErr != nil {
			err = errors.Join(err, fmt.Errorf("close the store: %w", closeErr))
		}
	}()
	options := engineOptions(c, log, disk, instruments)
	copier, err := copies(ctx, c, log, instruments)
	if err != nil {
		return err
	}
	if copier != nil {
		options.OnSnapshot = copier.Copy
		defer func() {
			// After the engine's last snapshots.
			limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastCopies)
			defer cancel()
			if closeErr := copier.Close(limit); closeErr != nil {
				log.Error("copying snapshots", zap.Error(closeErr))
			}
		}()
	}
	models, err := engine.Open(ctx, options)
	if err != nil {
		return fmt.Errorf("open the models: %w", err)
	}
	defer func() {
		if closeErr := models.Close(); closeErr != nil {
			err = errors.Join(err, fmt.Errorf("shut down: %w", closeErr))
		}
	}()
	calls := grpcprom.NewServerMetrics(grpcprom.WithServerHandlingTimeHistogram(
		grpcprom.WithHistogramBuckets(prometheus.ExponentialBuckets(10e-6, 4, 10))))
	if err := watch(registry, instruments, calls, models, disk); err != nil {
		return err
	}
	server := rpc.New(rpc.Options{
		Engine: models, Log: log, Metrics: calls,
		MaxMessageBytes: int(c.MaxMessageBytes), MaxBatchRows: c.MaxBatchRows, Reflection: c.Reflection,
		MemoryLimit: c.MemoryLimit, Auth: who.Auth, Audit: who.Audit(), Now: time.Now,
	})
	if err := watchCalls(instruments, server); err != nil {
		server.Drain(ctx)
		return err
	}
	api, closeAPI, err := newGateway(ctx, c, log, server, listener.Addr(), guard)
	if err != nil {
		server.Drain(ctx)
		return err
	}
	defer func() { err = errors.Join(err, closeAPI()) }()
	open.calls.Store(api)
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := server.Serve(netutil.LimitListener(listener, maxConnections)); err != nil {
			return fmt.Errorf("serve gRPC: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		<-groupCtx.Done()
		log.Info("draining")
		open.ready.Store(false)
		limit, cancel := context.WithTimeout(context.WithoutCancel(groupCtx), c.ShutdownTimeout)
		defer cancel()
		var ended sync.WaitGroup
		ended.Go(func() {
			stop := context.AfterFunc(limit, open.cut)
			api.Drain()
			stop()
		})
		server.Drain(limit)
		ended.Wait()
		return nil
	})
	open.ready.Store(true)
	log.Info("serving",
		zap.String("grpc_address", listener.Addr().String()), zap.String("http_address", httpAddress.String()),
		zap.String("data_dir", c.DataDir), zap.String("durability", string(c.Durability)), zap.String("version", version))
	err = group.Wait()
	log.Info("stopped serving")
	return err
}

func engineOptions(c config.Config, log *zap.Logger, disk *store.Store, instruments *metrics.Metrics) engine.Options {
	return engine.Options{
		Store: disk, Now: time.Now, Log: log.Named("engine"),
		NewID: func() (string, error) {
			id, err := uuid.NewV7()
			if err != nil {
				return "", fmt.Errorf("new id: %w", err)
			}
			return id.String(), nil
		},
		Timings:           func(model, learner string) engine.Timings { return instruments.Timings(model, learner) },
		ForgetTimings:     instruments.Forget,
		Durability:        string(c.Durability),
		SnapshotReplay:    c.SnapshotReplay,
		SnapshotInterval:  c.SnapshotInterval,
		SnapshotsKept:     c.SnapshotsKept,
		IDWindow:          c.IDWindow,
		IDWindowMin:       c.IDWindowMin,
		LabelTTL:          c.LabelTTL,
		DeletedKept:       c.DeletedKept,
		Queue:             c.Queue,
		PendingLimit:      int64(c.MaxPending),
		PendingTotalLimit: int64(c.MaxPendingTotal),
		ModelLimit:        c.MaxModels,
		ModelMemory:       c.MemoryLimit / 2,
		ReportCPU:         c.ReportCPU,
		Sweep:             sweepInterval,
	}
}

// copies opens the bucket that snapshots are copied to; nil without one.
func copies(ctx context.Context, c config.Config, log *zap.Logger, instruments *metrics.Metrics) (*offsite.Copier, error) {
	if c.SnapshotURL == "" {
		return nil, nil
	}
	copier, err := offsite.Open(ctx, c.SnapshotURL, offsite.Options{Keep: c.SnapshotsKept, Log: log.Named("offsite")})
	if err != nil {
		return nil, fmt.Errorf("--snapshot-url: %w", err)
	}
	if err := watchCopies(instruments, copier); err != nil {
		return nil, errors.Join(err, copier.Close(ctx))
	}
	return copier, nil
}

func newLogger(c config.Config, stderr io.Writer) *zap.Logger {
	encoding := zap.NewProductionEncoderConfig()
	encoding.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	encoder := zapcore.NewJSONEncoder(encoding)
	if c.LogFormat == config.LogConsole {
		encoder = zapcore.NewConsoleEncoder(encoding)
	}
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(stderr)), level(c.LogLevel)))
}

func level(l config.LogLevel) zapcore.Level {
	switch l {
	case config.LogDebug:
		return zapcore.DebugLevel
	case config.LogWarn:
		return zapcore.WarnLevel
	case config.LogError:
		return zapcore.ErrorLevel
	case config.LogInfo:
	}
	return zapcore.InfoLevel
}
