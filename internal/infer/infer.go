// Package infer reads a table of texts and infers the inputs of a model that learns from its rows:
// numbers, booleans, categories and times; and whether its labels are numbers or classes. It
// also converts cells into the values of records.
//
// The file is read row by row, once, and once more if it has decimal commas. The memory is bounded:
// at most maxColumns columns, of each maxCategories texts of maxTexts bytes, and 16 MiB of a row.
// A file that can be read only once and has decimal commas is kept in memory.
package infer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/dataset"
)

const (
	maxColumns = 4_096
	// What the server takes, in bytes.
	maxText, maxPassage = 256, 1 << 14
)

// Kind is the kind of the cells of a column.
type Kind string

// Kinds of columns.
const (
	Number   Kind = "number"
	Boolean  Kind = "boolean"
	Category Kind = "category"
	Moment   Kind = "time"
	Vector   Kind = "vector"
	Text     Kind = "text"
	// LeftOut is a column that is neither an input nor a target.
	LeftOut Kind = "left out"
	// Label is a target with numbers, Class one with classes.
	Label Kind = "label"
	Class Kind = "class"
)

// Column is the result for a column.
type Column struct {
	Name   string `json:"name"`
	Kind   Kind   `json:"kind"`
	Reason string `json:"reason"`
	// Form is the form of its times.
	Form Form `json:"form,omitempty"`
	// Input is its declaration, nil if it is no input.
	Input    *hindsightv1.Input `json:"-"`
	gaps     bool               // Texts such as NA are empty cells.
	integers bool               // The categories are integers: 1.0 is the same as 1.
	numbers  *dataset.Numbers   // How the file writes numbers.
	classes  int                // How many classes a target has.
	counts   bool               // The labels are whole numbers from 0 on.
	unit     string             // The unit of the labels.
	frame    string             // Of the cells of a vector.
	odd      bool               // One cell decides the kind, or a few are unlike the others.
	lenient  bool               // Cells that are not of the kind are missing values,
	exact    bool               // and so are integers that no number has exactly.
}

// Notice is what a user should read who does not ask for the reasons: the column is left out, one
// cell decides what it is, a few cells are taken for missing values, or a file of a model has dates of two readings. It is empty for other columns.
func (c *Column) Notice() string {
	switch {
	case c.Kind == LeftOut:
		return fmt.Sprintf("%s is left out: %s", c.Name, c.Reason)
	case c.odd:
		return fmt.Sprintf("%s is a %s: %s", c.Name, c.Kind, c.Reason)
	default:
		return ""
	}
}

// Options say how to read a file.
type Options struct {
	// Target names the columns with labels, which are no inputs; see
	// dataset.Table.Targets. Empty means none.
	Target string
	// Classes says that the texts of a target with numbers are classes.
	Classes bool
	// Texts names columns whose cells are texts, though they look like numbers, booleans or times.
	Texts []string
}

// Result is the result for a file.
type Result struct {
	// Spec are the inputs, the classes and the number of outputs. It has no learner.
	Spec *hindsightv1.ModelSpec
	// Columns are all columns, in the order of the file.
	Columns []*Column
	// Rows is the number of rows.
	Rows int
	// Notes say what a user should know of the file, beside what belongs to a column.
	Notes []string
	// Question is a question that the file does not answer, or empty.
	Question string
}

// SpecJSON is the JSON of the spec, a line for each input.
func (r *Result) SpecJSON() ([]byte, error) {
	raw, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(r.Spec)
	if err != nil {
		return nil, fmt.Errorf("encode the spec: %w", err)
	}
	var out bytes.Buffer
	if err := json.Compact(&out, raw); err != nil { // Protojson adds spaces at random.
		return nil, fmt.Errorf("encode the spec: %w", err)
	}
	// No text has these letters: its quotes are escaped.
	return append(bytes.ReplaceAll(out.Bytes(), []byte(`{"name":`), []byte("\n  {\"name\":")), '\n'), nil
}

// MarshalJSON implements json.Marshaler.
func (r *Result) MarshalJSON() ([]byte, error) {
	spec, err := r.SpecJSON()
	if err != nil {
		return nil, err
	}
	return json.Marshal(struct {
		Spec     json.RawMessage `json:"spec"`
		Columns  []*Column       `json:"columns"`
		Rows     int             `json:"rows"`
		Notes    []string        `json:"notes,omitempty"`
		Question string          `json:"question,omitempty"`
	}{spec, r.Columns, r.Rows, r.Notes, r.Question})
}

// Explain writes a line for each column: what it is, and why. The notes and the question follow.
func (r *Result) Explain(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range r.Columns {
		fmt.Fprintf(table, "%s\t%s\t%s\n", c.Name, c.Kind, c.Reason)
	}
	for _, note := range r.Notes {
		fmt.Fprintln(table, note)
	}
	if r.Question != "" {
		fmt.Fprintf(table, "\n%s\n", r.Question)
	}
	return table.Flush()
}

// Read reads a table, of which no row was read.
func Read(table *dataset.Table, o Options) (*Result, error) {
	if n := len(table.Columns()); n > maxColumns {
		return nil, table.AtHeader(fmt.Errorf("%d columns, at most %d are possible", n, maxColumns))
	}
	if err := table.CheckNamed(o.Target); err != nil {
		return nil, err
	}
	targets, err := table.Targets(o.Target)
	if err != nil {
		return nil, err
	}
	f := &file{targets: targets}
	for i := range table.Columns() {
		f.columns = append(f.columns, newColumn(table, i))
	}
	for _, i := range targets {
		f.columns[i].times, f.columns[i].target = nil, true
	}
	for _, name := range o.Texts {
		i, err := table.Column(name)
		if err != nil {
			return nil, err
		}
		f.columns[i].times, f.columns[i].textual = nil, true
	}
	var y labels
	if len(targets) > 0 {
		y.column = f.columns[targets[0]]
	}
	for {
		record, err := table.Read()
		if errors.Is(err, io.EOF) {
			return f.result(table, o)
		}
		if err != nil {
			return nil, err
		}
		f.rows++
		var known label
		if y.column != nil {
			known = y.read(strings.TrimSpace(record[targets[0]]))
		}
		for i, cell := range record {
			f.columns[i].line = table.Line()
			f.columns[i].add(strings.TrimSpace(cell), known)
		}
	}
}

type file struct {
	columns []*column
	targets []int
	rows    int
}

func (f *file) result(table *dataset.Table, o Options) (*Result, error) {
	r := &Result{Rows: f.rows, Spec: &hindsightv1.ModelSpec{}, Notes: table.Notes()}
	agree(f.columns)
	counts, units := len(f.targets) > 0, []string(nil)
	for i, c := range f.columns {
		if c.target {
			column, err := c.decideTarget(f.rows, o.Classes)
			if err == nil && column.Kind == Class && len(f.targets) > 1 {
				err = errors.New("a classifier has one target")
			}
			if err != nil {
				return nil, table.InColumn(i, err)
			}
			if column.Kind == Class {
				r.Spec.Classes = &hindsightv1.Classes{MaxClasses: proto.Int32(int32(column.classes))}
			}
			counts, units = counts && column.counts, append(units, column.unit)
			r.Columns, r.Question = append(r.Columns, column), c.question(o.Classes)
			continue
		}
		column := c.decide(f.rows)
		r.Columns = append(r.Columns, column)
		if column.Input != nil {
			r.Spec.Inputs = append(r.Spec.Inputs, column.Input)
		}
	}
	label := &hindsightv1.Label{}
	if counts {
		label.Min = proto.Float64(0)
	}
	if units = slices.Compact(units); len(units) == 1 && units[0] != "" {
		label.Unit = &units[0]
	}
	if counts || label.Unit != nil {
		r.Spec.Label = label
	}
	if n := len(f.targets); n > 1 {
		r.Spec.Outputs = int32(n)
	}
	return r, nil
}
