package record

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

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

// SameNumbers tells whether two lists are equal bit for bit.
func SameNumbers(a, b []float64) bool {
	return bytes.Equal(codec.AppendFloats(nil, a...), codec.AppendFloats(nil, b...))
}

// decoder is a codec.Reader for counts that the data itself claims.
type decoder struct {
	*codec.Reader
	version byte
	err     error
}

// newDecoder reads a value of a version up to the newest.
func newDecoder(data []byte, newest byte) *decoder {
	d := &decoder{Reader: codec.NewReader(data)}
	d.version = d.octet()
	if d.Reader.Err() == nil && (d.version < 1 || d.version > newest) {
		d.err = fmt.Errorf("version %d, want at most %d: %w", d.version, newest, ErrUnreadable)
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
		d.err = fmt.Errorf("%d items in %d bytes: %w", v, d.Len(), ErrUnreadable)
	}
	if d.Err() != nil {
		return 0
	}
	return int(v)
}

func (d *decoder) text() string { return string(d.Bytes(d.count(1))) }

func (d *decoder) numbers() []float64 {
	x := make([]float64, d.count(8))
	d.Floats(x)
	return x
}

// optional reads numbers, nil if there are none.
func (d *decoder) optional() []float64 {
	if x := d.numbers(); len(x) > 0 {
		return x
	}
	return nil
}
