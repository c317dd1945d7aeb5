package access

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"hindsight/internal/auth"
)

// settling is how long after a change a file is read at every look: a second change in
// the same tick of the file system's clock leaves no trace.
const settling = 2 * time.Second

// watched is a file that is read when it changes.
type watched struct {
	path string
	// seen is the file as it was read last, and last what it had.
	seen fs.FileInfo
	last []byte
}

// read is the file's content, if it changed since the last reading.
func (w *watched) read(now time.Time) (data []byte, changed bool, err error) {
	info, err := os.Stat(w.path)
	if err != nil {
		w.seen = nil
		return nil, false, err
	}
	if w.seen != nil && os.SameFile(w.seen, info) && info.Size() == w.seen.Size() && info.ModTime().Equal(w.seen.ModTime()) &&
		now.Sub(info.ModTime()) > settling {
		return nil, false, nil
	}
	if data, err = readBounded(w.path); err != nil {
		w.seen = nil
		return nil, false, err
	}
	same := w.last != nil && string(w.last) == string(data)
	w.seen, w.last = info, data
	return data, !same, nil
}

// readBounded reads a file that others cannot write.
func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // The operator names the file.
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // It was only read.
	if info, err := f.Stat(); err != nil {
		return nil, err
	} else if info.Mode().Perm()&0o002 != 0 {
		return nil, fmt.Errorf("%s: everybody may write it; chmod o-w", path)
	}
	data, err := io.ReadAll(io.LimitReader(f, auth.MaxFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > auth.MaxFile {
		return nil, fmt.Errorf("%s: got more than %d bytes, want at most so many", path, auth.MaxFile)
	}
	return data, nil
}

// Edit changes a tokens file, which may not be there yet. It is replaced as a whole and
// has the mode 0600; its owner stays. Edits at the same time come one after the other.
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

// replace writes a file beside the one of before, nil if there was none, and puts it in
// its place.
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

// Read reads a tokens file.
func Read(path string) ([]auth.Entry, error) {
	data, err := readBounded(path)
	if err != nil {
		return nil, err
	}
	entries, err := auth.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return entries, nil
}
