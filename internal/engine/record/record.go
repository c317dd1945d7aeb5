// Package record encodes the values that the engine keeps in a store: commit
// records, remembered observations, waiting predictions, registry entries,
// accounts, and what an export carries. Each begins with a version byte. The
// file docs/format/records.md describes every byte.
package record

import (
	"encoding/binary"
	"errors"
	"fmt"

	"hindsight/internal/model/codec"
)

// Versions of the values. A commit record of version 2 or later says that the ids
// of all records before it are remembered. Version 3 of it, and version 2 of a
// waiting prediction and of a remembered observation, know what the account and
// the learner want back with a label.
const (
	version         = 1
	versionSeen     = 2
	versionWaiting  = 2
	versionComplete = 2
	versionRecord   = 3
)

// ErrUnreadable is a value that this version cannot read.
var ErrUnreadable = errors.New("not a value this version can read")

// Served is what a client had been told before the label came.
type Served struct {
	// Predictions are the values, one per output, Sequence the state they
	// were served from.
	Predictions []float64
	Sequence    uint64
	// Notes are the account's of that moment, Advice is the learner's. Either may
	// be empty.
	Notes, Advice []float64
}

// Observation is one learned observation. It is self-contained: replaying it
// needs neither the waiting predictions nor a clock.
type Observation struct {
	ID       string
	Features []float64
	Labels   []float64
	Weight   float64
	// Served is nil when there had been no prediction.
	Served *Served
}

// Record is one commit: observations that became durable together.
type Record struct {
	// Time is max(the model's last time, now) in nanoseconds since 1970.
	Time         int64
	Observations []Observation
	// Complete says that the ids of all records before this one are
	// remembered. Decode sets it; what Append writes is complete.
	Complete bool
}

const (
	flagServed = 1 << iota
	flagWeight
	flagNoted
	flagsKnown = flagServed | flagWeight | flagNoted
)

// Append appends the record's bytes to dst.
func (r *Record) Append(dst []byte) []byte {
	dst = append(dst, versionRecord)
	dst = codec.AppendUint64(dst, uint64(r.Time))
	dst = binary.AppendUvarint(dst, uint64(len(r.Observations)))
	for n := range r.Observations {
		o := &r.Observations[n]
		var flags byte
		if o.Served != nil {
			flags |= flagServed
			if len(o.Served.Notes) > 0 || len(o.Served.Advice) > 0 {
				flags |= flagNoted
			}
		}
		if o.Weight != 1 {
			flags |= flagWeight
		}
		dst = append(dst, flags)
		dst = appendString(dst, o.ID)
		dst = appendNumbers(dst, o.Features)
		dst = appendNumbers(dst, o.Labels)
		if flags&flagWeight != 0 {
			dst = codec.AppendFloats(dst, o.Weight)
		}
		if o.Served != nil {
			dst = codec.AppendFloats(dst, o.Served.Predictions...)
			dst = codec.AppendUint64(dst, o.Served.Sequence)
		}
		if flags&flagNoted != 0 {
			dst = appendNumbers(appendNumbers(dst, o.Served.Notes), o.Served.Advice)
		}
	}
	return dst
}

// Decode reads what Append wrote, in this version or one before. It
// allocates no more than a small multiple of the data.
func Decode(data []byte) (Record, error) {
	d := newDecoder(data, versionRecord)
	r := Record{Complete: d.version >= versionComplete, Time: int64(d.Uint64())}
	n := d.count(4) // An observation takes at least 4 bytes.
	r.Observations = make([]Observation, 0, n)
	for range n {
		flags := d.octet()
		if flags&^flagsKnown != 0 || flags&(flagServed|flagNoted) == flagNoted {
			return Record{}, fmt.Errorf("record: observation flags %#x: %w", flags, ErrUnreadable)
		}
		o := Observation{ID: d.text(), Weight: 1}
		o.Features = d.numbers()
		o.Labels = d.numbers()
		if flags&flagWeight != 0 {
			o.Weight = d.Float()
		}
		if flags&flagServed != 0 {
			o.Served = &Served{Predictions: make([]float64, len(o.Labels))}
			d.Floats(o.Served.Predictions)
			o.Served.Sequence = d.Uint64()
		}
		if flags&flagNoted != 0 {
			o.Served.Notes, o.Served.Advice = d.optional(), d.optional()
		}
		if d.Err() != nil {
			break
		}
		r.Observations = append(r.Observations, o)
	}
	if err := d.End(); err != nil {
		return Record{}, fmt.Errorf("record: commit record: %w", err)
	}
	return r, nil
}

// EncodeEntry is a model's registry entry: when it was created, in nanoseconds
// since 1970, and its spec.
func EncodeEntry(created int64, spec []byte) []byte {
	out := append(make([]byte, 0, 9+len(spec)), version)
	return append(codec.AppendUint64(out, uint64(created)), spec...)
}

// DecodeEntry reads what EncodeEntry wrote.
func DecodeEntry(data []byte) (created int64, spec []byte, err error) {
	d := newDecoder(data, version)
	created = int64(d.Uint64())
	spec = d.Bytes(d.Len())
	if err := d.Err(); err != nil {
		return 0, nil, fmt.Errorf("record: registry entry: %w", err)
	}
	return created, spec, nil
}
