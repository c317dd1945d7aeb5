// Package infer looks at a whole CSV file and says what the inputs of a model are that
// learns from its rows: numbers, booleans, categories and times.
//
// The file is read once, row by row. The memory is bounded for any file: there are at
// most maxColumns columns; maxCategories texts of each are kept, of maxTexts bytes;
// and a row has at most maxRow bytes.
package infer

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"

	"hindsight/cmd/internal/dataset"
)

const (
	maxColumns = 1_000
	// How many bytes a row may have: a quote that is never closed would take the
	// whole file for one field.
	maxRow = 16 << 20
	// What the server takes, in bytes.
	maxName, maxText = 64, 256
)

// Input declares one input. Its JSON is that of the message in the spec of a model.
type Input struct {
	Name        string       `json:"name"`
	Numeric     *struct{}    `json:"numeric,omitempty"`
	Boolean     *struct{}    `json:"boolean,omitempty"`
	Categorical *Categorical `json:"categorical,omitempty"`
	Time        *Time        `json:"time,omitempty"`
	// Missing is "refuse", or empty for the default of the kind.
	Missing string `json:"missing,omitempty"`
}

// Categorical is a category; at most one of its fields is not 0.
type Categorical struct {
	MaxCategories int `json:"max_categories,omitempty"`
	HashBuckets   int `json:"hash_buckets,omitempty"`
}

// Time is a time.
type Time struct {
	Cycles []string `json:"cycles,omitempty"`
	Trend  bool     `json:"trend,omitempty"`
}

// Kind is what the cells of a column are.
type Kind string

// Kinds of columns.
const (
	Number   Kind = "number"
	Boolean  Kind = "boolean"
	Category Kind = "category"
	Moment   Kind = "time"
	// LeftOut is a column that is no input.
	LeftOut Kind = "left out"
	// Target is a column with labels.
	Target Kind = "target"
)

// Column is what was found out of a column.
type Column struct {
	Name   string `json:"name"`
	Kind   Kind   `json:"kind"`
	Reason string `json:"reason"`
	// Form is the form of its times.
	Form Form `json:"form,omitempty"`
	// Input is its declaration, nil if it is no input.
	Input *Input `json:"-"`
	// gaps says that texts such as NA are empty cells here, integers that the
	// categories are integers, of which 1.0 is the same as 1.
	gaps, integers bool
}

// Result is what was found out of a file.
type Result struct {
	// Inputs are the inputs part of a spec.
	Inputs []*Input `json:"inputs"`
	// Columns are all columns, in the order of the file.
	Columns []*Column `json:"columns"`
	// Rows is the number of rows.
	Rows int `json:"rows"`
}

// Spec is the JSON of the inputs part of a spec, a line for each input.
func (r *Result) Spec() ([]byte, error) {
	var out strings.Builder
	out.WriteString(`{"inputs": [`)
	for i, in := range r.Inputs {
		line, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("encode input %q: %w", in.Name, err)
		}
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteString("\n  ")
		out.Write(line)
	}
	out.WriteString("\n]}\n")
	return []byte(out.String()), nil
}

// Explain writes a line for each column: what it is, and why.
func (r *Result) Explain(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range r.Columns {
		fmt.Fprintf(table, "%s\t%s\t%s\n", c.Name, c.Kind, c.Reason)
	}
	return table.Flush()
}

// Read reads a CSV file, plain or gzip, whose first line names the columns. Errors
// call the file name. Targets are the columns with labels, which are no inputs.
func Read(r io.Reader, name string, targets ...string) (*Result, error) {
	meter := &meter{left: maxRow}
	plain, err := dataset.PlainText(r)
	if err != nil {
		return nil, &dataset.Error{File: name, Err: err}
	}
	meter.from = plain
	c := csv.NewReader(meter)
	c.ReuseRecord = true
	f := &file{name: name, csv: c}
	header, err := c.Read()
	if errors.Is(err, io.EOF) {
		return nil, &dataset.Error{File: name, Err: errors.New("the file is empty")}
	}
	if err != nil {
		return nil, f.syntax(err)
	}
	if err := f.header(header, targets); err != nil {
		return nil, err
	}
	for {
		meter.left = maxRow
		record, err := c.Read()
		if errors.Is(err, io.EOF) {
			return f.result(), nil
		}
		if err != nil {
			return nil, f.syntax(err)
		}
		f.rows++
		for i, cell := range record {
			if f.columns[i].kind != Target {
				f.columns[i].add(strings.TrimSpace(cell))
			}
		}
	}
}

// file is one that is being read.
type file struct {
	name    string
	csv     *csv.Reader
	columns []*column
	rows    int
}

// header checks the names of the columns.
func (f *file) header(fields, targets []string) error {
	at := func(i int, format string, args ...any) error {
		line, _ := f.csv.FieldPos(i)
		return &dataset.Error{File: f.name, Line: line, Column: i + 1, Err: fmt.Errorf(format, args...)}
	}
	if len(fields) > maxColumns {
		return &dataset.Error{File: f.name, Line: 1, Err: fmt.Errorf("%d columns, at most %d are possible", len(fields), maxColumns)}
	}
	numbers := 0
	seen := make(map[string]int, len(fields))
	for i, field := range fields {
		name := strings.Clone(strings.TrimSpace(field))
		if name == "" {
			return at(i, "the column has no name")
		}
		if len(name) > maxName {
			return at(i, "the name has %d bytes, at most %d are possible", len(name), maxName)
		}
		if !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsGraphic(r) }) {
			return at(i, "the name %q is not UTF-8 without control characters", name)
		}
		if first, twice := seen[name]; twice {
			return at(i, "column %d is called %q already", first+1, name)
		}
		seen[name] = i
		if _, ok := parseNumber(name); ok {
			numbers++
		}
		c := newColumn(name)
		if slices.Contains(targets, name) {
			c.kind = Target
		}
		f.columns = append(f.columns, c)
	}
	if numbers == len(fields) {
		return at(0, "the first line holds numbers, not the names of the columns")
	}
	for _, target := range targets {
		if _, ok := seen[target]; !ok {
			return &dataset.Error{File: f.name, Line: 1, Err: fmt.Errorf("there is no target column %q", target)}
		}
	}
	return nil
}

// result decides what the columns are.
func (f *file) result() *Result {
	r := &Result{Rows: f.rows, Inputs: []*Input{}}
	features := 0
	for _, c := range f.columns {
		features += c.fewIntegers()
	}
	for _, c := range f.columns {
		column := c.decide(f.rows, features <= integerFeatures)
		r.Columns = append(r.Columns, column)
		if column.Input != nil {
			r.Inputs = append(r.Inputs, column.Input)
		}
	}
	return r
}

// syntax adds the place to an error of the CSV or gzip reader.
func (f *file) syntax(err error) error {
	var parse *csv.ParseError
	if !errors.As(err, &parse) {
		return &dataset.Error{File: f.name, Err: fmt.Errorf("after row %d: %w", f.rows, err)}
	}
	return &dataset.Error{File: f.name, Line: parse.StartLine, Err: parse.Err}
}

// meter is a reader of a row: it fails when a row is too long.
type meter struct {
	from io.Reader
	left int
}

var errRow = errors.New("a row of more than 16 MiB: is a quote not closed?")

// Read implements io.Reader.
func (m *meter) Read(p []byte) (int, error) {
	if m.left <= 0 {
		return 0, errRow
	}
	n, err := m.from.Read(p)
	m.left -= n
	return n, err
}

// Value is what a record has for a cell of an input: nil, a number, a boolean or a
// text. It fails if the cell is not of the column's kind.
func (c *Column) Value(cell string) (any, error) {
	cell = strings.TrimSpace(cell)
	if cell == "" || (c.gaps && isGap(cell)) {
		return nil, nil
	}
	wrong := fmt.Errorf("column %s: %.40q is no %s", c.Name, cell, c.Kind)
	switch c.Kind {
	case Number:
		if v, ok := parseNumber(cell); ok {
			return v, nil
		}
	case Boolean:
		if _, v, ok := parseBoolean(cell); ok {
			return v, nil
		}
	case Moment:
		if t, ok := c.Form.Parse(cell); ok {
			return t.Format(rfc3339), nil
		}
	case Category:
		if !c.integers {
			return cell, nil
		}
		if v, ok := parseNumber(cell); ok {
			return v, nil
		}
	default:
		return nil, fmt.Errorf("column %s is no input", c.Name)
	}
	return nil, wrong
}
