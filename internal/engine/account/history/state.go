package history

import (
	"fmt"
	"math"

	"hindsight/internal/model/codec"
)

const version = 2

// Bounds of a history.
const (
	maxSequence = 1 << 62
	maxStride   = 1 << 53
	// Above the bound of an account, because numbers are rounded.
	maxNumber = 1e241
)

// Append appends the bytes of the history to dst, from which Decode continues bit for bit.
func (h *History) Append(dst []byte) []byte {
	v := codec.Appending(dst)
	h.visit(&v)
	out, _ := v.Appended() // Appending numbers does not fail.
	return out
}

// Decode reads the bytes that Append wrote of a model of this shape, at this sequence and
// with these counts of intervals. It accepts any bytes, and fails with codec.ErrCorrupt on
// bytes that cannot be the history of the model.
func Decode(data []byte, shape Shape, sequence uint64, counts []uint64) (*History, error) {
	h := New(shape, 0, make([]uint64, shape.counts()))
	err := codec.Read(data, func(v *codec.Visitor) {
		if h.visit(v); v.Reading() {
			h.check(v, sequence, counts)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("history: %w: %w", err, codec.ErrCorrupt)
	}
	return h, nil
}

// visit visits the history: a byte of the version, then numbers of 8 bytes, and words of 4
// bytes.
func (h *History) visit(v *codec.Visitor) {
	v.Version(version)
	v.Uint64(&h.from, &h.stride)
	v.Int(MaxPoints-1, &h.points)
	v.Int(MaxExperts, &h.experts)
	if v.Reading() {
		h.reserveWords(v)
	}
	for i := range h.words {
		v.Uint32(&h.words[i])
	}
	v.Uint64(&h.opened)
	v.FloatsWithin(maxNumber, h.open)
	for i := range h.before {
		v.Uint64(&h.before[i])
	}
	marks := len(h.marks)
	v.Int(MaxMarks, &marks)
	if v.Reading() && marks > 0 {
		h.marks = make([]Mark, marks)
	}
	for i := range h.marks {
		m := &h.marks[i]
		v.Uint64(&m.Sequence)
		v.Int64(&m.Time)
		v.Bool(&m.Rise)
	}
}

// reserveWords allocates the words to read, at most as many as the data has.
func (h *History) reserveWords(v *codec.Visitor) {
	if s := h.stride; s == 0 || s > maxStride || s&(s-1) != 0 || s > 1 && h.points < MaxPoints/2 || h.from > maxSequence {
		v.Corrupt("%d points of %d observations from sequence %d", h.points, h.stride, h.from)
		return
	}
	n := h.points * h.width()
	switch {
	case 4*n > v.Left():
		v.Corrupt("%d points in %d bytes", h.points, v.Left())
	case n > 0:
		h.words = make([]uint32, n)
	}
}

func (h *History) check(v *codec.Visitor, sequence uint64, counts []uint64) {
	if h.Sequence() != sequence {
		v.Corrupt("the history ends at sequence %d, the model is at %d", h.Sequence(), sequence)
	}
	if h.opened >= h.stride {
		v.Corrupt("%d observations in an open point of %d", h.opened, h.stride)
	}
	if n := h.open[0]; !(n >= 0 && n <= float64(h.opened) && n == math.Trunc(n)) {
		v.Corrupt("%g scored observations in an open point of %d", n, h.opened)
	}
	for _, sum := range h.open {
		if h.opened == 0 && sum != 0 {
			v.Corrupt("a sum of %g over no observation", sum)
		}
	}
	for i, n := range h.before {
		if n > counts[i] {
			v.Corrupt("%d intervals before the open point, %d in all", n, counts[i])
		}
	}
	for _, m := range h.marks {
		if m.Sequence > sequence {
			v.Corrupt("a change at sequence %d of %d", m.Sequence, sequence)
		}
	}
	width := h.width()
	for n := range h.points {
		h.checkRow(v, h.words[n*width:][:width])
	}
}

func (h *History) checkRow(v *codec.Visitor, row []uint32) {
	for i, w := range row[regret:sums] {
		if n := long(w); w != nothing && !(math.Abs(n) <= maxNumber) {
			v.Corrupt("figure %d of a point is %g", i, n)
		}
	}
	if n := long(row[dictionary]); !(n >= 0 && n <= math.MaxInt32 && n == math.Trunc(n)) {
		v.Corrupt("a dictionary of %g", n)
	}
	row = row[sums:]
	if n := long(row[0]); !(n >= 0 && n <= float64(h.stride) && n == math.Trunc(n)) {
		v.Corrupt("%g scored observations in a point of %d", n, h.stride)
	}
	figures := h.shape.figures()
	for i, w := range row[:figures] {
		if n := long(w); !(math.Abs(n) <= maxNumber) {
			v.Corrupt("sum %d of a point is %g", i, n)
		}
	}
	row = row[figures:][:h.shape.counts()] // Every weight is valid.
	for _, w := range row {
		if n, scored := long(w), long(row[0]); !(n >= 0 && n <= scored && scored <= maxNumber) {
			v.Corrupt("%g of %g intervals", n, scored)
		}
	}
}
