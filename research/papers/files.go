package papers

import (
	"encoding/csv"
	"io"
	"path/filepath"
	"strconv"

	"hindsight/cmd/research/figure"
	"hindsight/cmd/research/markdown"
)

// Save writes the files of one stream below a directory: its table, its curves,
// its figures, and the table of late labels if there is one. A stream that was
// skipped has no files.
func Save(dir string, r *Result) error {
	if r.Skipped != "" {
		return nil
	}
	name := r.Stream.Name
	type file struct {
		path  string
		write func(io.Writer) error
	}
	files := []file{
		{filepath.Join(dir, name+".csv"), func(w io.Writer) error { return writeTable(w, r) }},
		{filepath.Join(dir, "curves", name+".csv"), func(w io.Writer) error { return writeCurves(w, r) }},
	}
	for _, f := range Families() {
		files = append(files, file{filepath.Join(dir, name+f.Suffix+".svg"), func(w io.Writer) error { return Draw(w, r, f) }})
	}
	if len(r.Late) > 0 {
		files = append(files, file{filepath.Join(dir, "late", name+".csv"), func(w io.Writer) error { return writeLate(w, r) }})
	}
	for _, f := range files {
		if err := figure.Save(f.path, f.write); err != nil {
			return err
		}
	}
	return nil
}

// SaveReport writes the report as README.md of a directory.
func SaveReport(dir string, p Plan, results []*Result) error {
	return figure.Save(filepath.Join(dir, "README.md"), func(w io.Writer) error {
		_, err := io.WriteString(w, Report(p, results))
		return err
	})
}

// writeTable writes a row for every learner and baseline.
func writeTable(w io.Writer, r *Result) error {
	out := csv.NewWriter(w)
	// The writer keeps its first error; see below.
	head := []string{
		"learner", "rows", "loss_kind", "mean_loss", "error_rate", "mean_loss_first_4000", "error_rate_first_4000",
		"regret", "regret_bound", "features", "state_bytes", "rounds_per_second", "rate_to_linear_awv", "note", "skill",
	}
	for _, level := range Coverages() {
		head = append(head, "coverage_"+markdown.Exact(level), "least_of_500_"+markdown.Exact(level))
	}
	_ = out.Write(head)
	for _, e := range r.Entries {
		line := []string{
			e.Name, strconv.Itoa(e.Rows), e.Loss,
			e.ifAny(e.MeanLoss()), r.ifSigns(e, e.ErrorRate()),
			e.ifAny(e.First.MeanLoss), r.ifSigns(e, e.First.ErrorRate),
			markdown.Exact(e.Regret), markdown.Exact(e.Bound), count(uint64(e.Features)), count(e.StateBytes),
			markdown.Exact(markdown.Round(e.Rate, 4)), markdown.Exact(markdown.Round(r.Ratio(e), 3)), e.Rejected, markdown.Exact(e.Skill),
		}
		for _, level := range Coverages() {
			i := e.interval(level)
			line = append(line, markdown.Exact(i.Inside), markdown.Exact(i.Least))
		}
		_ = out.Write(line)
	}
	out.Flush()
	return out.Error()
}

// writeCurves writes a row for every point of every curve.
func writeCurves(w io.Writer, r *Result) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{"learner", "t", "mean_loss", "error_rate"})
	for _, e := range r.Entries {
		for _, p := range e.Curve {
			_ = out.Write([]string{e.Name, strconv.Itoa(p.T), markdown.Exact(p.MeanLoss), r.ifSigns(e, p.ErrorRate)})
		}
	}
	out.Flush()
	return out.Error()
}

// writeLate writes a row for every delay.
func writeLate(w io.Writer, r *Result) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{"delay", "rows", "served_loss", "served_error_rate", "running_mean_loss", "last_label_loss", "skill"})
	for _, l := range r.Late {
		_ = out.Write([]string{
			strconv.Itoa(l.Delay), strconv.Itoa(l.Rows), markdown.Exact(l.Loss), markdown.Exact(l.ErrorRate),
			markdown.Exact(l.RunningMean), markdown.Exact(l.LastLabel), markdown.Exact(l.Skill),
		})
	}
	out.Flush()
	return out.Error()
}

// ifAny writes a mean. Without a round it writes nothing.
func (e Entry) ifAny(v float64) string {
	if e.Rows == 0 {
		return ""
	}
	return markdown.Exact(v)
}

// ifSigns writes an error rate if the labels are signs.
func (r *Result) ifSigns(e Entry, v float64) string {
	if !r.Stream.Signs {
		return ""
	}
	return e.ifAny(v)
}

// count writes a number, and nothing for 0.
func count(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}
