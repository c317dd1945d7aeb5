package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"hindsight/cmd/server/internal/backup"
	"hindsight/cmd/server/internal/config"
	"hindsight/internal/clock"
)

const (
	// The time from a failed backup to the next attempt, unless --backup-every is shorter.
	retryBackup = time.Minute
	// The bound of the backup at the end of the server.
	lastBackup = 30 * time.Second
	// The interval at which a server looks whether it owns a group.
	ownerInterval = time.Second
)

// schedule takes backups of the store of a group that this process has open. In a cluster only the owner of a group
// takes them: two servers that write to one place would remove objects of each other.
type schedule struct {
	place *backup.Place
	group backup.Group
	// owns reports whether this server owns the group; nil without a cluster.
	owns    func() bool
	every   time.Duration
	keep    int
	control *control
	log     *zap.Logger
	tally   *tally
}

type tally struct {
	failed atomic.Int64
	// newest is when the newest backup began, nil before the first.
	newest atomic.Pointer[time.Time]
}

type backups struct {
	Failed      int64
	LastSuccess time.Time
}

// openSchedule opens the place of --backup-to. It returns nil without the flag.
func openSchedule(c config.Config, group backup.Group, owns func() bool, counts *tally, held *control, log *zap.Logger) (*schedule, error) {
	if c.BackupTo == "" {
		return nil, nil
	}
	err := checkOutside(c.BackupTo, c.DataDir)
	if err != nil {
		return nil, fmt.Errorf("--backup-to: %w", err)
	}
	s := &schedule{group: group, owns: owns, every: c.BackupEvery, keep: c.BackupKeep, control: held, log: log, tally: counts}
	if s.place, err = backup.Open(group.Place(c.BackupTo), true); err != nil {
		return nil, fmt.Errorf("--backup-to: %w", err)
	}
	return s, nil
}

// backups returns the figures of the groups so far. The newest backup of a group is shown by its owner.
func (g *groups) backups() (out []backups) {
	for n := range g.tallies {
		stats := backups{Failed: g.tallies[n].failed.Load()}
		if newest := g.tallies[n].newest.Load(); newest != nil && (g.host == nil || g.host.Group(uint32(n)).Owns()) {
			stats.LastSuccess = *newest
		}
		out = append(out, stats)
	}
	return out
}

// due reports whether this server takes the backups of the group.
func (s *schedule) due() bool { return s.owns == nil || s.owns() }

// start takes a backup whenever one is due, in a goroutine. The returned end stops
// that, takes a last backup and closes the place. Both do nothing for a nil schedule.
func (s *schedule) start(ctx context.Context) (end func(context.Context)) {
	if s == nil {
		return func(context.Context) {}
	}
	running, stop := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() {
		owner := false
		for wait := time.Duration(0); clock.Sleep(running, wait); {
			switch was := owner; {
			case !s.due():
				owner, wait = false, ownerInterval
			case !was:
				owner, wait = true, s.untilFirst(running)
			case s.take(running):
				wait = s.every
			default:
				wait = min(s.every, retryBackup)
			}
		}
	})
	return func(ctx context.Context) {
		stop()
		work.Wait()
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastBackup)
		defer cancel()
		s.take(limit)
	}
}

// untilFirst returns the time until the first backup, which is due when the newest backup of the
// place is older than the interval. Frequent restarts therefore do not displace older backups.
func (s *schedule) untilFirst(ctx context.Context) time.Duration {
	newest, err := s.place.Newest(ctx)
	if err != nil || newest.IsZero() {
		return 0 // If the place cannot be read, the backup fails and logs why.
	}
	s.tally.newest.Store(&newest)
	return min(max(s.every-time.Since(newest), 0), s.every)
}

func (s *schedule) take(ctx context.Context) bool {
	ctx, end := whileOwner(ctx, s.owns)
	defer end()
	if !s.due() {
		return false
	}
	started := time.Now()
	taken, err := takeInto(ctx, s.place, s.group, s.keep, s.control.hold, nil)
	moved := errors.Is(err, errMoved) // The new owner takes the next backup.
	if taken == nil && (moved || errors.Is(ctx.Err(), context.Canceled)) {
		return false // The server ends and takes the last backup next.
	}
	if taken != nil {
		s.tally.newest.Store(&started)
		s.log.Info("backup taken", zap.String("backup", taken.Backup), zap.Int("models", taken.Models),
			zap.Int("new_files", taken.NewFiles), zap.Int64("new_bytes", taken.NewBytes), zap.Duration("took", time.Since(started)))
	}
	if err != nil && !moved {
		s.tally.failed.Add(1)
		s.log.Error("the backup failed", zap.Error(err))
	}
	return err == nil
}
