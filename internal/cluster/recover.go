package cluster

import (
	"errors"
	"fmt"
	"path/filepath"

	"hindsight/internal/cluster/consensus"
	"hindsight/internal/store"
)

// Survivor is a stopped member of a cluster that has lost its majority.
type Survivor struct {
	Self   Member
	Others []Member
	// Last is the index of the last entry in its log.
	Last uint64
}

// Unapplied returns how many changes the log of a stopped server has that its store lacks. Acknowledged changes may be
// among them: a server that was killed applies its log again only when it starts. A server that is no member has no log.
func Unapplied(directory string, local *store.Store, o store.Options) (changes int, member bool, err error) {
	raftDirectory := filepath.Join(directory, store.RaftDirectory)
	if member, err = store.GroupExists(raftDirectory, o); err != nil || !member {
		return 0, false, err
	}
	raftLog, err := store.OpenRaftLog(raftDirectory, o)
	if err != nil {
		return 0, true, fmt.Errorf("cluster: %w", err)
	}
	defer func() { err = errors.Join(err, raftLog.Close()) }()
	changes, err = consensus.Behind(consensus.OnDisk(raftLog), local.Position().Index)
	return changes, true, err
}

// Recover makes a stopped server the only member of its cluster, if confirm returns true. Entries that only other
// members have are lost. Its groups are founded groups again: the servers that join get their share of them. Recover returns
// the Survivor that it has shown to confirm.
func Recover(directory string, o store.Options, address string, confirm func(*Survivor) bool) (_ *Survivor, err error) {
	o.Member = true
	local, err := store.Open(directory, o) // Open first replaces the store by a complete checkpoint.
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	defer func() { err = errors.Join(err, local.Close()) }()
	raftLog, err := store.OpenRaftLog(filepath.Join(directory, store.RaftDirectory), o)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	defer func() { err = errors.Join(err, raftLog.Close()) }()
	s := new(Survivor)
	if s.Self.ID, err = local.Member(); err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	storage := consensus.OnDisk(raftLog)
	members, last, err := consensus.Known(storage)
	if err != nil {
		return nil, err
	}
	s.Last = last
	for _, m := range members {
		if m.ID == s.Self.ID {
			s.Self = m
		} else {
			s.Others = append(s.Others, m)
		}
	}
	if address != "" {
		s.Self.Address = address
	}
	if !confirm(s) {
		return s, nil
	}
	if err := local.SetGroupsSpread(false); err != nil {
		return s, err
	}
	return s, consensus.Recover(storage, s.Self)
}
