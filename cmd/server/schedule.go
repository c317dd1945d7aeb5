package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"hindsight/cmd/server/internal/backup"
	"hindsight/cmd/server/internal/config"
)

const (
	// The time from a failed backup to the next attempt, unless --backup-every is shorter.
	retryBackup = time.Minute
	// The bound of the backup at the end of the server.
	lastBackup = 30 * time.Second
)

// schedule takes backups of the store that this process has open.
type schedule struct {
	place   *backup.Place
	every   time.Duration
	keep    int
	control *control
	log     *zap.Logger
	mu      sync.Mutex
	stats   backups
}

// backups are the figures of a schedule.
type backups struct {
	Taken       int64     `metric:"hindsight_backups_total" help:"Scheduled backups taken."`
	Bytes       int64     `metric:"hindsight_backup_bytes_total" help:"Bytes that scheduled backups wrote."`
	Failed      int64     `metric:"hindsight_backup_failures_total" help:"Scheduled backups that failed."`
	LastSuccess time.Time `metric:"hindsight_backup_last_success_timestamp_seconds" help:"When the newest backup of the schedule was begun; absent before the first."`
}

// openSchedule opens the place of --backup-to. It returns nil without the flag.
func openSchedule(ctx context.Context, c config.Config, held *control, log *zap.Logger) (*schedule, error) {
	if c.BackupTo == "" {
		return nil, nil
	}
	err := checkOutside(c.BackupTo, c.DataDir)
	if err != nil {
		return nil, fmt.Errorf("--backup-to: %w", err)
	}
	s := &schedule{every: c.BackupEvery, keep: c.BackupKeep, control: held, log: log}
	if s.place, err = backup.Open(ctx, c.BackupTo, true); err != nil {
		return nil, fmt.Errorf("--backup-to: %w", err)
	}
	return s, nil
}

// figures returns the figures so far.
func (s *schedule) figures() backups {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// start takes a backup whenever one is due, in a goroutine of its own. The returned end stops
// that, takes a last backup and closes the place. Both do nothing for a nil schedule.
func (s *schedule) start(ctx context.Context) (end func(context.Context)) {
	if s == nil {
		return func(context.Context) {}
	}
	running, stop := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() {
		for wait := s.first(running); ; {
			due := time.NewTimer(wait)
			select {
			case <-running.Done():
				due.Stop()
				return
			case <-due.C:
			}
			wait = s.every
			if !s.take(running) {
				wait = min(wait, retryBackup)
			}
		}
	})
	return func(ctx context.Context) {
		stop()
		work.Wait()
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastBackup)
		defer cancel()
		s.take(limit)
		if err := s.place.Close(); err != nil {
			s.log.Warn("the place of backups is not closed", zap.Error(err))
		}
	}
}

// first returns the time until the first backup, which is due when the newest backup of the
// place is older than the interval. Frequent restarts therefore do not displace older backups.
func (s *schedule) first(ctx context.Context) time.Duration {
	newest, err := s.place.Newest(ctx)
	if err != nil || newest.IsZero() {
		return 0 // If the place cannot be read, the backup fails and logs why.
	}
	s.mu.Lock()
	s.stats.LastSuccess = newest
	s.mu.Unlock()
	return min(max(s.every-time.Since(newest), 0), s.every)
}

// take takes one backup and reports its success.
func (s *schedule) take(ctx context.Context) bool {
	started := time.Now()
	taken, err := takeInto(ctx, s.place, s.keep, s.control.hold, nil)
	if taken == nil && errors.Is(ctx.Err(), context.Canceled) {
		return false // The server ends and takes the last backup next.
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if taken != nil {
		s.stats.Taken++
		s.stats.Bytes += taken.NewBytes
		s.stats.LastSuccess = started
		s.log.Info("backup taken", zap.String("backup", taken.Backup), zap.Int("models", taken.Models),
			zap.Int("new_files", taken.NewFiles), zap.Int64("new_bytes", taken.NewBytes), zap.Duration("took", time.Since(started)))
	}
	if err != nil {
		s.stats.Failed++
		s.log.Error("the backup failed", zap.Error(err))
	}
	return err == nil
}
