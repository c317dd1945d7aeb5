// Package command encodes the entries of a replicated log. An entry holds commands. A command is a call that
// changes a storage.Store. The page docs/format/commands.md lists the bytes.
package command

import (
	"encoding/binary"
	"time"

	"hindsight/internal/engine/storage"
)

// Kind says which call a command is.
type Kind byte

// The kinds. Their numbers are part of the format.
const (
	Create Kind = iota + 1
	Import
	SetValue
	Delete
	PutAlias
	RemoveAlias
	Append
	Rewind
	PutIDs
	PutWaiting
	Expire
	Digest
	Snapshot
	Raise
)

// Header is the beginning of an entry.
type Header struct {
	// Format is the format of the owner's store. All commands of the entry have it or an older one.
	Format uint32
	// Group is the number of the group of models whose log has the entry.
	Group uint64
	// Proposer identifies the process that proposed the entry. Serial numbers the entries of the process.
	Proposer [16]byte
	Serial   uint64
}

// headerBytes is the longest header.
const headerBytes = binary.MaxVarintLen32 + binary.MaxVarintLen64 + 16 + binary.MaxVarintLen64

// NewLogEntry returns an entry without commands and with capacity for room bytes of commands. The caller appends encoded
// commands to it.
func NewLogEntry(h Header, room int) []byte {
	dst := binary.AppendUvarint(make([]byte, 0, headerBytes+room), uint64(h.Format))
	dst = binary.AppendUvarint(dst, h.Group)
	dst = append(dst, h.Proposer[:]...)
	return binary.AppendUvarint(dst, h.Serial)
}

// Command is one call. The page docs/format/commands.md says which fields each kind has.
type Command struct {
	Kind Kind
	// Model is the number of the model, 0 for a call of the store.
	Model uint64
	// Name is the name of a new model or of an alias. A Raise has the version of a program that reads the format.
	Name string
	// Value is nil for a Rewind that keeps the value of the model.
	Value []byte
	Also  []storage.Alias
	// Sequence is the sequence of an Import, a Rewind, a Digest or a Snapshot, and the format of a Raise.
	Sequence uint64
	// Snapshot is the snapshot of an Import or a Rewind. A Rewind without one has nil. A command of the kind Snapshot has
	// the part that begins at Offset, of a snapshot of Size bytes.
	Snapshot     []byte
	Size, Offset uint64
	// Record is the record of an Append. Last is the record that ends the log after a Rewind, or nil.
	Record storage.Record
	Last   *storage.Record
	// Forget is true for a Rewind that forgets the ids after Sequence.
	Forget bool
	// IDs are the ids of an Append, an Import, a PutIDs, or a Rewind with a snapshot.
	IDs     []storage.ID
	Waiting []storage.Prediction
	// Answered are the pending predictions that an Append answers.
	Answered []storage.Answered
	Digest   string
	// Expired and Forgotten are the times of an Expire: of the predictions, and of the ids, of which Keep remain.
	Expired, Forgotten time.Time
	Keep               uint64
}

// Flags of a Rewind.
const (
	rewindLast = 1 << iota
	rewindForget
	rewindValue
	rewindSnapshot
)

// Append appends the bytes of the command to dst.
func (c *Command) Append(dst []byte) []byte {
	dst = binary.AppendUvarint(append(dst, byte(c.Kind)), c.Model)
	length := len(dst)
	dst = c.appendBody(append(dst, 0, 0, 0, 0))
	binary.LittleEndian.PutUint32(dst[length:], uint32(len(dst)-length-4))
	return dst
}

func (c *Command) appendBody(dst []byte) []byte {
	switch c.Kind {
	case Create, PutAlias:
		dst = appendBytes(appendBytes(dst, c.Name), c.Value)
	case Import:
		dst = appendBytes(appendBytes(dst, c.Name), c.Value)
		dst = appendBytes(binary.AppendUvarint(dst, c.Sequence), c.Snapshot)
		dst = appendWaiting(appendIDs(dst, c.IDs), c.Waiting)
	case SetValue:
		dst = binary.AppendUvarint(appendBytes(dst, c.Value), uint64(len(c.Also)))
		for _, a := range c.Also {
			dst = appendBytes(appendBytes(dst, a.Name), a.Value)
		}
	case RemoveAlias:
		dst = appendBytes(dst, c.Name)
	case Append:
		dst = appendIDs(appendRecord(dst, c.Record), c.IDs)
		dst = binary.AppendUvarint(dst, uint64(len(c.Answered)))
		for _, a := range c.Answered {
			dst = appendBytes(binary.AppendUvarint(dst, a.Model), a.ID)
		}
	case Rewind:
		dst = c.appendRewind(dst)
	case PutIDs:
		dst = appendIDs(dst, c.IDs)
	case PutWaiting:
		dst = appendWaiting(dst, c.Waiting)
	case Expire:
		dst = binary.AppendUvarint(appendTime(appendTime(dst, c.Expired), c.Forgotten), c.Keep)
	case Digest:
		dst = appendBytes(binary.AppendUvarint(dst, c.Sequence), c.Digest)
	case Snapshot:
		dst = binary.AppendUvarint(binary.AppendUvarint(binary.AppendUvarint(dst, c.Sequence), c.Size), c.Offset)
		dst = appendBytes(dst, c.Snapshot)
	case Raise:
		dst = appendBytes(binary.AppendUvarint(dst, c.Sequence), c.Name)
	case Delete:
	}
	return dst
}

func (c *Command) appendRewind(dst []byte) []byte {
	flags := byte(0)
	if c.Last != nil {
		flags |= rewindLast
	}
	if c.Forget {
		flags |= rewindForget
	}
	if c.Value != nil {
		flags |= rewindValue
	}
	if c.Snapshot != nil {
		flags |= rewindSnapshot
	}
	dst = binary.AppendUvarint(append(dst, flags), c.Sequence)
	if c.Last != nil {
		dst = appendRecord(dst, *c.Last)
	}
	if c.Value != nil {
		dst = appendBytes(dst, c.Value)
	}
	if c.Snapshot != nil {
		dst = appendIDs(appendBytes(dst, c.Snapshot), c.IDs)
	}
	return dst
}

func appendBytes[T string | []byte](dst []byte, b T) []byte {
	return Copy(binary.AppendUvarint(dst, uint64(len(b))), b)
}

// piece bounds what one call copies. The runtime stops no goroutine inside such a call, and the garbage collector would
// wait for it, while other goroutines, heartbeats among them, wait for the garbage collector.
const piece = 64 << 10

// Copy appends b to dst in pieces, so that the copy of a large command delays no heartbeat.
func Copy[T string | []byte](dst []byte, b T) []byte {
	for ; len(b) > piece; b = b[piece:] {
		dst = append(dst, b[:piece]...)
	}
	return append(dst, b...)
}

func appendRecord(dst []byte, r storage.Record) []byte {
	return appendBytes(binary.AppendUvarint(binary.AppendUvarint(dst, r.First), r.Last), r.Data)
}

// appendTime encodes seconds and nanoseconds, because nanoseconds alone would overflow for some values of time.Time.
func appendTime(dst []byte, t time.Time) []byte {
	return binary.AppendUvarint(binary.AppendVarint(dst, t.Unix()), uint64(t.Nanosecond()))
}

func appendIDs(dst []byte, ids []storage.ID) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(ids)))
	for n := range ids {
		dst = appendBytes(appendTime(appendBytes(dst, ids[n].ID), ids[n].At), ids[n].Value)
	}
	return dst
}

func appendWaiting(dst []byte, rows []storage.Prediction) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(rows)))
	for n := range rows {
		dst = appendBytes(appendTime(appendBytes(dst, rows[n].ID), rows[n].Expiry), rows[n].Value)
	}
	return dst
}
