package store

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"hindsight/internal/engine/storage"
)

var (
	// ErrNoEntry says that the log of Raft has no entry of the index.
	ErrNoEntry = errors.New("store: no entry of this index in the log of Raft")
	// ErrNoValue says that Raft has no value under the key. The Raft library recognizes the error by its text.
	ErrNoValue = errors.New("not found")
)

// RaftEntry is an entry of the log of Raft.
type RaftEntry struct {
	Index, Term      uint64
	Type             uint8
	Data, Extensions []byte
	AppendedAt       time.Time
}

// RaftLog is the log and the values of one Raft server, on Pebble in a directory of its own. Every write is
// durable on return. As in a Store, the first rejected write ends all writing.
//
// Entries and values have checksums, and OpenRaftLog verifies all of them. RaftLog repairs nothing, because Raft must
// not continue without entries that it has acknowledged.
type RaftLog struct {
	directory
	db *database
	// writing serializes each write with its update of first and last.
	writing sync.Mutex
	// first and last are the indices of the first and the last entry, 0 in an empty log. The log may have holes.
	first, last atomic.Uint64
	closeOnce   sync.Once
}

const (
	familyValue     = 'k' // key -> checksum, value
	raftMemTable    = 8 << 20
	raftCache       = 16 << 20
	raftDepth       = 5 // The directories to sync: groups/<n>/raft, the data directory and the one above.
	raftEntryHeader = 4 + 8 + 1 + 8 + 4
)

// OpenRaftLog opens the log of a Raft server in a directory, or creates both. It fails with storage.ErrCorrupt on
// damage, and otherwise as Open does. It uses only the options FS, Synced and Logger.
func OpenRaftLog(dir string, o Options) (_ *RaftLog, err error) {
	l := &RaftLog{directory: newDirectory(dir, o)}
	defer func() {
		if err == nil {
			return
		}
		if failed := l.Failed(); failed != nil && !errors.Is(err, storage.ErrCorrupt) {
			err = failed
		}
		err = errors.Join(fmt.Errorf("open the log of Raft: %w", damaged(err)), l.Close())
	}()
	if err := l.fs.MkdirAll(dir, directoryMode); err != nil {
		return nil, fmt.Errorf("store: create %s: %w", dir, err)
	}
	for above, n := dir, 0; n < raftDepth; above, n = l.fs.PathDir(above), n+1 {
		if err := l.syncDirectory(above); err != nil {
			return nil, err
		}
	}
	err = inOrder(
		l.lockDirectory,
		func() error { return l.checkTail(logDirectory, false) },
		func() (err error) {
			l.cache = pebble.NewCache(raftCache)
			l.db, err = l.openDB(logDirectory, false, cmp.Or(o.memTable, raftMemTable))
			l.guard.opening.Store(err != nil)
			return err
		},
		l.verify, l.readBounds, l.Failed,
	)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func damaged(err error) error {
	if pebble.IsCorruptionError(err) {
		return errors.Join(storage.ErrCorrupt, err)
	}
	return err
}

func (l *RaftLog) verify() error {
	err := l.db.scan([]byte{familyLog}, []byte{familyLog + 1}, func(k, v []byte) (bool, error) {
		_, err := decodeEntry(k, v)
		return true, err
	})
	if err == nil {
		err = l.db.scan([]byte{familyValue}, []byte{familyValue + 1}, func(k, v []byte) (bool, error) {
			_, err := checked(k, v)
			return true, err
		})
	}
	return err
}

// readBounds reads the indices of the first and the last entry. The caller holds writing, unless the log is being
// opened.
func (l *RaftLog) readBounds() (err error) {
	lower, upper := []byte{familyLog}, []byte{familyLog + 1}
	var first, last uint64
	k, _, err := l.db.last(lower, upper)
	if err == nil && k != nil {
		last = binary.BigEndian.Uint64(k[1:])
		err = l.db.scan(lower, upper, func(k, _ []byte) (bool, error) {
			first = binary.BigEndian.Uint64(k[1:])
			return false, nil
		})
	}
	if err != nil {
		return damaged(failed("find the ends of the log of Raft", err))
	}
	l.first.Store(first)
	l.last.Store(last)
	return nil
}

// Close closes the log. The caller makes no concurrent calls. A second Close does nothing.
func (l *RaftLog) Close() (err error) {
	l.closeOnce.Do(func() {
		close(l.guard.closing)
		err = l.close(l.db)
	})
	return err
}

// FirstIndex returns the index of the first entry, 0 if the log is empty.
func (l *RaftLog) FirstIndex() (uint64, error) { return l.first.Load(), nil }

// LastIndex returns the index of the last entry, 0 if the log is empty.
func (l *RaftLog) LastIndex() (uint64, error) { return l.last.Load(), nil }

// Entry returns the entry of an index, or ErrNoEntry.
func (l *RaftLog) Entry(index uint64) (RaftEntry, error) {
	k := key(familyLog, index)
	v, ok, err := l.db.get(k)
	if err != nil {
		return RaftEntry{}, fmt.Errorf("store: read entry %d of the log of Raft: %w", index, damaged(err))
	}
	if !ok {
		return RaftEntry{}, fmt.Errorf("%w: %d", ErrNoEntry, index)
	}
	return decodeEntry(k, v)
}

func decodeEntry(k, v []byte) (e RaftEntry, err error) {
	body, err := checked(k, v)
	switch {
	case err != nil:
		return e, err
	case len(k) != modelKeyLength || len(v) < raftEntryHeader:
		return e, fmt.Errorf("store: %w: entry of Raft with a key of %d bytes and a value of %d bytes", storage.ErrCorrupt, len(k), len(v))
	}
	e.Index, e.Term, e.Type = binary.BigEndian.Uint64(k[1:]), binary.BigEndian.Uint64(body), body[8]
	if at := int64(binary.BigEndian.Uint64(body[9:])); at != 0 {
		e.AppendedAt = time.Unix(0, at)
	}
	n, rest := binary.BigEndian.Uint32(body[17:]), body[21:]
	if uint64(n) > uint64(len(rest)) {
		return e, fmt.Errorf("store: %w: entry %d of Raft has extensions of %d bytes in %d", storage.ErrCorrupt, e.Index, n, len(rest))
	}
	e.Extensions, e.Data = rest[:n:n], rest[n:]
	return e, nil
}

// checked returns a value without its checksum, which covers the key too.
func checked(k, v []byte) ([]byte, error) {
	if len(v) < 4 || binary.BigEndian.Uint32(v) != checksum(k, nil, v[4:]) {
		return nil, fmt.Errorf("store: %w: the checksum of %q of Raft does not match", storage.ErrCorrupt, k)
	}
	return v[4:], nil
}

// Append durably stores entries. The first entry may leave a hole before it.
func (l *RaftLog) Append(entries []RaftEntry) error {
	if len(entries) == 0 {
		return nil
	}
	err := l.write(func(b *pebble.Batch) error {
		for n := range entries {
			if err := setEntry(b, &entries[n]); err != nil {
				return err
			}
		}
		return nil
	}, func() error {
		first, last := l.first.Load(), l.last.Load()
		for n := range entries {
			index := entries[n].Index
			last = max(last, index)
			if first == 0 || index < first {
				first = index
			}
		}
		l.first.Store(first)
		l.last.Store(last)
		return nil
	})
	if err != nil {
		return fmt.Errorf("append to the log of Raft: %w", err)
	}
	return nil
}

// setEntry encodes an entry directly into the memory of the batch.
func setEntry(b *pebble.Batch, e *RaftEntry) error {
	if len(e.Extensions) > math.MaxUint32 {
		return fmt.Errorf("entry %d has extensions of %d bytes", e.Index, len(e.Extensions))
	}
	put := b.SetDeferred(modelKeyLength, raftEntryHeader+len(e.Extensions)+len(e.Data))
	appendKey(put.Key[:0], familyLog, e.Index)
	v := put.Value[4:4]
	v = append(binary.BigEndian.AppendUint64(v, e.Term), e.Type)
	at := int64(0)
	if !e.AppendedAt.IsZero() {
		at = e.AppendedAt.UnixNano()
	}
	v = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(v, uint64(at)), uint32(len(e.Extensions)))
	v = append(append(v, e.Extensions...), e.Data...)
	binary.BigEndian.PutUint32(put.Value, checksum(put.Key, nil, v))
	return put.Finish()
}

// DeleteRange durably deletes the entries from first to last.
func (l *RaftLog) DeleteRange(first, last uint64) error {
	upper := []byte{familyLog + 1}
	if last < math.MaxUint64 {
		upper = key(familyLog, last+1)
	}
	if first > last {
		return nil
	}
	err := l.write(func(b *pebble.Batch) error { return b.DeleteRange(key(familyLog, first), upper, nil) }, l.readBounds)
	if err != nil {
		return fmt.Errorf("delete entries %d to %d of the log of Raft: %w", first, last, err)
	}
	return nil
}

// Set durably stores a value.
func (l *RaftLog) Set(name, value []byte) error {
	k := valueKey(name)
	v := append(binary.BigEndian.AppendUint32(nil, checksum(k, nil, value)), value...)
	err := l.write(func(b *pebble.Batch) error { return b.Set(k, v, nil) }, func() error { return nil })
	if err != nil {
		return fmt.Errorf("store a value of Raft: %w", err)
	}
	return nil
}

// Get returns a value, or ErrNoValue.
func (l *RaftLog) Get(name []byte) ([]byte, error) {
	k := valueKey(name)
	v, ok, err := l.db.get(k)
	if err != nil {
		return nil, fmt.Errorf("store: read a value of Raft: %w", damaged(err))
	}
	if !ok {
		return nil, ErrNoValue
	}
	return checked(k, v)
}

// SetUint64 durably stores a number.
func (l *RaftLog) SetUint64(name []byte, value uint64) error {
	return l.Set(name, binary.BigEndian.AppendUint64(nil, value))
}

// GetUint64 returns a number, or ErrNoValue.
func (l *RaftLog) GetUint64(name []byte) (uint64, error) {
	v, err := l.Get(name)
	if err != nil {
		return 0, err
	}
	if len(v) != 8 {
		return 0, fmt.Errorf("store: %w: value %q of Raft has %d bytes, want 8", storage.ErrCorrupt, name, len(v))
	}
	return binary.BigEndian.Uint64(v), nil
}

func valueKey(name []byte) []byte { return append([]byte{familyValue}, name...) }

// write commits a batch durably, and then calls after.
func (l *RaftLog) write(fill func(*pebble.Batch) error, after func() error) error {
	if err := l.db.room(context.Background()); err != nil {
		return err
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.db.commitSynced(fill); err != nil {
		return err
	}
	return after()
}
