package engine

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"hindsight/internal/model/codec"
)

// The values that the engine keeps in the store: commit records, remembered
// observations, pending predictions, registry entries and accounts. All begin
// with a version byte; docs/format/records.md describes every byte.
const recordVersion = 1

var errRecord = errors.New("not a value this version can read")

// served is what a client had been told before the label came.
type served struct {
	// Predictions are the values, one per output, Sequence the state they
	// were served from.
	Predictions []float64
	Sequence    uint64
}

// observation is one learned observation, self-contained: replaying it needs
// neither the pending predictions nor a clock.
type observation struct {
	ID       string
	Features []float64
	Labels   []float64
	Weight   float64
	// Served is nil when there had been no prediction.
	Served *served
}

// record is one commit: observations that became durable together.
type record struct {
	// Time is max(the model's last time, now) in nanoseconds since 1970.
	Time         int64
	Observations []observation
}

const (
	flagServed = 1 << iota
	flagWeight
	flagsKnown = flagServed | flagWeight
)

// appendRecord appends the record's bytes to dst.
func appendRecord(dst []byte, r record) []byte {
	dst = append(dst, recordVersion)
	dst = codec.AppendUint64(dst, uint64(r.Time))
	dst = binary.AppendUvarint(dst, uint64(len(r.Observations)))
	for _, o := range r.Observations {
		var flags byte
		if o.Served != nil {
			flags |= flagServed
		}
		if o.Weight != 1 {
			flags |= flagWeight
		}
		dst = append(dst, flags)
		dst = binary.AppendUvarint(dst, uint64(len(o.ID)))
		dst = append(dst, o.ID...)
		dst = appendNumbers(dst, o.Features)
		dst = appendNumbers(dst, o.Labels)
		if flags&flagWeight != 0 {
			dst = codec.AppendFloats(dst, o.Weight)
		}
		if o.Served != nil {
			dst = codec.AppendFloats(dst, o.Served.Predictions...)
			dst = codec.AppendUint64(dst, o.Served.Sequence)
		}
	}
	return dst
}

// decodeRecord reads what appendRecord wrote. It allocates no more than a
// small multiple of the data.
func decodeRecord(data []byte) (record, error) {
	d := newDecoder(data)
	r := record{Time: int64(d.Uint64())}
	n := d.count(4) // An observation takes at least 4 bytes.
	r.Observations = make([]observation, 0, n)
	for range n {
		flags := d.octet()
		if flags&^flagsKnown != 0 {
			return record{}, fmt.Errorf("engine: observation flags %#x: %w", flags, errRecord)
		}
		o := observation{ID: string(d.Bytes(d.count(1))), Weight: 1}
		o.Features = d.numbers()
		o.Labels = d.numbers()
		if flags&flagWeight != 0 {
			o.Weight = d.Float()
		}
		if flags&flagServed != 0 {
			o.Served = &served{Predictions: make([]float64, len(o.Labels))}
			d.Floats(o.Served.Predictions)
			o.Served.Sequence = d.Uint64()
		}
		if d.Err() != nil {
			break
		}
		r.Observations = append(r.Observations, o)
	}
	if err := d.End(); err != nil {
		return record{}, fmt.Errorf("engine: commit record: %w", err)
	}
	return r, nil
}

// seen is what is remembered of a learned observation under its id.
type seen struct {
	// Labels and Features are digests of the content, apart: a retry by
	// prediction id brings no features.
	Labels, Features [16]byte
	Answer           Answer
}

func newSeen(o observation, a Answer) seen {
	return seen{Labels: labelsDigest(o.Labels, o.Weight), Features: featuresDigest(o.Features), Answer: a}
}

func labelsDigest(labels []float64, weight float64) [16]byte {
	content := codec.AppendFloats(make([]byte, 0, 8*len(labels)+8), labels...)
	return truncated(codec.AppendFloats(content, weight))
}

func featuresDigest(x []float64) [16]byte {
	return truncated(codec.AppendFloats(make([]byte, 0, 8*len(x)), x...))
}

func truncated(data []byte) [16]byte {
	full := sha256.Sum256(data)
	return [16]byte(full[:16])
}

func (s seen) encode() []byte {
	out := make([]byte, 0, 1+32+8*(4+2*len(s.Answer.Predictions)))
	out = append(out, recordVersion)
	out = append(out, s.Labels[:]...)
	out = append(out, s.Features[:]...)
	a := s.Answer
	out = codec.AppendUint64(out, a.Sequence)
	out = codec.AppendFloats(out, a.Predictions...)
	out = codec.AppendFloats(out, a.Loss, a.Regret)
	if a.Served {
		out = codec.AppendFloats(out, a.ServedPredictions...)
		out = codec.AppendFloats(out, a.ServedLoss)
	}
	return out
}

// decodeSeen reads what a model of so many outputs remembers.
func decodeSeen(data []byte, outputs int) (seen, error) {
	d := newDecoder(data)
	var s seen
	copy(s.Labels[:], d.Bytes(16))
	copy(s.Features[:], d.Bytes(16))
	s.Answer = Answer{Sequence: d.Uint64(), Predictions: make([]float64, outputs)}
	d.Floats(s.Answer.Predictions)
	s.Answer.Loss, s.Answer.Regret = d.Float(), d.Float()
	if d.Len() > 0 {
		s.Answer.Served, s.Answer.ServedPredictions = true, make([]float64, outputs)
		d.Floats(s.Answer.ServedPredictions)
		s.Answer.ServedLoss = d.Float()
	}
	if err := d.End(); err != nil {
		return seen{}, fmt.Errorf("engine: remembered observation: %w", err)
	}
	return s, nil
}

// pending is a remembered prediction whose label has not come.
type pending struct {
	Prediction Prediction
	Features   []float64
}

func (p pending) encode() []byte {
	out := make([]byte, 0, 1+8*(2+2*len(p.Prediction.Values))+10+8*len(p.Features))
	out = append(out, recordVersion)
	out = codec.AppendFloats(out, p.Prediction.Values...)
	out = codec.AppendFloats(out, p.Prediction.StandardErrors...)
	out = codec.AppendFloats(out, p.Prediction.Leverage)
	out = codec.AppendUint64(out, p.Prediction.Sequence)
	return appendNumbers(out, p.Features)
}

// decodePending reads what a model of so many outputs predicted.
func decodePending(id string, data []byte, outputs int) (pending, error) {
	d := newDecoder(data)
	var p pending
	p.Prediction.ID = id
	p.Prediction.Resize(outputs)
	d.Floats(p.Prediction.Values)
	d.Floats(p.Prediction.StandardErrors)
	p.Prediction.Leverage = d.Float()
	p.Prediction.Sequence = d.Uint64()
	p.Features = d.numbers()
	if err := d.End(); err != nil {
		return pending{}, fmt.Errorf("engine: pending prediction: %w", err)
	}
	return p, nil
}

func sameNumbers(a, b []float64) bool {
	return bytes.Equal(codec.AppendFloats(nil, a...), codec.AppendFloats(nil, b...))
}

// account is the host's own account of a model, beside the learner's.
type account struct {
	// Time is the time of the newest record.
	Time int64
	// Served counts the observations that had been predicted, ServedLoss
	// sums the losses of what had been served.
	Served     uint64
	ServedLoss float64
}

func (a account) encode() []byte {
	out := []byte{recordVersion}
	out = codec.AppendUint64(out, uint64(a.Time))
	out = codec.AppendUint64(out, a.Served)
	return codec.AppendFloats(out, a.ServedLoss)
}

func decodeAccount(data []byte) (account, error) {
	d := newDecoder(data)
	a := account{Time: int64(d.Uint64()), Served: d.Uint64(), ServedLoss: d.Float()}
	if err := d.End(); err != nil {
		return account{}, fmt.Errorf("engine: account: %w", err)
	}
	return a, nil
}

// encodeEntry is a model's registry entry: when it was created and its spec.
func encodeEntry(created int64, spec []byte) []byte {
	out := append(make([]byte, 0, 9+len(spec)), recordVersion)
	return append(codec.AppendUint64(out, uint64(created)), spec...)
}

func decodeEntry(data []byte) (created int64, spec []byte, err error) {
	d := newDecoder(data)
	created = int64(d.Uint64())
	spec = d.Bytes(d.Len())
	if err := d.Err(); err != nil {
		return 0, nil, fmt.Errorf("engine: registry entry: %w", err)
	}
	return created, spec, nil
}

// appendNumbers appends a count and so many doubles.
func appendNumbers(dst []byte, x []float64) []byte {
	return codec.AppendFloats(binary.AppendUvarint(dst, uint64(len(x))), x...)
}

// decoder is a codec.Reader for counts that the data itself claims.
type decoder struct {
	*codec.Reader
	err error
}

// newDecoder reads a value and its version byte.
func newDecoder(data []byte) *decoder {
	d := &decoder{Reader: codec.NewReader(data)}
	if v := d.octet(); d.Reader.Err() == nil && v != recordVersion {
		d.err = fmt.Errorf("version %d, want %d: %w", v, recordVersion, errRecord)
	}
	return d
}

func (d *decoder) Err() error {
	if d.err != nil {
		return d.err
	}
	return d.Reader.Err() //nolint:wrapcheck // The caller says what was being read.
}

func (d *decoder) End() error {
	if d.err != nil {
		return d.err
	}
	return d.Reader.End() //nolint:wrapcheck // The caller says what was being read.
}

func (d *decoder) octet() byte {
	if b := d.Bytes(1); b != nil {
		return b[0]
	}
	return 0
}

// count reads a varint that counts items of at least size bytes each, and
// refuses one that the rest of the data cannot hold.
func (d *decoder) count(size int) int {
	var v uint64
	for shift := 0; ; shift += 7 {
		b := d.octet()
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			break
		}
		if shift > 28 {
			v = math.MaxUint32
			break
		}
	}
	if d.Err() == nil && v > uint64(d.Len()/size) {
		d.err = fmt.Errorf("%d items in %d bytes: %w", v, d.Len(), errRecord)
	}
	if d.Err() != nil {
		return 0
	}
	return int(v)
}

func (d *decoder) numbers() []float64 {
	x := make([]float64, d.count(8))
	d.Floats(x)
	return x
}
