package figure

import (
	"image/color"
	"io"
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"hindsight/cmd/research/markdown"
)

// Line is a named line of a chart.
type Line struct {
	Name string
	X, Y []float64
	// Dashed lines are those of another kind than the others.
	Dashed bool
}

// Chart is a figure of lines.
type Chart struct {
	// Title, X and Y are the captions.
	Title, X, Y string
	Lines       []Line
	// Ratio is the ratio of the largest and the smallest value from which on the
	// vertical axis is logarithmic; 0: never. Powers says that the horizontal axis is
	// logarithmic.
	Ratio  float64
	Powers bool
}

// wholeFrom is the largest value of a linear axis from which on its ticks are whole
// numbers.
const wholeFrom = 10

// Write draws the chart as SVG. Points that are not finite are left out, as those
// at 0 or below are on a logarithmic axis. The same chart gives the same bytes.
func (c Chart) Write(w io.Writer) error {
	p, err := c.plotted()
	if err != nil {
		return err
	}
	return WriteSVG(w, p)
}

// plotted plots the chart.
func (c Chart) plotted() (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.Title, c.X, c.Y
	p.Add(plotter.NewGrid())
	low, high, least, most := c.bounds()
	logarithmic := c.Ratio > 0 && least > 0 && high >= c.Ratio*least
	for i, l := range c.Lines {
		points := l.points(logarithmic)
		if len(points) == 0 {
			continue
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return nil, err
		}
		line.LineStyle = draw.LineStyle{Color: colour(i), Width: vg.Points(1.4)}
		if l.Dashed {
			line.Dashes = []vg.Length{5, 2}
		}
		p.Add(line)
		p.Legend.Add(l.Name, line)
	}
	p.X.Min, p.X.Max = 0, most
	p.X.Tick.Marker = plot.TickerFunc(WholeTicks)
	if c.Powers {
		p.X.Min, p.X.Scale, p.X.Tick.Marker = 1, plot.LogScale{}, plot.TickerFunc(doublings)
	}
	if logarithmic {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.TickerFunc(LogTicks)
		p.Y.Min, p.Y.Max = least/1.1, high*1.1
	} else if low < high {
		p.Y.Min, p.Y.Max = min(0, low), high
		if high >= wholeFrom {
			p.Y.Tick.Marker = plot.TickerFunc(WholeTicks)
		}
	}
	Dress(p)
	return p, nil
}

// bounds returns the smallest, the largest and the smallest positive value, and the
// largest X.
func (c Chart) bounds() (low, high, least, most float64) {
	low, high, least = math.Inf(1), math.Inf(-1), math.Inf(1)
	for _, l := range c.Lines {
		for _, xy := range l.points(false) {
			low, high, most = min(low, xy.Y), max(high, xy.Y), max(most, xy.X)
			if xy.Y > 0 {
				least = min(least, xy.Y)
			}
		}
	}
	if math.IsInf(least, 1) {
		least = 0
	}
	return low, high, least, most
}

// points returns the points that can be drawn.
func (l Line) points(positive bool) (points plotter.XYs) {
	for i, y := range l.Y {
		if math.IsNaN(y) || math.IsInf(y, 0) || positive && y <= 0 {
			continue
		}
		points = append(points, plotter.XY{X: l.X[i], Y: y})
	}
	return points
}

// colour returns the colour of line i. Colour-blind people can distinguish the first
// eight.
func colour(i int) color.Color {
	palette := []color.RGBA{
		{R: 0x00, G: 0x72, B: 0xb2, A: 0xff},
		{R: 0xe6, G: 0x9f, A: 0xff},
		{R: 0x00, G: 0x9e, B: 0x73, A: 0xff},
		{R: 0xd5, G: 0x5e, A: 0xff},
		{R: 0x56, G: 0xb4, B: 0xe9, A: 0xff},
		{R: 0xcc, G: 0x79, B: 0xa7, A: 0xff},
		{A: 0xff},
		{R: 0x99, G: 0x99, B: 0x99, A: 0xff},
		{R: 0xaa, G: 0x33, B: 0x77, A: 0xff},
		{R: 0x33, G: 0x22, B: 0x88, A: 0xff},
		{R: 0xb8, G: 0xa0, A: 0xff},
		{R: 0x66, G: 0x33, A: 0xff},
		{R: 0xff, G: 0x66, B: 0x66, A: 0xff},
	}
	return palette[i%len(palette)]
}

// WholeTicks returns up to six ticks, at multiples of 1, 2 or 5 times a power of
// ten.
func WholeTicks(low, high float64) []plot.Tick {
	step := math.Pow10(int(math.Floor(math.Log10(max(1, high-low)))))
	for _, factor := range []float64{0.2, 0.5, 1, 2} {
		if (high-low)/(step*factor) <= 6 {
			step = max(1, step*factor)
			break
		}
	}
	var ticks []plot.Tick
	for v := math.Ceil(low/step) * step; v <= high; v += step {
		label := markdown.Thousands(int(math.Abs(v)))
		if v < 0 {
			label = "-" + label
		}
		ticks = append(ticks, plot.Tick{Value: v, Label: label})
	}
	return ticks
}

// doublings returns ticks at the powers of two.
func doublings(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	for v := 1.0; v <= high; v *= 2 {
		if v >= low {
			ticks = append(ticks, plot.Tick{Value: v, Label: markdown.Thousands(int(v))})
		}
	}
	return ticks
}

// LogTicks returns ticks at every digit times a power of ten. Labels are at 1, 2
// and 5; an axis over more than two powers of ten has labels at 1 only.
func LogTicks(low, high float64) []plot.Tick {
	labelled := "125"
	if high > 100*low {
		labelled = "1"
	}
	var ticks []plot.Tick
	for power := int(math.Floor(math.Log10(low))); power <= int(math.Ceil(math.Log10(high))); power++ {
		for digit := 1; digit < 10; digit++ {
			v := float64(digit) * math.Pow10(power)
			if v < low || v > high {
				continue
			}
			tick := plot.Tick{Value: v}
			if strings.Contains(labelled, strconv.Itoa(digit)) {
				tick.Label = strconv.FormatFloat(v, 'g', 3, 64)
			}
			ticks = append(ticks, tick)
		}
	}
	return ticks
}
