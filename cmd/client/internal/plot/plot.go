// Package plot draws curves in a terminal with braille characters of two by four dots each.
package plot

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	dotsAcross = 2
	dotsDown   = 4
	blank      = '\u2800'
	minWidth   = 24
	minHeight  = 3
)

// ErrEmpty says that there is nothing to draw.
var ErrEmpty = errors.New("plot: no finite point")

// Options say how a curve is drawn.
type Options struct {
	Width, Height int      // In characters. Width includes the axis and its labels, Height does not.
	Title, X      string   // Above the curve, and below it.
	First, Last   string   // At the ends of the horizontal axis.
	Names         []string // Right of the end of each curve.
}

// Curves draws curves of equally many points over each other, from left to right at equal
// distances, with lines between the points. A point that is not finite leaves a gap.
func Curves(w io.Writer, curves [][]float64, o Options) error {
	low, high, ok := span(slices.Concat(curves...))
	if !ok {
		return ErrEmpty
	}
	labels := [3]string{tick(high), tick(low + (high-low)/2), tick(low)}
	margin := 0
	for _, l := range labels {
		margin = max(margin, utf8.RuneCountInString(l))
	}
	width := max(o.Width, minWidth) - margin - 2
	for _, name := range o.Names {
		width = min(width, max(o.Width, minWidth)-margin-3-utf8.RuneCountInString(name))
	}
	width = max(width, minWidth/2)
	height := max(o.Height, minHeight, len(o.Names))
	c := newCanvas(width, height)
	for _, ys := range curves {
		c.curve(ys, low, high)
	}

	var b strings.Builder
	if o.Title != "" {
		b.WriteString(o.Title + "\n")
	}
	labelled := map[int]string{0: labels[0], height / 2: labels[1], height - 1: labels[2]}
	ends := endings(curves, o.Names, func(y float64) int { return int(math.Round((high - y) / (high - low) * float64(height-1))) }, height)
	for row := range height {
		edge := "│"
		label, is := labelled[row]
		if is {
			edge = "┤"
		}
		line := strings.TrimRight(c.row(row), string(blank))
		if ends[row] != "" {
			line = c.row(row) + " " + ends[row]
		}
		fmt.Fprintf(&b, "%*s %s%s\n", margin, label, edge, line)
	}
	indent := strings.Repeat(" ", margin+1)
	b.WriteString(indent + "└" + strings.Repeat("─", width) + "\n")
	b.WriteString(indent + " " + axis(o, width) + "\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// endings returns a name for each row of several rows: that of the curve that ends in the row, or
// in the nearest row without a name. Curves without a finite point have no name.
func endings(curves [][]float64, names []string, row func(float64) int, rows int) []string {
	out := make([]string, rows)
	for i, name := range names {
		last := slices.IndexFunc(reversed(curves[i]), finite)
		if last < 0 {
			continue
		}
		want := row(curves[i][len(curves[i])-1-last])
		for off := range rows {
			if at := want + off; at < rows && out[at] == "" {
				out[at] = name
				break
			}
			if at := want - off; at >= 0 && out[at] == "" {
				out[at] = name
				break
			}
		}
	}
	return out
}

// reversed returns the points from the last to the first.
func reversed(ys []float64) []float64 {
	out := slices.Clone(ys)
	slices.Reverse(out)
	return out
}

// axis returns the line of labels below the horizontal axis.
func axis(o Options, width int) string {
	free := width - utf8.RuneCountInString(o.First+o.X+o.Last)
	if free < 2 {
		return strings.Join([]string{o.First, o.X, o.Last}, " ")
	}
	left := free / 2
	return o.First + strings.Repeat(" ", left) + o.X + strings.Repeat(" ", free-left) + o.Last
}

// span returns the range of the finite values. A range of length 0 is widened.
func span(ys []float64) (low, high float64, ok bool) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, y := range ys {
		if finite(y) {
			low, high = min(low, y), max(high, y)
		}
	}
	if low > high {
		return 0, 0, false
	}
	if low == high {
		pad := max(math.Abs(low)/2, 1)
		low, high = low-pad, high+pad
	}
	return low, high, finite(high - low)
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// tick writes a number of an axis with four digits.
func tick(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }

// canvas is a grid of dots.
type canvas struct {
	width, height int // in characters
	cells         []rune
}

func newCanvas(width, height int) *canvas {
	c := &canvas{width: width, height: height, cells: make([]rune, width*height)}
	for i := range c.cells {
		c.cells[i] = blank
	}
	return c
}

func (c *canvas) row(i int) string {
	return string(c.cells[i*c.width : (i+1)*c.width])
}

// column returns the column of dots of point i of several points.
func (c *canvas) column(i, points int) int {
	if points < 2 {
		return 0
	}
	return i * (c.width*dotsAcross - 1) / (points - 1)
}

// curve draws the points and the lines between them. Several points may be in
// the same column of dots.
func (c *canvas) curve(ys []float64, low, high float64) {
	rows := c.height * dotsDown
	level := func(y float64) int {
		return int(math.Round((high - y) / (high - low) * float64(rows-1)))
	}
	lastColumn, lastLevel := -1, 0
	for i, y := range ys {
		if !finite(y) {
			lastColumn = -1
			continue
		}
		column := c.column(i, len(ys))
		if lastColumn < 0 {
			lastColumn, lastLevel = column, level(y)
		}
		c.segment(lastColumn, lastLevel, column, level(y))
		lastColumn, lastLevel = column, level(y)
	}
}

// segment draws a straight line.
func (c *canvas) segment(x0, y0, x1, y1 int) {
	steps := max(abs(x1-x0), abs(y1-y0))
	if steps == 0 {
		c.dot(x0, y0)
		return
	}
	for s := range steps + 1 {
		f := float64(s) / float64(steps)
		c.dot(x0+int(math.Round(f*float64(x1-x0))), y0+int(math.Round(f*float64(y1-y0))))
	}
}

// dot sets a dot, counted from the top left corner.
func (c *canvas) dot(x, y int) {
	bits := [dotsDown][dotsAcross]rune{{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}
	c.cells[y/dotsDown*c.width+x/dotsAcross] |= bits[y%dotsDown][x%dotsAcross]
}

func abs(i int) int { return max(i, -i) }
