package store

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"go.uber.org/zap"
)

// pebbleLog writes Pebble's log lines. Pebble expects a fatal line to end the process; here it
// ends the store's writing.
type pebbleLog struct {
	log   *zap.Logger
	guard *guard
	// damage receives damage of a database that can be set aside. If damage is nil, damage
	// ends the store's writing too.
	damage func(error)
}

func (l *pebbleLog) Infof(format string, args ...any) {
	if l.log.Core().Enabled(zap.DebugLevel) {
		l.log.Debug(fmt.Sprintf(format, args...))
	}
}

func (l *pebbleLog) Errorf(format string, args ...any) { l.log.Error(fmt.Sprintf(format, args...)) }

func (l *pebbleLog) Fatalf(format string, args ...any) { _ = l.guard.fail(fmt.Errorf(format, args...)) }

// events end the store's writing if a flush or a compaction cannot read or write. Pebble would
// retry without end.
func (l *pebbleLog) events() *pebble.EventListener {
	fail := func(err error) {
		select {
		case <-l.guard.closing: // Close interrupts compactions, which is no failure.
		default:
			_ = l.guard.fail(err)
		}
	}
	damage := fail
	if l.damage != nil {
		damage = l.damage
	}
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			if pebble.IsCorruptionError(err) {
				damage(err)
			} else {
				fail(err)
			}
		},
		DataCorruption: func(i pebble.DataCorruptionInfo) {
			damage(fmt.Errorf("damaged file %s: %w", i.Path, i.Details)) // Its String has a stack trace.
		},
	}
}

func (s *Store) watch() {
	s.background.Go(func() {
		select {
		case <-s.guard.failed:
			s.log.Error("storage failed: nothing is acknowledged any more; restart the server once the disk is well",
				zap.Error(s.guard.err()))
		case <-s.stop:
		}
	})
}
