// Package record encodes the values that the engine keeps in a store: commit
// records, remembered observations, pending predictions, registry entries, aliases,
// and the additions of an export. Each begins with a version byte.
// The page docs/format/records.md describes the bytes.
package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
)

// Versions of the values. A change of the bytes of a value raises its version. A decoder rejects any other version.
const (
	versionRecord  = 5
	versionSeen    = 3
	versionWaiting = 3
	versionEntry   = 7
	versionAlias   = 4
	versionCarried = 2
)

// ErrUnreadable says that this build cannot read the value.
var ErrUnreadable = errors.New("not a value this build can read")

// Served is the prediction that a client received before the label came.
type Served struct {
	// Predictions are the values, one per output, raw values for a classifier. Sequence is
	// the state that they were served from.
	Predictions []float64
	Sequence    uint64
	// Class and Probabilities are the prediction of a classifier, by class numbers.
	// Class is model.NoClass if none.
	Class         int
	Probabilities []float64
	// Notes are the account's notes at the time of the prediction, Advice is the
	// learner's. Either may be empty.
	Notes, Advice []float64
}

// Observation is one learned observation. Replaying it needs neither the pending
// predictions nor a clock.
type Observation struct {
	ID       string
	Features []float64
	// Inputs are the bytes of a record of named inputs, nil for features. The features that
	// the model made of the record are not stored.
	Inputs []byte
	// Labels are one per output, nil for a classifier, whose label is Class.
	Labels []float64
	Class  string
	Weight float64
	// Served is nil without a prediction.
	Served *Served
	// LeaderLoss is the prequential loss of the model that a follower learned the observation
	// from, of a classifier 1 for an error. It is nil unless it is known.
	LeaderLoss *float64
}

// Record is one commit: observations that became durable together.
type Record struct {
	// Time is max(the model's last time, now) in nanoseconds since 1970.
	Time         int64
	Observations []Observation
}

const (
	flagServed = 1 << iota
	flagWeight
	flagNoted
	flagNamed
	flagClass
	flagParametric // Of pending predictions only.
	flagLeader
	flagExplained // Of pending predictions only.
	flagsKnown    = flagServed | flagWeight | flagNoted | flagNamed | flagClass | flagLeader
)

// flags returns the flags of the parts that an observation has.
func (o *Observation) flags() (flags byte) {
	if o.Served != nil {
		flags |= flagServed
		if len(o.Served.Notes) > 0 || len(o.Served.Advice) > 0 {
			flags |= flagNoted
		}
	}
	if o.Weight != 1 {
		flags |= flagWeight
	}
	if o.Inputs != nil {
		flags |= flagNamed
	}
	if o.Class != "" {
		flags |= flagClass
	}
	if o.LeaderLoss != nil {
		flags |= flagLeader
	}
	return flags
}

// Append appends the record's bytes to dst.
func (r *Record) Append(dst []byte) []byte {
	dst = append(dst, versionRecord)
	dst = codec.AppendUint64(dst, uint64(r.Time))
	dst = binary.AppendUvarint(dst, uint64(len(r.Observations)))
	for n := range r.Observations {
		o := &r.Observations[n]
		flags := o.flags()
		dst = append(dst, flags)
		dst = appendString(dst, o.ID)
		dst = appendInput(dst, o.Features, o.Inputs)
		if flags&flagClass != 0 {
			dst = appendString(dst, o.Class)
		} else {
			dst = appendNumbers(dst, o.Labels)
		}
		if flags&flagWeight != 0 {
			dst = codec.AppendFloats(dst, o.Weight)
		}
		if o.Served != nil {
			dst = o.Served.append(dst, flags)
		}
		if o.LeaderLoss != nil {
			dst = codec.AppendFloats(dst, *o.LeaderLoss)
		}
	}
	return dst
}

func (s *Served) append(dst []byte, flags byte) []byte {
	if flags&flagClass != 0 {
		dst = appendNumbers(dst, s.Predictions)
		dst = appendNumbers(binary.AppendUvarint(dst, uint64(s.Class+1)), s.Probabilities)
	} else {
		dst = codec.AppendFloats(dst, s.Predictions...)
	}
	dst = codec.AppendUint64(dst, s.Sequence)
	if flags&flagNoted != 0 {
		dst = appendNumbers(appendNumbers(dst, s.Notes), s.Advice)
	}
	return dst
}

// Decode reads the bytes that Append wrote. It allocates no more than a small multiple of
// the data.
func Decode(data []byte) (Record, error) {
	d := newDecoder(data, versionRecord)
	r := Record{Time: int64(d.Uint64())}
	n := d.count(4) // An observation takes at least 4 bytes.
	r.Observations = make([]Observation, 0, n)
	for range n {
		flags := d.octet()
		if flags&^flagsKnown != 0 || flags&(flagServed|flagNoted) == flagNoted {
			return Record{}, fmt.Errorf("record: observation flags %#x: %w", flags, ErrUnreadable)
		}
		o := d.observation(flags)
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

// Time reads only the time of a record.
func Time(data []byte) (int64, error) {
	d := newDecoder(data, versionRecord)
	at := int64(d.Uint64())
	if err := d.Err(); err != nil {
		return 0, fmt.Errorf("record: commit record: %w", err)
	}
	return at, nil
}

func (d *decoder) observation(flags byte) Observation {
	o := Observation{ID: d.text(), Weight: 1}
	if flags&flagNamed != 0 {
		o.Inputs = d.blob()
	} else {
		o.Features = d.numbers()
	}
	if flags&flagClass != 0 {
		if o.Class = d.text(); o.Class == "" {
			d.reject("a class without a name")
		}
	} else {
		o.Labels = d.numbers()
	}
	if flags&flagWeight != 0 {
		o.Weight = d.Float()
	}
	if flags&flagServed != 0 {
		o.Served = d.served(flags, len(o.Labels))
	}
	if flags&flagLeader != 0 {
		loss := d.Float()
		if !(math.Abs(loss) <= math.MaxFloat64) {
			d.reject(fmt.Sprintf("a loss of %g", loss))
		}
		o.LeaderLoss = &loss
	}
	return o
}

func (d *decoder) served(flags byte, outputs int) *Served {
	s := &Served{Class: model.NoClass}
	if flags&flagClass != 0 {
		s.Predictions = d.numbers()
		s.Class, s.Probabilities = d.class()
	} else {
		s.Predictions = make([]float64, outputs)
		d.Floats(s.Predictions)
	}
	s.Sequence = d.Uint64()
	if flags&flagNoted != 0 {
		s.Notes, s.Advice = d.optional(), d.optional()
	}
	return s
}
