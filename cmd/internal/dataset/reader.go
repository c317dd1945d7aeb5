// Package dataset reads labelled rows from CSV files. The header names the
// columns. One or several columns are targets; the others are features.
package dataset

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Error is a mistake in a file, with its place.
type Error struct {
	// File is the name of the file.
	File string
	// Line counts from 1. It is 0 if the mistake belongs to no line.
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
	if e.Line > 0 {
		fmt.Fprintf(&b, ": line %d", e.Line)
	}
	if e.Column > 0 {
		fmt.Fprintf(&b, ", column %d", e.Column)
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
	name    string
	csv     *csv.Reader
	columns []string
	// outputs has, for each column, its place among the labels, or -1.
	outputs []int
	targets int
	line    int // of the row that was read last
}

// NewReader reads the header of r. A gzip file is recognised by its content and
// decompressed. Errors call the file name. Target names the column with the
// labels, or several columns with commas between them; every other column is a
// feature. If there is no column y, the target "y" means y1, y2 and so on.
func NewReader(r io.Reader, name, target string) (*Reader, error) {
	plain, err := PlainText(r)
	if err != nil {
		return nil, &Error{File: name, Err: err}
	}
	c := csv.NewReader(plain)
	c.ReuseRecord = true
	d := &Reader{name: name, csv: c}
	header, err := c.Read()
	if errors.Is(err, io.EOF) {
		return nil, &Error{File: name, Err: errors.New("the file is empty")}
	}
	if err != nil {
		return nil, d.syntax(nil, err)
	}
	if err := d.header(header, target); err != nil {
		return nil, err
	}
	return d, nil
}

// PlainText undoes gzip and skips a byte order mark.
func PlainText(r io.Reader) (io.Reader, error) {
	in := bufio.NewReaderSize(r, 1<<16)
	if magic, err := in.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, err
		}
		in = bufio.NewReaderSize(z, 1<<16)
	}
	if mark, err := in.Peek(3); err == nil && bytes.Equal(mark, []byte("\xef\xbb\xbf")) {
		if _, err := in.Discard(len(mark)); err != nil {
			return nil, err
		}
	}
	return in, nil
}

// header checks the names of the columns and finds the targets among them.
func (r *Reader) header(fields []string, target string) error {
	at := func(i int, format string, args ...any) error {
		line, _ := r.csv.FieldPos(i)
		return &Error{File: r.name, Line: line, Column: i + 1, Err: fmt.Errorf(format, args...)}
	}
	seen := make(map[string]int, len(fields))
	numbers := 0
	for i, f := range fields {
		f = strings.TrimSpace(f)
		if f == "" {
			return at(i, "the column has no name")
		}
		if first, twice := seen[f]; twice {
			return at(i, "column %d is called %q already", first+1, f)
		}
		if _, err := strconv.ParseFloat(f, 64); err == nil {
			numbers++
		}
		seen[f] = i
		r.columns = append(r.columns, f)
	}
	if numbers == len(fields) {
		return at(0, "the first line holds numbers, not the names of the columns")
	}
	if err := r.findTargets(target, at); err != nil {
		return err
	}
	if len(fields) == r.targets {
		return at(0, "there is no feature beside the target %q", target)
	}
	return nil
}

// findTargets finds the targets among the columns. It refuses a column that has
// the name of a target and would be a feature.
func (r *Reader) findTargets(target string, at func(int, string, ...any) error) error {
	names := strings.Split(target, ",")
	if target == "y" && !slices.Contains(r.columns, target) {
		for n := 1; slices.Contains(r.columns, "y"+strconv.Itoa(n)); n++ {
			names = append(names[:n-1], "y"+strconv.Itoa(n))
		}
	}
	r.outputs = make([]int, len(r.columns))
	for i := range r.outputs {
		r.outputs[i] = -1
	}
	for output, name := range names {
		i := slices.Index(r.columns, strings.TrimSpace(name))
		switch {
		case i < 0:
			return &Error{File: r.name, Line: 1, Err: fmt.Errorf("there is no target column %q among %s", name, strings.Join(r.columns, ", "))}
		case r.outputs[i] >= 0:
			return at(i, "the target %q is named twice", name)
		}
		r.outputs[i] = output
	}
	r.targets = len(names)
	if !isTargetName(names[0]) {
		return nil
	}
	for i, c := range r.columns {
		if r.outputs[i] < 0 && isTargetName(c) {
			return at(i, "%s looks like a target beside %q: name all of them, with commas between them", c, target)
		}
	}
	return nil
}

// isTargetName tells whether a column is called y1, y2 and so on.
func isTargetName(s string) bool {
	digits, ok := strings.CutPrefix(s, "y")
	if !ok {
		return false
	}
	_, err := strconv.ParseUint(digits, 10, 32)
	return err == nil
}

// Features returns the names of the feature columns.
func (r *Reader) Features() []string {
	var names []string
	for i, c := range r.columns {
		if r.outputs[i] < 0 {
			names = append(names, c)
		}
	}
	return names
}

// Dimension returns the number of features.
func (r *Reader) Dimension() int { return len(r.columns) - r.targets }

// Outputs returns the number of labels.
func (r *Reader) Outputs() int { return r.targets }

// Read appends the features of the next row to x. It writes the labels to y, in
// the order of the targets; y must have Outputs() elements. It returns io.EOF
// after the last row and *Error for a wrong row.
func (r *Reader) Read(x, y []float64) ([]float64, error) {
	record, err := r.csv.Read()
	if errors.Is(err, io.EOF) {
		return x, io.EOF
	}
	if err != nil {
		return x, r.syntax(record, err)
	}
	r.line, _ = r.csv.FieldPos(0)
	for i, f := range record {
		v, err := number(f)
		if err != nil {
			line, _ := r.csv.FieldPos(i)
			return x, &Error{File: r.name, Line: line, Column: i + 1, Name: r.columns[i], Err: err}
		}
		if output := r.outputs[i]; output >= 0 {
			y[output] = v
		} else {
			x = append(x, v)
		}
	}
	return x, nil
}

// number parses a finite number.
func number(field string) (float64, error) {
	text := strings.TrimSpace(field)
	if text == "" {
		return 0, errors.New("the field is empty")
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

// syntax adds the place to an error of the CSV or gzip reader.
func (r *Reader) syntax(record []string, err error) error {
	var parse *csv.ParseError
	if !errors.As(err, &parse) {
		return &Error{File: r.name, Line: r.line + 1, Err: err} // The line at which reading stopped.
	}
	if errors.Is(err, csv.ErrFieldCount) {
		column := min(len(record), len(r.columns)) + 1
		return &Error{
			File: r.name, Line: parse.StartLine, Column: column,
			Err: fmt.Errorf("%d fields where the header has %d", len(record), len(r.columns)),
		}
	}
	// The column of a syntax error counts bytes, not fields.
	return &Error{File: r.name, Line: parse.Line, Err: fmt.Errorf("byte %d: %w", parse.Column, parse.Err)}
}
