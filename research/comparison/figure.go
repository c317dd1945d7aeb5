package comparison

import (
	"io"
	"math"
	"strings"

	"hindsight/cmd/research/baselines"
	"hindsight/cmd/research/figure"
	"hindsight/cmd/research/markdown"
	"hindsight/cmd/research/papers"
)

// rounds is the caption of the horizontal axis.
const rounds = "round t (rows of the stream)"

// most is the largest mean loss that is drawn. Labels are in [0, 1], so a larger one is
// that of a course that diverges.
const most = 1

// logarithmic is the ratio from which on an axis of losses is logarithmic.
const logarithmic = 4

// drawLosses draws the loss over the rounds, like Figure 3 of the AdaRaker paper, or
// the errors if the labels are signs.
func drawLosses(w io.Writer, r *Result) error {
	c := figure.Chart{
		Title: r.Stream.Name + ": mean squared loss of rounds 1..t, step 1/√T", X: rounds, Y: "mean loss", Ratio: logarithmic,
	}
	if r.Stream.Signs {
		c.Title, c.Y = r.Stream.Name+": errors in rounds 1..t, step 1/√T", "errors so far (% of rounds)"
	}
	add := func(name string, dashed bool, points []papers.Point) {
		line := figure.Line{Name: name, Dashed: dashed}
		for _, p := range points {
			v := p.MeanLoss
			if r.Stream.Signs {
				v = 100 * p.ErrorRate
			} else if !(v <= most) {
				break
			}
			line.X, line.Y = append(line.X, float64(p.T)), append(line.Y, v)
		}
		c.Lines = append(c.Lines, line)
	}
	for _, course := range r.Courses {
		if course.Step == baselines.Stated || course.Step == baselines.NoStep {
			add(course.Method, course.Step == baselines.NoStep, course.Curve)
		}
	}
	for _, t := range r.Traces {
		if t.Name == papers.NameRaker || t.Name == papers.NameAdaRaker {
			points := make([]papers.Point, len(t.Points))
			for i, p := range t.Points {
				points[i] = p.Point
			}
			add(t.Name, true, points)
		}
	}
	return c.Write(w)
}

// drawRegrets draws the regret over the rounds of the learners that know it, like
// the figures of the PKAWV papers. The lines of learners by steps are dashed.
func drawRegrets(w io.Writer, r *Result) error {
	c := figure.Chart{Title: r.Stream.Name + ": regret after t rounds", X: rounds, Y: "regret against the best function"}
	for _, t := range r.Traces {
		line := figure.Line{Name: t.Name, Dashed: !strings.Contains(t.Name, "awv")}
		known := false
		for _, p := range t.Points {
			line.X, line.Y = append(line.X, float64(p.T)), append(line.Y, p.Regret)
			known = known || !math.IsNaN(p.Regret)
		}
		if known {
			c.Lines = append(c.Lines, line)
		}
	}
	return c.Write(w)
}

// drawDictionaries draws the size of the dictionary of a learner over the rounds of
// every stream.
func drawDictionaries(w io.Writer, results []*Result, name, title string) error {
	c := figure.Chart{Title: title + " after t rounds", X: rounds, Y: "size"}
	for i, r := range results {
		for _, t := range r.Traces {
			if t.Name != name {
				continue
			}
			line := figure.Line{Name: r.Stream.Name, Dashed: i%2 == 1}
			for _, p := range t.Points {
				line.X, line.Y = append(line.X, float64(p.T)), append(line.Y, float64(p.Dictionary))
			}
			c.Lines = append(c.Lines, line)
		}
	}
	return c.Write(w)
}

// drawAccuracies draws the test error of NYTRO and Nyström KRLS against the number of
// centres.
func drawAccuracies(w io.Writer, r *Result) error {
	few := figure.Line{Name: iterations(baselines.NytroIterations)}
	many := figure.Line{Name: iterations(baselines.ManyIterations)}
	ridge := figure.Line{Name: "Nyström KRLS"}
	for _, a := range r.Accuracies {
		for _, l := range []struct {
			line *figure.Line
			v    float64
		}{{&few, a.Few}, {&many, a.Many}, {&ridge, a.Ridge}} {
			l.line.X, l.line.Y = append(l.line.X, float64(a.M)), append(l.line.Y, l.v)
		}
	}
	return figure.Chart{
		Title: r.Stream.Name + ": test error against the number of centres", X: "centres m", Y: "root mean squared error on the test rows",
		Lines: []figure.Line{few, many, ridge}, Powers: true,
	}.Write(w)
}

// iterations names NYTRO with a number of iterations.
func iterations(t int) string { return "NYTRO, t = " + markdown.Thousands(t) }
