// Package markdown writes reports in Markdown, and the numbers in them.
package markdown

import (
	"math"
	"strconv"
	"strings"
)

// Absent stands for an unknown number.
const Absent = "–"

// Digits writes a number with n significant digits.
func Digits(v float64, n int) string {
	if math.IsNaN(v) {
		return Absent
	}
	scientific := strconv.FormatFloat(v, 'e', n-1, 64)
	_, power, _ := strings.Cut(scientific, "e")
	exponent, err := strconv.Atoi(power)
	switch {
	case v == 0:
		return "0"
	case err != nil, exponent < -4, exponent > 5: // err: it is infinite
		return scientific
	default:
		return strconv.FormatFloat(v, 'f', max(0, n-1-exponent), 64)
	}
}

// Percent writes a share in percent.
func Percent(v float64) string {
	if math.IsNaN(v) {
		return Absent
	}
	return strconv.FormatFloat(100*v, 'f', 2, 64) + " %"
}

// Thousands writes a whole number with commas.
func Thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Exact writes a number with all its digits, and nothing if it is unknown.
func Exact(v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// Round rounds to n significant digits.
func Round(v float64, n int) float64 {
	short, err := strconv.ParseFloat(strconv.FormatFloat(v, 'e', n-1, 64), 64)
	if err != nil {
		return v
	}
	return short
}

// Report collects lines of Markdown.
type Report struct{ text strings.Builder }

// Line writes a line. A strings.Builder returns no errors.
func (m *Report) Line(parts ...string) {
	for _, p := range parts {
		_, _ = m.text.WriteString(p)
	}
	_ = m.text.WriteByte('\n')
}

// Paragraph writes a text and the empty line after it.
func (m *Report) Paragraph(parts ...string) {
	m.Line(parts...)
	m.Line()
}

// Row writes a row of a table.
func (m *Report) Row(cells ...string) {
	m.Line("| ", strings.Join(cells, " | "), " |")
}

// Head writes the head of a table: names in the first column, numbers in the
// others.
func (m *Report) Head(cells ...string) {
	m.Row(cells...)
	rule := make([]string, len(cells))
	for i := range rule {
		rule[i] = "---:"
	}
	rule[0] = "---"
	m.Row(rule...)
}

// String returns the text without empty lines at its end.
func (m *Report) String() string { return strings.TrimRight(m.text.String(), "\n") + "\n" }
