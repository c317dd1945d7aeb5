// Package systemd notifies the service manager of the state of the server, by the protocol of
// sd_notify(3). Without NOTIFY_SOCKET in the environment it does nothing.
package systemd

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"
)

// share is the number of checks in an interval of the watchdog. One of them may be late.
const share = 3

// Supervise sends READY after the first check, and STOPPING when the context ends. If the
// service manager has a watchdog (WATCHDOG_USEC), Supervise also checks three times in each
// interval, and sends WATCHDOG after each check without an error. A check may take a third
// of the interval. If a check never returns, the service manager ends the process.
//
// Supervise returns when the context has ended, or with the error of the first check.
// Without a service manager it checks nothing.
func Supervise(ctx context.Context, log *zap.Logger, check func(context.Context) error) error {
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
	tick := time.NewTicker(interval / share)
	defer tick.Stop()
	for {
		limited, cancel := context.WithTimeout(ctx, interval/share)
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
