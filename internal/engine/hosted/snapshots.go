package hosted

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"hindsight/internal/engine/recovery"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/snapshot"
)

const (
	// A snapshot is due at the earliest after snapshotShare times as much replay as the last one took to
	// be written.
	snapshotShare = 10
	coldReplay    = 3
	// Reading a snapshot back takes as long as recovering the model from it, so one snapshot in readBackEvery is read
	// back. The log stays readBackEvery snapshots longer.
	readBackEvery = 8
	// An encoded state takes at most slack bytes beside its numbers.
	slack     = 4096
	pageBytes = 4096
	// A state is in memory copiesOf times while a copy of it is encoded: as its bytes, and as the bytes
	// of the whole snapshot.
	copiesOf = 2
)

var (
	// ErrSuperseded says that a captured model was restored or deleted before its snapshot was written.
	ErrSuperseded = errors.New("the model was restored or deleted meanwhile")
	// ErrUnreadable says that a snapshot cannot be read back. The log has every observation.
	ErrUnreadable = errors.New("the snapshot cannot be read back, and the log stays")
	// The model left memory before its turn came.
	errLeft = errors.New("the model has left memory")
)

type snapshots struct {
	id    name              // immutable
	store storage.Snapshots // immutable
	// disk is held while a snapshot is written, and while older ones are dropped and the log is cut, so that
	// a reader of snapshots and log holds it too.
	disk lock
	// epoch changes when captures from before must not be written any more. disk is held.
	epoch atomic.Uint64
	// newest is the sequence of the newest snapshot, 0 without any.
	newest atomic.Uint64
	// checked is the sequence of the last snapshot that was read back, which stays, and checkedEpoch the epoch of the
	// snapshot. unchecked counts the snapshots since. disk is held.
	checked, checkedEpoch uint64
	unchecked             int
	// The snapshots from suspect on differ from the log, and no load uses them; 0 is none. disk is held.
	suspect uint64
	// lastCaptureAt is when a state was last captured, newestAt when the newest snapshot was, or when the model was
	// taken up if that is later. Both are in nanoseconds since 1970.
	lastCaptureAt, newestAt atomic.Int64
	// writeTime is how long the newest snapshot took to be written, without the wait for other servers.
	writeTime atomic.Int64
	// handedOver: a capture waits to be written, or is being written, so that no other one is handed over.
	handedOver atomic.Bool
	// replay estimates the nanoseconds to replay the log after the newest snapshot, cost the nanoseconds to replay
	// one observation.
	replay, cost atomic.Int64
}

func (s *snapshots) init(store storage.Snapshots, id name, now time.Time) {
	s.store, s.id = store, id
	s.lastCaptureAt.Store(now.UnixNano())
	s.newestAt.Store(now.UnixNano())
}

// lock waits until no snapshot of the model is being written.
func (s *snapshots) lock(ctx context.Context) error {
	return s.disk.take(ctx, "a snapshot of the model to be written")
}

func (s *snapshots) unlock() { s.disk.free() }

// supersede waits for a capture that is being written, and lets no other one be written.
func (s *snapshots) supersede(ctx context.Context) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	s.epoch.Add(1)
	return nil
}

// setNewest sets the newest snapshot after a recovery.
func (s *snapshots) setNewest(sequence uint64, now time.Time) {
	previous := s.newest.Swap(sequence)
	if sequence == 0 {
		if previous > 0 { // The model was restored to before its snapshots.
			s.newestAt.Store(now.UnixNano())
		}
		return
	}
	if f, err := s.store.StatSnapshot(sequence, 0); err == nil {
		s.newestAt.Store(f.Created.UnixNano())
	}
}

func (s *snapshots) size() int64 {
	sequences, err := s.store.Snapshots()
	if err != nil || len(sequences) == 0 {
		return 0
	}
	f, err := s.store.StatSnapshot(sequences[0], 0)
	if err != nil {
		return 0
	}
	return f.Bytes
}

// replayDue reports whether replaying the log would take so long that a snapshot is due. If the other servers are cold,
// the next owner replays the logs of all busy models at once, and a replay counts coldReplay times.
func (s *snapshots) replayDue(o *Options) bool {
	replay := s.replay.Load()
	if o.Cold {
		replay *= coldReplay
	}
	return replay >= int64(o.SnapshotReplay) && replay >= snapshotShare*s.writeTime.Load()
}

// checkDue reports whether the newest snapshot is to be read back before anything is dropped, and counts it if not.
func (s *snapshots) checkDue(ctx context.Context, keep int) (bool, error) {
	if err := s.lock(ctx); err != nil {
		return false, err
	}
	defer s.unlock()
	sequences, err := s.store.Snapshots()
	if err != nil || len(sequences) < keep {
		return false, err
	}
	s.unchecked++
	return s.unchecked >= readBackEvery || keep == 1 || s.checkedEpoch != s.epoch.Load() || !slices.Contains(sequences, s.checked), nil
}

// prune keeps the newest snapshots and the checked one, together so many, drops the others, and cuts the log behind the
// oldest that stays. Until the store has so many, the log reaches back to its beginning. The caller holds disk.
func (s *snapshots) prune(log storage.Log, keep int, keepFrom func(uint64) uint64) error {
	sequences, err := s.store.Snapshots()
	if err != nil || len(sequences) < keep {
		return err
	}
	if n := slices.Index(sequences, s.checked); n >= keep {
		sequences[keep-1], sequences[n] = sequences[n], sequences[keep-1]
	}
	for _, dropped := range sequences[keep:] {
		if err := s.store.RemoveSnapshot(dropped); err != nil {
			return err
		}
	}
	return log.Truncate(keepFrom(slices.Min(sequences[:keep])))
}

// removeNewest removes the newest snapshot, which cannot be read back, and returns why. No error of the state comes back:
// the state in memory and the log are whole. The caller holds disk.
func (s *snapshots) removeNewest(sequence uint64, why error) error {
	if !errors.Is(why, recovery.ErrUnread) && !errors.Is(why, codec.ErrVersion) {
		err := s.store.RemoveSnapshot(sequence)
		if errors.Is(err, storage.ErrNotFound) {
			return nil // A rewind of the store removed the snapshot meanwhile, or the model was deleted.
		}
		if err != nil {
			return s.id.storagef("remove a snapshot that cannot be read back", err)
		}
		left, err := s.store.Snapshots()
		if err != nil {
			return s.id.storagef("list the snapshots", err)
		}
		newest := uint64(0)
		if len(left) > 0 {
			newest = left[0]
		}
		s.newest.Store(newest)
	}
	return fmt.Errorf("engine: model %q: %w: %v", string(s.id), ErrUnreadable, why) //nolint:errorlint // It is no error of the state.
}

// Snapshot describes a snapshot of a model.
type Snapshot struct {
	Sequence uint64
	Created  time.Time
	Bytes    int64
	// Digest is the digest of the learner's state.
	Digest [32]byte
}

func (s *snapshots) describe(sequence uint64) (Snapshot, error) {
	doing := fmt.Sprintf("read snapshot %d", sequence)
	f, err := s.store.StatSnapshot(sequence, snapshot.HeadBytes)
	if errors.Is(err, storage.ErrNotFound) { // A concurrent restore has removed it.
		return Snapshot{}, s.id.errorf(doing, fmt.Errorf("%w: %w", ErrSnapshotNotFound, err))
	}
	if err != nil {
		return Snapshot{}, s.id.storagef(doing, err)
	}
	_, digest, err := snapshot.DecodeHead(f.Head)
	if err != nil {
		return Snapshot{}, s.id.errorf(doing, fmt.Errorf("%w: %w", ErrCorrupt, err))
	}
	return Snapshot{Sequence: sequence, Created: f.Created, Bytes: f.Bytes, Digest: digest}, nil
}

// list describes the snapshots, the newest first. Skipped takes those that do not begin like a
// snapshot, which are left out.
func (s *snapshots) list(skipped func(sequence uint64, err error)) ([]Snapshot, error) {
	sequences, err := s.store.Snapshots()
	if err != nil {
		return nil, s.id.storagef("list the snapshots", err)
	}
	out := make([]Snapshot, 0, len(sequences))
	for _, sequence := range sequences {
		if described, err := s.describe(sequence); err != nil {
			skipped(sequence, err)
		} else {
			out = append(out, described)
		}
	}
	return out, nil
}
