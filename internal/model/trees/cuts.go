package trees

import (
	"math"
	"slices"

	"hindsight/internal/model/window"
)

// cuts are the cut points of the inputs, and the codes of all slots.
type cuts struct {
	slots int
	// edges has the cut points of input j in edges[j*bins:][:counts[j]], ascending.
	edges  []float32
	counts []uint8
	// codes has the code of input j in slot s at codes[j*slots+s]. A code is lanes times the
	// number of cut points below the value.
	codes []uint8
	// keys and room are scratch.
	keys, room []int64
	// Of the tree of the newest split, all rows with a code of at most sure[i] go left at node i, and no row with a
	// code above may[i] does. If all cut points of the tree are present, exact is true and sure equals may.
	sure, may []int16
	exact     bool
}

// newCuts returns cuts that share the scratch of fits, because one job runs at a time.
func newCuts(columns, slots int, scratch *grower) cuts {
	return cuts{
		slots: slots, edges: make([]float32, columns*bins), counts: make([]uint8, columns),
		codes: make([]uint8, columns*slots+padding), keys: scratch.packed, room: scratch.histograms[:slots],
		sure: make([]int16, maxNodes), may: make([]int16, maxNodes),
	}
}

func (c *cuts) of(input int) []float32 { return c.edges[input*bins:][:c.counts[input]] }

// code is lanes times the number of cut points below v.
func code(edges []float32, v float32) uint8 {
	low, high := 0, len(edges)
	for low < high {
		middle := (low + high) / 2
		if v <= edges[middle] {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return uint8(lanes * low)
}

func (c *cuts) row(slot int, row []float32) {
	for j, v := range row {
		c.codes[j*c.slots+slot] = code(c.of(j), v)
	}
}

const (
	slotBits = 16
	digit    = 11
	digits   = 1 << digit
)

// ordered maps floats to integers of the same order.
func ordered(v float32) uint32 {
	b := math.Float32bits(v)
	if b>>31 != 0 {
		return ^b
	}
	return b | 1<<31
}

func unordered(b uint32) float32 {
	if b>>31 != 0 {
		return math.Float32frombits(b &^ (1 << 31))
	}
	return math.Float32frombits(^b)
}

// sort sorts keys by their upper 32 of 48 bits, a digit a pass.
func (c *cuts) sort(count int) []int64 {
	keys, room := c.keys[:count], c.room[:count]
	for shift := slotBits; shift < slotBits+32; shift += digit {
		var starts [digits]uint32
		for _, k := range keys {
			starts[k>>shift&(digits-1)]++
		}
		sum := uint32(0)
		for i, n := range starts {
			starts[i] = sum
			sum += n
		}
		for _, k := range keys {
			at := &starts[k>>shift&(digits-1)]
			room[*at] = k
			*at++
		}
		keys, room = room, keys
	}
	return keys
}

// renew sets the cut points of an input at the quantiles of the first filled slots, and
// their codes, if a bin of the present ones has more than twice its share of the slots, and returns the units.
func (c *cuts) renew(input int, w *window.Window, filled int) (units int64) {
	units = unitsCheck * int64(filled)
	if c.balanced(input, filled) {
		return units
	}
	for slot := range filled {
		c.keys[slot] = int64(ordered(w.At(slot, input)))<<slotBits | int64(slot)
	}
	keys := c.sort(filled)
	value := func(i int) float32 { return unordered(uint32(keys[i] >> slotBits)) }
	edges, seen := c.edges[input*bins:][:0], 0
	for b := 1; b < bins; b++ {
		at := b * filled / bins
		if at <= seen { // Within equal values whose cut point is known.
			continue
		}
		below := value(at - 1)
		for at < filled && value(at) == below {
			at++
		}
		if seen = at; at == filled {
			break
		}
		if cut := between(below, value(at)); len(edges) == 0 || cut > edges[len(edges)-1] {
			edges = append(edges, cut)
		}
	}
	c.counts[input] = uint8(len(edges))
	codes, at := c.codes[input*c.slots:][:c.slots], 0
	for i, k := range keys {
		for v := value(i); at < len(edges) && v > edges[at]; {
			at++
		}
		codes[k&(1<<slotBits-1)] = uint8(lanes * at)
	}
	return units + unitsCuts*int64(filled)
}

// balanced reports whether no bin of an input has more than twice its share of the first filled slots.
func (c *cuts) balanced(input, filled int) bool {
	var counts [groupSize]int
	for _, code := range c.codes[input*c.slots:][:filled] {
		counts[code]++
	}
	return slices.Max(counts[:]) <= 2*filled/bins
}

// between is a cut point c with a ≤ c < b.
func between(a, b float32) float32 {
	middle := float32(0.5*float64(a) + 0.5*float64(b))
	if middle >= b || middle < a {
		return a
	}
	return middle
}

// split finds sure, may and exact of a tree.
func (c *cuts) split(t *tree) {
	c.exact = true
	for i, n := range t.nodes[:t.size] {
		if n.left == 0 {
			continue
		}
		at, found := slices.BinarySearch(c.of(int(n.input)), n.cut)
		c.sure[i], c.may[i] = int16(lanes*at), int16(lanes*at)
		if !found {
			c.sure[i], c.exact = int16(lanes*(at-1)), false
		}
	}
}
