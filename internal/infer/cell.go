package infer

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"hindsight/internal/dataset"
)

// largest is the largest magnitude of a number that the server takes.
const largest = 1e100

// parseNumber reads a decimal number that the server takes, without hexadecimal digits and
// underscores.
func parseNumber(cell string) (float64, bool) {
	if strings.Trim(cell, "0123456789+-.eE") != "" {
		return 0, false
	}
	v, err := strconv.ParseFloat(cell, 64)
	return v, err == nil && math.Abs(v) <= largest
}

// isBeyond reports whether a cell is a number above the largest magnitude of inputs.
func isBeyond(cell string) bool {
	v, err := strconv.ParseFloat(cell, 64)
	return (err == nil || errors.Is(err, strconv.ErrRange)) && math.Abs(v) > largest
}

var errNoNumber = errors.New("no number")

// parseWritten reads a number as people write it; see dataset.Numbers. Plain is the number as a
// record has it. The error is errNoNumber, or says that the column does not show what the cell means.
func parseWritten(cell string, numbers *dataset.Numbers) (v float64, plain string, err error) {
	if plain, err = numbers.Plain(cell); err != nil {
		return 0, "", err
	}
	v, ok := parseNumber(plain)
	if !ok {
		return 0, "", errNoNumber
	}
	return v, plain, nil
}

// isHuge reports whether a plain number is an integer that no number of a record has exactly.
func isHuge(plain string, v float64) bool {
	return math.Abs(v) >= maxExact && strings.Trim(plain, "+-0123456789") == ""
}

// parseVector reads a list of numbers: spaces, commas or semicolons are between them,
// and brackets may be around them. The values are float64.
func parseVector(cell string) ([]any, bool) {
	if inner, ok := strings.CutPrefix(cell, "["); ok {
		if cell, ok = strings.CutSuffix(inner, "]"); !ok {
			return nil, false
		}
	}
	if strings.HasPrefix(cell, "(") && strings.HasSuffix(cell, ")") { // A point.
		cell = cell[1 : len(cell)-1]
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

// isCode reports whether a number is a code: digits that begin with a 0.
func isCode(cell string) bool {
	return len(cell) > 1 && cell[0] == '0' && strings.Trim(cell, "0123456789") == ""
}

// booleanPairs is how many pairs of words for true and false are known.
const booleanPairs = 20

// parseBoolean reads a word for true or false. The pair is its place among the pairs.
func parseBoolean(cell string) (pair int, value, ok bool) {
	if cell != "" && cell[0] > '1' && cell[0] <= '9' {
		return 0, false, false
	}
	word := strings.ToLower(whole(cell))
	if len(word) > len("verdadeiro") || strings.ContainsAny(word, " /|") {
		return 0, false, false
	}
	const words = " true / false | yes sí sì si / no | t / f | y / n | on / off | ja / nein nei nej nee | oui / non | wahr / falsch | " +
		"vrai / faux | verdadero verdadeiro vero / falso | tak / nie | sim / não nao | da ano / ne | да / нет | はい / いいえ | 是 / 否 | 예 / 아니요 | evet / hayır | ✓ ✔ / ✗ ✘ | 1 / 0 "
	at := strings.Index(words, " "+word+" ")
	if at < 0 {
		return 0, false, false
	}
	before := words[:at]
	return strings.Count(before, "|"), strings.LastIndexByte(before, '/') <= strings.LastIndexByte(before, '|'), true
}

// whole is the integer of a cell such as 7.0, and any other cell as it is. The category of 7.0 is 7,
// whatever the other cells of the column are.
func whole(cell string) string {
	const maxDigits = 15 // As many are exact.
	integer, zeros, found := strings.Cut(cell, ".")
	digits := strings.TrimPrefix(integer, "-")
	if !found || zeros == "" || strings.Trim(zeros, "0") != "" || digits == "" || len(digits) > maxDigits ||
		strings.Trim(digits, "0123456789") != "" || (digits[0] == '0' && integer != "0") {
		return cell
	}
	return integer
}
