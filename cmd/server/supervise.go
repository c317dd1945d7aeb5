package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"

	"hindsight/internal/rpc"
)

// supervised returns the function that notifies systemd until the context ends. The server is
// alive if the gRPC server answers a health check from within the process with any status, and
// the engine can lock its table of models. The check needs no connection, so a server with
// maxConnections clients is alive.
func supervised(ctx context.Context, log *zap.Logger, server *rpc.Server, models *groups) func() error {
	local := server.Local()
	check := func(ctx context.Context) error {
		if err := local.Answers(ctx); err != nil {
			return err
		}
		return models.answers()
	}
	return func() error { return supervise(ctx, log, check) }
}

// watchdogShare is the number of checks in an interval of the watchdog. One of them may be late.
const watchdogShare = 3

// supervise sends READY after the first check, and STOPPING when the context ends. If the
// service manager has a watchdog (WATCHDOG_USEC), supervise also checks three times in each
// interval, and sends WATCHDOG after each check without an error. A check may take a third
// of the interval. If a check never returns, the service manager ends the process.
//
// It returns when the context has ended, or with the error of the first check.
// Without a service manager (NOTIFY_SOCKET) it checks nothing.
func supervise(ctx context.Context, log *zap.Logger, check func(context.Context) error) error {
	if os.Getenv("NOTIFY_SOCKET") == "" {
		<-ctx.Done()
		return nil
	}
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return fmt.Errorf("watchdog of systemd: %w", err)
	}
	notify := func(state string) {
		if _, err := daemon.SdNotify(false, state); err != nil {
			log.Warn("systemd was not notified", zap.String("state", state), zap.Error(err))
		}
	}
	if err := check(ctx); ctx.Err() != nil {
		return nil
	} else if err != nil {
		return fmt.Errorf("the first check of the server: %w", err)
	}
	notify(daemon.SdNotifyReady)
	defer notify(daemon.SdNotifyStopping)
	if interval == 0 {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(interval / watchdogShare)
	defer tick.Stop()
	for {
		limited, cancel := context.WithTimeout(ctx, interval/watchdogShare)
		err := check(limited)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			log.Error("the check of the server failed: the watchdog of systemd is not notified", zap.Error(err))
		default:
			notify(daemon.SdNotifyWatchdog)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
