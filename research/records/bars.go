package records

import (
	"math"
	"strings"

	"hindsight/cmd/research/markdown"
)

// The bars.
const (
	mostRatio    = 1
	mostErrors   = 0.025
	mostMissed   = 0.25
	mostDistance = 0.05
	barRecoding  = 0.5
)

// Bar is what a figure may be at most.
type Bar struct {
	// What names the figure, Asked is the bar, Measured the figure.
	What, Asked, Measured string
	met, known            bool
}

// Met says whether the bar is met.
func (b Bar) Met() string {
	switch {
	case !b.known:
		return "not measured"
	case b.met:
		return "yes"
	default:
		return "**no**"
	}
}

// bar compares a figure with what it may be at most.
func bar(what, asked, measured string, value, most float64) Bar {
	return Bar{What: what, Asked: asked, Measured: measured, met: value <= most, known: !math.IsNaN(value)}
}

// Bars returns every bar.
func (r *Results) Bars() []Bar {
	var all []Bar
	for _, b := range r.Beside {
		if b.classes() || b.added() != "" {
			continue
		}
		all = append(all, bar("loss of "+b.Stream+" by named columns / scaled by hand, `"+b.Learner+"`",
			"at most 1", markdown.Digits(b.Ratio(), 3), b.Ratio(), mostRatio))
	}
	for _, d := range r.Digits {
		all = append(all, bar("errors of digits, scaling "+d.Scaling, "at most 2.5 %", markdown.Percent(d.Errors), d.Errors, mostErrors))
	}
	for _, w := range r.Withheld {
		if w.Recoding == barRecoding {
			all = append(all, bar("errors on the first 20 of a withheld digit, recoding ½, scaling "+w.Scaling,
				"at most 25 %", markdown.Percent(w.First), w.First, mostMissed))
		}
	}
	for _, e := range r.Reliability {
		all = append(all, bar("largest distance of a bin with 500 members from its probability, "+e.Stream+", `"+e.Learner+"`",
			"at most 0.05", markdown.Digits(e.Worst(), 2), e.Worst(), mostDistance))
	}
	return all
}

// added is the column that was added to the stream, empty for none.
func (b Beside) added() string {
	_, column, _ := strings.Cut(b.Stream, plus)
	return column
}

// classes reports whether the labels are classes.
func (b Beside) classes() bool { return stream(b.Stream).Signs }
