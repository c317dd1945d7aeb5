// Package history keeps the performance of a model over its life, at no more than 256
// points. It is part of the model's state: the same rounds at the same times give the same
// history, bit for bit.
//
// All points have the same number of observations, a power of two. At 256 points each two
// neighbours become one point of twice as many observations: their sums are
// added, and the moment is the moment of the later point.
package history

import (
	"math"
	"slices"

	"hindsight/internal/engine/account"
	"hindsight/internal/engine/account/classes"
)

const (
	// MaxPoints bounds the points, the open one included.
	MaxPoints = 256
	// MaxMarks bounds the changes in a history: the newest ones.
	MaxMarks = 100
	// MaxExperts bounds the experts with weights in a history: the first ones.
	MaxExperts = 64
)

// Shape describes the figures of a model.
type Shape struct {
	// Classes is true for a classifier. Levels is the number of levels of the prediction
	// intervals.
	Classes bool
	Levels  int
}

// History is the history of one model. Methods that only read may run concurrently.
//
//	len(words) == points·width,  opened < stride
type History struct {
	shape Shape
	// from is the sequence before the first observation. A complete point has stride
	// observations.
	from, stride uint64
	// points is the number of complete points. words has a row of width words for each:
	// see layout.
	points  int
	words   []uint32
	experts int
	// open has the sums over the observations since the last complete point, opened is
	// their number. before has the counts of intervals at that point.
	open   []float64
	opened uint64
	before []uint64
	marks  []Mark
}

// Mark is a change of the loss that was detected.
type Mark struct {
	// Sequence is the estimated sequence of the change, Time the time of its detection
	// in nanoseconds since 1970.
	Sequence uint64
	Time     int64
	// Rise is true if the loss rose.
	Rise bool
}

// Moment has the figures that are known at one moment: the last observation of a point.
type Moment struct {
	// Time is in nanoseconds since 1970.
	Time int64
	// Regret and RegretBound are NaN if they are not known.
	Regret, RegretBound float64
	Dictionary          int
	// Weights are the weights of the experts. A history keeps the first MaxExperts.
	Weights []float64
	// Counts are the result of account.Account.Counts.
	Counts []uint64
}

// New returns the history of a model from a sequence on, with the counts of its intervals
// at that sequence.
func New(shape Shape, from uint64, counts []uint64) *History {
	return &History{
		shape: shape, from: from, stride: 1, open: make([]float64, shape.figures()), before: slices.Clone(counts),
	}
}

// Sequence returns the sequence of the last observation.
func (h *History) Sequence() uint64 { return h.Completed() + h.opened }

// Completed returns the sequence of the last complete point.
func (h *History) Completed() uint64 { return h.from + h.stride*uint64(h.points) }

// Observe takes the performance of one observation; c is nil but for a classifier. It
// reports whether the point is full: then Complete must follow. It costs O(1) and
// allocates nothing.
func (h *History) Observe(p *account.Performance, c *classes.Performance) (full bool) {
	h.shape.add(h.open, p, c)
	h.opened++
	return h.opened == h.stride
}

// Left returns the number of observations until the open point is full: 1 <= Left() <= stride.
func (h *History) Left() uint64 { return h.stride - h.opened }

// Complete ends the full point. It costs O(experts), and with every 128th point
// O(points · experts). It allocates only for more points or experts than ever before.
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

// Marks returns the newest changes, oldest first. The caller only reads them.
func (h *History) Marks() []Mark { return h.marks }

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

const fewPoints = 8

func (h *History) reserve() {
	width := h.width()
	if len(h.words)+width <= cap(h.words) {
		return
	}
	more := make([]uint32, len(h.words), min(max(2*h.points, fewPoints), MaxPoints)*width)
	copy(more, h.words)
	h.words = more
}

// Clone returns a copy.
func (h *History) Clone() *History {
	c := *h
	c.words, c.open, c.before, c.marks = slices.Clone(h.words), slices.Clone(h.open), slices.Clone(h.before), slices.Clone(h.marks)
	return &c
}

// Size returns the memory of the history in bytes, at a cost of O(1).
func (h *History) Size() uint64 {
	const fixed, mark = 176, 24 // Of History and of Mark.
	return fixed + uint64(4*cap(h.words)+8*(len(h.open)+len(h.before))+mark*cap(h.marks))
}

// Point is the performance over consecutive observations.
type Point struct {
	Sequence uint64
	// Performance and Classes sum over the scored observations: see account.Account.Observe.
	// Classes is nil but for a classifier. Numbers have six digits, and weights four decimals.
	Performance account.Performance
	Classes     *classes.Performance
	// Moment is the moment of the last observation, without its counts.
	Moment
	// Coverage is the share of labels inside the intervals of each level, NaN if none was
	// scored.
	Coverage []float64
}

// Points returns the points that end after a sequence, oldest first. The last is the open
// point, unless the open point has no observation or now is nil.
func (h *History) Points(after uint64, now *Moment) []Point {
	var points []Point
	width, ends := h.width(), h.from
	for n := range h.points {
		if ends += h.stride; ends > after {
			points = append(points, h.point(h.words[n*width:][:width], ends))
		}
	}
	if now != nil && h.opened > 0 && h.Sequence() > after {
		row := make([]uint32, h.shape.width(min(len(now.Weights), MaxExperts)))
		h.fill(row, now)
		points = append(points, h.point(row, h.Sequence()))
	}
	return points
}

func (h *History) point(row []uint32, sequence uint64) Point {
	p := Point{Sequence: sequence, Moment: Moment{
		Time:   int64(uint64(row[timeHigh])<<32 | uint64(row[timeLow])),
		Regret: long(row[regret]), RegretBound: long(row[bound]), Dictionary: int(long(row[dictionary])),
	}}
	row = row[sums:]
	h.shape.read(&p, row)
	row = row[h.shape.figures():]
	if counts := h.shape.counts(); counts > 0 {
		p.Coverage = make([]float64, h.shape.Levels)
		scored := long(row[0])
		for level := range p.Coverage {
			p.Coverage[level] = long(row[1+level]) / scored // NaN of none.
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

// short returns v in 32 bits: the upper half of the double, rounded half to even. It
// returns nothing for a v that is not finite.
func short(v float64) uint32 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nothing
	}
	b := math.Float64bits(v)
	return uint32((b + 1<<31 - 1 + b>>32&1) >> 32)
}

func long(s uint32) float64 { return math.Float64frombits(uint64(s) << 32) }

// nothing is the short of an unknown number.
const nothing = 0x7ff80000

// A weight has 16 bits: its multiple of 1/wholeWeight, or noWeight. A word has two.
const (
	wholeWeight = 1<<16 - 2
	noWeight    = 1<<16 - 1
	noWeights   = 1<<32 - 1
)

// part returns a weight in 16 bits, 0 for a NaN.
func part(w float64) uint32 {
	if !(w > 0) {
		return 0
	}
	return uint32(math.Round(math.Min(w, 1) * wholeWeight))
}
