package consensus

import (
	"errors"

	"github.com/hashicorp/raft"

	"hindsight/internal/store"
)

// OnDisk is the storage of a log on disk.
func OnDisk(l *store.RaftLog) Storage { return disk{l} }

// disk implements raft.LogStore over a store.RaftLog, which implements raft.StableStore itself.
type disk struct{ *store.RaftLog }

func (d disk) GetLog(index uint64, out *raft.Log) error {
	e, err := d.Entry(index)
	if errors.Is(err, store.ErrNoEntry) {
		return raft.ErrLogNotFound
	}
	if err != nil {
		return err
	}
	*out = raft.Log{
		Index: e.Index, Term: e.Term, Type: raft.LogType(e.Type), Data: e.Data, Extensions: e.Extensions, AppendedAt: e.AppendedAt,
	}
	return nil
}

func (d disk) StoreLog(l *raft.Log) error { return d.StoreLogs([]*raft.Log{l}) }

func (d disk) StoreLogs(logs []*raft.Log) error {
	entries := make([]store.RaftEntry, len(logs))
	for n, l := range logs {
		entries[n] = store.RaftEntry{
			Index: l.Index, Term: l.Term, Type: uint8(l.Type), Data: l.Data, Extensions: l.Extensions, AppendedAt: l.AppendedAt,
		}
	}
	return d.Append(entries)
}
