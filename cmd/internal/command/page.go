package command

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
)

// Page is an answer for people. Columns are aligned at tabs. After the first
// error nothing more is written.
type Page struct {
	w    *tabwriter.Writer
	to   io.Writer
	text strings.Builder
	err  error
}

func newPage(w io.Writer) *Page {
	p := &Page{to: w}
	p.w = tabwriter.NewWriter(&p.text, 0, 0, 2, ' ', 0)
	return p
}

// Write implements io.Writer.
func (p *Page) Write(b []byte) (int, error) {
	if p.err != nil {
		return 0, p.err
	}
	var n int
	n, p.err = p.w.Write(b)
	return n, p.err
}

// Printf writes formatted text.
func (p *Page) Printf(format string, args ...any) {
	_, _ = fmt.Fprintf(p, format, args...) // Write keeps the error.
}

// Row writes a name and a value.
func (p *Page) Row(name string, value any) { p.Printf("%s\t%s\n", name, cell(value)) }

// Text writes a name and a text, and nothing if the text is empty.
func (p *Page) Text(name, text string) {
	if text != "" {
		p.Row(name, text)
	}
}

// Known writes a name and a value, and nothing if the value is nil.
func Known[T any](p *Page, name string, value *T) {
	if value != nil {
		p.Row(name, *value)
	}
}

// Cells writes a line of a table, without the empty cells at its end.
func (p *Page) Cells(values ...any) {
	p.Printf("%s\n", strings.TrimRight(strings.Join(cells(values), "\t"), "\t"))
}

// Columns writes a line of a table, with the empty cells at its end: they keep the lines above
// and below aligned.
func (p *Page) Columns(values ...any) { p.Printf("%s\n", strings.Join(cells(values), "\t")) }

// Rows writes a table with a header in capitals.
func (p *Page) Rows(header []string, rows [][]any) {
	p.Printf("%s\n", strings.ToUpper(strings.ReplaceAll(strings.Join(header, "\t"), "_", " ")))
	for _, row := range rows {
		p.Cells(row...)
	}
}

func cells(values []any) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = cell(v)
	}
	return out
}

func cell(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case float64:
		return Number(v)
	case *float64:
		return Optional(v, Number)
	case bool:
		return map[bool]string{false: "no", true: "yes"}[v]
	default:
		return fmt.Sprint(v)
	}
}

func (p *Page) end() error {
	if p.err != nil {
		return p.err
	}
	if err := p.w.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(p.to, strings.Map(printable, p.text.String()))
	return err
}

// printable replaces the control characters of a terminal: names and classes come from other
// people.
func printable(c rune) rune {
	if unicode.IsControl(c) && c != '\n' {
		return unicode.ReplacementChar
	}
	return c
}

// Number writes a number for people, with three digits or as an integer with separators.
func Number(v float64) string {
	if a := math.Abs(v); a < 999.5 || a >= 1e12 || math.IsNaN(v) {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	digits := strconv.FormatFloat(v, 'f', 0, 64)
	for at := len(digits) - 3; at > 0 && digits[at-1] != '-'; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

// Count writes 1 row, or 2 rows.
func Count[N ~int | ~int64 | ~uint64](n N, unit string) string {
	if n != 1 {
		unit += "s"
	}
	return fmt.Sprintf("%d %s", n, unit)
}

// Optional writes a number, and nothing if it is not known.
func Optional(v *float64, write func(float64) string) string {
	if v == nil {
		return ""
	}
	return write(*v)
}

// Finite is a number that JSON shows as null when it is not finite.
type Finite float64

// MarshalJSON implements json.Marshaler.
func (f Finite) MarshalJSON() ([]byte, error) {
	if v := float64(f); math.IsNaN(v) || math.IsInf(v, 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(f))
}
