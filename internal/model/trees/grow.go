package trees

import (
	"math/rand/v2"
	"slices"
)

const (
	countBits = 14
	countMask = 1<<countBits - 1
	fineBits  = 12 // Of a residual, which a histogram does not add.
	mostPack  = 1<<35 - 1
	leastGain = 1   // In (2⁻²⁰ s)², also without residuals.
	wholeRow  = 256 // Of a row that counts 1, in the value of a leaf.
)

// coarse is a residual rounded to a multiple of 2⁻²⁰.
func coarse(residual int64) int64 {
	return max(-mostPack, min(mostPack, (residual+1<<(fineBits-1))>>fineBits))
}

// pack is a row in a histogram: its residual and the count 1.
func pack(residual int64) int64 { return coarse(residual)<<countBits + 1 }

func sumOf(packed int64) int64   { return packed >> countBits }
func countOf(packed int64) int64 { return packed & countMask }

// split is the best split of a group of a leaf's histogram.
type split struct {
	// score is S_l²/(n_l + λ) + S_r²/(n_r + λ).
	score float64
	// lane and code are where.
	lane, code int
}

// open is a leaf of a growing tree.
type open struct {
	node, begin, count int
	packed             int64
	// place is where the histograms are, −1 for a leaf without.
	place int
	gain  float64
	input int // Of the drawn inputs.
	code  uint8
	// below are the rows of the best split that go left.
	below int64
}

// grower grows a tree over the rows of a fit. One grower serves all columns.
type grower struct {
	// rows are the slots in the bag, leaf by leaf; packed has the rows by slot.
	rows, room []uint16
	packed     []int64
	// drawn are the inputs, ascending, the last repeated until lanes divides their number.
	drawn      []uint16
	histograms []int64
	free       []int // Places without a leaf.
	leaves     []open
	least      float64 // Every split gains more.
	deck       []uint16
	rng        rand.PCG
}

func newGrower(slots, leaves, groups, inputs int) grower {
	return grower{
		rows: make([]uint16, slots), room: make([]uint16, slots), packed: make([]int64, slots),
		drawn: make([]uint16, 0, mostInputs), histograms: make([]int64, histogramRoom(slots, groups)),
		free: make([]int, 0, places(slots)), leaves: make([]open, 0, leaves), deck: make([]uint16, inputs),
	}
}

// smallLeaf is the most rows of a leaf that keeps no histograms: if such a leaf is split, the
// rows of both parts are counted.
const smallLeaf = 128

// places is the most leaves that have histograms at a time. A sixth of the leaves that would fit the slots
// suffices: if more leaves are large, later ones are counted as small leaves are.
func places(slots int) int { return slots/(6*smallLeaf) + spare + 1 }

// histogramRoom is the size of the histograms, which cuts and the descents of rows use as scratch too.
func histogramRoom(slots, groups int) int {
	return max(slots, places(slots)*groups*groupSize, leafRoom)
}

// spare is the number of places that a split may take.
const spare = 2

// begin makes the root of the rows, whose sum is packed, given the sum of the squares of their residuals.
func (g *grower) begin(packed int64, squares float64) {
	g.least = max(leastGain, squares/float64(max(1, len(g.rows))))
	g.free = g.free[:0]
	for place := range cap(g.free) {
		g.free = append(g.free, place)
	}
	g.leaves = append(g.leaves[:0], open{count: len(g.rows), packed: packed, place: g.take()})
}

func (g *grower) take() (place int) {
	last := len(g.free) - 1
	place, g.free = g.free[last], g.free[:last]
	return place
}

// draw draws count inputs.
func (g *grower) draw(inputs []uint16, count int) {
	deck := g.deck[:len(inputs)]
	copy(deck, inputs)
	if count < len(deck) {
		for i := range count {
			j := i + int(g.below(uint64(len(deck)-i)))
			deck[i], deck[j] = deck[j], deck[i]
		}
		slices.Sort(deck[:count])
	}
	g.drawn = append(g.drawn[:0], deck[:count]...)
	for len(g.drawn)%lanes != 0 {
		g.drawn = append(g.drawn, g.drawn[count-1])
	}
}

// below is a number below n, nearly uniform.
func (g *grower) below(n uint64) uint64 { return g.rng.Uint64() >> 32 * n >> 32 }

func (g *grower) groups() int { return len(g.drawn) / lanes }

// histogram is the histogram of a group of a leaf.
func (g *grower) histogram(leaf, group int) *[groupSize]int64 {
	return (*[groupSize]int64)(g.histograms[(g.leaves[leaf].place*g.groups()+group)*groupSize:])
}

// count counts the rows of a leaf in its histogram of a group.
func (g *grower) count(leaf, group int, c *cuts) {
	h := g.histogram(leaf, group)
	clear(h[:])
	l := &g.leaves[leaf]
	var codes [lanes][]uint8
	for i, input := range g.drawn[group*lanes:][:lanes] {
		codes[i] = c.codes[int(input)*c.slots:][:c.slots]
	}
	addRows(h, g.rows[l.begin:][:l.count], g.packed, &codes)
}

// addRowsGo is addRows.
func addRowsGo(h *[groupSize]int64, rows []uint16, packed []int64, codes *[lanes][]uint8) {
	first, second, third, fourth := codes[0], codes[1], codes[2], codes[3]
	for _, i := range rows {
		v := packed[i]
		h[first[i]] += v
		h[second[i]|1] += v
		h[third[i]|2] += v
		h[fourth[i]|3] += v
	}
}

// deriveGo is derive.
func deriveGo(parent, counted *[groupSize]int64) {
	for i, v := range counted {
		parent[i] -= v
	}
}

// bestGo is best.
func bestGo(h *[groupSize]int64, edges int, total int64, least float64) split {
	var s split
	sum, count := float64(sumOf(total)), float64(countOf(total))
	for lane := range lanes {
		below := int64(0)
		for at := lane; at < edges*lanes; at += lanes {
			if h[at] == 0 {
				continue
			}
			below += h[at]
			left, right := float64(countOf(below)), count-float64(countOf(below))
			if left < least {
				continue
			}
			if right < least {
				break
			}
			sumLeft := float64(sumOf(below))
			sumRight := sum - sumLeft
			left, right = left+lambda, right+lambda
			score := (float64(float64(sumLeft*sumLeft)*right) + float64(float64(sumRight*sumRight)*left)) / float64(left*right)
			if score > s.score {
				s = split{score, lane, at - lane}
			}
		}
	}
	return s
}

// search finds the best split of a leaf by its histograms, which the leaf then loses if it is small or
// the next split needs the place.
func (g *grower) search(leaf int, leastSide float64, c *cuts) {
	g.find(leaf, leastSide, c)
	if l := &g.leaves[leaf]; l.count <= smallLeaf || len(g.free) < spare {
		g.free = append(g.free, l.place)
		l.place = -1
	}
}

func (g *grower) find(leaf int, leastSide float64, c *cuts) {
	l := &g.leaves[leaf]
	sum := float64(sumOf(l.packed))
	parent := float64(sum*sum) / (float64(countOf(l.packed)) + lambda)
	l.gain = 0
	if float64(l.count) < 2*leastSide {
		return
	}
	most, in := parent, (*[groupSize]int64)(nil)
	for group := range g.groups() {
		edges := uint8(0)
		for _, input := range g.drawn[group*lanes:][:lanes] {
			edges = max(edges, c.counts[input])
		}
		h := g.histogram(leaf, group)
		if s := best(h, int(edges), l.packed, leastSide); s.score > most {
			most = s.score
			l.input, l.code, in = group*lanes+s.lane, uint8(s.code), h
		}
	}
	if l.gain = most - parent; in != nil {
		l.below = 0
		for at := l.input % lanes; at <= int(l.code)+lanes-1; at += lanes {
			l.below += in[at]
		}
	}
}

// widest is the leaf of the largest gain, or −1 if no split gains enough.
func (g *grower) widest() int {
	at, most := -1, g.least
	for i := range g.leaves {
		if g.leaves[i].gain > most {
			at, most = i, g.leaves[i].gain
		}
	}
	return at
}

// split splits a leaf of a tree, whose right part becomes the last leaf, and returns the parts
// by their size. The larger part gets the leaf's histograms, if the leaf has any.
func (g *grower) split(at int, t *tree, c *cuts) (smaller, larger int, derived bool) {
	l := &g.leaves[at]
	input := g.drawn[l.input]
	n := &t.nodes[l.node]
	*n = node{cut: c.of(int(input))[l.code/lanes], input: input, left: uint16(t.size)}
	t.nodes[t.size], t.nodes[t.size+1] = node{}, node{}
	t.size += 2
	left, packed := int(countOf(l.below)), l.below
	part(g.rows[l.begin:][:l.count], g.room, c.codes[int(input)*c.slots:][:c.slots], l.code)
	g.leaves = append(g.leaves, open{
		node: int(n.left) + 1, begin: l.begin + left, count: l.count - left, packed: l.packed - packed,
	})
	l = &g.leaves[at]
	l.node, l.count, l.packed = int(n.left), left, packed
	place := l.place
	smaller, larger = at, len(g.leaves)-1
	if g.leaves[larger].count < left {
		smaller, larger = larger, smaller
	}
	if derived = place >= 0; !derived {
		place = g.take()
	}
	g.leaves[larger].place, g.leaves[smaller].place = place, g.take()
	return smaller, larger, derived
}
