package comparison

import (
	"encoding/csv"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"

	"hindsight/cmd/research/baselines"
	"hindsight/cmd/research/figure"
	"hindsight/cmd/research/markdown"
	"hindsight/cmd/research/papers"
)

// Directory is the directory of the tables and figures below the results.
const Directory = "baselines"

// Save writes the tables, curves and figures of a stream below a directory.
func Save(dir string, r *Result) error {
	dir = filepath.Join(dir, Directory)
	name := r.Stream.Name
	files := map[string]func(io.Writer) error{
		name + ".csv":                        func(w io.Writer) error { return writeTable(w, r) },
		name + ".svg":                        func(w io.Writer) error { return drawLosses(w, r) },
		name + "_regret.svg":                 func(w io.Writer) error { return drawRegrets(w, r) },
		filepath.Join("curves", name+".csv"): func(w io.Writer) error { return writeCurves(w, r) },
	}
	if len(r.Accuracies) > 0 {
		files[name+"_accuracy.csv"] = func(w io.Writer) error { return writeAccuracies(w, r) }
		files[name+"_accuracy.svg"] = func(w io.Writer) error { return drawAccuracies(w, r) }
		files[name+"_sigm.csv"] = func(w io.Writer) error { return writePasses(w, r) }
	}
	return save(dir, files)
}

// SaveSummary writes the table and the figures of all streams.
func SaveSummary(dir string, results []*Result) error {
	return save(filepath.Join(dir, Directory), map[string]func(io.Writer) error{
		"summary.csv": func(w io.Writer) error { return writeSummary(w, results) },
		"dictionary.svg": func(w io.Writer) error {
			return drawDictionaries(w, results, papers.NameNystrom, papers.NameNystrom+" and "+papers.NameProsNKons+": size of the dictionary")
		},
		"dictionary_kons.svg": func(w io.Writer) error {
			return drawDictionaries(w, results, NameSketch, NameSketch+": rounds that entered the matrix")
		},
	})
}

// save writes files in the order of their names.
func save(dir string, files map[string]func(io.Writer) error) error {
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if err := figure.Save(filepath.Join(dir, name), files[name]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// writeTable writes a row for every course.
func writeTable(w io.Writer, r *Result) error {
	rows := [][]string{{"method", "factor", "rounds", "mean_loss", "error_rate"}}
	for _, c := range r.Courses {
		factor := ""
		if c.Step != baselines.NoStep {
			factor = markdown.Exact(baselines.Factor(c.Step))
		}
		rows = append(rows, []string{c.Method, factor, strconv.Itoa(r.Rounds), markdown.Exact(c.MeanLoss), r.ifSigns(c.ErrorRate)})
	}
	return writeRows(w, rows)
}

// writeCurves writes the curves of the courses with the stated step or without a
// step, then those of the learners.
func writeCurves(w io.Writer, r *Result) error {
	rows := [][]string{{"name", "t", "mean_loss", "error_rate", "regret", "dictionary"}}
	for _, c := range r.Courses {
		if c.Step != baselines.Stated && c.Step != baselines.NoStep {
			continue
		}
		for _, p := range c.Curve {
			rows = append(rows, []string{c.Method, strconv.Itoa(p.T), markdown.Exact(p.MeanLoss), r.ifSigns(p.ErrorRate), "", ""})
		}
	}
	for _, t := range r.Traces {
		for _, p := range t.Points {
			dictionary := ""
			if p.Dictionary > 0 {
				dictionary = strconv.Itoa(p.Dictionary)
			}
			rows = append(rows, []string{t.Name, strconv.Itoa(p.T), markdown.Exact(p.MeanLoss), r.ifSigns(p.ErrorRate), markdown.Exact(p.Regret), dictionary})
		}
	}
	return writeRows(w, rows)
}

// writeAccuracies writes a row for every number of centres.
func writeAccuracies(w io.Writer, r *Result) error {
	rows := [][]string{{"m", "nytro_" + strconv.Itoa(baselines.NytroIterations), "nytro_" + strconv.Itoa(baselines.ManyIterations), "ridge", "lambda"}}
	for _, a := range r.Accuracies {
		rows = append(rows, []string{strconv.Itoa(a.M), markdown.Exact(a.Few), markdown.Exact(a.Many), markdown.Exact(a.Ridge), markdown.Exact(a.Lambda)})
	}
	return writeRows(w, rows)
}

// writePasses writes a row for every step of SIGM.
func writePasses(w io.Writer, r *Result) error {
	rows := [][]string{{"step", "passes", "hinge", "error_rate"}}
	for _, p := range r.Passes {
		rows = append(rows, []string{p.Step, markdown.Exact(p.Passes), markdown.Exact(p.Hinge), markdown.Exact(p.Errors)})
	}
	return writeRows(w, rows)
}

// ifSigns writes an error rate if the labels are signs.
func (r *Result) ifSigns(v float64) string {
	if !r.Stream.Signs {
		return ""
	}
	return markdown.Exact(v)
}

// writeRows writes a CSV file.
func writeRows(w io.Writer, rows [][]string) error {
	out := csv.NewWriter(w)
	return out.WriteAll(rows) // WriteAll flushes and returns the first error.
}
