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

// sections are the parts of a snapshot behind its head, in their order, given the encoded spec.
func (s *Snapshot) sections(spec *[]byte) []section {
	return []section{
		{"spec", spec}, {"learner", &s.Learner}, {"account", &s.Account}, {"history", &s.History}, {"carried", &s.Carried},
	}
}

type section struct {
	name string
	data *[]byte
}

// Encode is the snapshot's bytes.
func Encode(s Snapshot) ([]byte, error) {
	spec, err := EncodeSpec(s.Spec)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, 256+len(spec)+len(s.Learner)+len(s.Account)+len(s.History)+len(s.Carried))
	out = append(out, Magic...)
	out = binary.LittleEndian.AppendUint32(out, Version)
	out = binary.LittleEndian.AppendUint64(out, s.Sequence)
	out = append(out, s.Digest[:]...)
	for _, part := range s.sections(&spec) {
		if out, err = appendSection(out, part.name, *part.data); err != nil {
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
	v := Reading(head)
	magic, version := v.take(len(Magic)), uint32(0)
	v.Uint32(&version)
	v.Uint64(&sequence)
	v.Bytes(digest[:])
	if v.err != nil || string(magic) != Magic || version != Version {
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
	out = binary.LittleEndian.AppendUint64(out, uint64(len(data)))
	out = AppendBytes(out, data)
	return binary.LittleEndian.AppendUint32(out, checksum(data)), nil
}

// Decode reads a snapshot, whose slices point into data. It fails with ErrCorrupt, or with
// ErrVersion if the checksum is right and another build wrote the snapshot. Whatever the data
// claims, it allocates only what the spec needs.
func Decode(data []byte) (s Snapshot, err error) {
	v := Reading(data)
	if magic := v.take(len(Magic)); string(magic) != Magic {
		return s, fmt.Errorf("codec: not a snapshot: it begins with %q, want %q: %w", magic, Magic, ErrCorrupt)
	}
	version := uint32(0)
	v.Uint32(&version)
	if n := len(data) - 4; n < 0 || checksum(data[:n]) != binary.LittleEndian.Uint32(data[n:]) {
		return s, fmt.Errorf("codec: snapshot of %d bytes fails its checksum: %w", len(data), ErrCorrupt)
	}
	if err := CheckVersion(version, Version); err != nil {
		return s, fmt.Errorf("codec: snapshot: %w", err)
	}
	v.Uint64(&s.Sequence)
	v.Bytes(s.Digest[:])
	var spec []byte
	for _, part := range s.sections(&spec) {
		if *part.data, err = v.section(part.name); err != nil {
			return s, err
		}
	}
	if s.Spec, err = DecodeSpec(spec); err != nil {
		return s, err
	}
	if len(s.Carried) == 0 {
		s.Carried = nil
	}
	v.take(4)
	if err := v.End(); err != nil {
		return s, err
	}
	if Digest(s.Learner) != s.Digest {
		return s, fmt.Errorf("codec: the learner's state fails its digest: %w", ErrCorrupt)
	}
	return s, nil
}

// section reads what appendSection appends.
func (v *Visitor) section(name string) ([]byte, error) {
	var size uint64
	var sum uint32
	tag := v.take(8)
	if v.Uint64(&size); size > math.MaxInt32 {
		return nil, fmt.Errorf("codec: section %q claims %d bytes: %w", tag, size, ErrCorrupt)
	}
	data := v.take(int(size))
	if v.Uint32(&sum); v.err != nil {
		return nil, v.err
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
