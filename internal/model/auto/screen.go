package auto

import (
	"math"
	"slices"

	"hindsight/internal/model/loops"
	"hindsight/internal/model/wide"
)

// screen chooses the inputs of the levels among many: factors, maps, trees and neighbors pay for
// every input and lose by inputs that say nothing. All inputs stay in the regressions of package
// wide, which are experts of level 1.
//
// Categories and cycles are inputs of the levels always. The numbers compete for screenSlots
// slots by the largest of these correlations in magnitude, of the scaled input z, the label y, and
// the miss r of a lasso on all inputs, over the labels:
//
//	z, y        what is linear
//	|z|, r      what is even
//	z, |r|      what the noise grows with
//	|z|, |r|    products of inputs
//
// and of the input's weight in the lasso. A slot is empty, the number 0, unless the score is
// significant. The kept rows choose up to row lastScreening. From then on each doubling of the
// rows exchanges what has become significant and what is so no more.
//
// Source: Fan and Lv, Sure independence screening for ultrahigh dimensional feature space (JRSS B
// 70, 2008).
type screen struct {
	// slots are the inputs in the slots of the levels, none of an empty slot. Those of categories
	// and cycles come first, and stay.
	slots []int
	// from is the first slot of a number.
	from int
	// counted is Σω of the sums. For each output, products has Σω of the products of the four
	// pairs, by inputs, squares and seconds Σω of the squares of their second parts and of the second
	// parts, and spread the mean of |r|.
	// magnitudes are Σω|z|.
	counted    float64
	products   [][]float64
	squares    []float64
	seconds    []float64
	spread     []float64
	magnitudes []float64
	wide       *wide.Regressions
}

const (
	mostNumbers   = 20 // That are not screened.
	screenSlots   = 30
	none          = -1
	lastScreening = 512 // The last row at which the kept rows are learned anew.
	// An input enters a slot from a score of √(entering ln d / n) on, and leaves below the same with
	// leaving. Noise in the slots costs the maps more than a weak input that waits.
	entering, leaving = 1.5, 0.5
	mostScore         = 5 // Of a label or a miss, in deviations.
	pairs             = 4
	mostPaired        = 4 // With more outputs the screen has the first pair alone.
)

func (o Options) inputs() int {
	if o.whole > 0 {
		return o.whole
	}
	return o.Dimension
}

// fixed are the inputs that are in the levels always, in order.
func (o Options) fixed() (inputs []int) {
	for _, span := range o.Joint {
		for j := span.From; j < span.To; j++ {
			inputs = append(inputs, j)
		}
	}
	for _, j := range o.Cycles {
		inputs = append(inputs, j, j+1)
	}
	slices.Sort(inputs)
	return inputs
}

// screened are the options with the inputs of the levels, if there are so many numbers that they
// are screened. Numbers that are flags are in the levels as numbers.
func (o Options) screened() Options {
	fixed := o.fixed()
	if o.Dimension-len(fixed) <= mostNumbers {
		return o
	}
	n := o
	n.whole, n.wholeJoint, n.fixedInputs = o.Dimension, o.Joint, fixed
	n.Dimension = len(fixed) + screenSlots
	n.Joint, n.Cycles, n.Flags = nil, nil, nil
	at := func(j int) int { i, _ := slices.BinarySearch(fixed, j); return i }
	for _, s := range o.Joint {
		n.Joint = append(n.Joint, Span{at(s.From), at(s.From) + s.To - s.From})
	}
	for _, j := range o.Cycles {
		n.Cycles = append(n.Cycles, at(j))
	}
	return n
}

func (o Options) joint() []Span {
	if o.whole > 0 {
		return o.wholeJoint
	}
	return o.Joint
}

func (o Options) wide() wide.Options {
	return wide.Options{Features: o.whole + o.lags()*o.Outputs + 1, Outputs: o.Outputs}
}

func (o Options) wideFlops() (observe, predict uint64) {
	if o.whole == 0 {
		return 0, 0
	}
	observe, predict = o.wide().Flops()
	return observe + 40*uint64(o.whole) + uint64(6*o.screenPairs()*o.Outputs*o.whole), predict + 20*uint64(o.whole)
}

func (o Options) wideBytes() uint64 {
	if o.whole == 0 {
		return 0
	}
	scratch := 2*o.wide().Features + o.Outputs*o.wide().Experts()
	return o.wide().Bytes() + 8*uint64(o.screenPairs()*o.Outputs*o.whole+o.whole+2*o.Dimension+scratch)
}

func (o Options) screenPairs() int {
	if o.Outputs > mostPaired {
		return 1
	}
	return pairs
}

func newScreen(o Options) *screen {
	if o.whole == 0 {
		return nil
	}
	c := &screen{slots: slices.Clone(o.fixedInputs), from: len(o.fixedInputs), wide: wide.New(o.wide())}
	for range screenSlots {
		c.slots = append(c.slots, none)
	}
	c.clear(o)
	return c
}

func (c *screen) clear(o Options) {
	c.counted, c.products, c.spread = 0, make([][]float64, o.screenPairs()*o.Outputs), make([]float64, o.Outputs)
	c.magnitudes, c.squares, c.seconds = make([]float64, o.whole), make([]float64, len(c.products)), make([]float64, len(c.products))
	for i := range c.products {
		c.products[i] = make([]float64, o.whole)
	}
}

// wideScratch has the scaled inputs, the lags and 1; scaled labels and what the regressions say, by
// outputs; and the magnitudes of the inputs.
type wideScratch struct{ z, labels, said, magnitudes, inner []float64 }

func newWideScratch(o Options) *wideScratch {
	if o.whole == 0 {
		return nil
	}
	w := o.wide()
	s := &wideScratch{
		z: make([]float64, w.Features), labels: make([]float64, o.Outputs), said: make([]float64, o.Outputs*w.Experts()),
		magnitudes: make([]float64, o.whole), inner: make([]float64, o.Dimension),
	}
	s.z[w.Features-1] = 1
	return s
}

// presentAll writes the scaled inputs and the inputs of the levels.
func (l *Learner) presentAll(s *scratch, x []float64) {
	z := s.wide.z
	l.inputs.scaled(z[:len(x)], x)
	s.inner = l.innerOf(s, x)
	for i, j := range l.screen.slots {
		s.columns[i] = 0
		if j != none {
			s.columns[i] = z[j]
		}
	}
}

// innerOf are the inputs of the levels among all numeric inputs. They may be in the scratch.
func (l *Learner) innerOf(s *scratch, x []float64) []float64 {
	if l.screen == nil {
		return x
	}
	dst := s.wide.inner
	for i, j := range l.screen.slots {
		dst[i] = 0
		if j != none {
			dst[i] = x[j]
		}
	}
	return dst
}

func (l *Learner) scaleOf(input int) float64 {
	if l.screen != nil {
		if input = l.screen.slots[input]; input == none {
			return 1
		}
	}
	return l.inputs.scale[input]
}

func (l *Learner) meanOf(input int) float64 {
	if l.screen != nil {
		if input = l.screen.slots[input]; input == none {
			return 0
		}
	}
	return l.inputs.Mean(input)
}

// cutOf moves a strange value of an input of the levels to its limit: see moments.Table.Cut.
func (l *Learner) cutOf(input int, v float64) float64 {
	if l.screen != nil {
		if input = l.screen.slots[input]; input == none {
			return v
		}
	}
	return l.inputs.Cut(input, v)
}

// slotOf is the input of the levels that an input is, or none.
func (l *Learner) slotOf(input int) int {
	if l.screen == nil {
		return input
	}
	return slices.Index(l.screen.slots, input)
}

// adviseWide writes the advice of the regressions on all inputs.
func (l *Learner) adviseWide(s *scratch) {
	w := s.wide
	experts, k := len(l.plan.wide), l.plan.experts()
	for j := range l.mixers {
		said := w.said[j*experts:][:experts]
		l.screen.wide.Predict(said, w.z, j)
		for i, v := range said {
			s.advice[(j+1)*k-experts+i] = l.mixers[j].label(v)
		}
	}
}

// learnWide teaches the regressions and the sums a row whose advice is in the scratch.
func (l *Learner) learnWide(s *scratch, r row) {
	w, c := s.wide, l.screen
	for j, y := range r.y {
		w.labels[j] = l.mixers[j].scaledLabel(y)
	}
	l.screen.add(w, l.o, r.counts)
	c.wide.Learn(w.z, w.labels, w.said, r.counts)
}

// add adds a row to the sums.
func (c *screen) add(w *wideScratch, o Options, counts float64) {
	z := w.z[:o.whole]
	for j, v := range z {
		w.magnitudes[j] = math.Abs(v)
	}
	c.counted += counts
	loops.Axpy(c.magnitudes, w.magnitudes, counts)
	experts, each := o.wide().Experts(), o.screenPairs()
	for j, y := range w.labels {
		sums := c.products[j*each:][:each]
		y = within(y, -mostScore, mostScore)
		squares, seconds := c.squares[j*each:][:each], c.seconds[j*each:][:each]
		squares[0] += float64(counts * float64(y*y))
		loops.Axpy(sums[0], z, float64(counts*y))
		if each == 1 {
			continue
		}
		miss := within(w.labels[j]-w.said[j*experts+screener], -mostScore, mostScore)
		size := math.Abs(miss)
		c.spread[j] += float64(counts*(size-c.spread[j])) / c.counted
		size -= c.spread[j]
		squares[1] += float64(counts * float64(miss*miss))
		squares[2] += float64(counts * float64(size*size))
		squares[3] = squares[2]
		seconds[1] += float64(counts * miss)
		seconds[3] += float64(counts * size)
		loops.Axpy(sums[1], w.magnitudes, float64(counts*miss))
		loops.Axpy(sums[2], z, float64(counts*size))
		loops.Axpy(sums[3], w.magnitudes, float64(counts*size))
	}
}
