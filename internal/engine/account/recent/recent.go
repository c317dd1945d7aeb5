// Package recent sums figures over the newest observations. It keeps sums of blocks,
// because one sum that is added to and subtracted from would keep the rounding errors of
// the observations that have left.
package recent

import (
	"math"

	"hindsight/internal/model/codec"
)

const (
	// Observations is the minimum number of observations that a window covers once there
	// are so many. It covers up to block more.
	Observations = 1000
	block        = 50
	// The newest full blocks, and the block being filled.
	maxBlocks = Observations/block + 1
)

type figures[F any] interface {
	*F
	Add(by F)
	// Count returns the number of observations.
	Count() float64
}

// Window has the figures F of the newest observations. The zero value has none.
type Window[F any, P figures[F]] struct {
	blocks []F
	next   int
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

// Blocks returns the number of blocks.
func (w *Window[F, P]) Blocks() int { return len(w.blocks) }

// Capacity returns the number of blocks that there is memory for.
func (w *Window[F, P]) Capacity() int { return cap(w.blocks) }

// Visit visits the number of blocks, the block being filled and, by figures, each block.
func (w *Window[F, P]) Visit(v *codec.Visitor, figures func(*F)) {
	blocks := len(w.blocks)
	v.Int(maxBlocks, &blocks)
	v.Int(maxBlocks, &w.next)
	if v.Reading() {
		if w.next > 0 && w.next >= blocks {
			v.Corrupt("block %d of %d recent ones", w.next, blocks)
			return
		}
		w.blocks = make([]F, blocks)
	}
	for n := range w.blocks {
		figures(&w.blocks[n])
		count := P(&w.blocks[n]).Count()
		if v.Reading() && (!(count > 0 && count <= block && count == math.Trunc(count)) || (n != w.next && count != block)) {
			v.Corrupt("%g observations in recent block %d", count, n)
		}
	}
}
