package gate

import "math"

const (
	// The memory of the means m and a, in labels.
	memory = 100
	// A label further than strangeFactor·s (1 + caution/n) from m is strange.
	strangeFactor = 20
	caution       = 50
	purgeFactor   = 50
	// The labels have shrunk when shrinkFactor·a < A and v > leastMoves after shrinkRows rows,
	// v being a mean of memory 1/movesRate. Labels that stand still for a while, such as
	// the labels of a night, have not shrunk.
	shrinkFactor = 20
	shrinkRows   = 1000
	movesRate    = 0.02
	leastMoves   = 0.1
)

// tracker follows the learned labels of an output in a start.
type tracker struct {
	// mean is m, the mean of the last labels, near is a, the mean of the last |y − m|, and
	// far is A, the mean of all |y − m|.
	mean, near, far float64
	// moves is v, the share of the last labels that differ from the one before; last is the newest.
	moves, last float64
	// repeats counts the labels equal to the label before.
	repeats uint64
	// values are the first two values of the labels. distinct counts the values up to 3.
	values   [2]float64
	distinct uint64
	// Labels in admitted are learned, whatever m and s. met is around the labels set aside.
	admitted, met span
}

// span is the labels from low to high: none if low > high.
type span struct{ low, high float64 }

func noSpan() span { return span{low: 1, high: -1} }

func (s *span) has(y float64) bool { return y >= s.low && y <= s.high }

// stretch adds the labels on the side of y up to twice its distance from the mean.
func (s *span) stretch(y, mean float64) {
	edge := y + (y - mean)
	s.join(span{low: math.Min(mean, edge), high: math.Max(mean, edge)})
}

// join makes the span the least one around both.
func (s *span) join(other span) {
	switch {
	case other.low > other.high:
	case s.low > s.high:
		*s = other
	default:
		s.low, s.high = math.Min(s.low, other.low), math.Max(s.high, other.high)
	}
}

// twoValued reports whether the labels have at most two values. Such labels have no outliers.
func (t *tracker) twoValued() bool { return t.distinct <= 2 }

func (t *tracker) still(n uint64) bool { return float64(t.repeats) >= leastRepeats*float64(n) }

// scale is s = max(a, A).
func (t *tracker) scale() float64 { return math.Max(t.near, t.far) }

// size is |y − m|/s, at most maxSize, 0 if s = 0.
func (t *tracker) size(y float64) float64 {
	if s := t.scale(); s > 0 {
		return math.Min(maxSize, math.Abs(y-t.mean)/s)
	}
	return 0
}

// strange reports whether to set a label of a size aside after n labels.
func (t *tracker) strange(y, size float64, n uint64) bool {
	return !t.allowed(y) && t.beyond(y, size, n)
}

// outside reports whether a label lies far outside the n earlier labels.
func (t *tracker) outside(y float64, n uint64) bool { return t.beyond(y, t.size(y), n) }

func (t *tracker) beyond(y, size float64, n uint64) bool {
	if !(size > float64(strangeFactor*(1+caution/float64(n)))) {
		return false
	}
	return !t.twoValued() || (t.distinct == 2 && y != t.values[0] && y != t.values[1])
}

func (t *tracker) allowed(y float64) bool { return t.admitted.has(y) }

// allow admits the labels on the side of y up to twice its distance from m. It does nothing
// for a label that is not strange.
func (t *tracker) allow(y float64, n uint64) {
	if t.outside(y, n) {
		t.admitted.stretch(y, t.mean)
	}
}

// meet stretches met around a label that is set aside, and reports whether it did.
func (t *tracker) meet(y float64, n uint64) bool {
	if t.met.has(y) || !t.outside(y, n) {
		return false
	}
	t.met.stretch(y, t.mean)
	return true
}

func (t *tracker) learn(y float64, n uint64) {
	t.count(y)
	if n == 0 {
		t.mean, t.last = y, y
		return
	}
	d, count := math.Abs(y-t.mean), float64(n)
	t.near += float64(math.Max(1.0/memory, 1/count) * (d - t.near))
	t.far += (d - t.far) / count
	t.mean += float64(math.Max(1.0/memory, 1/(count+1)) * (y - t.mean))
	moved := 0.0
	if y == t.last {
		t.repeats++
	} else {
		moved = 1
	}
	t.moves += float64(movesRate * (moved - t.moves))
	t.last = y
}

func (t *tracker) count(y float64) {
	for _, v := range t.values[:min(t.distinct, 2)] {
		if y == v {
			return
		}
	}
	if t.distinct < 2 {
		t.values[t.distinct] = y
	}
	t.distinct = min(t.distinct+1, 3)
}

func (t *tracker) shrunk(n uint64) bool {
	return n > shrinkRows && !t.twoValued() && float64(shrinkFactor*t.near) < t.far && t.moves > leastMoves
}
