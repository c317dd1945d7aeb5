package store

import (
	"path/filepath"
	"strconv"
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
	d := newDirectory(dir, o)
	return d.exists(dir)
}

// RemoveGroup removes the directory of a group. The caller has closed the store.
func RemoveGroup(dir string, o Options) error {
	d := newDirectory(dir, o)
	return d.removeAll(dir)
}
