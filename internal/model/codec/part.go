package codec

import "encoding/binary"

// Part visits a length, in 8 bytes, and so many bytes by visit.
func (v *Visitor) Part(visit func(v *Visitor)) {
	switch {
	case v.reader != nil:
		length := v.reader.Count(1)
		part := Reading(v.reader.Bytes(length))
		if v.reader.err == nil {
			visit(&part)
			v.Fail(part.End())
		}
	case v.counting:
		v.size += 8
		visit(v)
	default:
		at := len(v.out)
		v.out = AppendUint64(v.out, 0)
		if visit(v); v.err == nil {
			binary.LittleEndian.PutUint64(v.out[at:], uint64(len(v.out)-at-8))
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
