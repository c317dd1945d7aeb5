package infer

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"hindsight/cmd/internal/dataset"
)

// parseNumber reads a decimal number that the server takes, without hexadecimal digits and
// underscores.
func parseNumber(cell string) (float64, bool) {
	if strings.Trim(cell, "0123456789+-.eE") != "" {
		return 0, false
	}
	v, err := strconv.ParseFloat(cell, 64)
	return v, err == nil && math.Abs(v) <= 1e100
}

var errNoNumber = errors.New("no number")

// parseWritten reads a number as people write it; see dataset.Numbers. Plain is the number as a
// record has it. The error is errNoNumber, or says that the column does not show what the cell means.
func parseWritten(cell string, numbers *dataset.Numbers) (v float64, plain, sign string, err error) {
	plain, sign, err = numbers.Plain(cell)
	if err != nil {
		return 0, "", "", err
	}
	v, ok := parseNumber(plain)
	if !ok {
		return 0, "", "", errNoNumber
	}
	return v, plain, sign, nil
}

// parseVector reads a list of numbers: spaces, commas or semicolons are between them,
// and brackets may be around them. The values are float64.
func parseVector(cell string) ([]any, bool) {
	if inner, ok := strings.CutPrefix(cell, "["); ok {
		if cell, ok = strings.CutSuffix(inner, "]"); !ok {
			return nil, false
		}
	}
	var list []any
	for field := range strings.FieldsFuncSeq(cell, func(r rune) bool { return strings.ContainsRune(" ,;\t", r) }) {
		v, ok := parseNumber(field)
		if !ok {
			return nil, false
		}
		list = append(list, v)
	}
	return list, len(list) > 0
}

// isCode tells whether a number is a code: digits that begin with a 0.
func isCode(cell string) bool {
	return len(cell) > 1 && cell[0] == '0' && strings.Trim(cell, "0123456789") == ""
}

// booleanPairs is how many pairs of words for true and false are known.
const booleanPairs = 6

// parseBoolean reads a word for true or false. The pair is its place among the pairs.
func parseBoolean(cell string) (pair int, value, ok bool) {
	word := strings.ToLower(cell)
	for i, words := range [booleanPairs][2]string{{"true", "false"}, {"yes", "no"}, {"t", "f"}, {"y", "n"}, {"on", "off"}, {"1", "0"}} {
		if word == words[0] || word == words[1] {
			return i, word == words[0], true
		}
	}
	return 0, false, false
}

// Form is how a column writes its times: a layout of package time.
type Form string

// rfc3339 is what records have.
const rfc3339 = "2006-01-02T15:04:05.999999999Z07:00"

// forms are the known forms. Of two forms that fit all cells the first is taken, unless the
// rows ascend in time by the second alone.
func forms() []Form {
	out := []Form{
		"2006-01-02T15:04:05Z07:00",
		"2006-01-02 15:04:05Z07:00",
		"2006-01-02 15:04:05 -0700",
		"2006-01-02 15:04:05 MST",
		"20060102",
		"20060102T150405",
		"20060102150405",
		"Mon, 02 Jan 2006 15:04:05 MST",
	}
	for _, date := range []Form{
		"2006-01-02", "2006/1/2", "2006.1.2", "1/2/2006", "2/1/2006", "1-2-2006", "2-1-2006", "2.1.2006", "1/2/06", "2/1/06", "2.1.06",
		"2-Jan-2006", "2 Jan 2006", "Jan 2, 2006", "2 January 2006", "January 2, 2006",
	} {
		out = append(out, date)
		for _, clock := range []Form{" 15:04:05", " 15:04", "T15:04:05", "T15:04", " 3:04:05 PM", " 3:04 PM"} {
			out = append(out, date+clock)
		}
	}
	return out
}

// maxTime bounds the length of a time that is written.
const maxTime = 48

// Parse reads a time of the form. One without a zone is taken as UTC.
func (f Form) Parse(cell string) (time.Time, bool) {
	if len(cell) > maxTime {
		return time.Time{}, false
	}
	t, err := time.ParseInLocation(string(f), cell, time.UTC) // Not the zone of this machine.
	if err != nil || t.Year() < 1 || t.Year() > 9998 {
		return time.Time{}, false
	}
	// A name of a zone without its offset would silently be UTC.
	if name, offset := t.Zone(); strings.HasSuffix(string(f), "MST") && offset == 0 && !slices.Contains([]string{"UTC", "GMT"}, name) {
		return time.Time{}, false
	}
	if _, offset := t.Zone(); offset%60 != 0 || offset <= -24*3600 || offset >= 24*3600 {
		return time.Time{}, false
	}
	// Other years of digits alone are rather numbers.
	if strings.HasPrefix(string(f), "20060102") && (t.Year() < 1900 || t.Year() > 2100) {
		return time.Time{}, false
	}
	return t, true
}

// whole is the integer of a cell such as 7.0, and any other cell as it is. The category of 7.0 is 7,
// whatever the other cells of the column are.
func whole(cell string) string {
	const mostDigits = 15 // As many are exact.
	integer, zeros, found := strings.Cut(cell, ".")
	digits := strings.TrimPrefix(integer, "-")
	if !found || zeros == "" || strings.Trim(zeros, "0") != "" || digits == "" || len(digits) > mostDigits ||
		strings.Trim(digits, "0123456789") != "" || (digits[0] == '0' && integer != "0") {
		return cell
	}
	return integer
}
