package codec

import (
	"encoding/binary"
	"fmt"
	"math"

	"hindsight/internal/model"
)

// Visitor passes over the numbers of a state in their order, and appends or reads them. One function visits the numbers, so that a type reads exactly what it
// appends:
//
//	func (l *Learner) visit(v *codec.Visitor) {
//		v.Uint64(&l.n)
//		v.FloatsWithin(maxWeight, l.weights)
//		if v.Reading() && l.n > maxRounds {
//			v.Corrupt("%d rounds", l.n)
//		}
//	}
//
//	func (l *Learner) AppendBinary(dst []byte) ([]byte, error) {
//		v := codec.Appending(dst)
//		l.visit(&v)
//		return v.Appended()
//	}
//
//	func (l *Learner) Restore(state []byte) error {
//		fresh := New(l.o)
//		if err := codec.Read(state, fresh.visit); err != nil {
//			return fmt.Errorf("learner: restore: %w", err)
//		}
//		*l = *fresh
//		return nil
//	}
//
// The first failure sticks: later reads give zeros. Limits hold for reading alone. Appending
// writes to nothing that it visits, so that others may read the state concurrently, and allocates
// only when dst lacks capacity. A visit must not allocate by an unchecked
// count: see Int and Count.
type Visitor struct {
	out    []byte
	err    error
	reader *Reader
}

// Appending is a Visitor that appends to dst. See Appended.
func Appending(dst []byte) Visitor { return Visitor{out: dst} }

// Reading is a Visitor that reads from data, which it does not copy. See End.
func Reading(data []byte) Visitor { return ReadingFrom(NewReader(data)) }

// ReadingFrom is a Visitor that continues to read from r. Its failures are the failures of r.
func ReadingFrom(r *Reader) Visitor { return Visitor{reader: r} }

// Appended is dst with the appended bytes, or the first failure.
func (v *Visitor) Appended() ([]byte, error) {
	if v.err != nil {
		return nil, v.err
	}
	return v.out, nil
}

// Reading reports whether the Visitor reads and has not failed.
func (v *Visitor) Reading() bool { return v.reader != nil && v.reader.err == nil }

// Left is how many bytes are left to read.
func (v *Visitor) Left() int { return v.reader.Len() }

// Err is the first failure, or nil.
func (v *Visitor) Err() error {
	if v.reader != nil {
		return v.reader.err
	}
	return v.err
}

// End is the first failure. It fails unless all the data has been read.
func (v *Visitor) End() error { return v.reader.End() }

// Fail makes err the first failure, unless it is nil or not the first.
func (v *Visitor) Fail(err error) {
	switch {
	case v.Err() != nil:
	case v.reader != nil:
		v.reader.err = err
	default:
		v.err = err
	}
}

// Corrupt fails with a text and model.ErrCorruptState. It allocates its arguments: call it
// only when Reading.
func (v *Visitor) Corrupt(format string, args ...any) {
	v.Fail(fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), model.ErrCorruptState))
}

// Read reads all of a state by visit.
func Read(state []byte, visit func(v *Visitor)) error {
	v := Reading(state)
	visit(&v)
	return v.End()
}

// Uint64 visits numbers of 8 bytes.
func (v *Visitor) Uint64(values ...*uint64) {
	for _, p := range values {
		if v.reader != nil {
			*p = v.reader.Uint64()
		} else {
			v.out = AppendUint64(v.out, *p)
		}
	}
}

// Int64 visits numbers of 8 bytes, of either sign.
func (v *Visitor) Int64(values ...*int64) {
	for _, p := range values {
		n := uint64(*p)
		if v.Uint64(&n); v.reader != nil {
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
		if v.reader != nil {
			*p = 0
			if v.reader.err == nil {
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
		if v.Int(1, &n); v.reader != nil {
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
		if v.reader != nil {
			*p = v.reader.Uint32()
		} else {
			v.out = binary.LittleEndian.AppendUint32(v.out, *p)
		}
	}
}

// Uint16 visits a number of 2 bytes.
func (v *Visitor) Uint16(p *uint16) {
	if v.reader == nil {
		v.out = binary.LittleEndian.AppendUint16(v.out, *p)
	} else if b := v.reader.Bytes(2); b != nil {
		*p = binary.LittleEndian.Uint16(b)
	}
}

// Byte visits one byte.
func (v *Visitor) Byte(p *byte) {
	if v.reader == nil {
		v.out = append(v.out, *p)
	} else if b := v.reader.Bytes(1); b != nil {
		*p = b[0]
	}
}

// Text visits a text of n bytes. The caller visits the length.
func (v *Visitor) Text(p *string, n int) {
	if v.reader == nil {
		v.out = append(v.out, *p...)
	} else {
		*p = string(v.reader.Bytes(n))
	}
}

// Bytes visits len(p) bytes.
func (v *Visitor) Bytes(p []byte) {
	if v.reader == nil {
		v.out = append(v.out, p...)
	} else {
		copy(p, v.reader.Bytes(len(p)))
	}
}

// Uvarint visits numbers as varints.
func (v *Visitor) Uvarint(values ...*uint64) {
	for _, p := range values {
		if v.reader != nil {
			*p = v.reader.uvarint()
		} else {
			v.out = binary.AppendUvarint(v.out, *p)
		}
	}
}

// Varint visits a number of either sign as a varint with zigzag.
func (v *Visitor) Varint(p *int64) {
	zigzag := uint64(*p)<<1 ^ uint64(*p>>63)
	if v.Uvarint(&zigzag); v.reader != nil {
		*p = int64(zigzag>>1) ^ -int64(zigzag&1)
	}
}

// Length visits, as a varint, the number of items of at least size bytes each that follow. It fails if the bytes left
// cannot hold them. After a failure the number is 0.
func (v *Visitor) Length(n *int, size int) {
	length := uint64(*n)
	if v.Uvarint(&length); v.reader == nil {
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

// DelimitedBytes visits bytes after their length. The bytes that it reads are a slice of the data.
func (v *Visitor) DelimitedBytes(p *[]byte) {
	n := len(*p)
	if v.Length(&n, 1); v.reader != nil {
		*p = v.reader.Bytes(n)
		return
	}
	v.out = AppendBytes(v.out, *p)
}

// DelimitedFloats visits doubles of any value after their number. After a failure it reads none.
func (v *Visitor) DelimitedFloats(p *[]float64) {
	n := len(*p)
	if v.Length(&n, 8); v.reader != nil {
		*p = make([]float64, n)
	}
	v.Floats(*p)
}

// Float visits doubles, of any value.
func (v *Visitor) Float(values ...*float64) {
	for _, p := range values {
		if v.reader != nil {
			*p = v.reader.Float()
		} else {
			v.out = binary.LittleEndian.AppendUint64(v.out, math.Float64bits(*p))
		}
	}
}

// Floats visits doubles of any value. The caller knows how many: reading fills values.
func (v *Visitor) Floats(values []float64) {
	if v.reader != nil {
		v.reader.Floats(values)
	} else {
		v.out = AppendFloats(v.out, values...)
	}
}

// Within visits doubles of magnitude at most limit, and fails on any other.
func (v *Visitor) Within(limit float64, values ...*float64) {
	v.Float(values...)
	if v.reader == nil {
		return
	}
	for _, p := range values {
		v.reader.check(*p, limit)
	}
}

// FloatsWithin is Floats with the limit of Within.
func (v *Visitor) FloatsWithin(limit float64, values []float64) {
	if v.reader != nil {
		v.reader.FloatsWithin(limit, values)
	} else {
		v.Floats(values)
	}
}

// SinglesWithin visits numbers of single precision, of 4 bytes, with the limit of Within.
func (v *Visitor) SinglesWithin(limit float64, values []float32) {
	if v.reader == nil {
		for _, x := range values {
			v.out = binary.LittleEndian.AppendUint32(v.out, math.Float32bits(x))
		}
		return
	}
	data := v.reader.Bytes(4 * len(values))
	if data == nil {
		return
	}
	for i := range values {
		values[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		v.reader.check(float64(values[i]), limit)
	}
}

// State is the last part of a state, such as the state of an inner learner.
type State interface {
	AppendBinary(dst []byte) ([]byte, error)
	Restore(state []byte) error
}

// State visits all that follows as the state of s.
func (v *Visitor) State(s State) {
	switch {
	case v.Err() != nil:
	case v.reader != nil:
		v.Fail(s.Restore(v.reader.Bytes(v.reader.Len())))
	default:
		out, err := s.AppendBinary(v.out)
		if v.Fail(err); err == nil {
			v.out = out
		}
	}
}

// Part visits a length, in 8 bytes, and so many bytes by visit.
func (v *Visitor) Part(visit func(v *Visitor)) {
	switch {
	case v.reader != nil:
		length := 0
		v.Count(&length, 1)
		part := Reading(v.reader.Bytes(length))
		if v.reader.err == nil {
			visit(&part)
			v.Fail(part.End())
		}
	default:
		at := len(v.out)
		v.out = AppendUint64(v.out, 0)
		if visit(v); v.err == nil {
			binary.LittleEndian.PutUint64(v.out[at:], uint64(len(v.out)-at-8))
		}
	}
}
