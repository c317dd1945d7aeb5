// Package figure writes the plots of the project's results, all in one style,
// and files.
package figure

import (
	"bytes"
	"image/color"
	"io"
	"os"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	width  = 9 * vg.Inch
	height = 5 * vg.Inch
	// The modes of saved files and directories.
	fileMode      = 0o644
	directoryMode = 0o755
)

// Dress sets the fonts and the legend.
func Dress(p *plot.Plot) {
	sans := func(f *font.Font, size vg.Length) {
		*f = font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
	}
	sans(&p.Title.TextStyle.Font, 14)
	sans(&p.X.Label.TextStyle.Font, 11)
	sans(&p.Y.Label.TextStyle.Font, 11)
	sans(&p.X.Tick.Label.Font, 10)
	sans(&p.Y.Tick.Label.Font, 10)
	sans(&p.Legend.TextStyle.Font, 10)
	p.BackgroundColor = color.White
	p.Title.Padding = vg.Points(6)
	p.Legend.Padding = vg.Points(2)
	p.Legend.ThumbnailWidth = vg.Points(24)
}

// WriteSVG writes a plot as SVG with its legend at the right. A reader without
// the font gets a similar one. The same plot gives the same bytes.
func WriteSVG(w io.Writer, p *plot.Plot) error {
	canvas := vgsvg.New(width, height)
	compose(draw.New(canvas), p)
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return err
	}
	_, err := w.Write(bytes.ReplaceAll(out.Bytes(),
		[]byte("font-family:Liberation Sans;"), []byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif;")))
	return err
}

// compose draws a plot and, to the right of it, its legend.
func compose(whole draw.Canvas, p *plot.Plot) {
	whole.SetColor(color.White)
	whole.Fill(whole.Path())
	legend := p.Legend
	legend.Top, legend.Left = true, true
	p.Legend = plot.NewLegend()
	width := legend.Rectangle(whole).Size().X + vg.Points(12)
	p.Draw(draw.Crop(whole, 0, -width, 0, 0))
	legend.Draw(draw.Crop(whole, whole.Size().X-width+vg.Points(8), 0, 0, -vg.Points(28)))
}

// Save writes a file and creates the directories above it.
func Save(path string, write func(io.Writer) error) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), directoryMode); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fileMode) //nolint:gosec // the user names the directory
	if err != nil {
		return err
	}
	defer func() {
		if failed := file.Close(); err == nil {
			err = failed
		}
	}()
	return write(file)
}
