// Package codec appends and reads states: a Visitor passes over the numbers of one type. The file
// docs/format/snapshot.md names the function that visits each state.
package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

var (
	// ErrCorrupt says that the bytes are not what was written, or that no stream of observations leads to the state.
	ErrCorrupt = errors.New("corrupt data")
	// ErrVersion says that an older or a newer build of this program wrote the bytes.
	ErrVersion = errors.New("another build wrote it")
)

// CheckVersion returns ErrVersion unless bytes have the version that this build reads.
func CheckVersion(got, want uint32) error {
	switch {
	case got < want:
		return fmt.Errorf("version %d, want %d: %w, an older one", got, want, ErrVersion)
	case got > want:
		return fmt.Errorf("version %d, want %d: %w, a newer one", got, want, ErrVersion)
	}
	return nil
}

// Piece bounds what one call copies or digests. The runtime stops no goroutine inside the
// call, and the garbage collector would wait for it.
const Piece = 64 << 10

// AppendBytes appends data to out in pieces, so that a large copy delays no heartbeat of a cluster.
func AppendBytes(out, data []byte) []byte {
	for chunk := range slices.Chunk(data, Piece) {
		out = appendPiece(out, chunk)
	}
	return out
}

// appendPiece must not be inlined: the runtime can stop a goroutine where a call begins, but seldom within a loop of copies.
//
//go:noinline
func appendPiece(out, data []byte) []byte { return append(out, data...) }

// Visitor passes over the numbers of a state in their order, and appends or reads them. One function
// visits the numbers, so that a type reads exactly what it appends:
//
//	func (l *Learner) Visit(v *codec.Visitor) {
//		v.Uint64(&l.n)
//		v.FloatsWithin(maxWeight, l.weights)
//		if v.Reading() && l.n > maxRounds {
//			v.Corrupt("%d rounds", l.n)
//		}
//	}
//
//	state, err := codec.Append(nil, l.Visit)
//	err = codec.Read(state, New(l.o).Visit)
//
// The first failure sticks: later reads give zeros. Limits hold for reading alone. Appending
// writes to nothing that it visits, so that others may read the state concurrently, and allocates
// only when dst lacks capacity. A visit allocates by no unchecked count: see Int and Count.
type Visitor struct {
	// data is what was appended, or what is left to read.
	data    []byte
	reading bool
	err     error
}

// Appending is a Visitor that appends to dst. See Appended.
func Appending(dst []byte) Visitor { return Visitor{data: dst} }

// Reading is a Visitor that reads from data, which it does not copy. See End.
func Reading(data []byte) Visitor { return Visitor{data: data, reading: true} }

// Appended is dst with the appended bytes, or the first failure.
func (v *Visitor) Appended() ([]byte, error) {
	if v.err != nil {
		return nil, v.err
	}
	return v.data, nil
}

// Reading reports whether the Visitor reads and has not failed.
func (v *Visitor) Reading() bool { return v.reading && v.err == nil }

// Left is how many bytes are left to read.
func (v *Visitor) Left() int { return len(v.data) }

// Err is the first failure, or nil.
func (v *Visitor) Err() error { return v.err }

// End is the first failure. It fails unless all the data has been read.
func (v *Visitor) End() error {
	if len(v.data) > 0 {
		v.Fail(fmt.Errorf("codec: %d bytes too many: %w", len(v.data), ErrCorrupt))
	}
	return v.err
}

// Fail makes err the first failure, unless it is nil or not the first.
func (v *Visitor) Fail(err error) {
	if v.err == nil {
		v.err = err
	}
}

// Corrupt fails with a text and ErrCorrupt. It allocates its arguments: call it only when Reading.
func (v *Visitor) Corrupt(format string, args ...any) {
	v.Fail(fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), ErrCorrupt))
}

// Append appends a state to dst by visit. With capacity in dst it allocates the Visitor alone.
func Append(dst []byte, visit func(v *Visitor)) ([]byte, error) {
	v := Appending(dst)
	visit(&v)
	return v.Appended()
}

// Read reads all of a state by visit, into a value that has seen nothing. After an error the value is undefined.
func Read(state []byte, visit func(v *Visitor)) error {
	v := Reading(state)
	visit(&v)
	return v.End()
}

// take reads the next n bytes, as a slice of the data, nil after a failure.
func (v *Visitor) take(n int) []byte {
	if v.err == nil && (n < 0 || n > len(v.data)) {
		v.err = fmt.Errorf("codec: %d bytes wanted, %d left: %w", n, len(v.data), ErrCorrupt)
	}
	if v.err != nil {
		return nil
	}
	b := v.data[:n:n]
	v.data = v.data[n:]
	return b
}

func (v *Visitor) number() uint64 {
	if b := v.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// check fails on a number that is not finite or whose magnitude exceeds the limit.
func (v *Visitor) check(number, limit float64) {
	if !(math.Abs(number) <= limit) {
		v.Fail(fmt.Errorf("codec: a number is %g, want a magnitude of at most %g: %w", number, limit, ErrCorrupt))
	}
}

// Uint64 visits numbers of 8 bytes.
func (v *Visitor) Uint64(values ...*uint64) {
	for _, p := range values {
		if v.reading {
			*p = v.number()
		} else {
			v.data = binary.LittleEndian.AppendUint64(v.data, *p)
		}
	}
}

// Int64 visits numbers of 8 bytes, of either sign.
func (v *Visitor) Int64(values ...*int64) {
	for _, p := range values {
		n := uint64(*p)
		if v.Uint64(&n); v.reading {
			*p = int64(n)
		}
	}
}

// Int visits numbers from 0 to limit, of 8 bytes. After a failure they are 0.
func (v *Visitor) Int(limit int, values ...*int) {
	for _, p := range values {
		n := uint64(*p)
		v.Uint64(&n)
		if v.Reading() && n > uint64(limit) {
			v.Fail(fmt.Errorf("codec: a number is %d, want at most %d: %w", n, limit, ErrCorrupt))
		}
		if v.reading {
			*p = 0
			if v.err == nil {
				*p = int(n)
			}
		}
	}
}

// Count visits the number of items of at least size bytes each that follow. It fails if the
// bytes left cannot hold them. After a failure the count is 0.
func (v *Visitor) Count(n *int, size int) {
	if v.Int(math.MaxInt, n); v.Reading() && *n > v.Left()/size {
		v.Fail(fmt.Errorf("codec: %d items in %d bytes: %w", *n, v.Left(), ErrCorrupt))
		*n = 0
	}
}

// Bool visits truth values of 8 bytes, 0 or 1.
func (v *Visitor) Bool(values ...*bool) {
	for _, p := range values {
		n := 0
		if *p {
			n = 1
		}
		if v.Int(1, &n); v.reading {
			*p = n == 1
		}
	}
}

// Expect visits a constant of 8 bytes, such as a version.
func (v *Visitor) Expect(what string, want uint64) {
	got := want
	if v.Uint64(&got); v.Reading() && got != want {
		v.Fail(fmt.Errorf("codec: %s is %d, want %d: %w", what, got, want, ErrCorrupt))
	}
}

// Version visits a byte of a version. It fails with ErrVersion unless want is read.
func (v *Visitor) Version(want byte) {
	got := want
	if v.Byte(&got); v.Reading() {
		if err := CheckVersion(uint32(got), uint32(want)); err != nil {
			v.Fail(fmt.Errorf("codec: %w", err))
		}
	}
}

// Uint32 visits numbers of 4 bytes.
func (v *Visitor) Uint32(values ...*uint32) {
	for _, p := range values {
		if !v.reading {
			v.data = binary.LittleEndian.AppendUint32(v.data, *p)
		} else if b := v.take(4); b != nil {
			*p = binary.LittleEndian.Uint32(b)
		} else {
			*p = 0
		}
	}
}

// Uint16 visits a number of 2 bytes.
func (v *Visitor) Uint16(p *uint16) {
	if !v.reading {
		v.data = binary.LittleEndian.AppendUint16(v.data, *p)
	} else if b := v.take(2); b != nil {
		*p = binary.LittleEndian.Uint16(b)
	}
}

// Byte visits one byte.
func (v *Visitor) Byte(p *byte) {
	if !v.reading {
		v.data = append(v.data, *p)
	} else if b := v.take(1); b != nil {
		*p = b[0]
	}
}

// Flags visits a byte with a bit for each flag, the lowest first. The bit of a nil flag is never set.
func (v *Visitor) Flags(flags ...*bool) {
	var bits byte
	for n, flag := range flags {
		if flag != nil && *flag {
			bits |= 1 << n
		}
	}
	if v.Byte(&bits); !v.Reading() {
		return
	}
	for n, flag := range flags {
		if flag != nil {
			*flag = bits>>n&1 != 0
			bits &^= 1 << n
		}
	}
	if bits != 0 {
		v.Corrupt("unknown flags %#x", bits)
	}
}

// Text visits a text of n bytes. The caller visits the length.
func (v *Visitor) Text(p *string, n int) {
	if !v.reading {
		v.data = append(v.data, *p...)
	} else {
		*p = string(v.take(n))
	}
}

// Bytes visits len(p) bytes.
func (v *Visitor) Bytes(p []byte) {
	if !v.reading {
		v.data = append(v.data, p...)
	} else {
		copy(p, v.take(len(p)))
	}
}

// Uvarint visits numbers as varints.
func (v *Visitor) Uvarint(values ...*uint64) {
	for _, p := range values {
		if !v.reading {
			v.data = binary.AppendUvarint(v.data, *p)
			continue
		}
		number, n := binary.Uvarint(v.data)
		if n <= 0 {
			v.Fail(fmt.Errorf("codec: %d bytes do not begin with a number: %w", len(v.data), ErrCorrupt))
		}
		if *p = 0; v.take(n) != nil {
			*p = number
		}
	}
}

// Varint visits a number of either sign as a varint with zigzag.
func (v *Visitor) Varint(p *int64) {
	zigzag := uint64(*p)<<1 ^ uint64(*p>>63)
	if v.Uvarint(&zigzag); v.reading {
		*p = int64(zigzag>>1) ^ -int64(zigzag&1)
	}
}

// Length visits, as a varint, the number of items of at least size bytes each that follow. It fails if the bytes left
// cannot hold them. After a failure the number is 0.
func (v *Visitor) Length(n *int, size int) {
	length := uint64(*n)
	if v.Uvarint(&length); !v.reading {
		return
	}
	if v.Reading() && length > uint64(v.Left()/size) {
		v.Fail(fmt.Errorf("codec: %d items in %d bytes: %w", length, v.Left(), ErrCorrupt))
	}
	if *n = 0; v.Reading() {
		*n = int(length)
	}
}

// DelimitedText visits a text after its length.
func (v *Visitor) DelimitedText(p *string) {
	n := len(*p)
	v.Length(&n, 1)
	v.Text(p, n)
}

// DelimitedBytes is Raw after the length of the bytes.
func (v *Visitor) DelimitedBytes(p *[]byte) {
	n := len(*p)
	v.Length(&n, 1)
	v.Raw(p, n)
}

// Raw visits n bytes. The caller visits the length. The bytes that it reads are a slice of the data.
func (v *Visitor) Raw(p *[]byte, n int) {
	if v.reading {
		*p = v.take(n)
		return
	}
	v.data = AppendBytes(v.data, *p)
}

// DelimitedFloats visits doubles of any value after their number. After a failure it reads none.
func (v *Visitor) DelimitedFloats(p *[]float64) {
	n := len(*p)
	if v.Length(&n, 8); v.reading {
		*p = make([]float64, n)
	}
	v.Floats(*p)
}

// Float visits doubles, of any value.
func (v *Visitor) Float(values ...*float64) {
	for _, p := range values {
		if v.reading {
			*p = math.Float64frombits(v.number())
		} else {
			v.data = binary.LittleEndian.AppendUint64(v.data, math.Float64bits(*p))
		}
	}
}

// AppendFloats appends numbers to dst as little-endian IEEE 754 doubles.
func AppendFloats(dst []byte, values ...float64) []byte {
	dst = slices.Grow(dst, 8*len(values))
	for _, v := range values {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
	}
	return dst
}

// Floats visits doubles of any value. The caller knows how many: reading fills values.
func (v *Visitor) Floats(values []float64) {
	if !v.reading {
		v.data = AppendFloats(v.data, values...)
	} else if b := v.take(8 * len(values)); b != nil {
		for i := range values {
			values[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
		}
	}
}

// Within visits doubles of magnitude at most limit, and fails on any other.
func (v *Visitor) Within(limit float64, values ...*float64) {
	v.Float(values...)
	for _, p := range values {
		if v.Reading() {
			v.check(*p, limit)
		}
	}
}

// FloatsWithin is Floats with the limit of Within.
func (v *Visitor) FloatsWithin(limit float64, values []float64) {
	if v.Floats(values); !v.Reading() {
		return
	}
	for _, number := range values {
		if !(math.Abs(number) <= limit) {
			v.check(number, limit)
			return
		}
	}
}

// SinglesWithin visits numbers of single precision, of 4 bytes, with the limit of Within.
func (v *Visitor) SinglesWithin(limit float64, values []float32) {
	if !v.reading {
		for _, x := range values {
			v.data = binary.LittleEndian.AppendUint32(v.data, math.Float32bits(x))
		}
		return
	}
	data := v.take(4 * len(values))
	if data == nil {
		return
	}
	for i := range values {
		values[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		v.check(float64(values[i]), limit)
	}
}

// Part visits a length, in 8 bytes, and so many bytes by visit.
func (v *Visitor) Part(visit func(v *Visitor)) {
	if !v.reading {
		at := len(v.data)
		v.data = binary.LittleEndian.AppendUint64(v.data, 0)
		if visit(v); v.err == nil {
			binary.LittleEndian.PutUint64(v.data[at:], uint64(len(v.data)-at-8))
		}
		return
	}
	length := 0
	v.Count(&length, 1)
	part := Reading(v.take(length))
	if v.err == nil {
		visit(&part)
		v.Fail(part.End())
	}
}
