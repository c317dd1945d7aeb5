// Package systemd tells the service manager how the server is, by the protocol of
// sd_notify(3). Without NOTIFY_SOCKET in the environment nobody is told.
package systemd

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"
)

// share is how many checks fit into the interval of the watchdog. One of them may be late.
const share = 3

// Supervise sends READY after the first check, and STOPPING when the context ends. If the
// service manager has a watchdog (WATCHDOG_USEC), it also checks three times in each of its
// intervals, and sends WATCHDOG after each check that finds no error. A check has a third
// of the interval. One that never returns sends nothing either, and the service manager
// ends the process.
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
	tell := func(state string) {
		if _, err := daemon.SdNotify(false, state); err != nil {
			log.Warn("systemd was not told", zap.String("state", state), zap.Error(err))
		}
	}
	if err := check(ctx); ctx.Err() != nil {
		return nil
	} else if err != nil {
		return fmt.Errorf("the first check of the server: %w", err)
	}
	tell(daemon.SdNotifyReady)
	defer tell(daemon.SdNotifyStopping)
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
			log.Error("the server does not serve: the watchdog of systemd is not told", zap.Error(err))
		default:
			tell(daemon.SdNotifyWatchdog)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
