package adversary

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	figureWidth  = 9 * vg.Inch
	figureHeight = 5 * vg.Inch
)

// Draw draws the regrets over the rounds as SVG: solid under the adversary,
// dotted under random play, and dashed the certificate of exact Kernel-AWV.
// The same result gives the same bytes.
func Draw(w io.Writer, r *Result) error {
	p, err := figure(r)
	if err != nil {
		return err
	}
	return write(w, p)
}

// figure plots the regrets.
func figure(r *Result) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = fmt.Sprintf("Regret under a greedy adversary, d = %d", r.Setting.Dimension)
	p.X.Label.Text = "round t"
	p.Y.Label.Text = "regret against the best function"
	p.Add(plotter.NewGrid())
	for i, c := range r.Greedy {
		width := vg.Points(1.6)
		if c.Name == NameKernel {
			width *= 2 // The certificate lies upon it.
		}
		line, err := curve(c, Round.regret, draw.LineStyle{Color: colour(i), Width: width})
		if err != nil {
			return nil, err
		}
		p.Add(line)
		p.Legend.Add(c.Name, line)
	}
	dashed, err := curve(r.Greedy[r.index(NameKernel)], Round.certificate, draw.LineStyle{
		Color: color.RGBA{R: 0xff, G: 0xd6, A: 0xff}, Width: vg.Points(1.2), Dashes: []vg.Length{6, 5},
	})
	if err != nil {
		return nil, err
	}
	p.Add(dashed)
	p.Legend.Add(NameKernel+": certificate", dashed)
	for i, c := range r.Random {
		line, err := curve(c, Round.regret, draw.LineStyle{Color: colour(i), Width: vg.Points(1), Dashes: []vg.Length{1, 2.5}})
		if err != nil {
			return nil, err
		}
		p.Add(line)
		if c.Name == NameKernel {
			p.Legend.Add("dotted: random play", line)
		}
	}
	p.X.Min, p.X.Max, p.Y.Min = 0, float64(r.Setting.Rounds), min(0, p.Y.Min)
	p.X.Tick.Marker = plot.TickerFunc(wholeTicks)
	dress(p)
	return p, nil
}

func (r Round) regret() float64      { return r.Regret }
func (r Round) certificate() float64 { return r.Certificate }

// curve is a line from 0 at round 0.
func curve(c Course, of func(Round) float64, style draw.LineStyle) (*plotter.Line, error) {
	points := make(plotter.XYs, 1, len(c.Rounds)+1)
	for t, round := range c.Rounds {
		points = append(points, plotter.XY{X: float64(t + 1), Y: of(round)})
	}
	line, err := plotter.NewLine(points)
	if err != nil {
		return nil, err
	}
	line.LineStyle = style
	return line, nil
}

// colour is the colour of an entrant, one that people who see fewer of them
// can tell from the others.
func colour(i int) color.Color {
	all := []color.RGBA{
		{A: 0xff},
		{R: 0xd5, G: 0x5e, A: 0xff},
		{R: 0xe6, G: 0x9f, A: 0xff},
		{R: 0xcc, G: 0x79, B: 0xa7, A: 0xff},
		{R: 0x56, G: 0xb4, B: 0xe9, A: 0xff},
		{G: 0x9e, B: 0x73, A: 0xff},
		{G: 0x72, B: 0xb2, A: 0xff},
	}
	return all[i%len(all)]
}

// wholeTicks are up to ten ticks at whole rounds.
func wholeTicks(_, high float64) []plot.Tick {
	step := 1
	for n := 0; high/float64(step) > 10; n++ {
		step = step * []int{2, 5, 2}[n%3] / []int{1, 2, 1}[n%3] // 1, 2, 5, 10, …
	}
	var ticks []plot.Tick
	for v := 0; float64(v) <= high; v += step {
		ticks = append(ticks, plot.Tick{Value: float64(v), Label: strconv.Itoa(v)})
	}
	return ticks
}

// dress sets type and legend.
func dress(p *plot.Plot) {
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

// write writes the figure as SVG, its legend to the right. A reader without
// the font that it is measured for gets one like it.
func write(w io.Writer, p *plot.Plot) error {
	canvas := vgsvg.New(figureWidth, figureHeight)
	whole := draw.New(canvas)
	whole.SetColor(color.White)
	whole.Fill(whole.Path())
	legend := p.Legend
	legend.Top, legend.Left = true, true
	p.Legend = plot.NewLegend()
	width := legend.Rectangle(whole).Size().X + vg.Points(12)
	p.Draw(draw.Crop(whole, 0, -width, 0, 0))
	legend.Draw(draw.Crop(whole, whole.Size().X-width+vg.Points(8), 0, 0, -vg.Points(28)))
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return err
	}
	_, err := w.Write(bytes.ReplaceAll(out.Bytes(),
		[]byte("font-family:Liberation Sans;"), []byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif;")))
	return err
}
