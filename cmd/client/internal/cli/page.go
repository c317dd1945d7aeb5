package cli

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// page is an answer for people, aligned at tabs. The first error of writing
// stays with it.
type page struct {
	w   *tabwriter.Writer
	err error
}

func newPage(w io.Writer) *page {
	return &page{w: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
}

// Write implements io.Writer.
func (p *page) Write(b []byte) (int, error) {
	if p.err != nil {
		return 0, p.err
	}
	var n int
	n, p.err = p.w.Write(b)
	return n, p.err
}

// printf writes what the format says.
func (p *page) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(p, format, args...) // kept by Write
}

// row writes a name and a value.
func (p *page) row(name string, value any) { p.printf("%s\t%v\n", name, value) }

// float writes a name and a number.
func (p *page) float(name string, value float64) { p.row(name, number(value)) }

// end writes what is left.
func (p *page) end() error {
	if p.err != nil {
		return p.err
	}
	return p.w.Flush()
}

// say writes a line for people to standard error. That it cannot be read is no
// reason to stop.
func (e *env) say(format string, args ...any) {
	_, _ = fmt.Fprintf(e.stderr, format+"\n", args...)
}
