// Package recent sums up the last observations, in blocks: a sum that one adds to and
// subtracts from keeps the rounding of what has left.
package recent

import (
	"errors"
	"math"

	"hindsight/internal/model/codec"
)

const (
	// Observations is how many a window covers at least, once there are so many. It
	// covers up to block more.
	Observations = 1000
	block        = 50
	// The newest full blocks, and the one that is being filled.
	maxBlocks = Observations/block + 1
)

// figures are sums over observations.
type figures[F any] interface {
	*F
	Add(by F)
	// Count is the number of observations.
	Count() float64
	// AppendBinary appends the numbers, Read reads numbers of at most most.
	AppendBinary(dst []byte) []byte
	Read(r *codec.Reader, most float64)
}

// Window has the figures F of the last observations. The zero value has none.
type Window[F any, P figures[F]] struct {
	blocks []F
	// next is the block that is being filled.
	next int
}

// Add takes one observation.
func (w *Window[F, P]) Add(round F) {
	var none F
	if len(w.blocks) == 0 {
		w.blocks = append(w.blocks, none)
	}
	if P(&w.blocks[w.next]).Count() >= block {
		w.next = (w.next + 1) % maxBlocks
		if w.next == len(w.blocks) {
			w.blocks = append(w.blocks, none)
		}
		w.blocks[w.next] = none
	}
	P(&w.blocks[w.next]).Add(round)
}

// Total sums up the window, at a cost of at most 21 additions of figures.
func (w *Window[F, P]) Total() (total F) {
	for n := range w.blocks {
		P(&total).Add(w.blocks[n])
	}
	return total
}

// Blocks is how many blocks there are.
func (w *Window[F, P]) Blocks() int { return len(w.blocks) }

// Capacity is for how many blocks there is memory.
func (w *Window[F, P]) Capacity() int { return cap(w.blocks) }

// AppendBinary appends the number of blocks, the one that is being filled, and the
// numbers of each.
func (w *Window[F, P]) AppendBinary(dst []byte) []byte {
	dst = codec.AppendUint64(codec.AppendUint64(dst, uint64(len(w.blocks))), uint64(w.next))
	for n := range w.blocks {
		dst = P(&w.blocks[n]).AppendBinary(dst)
	}
	return dst
}

var errBlocks = errors.New("recent observations that cannot be")

// Read reads what AppendBinary wrote, of numbers of at most most. It takes any bytes.
func (w *Window[F, P]) Read(r *codec.Reader, most float64) error {
	blocks, next := r.Uint64(), r.Uint64()
	if r.Err() != nil {
		return r.Err()
	}
	if blocks > maxBlocks || next > blocks || (next == blocks && next > 0) {
		return errBlocks
	}
	w.blocks, w.next = make([]F, blocks), int(next)
	for n := range w.blocks {
		P(&w.blocks[n]).Read(r, most)
		count := P(&w.blocks[n]).Count()
		if r.Err() == nil && (!(count > 0 && count <= block && count == math.Trunc(count)) || (n != w.next && count != block)) {
			return errBlocks
		}
	}
	return r.Err()
}
