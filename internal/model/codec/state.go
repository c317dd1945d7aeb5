package codec

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// AppendFloats appends numbers to dst as little-endian IEEE 754 doubles. It allocates only
// when dst lacks capacity.
func AppendFloats(dst []byte, values ...float64) []byte {
	if len(values) < 8 {
		for _, v := range values {
			dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
		}
		return dst
	}
	n := len(dst)
	dst = slices.Grow(dst, 8*len(values))[:n+8*len(values)]
	out := dst[n:]
	// Constant indices: one bounds check for eight numbers.
	for len(values) >= 8 && len(out) >= 64 {
		binary.LittleEndian.PutUint64(out[0:8], math.Float64bits(values[0]))
		binary.LittleEndian.PutUint64(out[8:16], math.Float64bits(values[1]))
		binary.LittleEndian.PutUint64(out[16:24], math.Float64bits(values[2]))
		binary.LittleEndian.PutUint64(out[24:32], math.Float64bits(values[3]))
		binary.LittleEndian.PutUint64(out[32:40], math.Float64bits(values[4]))
		binary.LittleEndian.PutUint64(out[40:48], math.Float64bits(values[5]))
		binary.LittleEndian.PutUint64(out[48:56], math.Float64bits(values[6]))
		binary.LittleEndian.PutUint64(out[56:64], math.Float64bits(values[7]))
		values, out = values[8:], out[64:]
	}
	for i, v := range values {
		binary.LittleEndian.PutUint64(out[8*i:], math.Float64bits(v))
	}
	return dst
}

// AppendUint64 appends v to dst as 8 little-endian bytes.
func AppendUint64(dst []byte, v uint64) []byte {
	return binary.LittleEndian.AppendUint64(dst, v)
}

// Reader reads what the Append functions wrote. The first failure sticks: later reads give
// zeros.
type Reader struct {
	rest []byte
	err  error
}

// NewReader reads from data, which it does not copy.
func NewReader(data []byte) *Reader { return &Reader{rest: data} }

// Err is the first failure, or nil.
func (r *Reader) Err() error { return r.err }

// Len is how many bytes are left.
func (r *Reader) Len() int { return len(r.rest) }

// Uint64 reads 8 bytes.
func (r *Reader) Uint64() uint64 {
	if b := r.Bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// Uint32 reads 4 bytes.
func (r *Reader) Uint32() uint32 {
	if b := r.Bytes(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *Reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		if r.err == nil {
			r.err = fmt.Errorf("codec: %d bytes do not begin with a number: %w", len(r.rest), ErrCorrupt)
		}
		return 0
	}
	r.Bytes(n)
	return v
}

// Float reads one double.
func (r *Reader) Float() float64 { return math.Float64frombits(r.Uint64()) }

// Floats fills dst. The caller must not size dst by an unchecked count.
func (r *Reader) Floats(dst []float64) {
	b := r.Bytes(8 * len(dst))
	if b == nil {
		return
	}
	for len(dst) >= 4 && len(b) >= 32 {
		dst[0] = math.Float64frombits(binary.LittleEndian.Uint64(b[0:8]))
		dst[1] = math.Float64frombits(binary.LittleEndian.Uint64(b[8:16]))
		dst[2] = math.Float64frombits(binary.LittleEndian.Uint64(b[16:24]))
		dst[3] = math.Float64frombits(binary.LittleEndian.Uint64(b[24:32]))
		dst, b = dst[4:], b[32:]
	}
	for i := range dst {
		dst[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
	}
}

// FloatsWithin is Floats. It fails on a number that is not finite or whose magnitude exceeds
// the limit.
func (r *Reader) FloatsWithin(limit float64, dst []float64) {
	r.Floats(dst)
	for _, v := range dst {
		if !(math.Abs(v) <= limit) {
			r.check(v, limit)
			return
		}
	}
}

func (r *Reader) check(v, limit float64) {
	if !(math.Abs(v) <= limit) && r.err == nil {
		r.err = fmt.Errorf("codec: a number is %g, want a magnitude of at most %g: %w", v, limit, ErrCorrupt)
	}
}

// Bytes reads the next n bytes, as a slice of the data, nil after a failure.
func (r *Reader) Bytes(n int) []byte {
	if r.err != nil {
		return nil
	}
	if n < 0 || n > len(r.rest) {
		r.err = fmt.Errorf("codec: %d bytes wanted, %d left: %w", n, len(r.rest), ErrCorrupt)
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

// End fails unless all the data has been read.
func (r *Reader) End() error {
	if r.err == nil && len(r.rest) > 0 {
		r.err = fmt.Errorf("codec: %d bytes too many: %w", len(r.rest), ErrCorrupt)
	}
	return r.err
}
