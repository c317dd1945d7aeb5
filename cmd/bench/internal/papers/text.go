package papers

import (
	"math"
	"strconv"
	"strings"
)

// absent stands for an unknown number.
const absent = "–"

// digits writes a number with n significant digits.
func digits(v float64, n int) string {
	if math.IsNaN(v) {
		return absent
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

// percent writes a share in percent.
func percent(v float64) string {
	if math.IsNaN(v) {
		return absent
	}
	return strconv.FormatFloat(100*v, 'f', 2, 64) + " %"
}

// thousands writes a whole number with commas.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// rate writes rounds per second with three digits.
func rate(v float64) string {
	if math.IsNaN(v) {
		return absent
	}
	if v < 100 {
		return digits(v, 3)
	}
	unit := math.Pow10(int(math.Floor(math.Log10(v))) - 2)
	return thousands(int(math.Round(v/unit) * unit))
}

// size writes a number of bytes.
func size(n uint64) string {
	switch {
	case n == 0:
		return absent
	case n < 1<<10:
		return strconv.FormatUint(n, 10) + " B"
	case n < 1<<20:
		return digits(float64(n)/(1<<10), 3) + " KiB"
	default:
		return digits(float64(n)/(1<<20), 3) + " MiB"
	}
}

// exact writes a number with all its digits, and nothing if it is unknown.
func exact(v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// markdown collects lines of Markdown.
type markdown struct{ text strings.Builder }

// line writes a line. A strings.Builder returns no errors.
func (m *markdown) line(parts ...string) {
	for _, p := range parts {
		_, _ = m.text.WriteString(p)
	}
	_ = m.text.WriteByte('\n')
}

// paragraph writes a text and the empty line after it.
func (m *markdown) paragraph(parts ...string) {
	m.line(parts...)
	m.line()
}

// row writes a row of a table.
func (m *markdown) row(cells ...string) {
	m.line("| ", strings.Join(cells, " | "), " |")
}

// head writes the head of a table: names in the first column, numbers in the
// others.
func (m *markdown) head(cells ...string) {
	m.row(cells...)
	rule := make([]string, len(cells))
	for i := range rule {
		rule[i] = "---:"
	}
	rule[0] = "---"
	m.row(rule...)
}
