package dataset

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ErrNoLabel says that the row has no label. It can be predicted and not be observed.
var ErrNoLabel = errors.New("the row has no label")

var errEmpty = errors.New("the field is empty")

// IsGap tells whether a text among numbers, booleans or times means a missing value. A number
// that is not finite is missing too.
func IsGap(text string) bool {
	switch strings.ToLower(text) {
	case "none", "nil", "-", "inf", "+inf", "-inf", "infinity", "+infinity", "-infinity":
		return true
	default:
		return isUnknown(text)
	}
}

// isUnknown tells whether a text among texts means a missing value. None and nil may be classes.
func isUnknown(text string) bool {
	switch strings.ToLower(text) {
	case "", "na", "n/a", "nan", "null", "?":
		return true
	default:
		return false
	}
}

// Class reads a class: a text without the spaces around it. It returns ErrNoLabel for a missing
// value.
func Class(field string) (string, error) {
	text := strings.TrimSpace(field)
	if isUnknown(text) {
		return "", ErrNoLabel
	}
	return text, nil
}

// Number reads a finite number.
func Number(field string) (float64, error) {
	text := strings.TrimSpace(field)
	if text == "" {
		return 0, errEmpty
	}
	v, err := strconv.ParseFloat(text, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("%.40q is out of range", text)
	case err != nil:
		return 0, fmt.Errorf("%.40q is not a number", text)
	case math.IsNaN(v) || math.IsInf(v, 0):
		return 0, fmt.Errorf("%.40q is not finite", text)
	}
	return v, nil
}

// Number reads a finite number as the file writes it; see Plain.
func (t *Table) Number(field string) (float64, error) {
	v, err := Number(field)
	if err == nil {
		return v, nil
	}
	plain, _ := Plain(strings.TrimSpace(field), t.DecimalComma())
	if v, err := Number(plain); err == nil {
		return v, nil
	}
	return 0, err
}

// Label reads a label that is a number. It returns ErrNoLabel for a missing value.
func (t *Table) Label(field string) (float64, error) {
	if IsGap(strings.TrimSpace(field)) {
		return 0, ErrNoLabel
	}
	return t.Number(field)
}

// DecimalComma tells whether a comma in a number is the decimal mark, because semicolons separate
// the fields.
func (t *Table) DecimalComma() bool { return t.csv != nil && t.csv.Comma == ';' }

// Plain removes what people write with a number: a sign of a currency or of percent, which is
// returned too, and commas between thousands. A decimal comma becomes a point. The rest may be
// no number.
func Plain(text string, decimalComma bool) (plain, sign string) {
	minus := ""
	if rest, ok := strings.CutPrefix(text, "-"); ok {
		minus, text = "-", rest
	}
	first, size := utf8.DecodeRuneInString(text)
	last, end := utf8.DecodeLastRuneInString(text)
	switch {
	case strings.ContainsRune(currencies, first):
		sign, text = string(first), strings.TrimSpace(text[size:])
	case last == '%' || strings.ContainsRune(currencies, last):
		sign, text = string(last), strings.TrimSpace(text[:len(text)-end])
	}
	if rest, ok := strings.CutPrefix(text, "-"); ok && minus == "" && sign != "" {
		minus, text = "-", rest
	}
	whole, rest, comma := strings.Cut(text, ",")
	switch {
	case !comma:
	case decimalComma:
		text = whole + "." + rest
	case groups(text):
		text = strings.ReplaceAll(text, ",", "")
	}
	return minus + text, sign
}

const currencies = "$€£¥₹"

// groups tells whether all commas of a number stand between its thousands. No number with
// thousands begins with a zero: 0,123 has a decimal comma.
func groups(text string) bool {
	whole, _, _ := strings.Cut(text, ".")
	if strings.HasPrefix(whole, "0") {
		return false
	}
	for i, part := range strings.Split(whole, ",") {
		if n := len(part); n > 3 || n == 0 || i > 0 && n < 3 || strings.Trim(part, "0123456789") != "" {
			return false
		}
	}
	return !strings.Contains(text[len(whole):], ",")
}
