// Package neighbors predicts a label by the 64 rows of a window.Window whose inputs are
// nearest to the inputs of a query. It has no state of its own.
//
// The squared distance of row i is D_i = Σ_j g_j (x_ij − x_j)² over the inputs as the window
// stores them, with g_j = (unit/scale)² for the present scale of each input, at most 2²⁰, so
// that D_i is finite. D_i is computed in single precision with a fixed order of additions:
// see loops.Distances. Ties go to the newer row. Let D_(k) be the k-th smallest. Of K = 64
// neighbours, neighbour i has the weight
//
//	w_i = ω_i ((1 − D_i/D_(K+1))² + 1e-6), and w_i = ω_i (1 + 1e-6) if D_(K+1) = 0
//
// where the row counts ω_i, see model.Weights.
//
// With the query's served prediction v and the rows' served predictions v_i there are three
// experts:
//
//	affine    argmin_a min_b Σ w_i (y_i − a − b·u_i)² + ρ‖b‖²
//	residual  v + the same for y_i − v_i
//	mean      v + the mean of y_i − v_i over the nearest K = 32, weighted by their own w_i
//
// with u_ij = √g_j (x_ij − x_j) and ρ a tenth of the mean of Σ w_i u_ij² over the inputs j. The
// first two are clipped to the range of their 64 labels, y_i or y_i − v_i, without model.Light
// rows beside others: an extrapolation can be far off. If ρ is below 1e-100 the slopes are 0.
//
// The slopes are eliminated, with the Schur complement of their block left: no fused product,
// the same bits on every machine. A stored number out of the range of the window is at the
// window's limit.
//
// A window of 8,192 rows is searched whole. The search, the fit and the selection allocate
// nothing; callers with a Scratch each may be concurrent.
package neighbors

import (
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/loops"
	"hindsight/internal/model/window"
)

const (
	// Experts is the number of predictions.
	Experts = 3
	// MinRows is the number of rows that a prediction needs.
	MinRows = affineRows + 1
	// MostInputs is the largest number of inputs that distances are useful for.
	MostInputs = 32

	affineRows  = 64
	meanRows    = 32
	ridge       = 0.1
	leastRidge  = 1e-100
	leastWeight = 1e-6
	mostScale   = 1 << 20                           // The largest g_j.
	targets     = 2                                 // The label and the residual.
	room        = 192                               // Of the keys of a search. Some 90 rows are within the first bound.
	block       = (targets + 1) * (targets + 2) / 2 // Squares without the slopes.
)

// Scratch is the scratch of one prediction.
type Scratch struct {
	inputs int
	// query and weights are x_j and g_j.
	query, weights []float32
	// roots are √g_j.
	roots     []float64
	distances []float32
	// keys are rows: the bits of D_i above the age. nearest are the MinRows nearest rows in order.
	keys, nearest []uint64
	// rows are (u_i, 1, label, residual) of the neighbours, order numbers each.
	rows    []float64
	order   int
	w       []float64
	squares []float64
}

// NewScratch is a scratch for a number of inputs and windows of a number of slots.
func NewScratch(inputs, slots int) *Scratch {
	order := inputs + 1 + targets
	return &Scratch{
		inputs: inputs, query: make([]float32, inputs), weights: make([]float32, inputs),
		roots: make([]float64, inputs), distances: make([]float32, slots+2*loops.Lanes), keys: make([]uint64, room+loops.Lanes), nearest: make([]uint64, room+loops.Lanes),
		rows: make([]float64, affineRows*order), order: order, w: make([]float64, affineRows),
		squares: make([]float64, order*(order+1)/2),
	}
}

// Bytes is the memory of a scratch.
func Bytes(inputs, slots int) uint64 {
	order := inputs + 1 + targets
	return uint64(4*(slots+2*loops.Lanes) + 16*inputs + 8*(affineRows*(order+1)+order*(order+1)/2+2*(room+loops.Lanes)))
}

// Flops counts a prediction from a number of rows in multiply-adds.
func Flops(inputs, rows int) uint64 {
	order := inputs + 1 + targets
	return uint64(rows*(inputs+2) + affineRows*order*order/2 + order*order*order/6)
}

// Say writes the predictions, given the parts and v.
func Say(dst, parts []float64, v float64) {
	dst[0], dst[1], dst[2] = parts[0], v+parts[1], v+parts[2]
}

// Parts writes what the neighbors of a query say beside v, which the search does not need: the affine
// fit of the labels, the fit of the residuals, and their mean. The query has its inputs as the window
// rounds them, scales are the present scale of each input. The window has MinRows rows or more.
func (s *Scratch) Parts(dst []float64, w *window.Window, query []float32, scales []float64) {
	for j, scale := range scales[:s.inputs] {
		g := w.Unit(j) / scale
		s.query[j] = query[j]
		s.weights[j] = float32(math.Min(float64(g*g), mostScale))
		s.roots[j] = math.Sqrt(float64(s.weights[j]))
	}
	s.search(w)
	var least, most [targets]float64
	at := s.load(w, &least, &most)
	s.solve()
	left := s.squares[len(s.squares)-block:] // It begins with the constant's row.
	affine := func(k int) float64 {
		return max(least[k], min(most[k], at[k]+left[1+k]/left[0]))
	}
	dst[0], dst[1], dst[2] = affine(0), affine(1), s.mean(w)
}

// search finds the nearest rows. All rows within a bound go into the keys; without room for another the bound
// shrinks to the nearest of them.
func (s *Scratch) search(w *window.Window) {
	n := w.Len()
	first, second, skip := w.Newest(n)
	at := loops.Distances(s.distances, first, w.Layout().Inputs, s.query, s.weights)
	loops.Distances(s.distances[at:], second, w.Layout().Inputs, s.query, s.weights)
	distances := s.distances[skip:][:n] // Oldest first.
	bound, count := loops.Reach(distances, MinRows), 0
	for {
		found, looked := loops.Collect(s.keys[count:room], distances, bound)
		count += found
		if distances = distances[looked:]; len(distances) == 0 {
			break
		}
		bound, count = min(bound, uint32(loops.Smallest(s.keys[:count], MinRows-1)>>32)), MinRows
	}
	loops.Order(s.nearest, s.keys[:count])
}

func (s *Scratch) distance(i int) float32 { return math.Float32frombits(uint32(s.nearest[i] >> 32)) }

func (s *Scratch) age(i int) int { return int(uint32(s.nearest[i])) }

// weight is w_i/ω_i for K = k.
func (s *Scratch) weight(i, k int) float64 {
	part := 1.0
	if h := float64(s.distance(k)); h > 0 {
		part = 1 - float64(s.distance(i))/h
	}
	return float64(part*part) + leastWeight
}

// load writes the rows, with the labels and residuals relative to the label and residual of the nearest
// neighbour, at. It finds the least and the most of them. The numbers of a row are no array: to copy an array that was just
// written number by number, the processor waits for the writes.
func (s *Scratch) load(w *window.Window, least, most *[targets]float64) (at [targets]float64) {
	roots, query := s.roots, s.query[:len(s.roots)]
	ranged := false // By a row that is not light; until then by the row itself.
	for i := range affineRows {
		age := s.age(i)
		slot, row, u := w.Slot(age), w.Row(age), s.rows[i*s.order:][:s.order]
		s.w[i] = float64(s.weight(i, affineRows) * float64(w.Counts[slot]))
		for j, root := range roots {
			u[j] = float64(root * (float64(row[j*loops.Lanes]) - float64(query[j])))
		}
		label, residual := w.Labels[slot], w.Labels[slot]-w.Served[slot]
		if i == 0 {
			at = [targets]float64{label, residual}
		}
		u[s.inputs], u[s.inputs+1], u[s.inputs+2] = 1, label-at[0], residual-at[1]
		light := w.Counts[slot] < model.Light
		switch {
		case !ranged:
			*least = [targets]float64{label, residual}
			*most = *least
		case !light:
			least[0], most[0] = min(least[0], label), max(most[0], label)
			least[1], most[1] = min(least[1], residual), max(most[1], residual)
		}
		ranged = ranged || !light
	}
	return at
}

// solve eliminates the slopes. The constant's row of squares has then Σ w and the sums of its
// products with the targets, without what the slopes explain.
func (s *Scratch) solve() {
	clear(s.squares)
	for i := 0; i < affineRows; i += loops.Rows {
		loops.AddSquares(s.squares, s.rows[i*s.order:], s.order, s.order, s.w[i:][:loops.Rows])
	}
	trace, rest := 0.0, s.squares
	for k := range s.inputs {
		trace += rest[0]
		rest = rest[s.order-k:]
	}
	rho := float64(ridge*trace) / float64(max(1, s.inputs))
	if rho < leastRidge {
		return
	}
	rest = s.squares
	for k := range s.inputs {
		row := rest[:s.order-k]
		rest = rest[len(row):]
		pivot, next := row[0]+rho, rest
		for i := 1; i <= s.inputs-k; i++ {
			loops.Axpy(next[:len(row)-i], row[i:], -row[i]/pivot)
			next = next[len(row)-i:]
		}
	}
}

func (s *Scratch) mean(w *window.Window) float64 {
	sum, total := 0.0, 0.0
	for i := range meanRows {
		slot := w.Slot(s.age(i))
		weight := float64(s.weight(i, meanRows) * float64(w.Counts[slot]))
		total += weight
		sum += float64(weight * (w.Labels[slot] - w.Served[slot]))
	}
	return sum / total
}
