package replicated

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"hindsight/internal/cluster/command"
	"hindsight/internal/engine/storage"
)

// localModel has the methods that a replicated model takes from its local model unchanged.
type localModel = storage.Model

// Model is a model of a Store. It implements storage.Model.
type Model struct {
	localModel
	store *Store
	name  string
	gone  atomic.Bool
	// ids is locked while the local store puts ids or applies a record. So local puts have the order of the log.
	ids struct {
		sync.Mutex
		// appendedHere: the last change of the log or the ids was an Append of this process. Then the next Append has
		// only the ids of its own record, and the local store knows none of them.
		appendedHere bool
		// rewound: the log was rewound since the last FollowRewind, so that ids of this server may be of undone records.
		// follows: FollowRewind was called.
		rewound, follows bool
	}
}

func (m *Model) failed(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("replicated: %s of model %q: %w", what, m.name, err)
}

func (m *Model) propose(ctx context.Context, what string, c *command.Command) error {
	if m.gone.Load() {
		return m.failed(what, storage.ErrDeleted)
	}
	c.Model = m.Number()
	_, err := m.store.propose(ctx, c)
	return m.failed(what, err)
}

// SetValue implements storage.Model.
func (m *Model) SetValue(ctx context.Context, value []byte, also ...storage.Alias) error {
	return m.propose(ctx, "set the value", &command.Command{Kind: command.SetValue, Value: value, Also: also})
}

// Delete implements storage.Model.
func (m *Model) Delete(ctx context.Context) error {
	return m.propose(ctx, "delete the data", &command.Command{Kind: command.Delete})
}

// Append implements storage.Log.
func (m *Model) Append(ctx context.Context, c storage.Commit) error {
	return m.propose(ctx, "append to the log", &command.Command{Kind: command.Append, Record: c.Record, IDs: c.IDs, Answered: c.Answered})
}

// Rewind implements storage.Log. A log cannot carry the function Rewind.Undone. If Undone is not nil, every server
// forgets the ids that Options.Undone selects.
func (m *Model) Rewind(ctx context.Context, r storage.Rewind) error {
	// The check precedes the proposal, because a local store would reject the command with an error that stops Apply.
	if r.Last != nil && (r.Last.Last != r.Sequence || r.Last.First > r.Last.Last) {
		return m.failed("rewind the log", fmt.Errorf("the record of %d to %d does not end with sequence %d", r.Last.First, r.Last.Last, r.Sequence))
	}
	return m.propose(ctx, "rewind the log", &command.Command{
		Kind: command.Rewind, Sequence: r.Sequence, Last: r.Last, Value: r.Value, Snapshot: r.Snapshot, IDs: r.IDs, Forget: r.Undone != nil,
	})
}

// PutIDs implements storage.IDs. It puts the ids only into the local store: every other server derives them from its
// log, or has them from a later commit or with a snapshot. For a caller of
// FollowRewind it puts nothing between a rewind and FollowRewind.
func (m *Model) PutIDs(ctx context.Context, ids []storage.ID) error {
	m.ids.Lock()
	defer m.ids.Unlock()
	m.ids.appendedHere = false
	if m.ids.rewound {
		return nil
	}
	return m.failed("remember ids", m.localModel.PutIDs(ctx, ids))
}

// FollowRewind says that the caller has given up everything that it derived from the log before. What it puts from now on
// is of the log after all rewinds so far.
func (m *Model) FollowRewind() {
	m.ids.Lock()
	defer m.ids.Unlock()
	m.ids.rewound, m.ids.follows = false, true
}

// PutPending implements storage.Pending. The rows are committed on return: an owner that is cut off has no row that the
// next owner lacks. PutPending waits for the outcome, so that the log never has the rows of a failed call behind the
// answer to a later call of the same id. A command has rows of at most maxPart bytes, or one row.
func (m *Model) PutPending(rows []storage.Prediction) error {
	for {
		n, bytes := 0, 0
		for ; n < len(rows); n++ {
			if bytes += pendingBytes(&rows[n]); bytes > maxPart && n > 0 {
				break
			}
		}
		err := m.propose(context.Background(), "keep pending predictions", &command.Command{Kind: command.PutPending, Pending: rows[:n]})
		if rows = rows[n:]; err != nil || len(rows) == 0 {
			return err
		}
	}
}

// ProposeDigest makes all servers digest rows of the model at one position of the log, and their states at a sequence
// unless that is 0. Changed receives the digest of each server, also of this one. Rows.Without has no effect.
func (m *Model) ProposeDigest(ctx context.Context, sequence uint64, r storage.Rows) error {
	return m.propose(ctx, "propose a digest", &command.Command{Kind: command.Digest, Sequence: sequence, From: r.From, To: r.To, Forgotten: r.Since})
}

// ProposeSnapshot sends the owner's snapshot of a sequence to the other servers, whose engines write it. The other
// servers first put ids, which this server has put before. The snapshot may get lost.
func (m *Model) ProposeSnapshot(ctx context.Context, sequence uint64, data []byte, ids []storage.ID) error {
	if err := m.propose(ctx, "remember ids", &command.Command{Kind: command.PutIDs, IDs: ids}); err != nil {
		return err
	}
	return m.propose(ctx, "propose a snapshot", &command.Command{Kind: command.Snapshot, Sequence: sequence, Snapshot: data})
}
