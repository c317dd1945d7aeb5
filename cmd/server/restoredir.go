package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"hindsight/cmd/server/internal/bucket"
	"hindsight/internal/store"
)

const (
	restoredMode     = 0o750
	restoredFileMode = 0o600
)

// setGroups makes a restored directory the directory of a server that founds a cluster of so many groups.
func setGroups(dir string, groups int) error {
	disk, err := store.Open(dir, store.Options{Restoring: true})
	if err != nil {
		return err
	}
	_, err = disk.Member() // SetGroups wants it.
	if err == nil {
		err = disk.SetGroups(groups)
	}
	return errors.Join(err, disk.Close(), bucket.SyncDirectory(filepath.Dir(store.GroupDirectory(dir, 1))))
}

// fillDirectory fills an empty directory. A mark keeps servers from the directory until fill has
// succeeded. After an error the directory is empty again.
func fillDirectory(dir string, fill func() error) (err error) {
	if err := os.MkdirAll(dir, restoredMode); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	present, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	present = slices.DeleteFunc(present, func(e os.DirEntry) bool { return e.Name() == "lost+found" })
	mark := filepath.Join(dir, store.RestoringMark)
	if _, err := os.Stat(mark); err == nil {
		return fmt.Errorf("a restore into %s did not end, or goes on: if none does, empty the directory and restore again", dir)
	}
	if len(present) > 0 {
		return fmt.Errorf("%s is not empty: it has %s; a restore wants an empty directory", dir, present[0].Name())
	}
	// One of two concurrent restores creates the mark; the other fails.
	made, err := os.OpenFile(mark, os.O_CREATE|os.O_EXCL|os.O_WRONLY, restoredFileMode) //nolint:gosec // The operator names the directory.
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, emptyDirectory(dir))
		}
	}()
	if err := made.Close(); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "LOCK"), nil, restoredFileMode); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	if err := bucket.SyncDirectory(dir); err != nil {
		return err
	}
	if err := fill(); err != nil {
		return err
	}
	if err := os.Remove(mark); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	return bucket.SyncDirectory(dir)
}

// emptyDirectory removes what fillDirectory has written, its mark last.
func emptyDirectory(dir string) error {
	present, err := os.ReadDir(dir)
	for _, e := range present {
		if e.Name() != "lost+found" && e.Name() != store.RestoringMark {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	if err == nil {
		err = os.RemoveAll(filepath.Join(dir, store.RestoringMark))
	}
	if err != nil {
		return fmt.Errorf("the directory must not be used: %w", err)
	}
	return nil
}
