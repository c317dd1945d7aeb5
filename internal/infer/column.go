package infer

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/dataset"
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
	mixed bool // Not all are the same.
}

// column is what is known of a column while the file is being read.
type column struct {
	name    string
	written *dataset.Numbers // How the file writes numbers.
	unit    string           // Of line; see dataset.Table.Unit.
	line    int              // Of the current cell.
	target  bool             // The cells are labels.
	textual bool             // The cells are texts, whatever they look like.
	unnamed bool             // See dataset.Table.Unnamed.
	// cells counts the cells that are not empty, gaps those among them that may stand for a
	// missing value; unknown counts the gaps among texts.
	cells, gaps, unknown int
	// The counts of numbers and booleans leave out the gaps.
	numbers, integers   int
	converted, plain    string // The first number that a record has in another form, and that form.
	low, high           float64
	lowExact, highExact float64 // Of the numbers but the huge ones.
	beyond              int     // Those among the words that are numbers of a magnitude beyond largest.
	pairs               [booleanPairs]int
	truths              int
	// codes are the numbers that begin with a 0, and huge the integers that are not less than
	// maxExact. The column does not show which numbers the ambiguous cells are. All other cells
	// that are no gaps are words.
	codes, huge, ambiguous, words spot
	bare                          spot // Numbers as records have them.
	// width is the length of the integers, -1 if they have several.
	width int
	// times are what the cells are by each form that fits most of them.
	times   []span
	untimed spot  // They fit no form.
	ordered *bool // The day is first in dates, by the spec or by other columns, or the month; nil if that is not known.
	// texts are the different cells whose hash begins with so many zero bits. Each of them
	// stands for 2^zeros cells: adaptive sampling, Flajolet, Computing 43 (1990).
	texts map[string]*tally
	zeros int
	bytes int // Of the texts.
	// long are the cells with more bytes than a category may have, longest is the length of the
	// longest. The broken cells are not UTF-8.
	long, broken spot
	longest      int
	// sentences counts the cells of several words.
	sentences int
	objects   int               // The cells that are objects of JSON.
	frames    map[string]*frame // See framed.
	framed    int               // The cells that have a frame.
}

// several words are a sentence: names and addresses mostly have fewer, or repeat.
const several = 4

// isSentence reports whether a text has several words, at least half of them with letters.
func isSentence(cell string) bool {
	words, numbers := strings.Fields(cell), 0
	for _, word := range words {
		if !strings.ContainsFunc(word, unicode.IsLetter) {
			numbers++
		}
	}
	return len(words) >= several && 2*numbers <= len(words)
}

// span is what the times of a column are by one form. The odd cells do not fit. The open cells stand
// for no time.
type span struct {
	form        Form
	fits, open  int
	odd         spot
	first, last time.Time
	before      time.Time
	descends    int
	ofDay       bool   // Not all at the same time of the day.
	converted   bool   // Not all are written as in records.
	dated       int    // How many are not seasons.
	daily       bool   // Not all are the first of a month.
	weekdays    bool   // Not all are on the same day of the week.
	read        uint64 // A hash of all times in their order.
}

// isMost reports whether few cells are odd, or fewer than half and all of one word, such as never.
func (s *span) isMost(values int) bool {
	return areFew(s.odd.count, values) || !s.odd.mixed && s.fits > fewFractions && 2*s.odd.count < values
}

// few is one cell in how many may be odd: such cells are missing values, and the others make the column
// one of numbers or times.
const few = 20

// some is one cell in how many may be odd of declared numbers, and of numbers that would be left out as texts.
const some = 5

func areFew(odd, values int) bool { return few*odd <= values }

func areSome(odd, values int) bool { return some*odd <= values }

func newColumn(table *dataset.Table, i int) *column {
	c := &column{
		name: table.Columns()[i], written: table.Numbers(i), unit: table.Unit(), unnamed: table.Unnamed(i),
		texts: make(map[string]*tally), frames: make(map[string]*frame), low: math.Inf(1), high: math.Inf(-1), lowExact: math.Inf(1), highExact: math.Inf(-1),
	}
	for _, f := range forms() {
		c.times = append(c.times, span{form: f})
	}
	return c
}

func (c *column) see(s *spot, cell string) {
	if s.count++; s.count == 1 {
		s.cell, s.line = strings.Clone(cell[:min(len(cell), maxText)]), c.line
	} else if !s.mixed {
		s.mixed = s.cell != cell
	}
}

func (c *column) place(s *spot) string { return fmt.Sprintf("%.40q in %s %d", s.cell, c.unit, s.line) }

func (c *column) add(cell string, y label) {
	c.count(cell)
	if cell != "" && !dataset.IsUnknown(cell) {
		c.addText(cell, y)
	}
}

func (c *column) count(cell string) {
	if cell == "" {
		return
	}
	c.cells++
	if dataset.IsGap(cell) {
		c.gaps++
		if dataset.IsUnknown(cell) {
			c.unknown++
		}
		return
	}
	if c.textual {
		c.see(&c.words, cell)
		return
	}
	v, err := c.number(cell)
	switch {
	case err == nil:
		c.numbers++
		c.low, c.high = min(c.low, v), max(c.high, v)
		if math.Abs(v) < maxExact {
			c.lowExact, c.highExact = min(c.lowExact, v), max(c.highExact, v)
		}
		if v == math.Trunc(v) {
			c.integers++
		}
		if c.numbers == 1 {
			c.width = len(cell)
		} else if c.width != len(cell) {
			c.width = -1
		}
		if isCode(cell) && !c.isClock(cell) {
			c.see(&c.codes, cell)
		}
	case errors.Is(err, errNoNumber):
		c.see(&c.words, cell)
		c.addFrame(cell)
		if isBeyond(cell) {
			c.beyond++
		}
	default:
		c.see(&c.ambiguous, cell)
	}
	if err == nil && (strings.Contains(cell, "/") || strings.Contains(cell, " of ")) { // A fraction beside other pairs of numbers.
		c.addFrame(cell)
	}
	if pair, v, ok := parseBoolean(cell); ok {
		c.pairs[pair]++
		if v {
			c.truths++
		}
	}
	c.addTime(cell)
}

func (c *column) number(cell string) (float64, error) {
	v, plain, err := parseWritten(cell, c.written)
	if err != nil {
		return 0, err
	}
	if plain == cell {
		c.see(&c.bare, cell)
	} else if c.converted == "" {
		c.converted, c.plain = strings.Clone(cell), strings.Clone(plain)
	}
	if isHuge(plain, v) {
		c.see(&c.huge, cell)
	}
	return v, nil
}

func (c *column) addText(cell string, y label) {
	c.longest = max(c.longest, len(cell))
	if strings.Count(cell, " ") >= several-1 && isSentence(cell) {
		c.sentences++
	}
	if strings.HasPrefix(cell, "{") && strings.HasSuffix(cell, "}") && json.Valid([]byte(cell)) {
		c.objects++
	}
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

// tried is how many cells are tried with all forms. After them only forms that fit half of the cells
// are.
const tried = 100

func (c *column) addTime(cell string) {
	fits, alone := false, 0 // Cells that one form fits alone.
	for i := range c.times {
		s := &c.times[i]
		t, ok := s.form.Parse(cell)
		fits = fits || ok
		switch {
		case !ok:
			c.see(&s.odd, cell)
		case isOpen(t):
			s.open++
		default:
			s.fits++
			s.converted = s.converted || !isRecordTime(cell)
			if !isSeason(cell, t) {
				s.dated++
			}
			s.add(t)
		}
		if !s.form.isSeveral() {
			alone = max(alone, s.fits+s.open)
		}
	}
	if !fits {
		c.see(&c.untimed, cell)
	}
	c.times = slices.DeleteFunc(c.times, func(s span) bool {
		return s.odd.count > max(tried, s.fits+s.open) || s.form.isSeveral() && alone >= tried && s.fits+s.open <= alone
	})
}

func (s *span) add(t time.Time) {
	s.read = 31*s.read + uint64(t.Unix())
	if s.before.IsZero() {
		s.daily = t.Day() != 1
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
	s.daily, s.weekdays = s.daily || t.Day() != 1, s.weekdays || t.Weekday() != s.before.Weekday()
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
	best := c.bestTime()
	switch {
	case c.cells == c.unknown:
		out.Kind, out.Reason = LeftOut, "every cell is empty"
	case c.unnamed:
		out.Kind, out.Reason = LeftOut, "the file gives it no name, as pandas does for the index; give it one if it is an input"
	case c.isBoolean(values):
		out.Kind, out.gaps = Boolean, true
		out.Reason = fmt.Sprintf("%d cells are true and %d false", c.truths, values-c.truths)
		if c.pairs[0]+c.pairs[booleanPairs-1] == 0 {
			converted = "true or false"
		}
		out.Input = &hindsightv1.Input{Kind: &hindsightv1.Input_Boolean{Boolean: &hindsightv1.BooleanInput{}}}
	case best != nil && best.isMost(values) && c.looksDated(best.form, values):
		c.decideTime(out, best)
		if best.converted {
			converted = "RFC 3339"
		}
	case why != "":
		n := c.different()
		out.Kind, out.integers = Category, c.integers == values
		out.gaps = out.integers
		out.Reason = fmt.Sprintf("%d different integers%s%s", n, why, reasonOfNames(n))
		out.Input = declareNames(n)
	case c.ambiguous.count > 0 && areFew(c.words.count, values):
		out.Kind, out.Reason = LeftOut, c.unclear().Error()
	case c.isNumber(values) && (areFew(values-c.numbers-c.beyond, values) || c.hardlyRepeats() || c.isMeasure()):
		c.decideNumber(out)
	case c.numbers == values && c.integers == values && c.huge.count > 0:
		c.decideCategory(out)
		out.gaps = true
	default:
		c.decideCategory(out)
	}
	c.note(out, values)
	if out.Input == nil {
		return out
	}
	if c.converted != "" && (out.Kind == Number || out.integers) {
		converted = fmt.Sprintf("the numbers alone, such as %s of %.40q", c.plain, c.converted)
	}
	out.Input.Name = c.name
	empty := rows - c.cells + c.unknown
	if out.gaps {
		empty += c.gaps - c.unknown
	}
	if out.Kind == Moment {
		empty += best.open
	}
	switch empty {
	case 0:
	case 1:
		out.Reason += "; 1 cell is a missing value"
	default:
		out.Reason += fmt.Sprintf("; %d cells are missing values", empty)
	}
	if empty > 0 {
		out.Reason = strings.Replace(out.Reason, "in every row: it tells nothing", "or none", 1)
	}
	if converted != "" {
		out.Reason += "; records have " + converted + ", into which replay converts them"
	}
	return out
}

// note adds the cells that most others of the column are unlike.
func (c *column) note(out *Column, values int) {
	_, _, unlike := c.written.Units()
	switch {
	case 2*c.objects > values && out.Kind != Vector:
		out.odd = true
		out.Reason += "; cells are objects of JSON: take their fields apart into columns"
	case out.Kind == Category && !out.integers, out.Kind == LeftOut:
		if odd := c.odd(values); odd != "" {
			out.odd = true
			out.Reason += "; " + odd
		}
	case out.Kind == Number && c.leavesHuge(values):
		out.odd, out.lenient, out.exact = true, true, true
		out.Reason += "; " + c.missing(&c.huge, values, "number below 2^53")
	case out.Kind == Number && c.words.count > 0:
		out.odd, out.lenient = true, true
		out.Reason += "; " + c.oddNumbers(values)
	case out.Kind == Moment && c.timeOf(out.Form).odd.count > 0:
		out.odd, out.lenient = true, true
		out.Reason += "; " + c.missing(&c.timeOf(out.Form).odd, values, "time")
	case out.Kind == Number && unlike > 0:
		out.odd = true
		out.Reason += "; " + c.oddNumbers(values)
	case out.Kind == Number && c.bare.count > 0 && c.isPercent():
		out.odd = true
		out.Reason += fmt.Sprintf("; %d of %d cells have no %%: %s is taken for %s%%", c.bare.count, values, c.place(&c.bare), c.bare.cell)
	case out.Kind == Number && c.codes.count > 0:
		out.odd = true
		out.Reason += fmt.Sprintf("; %s begins with a 0, and is taken for a number", c.place(&c.codes))
	}
}

func (c *column) isPercent() bool {
	unit, _, _ := c.written.Units()
	return unit == "%"
}

func (c *column) missing(s *spot, values int, kind string) string {
	if s.count == 1 {
		return fmt.Sprintf("%s is no %s, and is taken for a missing value", c.place(s), kind)
	}
	return fmt.Sprintf("%d of %d cells are no %s and are taken for missing values, such as %s", s.count, values, kind, c.place(s))
}

func (c *column) unclear() error {
	_, err := c.written.Plain(c.ambiguous.cell)
	return fmt.Errorf("%w, in %s %d", err, c.unit, c.ambiguous.line)
}

// odd names the cell without which a column would be one of times or numbers, if most cells are
// such, and is empty otherwise.
func (c *column) odd(values int) string {
	rare := func(s *spot) bool { return s.count > 0 && 2*s.count < values }
	best := c.bestTime()
	switch {
	case best != nil && 2*(best.fits+best.open) > values && best.odd.count > 0 && c.looksDated(best.form, values):
		return fmt.Sprintf("%d of %d cells are times of one form, and %s is none", best.fits+best.open, values, c.place(&best.odd))
	case c.mixed(values) && c.words.count > 0 && !c.wordsDiffer():
		return fmt.Sprintf("%d of %d cells are numbers, and %s is none", c.numbers, values, c.place(&c.words))
	case rare(&c.codes):
		return fmt.Sprintf("%d of %d cells are numbers, and %s is a code, because it begins with a 0", values-c.codes.count, values, c.place(&c.codes))
	case rare(&c.huge):
		return fmt.Sprintf("%d of %d cells are numbers, and %s is an id, because no number has all integers from 2^53 on", values-c.huge.count, values, c.place(&c.huge))
	}
	if unit, other, unlike := c.written.Units(); unlike > 0 && !strings.Contains(unit, " ") && 2*(c.numbers+unlike) > values && 3*c.numbers > values {
		return fmt.Sprintf("numbers of the units %s and %s: convert them into one unit", unit, other)
	}
	return ""
}

// wordsDiffer reports whether most words among numbers are different, as in ids.
func (c *column) wordsDiffer() bool {
	n := 0
	for text := range c.texts {
		if _, _, err := parseWritten(text, c.written); err != nil {
			n++
		}
	}
	return n > 1 && 2*n<<c.zeros > c.words.count
}

// isBoolean reports whether all values are of one pair, and both words of the pair occur.
func (c *column) isBoolean(values int) bool {
	return slices.Contains(c.pairs[:], values) && c.truths > 0 && c.truths < values
}

// isText reports whether most of the texts, n of them different, are of several words, and either too many or too long
// for categories.
func (c *column) isText(n int) bool {
	values := c.cells - c.unknown
	return 2*c.sentences >= values && c.longest <= maxPassage && (c.long.count > 0 || n > ownFeatures && 2*n > values)
}

// hardlyRepeats reports whether most cells are different, and the cells are too many for a feature each.
func (c *column) hardlyRepeats() bool {
	n := c.different()
	return n > ownFeatures && 2*n > c.cells-c.unknown
}

func (c *column) decideCategory(out *Column) {
	out.Kind = Category
	n := c.different()
	switch {
	case c.broken.count > 0:
		out.Kind, out.Reason = LeftOut, fmt.Sprintf("texts that are not UTF-8, such as %s: convert the file", c.place(&c.broken))
		return
	case c.isVector(c.cells - c.gaps):
		c.decideVector(out, c.cells-c.gaps)
		return
	case c.isText(n):
		out.Kind, out.Reason = Text, "texts, most of several words, which it counts"
		out.Input = &hindsightv1.Input{Kind: &hindsightv1.Input_Text{Text: &hindsightv1.TextInput{}}}
		return
	case c.long.count > 0:
		out.Kind, out.Reason = LeftOut, fmt.Sprintf("texts of up to %d bytes, such as that in %s %d; a category has at most %d", c.longest, c.unit, c.long.line, maxText)
		return
	case c.hardlyRepeats() && (4*n > 3*(c.cells-c.unknown) || !c.labelsDepend()):
		out.Kind, out.Reason = LeftOut, c.leftOut(c.cells-c.gaps)
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
