package adversary

import (
	"fmt"
	"image/color"
	"io"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"hindsight/cmd/research/figure"
)

// Draw draws the regrets over the rounds as SVG. Solid lines are under the
// adversary, dotted lines under random play. The dashed line is the certificate
// of exact Kernel-AWV. The same result gives the same bytes.
func Draw(w io.Writer, r *Result) error {
	p, err := plotted(r)
	if err != nil {
		return err
	}
	return figure.WriteSVG(w, p)
}

// plotted plots the regrets.
func plotted(r *Result) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = fmt.Sprintf("Regret under a greedy adversary, d = %d", r.Setting.Dimension)
	p.X.Label.Text = "round t"
	p.Y.Label.Text = "regret against the best function"
	p.Add(plotter.NewGrid())
	for i, c := range r.Greedy {
		width := vg.Points(1.6)
		if c.Name == NameKernel {
			width *= 2 // The line of the certificate lies on it.
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
	figure.Dress(p)
	return p, nil
}

func (r Round) regret() float64      { return r.Regret }
func (r Round) certificate() float64 { return r.Certificate }

// curve returns the line of a course. It starts with 0 at round 0.
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

// colour returns the colour of an entrant. Colour-blind people can distinguish
// the colours.
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

// wholeTicks returns up to ten ticks at whole rounds.
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

// index returns the place of an entrant.
func (r *Result) index(name string) int {
	return slices.IndexFunc(r.Greedy, func(c Course) bool { return c.Name == name })
}
