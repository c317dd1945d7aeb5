// Package codec encodes the snapshot of a model and the numbers inside it. A Visitor appends
// and reads the state of one type. The file docs/format/snapshot.md describes what is around
// the states, and names the function that visits each state.
package codec

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"

	"hindsight/internal/model"
)

// Magic begins every snapshot, whatever its version.
const Magic = "HINDSNAP"

// Version is the version of the bytes around the states. Decode rejects any other version.
const Version = 3

// Sentinels of Decode.
var (
	// ErrCorrupt: the bytes are not what was written.
	ErrCorrupt = errors.New("corrupt data")
	// ErrVersion: an older or a newer build of this program wrote the bytes.
	ErrVersion = errors.New("another build wrote it")
)

// CheckVersion returns ErrVersion unless bytes have the version that this build reads.
func CheckVersion(got, want uint32) error {
	switch {
	case got < want:
		return fmt.Errorf("version %d, want %d: %w, an older one", got, want, ErrVersion)
	case got > want:
		return fmt.Errorf("version %d, want %d: %w, a newer one", got, want, ErrVersion)
	}
	return nil
}

// Names of the sections of a snapshot, in their order.
const (
	sectionSpec    = "spec"
	sectionLearner = "learner"
	sectionAccount = "account"
	sectionHistory = "history"
	sectionCarried = "carried"
)

// Snapshot is a model at one sequence.
type Snapshot struct {
	Spec     model.Spec
	Sequence uint64
	// Digest = Digest(Learner).
	Digest [sha256.Size]byte
	// Learner is the learner's state, as AppendBinary wrote it.
	Learner []byte
	// Account is the host's account of the model.
	Account []byte
	// History is the host's history of the model.
	History []byte
	// Carried is what an exported model carries beside its state, or nil.
	Carried []byte
}

// piece bounds what one call copies or digests. The runtime stops no goroutine inside such a
// call, and the garbage collector would wait for it.
const piece = 64 << 10

// Digest of a learner's state: SHA-256 of the bytes that AppendBinary wrote.
func Digest(state []byte) (digest [sha256.Size]byte) {
	if len(state) <= piece {
		return sha256.Sum256(state)
	}
	h := sha256.New()
	for chunk := range slices.Chunk(state, piece) {
		h.Write(chunk) // A hash never fails.
	}
	h.Sum(digest[:0])
	return digest
}

func checksum(data []byte) (sum uint32) {
	table := crc32.MakeTable(crc32.Castagnoli)
	for chunk := range slices.Chunk(data, piece) {
		sum = crc32.Update(sum, table, chunk)
	}
	return sum
}

// AppendBytes appends data to out in pieces, so that a large copy delays no heartbeat of a cluster.
func AppendBytes(out, data []byte) []byte {
	for chunk := range slices.Chunk(data, piece) {
		out = appendPiece(out, chunk)
	}
	return out
}

// appendPiece must not be inlined: the runtime can stop a goroutine where a call begins, but seldom within a loop of copies.
//
//go:noinline
func appendPiece(out, data []byte) []byte { return append(out, data...) }

// Encode is the snapshot's bytes.
func Encode(s Snapshot) ([]byte, error) {
	spec, err := EncodeSpec(s.Spec)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, 256+len(spec)+len(s.Learner)+len(s.Account)+len(s.History)+len(s.Carried))
	out = append(out, Magic...)
	out = binary.LittleEndian.AppendUint32(out, Version)
	out = AppendUint64(out, s.Sequence)
	out = append(out, s.Digest[:]...)
	for _, section := range []struct {
		name string
		data []byte
	}{
		{sectionSpec, spec}, {sectionLearner, s.Learner}, {sectionAccount, s.Account}, {sectionHistory, s.History}, {sectionCarried, s.Carried},
	} {
		if out, err = appendSection(out, section.name, section.data); err != nil {
			return nil, err
		}
	}
	// The trailer is the checksum of all bytes before it.
	return binary.LittleEndian.AppendUint32(out, checksum(out)), nil
}

// HeadBytes is the length of the head that DecodeHead reads.
const HeadBytes = len(Magic) + 4 + 8 + sha256.Size

// DecodeHead reads the sequence and the digest of a snapshot. It checks only the head.
func DecodeHead(head []byte) (sequence uint64, digest [sha256.Size]byte, err error) {
	r := NewReader(head)
	magic, version := r.Bytes(len(Magic)), r.Uint32()
	sequence = r.Uint64()
	copy(digest[:], r.Bytes(len(digest)))
	if r.Err() != nil || string(magic) != Magic || version != Version {
		return 0, digest, fmt.Errorf("codec: a head that begins with %q, version %d: %w", magic, version, ErrCorrupt)
	}
	return sequence, digest, nil
}

func appendSection(out []byte, name string, data []byte) ([]byte, error) {
	if len(data) > math.MaxInt32 {
		return nil, fmt.Errorf("codec: section %s of %d bytes: want at most %d", name, len(data), math.MaxInt32)
	}
	var tag [8]byte
	copy(tag[:], name)
	out = append(out, tag[:]...)
	out = AppendUint64(out, uint64(len(data)))
	out = AppendBytes(out, data)
	return binary.LittleEndian.AppendUint32(out, checksum(data)), nil
}

// Decode reads a snapshot, whose slices point into data. It fails with ErrCorrupt, or with
// ErrVersion if the checksum is right and another build wrote the snapshot. Whatever the data
// claims, it allocates only what the spec needs.
func Decode(data []byte) (Snapshot, error) {
	var s Snapshot
	r := NewReader(data)
	if magic := r.Bytes(len(Magic)); string(magic) != Magic {
		return s, fmt.Errorf("codec: not a snapshot: it begins with %q, want %q: %w", magic, Magic, ErrCorrupt)
	}
	version := r.Uint32()
	if n := len(data) - 4; n < 0 || checksum(data[:n]) != binary.LittleEndian.Uint32(data[n:]) {
		return s, fmt.Errorf("codec: snapshot of %d bytes fails its checksum: %w", len(data), ErrCorrupt)
	}
	if err := CheckVersion(version, Version); err != nil {
		return s, fmt.Errorf("codec: snapshot: %w", err)
	}
	s.Sequence = r.Uint64()
	copy(s.Digest[:], r.Bytes(len(s.Digest)))
	spec, err := readSection(r, sectionSpec)
	if err != nil {
		return s, err
	}
	if s.Spec, err = DecodeSpec(spec); err != nil {
		return s, err
	}
	if s.Learner, err = readSection(r, sectionLearner); err != nil {
		return s, err
	}
	if s.Account, err = readSection(r, sectionAccount); err != nil {
		return s, err
	}
	if s.History, err = readSection(r, sectionHistory); err != nil {
		return s, err
	}
	if s.Carried, err = readSection(r, sectionCarried); err != nil {
		return s, err
	}
	if len(s.Carried) == 0 {
		s.Carried = nil
	}
	r.Bytes(4)
	if err := r.End(); err != nil {
		return s, err
	}
	if Digest(s.Learner) != s.Digest {
		return s, fmt.Errorf("codec: the learner's state fails its digest: %w", ErrCorrupt)
	}
	return s, nil
}

func readSection(r *Reader, name string) ([]byte, error) {
	tag := r.Bytes(8)
	size := r.Uint64()
	if size > math.MaxInt32 {
		return nil, fmt.Errorf("codec: section %q claims %d bytes: %w", tag, size, ErrCorrupt)
	}
	data := r.Bytes(int(size))
	sum := r.Uint32()
	if err := r.Err(); err != nil {
		return nil, err
	}
	if got := string(bytes.TrimRight(tag, "\x00")); got != name {
		return nil, fmt.Errorf("codec: section %q, want %q: %w", got, name, ErrCorrupt)
	}
	if checksum(data) != sum {
		return nil, fmt.Errorf("codec: section %s fails its checksum: %w", name, ErrCorrupt)
	}
	return data, nil
}

// EncodeSpec is the spec as JSON, its stored form.
func EncodeSpec(s model.Spec) ([]byte, error) {
	data, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("codec: encode spec: %w", err)
	}
	return data, nil
}

// DecodeSpec reads what EncodeSpec wrote. It fails on an unknown field: another build wrote it.
func DecodeSpec(data []byte) (model.Spec, error) {
	var s model.Spec
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return s, fmt.Errorf("codec: decode spec %q: %w: %w", data, err, ErrCorrupt)
	}
	return s, nil
}
