package consensus

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// Known returns the members that the log of a stopped server names last, and the index of its last entry.
func Known(s Storage) ([]Member, uint64, error) {
	newest, _, last, err := end(s)
	if err != nil {
		return nil, 0, err
	}
	return membersOf(newest), last, nil
}

// Recover makes a stopped server the only member of its log. What only other members have is lost, and entries
// of which this server does not know whether they are committed are.
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

// end returns the newest configuration of a log, and the term and the index of its last entry.
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
		return newest, 0, 0, errors.New("cluster: the server is no member of a cluster")
	}
	return newest, term, last, nil
}
