//go:build unix

package access

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func lock(directory string) (unlock func(), err error) {
	f, err := os.Open(directory) //nolint:gosec // The directory of the operator's file.
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", directory, err), f.Close())
	}
	return func() { _ = f.Close() }, nil // Which unlocks.
}

// keepOwner gives a file the owner of another, as one who is not the owner must be able
// to do: root edits the file of the server's user.
func keepOwner(f *os.File, of fs.FileInfo) error {
	owner, ok := of.Sys().(*syscall.Stat_t)
	if !ok || (int(owner.Uid) == os.Geteuid() && int(owner.Gid) == os.Getegid()) {
		return nil
	}
	return f.Chown(int(owner.Uid), int(owner.Gid))
}

func syncDirectory(directory string) error {
	f, err := os.Open(directory) //nolint:gosec // The directory of the operator's file.
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
