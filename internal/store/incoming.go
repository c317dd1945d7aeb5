package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	iofs "io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// RaftDirectory is the directory of the log of Raft, in a data directory.
const RaftDirectory = groupDirectory + "/raft"

// A member of a cluster that lacks entries of the replicated log receives the checkpoint of another member into
// incomingDirectory. The next Open replaces the databases and the snapshots by the checkpoint.
const (
	groupDirectory    = "groups/0"
	incomingDirectory = groupDirectory + "/incoming"
	// The file completeFile, in incomingDirectory, has the base of a complete checkpoint. While completeFile exists,
	// the parts of the checkpoint that remain in incomingDirectory must replace the parts of the store.
	completeFile = "complete"
	// The file baseFile has the base of the checkpoint that the store began with.
	baseFile = groupDirectory + "/base"
	// The directory memberDirectory has the id of the member that the data directory belongs to.
	memberDirectory = "cluster"
	memberFile      = memberDirectory + "/member"
	groupsFile      = memberDirectory + "/groups"
	// The file spreadFile says that the founded groups have had all their members.
	spreadFile  = memberDirectory + "/spread"
	memberBytes = 16
)

// ErrMember says that the directory belongs to a member of a cluster, and only the cluster may change it.
var ErrMember = errors.New("store: the data directory belongs to a member of a cluster: start the server with --cluster-address")

// ErrSwapping says that a complete checkpoint has not replaced the store yet. Some parts of the store may already be replaced.
var ErrSwapping = errors.New("store: a checkpoint of another server has replaced only a part of the store: start the server to complete the replacement, or empty the directory and start the server to get a new checkpoint")

func checkpointParts() []string { return []string{snapshots, pendingDirectory, logDirectory} }

// Member returns the id of the member that the directory belongs to. A directory without an id gets a random id. So
// an emptied directory becomes another member.
func (s *Store) Member() (string, error) {
	data, err := s.readSmall(s.path(memberFile))
	if err != nil {
		return "", err
	}
	if data != nil {
		id := strings.TrimSpace(string(data))
		if raw, err := hex.DecodeString(id); err != nil || len(raw) != memberBytes {
			return "", fmt.Errorf("store: %s is not the id of a member", s.path(memberFile))
		}
		return id, nil
	}
	if err := s.fs.MkdirAll(s.path(memberDirectory), directoryMode); err != nil {
		return "", fmt.Errorf("store: %w", err)
	}
	id := randomID()
	if err := s.replaceFile(s.path(memberFile), []byte(id+"\n")); err != nil {
		return "", fmt.Errorf("store: %w", err)
	}
	return id, errors.Join(s.syncDirectory(s.path(memberDirectory)), s.syncDirectory(s.dir))
}

// Groups returns the number of groups of the cluster that the member belongs to. It is 1 before SetGroups.
func (s *Store) Groups() (int, error) {
	data, err := s.readSmall(s.path(groupsFile))
	if err != nil || data == nil {
		return 1, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(data)))
	return n, failed("the number of groups", err)
}

// GroupsIn is Groups of a directory that need not be open.
func GroupsIn(dir string) (int, error) { return newStore(dir, Options{}).Groups() }

// SetGroups keeps the number of groups of the member's cluster. The caller has called Member.
func (s *Store) SetGroups(n int) error {
	if err := s.replaceFile(s.path(groupsFile), []byte(strconv.Itoa(n)+"\n")); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return s.syncDirectory(s.path(memberDirectory))
}

// GroupsSpread returns what SetGroupsSpread has set, false before.
func (s *Store) GroupsSpread() (bool, error) { return s.exists(s.path(spreadFile)) }

// SetGroupsSpread durably keeps whether the founding of the groups has ended. The caller has called Member.
func (s *Store) SetGroupsSpread(spread bool) (err error) {
	if spread {
		err = s.writeFile(s.path(spreadFile), nil)
	} else {
		err = s.removeAll(s.path(spreadFile))
	}
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return s.syncDirectory(s.path(memberDirectory))
}

// Base returns the base of the checkpoint that the store began with: the checkpoint has all entries of the replicated
// log up to the base. Base is 0 if the store did not begin with a checkpoint.
func (s *Store) Base() (uint64, error) {
	data, err := s.readSmall(s.path(baseFile))
	if err != nil || data == nil {
		return 0, err
	}
	return parseBase(data)
}

func parseBase(data []byte) (uint64, error) {
	base, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64)
	return base, failed("the base of a checkpoint", err)
}

// swapIncoming replaces the databases and the snapshots by a complete checkpoint, or removes an incomplete
// checkpoint. After a crash the next call continues the replacement.
func (s *Store) swapIncoming() error {
	in := s.path(incomingDirectory)
	complete := s.fs.PathJoin(in, completeFile)
	data, err := s.readSmall(complete)
	if err != nil {
		return err
	}
	if data == nil {
		return s.removeAll(in)
	}
	if _, err := parseBase(data); err != nil {
		return err
	}
	format, version, err := s.readIncoming()
	if err != nil {
		return err
	}
	if err := s.raiseFormat(format, version); err != nil {
		return err
	}
	if err := s.swapIdentity(in); err != nil {
		return err
	}
	for _, part := range checkpointParts() {
		if err := s.swap(s.fs.PathJoin(in, part), s.path(part)); err != nil {
			return fmt.Errorf("store: put a checkpoint in place: %w", err)
		}
	}
	if err := s.fs.Rename(complete, s.path(baseFile)); err != nil {
		return fmt.Errorf("store: put a checkpoint in place: %w", err)
	}
	if err := errors.Join(s.syncDirectory(s.path(groupDirectory)), s.syncDirectory(in)); err != nil {
		return err
	}
	return s.removeAll(in)
}

// swap moves a part of a checkpoint into its place. It does nothing if a previous call has moved the part.
func (s *Store) swap(from, to string) error {
	if exists, err := s.exists(from); err != nil {
		return err
	} else if !exists {
		_, err = s.fs.Stat(to)
		return err
	}
	if err := errors.Join(s.removeAll(to), s.fs.Rename(from, to)); err != nil {
		return err
	}
	// The new name must be durable before the removal of the old name.
	return errors.Join(s.syncDirectory(s.dir), s.syncDirectory(s.fs.PathDir(from)))
}

// EachFile calls f for every file of a checkpoint, with the name relative to the checkpoint.
func (s *Store) EachFile(ctx context.Context, checkpoint string, f func(name string, r io.Reader) error) error {
	for _, part := range append(checkpointParts(), formatFile, identityFile) {
		if err := s.eachFile(ctx, checkpoint, part, f); err != nil {
			return fmt.Errorf("store: read a checkpoint: %w", err)
		}
	}
	return nil
}

func (s *Store) eachFile(ctx context.Context, checkpoint, name string, f func(string, io.Reader) error) (err error) {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	path := s.fs.PathJoin(checkpoint, name)
	info, err := s.fs.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		names, err := s.list(path)
		if err != nil {
			return err
		}
		slices.Sort(names)
		for _, below := range names {
			if err := s.eachFile(ctx, checkpoint, name+"/"+below, f); err != nil {
				return err
			}
		}
		return nil
	}
	file, err := s.fs.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return f(name, file)
}

// Incoming is a checkpoint of another member that the store receives.
type Incoming struct {
	s      *Store
	dir    string
	file   vfs.File
	digest hash.Hash
	// made are the directories that need a sync.
	made map[string]bool
}

// Receive begins to receive a checkpoint, and removes an earlier one.
func (s *Store) Receive() (*Incoming, error) {
	in := &Incoming{s: s, dir: s.path(incomingDirectory), made: map[string]bool{}}
	if err := s.removeAll(in.dir); err != nil {
		return nil, err
	}
	for _, part := range append(checkpointParts(), "") {
		if err := in.makeDirectory(s.fs.PathJoin(in.dir, part)); err != nil {
			return nil, err
		}
	}
	return in, nil
}

func (in *Incoming) makeDirectory(dir string) error {
	if in.made[dir] {
		return nil
	}
	if err := in.s.fs.MkdirAll(dir, directoryMode); err != nil {
		return fmt.Errorf("store: receive a checkpoint: %w", err)
	}
	in.made[dir] = true
	return nil
}

// Create begins a file.
func (in *Incoming) Create(name string) error {
	part, _, _ := strings.Cut(name, "/")
	if in.file != nil || !iofs.ValidPath(name) || name != formatFile && name != identityFile && (!slices.Contains(checkpointParts(), part) || part == name) {
		return fmt.Errorf("store: a checkpoint must not have the file %q", name)
	}
	path := in.s.fs.PathJoin(in.dir, in.s.fs.PathJoin(strings.Split(name, "/")...))
	if err := in.makeDirectory(in.s.fs.PathDir(path)); err != nil {
		return err
	}
	var err error
	if in.file, err = in.s.fs.Create(path, vfs.WriteCategoryUnspecified); err != nil {
		return fmt.Errorf("store: receive a checkpoint: %w", err)
	}
	in.digest = sha256.New()
	return nil
}

func (in *Incoming) Write(p []byte) (int, error) {
	if in.file == nil {
		return 0, errors.New("store: a checkpoint has data before its first file")
	}
	_, _ = in.digest.Write(p)               // A hash never fails.
	n, err := in.file.Write(bytes.Clone(p)) // A vfs.File may modify the bytes that it writes.
	return n, failed("receive a checkpoint", err)
}

// End ends the file. It fails if the digest of the file is not sum.
func (in *Incoming) End(sum []byte) error {
	if in.file == nil {
		return errors.New("store: a checkpoint ends a file that it has not begun")
	}
	file := in.file
	in.file = nil
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("store: receive a checkpoint: %w", err)
	}
	if !bytes.Equal(in.digest.Sum(nil), sum) {
		return errors.New("store: the digest of a received file does not match")
	}
	return nil
}

// Complete makes the next Open replace the store by the checkpoint. The checkpoint has all entries of the replicated
// log up to base.
func (in *Incoming) Complete(base uint64) error {
	if in.file != nil {
		return errors.New("store: a checkpoint ends within a file")
	}
	for dir := range in.made {
		if err := in.s.syncDirectory(dir); err != nil {
			return err
		}
	}
	for _, dir := range []string{in.s.path("groups"), in.s.path(groupDirectory), in.s.dir} {
		if err := in.s.syncDirectory(dir); err != nil {
			return err
		}
	}
	if err := in.s.replaceFile(in.s.fs.PathJoin(in.dir, completeFile), strconv.AppendUint(nil, base, 10)); err != nil {
		return fmt.Errorf("store: receive a checkpoint: %w", err)
	}
	return in.s.syncDirectory(in.dir)
}

// Close abandons a checkpoint that is not complete. The next Receive or Open removes its files.
func (in *Incoming) Close() error {
	if in.file == nil {
		return nil
	}
	file := in.file
	in.file = nil
	return file.Close()
}

// replaceFile writes a file atomically: after a crash the file has all of the data or does not exist. The caller
// syncs the directory.
func (d *directory) replaceFile(name string, data []byte) error {
	temporary := name + ".tmp"
	if err := d.writeFile(temporary, data); err != nil {
		return err
	}
	return d.fs.Rename(temporary, name)
}

// readSmall reads a file, nil if it does not exist.
func (d *directory) readSmall(name string) (data []byte, err error) {
	f, err := d.fs.Open(name)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		data, err = io.ReadAll(io.LimitReader(f, smallFile))
		err = errors.Join(err, f.Close())
	}
	return data, failed("read "+name, err)
}

const smallFile = 4 << 10
