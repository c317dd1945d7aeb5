package moments

import (
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
)

// Table standardizes the columns of rows that come one by one. A row counts ω, 0 < ω <= 1. A
// column keeps the mean m and the deviation s of its values, with these rules:
//
//   - A value further than 12 (1 + 50/n) s from m is strange, n = Σω of the column, unless the
//     column has learned a value as far on that side. The moments leave strange values out, and
//     Cut moves them to the greater of both distances.
//   - A strange value adds ω to an alarm, any other subtracts ω unless it is the value before: the
//     zeros of a sparse column say nothing of its other values. At an alarm of 20 the
//     strange values are a lasting change: the values before then count one row together. If
//     the strange values are those before times a power of ten, as nearly as the rows tell, an
//     alarm of 10 says that the unit has changed: the values before count at most 2,000 rows
//     together, in the new unit.
//   - A change may be a burst: a failing sensor, an hour of extreme prices. For 1,000 rows the
//     column remembers the mean and the deviation before the change. A value within 3 of these
//     deviations of this mean has returned, if it is also strange or the deviation has not
//     shrunk. It adds ω to a second alarm, any other subtracts 2 ω. At 20 the change is undone: the
//     column has the moments before the change again, which count 4 less for each row since. With
//     fewer the change stays, so that a column that alternates learns both regimes.
//     Strange values whose deviation is below s/12 are a sentinel, and no change.
//   - Cut moves a strange value that is equal to the last one to 2 s from m: a sentinel says that a
//     value is missing, at a small leverage. Cut moves others to m above ten times the distance
//     from which on a value is strange: they say nothing.
//   - Strange values that carry more than half of Σω(x − m)² are no errors, such as the rare
//     ones of an indicator: they count as all others do, and Cut keeps them.
//   - Every 1,000 rows a column compares the rows of this block with all rows. A block whose
//     mean is off by more than 2 s, or whose deviation is above 4 s, lets all rows count half:
//     a half-life of 1,000 rows while the column changes. A column that swings with the
//     seasons, or whose flag is rare, forgets nothing.
//   - A block whose values move in half of its rows and whose mean square is below 10⁻⁴ of
//     the mean square of all rows is a lasting change: the unit has grown.
//   - A value is small below 1/30 of the root mean square, after a move below 1/30 of the mean
//     move. If 10 small values in a row are those before times a power of ten, the unit has grown
//     too. That happens once to a column, and never after 20 small values that ended: the column
//     has quiet times, such as nights.
//
// It costs O(1) a value.
type Table struct {
	columns []column
	// changes are those that the last row made.
	changes []Change
}

// Change is a change of the unit of a column: v has become Factor v + Shift.
type Change struct {
	Column        int
	Factor, Shift float64
}

// sample are the moments of numbers that count total together.
type sample struct {
	Exact
	total float64
}

// regime is what a column knows since its last change: 0 <= far <= Squares, low <= high.
type regime struct {
	sample
	// far is the part of Squares of values that were strange or would be now.
	far       float64
	low, high float64
	// step is the mean move.
	step float64
}

// column: 0 <= alarm, back <= lasting, 0 <= moved <= block.total < blockRows.
type column struct {
	now regime
	// past is the regime before the last change, while the change may be a burst. The change
	// was of factor and shift. back is the alarm of the values that have returned.
	past                regime
	factor, shift, back float64
	// alarm is the alarm of the strange values in other.
	alarm float64
	other sample
	// odd is the last strange value, 0 before the first.
	odd float64
	// block are the values since the last comparison. moved counts changes of the value, which is last.
	block       sample
	moved, last float64
	// small are the last values if they are small. quiet says that small values are no change of
	// the unit any more.
	small sample
	quiet bool
	// scale is the deviation, 0 of a constant column.
	scale float64
}

const (
	strangeLimit = 12
	caution      = 50
	// A change has an alarm of lasting, of sure if it is a power of ten.
	lasting = 20
	sure    = 10
	// A value this many deviations before a change off the mean before has returned. A value
	// that has not subtracts doubt ω.
	usual = 3
	doubt = 2
	// An undone change costs the rows before it price for each row since.
	price      = 4
	sentinelAt = 2
	beyond     = 10
	// After a lasting change the values before count remembered rows together, after one by a
	// power of ten trusted ones. Ratios of mean squares tell a power up to a factor of likely.
	remembered = 1
	trusted    = 2000
	likely     = 1.5

	blockRows = 1000
	// A block lets the rows count half at leastGap deviations off, or leastRate times the deviation.
	leastGap  = 2
	leastRate = 4
	// The unit has grown if the mean square of a block is below shrunk times the mean square of all rows.
	shrunk = 1e-4
	// A small value and its move are tiny times below the root mean square and the mean move.
	tiny = 30

	// A deviation below leastScale, whose square is out of range, counts as none.
	leastScale = 1e-150
)

// NewTable is a table without rows.
func NewTable(columns int) Table { return Table{columns: make([]column, columns)} }

// Columns is the number of columns.
func (t *Table) Columns() int { return len(t.columns) }

// Numbers is how many numbers a column keeps.
const Numbers = 36

// Add takes a row that counts ω.
func (t *Table) Add(x []float64, counts float64) {
	t.changes = t.changes[:0]
	for j, v := range x {
		if made := t.columns[j].add(v, counts); made.Factor != 0 {
			made.Column = j
			t.changes = append(t.changes, made)
		}
	}
}

// Changes are the changes that the last row made, valid until the next row.
func (t *Table) Changes() []Change { return t.changes }

// Mean is m of a column, 0 before the first row.
func (t *Table) Mean(column int) float64 { return t.columns[column].now.Mean.Value() }

// Total is n of a column, Σω.
func (t *Table) Total(column int) float64 { return t.columns[column].now.total }

// Deviation is s of a column, 0 of one that has not changed but by rounding.
func (t *Table) Deviation(column int) float64 { return t.columns[column].scale }

// Cut moves a strange value to the limit.
func (t *Table) Cut(column int, v float64) float64 {
	c := &t.columns[column]
	if !c.strange(v) || c.heavy() {
		return v
	}
	mean, far := c.now.Mean.Value(), float64(c.limit()*c.scale)
	switch {
	case v == c.odd:
		return mean + math.Copysign(float64(sentinelAt*c.scale), v-mean)
	case math.Abs(v-mean) > float64(beyond*far):
		return mean
	}
	if v > c.now.high {
		return math.Max(c.now.high, mean+far)
	}
	return math.Min(c.now.low, mean-far)
}

// limit is how many deviations off the mean a value is strange.
func (c *column) limit() float64 { return strangeLimit * (1 + caution/c.now.total) }

// strange is false of every value without a deviation.
func (c *column) strange(v float64) bool {
	return c.scale > 0 && (v < c.now.low || v > c.now.high) && math.Abs(v-c.now.Mean.Value()) > float64(c.limit()*c.scale)
}

// heavy reports whether strange values carry the deviation.
func (c *column) heavy() bool { return 2*c.now.far > c.now.Squares }

// returned reports whether a value lies where the values before the last change lay.
func (c *column) returned(v float64) bool {
	s := c.past.Deviation(c.past.total)
	return math.Abs(v-c.past.Mean.Value()) <= float64(usual*s) && (s <= c.scale || c.strange(v))
}

// undo makes the regime before the last change the present one, if the regime can pay for that.
func (c *column) undo() (made Change) {
	part := 1 - float64(price*c.block.total)/c.past.total
	if part <= 0 {
		c.forgetPast()
		c.quiet = true
		return made
	}
	made = Change{Factor: 1 / c.factor, Shift: -c.shift / c.factor}
	c.now = c.past
	c.now.keep(part)
	c.now.far *= part
	c.forgetPast()
	c.alarm, c.other = 0, sample{}
	c.block, c.moved = sample{}, 0
	c.rescale()
	return made
}

func (c *column) forgetPast() { c.past, c.factor, c.shift, c.back = regime{}, 0, 0, 0 }

// add takes a value. The change is of factor 0 if none was made.
func (c *column) add(v, counts float64) (made Change) {
	switch {
	case c.past.total == 0 || v == c.last:
	case !c.returned(v):
		c.back = math.Max(0, c.back-float64(doubt*counts))
	default:
		if c.back += counts; c.back >= lasting {
			if made = c.undo(); made.Factor != 0 {
				return made
			}
		}
	}
	switch {
	case !c.strange(v):
		if made = c.shrink(v, counts); made.Factor != 0 {
			return made
		}
		if v == c.last && c.alarm > 0 {
			break
		}
		if c.alarm = math.Max(0, c.alarm-counts); c.alarm == 0 {
			c.other = sample{}
		}
	case !c.heavy():
		c.alarm += counts
		c.odd = v
		c.other.add(v, counts)
		if c.lasts(&c.other, c.alarm) {
			made = c.change(&c.other, v)
		}
		c.alarm = math.Min(c.alarm, lasting)
		return made
	}
	mean, squares := c.now.Mean.Value(), c.now.Squares
	c.now.add(v, counts)
	if c.now.total > counts {
		c.now.step += float64(counts*(math.Abs(v-c.last)-c.now.step)) / c.now.total
	}
	c.rescale()
	// The first value of another kind makes the deviation by which it is strange.
	if math.Abs(v-mean) > float64(c.limit()*c.scale) {
		c.now.far = math.Min(c.now.Squares, c.now.far+math.Max(0, c.now.Squares-squares))
	}
	if c.block.total > 0 && v != c.last {
		c.moved += counts
	}
	if c.last = v; c.now.total == counts {
		c.now.low, c.now.high = v, v
	}
	c.now.low, c.now.high = math.Min(c.now.low, v), math.Max(c.now.high, v)
	if c.block.add(v, counts); c.block.total >= blockRows {
		return c.compare()
	}
	return Change{}
}

// shrink follows a value that is not strange.
func (c *column) shrink(v, counts float64) Change {
	move := math.Abs(v - c.last)
	switch {
	case c.quiet || move == 0:
	case float64(tiny*move) > c.now.step || float64(tiny*math.Abs(v)) > size(c.now.Mean.Value(), c.scale):
		c.quiet = c.small.total >= lasting
		c.small = sample{}
	default:
		if c.small.add(v, counts); c.small.total < sure {
			break
		}
		if _, ok := c.power(&c.small); ok {
			c.quiet = true
			return c.change(&c.small, v)
		}
	}
	return Change{}
}

// lasts reports whether values of an alarm are a change.
func (c *column) lasts(values *sample, alarm float64) bool {
	if alarm < sure || c.sentinel() {
		return false
	}
	_, ok := c.power(values)
	return ok || alarm >= lasting
}

func (c *column) sentinel() bool {
	return float64(strangeLimit*c.other.Deviation(c.other.total)) <= c.scale
}

// change makes the sample, whose newest value is v, the present values. It costs O(1), beside
// a power of ten of at most 400 steps.
func (c *column) change(to *sample, v float64) Change {
	before, mean, scale := c.now, c.now.Mean.Value(), c.scale
	factor, ok := c.power(to)
	if ok {
		c.now.Mean.Scale(factor)
		c.now.Squares = float64(float64(c.now.Squares*factor) * factor)
		c.now.keep(math.Min(1, trusted/c.now.total))
	} else {
		c.now.keep(math.Min(1, remembered/c.now.total))
	}
	c.now.join(to)
	c.rescale()
	shift := 0.0
	if !ok {
		factor = c.scale / scale
		shift = c.now.Mean.Value() - float64(factor*mean)
	}
	c.now.far, c.now.low, c.now.high = 0, v, v
	c.alarm, c.other, c.small = 0, sample{}, sample{}
	c.block, c.moved = sample{}, 0
	c.last = v
	c.now.step = math.Min(float64(c.now.step*factor), 2*model.MaxMagnitude)
	if c.forgetPast(); factor > 0 {
		c.past, c.factor, c.shift = before, factor, shift
	}
	return Change{Factor: factor, Shift: shift}
}

// power is the power of ten that takes the values to the values of the sample.
func (c *column) power(to *sample) (factor float64, ok bool) {
	mean, deviation := to.Mean.Value(), to.Deviation(to.total)
	ratio := size(mean, deviation) / size(c.now.Mean.Value(), c.scale)
	factor = 1
	for range 200 {
		switch {
		case ratio > float64(likely*factor):
			factor *= 10
		case float64(likely*ratio) < factor:
			factor /= 10
		}
	}
	scale := float64(factor * c.scale)
	return factor, ratio <= float64(likely*factor) && float64(likely*ratio) >= factor && factor != 1 &&
		math.Abs(mean-float64(factor*c.now.Mean.Value())) <= scale && deviation <= 2*scale && 2*deviation >= scale
}

// size is the root of the mean square, of the same bits on every machine, unlike math.Hypot.
func size(mean, deviation float64) float64 {
	return math.Sqrt(float64(mean*mean) + float64(deviation*deviation))
}

func (c *column) compare() (made Change) {
	mean, own, before := c.now.Mean.Value(), c.block.Mean.Value(), c.scale
	deviation := c.block.Deviation(c.block.total)
	gap := math.Abs(own - mean)
	c.forgetPast()
	switch {
	case 2*c.moved >= c.block.total && shrunk*(float64(mean*mean)+float64(before*before)) > float64(own*own)+float64(deviation*deviation):
		made = c.change(&c.block, c.last)
	case gap > float64(leastGap*before) || deviation > float64(leastRate*before):
		c.now.keep(0.5)
		c.now.far = math.Min(c.now.Squares, c.now.far/2)
	}
	c.block, c.moved = sample{}, 0
	c.rescale()
	return made
}

func (c *column) rescale() {
	c.scale = c.now.Deviation(c.now.total)
	if c.scale < leastScale || c.scale <= float64(Rounding*math.Abs(c.now.Mean.Value())) {
		c.scale = 0
	}
}

func (s *sample) add(v, counts float64) {
	s.total += counts
	s.Add(v, counts, s.total)
}

// keep lets all numbers count less.
func (s *sample) keep(part float64) {
	s.total *= part
	s.Squares *= part
}

// join adds the numbers of another sample.
//
// Source: Chan, Golub and LeVeque, The American Statistician 37 (1983).
func (s *sample) join(o *sample) {
	total := s.total + o.total
	off := ((o.Mean.High - s.Mean.High) - s.Mean.Low) + o.Mean.Low
	s.Mean.Add(float64(off * (o.total / total)))
	s.Squares += o.Squares + float64(float64(off*off)*float64(s.total*(o.total/total)))
	s.total = total
}

// Limits of the numbers in a state: 2⁶⁴ values count at most 1 each, and a sum of squares is
// of 2⁶⁴ times (2e100)².
const (
	maxCounted = 1e20
	maxSquares = 1e221
)

// Visit visits the columns. The scales follow from them.
func (t *Table) Visit(v *codec.Visitor) {
	for j := range t.columns {
		t.columns[j].visit(v, j)
	}
}

func (c *column) visit(v *codec.Visitor, at int) {
	for _, s := range [...]*sample{&c.now.sample, &c.past.sample, &c.other, &c.block, &c.small} {
		v.Within(2*model.MaxMagnitude, &s.Mean.High, &s.Mean.Low)
		v.Within(maxSquares, &s.Squares)
		v.Within(maxCounted, &s.total)
		if v.Reading() && (s.Squares < 0 || s.total < 0 || s.total == 0 && *s != sample{}) {
			v.Corrupt("column %d: %g rows with a sum of squares of %g", at, s.total, s.Squares)
		}
	}
	for _, r := range [...]*regime{&c.now, &c.past} {
		v.Within(maxSquares, &r.far)
		v.Within(model.MaxMagnitude, &r.low, &r.high)
		v.Within(2*model.MaxMagnitude, &r.step)
		if v.Reading() && (r.step < 0 || r.low > r.high || r.far < 0 || r.far > r.Squares) {
			v.Corrupt("column %d: a range from %g to %g, a part of %g of %g", at, r.low, r.high, r.far, r.Squares)
		}
	}
	v.Within(math.MaxFloat64, &c.factor, &c.shift)
	v.Within(lasting, &c.alarm, &c.back)
	v.Within(blockRows, &c.moved)
	v.Within(model.MaxMagnitude, &c.last, &c.odd)
	v.Bool(&c.quiet)
	if !v.Reading() {
		return
	}
	if c.alarm < 0 || c.back < 0 || c.moved < 0 || c.moved > c.block.total || c.block.total >= blockRows {
		v.Corrupt("column %d: alarms of %g and %g, %g of %g rows moved", at, c.alarm, c.back, c.moved, c.block.total)
	}
	if (c.past.total > 0) != (c.factor > 0) {
		v.Corrupt("column %d: a change of factor %g after %g rows", at, c.factor, c.past.total)
	}
	if c.rescale(); !(c.scale <= 4*model.MaxMagnitude) {
		v.Corrupt("column %d: a deviation of %g", at, c.scale)
	}
}
