package records

import (
	"encoding/csv"
	"fmt"
	"io"
	"path/filepath"
	"strconv"

	"hindsight/cmd/research/figure"
	"hindsight/cmd/research/markdown"
)

// Name is the file of the figures.
const Name = "records.csv"

// Save writes the figures into a directory.
func Save(dir string, r *Results) error {
	return figure.Save(filepath.Join(dir, Name), func(w io.Writer) error { return writeFigures(w, r) })
}

// The parts of a run, as its figures name them.
const (
	PartInferred    = "inferred"
	PartBeside      = "beside"
	PartDigits      = "digits"
	PartWithheld    = "withheld"
	PartReliability = "reliability"
)

// Figure is one figure of a run.
type Figure struct {
	// Part is the part of the run, Setting what its stream and learner leave open:
	// a column, a scaling, a recoding, a bin.
	Part, Stream, Learner, Setting, Measure string
	// Value is the figure. Text stands in its place if it is not empty.
	Value float64
	Text  string
}

// Figures returns all figures, part by part.
func (r *Results) Figures() []Figure {
	var all []Figure
	for _, s := range r.Inferred {
		all = append(all, Figure{Part: PartInferred, Stream: s.Stream, Measure: "rows", Value: float64(s.Rows)})
		for _, c := range s.Columns {
			all = append(all, Figure{Part: PartInferred, Stream: s.Stream, Setting: c.Name, Measure: c.Kind, Text: c.Reason})
		}
	}
	for _, b := range r.Beside {
		all = append(all, b.Named.figures(b, "named")...)
		all = append(all, b.Scaled.figures(b, "scaled")...)
	}
	for _, d := range r.Digits {
		at := Figure{Part: PartDigits, Stream: "digits", Learner: nameRLSC, Setting: d.Scaling}
		all = append(all, at.each(d.Rejected, []measured{
			{"rows", float64(d.Rows)},
			{"errors", d.Errors},
			{"log_loss", d.LogLoss},
			{"brier", d.Brier},
			{"rounds_per_second", d.Rate},
		})...)
	}
	for _, w := range r.Withheld {
		at := Figure{Part: PartWithheld, Stream: "digits", Learner: nameRLSC, Setting: fmt.Sprintf("%s %g", w.Scaling, w.Recoding)}
		all = append(all, at.each("", []measured{{"first", w.First}, {"others", w.Others}})...)
	}
	for _, e := range r.Reliability {
		at := Figure{Part: PartReliability, Stream: e.Stream, Learner: e.Learner}
		all = append(all, at.each(e.Rejected, []measured{
			{"rows", float64(e.Rows)}, {"errors", e.Errors}, {"last_class", e.Last}, {"log_loss", e.LogLoss}, {"brier", e.Brier},
		})...)
		for i, b := range e.Bins {
			at.Setting = strconv.Itoa(i)
			all = append(all, at.each("", []measured{
				{"members", float64(b.Members)}, {"predicted", b.Predicted}, {"found", b.Found},
			})...)
		}
	}
	return all
}

func (s Side) figures(b Beside, setting string) []Figure {
	at := Figure{Part: PartBeside, Stream: b.Stream, Learner: b.Learner, Setting: setting}
	return at.each(s.Rejected, []measured{
		{"rows", float64(s.Rows)},
		{"features", float64(s.Features)},
		{"value", s.Value},
		{"skill", s.Skill},
		{"rounds_per_second", s.Rate},
	})
}

// measured is a figure and its name.
type measured struct {
	name  string
	value float64
}

// each returns a figure for every one that was measured, and one for the rejection if
// there was one.
func (f Figure) each(rejected string, all []measured) []Figure {
	var out []Figure
	for _, m := range all {
		f.Measure, f.Value = m.name, m.value
		out = append(out, f)
	}
	if rejected != "" {
		f.Measure, f.Value, f.Text = "rejected", 0, rejected
		out = append(out, f)
	}
	return out
}

// writeFigures writes a row for every figure. An unknown one is empty.
func writeFigures(w io.Writer, r *Results) error {
	out := csv.NewWriter(w)
	// The writer keeps its first error; see below.
	_ = out.Write([]string{"part", "stream", "learner", "setting", "measure", "value"})
	for _, f := range r.Figures() {
		value := f.Text
		if value == "" {
			value = markdown.Exact(f.Value)
		}
		_ = out.Write([]string{f.Part, f.Stream, f.Learner, f.Setting, f.Measure, value})
	}
	out.Flush()
	return out.Error()
}
