package command

import (
	"errors"
	"fmt"

	"hindsight/internal/engine/storage"
	"hindsight/internal/model/codec"
)

// Sentinels of decoding.
var (
	// ErrOlder: an older program wrote the entry. This program does not know its bytes.
	ErrOlder     = errors.New("command: the entry is of an older version")
	ErrMalformed = errors.New("command: the entry is malformed")
)

// LogEntry reads the commands of an entry.
type LogEntry struct {
	Header
	rest []byte
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
	e := &LogEntry{}
	v := codec.Reading(data)
	if e.visit(&v); v.Err() != nil {
		return nil, malformed(v.Err())
	}
	e.rest = data[len(data)-v.Left():]
	for all := *e; ; {
		c, ok, err := all.Next()
		if !ok || err != nil {
			return e, err
		}
		if c.Kind == 0 || c.Kind > Join {
			return nil, fmt.Errorf("%w: a command of kind %d", storage.ErrNewer, c.Kind)
		}
	}
}

func checkFormat(format uint64) error {
	switch {
	case format == 0:
		return fmt.Errorf("%w: format 0", ErrMalformed)
	case format < uint64(storage.OldestFormat):
		return fmt.Errorf("%w: format %d, this program reads %d to %d: restore a backup into a new cluster", ErrOlder, format, storage.OldestFormat, storage.Format)
	case format > uint64(storage.Format):
		return fmt.Errorf("%w: format %d, this program reads at most %d", storage.ErrNewer, format, storage.Format)
	}
	return nil
}

// malformed is ErrMalformed for bytes that cannot be read.
func malformed(err error) error {
	if errors.Is(err, codec.ErrCorrupt) {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return err
}

// Next returns the next command. After the last command ok is false.
func (e *LogEntry) Next() (c Raw, ok bool, err error) {
	if len(e.rest) == 0 {
		return Raw{}, false, nil
	}
	v, length := codec.Reading(e.rest), uint32(0)
	v.Byte((*byte)(&c.Kind))
	v.Uvarint(&c.Model)
	v.Uint32(&length)
	body := e.rest[len(e.rest)-v.Left():]
	switch {
	case v.Err() != nil:
		return Raw{}, false, malformed(v.Err())
	case uint64(length) > uint64(len(body)):
		return Raw{}, false, fmt.Errorf("%w: %d bytes of a command of %d", ErrMalformed, len(body), length)
	}
	c.Body, e.rest = body[:length:length], body[length:]
	return c, true, nil
}

// Decode sets every field of the command, and reuses the memory of its lists. The slices alias the entry. A slice is
// nil only if its field is absent.
func (c *Command) Decode(raw Raw) error {
	*c = Command{
		Kind: raw.Kind, Model: raw.Model,
		Also: c.Also[:0], IDs: c.IDs[:0], Pending: c.Pending[:0], Answered: c.Answered[:0],
	}
	if raw.Kind == 0 || raw.Kind > Join {
		return fmt.Errorf("%w: a command of kind %d", storage.ErrNewer, raw.Kind)
	}
	if err := codec.Read(raw.Body, c.visitBody); err != nil {
		return malformed(err)
	}
	return nil
}
