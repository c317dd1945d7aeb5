// Package history keeps how a model did over its life, at no more than 256 points.
// It is part of the model's state: the same rounds at the same times give the same
// history, bit for bit.
//
// All points are of the same number of observations, a power of two. When there are
// 256, each two neighbours become one of twice as many observations: their sums are
// added, and what is told of one moment is that of the later one.
package history

import (
	"math"
	"slices"

	"hindsight/internal/engine/account"
	"hindsight/internal/engine/account/classes"
)

const (
	// MaxPoints is how many points there are at most, the open one included.
	MaxPoints = 256
	// MaxMarks is how many changes are kept.
	MaxMarks = 100
	// MaxExperts is how many experts have their weights kept, the first ones.
	MaxExperts = 64
)

// Shape says which figures a model has.
type Shape struct {
	// Classes says that it is a classifier, Levels how many levels its prediction
	// intervals have.
	Classes bool
	Levels  int
}

// History is the history of one model. Methods that only read may run concurrently.
type History struct {
	shape Shape
	// from is the sequence that the history begins behind. Each point is of stride
	// observations.
	from, stride uint64
	// points is the number of complete points, and words has a row of numbers for
	// each: see layout.
	points int
	words  []uint32
	// experts is how many weights a row has room for.
	experts int
	// open are the sums over the observations since the last complete point, opened
	// their number. Before are the counts of intervals at that point.
	open   []float64
	opened uint64
	before []uint64
	marks  []Mark
}

// Mark is a change of the loss that was detected.
type Mark struct {
	// Sequence is where it is thought to have happened, Time when it was detected,
	// in nanoseconds since 1970.
	Sequence uint64
	Time     int64
	// Rise says that the loss rose.
	Rise bool
}

// Moment is what is told of one moment: of that of the last observation of a point.
type Moment struct {
	// Time is in nanoseconds since 1970.
	Time int64
	// Regret and RegretBound are NaN if they are not known.
	Regret, RegretBound float64
	// Dictionary is the number of centres.
	Dictionary int
	// Weights are those of the experts. Those behind MaxExperts are not kept.
	Weights []float64
	// Counts are those of account.Account.
	Counts []uint64
}

// New is the history of a model from a sequence on, with the counts of its intervals
// at that moment.
func New(shape Shape, from uint64, counts []uint64) *History {
	return &History{
		shape: shape, from: from, stride: 1, open: make([]float64, shape.figures()), before: slices.Clone(counts),
	}
}

// Sequence is that of the last observation.
func (h *History) Sequence() uint64 { return h.Completed() + h.opened }

// Completed is the sequence of the last complete point.
func (h *History) Completed() uint64 { return h.from + h.stride*uint64(h.points) }

// Observe takes what became of one observation, c being that of a classifier. It
// tells whether the point is full: then Complete has to follow. It costs O(1) and
// allocates nothing.
func (h *History) Observe(p *account.Performance, c *classes.Performance) (full bool) {
	h.shape.add(h.open, p, c)
	h.opened++
	return h.opened == h.stride
}

// Complete ends the point that Observe found to be full. It costs O(experts), and
// with every 128th point O(points · experts). It allocates only where there are more
// points or experts than ever.
func (h *History) Complete(m *Moment) {
	if experts := min(len(m.Weights), MaxExperts); experts > h.experts {
		h.widen(experts)
	}
	h.reserve()
	width := h.width()
	h.words = h.words[:len(h.words)+width]
	h.fill(h.words[len(h.words)-width:], m)
	h.points++
	clear(h.open)
	h.opened = 0
	copy(h.before, m.Counts)
	if h.points == MaxPoints {
		h.halve()
	}
}

// Mark adds a change of the loss.
func (h *History) Mark(m Mark) {
	if len(h.marks) == MaxMarks {
		h.marks = h.marks[:copy(h.marks, h.marks[1:])]
	}
	h.marks = append(h.marks, m)
}

// Marks are the newest changes, oldest first, to be read only.
func (h *History) Marks() []Mark { return h.marks }

// fill writes a row.
func (h *History) fill(row []uint32, m *Moment) {
	row[timeLow], row[timeHigh] = uint32(m.Time), uint32(uint64(m.Time)>>32)
	row[regret], row[bound], row[dictionary] = short(m.Regret), short(m.RegretBound), short(float64(m.Dictionary))
	row = row[sums:]
	for i, v := range h.open {
		row[i] = short(v)
	}
	row = row[len(h.open):]
	for i, v := range m.Counts {
		row[i] = short(float64(v - h.before[i]))
	}
	row = row[len(m.Counts):]
	for i := range row {
		row[i] = noWeights
	}
	for k, w := range m.Weights[:min(len(m.Weights), 2*len(row))] {
		shift := 16 * (k % 2)
		row[k/2] = row[k/2]&^(noWeight<<shift) | part(w)<<shift
	}
}

// halve joins each two neighbours.
func (h *History) halve() {
	width := h.width()
	to := sums + h.shape.figures() + h.shape.counts()
	for n := range h.points / 2 {
		earlier, later := h.words[2*n*width:][:width], h.words[(2*n+1)*width:][:width]
		for i := sums; i < to; i++ {
			later[i] = short(long(earlier[i]) + long(later[i]))
		}
		copy(h.words[n*width:], later)
	}
	h.points /= 2
	h.words = h.words[:h.points*width]
	h.stride *= 2
}

// widen makes room for more experts in all rows.
func (h *History) widen(experts int) {
	from := h.width()
	h.experts = experts
	width := h.width()
	wide := make([]uint32, h.points*width, max(cap(h.words)/from, 1)*width)
	for n := range h.points {
		row := wide[n*width:][:width]
		for i := copy(row, h.words[n*from:][:from]); i < width; i++ {
			row[i] = noWeights
		}
	}
	h.words = wide
}

// fewPoints is how many points there is room for at first.
const fewPoints = 8

// reserve makes room for one more row.
func (h *History) reserve() {
	width := h.width()
	if len(h.words)+width <= cap(h.words) {
		return
	}
	more := make([]uint32, len(h.words), min(max(2*h.points, fewPoints), MaxPoints)*width)
	copy(more, h.words)
	h.words = more
}

// Clone is a copy.
func (h *History) Clone() *History {
	c := *h
	c.words, c.open, c.before, c.marks = slices.Clone(h.words), slices.Clone(h.open), slices.Clone(h.before), slices.Clone(h.marks)
	return &c
}

// Size is the memory of the history in bytes, at a cost of O(1).
func (h *History) Size() uint64 {
	const fixed, mark = 176, 24 // Of History and of Mark.
	return fixed + uint64(4*cap(h.words)+8*(len(h.open)+len(h.before))+mark*cap(h.marks))
}

// Point is how a model did over some observations.
type Point struct {
	// Sequence is that of the last of them.
	Sequence uint64
	// Performance and Classes sum over the observations. Classes is nil but for a
	// classifier. Numbers have six digits, and weights four decimals.
	Performance account.Performance
	Classes     *classes.Performance
	// Moment is that of the last observation, without its counts.
	Moment
	// Coverage is the share of labels inside the intervals of each level, NaN where
	// none was judged.
	Coverage []float64
}

// Points are the points that end after a sequence, oldest first; the last one is the
// open one, unless that has no observation or now is nil.
func (h *History) Points(after uint64, now *Moment) []Point {
	var points []Point
	width, ends := h.width(), h.from
	for n := range h.points {
		if ends += h.stride; ends > after {
			points = append(points, h.point(h.words[n*width:][:width], ends, h.stride))
		}
	}
	if now != nil && h.opened > 0 && h.Sequence() > after {
		row := make([]uint32, h.shape.width(min(len(now.Weights), MaxExperts)))
		h.fill(row, now)
		points = append(points, h.point(row, h.Sequence(), h.opened))
	}
	return points
}

// point reads a row.
func (h *History) point(row []uint32, sequence, observations uint64) Point {
	p := Point{Sequence: sequence, Moment: Moment{
		Time:   int64(uint64(row[timeHigh])<<32 | uint64(row[timeLow])),
		Regret: long(row[regret]), RegretBound: long(row[bound]), Dictionary: int(long(row[dictionary])),
	}}
	row = row[sums:]
	h.shape.read(&p, row, float64(observations))
	row = row[h.shape.figures():]
	if counts := h.shape.counts(); counts > 0 {
		p.Coverage = make([]float64, h.shape.Levels)
		judged := long(row[0])
		for level := range p.Coverage {
			p.Coverage[level] = long(row[1+level]) / judged // NaN of none.
		}
		row = row[counts:]
	}
	for k := range 2 * len(row) {
		w := row[k/2] >> (16 * (k % 2)) & noWeight
		if w == noWeight {
			break
		}
		p.Weights = append(p.Weights, float64(w)/wholeWeight)
	}
	return p
}

// short is a number in 32 bits: the upper half of its double, rounded to the even one.
// What is not finite is nothing.
func short(v float64) uint32 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nothing
	}
	b := math.Float64bits(v)
	return uint32((b + 1<<31 - 1 + b>>32&1) >> 32)
}

// long is the number of 32 bits.
func long(s uint32) float64 { return math.Float64frombits(uint64(s) << 32) }

// nothing stands for a number that is not known.
const nothing = 0x7ff80000

// A weight is 16 bits: its part of a whole, or noWeight. A word has two.
const (
	wholeWeight = 1<<16 - 2
	noWeight    = 1<<16 - 1
	noWeights   = 1<<32 - 1
)

// part is a weight in 16 bits. Of what is no number it is 0.
func part(w float64) uint32 {
	if !(w > 0) {
		return 0
	}
	return uint32(math.Round(math.Min(w, 1) * wholeWeight))
}
