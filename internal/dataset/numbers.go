package dataset

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Numbers reads the numbers of a column as people write them. Most numbers show which mark is the
// decimal one: 12,5 and 0,123 and 1.234,56 have a decimal comma, 1.5 and 1,234.56 a decimal point.
// Of 1,234 and 1.234 the column decides:
//
//   - 1.234 is 1234 beside 12,5, and 1.234 beside 1.5;
//   - 1,234 is 1.234 beside 12,5, and 1234 beside 1.5.
//
// A column that does not decide follows the others if some of them have decimal commas and none has
// decimal points, or the other way round. Else 1,234 is 1.234 where semicolons separate the fields, and elsewhere 1.234 is
// 1.234 and 1,234 is 1234. Other cells are ambiguous.
type Numbers struct {
	table *Table
	// declared is set of a column whose cells are numbers by a spec, fixed is the unit of the spec.
	declared bool
	fixed    string
	// unit is the unit of most numbers that have one, for example $, % or kg; other is the first that is unlike it.
	unit, other string
	units       map[string]int // How many numbers of the file have each.
	unlike      int            // How many numbers have another unit.
	// How many numbers of the file show that a point is the decimal mark, that a comma is, have no unit, have a unit, are
	// bounds such as <0.05, are no bounds, have a half of the day, are durations of ISO 8601 with a time of the day, and are
	// years in parentheses.
	points, commas, bare, united, bounds, exact, halves, clocks, inner int
	// base is the base unit of the first number with a unit that has one, size its size. Numbers of several sizes are
	// converted into the base unit. The unit m is a minute or a metre.
	base          string
	size          float64
	several, by60 bool
	sign          byte // Of the first bound, + if it is behind the number.
	signs         bool // Not all bounds have it.
	laps          bool // 5'12" is 5 minutes and 12 seconds.
	// scaled is set of 5 M beside 5M or 300 K, where the letter is no unit; letter is the last one.
	scaled bool
	letter string
}

// Declare says that the cells are numbers, by a spec and not by the other cells. The unit may be empty, and is read as that of a
// cell: lbs is lb.
func (n *Numbers) Declare(unit string) {
	unit = cmp.Or(split("1 "+strings.TrimSpace(unit)).unit, unit)
	n.declared, n.fixed, n.unit, n.laps = true, unit, unit, unit == "s"
}

// Unit returns the unit of the numbers, empty if it is a flag of some of them.
func (n *Numbers) Unit() string {
	if n.isFlag(n.unit) && !n.converts() {
		return ""
	}
	return n.unit
}

// isFlag reports whether a short unit is behind a few numbers, and most have none.
func (n *Numbers) isFlag(unit string) bool { return n.bare > n.united && len(unit) <= maxFlag }

// Units returns the unit of the numbers, another that a number has, and how many numbers have another.
func (n *Numbers) Units() (unit, other string, unlike int) { return n.unit, n.other, n.unlike }

// Plain removes the unit, the sign of a bound and the separators of thousands from a number, and replaces the decimal mark
// by a point. 92% is 92 in every file. 1.5k is 1500, 3/4 is 0.75, 52°30'S is -52.5, and a duration such as 1:02:03,
// PT1H2M3S or 1h 2m 3s is its seconds. The other cells decide of six kinds of numbers:
//
//   - 12 kg is 12, and 12000 beside 500 g: numbers of several units are converted into seconds, months, bytes, grams, metres
//     or inches; 1:02:03 has the unit s;
//   - 9:15 is minutes and seconds, and hours and minutes beside 10:30 PM, or of a spec of hours;
//   - P1D is a number beside PT1H, and else a code;
//   - (1999) is -1999, and 1999 in a column of years in parentheses;
//   - <0.05 is 0.05 if most numbers of the column are no bounds, or all are bounds of one sign;
//   - 7 p is 7 beside 7 kg if most numbers of the column have no unit.
//
// A text that is no number, or has another unit than most numbers, stays no number. Many amounts in another currency are
// numbers. Plain fails if the column does not
// show which mark is the decimal one.
func (n *Numbers) Plain(text string) (plain string, err error) {
	if isPlain(text) || isNoNumber(text) {
		return text, nil
	}
	w := written{digits: text}
	if strings.Trim(text, "0123456789.,") != "" {
		v, unit, ok := compound(text, n.laps)
		if unit == "in" { // Or laps.
			n.table.survey()
			v, unit, _ = compound(text, n.laps)
		}
		if ok {
			return n.inUnit(v, strconv.FormatFloat(v, 'f', -1, 64), unit, text), nil
		}
		w = split(text)
	}
	switch {
	case w.letter == "":
	case w.letter == n.fixed:
		w.unit, w.magnitude = w.letter, ""
	case w.magnitude == "":
		if n.table.survey(); n.scaled {
			w.unit, w.magnitude = "", magnitude(w.letter, false)
		}
	}
	plain, m := digits(w.digits)
	switch m {
	case eitherPoint, eitherComma:
		plain, err = n.resolve(w.digits, m)
	case none:
		if total := n.clock(&w); total != w.digits {
			plain = total
		}
	default:
	}
	if err != nil {
		return "", err
	}
	if w.inner {
		if n.table.survey(); n.inner > 0 && n.inner == n.bounds+n.exact {
			w.minus = ""
		}
	}
	plain = w.minus + plain + w.magnitude
	v, ok := parse(plain)
	if !ok {
		return text, nil
	}
	if w.bound && !n.declared {
		if n.table.survey(); n.exact <= n.bounds && (n.signs || n.exact > 0) {
			return text, nil
		}
	}
	return n.inUnit(v, plain, w.unit, text), nil
}

// isPlain reports whether a text is digits with at most one point, and is read the same in every file. 1.234 is not: its point
// may separate thousands.
func isPlain(text string) bool {
	digits, point := strings.TrimPrefix(text, "-"), 0
	for i := range len(digits) {
		switch c := digits[i]; {
		case c >= '0' && c <= '9':
		case c == '.' && point == 0 && i > 0:
			point = i
		default:
			return false
		}
	}
	fraction := len(digits) - 1 - point
	return digits != "" && (point == 0 || fraction > 0 && fraction != 3)
}

// isNoNumber reports whether a text is ASCII without digits, or begins as a date of ISO 8601.
func isNoNumber(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r >= '0' && r <= '9' || r >= utf8.RuneSelf }) ||
		len(text) >= len("2006-01-02") && text[4] == '-' && text[7] == '-'
}

// clock returns the digits. Those of a time of the day or of a duration are converted into seconds, and s becomes the unit.
func (n *Numbers) clock(w *written) string {
	text := w.digits
	if len(text) == len("18.30.00") && text[2] == '.' && text[5] == '.' {
		text = strings.ReplaceAll(text, ".", ":")
	}
	if strings.HasPrefix(text, "P") {
		n.table.survey()
		if total := isoSeconds(text); total != text && (n.declared || n.clocks > 0) {
			w.unit = "s"
			return total
		}
	}
	half := halfOf(w.unit)
	if len(half) == len("pm") && strings.Trim(text, "0123456789") == "" {
		text += ":00"
	}
	if !strings.Contains(text, ":") || strings.ContainsAny(text, "-/") {
		return text
	}
	plain := seconds(text, half, false)
	if plain == text {
		return w.digits
	}
	size, base := sizeOf(cmp.Or(w.unit, n.fixed))
	if half == "" && strings.Count(text, ":") == 1 {
		if n.table.survey(); n.halves > 0 || base == "s" && size == 3600 {
			plain = seconds(text, "", true)
		}
	}
	if half != "" || w.unit == "" || base == "s" { // Also 1:30 h.
		w.unit = "s"
	}
	return plain
}

// inUnit returns a number in the unit of the column, or the text of the cell if it has another unit.
func (n *Numbers) inUnit(v float64, plain, unit, text string) string {
	if unit == "" {
		return plain
	}
	if n.unit == "" && unit != "%" && !isCurrency(unit) {
		n.table.survey()
	}
	if _, base := sizeOf(unit); base != "" && n.fixed == "" {
		if n.table.survey(); n.converts() {
			if converted, ok := convert(v, unit, n.base); ok {
				n.unit = n.base
				return strconv.FormatFloat(converted, 'f', -1, 64)
			}
		}
	}
	if n.unit = cmp.Or(n.fixed, n.unit, unit); unit == n.unit {
		return plain
	}
	switch converted, ok := convert(v, unit, n.unit); {
	case ok && converted == v: // 3h beside 3 hours
		return plain
	case ok && n.fixed != "":
		return strconv.FormatFloat(converted, 'f', -1, 64)
	}
	if n.table.survey(); n.fixed == "" && n.isFlag(unit) {
		return plain
	}
	n.other = cmp.Or(n.other, unit)
	n.unlike++
	const few = 20 // One amount in so many of another currency is missing.
	if isCurrency(unit) && isCurrency(n.unit) && few*n.units[unit] >= n.united {
		return plain
	}
	return text
}

// resolve reads a number with a mark that may be the decimal one, or may separate thousands.
func (n *Numbers) resolve(text string, m mark) (plain string, err error) {
	n.table.survey()
	decimals, thousands := strings.Replace(text, ",", ".", 1), strings.ReplaceAll(strings.ReplaceAll(text, ",", ""), ".", "")
	const majority = 20 // One cell of another program does not make a column ambiguous.
	comma, point := n.commas > majority*n.points, n.points > majority*n.commas
	switch {
	case comma && m == eitherComma, point && m == eitherPoint:
		return decimals, nil
	case comma, point:
		return thousands, nil
	case n.points+n.commas > 0: // Both.
	case n.table.decimalCommas && m == eitherPoint, n.table.decimalPoints && m == eitherComma:
		return thousands, nil
	case n.table.decimalCommas, n.table.decimalPoints, n.table.delimiter == semicolon && m == eitherComma, n.table.delimiter != semicolon && m == eitherPoint:
		return decimals, nil
	case n.table.delimiter != semicolon && n.table.again != nil:
		return thousands, nil
	}
	name := "point"
	if m == eitherComma {
		name = "comma"
	}
	return "", fmt.Errorf("%q is ambiguous: the column does not show whether the %s is the decimal mark (want %s) or separates thousands (want %s)",
		text, name, n.table.decimal(decimals), thousands)
}

func (t *Table) decimal(plain string) string {
	if t.delimiter == semicolon {
		return strings.Replace(plain, ".", ",", 1)
	}
	return plain
}

// converts reports whether numbers are converted into the base unit of the column.
func (n *Numbers) converts() bool {
	if n.several || !n.by60 || n.base == "" {
		return n.several
	}
	minute, _ := convert(1, "m", n.base)
	return n.size != minute
}

func (n *Numbers) look(cell string) {
	if len(cell) > maxNumber {
		return
	}
	switch cell = strings.TrimSpace(cell); {
	case isPlain(cell):
		n.exact, n.bare = n.exact+1, n.bare+1
		if strings.Contains(cell, ".") {
			n.points++
		}
		return
	case isNoNumber(cell):
		return
	}
	if n.lookAtParts(cell) {
		return
	}
	w := split(cell)
	if w.letter != "" {
		n.scaled = n.scaled || w.magnitude != "" || n.letter != "" && !strings.EqualFold(n.letter, w.letter)
		n.letter = w.letter
	}
	if half := halfOf(w.unit); len(half) == len("pm") || half != "" && strings.Contains(w.digits, ":") {
		n.halves++
	}
	if strings.HasPrefix(w.digits, "P") && strings.Contains(w.digits, "T") && isoSeconds(w.digits) != w.digits {
		n.clocks++
	}
	if n.clock(&w) != w.digits {
		n.exact++
		n.countUnit(w.unit)
		n.lookAtUnit(w.unit)
		return
	}
	plain, m := digits(w.digits)
	if m == eitherComma {
		plain = strings.Replace(plain, ",", "", 1)
	}
	v, ok := parse(plain)
	if !ok {
		return
	}
	if w.inner && len(plain) == len("1999") && v >= 1800 && v <= 2100 {
		n.inner++
	}
	if w.bound {
		n.countBound(cell[0])
	} else {
		n.exact++
	}
	if w.unit == "" {
		n.bare++
	} else {
		n.countUnit(w.unit)
		n.lookAtUnit(w.unit)
	}
	switch m {
	case point:
		n.points++
	case comma:
		n.commas++
	default:
	}
}

// lookAtParts counts the unit of a number of several parts.
func (n *Numbers) lookAtParts(cell string) bool {
	_, unit, ok := compound(cell, n.laps)
	if !ok || unit == "" {
		return false
	}
	n.laps = n.laps || unit == "s" && strings.ContainsAny(cell, "'′’")
	switch n.countUnit(unit); {
	case strings.Contains(cell, "/"):
		n.lookAtUnit(unit)
	case unit != "°" && unit != "★":
		n.base, n.several = unit, true
	}
	return true
}

func (n *Numbers) countBound(sign byte) {
	if sign >= '0' && sign <= '9' {
		sign = '+'
	}
	n.sign = cmp.Or(n.sign, sign)
	n.signs = n.signs || n.sign != sign
	n.bounds++
}

// lookAtUnit notes whether the numbers have several sizes of units.
func (n *Numbers) lookAtUnit(unit string) {
	switch size, base := sizeOf(unit); {
	case unit == "m":
		n.by60 = true
	case n.base == "":
		n.base, n.size = base, size
	case base == n.base && size != n.size:
		n.several = true
	case base == "s" && n.base == "month", base == "month" && n.base == "s":
		n.base, n.several = "s", true
	}
}

// countUnit counts the unit of a number. The most frequent one is the unit of the column, but of a spec with a unit.
func (n *Numbers) countUnit(unit string) {
	if n.units == nil {
		n.units = make(map[string]int)
	}
	if n.united++; n.units[unit] > 0 || len(n.units) < maxUnits {
		n.units[unit]++
	}
	if n.fixed == "" && n.units[unit] > n.units[n.unit] {
		n.unit = unit
	}
}

// dropLetters takes back the units that are letters of magnitudes.
func (n *Numbers) dropLetters() {
	if !n.scaled {
		return
	}
	for _, letter := range []string{"k", "K", "M", "B"} {
		n.bare, n.united = n.bare+n.units[letter], n.united-n.units[letter]
		delete(n.units, letter)
	}
	n.unit = n.fixed
	for _, unit := range slices.Sorted(maps.Keys(n.units)) {
		if n.fixed == "" && n.units[unit] > n.units[n.unit] {
			n.unit = unit
		}
	}
}

// parse reads a finite number, and most other texts without the cost of an error.
func parse(text string) (float64, bool) {
	if strings.Trim(text, "0123456789+-.eE") != "" {
		return 0, false
	}
	v, err := Number(text)
	return v, err == nil
}

// maxNumber bounds the length of a cell that is looked at.
const maxNumber = 64

// mark is the decimal mark that a text shows if it is a number.
type mark int

const (
	none mark = iota
	point
	comma
	eitherPoint // 1.234
	eitherComma // 1,234
)

// digits removes what separates thousands from a text without signs. The decimal mark becomes a
// point. The plain text of eitherPoint and eitherComma has its mark.
func digits(text string) (plain string, m mark) {
	if strings.Trim(text, "0123456789") == "" || strings.Trim(text, "0123456789.,eE+-' \u2019\u00a0\u202f\u2009") != "" {
		return text, none
	}
	// The apostrophe, the space, and narrow or protected spaces separate thousands in some languages.
	whole, rest := text, ""
	if at := strings.IndexAny(text, ".,"); at >= 0 {
		whole, rest = text[:at], text[at:]
	}
	if strings.Trim(whole, "0123456789") != "" {
		spaced := strings.NewReplacer("'", " ", "\u2019", " ", "\u00a0", " ", "\u202f", " ", "\u2009", " ").Replace(whole)
		if groups(spaced, " ") {
			text = strings.ReplaceAll(spaced, " ", "") + rest
		}
	}
	at := strings.LastIndexAny(text, ".,")
	if at <= 0 || at == len(text)-1 {
		return text, none
	}
	whole, rest = text[:at], text[at+1:]
	separator := text[at : at+1]
	other, decimal, thousands, either := ",", point, comma, eitherPoint
	if separator == "," {
		other, decimal, thousands, either = ".", comma, point, eitherComma
	}
	switch {
	case groups(whole, other): // 1.234,5
		return strings.ReplaceAll(whole, other, "") + "." + rest, decimal
	case strings.Contains(whole, other):
		return text, none
	case strings.Contains(whole, separator): // 1.234.567
		if groups(text, separator) {
			return strings.ReplaceAll(text, separator, ""), thousands
		}
		return text, none
	case groups(text, separator):
		return text, either
	default:
		return whole + "." + rest, decimal
	}
}

// groups reports whether digits are separated into thousands, once or more, or as in India into hundreds behind them. No number with thousands
// begins with a zero: 0,123 has a decimal comma.
func groups(digits, separator string) bool {
	parts := strings.Split(digits, separator)
	inner := 3
	if len(parts) > 2 && len(parts[1]) == 2 && separator == "," {
		inner = 2
	}
	for i, part := range parts {
		if n := len(part); n > inner && i < len(parts)-1 || n > 3 || n == 0 || i > 0 && n < inner || i == len(parts)-1 && n < 3 || strings.Trim(part, "0123456789") != "" {
			return false
		}
	}
	return len(parts) > 1 && !strings.HasPrefix(digits, "0")
}

// Numbers reads the numbers of column i.
func (t *Table) Numbers(i int) *Numbers {
	if t.numbers == nil {
		t.numbers = make([]Numbers, len(t.columns))
		for k := range t.numbers {
			t.numbers[k].table = t
		}
	}
	return &t.numbers[i]
}

// survey looks at all cells of the file, beside the rows that Read returns, when the first cell is
// met that does not show its decimal mark. It stops at a wrong row: Read returns the error of the row.
func (t *Table) survey() {
	if t.surveyed || t.again == nil {
		return
	}
	t.surveyed = true
	all, err := t.again()
	for err == nil {
		var record []string
		record, err = all.Read()
		for i := range record[:min(len(record), len(t.numbers))] {
			t.numbers[i].look(record[i])
		}
	}
	points, commas := 0, 0
	for i := range t.numbers {
		n := &t.numbers[i]
		n.dropLetters()
		points, commas = points+n.points, commas+n.commas
	}
	t.decimalCommas, t.decimalPoints = commas > 0 && points == 0, points > 0 && commas == 0
}

// Number reads a finite number of column i as the file writes it; see Numbers.
func (t *Table) Number(i int, field string) (float64, error) {
	plain, err := t.Numbers(i).Plain(strings.TrimSpace(field))
	if err != nil {
		return 0, err
	}
	if v, err := Number(plain); err == nil {
		return v, nil
	}
	v, err := Number(field) // Its error has the text of the file.
	if unit := t.numbers[i].fixed; err != nil && unit != "" && split(strings.TrimSpace(field)).unit != "" {
		err = fmt.Errorf("%w of %s, the unit of the spec", err, unit)
	}
	return v, err
}

// Label reads a label of column i that is a number. It returns ErrNoLabel for a missing value.
func (t *Table) Label(i int, field string) (float64, error) {
	if IsGap(strings.TrimSpace(field)) {
		return 0, ErrNoLabel
	}
	return t.Number(i, field)
}
