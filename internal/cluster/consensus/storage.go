package consensus

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"go.uber.org/zap"
)

// notFound is the text of the error of a raft.StableStore without the requested key.
const notFound = "not found"

// Storage keeps the log, and a few values beside the log. Every write is durable on return.
type Storage interface {
	raft.LogStore
	raft.StableStore
}

// trackedStorage tracks the last command of the log, and how much the log has grown. A command here is an entry that
// the library passes to the machine.
type trackedStorage struct {
	Storage
	// report receives failures of the disk after opened is set.
	report         func(error)
	opened         atomic.Bool
	last           atomic.Uint64
	bytes, entries atomic.Uint64
	// writes counts the beginnings and the ends of writes, so that it is odd during a write. The library writes one at a
	// time.
	writes atomic.Uint64
	// appended wakes after each write.
	appended broadcast
	// grown has room for one signal: the log has grown by keepBytes.
	grown chan struct{}
}

func track(s Storage, report func(error)) (*trackedStorage, error) {
	t := &trackedStorage{Storage: s, report: report, grown: make(chan struct{}, 1)}
	end, err := s.LastIndex()
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	return t, t.find(end)
}

func isCommand(l *raft.Log) bool { return l.Type == raft.LogCommand || l.Type == raft.LogConfiguration }

func (t *trackedStorage) find(index uint64) error {
	t.last.Store(0)
	for ; index > 0; index-- {
		var l raft.Log
		switch err := t.GetLog(index, &l); {
		case errors.Is(err, raft.ErrLogNotFound):
			return nil // The mark has replaced the earlier entries.
		case err != nil:
			return fmt.Errorf("cluster: %w", err)
		case isCommand(&l):
			t.last.Store(index)
			return nil
		}
	}
	return nil
}

func (t *trackedStorage) lastCommand() uint64 { return t.last.Load() }

// SetUint64 implements raft.StableStore. The library panics if it cannot store its term. So SetUint64 reports a
// failure and ends the goroutine of the library. After that this server neither votes nor answers.
func (t *trackedStorage) SetUint64(key []byte, value uint64) error {
	err := t.Storage.SetUint64(key, value)
	if err != nil && t.opened.Load() {
		t.report(fmt.Errorf("cluster: %w", err))
		runtime.Goexit()
	}
	return err
}

func (t *trackedStorage) StoreLog(l *raft.Log) error { return t.StoreLogs([]*raft.Log{l}) }

func (t *trackedStorage) StoreLogs(logs []*raft.Log) error {
	t.writes.Add(1)
	err := t.Storage.StoreLogs(logs)
	t.writes.Add(1)
	if err != nil {
		return err
	}
	for _, l := range logs {
		t.bytes.Add(uint64(len(l.Data)))
		t.entries.Add(1)
		if isCommand(l) {
			t.last.Store(l.Index)
		}
	}
	t.appended.wake()
	if t.bytes.Load() >= keepBytes {
		select {
		case t.grown <- struct{}{}:
		default:
		}
	}
	return nil
}

// DeleteRange implements raft.LogStore.
func (t *trackedStorage) DeleteRange(first, last uint64) error {
	if err := t.Storage.DeleteRange(first, last); err != nil {
		return err
	}
	if c := t.last.Load(); first <= c && c <= last {
		return t.find(first - 1)
	}
	return nil
}

// trim makes a mark whenever the log has grown by keepBytes, and lets the log keep about keepBytes before the mark.
// The library alone would count entries, and an entry may be large.
func (l *Log) trim() {
	for {
		select {
		case <-l.stop:
			return
		case <-l.tracked.grown:
		}
		bytes, entries := l.tracked.bytes.Load(), l.tracked.entries.Load()
		if bytes < keepBytes {
			continue
		}
		l.tracked.bytes.Add(-bytes)
		l.tracked.entries.Add(-entries)
		c := l.raft.ReloadableConfig()
		c.TrailingLogs = min(keepBytes/(bytes/entries), cmp.Or(l.o.Marks.Trailing, keepEntries))
		if err := errors.Join(l.raft.ReloadConfig(c), l.Mark()); err != nil {
			l.log.Warn("the log is not cut", zap.Error(err))
		}
	}
}

func (l *Log) config(logger hclog.Logger) *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(l.o.Self.ID)
	election := electionTimeout
	c.CommitTimeout = commitTimeout
	if l.o.Calm {
		election, c.CommitTimeout = calmElectionTimeout, calmCommitTimeout
	}
	c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = election, election, l.lease
	c.MaxAppendEntries = maxAppend
	c.BatchApplyCh = true
	c.ShutdownOnRemove = false
	c.NoSnapshotRestoreOnStart = true
	c.NoLegacyTelemetry = true
	c.Logger = logger
	c.TrailingLogs = cmp.Or(l.o.Marks.Trailing, keepEntries)
	c.SnapshotThreshold = cmp.Or(l.o.Marks.Threshold, markEntries)
	c.SnapshotInterval = cmp.Or(l.o.Marks.Interval, markInterval)
	return c
}

const (
	markEntries  = 8192
	markInterval = 30 * time.Second
	// The log keeps keepEntries before a mark, or keepBytes if that is less.
	keepEntries = 10240
	keepBytes   = 64 << 20
)
