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

// IsGap reports whether a text among numbers, booleans or times means a missing value. A number
// that is not finite is missing too.
func IsGap(text string) bool {
	if isPlain(text) {
		return false
	}
	switch strings.ToLower(text) {
	case "none", "nil", "-", "--", "---", "—", "–", "m", ".", "..", ":", "*", "missing", "unknown", "undefined", "not available", "n.d.", "nd", "k.a.", "inf", "+inf", "-inf", "infinity", "+infinity", "-infinity":
		return true
	default:
		const flagged = len(": c")                                                                                        // As Eurostat writes.
		return IsUnknown(text) || len(text) <= flagged && strings.HasPrefix(text, ": ") || strings.HasPrefix(text, "-- ") // -- sqft
	}
}

// IsUnknown reports whether a text among texts means a missing value: also what R, pandas, databases
// and C write, and the errors of spreadsheets in four languages. None and nil may be categories.
func IsUnknown(text string) bool {
	if isPlain(text) {
		return false
	}
	switch text := strings.ToLower(text); text {
	case "", "na", "n/a", "n.a.", "nan", "-nan", "nan(ind)", "-nan(ind)", "nan(snan)", "-nan(snan)", "null", "?", "<na>", "nat", `\n`,
		"(null)", "#n/a", "#n/a n/a", "#na", "#nv", "#n/d", "#div/0!", "#value!", "#ref!", "#name?", "#num!", "#null!", "#spill!", "#calc!",
		"#wert!", "#bezug!", "#zahl!", "#valeur!", "#nom?", "#nombre!", "#¡div/0!", "#¡valor!", "#¡ref!", "#¿nombre?", "#¡num!":
		return true
	default:
		return strings.HasPrefix(strings.TrimPrefix(text, "-"), "1.#") || // 1.#QNAN, -1.#IND00, 1.#INF
			strings.HasPrefix(text, "0000-00-00") || // MySQL.
			len(text) > 2 && strings.Trim(text, "#") == "" // A spreadsheet of narrow columns.
	}
}

// Class reads a class: a text without the spaces around it. It returns ErrNoLabel for a missing
// value.
func Class(field string) (string, error) {
	text := strings.TrimSpace(field)
	if IsUnknown(text) {
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
