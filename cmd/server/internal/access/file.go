package access

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"hindsight/internal/auth"
)

type watched struct {
	path string
	// last is the accepted content. next is the content at the last look, nil if it was accepted.
	last, next []byte
}

// read returns the content once it differs from the accepted one and is the same at two looks.
// In between somebody may be writing the file, and a part of a tokens file would end the
// sessions of everybody in the rest. The first look accepts the content at once.
func (w *watched) read() (data []byte, changed bool, err error) {
	next := w.next
	w.next = nil
	if data, err = readBounded(w.path); err != nil {
		return nil, false, err
	}
	switch {
	case w.last == nil, next != nil && bytes.Equal(next, data):
		w.last = data
		return data, true, nil
	case !bytes.Equal(w.last, data):
		w.next = data
	}
	return nil, false, nil
}

// readBounded reads a file that others cannot write.
func readBounded(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular(): // Opening a pipe would wait for its writer.
		return nil, fmt.Errorf("%s: want a file that can be read again, which a pipe or a directory cannot", path)
	case info.Mode().Perm()&0o002 != 0:
		return nil, fmt.Errorf("%s: everybody may write it; chmod o-w", path)
	case info.Size() > auth.MaxFile:
		return nil, fmt.Errorf("%s: got more than the maximum of %d bytes", path, auth.MaxFile)
	}
	return os.ReadFile(path) //nolint:gosec // The operator names the file.
}

// Edit changes a tokens file, or creates it. It replaces the whole file, with mode 0600 and the
// same owner. Concurrent edits run one after the other.
func Edit(path string, change func(file []byte) ([]byte, error)) (err error) {
	// A link stays one.
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	unlock, err := lock(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer unlock()
	before, err := os.Stat(path)
	var data []byte
	if err == nil {
		data, err = readBounded(path)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return err
	}
	if data, err = change(data); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return replace(path, data, before)
}

// replace writes a file and renames it to path. The replaced file is before, nil if there was
// none.
func replace(path string, data []byte, before fs.FileInfo) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".tokens-*") // Its mode is 0600.
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(data)
	if err == nil && before != nil {
		err = keepOwner(f, before)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDirectory(filepath.Dir(path))
}
