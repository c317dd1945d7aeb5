package dataset

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
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
	// How many cells show that a point is the decimal mark, and how many that a comma is.
	points, commas int
	// unit is the unit of the first number that has one, for example $, % or kg.
	unit string
	// largest is the largest magnitude of the numbers without a unit.
	largest float64
}

// Plain removes the unit and the separators of thousands from a number, replaces the decimal mark by a point, and a
// duration, for example 1:02:03 or PT1H2M3S, by its seconds. 92% is 0.92 in a column whose numbers without a unit are at
// most 1 and not all 0, and else 92. A text that is no number, or has another unit than the first number,
// stays no number. Plain fails if the column does not show which mark is the decimal one.
func (n *Numbers) Plain(text string) (plain string, err error) {
	minus, rest, unit := cutSigns(text)
	plain, m := digits(rest)
	switch {
	case m == eitherPoint || m == eitherComma:
		plain, err = n.resolve(rest, m)
	case strings.Contains(rest, ":"):
		half := strings.ToLower(strings.TrimSpace(unit))
		if half != "am" && half != "pm" && half != "a" && half != "p" {
			half = ""
		}
		if plain = seconds(rest, half); half != "" && plain != rest {
			unit = ""
		}
	case strings.HasPrefix(rest, "P"):
		plain = isoSeconds(rest)
	}
	plain = minus + plain
	if unit == "" || err != nil {
		return plain, err
	}
	if v, err := Number(plain); err == nil {
		if n.unit = cmp.Or(n.unit, unit); n.unit == unit {
			return n.fraction(v, plain), nil
		}
	}
	return text, nil
}

// fraction returns a number without its unit: 0.92 for 92% if the column has fractions too, else 92.
func (n *Numbers) fraction(v float64, plain string) string {
	if n.unit != "%" {
		return plain
	}
	if n.table.survey(); n.largest == 0 || n.largest > 1 {
		return plain
	}
	return strconv.FormatFloat(v/100, 'g', -1, 64)
}

// isoSeconds converts a duration of ISO 8601, for example P1DT2H30M, into seconds. Other texts stay as they are, also years
// and months, whose lengths differ.
func isoSeconds(text string) string {
	units, total, known := "WD", 0.0, false
	for rest := text[1:]; rest != ""; known = true {
		if rest[0] == 'T' && units != "HMS" {
			units, rest = "HMS", rest[1:]
		}
		at := strings.IndexAny(rest, units)
		if at < 0 {
			return text
		}
		v, err := strconv.ParseFloat(strings.Replace(rest[:at], ",", ".", 1), 64)
		if err != nil {
			return text
		}
		total += v * map[byte]float64{'W': 604800, 'D': 86400, 'H': 3600, 'M': 60, 'S': 1}[rest[at]]
		rest = rest[at+1:]
	}
	if !known {
		return text
	}
	return strconv.FormatFloat(total, 'f', -1, 64)
}

// seconds converts 1:02:03, 2 days 01:02:03 or 2:03 into seconds, the last as if 2 were minutes. With a half of the day, am,
// pm, a or p, the first part is hours. Other texts stay as they are.
func seconds(text, half string) string {
	days, rest, spelled := strings.Cut(text, " day")
	if !spelled {
		days, rest = "0", text
	}
	parts := strings.Split(strings.TrimLeft(strings.TrimPrefix(rest, "s"), ", "), ":")
	total, err := strconv.ParseUint(days, 10, 32)
	if n := len(parts); err != nil || n != 3 && (n != 2 || spelled) {
		return text
	}
	total *= 24
	last, fraction, fractional := strings.Cut(parts[len(parts)-1], ".")
	for i, part := range append(parts[:len(parts)-1], last) {
		v, err := strconv.ParseUint(part, 10, 32)
		known := true
		if i == 0 && half != "" {
			v, known = hourOf(v, half)
		}
		if err != nil || !known || i > 0 && (v > 59 || len(part) != 2) {
			return text
		}
		if total *= 60; i == 0 && len(parts) == 3 {
			total /= 60
		}
		total += v
	}
	if half != "" && len(parts) == 2 {
		total *= 60
	}
	plain := strconv.FormatUint(total, 10)
	if fractional {
		plain += "." + fraction
	}
	return plain
}

// hourOf converts an hour of a clock of twelve hours, before or after noon, into the hour of the day. It returns false for
// an hour that is not 1 to 12.
func hourOf(hour uint64, half string) (uint64, bool) {
	if half[0] == 'p' {
		return hour%12 + 12, hour >= 1 && hour <= 12
	}
	return hour % 12, hour >= 1 && hour <= 12
}

// resolve reads a number with a mark that may be the decimal one, or may separate thousands.
func (n *Numbers) resolve(text string, m mark) (plain string, err error) {
	n.table.survey()
	decimals, thousands := strings.Replace(text, ",", ".", 1), strings.NewReplacer(",", "", ".", "").Replace(text)
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

// decimal writes a number with the decimal mark of the file.
func (t *Table) decimal(plain string) string {
	if t.delimiter == semicolon {
		return strings.Replace(plain, ".", ",", 1)
	}
	return plain
}

// look notes what a cell shows of the column.
func (n *Numbers) look(cell string) {
	if len(cell) > maxNumber {
		return
	}
	minus, text, unit := cutSigns(strings.TrimSpace(cell))
	plain, m := digits(text)
	v, err := Number(minus + plain)
	if err != nil {
		return
	}
	if unit == "" {
		n.largest = max(n.largest, math.Abs(v))
	}
	switch m {
	case point:
		n.points++
	case comma:
		n.commas++
	default:
	}
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
	spaced := strings.NewReplacer("'", " ", "\u2019", " ", "\u00a0", " ", "\u202f", " ", "\u2009", " ").Replace(whole)
	if groups(spaced, " ") {
		text = strings.ReplaceAll(spaced, " ", "") + rest
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

const currencies = "$€£¥₹"

// maxUnit bounds the bytes of a unit.
const maxUnit = 12

// cutSigns splits a number into its plus or minus, the rest, and a unit: a sign or a code of a
// currency, for example $ or USD, before the number, or letters and signs after the number. (5) and 5- are -5.
func cutSigns(text string) (minus, rest, unit string) {
	if inner, ok := strings.CutSuffix(text, ")"); ok && strings.HasPrefix(inner, "(") {
		minus, text = "-", inner[1:]
	}
	cut := func() {
		if after, ok := strings.CutPrefix(text, "\u2212"); ok {
			text = "-" + after
		}
		if minus == "" && text != "" && (text[0] == '-' || text[0] == '+') {
			minus, text = text[:1], text[1:]
		}
	}
	cut()
	first, size := utf8.DecodeRuneInString(text)
	switch {
	case strings.ContainsRune(currencies, first):
		unit, text = string(first), strings.TrimSpace(text[size:])
		cut()
	case len(text) > 4 && text[3] == ' ' && strings.Trim(text[:3], "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "":
		unit, text = text[:3], text[4:]
		cut()
	case text != "" && (text[0] >= '0' && text[0] <= '9' || text[0] == '.'):
		number := strings.TrimRightFunc(text, func(r rune) bool { return unicode.IsLetter(r) || strings.ContainsRune("°²³/", r) })
		if last, size := utf8.DecodeLastRuneInString(number); strings.ContainsRune(currencies+"%‰", last) {
			number = number[:len(number)-size]
		}
		if n := len(text) - len(number); n > 0 && n <= maxUnit {
			unit, text = text[len(number):], strings.TrimSpace(number)
		}
		if after, ok := strings.CutSuffix(text, "-"); ok && minus == "" {
			minus, text = "-", after
		}
	}
	return minus, text, unit
}

// groups reports whether digits are separated into thousands, once or more. No number with thousands
// begins with a zero: 0,123 has a decimal comma.
func groups(digits, separator string) bool {
	parts := strings.Split(digits, separator)
	for i, part := range parts {
		if n := len(part); n > 3 || n == 0 || i > 0 && n < 3 || strings.Trim(part, "0123456789") != "" {
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
	for _, n := range t.numbers {
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
	return Number(field) // Its error has the text of the file.
}

// Label reads a label of column i that is a number. It returns ErrNoLabel for a missing value.
func (t *Table) Label(i int, field string) (float64, error) {
	if IsGap(strings.TrimSpace(field)) {
		return 0, ErrNoLabel
	}
	return t.Number(i, field)
}
