package dataset

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Numbers reads the numbers of a column as people write them. Where semicolons separate the fields,
// a comma is the decimal mark, and 1.234 is 1234 beside 12,5 and 1.234 beside 1.5: the whole column
// decides.
type Numbers struct {
	decimalComma bool
	// Whether a cell of the column shows that a point is the decimal mark, such as 1.5, or that
	// it separates thousands, such as 12,5 and 1.234.567.
	point, comma bool
}

// Plain removes what people write with a number: a sign of a currency or of percent, which is
// returned too, and what separates thousands. The decimal mark becomes a point. The rest may be
// no number. It fails if the column does not show what the point of the text means.
func (n *Numbers) Plain(text string) (plain, sign string, err error) {
	minus, text, sign := cutSigns(text)
	plain, m := n.digits(text)
	if m == either && n.point != n.comma {
		if n.comma {
			plain = strings.ReplaceAll(plain, ".", "")
		}
		m = point
	}
	if m == either {
		err = fmt.Errorf("%q is ambiguous: the column does not show whether the point is the decimal mark (want %s) or separates thousands (want %s)",
			text, strings.Replace(text, ".", ",", 1), strings.Replace(text, ".", "", 1))
	}
	return minus + plain, sign, err
}

// look notes what a cell shows of the column.
func (n *Numbers) look(cell string) {
	minus, text, _ := cutSigns(strings.TrimSpace(cell))
	plain, m := n.digits(text)
	if m == 0 || m == either {
		return
	}
	if _, err := Number(minus + plain); err != nil {
		return
	}
	n.point, n.comma = n.point || m == point, n.comma || m == comma
}

// mark is the decimal mark that a text has if it is a number.
type mark int

const (
	point mark = iota + 1
	comma
	either
)

// digits removes what separates thousands from a text without signs. The decimal mark becomes a
// point. The mark is 0 if the text fits both.
func (n *Numbers) digits(text string) (string, mark) {
	if !n.decimalComma {
		whole, rest, _ := strings.Cut(text, ".")
		if groups(whole, ",") && !strings.Contains(rest, ",") {
			text = strings.ReplaceAll(text, ",", "")
		}
		return text, 0
	}
	whole, rest, decimals := strings.Cut(text, ",")
	grouped := groups(whole, ".")
	switch {
	case decimals && grouped:
		return strings.ReplaceAll(whole, ".", "") + "." + rest, comma
	case decimals:
		return whole + "." + rest, comma
	case !strings.Contains(text, "."):
		return text, 0
	case !grouped:
		return text, point
	case strings.Count(text, ".") == 1:
		return text, either
	default:
		return strings.ReplaceAll(text, ".", ""), comma
	}
}

const currencies = "$€£¥₹"

// cutSigns splits a number into its plus or minus, the rest, and a sign of a currency or of percent.
func cutSigns(text string) (minus, rest, sign string) {
	cut := func() {
		if minus == "" && text != "" && (text[0] == '-' || text[0] == '+') {
			minus, text = text[:1], text[1:]
		}
	}
	cut()
	first, size := utf8.DecodeRuneInString(text)
	last, end := utf8.DecodeLastRuneInString(text)
	switch {
	case strings.ContainsRune(currencies, first):
		sign, text = string(first), strings.TrimSpace(text[size:])
		cut()
	case last == '%' || strings.ContainsRune(currencies, last):
		sign, text = string(last), strings.TrimSpace(text[:len(text)-end])
	}
	return minus, text, sign
}

// groups tells whether digits are separated into thousands, once or more. No number with thousands
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

// Numbers reads the numbers of column i. Of a file with decimal commas the first call reads all
// rows, beside those that Read returns.
func (t *Table) Numbers(i int) *Numbers {
	if t.numbers == nil {
		t.numbers = make([]Numbers, len(t.columns))
		t.survey()
	}
	return &t.numbers[i]
}

// survey looks at all cells of a file with decimal commas. It stops at a wrong row: Read returns
// the error of the row.
func (t *Table) survey() {
	if t.again == nil {
		return
	}
	for i := range t.numbers {
		t.numbers[i].decimalComma = true
	}
	all, err := NewTable(t.again, t.name, decimalCommas)
	for err == nil {
		var record []string
		record, err = all.Read()
		for i := range record[:min(len(record), len(t.numbers))] {
			t.numbers[i].look(record[i])
		}
	}
}

// Number reads a finite number of column i as the file writes it; see Numbers.
func (t *Table) Number(i int, field string) (float64, error) {
	plain, _, err := t.Numbers(i).Plain(strings.TrimSpace(field))
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
