package comparison

import (
	"io"
	"math"
	"strconv"

	"hindsight/cmd/research/baselines"
	"hindsight/cmd/research/markdown"
)

// writeSummary writes a row for every stream and method: the number with a tenth of the stated
// step, with the stated step and with the best step; what the AdaRaker paper prints; and the
// number nearest to the printed one of the stated step.
func writeSummary(w io.Writer, results []*Result) error {
	rows := [][]string{{
		"stream", "method", "tenth", "stated", "best_factor", "best", "printed_stated", "nearest_factor", "nearest", "printed_best",
	}}
	for _, r := range results {
		names, stepped := r.methods()
		for i, name := range names {
			p := r.printed(name)
			cells := []string{r.Stream.Name, name, "", markdown.Exact(r.course(name, baselines.NoStep)), "", "", markdown.Exact(p.Stated), "", "", ""}
			if stepped[i] {
				best, least := r.best(name)
				cells[2], cells[3] = markdown.Exact(r.course(name, baselines.Tenth)), markdown.Exact(r.course(name, baselines.Stated))
				cells[4], cells[5], cells[9] = factor(best), markdown.Exact(least), markdown.Exact(p.Tuned)
				if !math.IsNaN(p.Stated) {
					step, number := r.Nearest(name, p.Stated)
					cells[7], cells[8] = factor(step), markdown.Exact(number)
				}
			}
			rows = append(rows, cells)
		}
	}
	return writeRows(w, rows)
}

// Nearest returns the step with which the number of a method is nearest to v by
// ratio, and the number.
func (r *Result) Nearest(method string, v float64) (step int, number float64) {
	distance := math.Inf(1)
	step, number = baselines.NoStep, math.NaN()
	for s := range baselines.Steps {
		got := r.course(method, s)
		if d := math.Abs(math.Log(got / v)); d < distance {
			distance, step, number = d, s, got
		}
	}
	return step, number
}

// factor writes the factor of a step.
func factor(step int) string {
	if step == baselines.NoStep {
		return ""
	}
	return strconv.FormatFloat(baselines.Factor(step), 'g', -1, 64)
}
