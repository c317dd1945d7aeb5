package store

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
)

// The file identityFile has the identity of the store: 16 random bytes in hexadecimal. The members of a group have the same
// identity, which the checkpoints among them carry. A backup does not, so a restored directory is another store.
const identityFile = "identity"

// Identity returns the identity of the store, empty if the directory was opened without writes and has none yet.
func (s *Store) Identity() (string, error) {
	data, err := s.readSmall(s.path(identityFile))
	return strings.TrimSpace(string(data)), err
}

func (s *Store) beginIdentity() error {
	id, err := s.Identity()
	if err != nil || id != "" {
		return err
	}
	return s.writeIdentity(s.dir, randomID())
}

func randomID() string {
	raw := make([]byte, memberBytes)
	_, _ = rand.Read(raw) // It never returns an error.
	return hex.EncodeToString(raw)
}

func (s *Store) writeIdentity(dir, id string) error {
	if err := s.replaceFile(s.fs.PathJoin(dir, identityFile), []byte(id+"\n")); err != nil {
		return fmt.Errorf("store: write the identity: %w", err)
	}
	return s.syncDirectory(dir)
}

// swapIdentity takes over the identity of a checkpoint. After a crash the next call does so again.
func (s *Store) swapIdentity(in string) error {
	data, err := s.readSmall(s.fs.PathJoin(in, identityFile))
	if err != nil || data == nil {
		return err
	}
	return s.writeIdentity(s.dir, strings.TrimSpace(string(data)))
}
