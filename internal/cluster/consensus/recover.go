package consensus

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// Known returns the newest members in the log of a stopped server, and the index of the last entry.
func Known(s Storage) ([]Member, uint64, error) {
	newest, _, last, err := end(s)
	if err != nil {
		return nil, 0, err
	}
	return membersOf(newest), last, nil
}

// Behind returns the number of commands behind an index in the log of a stopped server.
func Behind(s Storage, index uint64) (commands int, err error) {
	first, firstErr := s.FirstIndex()
	last, lastErr := s.LastIndex()
	err = errors.Join(firstErr, lastErr)
	for at := max(first, index+1); err == nil && at <= last && last > 0; at++ {
		var l raft.Log
		if err = s.GetLog(at, &l); err == nil && l.Type == raft.LogCommand {
			commands++
		}
	}
	if err != nil {
		return 0, fmt.Errorf("cluster: %w", err)
	}
	return commands, nil
}

// Recover makes a stopped server the only member of its log. Entries that only other members have are lost. All
// entries in the log of this server count as committed.
func Recover(s Storage, self Member) error {
	_, term, last, err := end(s)
	if err != nil {
		return err
	}
	alone := raft.Configuration{Servers: []raft.Server{{ID: raft.ServerID(self.ID), Address: raft.ServerAddress(self.Address)}}}
	err = s.StoreLog(&raft.Log{Index: last + 1, Term: term, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(alone)})
	if err != nil {
		return fmt.Errorf("cluster: recover: %w", err)
	}
	return nil
}

func end(s Storage) (newest raft.Configuration, term, last uint64, err error) {
	m, err := openMarks(s)
	if err != nil {
		return newest, 0, 0, err
	}
	if m.mu.durable != nil {
		meta := m.mu.durable.meta
		newest, term, last = meta.Configuration, meta.Term, meta.Index
	}
	to, err := s.LastIndex()
	if err != nil {
		return newest, 0, 0, fmt.Errorf("cluster: %w", err)
	}
	for index := last + 1; index <= to; index++ {
		var l raft.Log
		if err := s.GetLog(index, &l); err != nil {
			return newest, 0, 0, fmt.Errorf("cluster: entry %d: %w", index, err)
		}
		if term, last = l.Term, index; l.Type == raft.LogConfiguration {
			newest = raft.DecodeConfiguration(l.Data)
		}
	}
	if last == 0 {
		return newest, 0, 0, errors.New("cluster: the server is not a member of a cluster")
	}
	return newest, term, last, nil
}
