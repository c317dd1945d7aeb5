package record

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"hindsight/internal/model/codec"
)

// appendNumbers appends a count and so many doubles.
func appendNumbers(dst []byte, x []float64) []byte {
	return codec.AppendFloats(binary.AppendUvarint(dst, uint64(len(x))), x...)
}

// appendString appends a length and so many bytes.
func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// appendInput appends the bytes of a record of named inputs or, without one, features.
func appendInput(dst []byte, features []float64, inputs []byte) []byte {
	if inputs == nil {
		return appendNumbers(dst, features)
	}
	return append(binary.AppendUvarint(dst, uint64(len(inputs))), inputs...)
}

// SameNumbers reports whether two lists are equal bit for bit.
func SameNumbers(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(v, w float64) bool { return math.Float64bits(v) == math.Float64bits(w) })
}

// SameInput reports whether two inputs, features or the bytes of records, are equal
// bit for bit.
func SameInput(a []float64, inputs []byte, b []float64, others []byte) bool {
	return SameNumbers(a, b) && bytes.Equal(inputs, others)
}

// decoder is a codec.Reader of values with a version and varint counts.
type decoder struct {
	*codec.Reader
	err error
}

// newDecoder reads a value, which must have the version.
func newDecoder(data []byte, version byte) *decoder {
	d := &decoder{Reader: codec.NewReader(data)}
	if got := d.octet(); d.Reader.Err() == nil {
		d.err = codec.CheckVersion(uint32(got), uint32(version))
	}
	return d
}

func (d *decoder) Err() error {
	if d.err != nil {
		return d.err
	}
	return d.Reader.Err()
}

func (d *decoder) End() error {
	if d.err != nil {
		return d.err
	}
	return d.Reader.End()
}

func (d *decoder) octet() byte {
	if b := d.Bytes(1); b != nil {
		return b[0]
	}
	return 0
}

// count reads a varint that counts items of at least size bytes each, and
// rejects a count that the rest of the data cannot hold.
func (d *decoder) count(size int) int {
	v := d.uvarint()
	if d.Err() == nil && v > d.Len()/size {
		d.err = fmt.Errorf("%d items in %d bytes: %w", v, d.Len(), ErrUnreadable)
	}
	if d.Err() != nil {
		return 0
	}
	return v
}

// uvarint reads a varint, and returns math.MaxUint32 for a larger one.
func (d *decoder) uvarint() int {
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
	return int(v)
}

func (d *decoder) text() string { return string(d.Bytes(d.count(1))) }

// reject makes the decoder fail, unless it has failed before.
func (d *decoder) reject(what string) {
	if d.Err() == nil {
		d.err = fmt.Errorf("%s: %w", what, ErrUnreadable)
	}
}

// blob reads a length and copies so many bytes, at least one.
func (d *decoder) blob() []byte {
	b := bytes.Clone(d.Bytes(d.count(1)))
	if len(b) == 0 {
		d.reject("named inputs without bytes")
	}
	return b
}

// class reads the number of a class plus 1, and the probabilities of all classes.
func (d *decoder) class() (class int, probabilities []float64) {
	class, probabilities = d.uvarint()-1, d.optional()
	if class >= len(probabilities) {
		d.reject(fmt.Sprintf("class %d of %d", class, len(probabilities)))
	}
	return class, probabilities
}

func (d *decoder) numbers() []float64 {
	x := make([]float64, d.count(8))
	d.Floats(x)
	return x
}

// optional reads numbers, nil instead of an empty list.
func (d *decoder) optional() []float64 {
	if x := d.numbers(); len(x) > 0 {
		return x
	}
	return nil
}
