package dataset

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
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

// isUnknown tells whether a text among texts means a missing value: also the errors of spreadsheets,
// and what pandas, MySQL and C write. None and nil may be classes.
func isUnknown(text string) bool {
	switch text := strings.ToLower(text); text {
	case "", "na", "n/a", "n.a.", "nan", "-nan", "nan(ind)", "-nan(ind)", "null", "?", "<na>", "nat", `\n`,
		"#n/a", "#div/0!", "#value!", "#ref!", "#name?", "#num!", "#null!":
		return true
	default:
		return strings.HasPrefix(strings.TrimPrefix(text, "-"), "1.#") // 1.#QNAN, -1.#IND00, 1.#INF
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
