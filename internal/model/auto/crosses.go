package auto

import (
	"math"

	"hindsight/internal/model/codec"
)

// crosses learn the effects of pairs of discrete inputs: categories, flags, and cycles in
// cycleParts parts. A pair has a table of cells, and an input one cell of each table. Three
// experts say the sum of their cells: they learn the label, the residual y − v, and the label
// less the last label. With n_p = Σω over the rows of the cell of pair p, a step is
//
//	c_p += η ω r n_p^(−½) / Σ_p n_p^(−½),  r = y − Σ_p c_p
//
// in the units of the experts: a cell that has seen little takes most of the residual. See
// model.Weights for ω.
type crosses struct {
	pairs [][2]int
	// cells has the tables of each expert, pair after pair; counts has n_p.
	cells  [crossExperts][]float32
	counts []float32
}

const (
	crossExperts = 3
	crossStep    = 0.3 // η.
	crossBits    = 9
	crossCells   = 1 << crossBits
	// The first mostDiscrete discrete inputs have pairs.
	mostDiscrete = 8
	cycleParts   = 24
	mostCross    = 1e30
	mostCounted  = 1 << 25
)

// discrete is the number of discrete inputs that have pairs.
func (v view) discrete() int {
	return min(mostDiscrete, len(v.categories)+len(v.cycles)+len(v.flags))
}

// crossed is the number of pairs of discrete inputs.
func (v view) crossed() int { return v.discrete() * (v.discrete() - 1) / 2 }

func crossBytes(pairs int) uint64 { return uint64(4*(crossExperts+1)*crossCells+16) * uint64(pairs) }

func newCrosses(v view) *crosses {
	c := &crosses{counts: make([]float32, v.crossed()*crossCells)}
	for i := range v.discrete() {
		for j := range i {
			c.pairs = append(c.pairs, [2]int{i, j})
		}
	}
	for e := range c.cells {
		c.cells[e] = make([]float32, len(c.counts))
	}
	return c
}

// codes writes the values of the discrete inputs, given the inputs of the view.
func (v view) codes(dst []int64, x, inputs []float64) {
	at := 0
	set := func(code float64) {
		if at < len(dst) {
			dst[at] = int64(code)
			at++
		}
	}
	cycles := inputs[v.discretes():]
	for _, code := range cycles[len(v.cycles):][:len(v.categories)] {
		set(code)
	}
	for _, angle := range cycles[:len(v.cycles)] {
		set(math.Floor(within(float64(angle*(cycleParts/4)), 0, cycleParts)))
	}
	for _, j := range v.flags {
		set(within(math.Floor(x[j]), -1, 2))
	}
}

// find writes the cell of each pair.
func (c *crosses) find(dst []uint32, codes []int64) {
	const mixing = 0x9e3779b97f4a7c15
	for p, pair := range c.pairs {
		hash := uint64(codes[pair[0]]+1) * mixing
		hash = (hash ^ hash>>29 ^ uint64(codes[pair[1]]+1)) * mixing
		hash = (hash ^ hash>>32) * mixing
		dst[p] = uint32(p)<<crossBits | uint32(hash>>(64-crossBits))
	}
}

// predict is what an expert says at the cells.
func (c *crosses) predict(expert int, found []uint32) float64 {
	sum := 0.0
	for _, at := range found {
		sum += float64(c.cells[expert][at])
	}
	return sum
}

// learn teaches the cells the label of each expert, of a row that counts ω.
func (c *crosses) learn(found []uint32, targets [crossExperts]float64, counts float64) {
	total := 0.0
	for _, at := range found {
		c.counts[at] += float32(counts) // At 2²⁴ rows of a cell the step ends to shrink.
		total += 1 / math.Sqrt(float64(c.counts[at]))
	}
	for e, cells := range c.cells {
		step := float64(crossStep*counts) * (targets[e] - c.predict(e, found)) / total
		for _, at := range found {
			cells[at] = float32(within(float64(cells[at])+float64(step/math.Sqrt(float64(c.counts[at]))), -mostCross, mostCross))
		}
	}
}

func (c *crosses) visit(v *codec.Visitor) {
	v.SinglesWithin(mostCounted, c.counts)
	for _, counted := range c.counts {
		if v.Reading() && counted < 0 {
			v.Corrupt("a cell of %g rows", counted)
		}
	}
	for e := range c.cells {
		v.SinglesWithin(mostCross, c.cells[e])
	}
}
