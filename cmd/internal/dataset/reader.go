// Package dataset reads labelled rows from CSV files. The header names the
// columns. One or several columns are targets; the others are features.
package dataset

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
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

// Reader reads the rows of one file, one after another. It is not safe for
// concurrent use.
type Reader struct {
	table *Table
	// outputs has, for each column, its place among the labels, or -1.
	outputs []int
	targets int
}

// NewReader reads the header of r; see NewTable. Target names the columns with the
// labels; see Table.Targets. Every other column is a feature.
func NewReader(r io.Reader, name, target string) (*Reader, error) {
	table, err := NewTable(r, name)
	if err != nil {
		return nil, err
	}
	targets, err := table.Targets(target)
	if err != nil {
		return nil, err
	}
	if len(table.Columns()) == len(targets) {
		return nil, table.AtColumn(0, fmt.Errorf("there is no feature beside the target %q", target))
	}
	d := &Reader{table: table, outputs: make([]int, len(table.Columns())), targets: len(targets)}
	for i := range d.outputs {
		d.outputs[i] = -1
	}
	for output, i := range targets {
		d.outputs[i] = output
	}
	return d, nil
}

// Features returns the names of the feature columns.
func (r *Reader) Features() []string {
	var names []string
	for i, c := range r.table.Columns() {
		if r.outputs[i] < 0 {
			names = append(names, c)
		}
	}
	return names
}

// Dimension returns the number of features.
func (r *Reader) Dimension() int { return len(r.outputs) - r.targets }

// Outputs returns the number of labels.
func (r *Reader) Outputs() int { return r.targets }

// Read appends the features of the next row to x. It writes the labels to y, in
// the order of the targets; y must have Outputs() elements. It returns io.EOF
// after the last row and *Error for a wrong row.
func (r *Reader) Read(x, y []float64) ([]float64, error) {
	return r.read(x, func(output int, field string) (err error) {
		y[output], err = Number(field)
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
	for i, f := range record {
		if output := r.outputs[i]; output >= 0 {
			if err := label(output, f); err != nil {
				return x, r.table.AtField(i, err)
			}
			continue
		}
		v, err := Number(f)
		if err != nil {
			return x, r.table.AtField(i, err)
		}
		x = append(x, v)
	}
	return x, nil
}

var errEmpty = errors.New("the field is empty")

// Class reads a class: a text without the spaces around it.
func Class(field string) (string, error) {
	text := strings.TrimSpace(field)
	if text == "" {
		return "", errEmpty
	}
	return text, nil
}

// Number reads a finite number.
func Number(field string) (float64, error) {
	text := strings.TrimSpace(field)
	if text == "" {
		return 0, errEmpty
	}
	v, err := strconv.ParseFloat(text, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("%.40q is out of range", text)
	case err != nil:
		return 0, fmt.Errorf("%.40q is not a number", text)
	case math.IsNaN(v) || math.IsInf(v, 0):
		return 0, fmt.Errorf("%.40q is not finite", text)
	}
	return v, nil
}
