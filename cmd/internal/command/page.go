package command

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"text/tabwriter"
)

// Page is an answer for people. Columns are aligned at tabs. After the first
// error nothing more is written.
type Page struct {
	w   *tabwriter.Writer
	err error
}

func newPage(w io.Writer) *Page {
	return &Page{w: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
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
func (p *Page) Row(name string, value any) { p.Printf("%s\t%v\n", name, value) }

// Float writes a name and a number.
func (p *Page) Float(name string, value float64) { p.Row(name, Number(value)) }

// end writes what is still buffered.
func (p *Page) end() error {
	if p.err != nil {
		return p.err
	}
	return p.w.Flush()
}

// Number writes a number for people, with six digits.
func Number(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

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
