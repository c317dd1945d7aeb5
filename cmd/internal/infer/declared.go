package infer

import (
	"errors"
	"fmt"
	"io"
	"strings"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/internal/dataset"
)

// Conventions are how a file writes the inputs of a spec.
type Conventions struct {
	Columns map[string]*Column // The inputs of the file, by name.
	Rows    int                // -1 if the file was not read to its end.
}

// Declared finds out how a file writes inputs that are declared: the form of its
// times, and whether its categories are integers. Only files with such columns are
// read to their end. Fields are separated by the delimiter; see dataset.NewTable. Errors call
// the file name.
func Declared(r io.Reader, name string, delimiter rune, inputs []*hindsightv1.Input) (*Conventions, error) {
	table, err := dataset.NewTable(r, name, delimiter)
	if err != nil {
		return nil, err
	}
	declared := make(map[string]*hindsightv1.Input, len(inputs))
	for _, in := range inputs {
		declared[in.GetName()] = in
	}
	out := &Conventions{Columns: make(map[string]*Column), Rows: -1}
	columns := make(map[int]*column)
	for i, name := range table.Columns() {
		in := declared[name]
		if in == nil {
			continue
		}
		column := &Column{Name: name, Kind: KindOf(in), Input: in, numbers: table.Numbers(i)}
		column.gaps = column.Kind != Category
		out.Columns[name] = column
		if column.Kind != Moment && column.Kind != Category {
			continue
		}
		columns[i] = newColumn(table, i)
		if column.Kind == Category {
			columns[i].times = nil
		}
	}
	if len(columns) == 0 {
		return out, nil
	}
	out.Rows, err = survey(table, columns)
	if err != nil {
		return nil, err
	}
	for _, c := range columns {
		column := out.Columns[c.name]
		switch {
		case column.Kind == Category:
			column.gaps = c.integers > 0 && c.integers == c.cells-c.gaps && c.codes.count == 0
			column.integers = column.gaps && c.huge.count == 0
		case len(c.times) > 0:
			column.Form = c.bestTime().form
		}
	}
	return out, nil
}

// survey reads the rows of a file into columns, and counts them. It fails at the
// first cell of a time that is of no form of the cells before it.
func survey(table *dataset.Table, columns map[int]*column) (rows int, err error) {
	for {
		record, err := table.Read()
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return 0, err
		}
		rows++
		for i, c := range columns {
			cell := strings.TrimSpace(record[i])
			if c.count(cell); c.untimed.count > 0 {
				return 0, table.AtField(i, fmt.Errorf("%.40q is no time of a known form that the cells before it have too", cell))
			}
		}
	}
}

// KindOf is the kind of a declared input, empty for one without.
func KindOf(in *hindsightv1.Input) Kind {
	switch in.GetKind().(type) {
	case *hindsightv1.Input_Numeric:
		return Number
	case *hindsightv1.Input_Boolean:
		return Boolean
	case *hindsightv1.Input_Categorical:
		return Category
	case *hindsightv1.Input_Time:
		return Moment
	case *hindsightv1.Input_Vector:
		return Vector
	default:
		return ""
	}
}

// Value converts a cell of an input into the value of a record: nil, a number, a boolean, a text,
// or a list of numbers. It fails if the cell is not of the column's kind.
func (c *Column) Value(cell string) (any, error) {
	cell = strings.TrimSpace(cell)
	if cell == "" || (c.gaps && dataset.IsGap(cell)) {
		return nil, nil
	}
	switch c.Kind {
	case Number:
		return c.number(cell)
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
			return whole(cell), nil
		}
		return c.number(cell)
	case Vector:
		if v, ok := parseVector(cell); ok {
			return v, nil
		}
	default:
		return nil, fmt.Errorf("column %s is no input", c.Name)
	}
	return nil, c.wrong(cell)
}

// number converts a cell into a number.
func (c *Column) number(cell string) (any, error) {
	v, _, _, err := parseWritten(cell, c.numbers)
	if errors.Is(err, errNoNumber) {
		err = c.wrong(cell)
	}
	return v, err
}

func (c *Column) wrong(cell string) error { return fmt.Errorf("%.40q is no %s", cell, c.Kind) }
