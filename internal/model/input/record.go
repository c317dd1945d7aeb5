package input

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"hindsight/internal/model/codec"
)

// Kind says what a value is.
type Kind uint8

// Kinds of values.
const (
	Missing Kind = iota
	Boolean
	Number
	Text
	Moment
	Numbers
	// Other is a value that no input takes.
	Other
)

// Value is one value of a record, of 32 bytes: a record is made for every request.
type Value struct {
	text string
	// bits are the bits of a number, of 0 and 1 for a boolean; the seconds of a time;
	// where a list begins among the numbers of the record.
	bits uint64
	// extra is the nanoseconds of a time, the length of a list.
	extra  uint32
	offset int16
	kind   Kind
}

// Kind says what the value is.
func (v *Value) Kind() Kind { return v.kind }

func (v *Value) number() float64 { return math.Float64frombits(v.bits) }

func (v *Value) time() Time {
	return Time{Seconds: int64(v.bits), Nanos: int32(v.extra), Offset: v.offset}
}

func valueOf(t Time) Value {
	return Value{kind: Moment, bits: uint64(t.Seconds), extra: uint32(t.Nanos), offset: t.Offset}
}

func (r *Record) list(v *Value) []float64 { return r.numbers[v.bits : v.bits+uint64(v.extra)] }

// maxExact bounds the numbers that are categories. From it on, one float64 stands for several
// integers, and two ids would be one category.
const maxExact = 1 << 53

func (v *Value) appendText(dst []byte) []byte {
	switch v.kind {
	case Number:
		if v.number() == 0 {
			return append(dst, '0') // Of either sign.
		}
		format := byte('g')
		if v.number() == math.Trunc(v.number()) && math.Abs(v.number()) < maxExact {
			format = 'f' // As clients write an integer: 1000185, not 1.000185e+06.
		}
		return strconv.AppendFloat(dst, v.number(), format, -1, 64)
	case Boolean:
		return strconv.AppendBool(dst, v.number() != 0)
	default:
		return append(dst, v.text...)
	}
}

func (v *Value) String() string {
	switch v.kind {
	case Missing:
		return "null"
	case Number:
		return "the number " + strconv.FormatFloat(v.number(), 'g', -1, 64)
	case Boolean:
		return strconv.FormatBool(v.number() != 0)
	case Text:
		return fmt.Sprintf("the text %.40q", v.text)
	case Moment:
		return "a time"
	case Numbers:
		return "a list of " + plural(int(v.extra), "number")
	default:
		return v.text
	}
}

// Record is the values of all inputs, in the order of their declarations. Reset
// makes the zero value ready. It may be used again, and then allocates nothing.
type Record struct {
	values  []Value
	numbers []float64
}

// Reset makes a record of n values that are all missing.
func (r *Record) Reset(n int) {
	r.numbers = r.numbers[:0]
	if cap(r.values) < n {
		r.values = make([]Value, n)
		return
	}
	clear(r.values[:cap(r.values)]) // Nothing of an earlier record stays in memory.
	r.values = r.values[:n]
}

// Len is the number of values.
func (r *Record) Len() int { return len(r.values) }

// At is the value of the input i.
func (r *Record) At(i int) *Value { return &r.values[i] }

// SetNumber makes the value of input i a number.
func (r *Record) SetNumber(i int, v float64) {
	r.values[i] = Value{kind: Number, bits: math.Float64bits(v)}
}

// SetBoolean makes the value of input i true or false.
func (r *Record) SetBoolean(i int, v bool) { r.values[i] = booleanValue(v) }

func booleanValue(v bool) Value {
	if v {
		return Value{kind: Boolean, bits: math.Float64bits(1)}
	}
	return Value{kind: Boolean}
}

// SetText makes the value of input i a text, which is shared.
func (r *Record) SetText(i int, v string) { r.values[i] = Value{kind: Text, text: v} }

// SetNumbers makes the value of input i a list of n numbers, which the caller
// fills before the next SetNumbers or Reset.
func (r *Record) SetNumbers(i, n int) []float64 {
	from := len(r.numbers)
	r.numbers = slices.Grow(r.numbers, n)[:from+n]
	r.values[i] = Value{kind: Numbers, bits: uint64(from), extra: uint32(n)}
	list := r.numbers[from:]
	clear(list)
	return list
}

// SetOther makes the value of input i one that no input takes, such as "an object".
func (r *Record) SetOther(i int, what string) { r.values[i] = Value{kind: Other, text: what} }

// Plain returns the value of input i as a request gives it: nil, a bool, a float64, a string or a list of numbers.
func (r *Record) Plain(i int) any {
	switch v := &r.values[i]; v.kind {
	case Boolean:
		return v.number() != 0
	case Number:
		return v.number()
	case Text:
		return v.text
	case Moment:
		t := v.time()
		return time.Unix(t.Seconds, int64(t.Nanos)).In(time.FixedZone("", 60*int(t.Offset))).Format(time.RFC3339Nano)
	case Numbers:
		list := make([]any, 0, v.extra)
		for _, number := range r.list(v) {
			list = append(list, number)
		}
		return list
	default:
		return nil
	}
}

// Tags of the values in the bytes of a record.
const (
	tagMissing = iota
	tagFalse
	tagTrue
	tagInteger // A varint, zigzag.
	tagSingle  // A float32 that is the same number.
	tagDouble
	tagText
	tagTime // Seconds as a varint, nanoseconds as an unsigned one, minutes of offset as a varint.
	tagNumbers
)

// maxInteger bounds what is written as a varint, which is then not longer than the double.
const maxInteger = 1 << 48

// Append appends the bytes of an accepted record, which need no schema. Equal records
// have equal bytes. It panics at a value that no input takes.
func (r *Record) Append(dst []byte) []byte {
	room := binary.MaxVarintLen64 + 8*len(r.numbers)
	for i := range r.values {
		room += 10 + len(r.values[i].text) // A time may take more.
	}
	dst = slices.Grow(dst, room)
	dst = binary.AppendUvarint(dst, uint64(len(r.values)))
	for i := range r.values {
		v := &r.values[i]
		switch v.kind {
		case Missing:
			dst = append(dst, tagMissing)
		case Boolean:
			dst = append(dst, tagFalse+byte(v.number()))
		case Number:
			dst = appendNumber(dst, v.number())
		case Text:
			dst = binary.AppendUvarint(append(dst, tagText), uint64(len(v.text)))
			dst = append(dst, v.text...)
		case Moment:
			dst = binary.AppendVarint(append(dst, tagTime), int64(v.bits))
			dst = binary.AppendUvarint(dst, uint64(v.extra))
			dst = binary.AppendVarint(dst, int64(v.offset))
		case Numbers:
			dst = binary.AppendUvarint(append(dst, tagNumbers), uint64(v.extra))
			dst = codec.AppendFloats(dst, r.list(v)...)
		default:
			panic("input: a record that is not accepted has no bytes")
		}
	}
	return dst
}

func appendNumber(dst []byte, v float64) []byte {
	bits := math.Float64bits(v)
	if math.Abs(v) < maxInteger {
		if n := int64(v); math.Float64bits(float64(n)) == bits { // Not −0.
			return binary.AppendVarint(append(dst, tagInteger), n)
		}
	}
	if single := float32(v); math.Float64bits(float64(single)) == bits {
		return binary.LittleEndian.AppendUint32(append(dst, tagSingle), math.Float32bits(single))
	}
	return codec.AppendFloats(append(dst, tagDouble), v)
}

// Decode reads a record that Append wrote at the beginning of data and returns what
// follows it. It takes any bytes; what it allocates is bounded by their number. The
// record is a copy. It still has to be accepted.
func (r *Record) Decode(data []byte) (rest []byte, err error) {
	v, n := codec.Reading(data), 0
	v.Length(&n, 1)
	r.Reset(n)
	for i := 0; i < n && v.Err() == nil; i++ {
		r.read(&v, i)
	}
	if v.Err() != nil {
		r.Reset(0)
		return nil, fmt.Errorf("input: read a record: %w", v.Err())
	}
	return data[len(data)-v.Left():], nil
}

// read reads the value of input i. After a failure the value has no meaning.
func (r *Record) read(v *codec.Visitor, i int) {
	var tag byte
	switch v.Byte(&tag); tag {
	case tagMissing:
	case tagFalse, tagTrue:
		r.SetBoolean(i, tag == tagTrue)
	case tagInteger:
		var n int64
		v.Varint(&n)
		r.SetNumber(i, float64(n))
	case tagSingle:
		var bits uint32
		v.Uint32(&bits)
		r.SetNumber(i, float64(math.Float32frombits(bits)))
	case tagDouble:
		var n float64
		v.Float(&n)
		r.SetNumber(i, n)
	case tagText:
		var text string
		if v.DelimitedText(&text); !utf8.ValidString(text) {
			v.Fail(fmt.Errorf("a text is not UTF-8: %w", codec.ErrCorrupt))
		}
		r.SetText(i, text)
	case tagTime:
		var seconds, offset int64
		var nanos uint64
		v.Varint(&seconds)
		v.Uvarint(&nanos)
		v.Varint(&offset)
		t := Time{Seconds: seconds, Nanos: int32(min(nanos, math.MaxInt32)), Offset: int16(max(min(offset, math.MaxInt16), math.MinInt16))}
		if r.values[i] = valueOf(t); !t.valid() {
			v.Fail(fmt.Errorf("a time is out of range: %w", codec.ErrCorrupt))
		}
	case tagNumbers:
		n := 0
		v.Length(&n, 8)
		v.Floats(r.SetNumbers(i, n))
	default:
		v.Fail(fmt.Errorf("a value has the tag %d: %w", tag, codec.ErrCorrupt))
	}
}
