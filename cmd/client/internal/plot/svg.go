package plot

import (
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strings"
)

// The sizes of an SVG, in pixels.
const (
	svgWidth, svgHeight                  = 900, 420
	svgLeft, svgRight, svgTop, svgBottom = 80, 170, 50, 50
	svgAcross, svgDown                   = svgWidth - svgLeft - svgRight, svgHeight - svgTop - svgBottom
	svgRows                              = svgDown / 16 // lines of text
	svgTicks                             = 5
)

// colours returns the palette of Okabe and Ito, which people with defective colour vision tell
// apart.
func colours() []string {
	return []string{"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"}
}

// SVG draws curves of equally many points as a picture. It uses the texts and names of the
// options, not their size.
func SVG(w io.Writer, curves [][]float64, o Options) error {
	low, high, ok := span(slices.Concat(curves...))
	if !ok {
		return ErrEmpty
	}
	down := func(y float64) float64 { return svgTop + (high-y)/(high-low)*svgDown }
	var b strings.Builder
	text := func(x, y float64, anchor, colour, content string) {
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s">%s</text>`+"\n", x, y, anchor, colour, html.EscapeString(content))
	}
	const ink = "#333"
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">`+"\n"+
		`<rect width="100%%" height="100%%" fill="#fff"/>`+"\n", svgWidth, svgHeight)
	text(svgLeft, svgTop/2, "start", ink, o.Title)
	for i := range svgTicks {
		v := low + (high-low)*float64(i)/(svgTicks-1)
		fmt.Fprintf(&b, `<path d="M%d %.1fh%d" stroke="#ddd"/>`+"\n", svgLeft, down(v), svgAcross)
		text(svgLeft-8, down(v)+4, "end", ink, tick(v))
	}
	const below = svgHeight - svgBottom + 22
	text(svgLeft, below, "start", ink, o.First)
	text(svgLeft+svgAcross/2, below, "middle", ink, o.X)
	text(svgLeft+svgAcross, below, "end", ink, o.Last)
	palette := colours()
	for i, ys := range curves {
		var path strings.Builder
		pen := "M"
		for j, y := range ys {
			if !finite(y) {
				pen = "M"
				continue
			}
			fmt.Fprintf(&path, "%s%.1f %.1f", pen, svgLeft+svgAcross*float64(j)/math.Max(1, float64(len(ys)-1)), down(y))
			pen = "L"
		}
		fmt.Fprintf(&b, `<path d="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", path.String(), palette[i%len(palette)])
	}
	ends := endings(curves, o.Names, func(y float64) int { return int(math.Round((high - y) / (high - low) * (svgRows - 1))) }, svgRows)
	for row, name := range ends {
		if i := slices.Index(o.Names, name); i >= 0 {
			text(svgLeft+svgAcross+8, svgTop+4+svgDown*float64(row)/(svgRows-1), "start", palette[i%len(palette)], name)
		}
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}
