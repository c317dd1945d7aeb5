package papers

import (
	"image/color"
	"io"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"hindsight/cmd/research/figure"
)

// logarithmic is the ratio of the largest and the smallest value from which on
// the axis is logarithmic.
const logarithmic = 4

// Family is a part of the learners. Each family has a figure of its own, so that the
// lines can be told apart. The baselines and auto are in both.
type Family struct {
	// Suffix is behind the name of the stream in the name of the file.
	Suffix string
	// Title says which learners it has. The title of a figure has room for little more.
	Title string

	steps bool
}

// Families returns the families in the order of the report.
func Families() []Family {
	return []Family{
		{Title: "AWV learners"},
		{Suffix: "_steps", Title: "gradient and Newton steps", steps: true},
	}
}

// has reports whether an entry is in the figure of the family.
func (f Family) has(e Entry) bool {
	name, _ := split(e.Name)
	switch name {
	case NameAuto:
		return true
	case NameFourierKons, NameProsNKons, NameKons, NameFogd, NameRaker, NameAdaRaker:
		return f.steps
	}
	return e.Baseline || !f.steps
}

// Draw draws the curves of a family on a stream as SVG: over the rounds the mean loss,
// or the error rate if the labels are signs. The same result gives the same bytes.
func Draw(w io.Writer, r *Result, f Family) error {
	p, err := plotted(r, f)
	if err != nil {
		return err
	}
	return figure.WriteSVG(w, p)
}

// plotted plots the curves of a family on a stream.
func plotted(r *Result, f Family) (*plot.Plot, error) {
	p := plot.New()
	p.X.Label.Text = "round t (rows of the stream)"
	p.Title.Text, p.Y.Label.Text = captions(r.Stream)
	p.Title.Text += ", " + f.Title
	p.Add(plotter.NewGrid())
	low, high := math.Inf(1), math.Inf(-1)
	for _, e := range r.Entries {
		points := r.points(e)
		if !f.has(e) || len(points) == 0 {
			continue
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return nil, err
		}
		line.LineStyle = style(e.Name)
		p.Add(line)
		p.Legend.Add(e.Name, line)
		for _, xy := range points {
			low, high = min(low, xy.Y), max(high, xy.Y)
		}
	}
	if err := asPrinted(p, r, &low, &high); err != nil {
		return nil, err
	}
	p.X.Min, p.X.Max = 0, float64(r.Rows)
	p.X.Tick.Marker = plot.TickerFunc(figure.WholeTicks)
	if low > 0 && high >= logarithmic*low {
		p.Y.Scale = plot.LogScale{}
		p.Y.Tick.Marker = plot.TickerFunc(figure.LogTicks)
		p.Y.Min, p.Y.Max = low/1.1, high*1.1
	}
	figure.Dress(p)
	return p, nil
}

// captions returns the title and the label of the vertical axis. The label must
// not be longer than about half of the axis.
func captions(s Stream) (title, axis string) {
	switch {
	case s.Signs:
		return s.Name + ": errors in rounds 1..t", "errors so far (% of rounds)"
	case s.AsPublished:
		return s.Name + ": mean squared loss of rounds 1..t", "mean loss (label units²)"
	default:
		return s.Name + ": mean squared loss of rounds 1..t", "mean loss (scaled label²)"
	}
}

// points returns the points of a curve. Points at 0 are left out, because a
// logarithmic axis has no 0, unless all points are at 0.
func (r *Result) points(e Entry) plotter.XYs {
	var all, positive plotter.XYs
	for _, c := range e.Curve {
		xy := plotter.XY{X: float64(c.T), Y: c.MeanLoss}
		if r.Stream.Signs {
			xy.Y = 100 * c.ErrorRate
		}
		all = append(all, xy)
		if xy.Y > 0 {
			positive = append(positive, xy)
		}
	}
	if len(positive) == 0 {
		return all
	}
	return positive
}

// asPrinted adds the paper's AdaRaker as a horizontal line. The paper prints its
// value after the last round only.
func asPrinted(p *plot.Plot, r *Result, low, high *float64) error {
	i := slices.IndexFunc(r.Stream.Published, func(f Figure) bool { return f.Of == NameAdaRaker })
	if i < 0 {
		return nil
	}
	y := r.Stream.Published[i].Value
	if r.Stream.Signs {
		y *= 100
	}
	line, err := plotter.NewLine(plotter.XYs{{X: 0, Y: y}, {X: float64(r.Rows), Y: y}})
	if err != nil {
		return err
	}
	line.LineStyle = draw.LineStyle{Color: color.Gray{Y: 0}, Width: vg.Points(0.8), Dashes: []vg.Length{2, 4}}
	p.Add(line)
	p.Legend.Add("paper's AdaRaker, last round", line)
	*low, *high = min(*low, y), max(*high, y)
	return nil
}

// split divides the name of a learner into that in the API and what is behind it.
func split(name string) (learner, variant string) {
	if i := strings.IndexByte(name, '.'); i >= 0 {
		return name[:i], name[i:]
	}
	return name, ""
}

// style returns the line of a learner or a baseline. It is the same in every
// figure. Colour-blind people can distinguish the colours of a figure. Learners with the
// same features have the same colour in the figures of both families. A variant of a
// learner has its colour, with dashes.
func style(name string) draw.LineStyle {
	s := draw.LineStyle{Color: color.Gray{Y: 120}, Width: vg.Points(1.4)}
	name, variant := split(name)
	switch variant {
	case running:
		s.Dashes = []vg.Length{5, 2}
	case several, sgm:
		s.Dashes = []vg.Length{1.5, 1.5}
	}
	switch name {
	case NameAuto:
		s.Color = color.RGBA{R: 0xaa, G: 0x33, B: 0x77, A: 0xff}
		s.Width = vg.Points(2.4)
	case NameMean:
		s.Dashes = []vg.Length{6, 3}
	case NameLast:
		s.Dashes = []vg.Length{2, 2}
	case NameLinear:
		s.Color = color.RGBA{R: 0x33, G: 0x22, B: 0x88, A: 0xff}
	case NameTaylor:
		s.Color = color.RGBA{R: 0x00, G: 0x72, B: 0xb2, A: 0xff}
	case NameNystrom, NameProsNKons:
		s.Color = color.RGBA{R: 0x56, G: 0xb4, B: 0xe9, A: 0xff}
	case NameFourier, NameFourierKons:
		s.Color = color.RGBA{R: 0x00, G: 0x9e, B: 0x73, A: 0xff}
	case NameKernel, NameKons:
		s.Color = color.RGBA{A: 0xff}
	case NameFogd, NameSemiparametric:
		s.Color = color.RGBA{R: 0xe6, G: 0x9f, A: 0xff}
	case NameRaker:
		s.Color = color.RGBA{R: 0xcc, G: 0x79, B: 0xa7, A: 0xff}
	case NameAdaRaker:
		s.Color = color.RGBA{R: 0xd5, G: 0x5e, A: 0xff}
	}
	return s
}
