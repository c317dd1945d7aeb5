package command

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"hindsight/internal/engine/storage"
)

// Sentinels of decoding.
var (
	// ErrOlder: an older program wrote the entry. This program does not know its bytes.
	ErrOlder = errors.New("command: the entry is of an older version")
	// ErrMalformed: the bytes are not an entry.
	ErrMalformed = errors.New("command: the entry is malformed")
)

// LogEntry reads the commands of an entry.
type LogEntry struct {
	Header
	rest reader
}

// Raw is a command whose body is not decoded.
type Raw struct {
	Kind  Kind
	Model uint64
	Body  []byte
}

// Decode reads the header of an entry, and checks the kinds and the lengths of all commands, so that no command of an entry
// is applied if one of its commands is not known. The entry aliases data.
func Decode(data []byte) (*LogEntry, error) {
	r := reader{data: data}
	format := r.uvarint()
	switch {
	case r.err != nil:
		return nil, r.err
	case format == 0:
		return nil, fmt.Errorf("%w: format 0", ErrMalformed)
	case format < uint64(storage.OldestFormat):
		return nil, fmt.Errorf("%w: format %d, this program reads %d to %d: restore a backup into a new cluster", ErrOlder, format, storage.OldestFormat, storage.Format)
	case format > uint64(storage.Format):
		return nil, fmt.Errorf("%w: format %d, this program reads at most %d", storage.ErrNewer, format, storage.Format)
	}
	e := &LogEntry{}
	e.Format = uint32(format)
	e.Group = r.uvarint()
	copy(e.Proposer[:], r.take(uint64(len(e.Proposer))))
	e.Serial = r.uvarint()
	e.rest = r
	if r.err != nil {
		return nil, r.err
	}
	for all := *e; ; {
		c, ok, err := all.Next()
		if !ok || err != nil {
			return e, err
		}
		if c.Kind == 0 || c.Kind > Raise {
			return nil, fmt.Errorf("%w: a command of kind %d", storage.ErrNewer, c.Kind)
		}
	}
}

// Next returns the next command. After the last command ok is false.
func (e *LogEntry) Next() (c Raw, ok bool, err error) {
	r := &e.rest
	if len(r.data) == 0 || r.err != nil {
		return Raw{}, false, r.err
	}
	c.Kind, c.Model = Kind(r.octet()), r.uvarint()
	if length := r.take(4); r.err == nil {
		c.Body = r.take(uint64(binary.LittleEndian.Uint32(length)))
	}
	return c, r.err == nil, r.err
}

// Decode sets every field of the command, and reuses the memory of its lists. The slices alias the entry. A slice is
// nil only if its field is absent.
func (c *Command) Decode(raw Raw) error {
	*c = Command{
		Kind: raw.Kind, Model: raw.Model,
		Also: c.Also[:0], IDs: c.IDs[:0], Waiting: c.Waiting[:0], Answered: c.Answered[:0],
	}
	r := &reader{data: raw.Body}
	switch raw.Kind {
	case Create, PutAlias:
		c.Name, c.Value = r.text(), r.bytes()
	case Import:
		c.Name, c.Value = r.text(), r.bytes()
		c.Sequence, c.Snapshot = r.uvarint(), r.bytes()
		c.IDs, c.Waiting = r.ids(c.IDs), r.waiting(c.Waiting)
	case SetValue:
		c.Value = r.bytes()
		for range r.count(2) {
			c.Also = append(c.Also, storage.Alias{Name: r.text(), Value: r.bytes()})
		}
	case RemoveAlias:
		c.Name = r.text()
	case Append:
		c.Record, c.IDs = r.record(), r.ids(c.IDs)
		for range r.count(2) {
			c.Answered = append(c.Answered, storage.Answered{Model: r.uvarint(), ID: r.text()})
		}
	case Rewind:
		c.decodeRewind(r)
	case PutIDs:
		c.IDs = r.ids(c.IDs)
	case PutWaiting:
		c.Waiting = r.waiting(c.Waiting)
	case Expire:
		c.Expired, c.Forgotten, c.Keep = r.time(), r.time(), r.uvarint()
	case Digest:
		c.Sequence, c.Digest = r.uvarint(), r.text()
	case Snapshot:
		c.Sequence, c.Size, c.Offset, c.Snapshot = r.uvarint(), r.uvarint(), r.uvarint(), r.bytes()
	case Raise:
		c.Sequence, c.Name = r.uvarint(), r.text()
	case Delete:
	default:
		return fmt.Errorf("%w: a command of kind %d", storage.ErrNewer, raw.Kind)
	}
	if r.err == nil && len(r.data) > 0 {
		r.refuse("bytes behind a command")
	}
	return r.err
}

func (c *Command) decodeRewind(r *reader) {
	flags := r.octet()
	if flags&^(rewindLast|rewindForget|rewindValue|rewindSnapshot) != 0 {
		r.refuse("flags of a rewind")
		return
	}
	c.Sequence, c.Forget = r.uvarint(), flags&rewindForget != 0
	if flags&rewindLast != 0 {
		last := r.record()
		c.Last = &last
	}
	if flags&rewindValue != 0 {
		c.Value = r.bytes()
	}
	if flags&rewindSnapshot != 0 {
		c.Snapshot, c.IDs = r.bytes(), r.ids(c.IDs)
	}
}

// reader reads bytes. After the first error it reads zeros.
type reader struct {
	data []byte
	err  error
}

func (r *reader) refuse(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrMalformed, what)
	}
	r.data = nil
}

func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.data)) {
		r.refuse("the end is missing")
		return nil
	}
	out := r.data[:n:n]
	r.data = r.data[n:]
	return out
}

func (r *reader) octet() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.data)
	if n <= 0 {
		r.refuse("a number")
		return 0
	}
	r.data = r.data[n:]
	return v
}

func (r *reader) bytes() []byte { return r.take(r.uvarint()) }

func (r *reader) text() string { return string(r.bytes()) }

// count reads the number of items of at least size bytes each. It rejects more items than the rest of the bytes can
// hold, so that a wrong count reserves no memory.
func (r *reader) count(size int) uint64 {
	n := r.uvarint()
	if n > uint64(len(r.data)/size) {
		r.refuse("more items than bytes")
		return 0
	}
	return n
}

func (r *reader) time() time.Time {
	seconds, n := binary.Varint(r.data)
	if n <= 0 {
		r.refuse("a time")
		return time.Time{}
	}
	r.data = r.data[n:]
	nanoseconds := r.uvarint()
	if nanoseconds >= uint64(time.Second) {
		r.refuse("a time")
		return time.Time{}
	}
	return time.Unix(seconds, int64(nanoseconds))
}

func (r *reader) record() storage.Record {
	return storage.Record{First: r.uvarint(), Last: r.uvarint(), Data: r.bytes()}
}

// rowBytes is the size of the shortest row: two lengths and two parts of a time.
const rowBytes = 4

func (r *reader) ids(to []storage.ID) []storage.ID {
	for range r.count(rowBytes) {
		to = append(to, storage.ID{ID: r.text(), At: r.time(), Value: r.bytes()})
	}
	return to
}

func (r *reader) waiting(to []storage.Prediction) []storage.Prediction {
	for range r.count(rowBytes) {
		to = append(to, storage.Prediction{ID: r.text(), Expiry: r.time(), Value: r.bytes()})
	}
	return to
}
