package papers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"hindsight/cmd/research/markdown"
)

// Source says where a stream comes from, and how its file is made.
type Source struct {
	// Rows is the number of rows of the file, Inputs the number of its input
	// columns. There is one label.
	Rows, Inputs int
	// Original is the first publication of the data, Copy the file that was
	// prepared.
	Original, Copy string
	// Licence is the licence of the data.
	Licence string
	// Preparation says how the file was made from the copy.
	Preparation string
	// Columns names the columns.
	Columns string
}

const (
	uciLicence     = "CC BY 4.0, as listed by the UCI repository"
	airLicence     = uciLicence + "; a note of its donors allows research only"
	energyOriginal = "UCI Machine Learning Repository, Appliances Energy Prediction, https://doi.org/10.24432/C5VC8G"
	energyCopy     = "https://github.com/sumukhv/Energy-Consumption-Task/tree/517defe41a0f, file energydata_complete.zip"
	airColumns     = "x2 PT08.S1(CO), x3 NMHC(GT), x4 C6H6(GT), x5 PT08.S2(NMHC), x6 NOx(GT), x7 PT08.S3(NOx), x8 NO2(GT), " +
		"x9 PT08.S4(NO2), x10 PT08.S5(O3), x11 T, x12 RH, x13 AH."
)

// StreamsEnv is the environment variable that names the directory of the streams.
const StreamsEnv = "HINDSIGHT_STREAMS"

// Format describes the files of the streams.
const Format = "One file for each stream, NAME.csv.gz: a CSV file, compressed with gzip, with a header x1,x2,...,y. " +
	"The rows are in the order of the source. The last column, y, is the label. No field is empty."

// describe calls line with the name and the text of each part of a source.
func (s Source) describe(line func(name, text string)) {
	line("Original", s.Original)
	line("File used", s.Copy)
	line("Licence", s.Licence)
	line("Preparation", s.Preparation)
	line("Columns", s.Columns)
}

// size says how many rows and columns the file has.
func (s Source) size() string {
	return fmt.Sprintf("%s rows, %d inputs, 1 label", markdown.Thousands(s.Rows), s.Inputs)
}

// Path is the file of a stream in a directory.
func (s Stream) Path(dir string) string { return filepath.Join(dir, s.Name+".csv.gz") }

// Missing returns the result of every stream of the plan, all of them skipped,
// if none can be run. It returns nil if one can be run.
func (p Plan) Missing() []*Result {
	var results []*Result
	for _, s := range p.Streams {
		r := &Result{Stream: s, Skipped: s.Unserved}
		if r.Skipped == "" {
			// Any other error is reported when the file is read.
			if _, err := os.Stat(s.Path(p.Data)); !errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			r.Skipped = absentFile
		}
		results = append(results, r)
	}
	return results
}

// Absent says which files were not found, and where to get the data.
func Absent(p Plan, results []*Result) string {
	m := &markdown.Report{}
	m.Paragraph("No stream was run.")
	var absent []Stream
	for _, r := range results {
		if r.Stream.Unserved != "" {
			m.Paragraph(r.Stream.Name, ": ", r.Skipped, ".")
			continue
		}
		absent = append(absent, r.Stream)
	}
	if len(absent) == 0 {
		return m.String()
	}
	m.Line("These files were looked for and are not there:")
	for _, s := range absent {
		m.Line("  ", s.Path(p.Data))
	}
	m.Line()
	m.Paragraph(Format)
	m.Paragraph("Where the data come from:")
	for _, s := range absent {
		m.Line(s.Name, ": ", s.Title, ". ", s.Source.size(), ".")
		s.Source.describe(func(name, text string) { m.Line("  ", name, ": ", text) })
		m.Line()
	}
	m.Line("Put the files there, or name another directory with --data or ", StreamsEnv, ".")
	return m.String()
}
