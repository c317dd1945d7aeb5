package store

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"path/filepath"
	"strconv"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// GroupDirectory returns the directory of a group of a cluster. Group 0 has the data directory itself. Each other group
// has a data directory of its own in it.
func GroupDirectory(data string, group uint32) string {
	if group == 0 {
		return data
	}
	return filepath.Join(data, "groups", strconv.FormatUint(uint64(group), 10))
}

// GroupExists reports whether a group has a directory.
func GroupExists(dir string, o Options) (bool, error) {
	_, err := filesOf(o).Stat(dir)
	switch {
	case errors.Is(err, iofs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("store: %w", err)
	}
	return true, nil
}

// RemoveGroup removes the directory of a group. The caller has closed the store.
func RemoveGroup(dir string, o Options) error {
	if err := filesOf(o).RemoveAll(dir); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}

func filesOf(o Options) vfs.FS {
	if o.FS == nil {
		return vfs.Default
	}
	return o.FS
}
