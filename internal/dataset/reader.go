// Package dataset reads labelled rows from CSV files, package parquet from Parquet files. The header names the
// columns. One or several columns are targets; the others are features.
package dataset

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Error is a mistake in a file, with its place.
type Error struct {
	File   string
	Line   int    // From 1. It is 0 if the mistake belongs to no line, or to all.
	Row    int    // Of a file that is no CSV file, in place of Line.
	Column int    // From 1. It is 0 if the mistake belongs to no column.
	Name   string // The name of the column, if it has one.
	Err    error  // The mistake.
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	separator := ": "
	if e.Line > 0 {
		fmt.Fprintf(&b, ": line %d", e.Line)
		separator = ", "
	}
	if e.Row > 0 {
		fmt.Fprintf(&b, ": row %d", e.Row)
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

func (e *Error) Unwrap() error { return e.Err }

// Selection says which columns of a file are labels and features.
type Selection struct {
	// Target names the columns with the labels; see Table.Targets.
	Target string
	// Unit is the unit of the labels, empty if it is not known.
	Unit string
	// Features names the columns that are features, in their order. If it is empty,
	// every column is one that is neither a target nor ignored.
	Features []string
	// Ignore names columns that are no features.
	Ignore []string
}

// Reader reads the rows of one file, one after another. It is not safe for concurrent use.
type Reader struct {
	table    *Table
	targets  []int // the columns of the labels
	features []int // the columns of the features
}

// NewReader reads the rows of a table.
func NewReader(table *Table, s Selection) (*Reader, error) {
	if err := table.CheckNamed(s.Target); err != nil {
		return nil, err
	}
	targets, err := table.Targets(s.Target)
	if err != nil {
		return nil, err
	}
	if s.Unit != "" {
		for _, i := range targets {
			table.Numbers(i).Declare(s.Unit)
		}
	}
	d := &Reader{table: table, targets: targets}
	if err := d.choose(s); err != nil {
		return nil, err
	}
	if len(d.features) == 0 {
		return nil, table.AtColumn(0, fmt.Errorf("there is no feature beside the target %q", s.Target))
	}
	return d, nil
}

func (r *Reader) choose(s Selection) error {
	for _, name := range s.Features {
		i, err := r.table.Column(name)
		if err != nil {
			return err
		}
		if slices.Contains(r.targets, i) || slices.Contains(r.features, i) {
			return r.table.AtColumn(i, fmt.Errorf("the feature %q is a target, or is named twice", name))
		}
		r.features = append(r.features, i)
	}
	if len(r.features) > 0 {
		return nil
	}
	left := slices.Clone(r.targets)
	for _, name := range s.Ignore {
		i, err := r.table.Column(name)
		if err != nil {
			return err
		}
		left = append(left, i)
	}
	for i := range r.table.Columns() {
		if !slices.Contains(left, i) && !r.table.Unnamed(i) {
			r.features = append(r.features, i)
		}
	}
	return nil
}

// Dimension returns the number of features.
func (r *Reader) Dimension() int { return len(r.features) }

// Outputs returns the number of labels.
func (r *Reader) Outputs() int { return len(r.targets) }

// Read appends the features of the next row to x. It writes the labels to y, in the order of
// the targets; y must have Outputs() elements. It returns io.EOF after the last row and *Error
// for a wrong row. Of a row without a label it returns the features and an *Error of ErrNoLabel.
func (r *Reader) Read(x, y []float64) ([]float64, error) {
	return r.read(x, func(output int, field string) (err error) {
		y[output], err = r.table.Label(r.targets[output], field)
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

// read appends the features of the next row to x and gives the fields of the targets to label.
func (r *Reader) read(x []float64, label func(output int, field string) error) ([]float64, error) {
	record, err := r.table.Read()
	if err != nil {
		return x, err
	}
	var unlabelled error
	for output, i := range r.targets {
		err := label(output, record[i])
		switch {
		case errors.Is(err, ErrNoLabel):
			unlabelled = r.table.AtField(i, err)
		case err != nil:
			return x, r.table.AtField(i, err)
		}
	}
	read := x
	for _, i := range r.features {
		v, err := r.table.Number(i, record[i])
		if err != nil {
			return x, r.table.AtField(i, err)
		}
		read = append(read, v)
	}
	return read, unlabelled
}
