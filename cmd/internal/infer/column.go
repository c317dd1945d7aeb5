package infer

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/internal/dataset"
)

const (
	// How many texts of a column are kept, and how many bytes of them.
	maxCategories, maxTexts = 1_000, 1 << 16
	// The largest number of categories that get a feature each. Every feature costs the learner
	// observations: on streams with 100 to 1000 categories of equal frequencies, of Zipf's
	// frequencies, and with categories that come and go, 64 features lost less than 128 or 256.
	// Keys lose less than either, so that more categories have keys alone.
	ownFeatures = 64
	day         = 24 * time.Hour
)

// maxExact bounds the integers that a number of a record has all of.
const maxExact = 1 << 53

// spot counts cells and keeps the first.
type spot struct {
	count int
	cell  string
	line  int
}

// column is what is known of a column while the file is being read.
type column struct {
	name    string
	written *dataset.Numbers // How the file writes numbers.
	unit    string           // Of line; see dataset.Table.Unit.
	line    int              // Of the current cell.
	target  bool             // The cells are labels.
	// cells counts the cells that are not empty, gaps those among them that may stand for a
	// missing value; unknown counts the gaps of a target of classes.
	cells, gaps, unknown int
	// The counts of numbers and booleans leave out the gaps. Converted counts the numbers that a
	// record has without their sign of a currency or of percent, which is sign, or without what
	// separates thousands.
	numbers, integers, converted int
	sign                         string
	low, high                    float64
	pairs                        [booleanPairs]int
	truths                       int
	// codes are the numbers that begin with a 0, and huge the integers that are not less than
	// maxExact. The column does not show which numbers the ambiguous cells are. All other cells
	// that are no gaps are words.
	codes, huge, ambiguous, words spot
	// times are the forms that fit all cells since the last untimed cell; timed counts the cells
	// that have fit. An untimed cell fits no form that fits the cells before it.
	times   []span
	timed   int
	untimed spot
	// texts are the different cells whose hash begins with so many zero bits. Each of them
	// stands for 2^zeros cells: adaptive sampling, Flajolet, Computing 43 (1990).
	texts map[string]*tally
	zeros int
	bytes int // Of the texts.
	// long are the cells with more bytes than a category may have, longest is the length of the
	// longest. The broken cells are not UTF-8.
	long, broken spot
	longest      int
}

// span is what the times of a column are by one form.
type span struct {
	form        Form
	first, last time.Time
	before      time.Time
	descends    int
	ofDay       bool // Not all at the same time of the day.
}

// newColumn is column i of a table.
func newColumn(table *dataset.Table, i int) *column {
	c := &column{
		name: table.Columns()[i], written: table.Numbers(i), unit: table.Unit(),
		texts: make(map[string]*tally), low: math.Inf(1), high: math.Inf(-1),
	}
	c.restart()
	return c
}

// restart lets the times have any form.
func (c *column) restart() {
	c.times = c.times[:0]
	for _, f := range forms() {
		c.times = append(c.times, span{form: f})
	}
}

// see counts the current cell.
func (c *column) see(s *spot, cell string) {
	if s.count++; s.count == 1 {
		s.cell, s.line = strings.Clone(cell[:min(len(cell), maxText)]), c.line
	}
}

// place names the first cell of a spot.
func (c *column) place(s *spot) string { return fmt.Sprintf("%.40q in %s %d", s.cell, c.unit, s.line) }

// add takes in one cell of a row with a label.
func (c *column) add(cell string, y label) {
	c.count(cell)
	if _, err := dataset.Class(cell); c.target && err != nil {
		if cell != "" {
			c.unknown++
		}
		return
	}
	if cell != "" {
		c.addText(cell, y)
	}
}

// count counts one cell as what it may be.
func (c *column) count(cell string) {
	if cell == "" {
		return
	}
	c.cells++
	if dataset.IsGap(cell) {
		c.gaps++
		return
	}
	v, err := c.number(cell)
	switch {
	case err == nil:
		c.numbers++
		c.low, c.high = min(c.low, v), max(c.high, v)
		if v == math.Trunc(v) {
			c.integers++
		}
		if isCode(cell) {
			c.see(&c.codes, cell)
		}
	case errors.Is(err, errNoNumber):
		c.see(&c.words, cell)
	default:
		c.see(&c.ambiguous, cell)
	}
	if pair, v, ok := parseBoolean(cell); ok {
		c.pairs[pair]++
		if v {
			c.truths++
		}
	}
	c.addTime(cell)
}

// number reads a cell as a number. A column has numbers of one sign of a currency or of percent.
func (c *column) number(cell string) (float64, error) {
	v, plain, sign, err := parseWritten(cell, c.written)
	if err != nil {
		return 0, err
	}
	if sign != "" && c.sign != "" && sign != c.sign {
		return 0, errNoNumber
	}
	if sign != "" {
		c.sign = sign
	}
	if plain != cell {
		c.converted++
	}
	if math.Abs(v) >= maxExact && strings.Trim(plain, "+-0123456789") == "" {
		c.see(&c.huge, cell)
	}
	return v, nil
}

func (c *column) addText(cell string, y label) {
	c.longest = max(c.longest, len(cell))
	if len(cell) > maxText {
		c.see(&c.long, cell)
	}
	if !utf8.ValidString(cell) {
		c.see(&c.broken, cell)
	}
	if len(cell) > maxText || bits.LeadingZeros64(hash(cell)) < c.zeros {
		return
	}
	t, known := c.texts[cell]
	if !known {
		t = new(tally)
		c.bytes += len(cell)
		c.texts[strings.Clone(cell)] = t
	}
	if y.known {
		t.n, t.sum, t.squares = t.n+1, t.sum+y.value, t.squares+y.value*y.value
	}
	if known {
		return
	}
	for len(c.texts) > maxCategories || c.bytes > maxTexts {
		c.zeros++
		for text := range c.texts {
			if bits.LeadingZeros64(hash(text)) < c.zeros {
				c.bytes -= len(text)
				delete(c.texts, text)
			}
		}
	}
}

// different counts the different cells: exactly up to maxCategories short cells, and beyond
// with an error of 3 to 10 %.
func (c *column) different() int { return len(c.texts) << c.zeros }

// hash is FNV-1a and the finalizer of MurmurHash3.
func hash(text string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * 1099511628211
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// fewTimes is how many more cells may be untimed than timed, until the column is taken for none of
// times: each of them is tried with all forms.
const fewTimes = 16

func (c *column) addTime(cell string) {
	if len(c.times) == 0 {
		return
	}
	kept := c.times[:0]
	for _, s := range c.times {
		if t, ok := s.form.Parse(cell); ok {
			s.add(t)
			kept = append(kept, s)
		}
	}
	c.times = kept
	if len(kept) > 0 {
		c.timed++
		return
	}
	if c.see(&c.untimed, cell); c.untimed.count <= c.timed+fewTimes {
		c.restart()
	}
}

func (s *span) add(t time.Time) {
	if s.before.IsZero() {
		s.first, s.last, s.before = t, t, t
		return
	}
	if t.Before(s.before) {
		s.descends++
	}
	if t.Before(s.first) {
		s.first = t
	}
	if t.After(s.last) {
		s.last = t
	}
	hour, minute, second := t.Clock()
	h, m, sec := s.before.Clock()
	s.ofDay = s.ofDay || hour != h || minute != m || second != sec
	s.before = t
}

// decide infers the kind of the column of a file of so many rows.
func (c *column) decide(rows int) *Column {
	out := &Column{Name: c.name, numbers: c.written}
	values := c.cells - c.gaps
	converted, why := "", c.categories()
	switch {
	case c.cells == 0:
		out.Kind, out.Reason = LeftOut, "every cell is empty"
	case values == 0:
		c.decideCategory(out)
	case c.isBoolean(values):
		out.Kind, out.gaps = Boolean, true
		out.Reason = fmt.Sprintf("%d cells are true and %d false", c.truths, values-c.truths)
		if c.pairs[0]+c.pairs[booleanPairs-1] == 0 {
			converted = "true or false"
		}
		out.Input = &hindsightv1.Input{Kind: &hindsightv1.Input_Boolean{Boolean: &hindsightv1.BooleanInput{}}}
	case c.timed == values && (c.numbers < values || c.looksDated()):
		c.decideTime(out)
		if out.Form != forms()[0] {
			converted = "RFC 3339"
		}
	case why != "":
		n := c.different()
		out.Kind, out.gaps, out.integers = Category, true, true
		out.Reason = fmt.Sprintf("%d different integers%s%s", n, why, reasonOfNames(n))
		out.Input = declareNames(n)
	case c.numbers+c.ambiguous.count == values && c.ambiguous.count > 0:
		out.Kind, out.Reason = LeftOut, c.unclear().Error()
	case c.numbers == values && c.integers == values && c.huge.count > 0:
		c.decideCategory(out)
		out.gaps = true
	case c.numbers == values && c.codes.count == 0:
		c.decideNumber(out)
	default:
		c.decideCategory(out)
	}
	if odd := c.odd(values); odd != "" && (out.Kind == Category && !out.integers || out.Kind == LeftOut) {
		out.odd = true
		out.Reason += "; " + odd
	}
	if out.Input == nil {
		return out
	}
	if c.converted > 0 && (out.Kind == Number || out.integers) {
		converted = "the numbers alone"
	}
	out.Input.Name = c.name
	empty := rows - c.cells
	if out.gaps {
		empty += c.gaps
	}
	switch empty {
	case 0:
		out.Reason += "; no cell is empty, so that a missing value is refused"
		out.Input.Missing = hindsightv1.Input_MISSING_REFUSE
	case 1:
		out.Reason += "; 1 cell is empty"
	default:
		out.Reason += fmt.Sprintf("; %d cells are empty", empty)
	}
	if converted != "" {
		out.Reason += "; records have " + converted + ", into which replay converts them"
	}
	return out
}

// unclear is the error of the first ambiguous cell.
func (c *column) unclear() error {
	_, _, err := c.written.Plain(c.ambiguous.cell)
	return fmt.Errorf("%w, in %s %d", err, c.unit, c.ambiguous.line)
}

// odd names the cell without which a column would be one of times or numbers, if most cells are
// such, and is empty otherwise.
func (c *column) odd(values int) string {
	switch few := func(s *spot) bool { return s.count > 0 && 2*s.count < values }; {
	case 2*c.timed > values && c.timed < values:
		return fmt.Sprintf("%d of %d cells are times of one form, and %s is none", c.timed, values, c.place(&c.untimed))
	case c.mixed(values) && c.words.count > 0:
		return fmt.Sprintf("%d of %d cells are numbers, and %s is none", c.numbers, values, c.place(&c.words))
	case few(&c.codes):
		return fmt.Sprintf("%d of %d cells are numbers, and %s is a code, because it begins with a 0", values-c.codes.count, values, c.place(&c.codes))
	case few(&c.huge):
		return fmt.Sprintf("%d of %d cells are numbers, and %s is an id, because no number has all integers from 2^53 on", values-c.huge.count, values, c.place(&c.huge))
	default:
		return ""
	}
}

// isBoolean tells whether all values are of one pair, and both words of the pair occur.
func (c *column) isBoolean(values int) bool {
	return slices.Contains(c.pairs[:], values) && c.truths > 0 && c.truths < values
}

// looksDated tells whether numbers without punctuation are dates: several of them,
// and no other form of number.
func (c *column) looksDated() bool {
	return c.different() > 1 && c.integers == c.numbers
}

func (c *column) decideNumber(out *Column) {
	out.Kind, out.gaps = Number, true
	out.Input = &hindsightv1.Input{Kind: &hindsightv1.Input_Numeric{Numeric: &hindsightv1.NumericInput{}}}
	out.Reason = fmt.Sprintf("numbers from %g to %g", c.low, c.high)
	switch {
	case c.low == c.high:
		out.Reason = fmt.Sprintf("the same number, %g, in every row: it tells nothing", c.low)
	case c.integers == c.numbers && c.different() <= fewIntegers && !c.evidence().depend:
		out.Reason += fmt.Sprintf(", %d different integers: if they are codes without an order, make it categorical", c.different())
	}
}

// bestTime takes the first form that fits, unless the rows ascend by another form alone.
func (c *column) bestTime() span {
	best := c.times[0]
	for _, s := range c.times[1:] {
		if best.descends > 0 && s.descends == 0 {
			best = s
		}
	}
	return best
}

func (c *column) decideTime(out *Column) {
	best := c.bestTime()
	out.Kind, out.gaps, out.Form = Moment, true, best.form
	in := &hindsightv1.TimeInput{}
	var names []string
	cycle := func(long bool, c hindsightv1.TimeInput_Cycle, name string) {
		if long {
			in.Cycles, names = append(in.Cycles, c), append(names, name)
		}
	}
	length := best.last.Sub(best.first)
	out.Reason = fmt.Sprintf("times as %s from %s to %s", best.form, best.first.Format(time.DateOnly), best.last.Format(time.DateOnly))
	if c.swappable(best) {
		out.Reason += ", where day and month could also be swapped"
	}
	cycle(best.ofDay, hindsightv1.TimeInput_CYCLE_HOUR_OF_DAY, "hour_of_day")
	cycle(length >= 14*day, hindsightv1.TimeInput_CYCLE_DAY_OF_WEEK, "day_of_week")
	cycle(length >= 365*day, hindsightv1.TimeInput_CYCLE_DAY_OF_YEAR, "day_of_year")
	// Cycles repeat; a trend distinguishes the repetitions.
	trend := length >= 365*day || len(in.GetCycles()) == 0
	out.Reason += fmt.Sprintf(", %d days: %s", int(length/day), strings.Join(names, ", "))
	if trend {
		in.Trend = &trend
		out.Reason = strings.TrimSuffix(out.Reason, " ") + " and a trend"
	}
	out.Input = &hindsightv1.Input{Kind: &hindsightv1.Input_Time{Time: in}}
}

// swappable tells whether an equally good form reads other times from the cells.
func (c *column) swappable(best span) bool {
	return slices.ContainsFunc(c.times, func(s span) bool {
		return (s.descends == 0) == (best.descends == 0) && (!s.first.Equal(best.first) || !s.last.Equal(best.last))
	})
}

func (c *column) decideCategory(out *Column) {
	out.Kind = Category
	n := c.different()
	switch {
	case c.broken.count > 0:
		out.Kind, out.Reason = LeftOut, fmt.Sprintf("texts that are not UTF-8, such as %s: convert the file", c.place(&c.broken))
		return
	case c.long.count > 0:
		out.Kind, out.Reason = LeftOut, fmt.Sprintf("texts of up to %d bytes, such as that in %s %d; a category has at most %d", c.longest, c.unit, c.long.line, maxText)
		return
	case n > ownFeatures && 2*n > c.cells:
		out.Kind, out.Reason = LeftOut, "most cells do not repeat another: it names the row"
		return
	}
	reason := "texts,"
	if c.numbers == c.cells-c.gaps && c.numbers > 0 {
		reason = "codes with a leading 0,"
		if c.codes.count == 0 {
			reason = "ids, because no number has all integers from 2^53 on,"
		}
	}
	if c.zeros > 0 {
		reason += " about"
	}
	out.Reason = fmt.Sprintf("%s %d categories", reason, n)
	out.Reason += reasonOfNames(n)
	if n == 1 {
		out.Reason = "the same text in every row: it tells nothing"
	}
	out.Input = declareNames(n)
}
