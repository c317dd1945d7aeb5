// Package snapshot encodes a model at one sequence: a snapshot on disk, a copy or an export. The
// file docs/format/snapshot.md describes the bytes.
package snapshot

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math"
	"slices"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
)

// Magic begins every snapshot, whatever its version.
const Magic = "HINDSNAP"

// Version is the version of the bytes around the states. Decode rejects any other version.
const Version = 3

// Snapshot is a model at one sequence.
type Snapshot struct {
	Spec     model.Spec
	Sequence uint64
	// Digest = Digest(Learner).
	Digest [sha256.Size]byte
	// Learner is the learner's state, as Visit wrote it.
	Learner []byte
	Account []byte
	History []byte
	// Carried is what an exported model carries beside its state, or nil.
	Carried []byte
}

// Digest of a learner's state: SHA-256 of its bytes.
func Digest(state []byte) (digest [sha256.Size]byte) {
	if len(state) <= codec.Piece {
		return sha256.Sum256(state)
	}
	h := sha256.New()
	for chunk := range slices.Chunk(state, codec.Piece) {
		h.Write(chunk) // A hash never fails.
	}
	h.Sum(digest[:0])
	return digest
}

func checksum(data []byte) (sum uint32) {
	table := crc32.MakeTable(crc32.Castagnoli)
	for chunk := range slices.Chunk(data, codec.Piece) {
		sum = crc32.Update(sum, table, chunk)
	}
	return sum
}

// Encode is the snapshot's bytes.
func Encode(s Snapshot) ([]byte, error) {
	spec, err := EncodeSpec(s.Spec)
	if err != nil {
		return nil, err
	}
	size := 256 + len(spec) + len(s.Learner) + len(s.Account) + len(s.History) + len(s.Carried)
	v := codec.Appending(make([]byte, 0, size))
	version := uint32(Version)
	s.visitHead(&v, &version)
	s.visitSections(&v, &spec)
	out, err := v.Appended()
	if err != nil {
		return nil, err
	}
	// The trailer is the checksum of all bytes before it.
	return binary.LittleEndian.AppendUint32(out, checksum(out)), nil
}

// HeadBytes is the length of the head that DecodeHead reads.
const HeadBytes = len(Magic) + 4 + 8 + sha256.Size

func (s *Snapshot) visitHead(v *codec.Visitor, version *uint32) {
	magic := []byte(Magic)
	if v.Bytes(magic); v.Reading() && string(magic) != Magic {
		v.Fail(fmt.Errorf("snapshot: it begins with %q, want %q: %w", magic, Magic, codec.ErrCorrupt))
	}
	v.Uint32(version)
	v.Uint64(&s.Sequence)
	v.Bytes(s.Digest[:])
}

// DecodeHead reads the sequence and the digest of a snapshot, given its head or all of it. It checks only the head.
func DecodeHead(head []byte) (sequence uint64, digest [sha256.Size]byte, err error) {
	var s Snapshot
	version := uint32(0)
	v := codec.Reading(head)
	if s.visitHead(&v, &version); v.Err() == nil {
		v.Fail(codec.CheckVersion(version, Version))
	}
	if err := v.Err(); err != nil {
		return 0, digest, fmt.Errorf("snapshot: head: %w: %w", err, codec.ErrCorrupt)
	}
	return s.Sequence, s.Digest, nil
}

// visitSections visits the parts behind the head, in their order, given the encoded spec.
func (s *Snapshot) visitSections(v *codec.Visitor, spec *[]byte) {
	visitSection(v, "spec", spec)
	visitSection(v, "learner", &s.Learner)
	visitSection(v, "account", &s.Account)
	visitSection(v, "history", &s.History)
	visitSection(v, "carried", &s.Carried)
}

func visitSection(v *codec.Visitor, name string, data *[]byte) {
	var tag [8]byte
	copy(tag[:], name)
	v.Bytes(tag[:])
	size := len(*data)
	if size > math.MaxInt32 {
		v.Fail(fmt.Errorf("snapshot: section %s of %d bytes: want at most %d", name, size, math.MaxInt32))
	}
	v.Int(math.MaxInt32, &size)
	v.Raw(data, size)
	sum := checksum(*data)
	want := sum
	switch v.Uint32(&want); {
	case !v.Reading():
	case string(bytes.TrimRight(tag[:], "\x00")) != name:
		v.Fail(fmt.Errorf("snapshot: section %q, want %q: %w", tag, name, codec.ErrCorrupt))
	case sum != want:
		v.Fail(fmt.Errorf("snapshot: section %s fails its checksum: %w", name, codec.ErrCorrupt))
	}
}

// Decode reads a snapshot, whose slices point into data. It fails with codec.ErrCorrupt, or with
// codec.ErrVersion if the checksum is right and another build wrote the snapshot. Whatever the data
// claims, it allocates only what the spec needs.
func Decode(data []byte) (s Snapshot, err error) {
	v := codec.Reading(data[:max(0, len(data)-4)])
	version := uint32(0)
	if s.visitHead(&v, &version); v.Err() != nil {
		return s, v.Err()
	}
	end := len(data) - 4
	if checksum(data[:end]) != binary.LittleEndian.Uint32(data[end:]) {
		return s, fmt.Errorf("snapshot of %d bytes fails its checksum: %w", len(data), codec.ErrCorrupt)
	}
	if err := codec.CheckVersion(version, Version); err != nil {
		return s, fmt.Errorf("snapshot: %w", err)
	}
	var spec []byte
	s.visitSections(&v, &spec)
	if err := v.End(); err != nil {
		return s, err
	}
	if s.Spec, err = DecodeSpec(spec); err != nil {
		return s, err
	}
	if len(s.Carried) == 0 {
		s.Carried = nil
	}
	if Digest(s.Learner) != s.Digest {
		return s, fmt.Errorf("snapshot: the learner's state fails its digest: %w", codec.ErrCorrupt)
	}
	return s, nil
}

// EncodeSpec is the spec as JSON, its stored form.
func EncodeSpec(s model.Spec) ([]byte, error) {
	data, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode spec: %w", err)
	}
	return data, nil
}

// DecodeSpec reads what EncodeSpec wrote. It fails on an unknown field: another build wrote it.
func DecodeSpec(data []byte) (model.Spec, error) {
	var s model.Spec
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return s, fmt.Errorf("decode spec %q: %w: %w", data, err, codec.ErrCorrupt)
	}
	return s, nil
}
