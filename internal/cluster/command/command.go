// Package command encodes the entries of a replicated log. An entry holds commands. A command is a call that
// changes a storage.Store. The page docs/format/commands.md lists the bytes.
package command

import (
	"encoding/binary"
	"slices"
	"time"

	"hindsight/internal/engine/storage"
	"hindsight/internal/model/codec"
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
	PutPending
	Expire
	Digest
	Snapshot
	Raise
	Part
	Join
)

// Travels reports whether a command of the kind may travel in parts. Parts do not travel in parts. Changes of pending
// predictions have no position, so that a server may apply them again when it has dropped their parts.
func (k Kind) Travels() bool {
	return k != 0 && k != Part && k != Join && k != PutPending && k != Expire
}

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

const headerBytes = binary.MaxVarintLen32 + binary.MaxVarintLen64 + 16 + binary.MaxVarintLen64

// NewLogEntry returns an entry without commands and with capacity for room bytes of commands. The caller appends encoded
// commands to it.
func NewLogEntry(h Header, room int) []byte {
	v := codec.Appending(make([]byte, 0, headerBytes+room))
	h.visit(&v)
	out, _ := v.Appended() // Appending numbers does not fail.
	return out
}

func (h *Header) visit(v *codec.Visitor) {
	format := uint64(h.Format)
	if v.Uvarint(&format); v.Reading() {
		v.Fail(checkFormat(format))
		h.Format = uint32(format)
	}
	v.Uvarint(&h.Group)
	v.Bytes(h.Proposer[:])
	v.Uvarint(&h.Serial)
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
	// Snapshot is the snapshot of an Import, a Rewind or a Snapshot. A Rewind without one has nil.
	Snapshot []byte
	// Transfer is the number of a command that travels in parts, among the transfers of the proposer. A Part has the Data
	// that begin at Offset of the body of the command. A Join applies the body of Size bytes as a command of the kind
	// Joined. A Join of kind 0 only drops the parts.
	Transfer, Size, Offset uint64
	Data                   []byte
	Joined                 Kind
	// Record is the record of an Append. Last is the record that ends the log after a Rewind, or nil.
	Record storage.Record
	Last   *storage.Record
	// Forget is true for a Rewind that forgets the ids after Sequence.
	Forget bool
	// IDs are the ids of an Append, an Import, a PutIDs, or a Rewind with a snapshot.
	IDs     []storage.ID
	Pending []storage.Prediction
	// Answered are the pending predictions that an Append answers, or a Join of an Append.
	Answered []string
	// From and To are the bounds of the rows of a Digest.
	From, To string
	// Expired and Forgotten are the times of an Expire: of the predictions, and of the ids, of which Keep remain.
	Expired, Forgotten time.Time // A Digest has Forgotten too.
	Keep               uint64
}

// Append appends the bytes of the command to dst.
func (c *Command) Append(dst []byte) []byte {
	v := codec.Appending(binary.AppendUvarint(append(dst, byte(c.Kind)), c.Model))
	length := uint32(0)
	v.Uint32(&length)
	begin, _ := v.Appended()
	c.visitBody(&v)
	out, _ := v.Appended() // Appending numbers does not fail.
	binary.LittleEndian.PutUint32(out[len(begin)-4:], uint32(len(out)-len(begin)))
	return out
}

// Body returns the body of a command that Append has encoded.
func Body(encoded []byte) []byte {
	_, model := binary.Uvarint(encoded[1:])
	return encoded[1+model+4:]
}

// visitBody visits what a command of its kind has. The slices that it reads alias the data.
func (c *Command) visitBody(v *codec.Visitor) {
	switch c.Kind {
	case Create, PutAlias:
		v.DelimitedText(&c.Name)
		v.DelimitedBytes(&c.Value)
	case Import:
		v.DelimitedText(&c.Name)
		v.DelimitedBytes(&c.Value)
		v.Uvarint(&c.Sequence)
		v.DelimitedBytes(&c.Snapshot)
		visitRows(v, rowBytes, &c.IDs, visitID)
		visitRows(v, rowBytes, &c.Pending, visitPrediction)
	case SetValue:
		v.DelimitedBytes(&c.Value)
		visitRows(v, 2, &c.Also, func(v *codec.Visitor, a *storage.Alias) {
			v.DelimitedText(&a.Name)
			v.DelimitedBytes(&a.Value)
		})
	case RemoveAlias:
		v.DelimitedText(&c.Name)
	case Append:
		visitRecord(v, &c.Record)
		visitRows(v, rowBytes, &c.IDs, visitID)
		visitRows(v, 1, &c.Answered, (*codec.Visitor).DelimitedText)
	case Rewind:
		c.visitRewind(v)
	case PutIDs:
		visitRows(v, rowBytes, &c.IDs, visitID)
	case PutPending:
		visitRows(v, rowBytes, &c.Pending, visitPrediction)
	case Expire:
		visitTime(v, &c.Expired)
		visitTime(v, &c.Forgotten)
		v.Uvarint(&c.Keep)
	case Digest:
		v.Uvarint(&c.Sequence)
		v.DelimitedText(&c.From)
		v.DelimitedText(&c.To)
		visitTime(v, &c.Forgotten)
	case Snapshot:
		v.Uvarint(&c.Sequence)
		v.DelimitedBytes(&c.Snapshot)
	case Raise:
		v.Uvarint(&c.Sequence)
		v.DelimitedText(&c.Name)
	case Part:
		v.Uvarint(&c.Transfer, &c.Offset)
		v.DelimitedBytes(&c.Data)
	case Join:
		v.Uvarint(&c.Transfer, &c.Size)
		if v.Byte((*byte)(&c.Joined)); v.Reading() && !c.Joined.Travels() && c.Joined != 0 {
			v.Corrupt("a command of kind %d in parts", c.Joined)
		}
		visitRows(v, 1, &c.Answered, (*codec.Visitor).DelimitedText)
	case Delete:
	}
}

func (c *Command) visitRewind(v *codec.Visitor) {
	last, value, snapshot := c.Last != nil, c.Value != nil, c.Snapshot != nil
	v.Flags(&last, &c.Forget, &value, &snapshot)
	v.Uvarint(&c.Sequence)
	if last && v.Reading() {
		c.Last = new(storage.Record)
	}
	if c.Last != nil {
		visitRecord(v, c.Last)
	}
	if value {
		v.DelimitedBytes(&c.Value)
	}
	if snapshot {
		v.DelimitedBytes(&c.Snapshot)
		visitRows(v, rowBytes, &c.IDs, visitID)
	}
}

// rowBytes is the size of the shortest row: two lengths and two parts of a time.
const rowBytes = 4

// visitRows visits rows of at least size bytes each after their number. Reading reuses the memory of the rows.
func visitRows[T any](v *codec.Visitor, size int, rows *[]T, visit func(*codec.Visitor, *T)) {
	n := len(*rows)
	if v.Length(&n, size); v.Reading() {
		*rows = slices.Grow((*rows)[:0], n)[:n]
	}
	for k := range *rows {
		visit(v, &(*rows)[k])
	}
}

func visitID(v *codec.Visitor, r *storage.ID) {
	v.DelimitedText(&r.ID)
	visitTime(v, &r.At)
	v.DelimitedBytes(&r.Value)
}

func visitPrediction(v *codec.Visitor, r *storage.Prediction) {
	v.DelimitedText(&r.ID)
	visitTime(v, &r.Expiry)
	v.DelimitedBytes(&r.Value)
}

func visitRecord(v *codec.Visitor, r *storage.Record) {
	v.Uvarint(&r.First, &r.Last)
	v.DelimitedBytes(&r.Data)
}

// visitTime visits seconds and nanoseconds, because nanoseconds alone would overflow for some values of time.Time.
func visitTime(v *codec.Visitor, at *time.Time) {
	seconds, nanoseconds := at.Unix(), uint64(at.Nanosecond())
	v.Varint(&seconds)
	if v.Uvarint(&nanoseconds); !v.Reading() {
		return
	}
	if nanoseconds >= uint64(time.Second) {
		v.Corrupt("%d nanoseconds of a second", nanoseconds)
		return
	}
	*at = time.Unix(seconds, int64(nanoseconds))
}
