package history

import (
	"encoding/binary"
	"fmt"
	"math"

	"hindsight/internal/model/codec"
)

const version = 1

// Bounds of what a history holds.
const (
	maxSequence = 1 << 62
	maxStride   = 1 << 53
	// A little above that of an account, as numbers are rounded.
	maxNumber = 1e241
)

// Append appends the bytes of the history to dst. Decode continues from them bit for
// bit.
//
// The layout, numbers of 8 bytes unless it says otherwise: the version, a byte; from,
// stride, points, experts; each row, a word of 4 bytes each; the observations of the
// open point, its sums, the counts of the intervals before it; how many changes, and of each its
// sequence, its time and 1 for a rise.
func (h *History) Append(dst []byte) []byte {
	dst = append(dst, version)
	for _, v := range [...]uint64{h.from, h.stride, uint64(h.points), uint64(h.experts)} {
		dst = codec.AppendUint64(dst, v)
	}
	for _, w := range h.words {
		dst = binary.LittleEndian.AppendUint32(dst, w)
	}
	dst = codec.AppendFloats(codec.AppendUint64(dst, h.opened), h.open...)
	for _, v := range h.before {
		dst = codec.AppendUint64(dst, v)
	}
	dst = codec.AppendUint64(dst, uint64(len(h.marks)))
	for _, m := range h.marks {
		rise := uint64(0)
		if m.Rise {
			rise = 1
		}
		dst = codec.AppendUint64(codec.AppendUint64(codec.AppendUint64(dst, m.Sequence), uint64(m.Time)), rise)
	}
	return dst
}

// Decode reads what Append wrote of a model of this shape, which is at a sequence and
// has these counts of intervals. It takes any bytes, and fails with codec.ErrCorrupt on
// those that cannot be its history.
func Decode(data []byte, shape Shape, sequence uint64, counts []uint64) (*History, error) {
	r := codec.NewReader(data)
	if head := r.Bytes(1); r.Err() == nil && head[0] != version {
		return nil, broken("a version of %d", head[0])
	}
	h := New(shape, r.Uint64(), make([]uint64, shape.counts()))
	h.stride = r.Uint64()
	points, experts := r.Uint64(), r.Uint64()
	if r.Err() == nil {
		if err := h.begin(points, experts, r.Len()); err != nil {
			return nil, err
		}
	}
	for i := range h.words {
		h.words[i] = r.Uint32()
	}
	h.opened = r.Uint64()
	r.FloatsWithin(maxNumber, h.open)
	for i := range h.before {
		h.before[i] = r.Uint64()
	}
	if err := h.readMarks(r); err != nil {
		return nil, err
	}
	if err := r.End(); err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	return h, h.check(sequence, counts)
}

// begin makes room for what is to be read, of so many bytes that are left.
func (h *History) begin(points, experts uint64, left int) error {
	if points >= MaxPoints || experts > MaxExperts || h.from > maxSequence {
		return broken("%d points of %d experts behind sequence %d", points, experts, h.from)
	}
	if s := h.stride; s == 0 || s > maxStride || s&(s-1) != 0 || (s > 1 && points < MaxPoints/2) {
		return broken("%d points of %d observations", points, h.stride)
	}
	h.points, h.experts = int(points), int(experts)
	if n := h.points * h.width(); 4*n <= left && n > 0 {
		h.words = make([]uint32, n)
	} else if n > 0 {
		return broken("%d points in %d bytes", points, left)
	}
	return nil
}

func (h *History) readMarks(r *codec.Reader) error {
	n := r.Uint64()
	if n > MaxMarks {
		return broken("%d changes", n)
	}
	for range n {
		m := Mark{Sequence: r.Uint64(), Time: int64(r.Uint64())}
		rise := r.Uint64()
		if r.Err() == nil && rise > 1 {
			return broken("a change that is no rise and no fall: %d", rise)
		}
		m.Rise = rise == 1
		h.marks = append(h.marks, m)
	}
	return nil
}

func broken(format string, values ...any) error {
	return fmt.Errorf("history: %s: %w", fmt.Sprintf(format, values...), codec.ErrCorrupt)
}

// check refuses what no rounds lead to.
func (h *History) check(sequence uint64, counts []uint64) error {
	if h.Sequence() != sequence {
		return broken("it ends at sequence %d, the model is at %d", h.Sequence(), sequence)
	}
	if h.opened >= h.stride {
		return broken("%d observations in an open point of %d", h.opened, h.stride)
	}
	for _, v := range h.open {
		if h.opened == 0 && v != 0 {
			return broken("a sum of %g over no observation", v)
		}
	}
	for i, v := range h.before {
		if v > counts[i] {
			return broken("%d intervals before the open point, %d in all", v, counts[i])
		}
	}
	for _, m := range h.marks {
		if m.Sequence > sequence {
			return broken("a change at sequence %d of %d", m.Sequence, sequence)
		}
	}
	width := h.width()
	for n := range h.points {
		if err := h.checkRow(h.words[n*width:][:width]); err != nil {
			return err
		}
	}
	return nil
}

func (h *History) checkRow(row []uint32) error {
	for i, w := range row[regret:sums] {
		if v := long(w); w != nothing && !(math.Abs(v) <= maxNumber) {
			return broken("figure %d of a point is %g", i, v)
		}
	}
	if v := long(row[dictionary]); !(v >= 0 && v <= math.MaxInt32 && v == math.Trunc(v)) {
		return broken("a dictionary of %g", v)
	}
	row = row[sums:]
	figures := h.shape.figures()
	for i, w := range row[:figures] {
		if v := long(w); !(math.Abs(v) <= maxNumber) {
			return broken("sum %d of a point is %g", i, v)
		}
	}
	row = row[figures:][:h.shape.counts()] // Any weight will do.
	for _, w := range row {
		if v, judged := long(w), long(row[0]); !(v >= 0 && v <= judged && judged <= maxNumber) {
			return broken("%g intervals of %g that were judged", v, judged)
		}
	}
	return nil
}
