package codec

import (
	"encoding/binary"
	"fmt"
	"math"
)

// AppendFloats appends numbers to dst as little-endian IEEE 754 doubles,
// 8 bytes each.
func AppendFloats(dst []byte, values ...float64) []byte {
	for _, v := range values {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
	}
	return dst
}

// AppendUint64 appends v to dst as 8 little-endian bytes.
func AppendUint64(dst []byte, v uint64) []byte {
	return binary.LittleEndian.AppendUint64(dst, v)
}

// Reader reads what the Append functions wrote. Its first failure sticks:
// later reads give zeros, and Err tells.
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

// Float reads one double.
func (r *Reader) Float() float64 { return math.Float64frombits(r.Uint64()) }

// Floats fills dst, which the caller has sized by what it knows, never by
// what the data claims.
func (r *Reader) Floats(dst []float64) {
	b := r.Bytes(8 * len(dst))
	if b == nil {
		return
	}
	for i := range dst {
		dst[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
	}
}

// Bytes reads the next n bytes, as a slice of the data. It is nil after a
// failure.
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

// End fails unless everything has been read.
func (r *Reader) End() error {
	if r.err == nil && len(r.rest) > 0 {
		r.err = fmt.Errorf("codec: %d bytes too many: %w", len(r.rest), ErrCorrupt)
	}
	return r.err
}
