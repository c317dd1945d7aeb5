// Package partitions learns by random partitions of the input space: random binning features
// of the Laplace kernel.
//
// Grid m has for each coordinate j a pitch δ_mj ~ Gamma(2) σ and a shift. Its cell at z is a
// hash of all ⌊z_j/δ_mj + shift_mj⌋ into Cells. A learner says Σ_m c_m[cell_m(z)] and takes
// the step
//
//	c_m[cell] += ½ r/M,  r = y − Σ_m c_m[cell]
//
// gradient descent over the M indicator features, divided by √M so that their norm is 1. For
// every sequence and every weights u over these features φ,
//
//	Σ r² ≤ 2 Σ (y − u·φ)² + 4‖u‖²
//
// by ‖w−u‖² round by round, to the rounding of the cells.
//
// Cells are integers, multiples of 2⁻²⁰ in the caller's units, so sums have no order and the
// state is small. A grid is drawn from the seed and is no part of the state.
//
// Source: Rahimi and Recht, Random Features for Large-Scale Kernel Machines (NIPS 2007), for
// the features; Balog et al., The Mondrian Kernel (UAI 2016), for grids beside trees.
package partitions

import (
	"math"
	"math/rand/v2"

	"hindsight/internal/model/codec"
	"hindsight/internal/model/ziggurat"
)

const (
	// Experts is the number of learners: for each width the labels over the inputs, the
	// residuals over the inputs, and the residuals over the inputs and lags.
	Experts = widths * kinds

	grids    = 32 // M, of each width.
	cellBits = 9
	// Cells is the number of cells of a grid.
	Cells = 1 << cellBits

	widths = 2
	kinds  = 3
	// Found is the number of cells that Find writes: for each width and grid one of the
	// inputs, then one of the inputs and lags.
	Found = widths * grids * 2

	fraction  = 1 << 20 // Units of a cell in 1.
	mostCell  = math.MaxInt32
	mostLabel = 1 << 10 // |label|: beyond, a label is cut.
	stream    = 0x62696e73
	mixing    = 0x9e3779b97f4a7c15
)

// Options are what Partitions are made of.
type Options struct {
	Seed uint64
	// Inputs is the number of inputs, Lags of the lags behind them, in scaled units.
	Inputs, Lags int
}

// line is the partition of one coordinate: ⌊z·inverse + shift⌋.
type line struct{ inverse, shift float64 }

// Partitions are the learners over common grids.
type Partitions struct {
	o Options
	// lines has the coordinates of each grid, grid after grid, width after width.
	lines []line
	// cells has the tables of each expert, grid after grid.
	cells []int32
}

// New draws the grids. The widths σ are ½√d and 2√d.
func New(o Options) *Partitions {
	p := &Partitions{o: o, cells: make([]int32, Experts*grids*Cells)}
	z := ziggurat.New(rand.New(rand.NewPCG(o.Seed, stream)))
	for w := range widths {
		sigma := math.Sqrt(float64(o.Inputs)) * [widths]float64{0.5, 2}[w]
		for range grids * (o.Inputs + o.Lags) {
			pitch := float64(sigma * (z.Exponential() + z.Exponential()))
			p.lines = append(p.lines, line{1 / math.Max(pitch, sigma*1e-6), z.Float64()})
		}
	}
	return p
}

// Bytes is the memory of the learners.
func Bytes(o Options) uint64 {
	return 4*Experts*grids*Cells + 16*uint64(widths*grids*(o.Inputs+o.Lags))
}

// Flops counts a prediction in multiply-adds: some eight for each coordinate of a grid.
func Flops(o Options) uint64 { return uint64(8*widths*grids*(o.Inputs+o.Lags) + 4*Experts*grids) }

// Find writes the cells of z, Inputs+Lags numbers of magnitude below 1e7, into dst, which has
// Found entries.
func (p *Partitions) Find(dst []uint16, z []float64) {
	size := p.o.Inputs + p.o.Lags
	lines := p.lines
	z = z[:size]
	for g := range widths * grids {
		own := lines[:len(z)]
		lines = lines[len(z):]
		hash := uint64(1469598103934665603)
		for j, l := range own[:p.o.Inputs] {
			hash = mixed(hash, z[j], l)
		}
		dst[2*g] = uint16(hash >> (64 - cellBits))
		for j, l := range own[p.o.Inputs:] {
			hash = mixed(hash, z[p.o.Inputs+j], l)
		}
		dst[2*g+1] = uint16(hash >> (64 - cellBits))
	}
}

func mixed(hash uint64, z float64, l line) uint64 {
	hash = (hash ^ uint64(int64(math.Floor(float64(z*l.inverse)+l.shift)))) * mixing
	return hash ^ hash>>29
}

// cell is the index of an expert's cell in a grid of its width.
func cell(found []uint16, expert, grid int) int {
	at := 2 * (expert/kinds*grids + grid)
	if expert%kinds == kinds-1 {
		at++ // The lags are in the hash.
	}
	return (expert*grids+grid)*Cells + int(found[at])
}

// Predict writes what each expert says at the cells that Find found. Expert e learns the label
// if Residual(e) is false, and the residual of another prediction if it is true.
func (p *Partitions) Predict(dst []float64, found []uint16) {
	for e := range Experts {
		dst[e] = float64(p.sum(found, e)) / fraction
	}
}

func (p *Partitions) sum(found []uint16, expert int) int64 {
	sum := int64(0)
	for g := range grids {
		sum += int64(p.cells[cell(found, expert, g)])
	}
	return sum
}

// Residual tells whether an expert learns residuals.
func Residual(expert int) bool { return expert%kinds > 0 }

// Learn teaches the cells a label and a residual of a weight. A weight below 2 scales the
// step; from 2 on, the step takes the whole residual.
func (p *Partitions) Learn(found []uint16, label, residual, weight float64) {
	step := math.Min(0.5*weight, 1)
	for e := range Experts {
		y := label
		if Residual(e) {
			y = residual
		}
		y = math.Max(-mostLabel, math.Min(mostLabel, y))
		gap := float64(y*fraction) - float64(p.sum(found, e))
		each := int64(math.RoundToEven(float64(step*gap) / grids))
		for g := range grids {
			c := &p.cells[cell(found, e, g)]
			*c = int32(max(-mostCell, min(mostCell, int64(*c)+each)))
		}
	}
}

// Visit visits the cells.
func (p *Partitions) Visit(v *codec.Visitor) {
	for i, c := range p.cells {
		bits := uint32(c)
		v.Uint32(&bits)
		if !v.Reading() {
			continue
		}
		if p.cells[i] = int32(bits); p.cells[i] < -mostCell {
			v.Corrupt("cell %d of a partition has %d", i, p.cells[i])
		}
	}
}
