// Package dataset reads labelled rows from CSV files. The header names the
// columns. One or several columns are targets; the others are features.
package dataset

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// Error is a mistake in a file, with its place.
type Error struct {
	// File is the name of the file.
	File string
	// Line counts from 1. It is 0 if the mistake belongs to no line, or to all.
	Line int
	// Column counts the fields of the line from 1. It is 0 if the mistake
	// belongs to no column.
	Column int
	// Name is the name of the column, if it has one.
	Name string
	// Err is the mistake.
	Err error
}

// Error implements error.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	separator := ": "
	if e.Line > 0 {
		fmt.Fprintf(&b, ": line %d", e.Line)
		separator = ", "
	}
	if e.Column > 0 {
		fmt.Fprintf(&b, "%scolumn %d", separator, e.Column)
	}
	if e.Name != "" {
		fmt.Fprintf(&b, " (%s)", e.Name)
	}
	b.WriteString(": ")
	b.WriteString(e.Err.Error())
	return b.String()
}

// Unwrap returns the mistake.
func (e *Error) Unwrap() error { return e.Err }

// Selection says which columns of a file are labels and features.
type Selection struct {
	// Delimiter separates the fields; see NewTable.
	Delimiter rune
	// Target names the columns with the labels; see Table.Targets.
	Target string
	// Features names the columns that are features, in their order. If it is empty,
	// every column is one that is neither a target nor ignored.
	Features []string
	// Ignore names columns that are no features.
	Ignore []string
}

// Reader reads the rows of one file, one after another. It is not safe for
// concurrent use.
type Reader struct {
	table *Table
	// outputs has, for each column, its place among the labels, or -1; features its
	// place among the features, or -1.
	outputs, features  []int
	targets, dimension int
}

// NewReader reads the header of r; see NewTable. Target names the columns with the
// labels; see Table.Targets. Every other column is a feature.
func NewReader(r io.Reader, name, target string) (*Reader, error) {
	return NewSelected(r, name, Selection{Target: target})
}

// NewSelected reads the header of r; see NewTable.
func NewSelected(r io.Reader, name string, s Selection) (*Reader, error) {
	table, err := NewTable(r, name, s.Delimiter)
	if err != nil {
		return nil, err
	}
	targets, err := table.Targets(s.Target)
	if err != nil {
		return nil, err
	}
	d := &Reader{table: table, targets: len(targets)}
	for range table.Columns() {
		d.outputs, d.features = append(d.outputs, -1), append(d.features, -1)
	}
	for output, i := range targets {
		d.outputs[i] = output
	}
	if err := d.choose(s); err != nil {
		return nil, err
	}
	if d.dimension == 0 {
		return nil, table.AtColumn(0, fmt.Errorf("there is no feature beside the target %q", s.Target))
	}
	return d, nil
}

// choose finds the columns of the features.
func (r *Reader) choose(s Selection) error {
	for _, name := range s.Features {
		i, err := r.table.Column(name)
		if err != nil {
			return err
		}
		if r.outputs[i] >= 0 || r.features[i] >= 0 {
			return r.table.AtColumn(i, fmt.Errorf("the feature %q is a target, or is named twice", name))
		}
		r.features[i] = r.dimension
		r.dimension++
	}
	if r.dimension > 0 {
		return nil
	}
	ignored := make(map[int]bool)
	for _, name := range s.Ignore {
		i, err := r.table.Column(name)
		if err != nil {
			return err
		}
		ignored[i] = true
	}
	for i := range r.features {
		if r.outputs[i] < 0 && !ignored[i] {
			r.features[i] = r.dimension
			r.dimension++
		}
	}
	return nil
}

// Features returns the names of the feature columns, in the order of the features.
func (r *Reader) Features() []string {
	names := make([]string, r.dimension)
	for i, c := range r.table.Columns() {
		if at := r.features[i]; at >= 0 {
			names[at] = c
		}
	}
	return names
}

// Dimension returns the number of features.
func (r *Reader) Dimension() int { return r.dimension }

// Outputs returns the number of labels.
func (r *Reader) Outputs() int { return r.targets }

// Read appends the features of the next row to x. It writes the labels to y, in
// the order of the targets; y must have Outputs() elements. It returns io.EOF
// after the last row and *Error for a wrong row. Of a row without a label it returns the
// features and an *Error of ErrNoLabel.
func (r *Reader) Read(x, y []float64) ([]float64, error) {
	return r.read(x, func(output int, field string) (err error) {
		y[output], err = r.table.Label(field)
		return err
	})
}

// ReadClass reads the next row as Read does. The text of the first target is a class.
func (r *Reader) ReadClass(x []float64) (features []float64, class string, err error) {
	x, err = r.read(x, func(output int, field string) (err error) {
		if output == 0 {
			class, err = Class(field)
		}
		return err
	})
	return x, class, err
}

// read appends the features of the next row to x and gives the fields of the targets
// to label.
func (r *Reader) read(x []float64, label func(output int, field string) error) ([]float64, error) {
	record, err := r.table.Read()
	if err != nil {
		return x, err
	}
	var unlabelled error
	start := len(x)
	for range r.dimension {
		x = append(x, 0)
	}
	for i, f := range record {
		if output := r.outputs[i]; output >= 0 {
			err := label(output, f)
			switch {
			case errors.Is(err, ErrNoLabel):
				unlabelled = r.table.AtField(i, err)
			case err != nil:
				return x[:start], r.table.AtField(i, err)
			}
		}
		if at := r.features[i]; at >= 0 {
			v, err := r.table.Number(f)
			if err != nil {
				return x[:start], r.table.AtField(i, err)
			}
			x[start+at] = v
		}
	}
	return x, unlabelled
}
