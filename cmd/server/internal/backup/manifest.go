// Package backup copies a data directory to an object store and back. A place holds
// any number of backups of one server:
//
//	objects/<2 hex>/<sha256, hex>   a file, under the digest of its bytes
//	backups/<name>.json             a backup: its files, by their digests
//
// Tables and snapshots never change, so a backup writes only files that no earlier
// backup has. A backup exists once its manifest exists, which is written last.
package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// Sentinels of reading a place.
var (
	// ErrDamaged: the bytes of the backup differ from the bytes that were written.
	ErrDamaged = errors.New("the backup is damaged")
	// ErrVersion: an older or a newer build of the server made the backup.
	ErrVersion  = errors.New("another build of the server made the backup")
	ErrNoBackup = errors.New("no such backup")
)

// format is the format of a manifest. A reader rejects any other.
const format = 3

// Manifest describes a backup.
type Manifest struct {
	Format int `json:"format"`
	// Group is zero unless the cluster has several groups.
	Group Group `json:"group,omitzero"`
	// Name is the time at which the backup began, in UTC; see Take.
	Name    string    `json:"name"`
	Created time.Time `json:"created"`
	Version string    `json:"version"`
	Models  []Model   `json:"models"`
	Files   []File    `json:"files"`
}

// Model is a model of a backup.
type Model struct {
	ID string `json:"id"`
	// Sequence is the end of its log.
	Sequence uint64 `json:"sequence"`
	// Deleted is true for a deleted model that can be undeleted.
	Deleted bool `json:"deleted,omitempty"`
}

// File is a file of a data directory.
type File struct {
	// Path is relative to the data directory, with slashes.
	Path   string `json:"path"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Bytes returns the size of all files.
func (m *Manifest) Bytes() (sum int64) {
	for _, f := range m.Files {
		sum += f.Bytes
	}
	return sum
}

type sealed struct {
	SHA256   string          `json:"sha256"`
	Manifest json.RawMessage `json:"manifest"`
}

func (m *Manifest) encode() ([]byte, error) {
	body, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode a manifest: %w", err)
	}
	sum := sha256.Sum256(body)
	out, err := json.Marshal(sealed{SHA256: hex.EncodeToString(sum[:]), Manifest: body})
	if err != nil {
		return nil, fmt.Errorf("encode a manifest: %w", err)
	}
	return append(out, '\n'), nil
}

// decode reads the bytes that encode wrote. It rejects files outside a data directory.
func decode(name string, data []byte) (*Manifest, error) {
	damaged := func(err error) error { return fmt.Errorf("manifest of %s: %w: %w", name, ErrDamaged, err) }
	var s sealed
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, damaged(err)
	}
	if sum := sha256.Sum256(s.Manifest); hex.EncodeToString(sum[:]) != s.SHA256 {
		return nil, damaged(fmt.Errorf("digest %x, want %s", sum, s.SHA256))
	}
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(s.Manifest, &head); err != nil {
		return nil, damaged(err)
	}
	if head.Format > 0 && head.Format != format {
		return nil, fmt.Errorf("manifest of %s: %w: format %d, want %d", name, ErrVersion, head.Format, format)
	}
	m := new(Manifest)
	decoder := json.NewDecoder(bytes.NewReader(s.Manifest))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(m); err != nil {
		return nil, damaged(err)
	}
	if m.Format != format || m.Name != name {
		return nil, damaged(fmt.Errorf("format %d, name %q", m.Format, m.Name))
	}
	seen := map[string]bool{}
	for _, f := range m.Files {
		if err := f.check(); err != nil {
			return nil, damaged(err)
		}
		if seen[f.Path] {
			return nil, damaged(fmt.Errorf("file %q twice", f.Path))
		}
		seen[f.Path] = true
	}
	return m, nil
}

func (f *File) check() error {
	digest, err := hex.DecodeString(f.SHA256)
	local := filepath.IsLocal(filepath.FromSlash(f.Path)) && path.Clean(f.Path) == f.Path
	if err != nil || len(digest) != sha256.Size || f.Bytes < 0 || !local || !belongs(f.Path) {
		return fmt.Errorf("file %q of %d bytes, digest %q", f.Path, f.Bytes, f.SHA256)
	}
	return nil
}

// Every program that opens a database creates lockFile.
const lockFile = "LOCK"

func belongs(name string) bool {
	first, rest, _ := strings.Cut(name, "/")
	switch first {
	case "log", "pending":
		return rest != "" && rest != lockFile && !strings.Contains(rest, "/")
	case "format":
		return rest == ""
	case "snapshots":
		return strings.Count(rest, "/") == 1 && strings.HasSuffix(rest, ".hs")
	}
	return false
}

func key(digest string) string { return objects + digest[:2] + "/" + digest }
