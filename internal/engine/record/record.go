// Package record encodes the values that the engine keeps in a store: commit
// records, remembered observations, pending predictions, registry entries, aliases,
// and the additions of an export. Each begins with a version byte.
// The page docs/format/records.md describes the bytes.
package record

import (
	"fmt"
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
)

// Versions of the values. A change of the bytes of a value raises its version. A decoder rejects any other version.
const (
	versionRecord  = 5
	versionSeen    = 3
	versionPending = 3
	versionEntry   = 7
	versionAlias   = 5
	versionCarried = 2
)

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

// Append appends the record's bytes to dst.
func (r *Record) Append(dst []byte) []byte {
	return encode(dst, func(v *codec.Visitor) { r.visit(v) }) // r.visit would be allocated.
}

// Decode reads the bytes that Append wrote. It allocates no more than a small multiple of
// the data.
func Decode(data []byte) (Record, error) { return decode("commit record", data, (*Record).visit) }

// Time reads only the time of a record.
func Time(data []byte) (int64, error) {
	var r Record
	v := codec.Reading(data)
	if r.visitTime(&v); v.Err() != nil {
		return 0, fmt.Errorf("record: commit record: %w", v.Err())
	}
	return r.Time, nil
}

func (r *Record) visitTime(v *codec.Visitor) {
	v.Version(versionRecord)
	v.Int64(&r.Time)
}

func (r *Record) visit(v *codec.Visitor) {
	r.visitTime(v)
	n := len(r.Observations)
	if v.Length(&n, 4); v.Reading() { // An observation takes at least 4 bytes.
		r.Observations = make([]Observation, n)
	}
	for k := range r.Observations {
		if r.Observations[k].visit(v); v.Err() != nil {
			return
		}
	}
}

func (o *Observation) visit(v *codec.Visitor) {
	served, weighted, named, classified, paired := o.Served != nil, o.Weight != 1, o.Inputs != nil, o.Class != "", o.LeaderLoss != nil
	noted := served && (len(o.Served.Notes) > 0 || len(o.Served.Advice) > 0)
	v.Flags(&served, &weighted, &noted, &named, &classified, nil, &paired)
	if v.Reading() {
		if noted && !served {
			v.Corrupt("notes without a served prediction")
			return
		}
		o.Weight = 1
	}
	v.DelimitedText(&o.ID)
	visitInput(v, named, &o.Features, &o.Inputs)
	if !classified {
		v.DelimitedFloats(&o.Labels)
	} else if v.DelimitedText(&o.Class); v.Reading() && o.Class == "" {
		v.Corrupt("a class without a name")
	}
	if weighted {
		v.Float(&o.Weight)
	}
	if served && v.Err() == nil {
		if v.Reading() {
			o.Served = &Served{Class: model.NoClass}
		}
		o.Served.visit(v, classified, noted, len(o.Labels))
	}
	if paired && v.Err() == nil {
		if v.Reading() {
			o.LeaderLoss = new(float64)
		}
		v.Within(math.MaxFloat64, o.LeaderLoss)
	}
}

func (s *Served) visit(v *codec.Visitor, classified, noted bool, outputs int) {
	if classified {
		v.DelimitedFloats(&s.Predictions)
		visitClass(v, &s.Class, &s.Probabilities)
	} else {
		if v.Reading() {
			s.Predictions = make([]float64, outputs)
		}
		v.Floats(s.Predictions)
	}
	v.Uint64(&s.Sequence)
	if noted {
		visitOptional(v, &s.Notes)
		visitOptional(v, &s.Advice)
	}
}
