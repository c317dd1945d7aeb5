package infer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/dataset"
)

// Values returns the values of a CSV file by a spec, which may be the spec of Read: for each row a line with an
// array in JSON of the values of all columns. The notices are those of the columns; see Column.Notice. Errors call the file name.
func Values(text, name string, o Options, spec *hindsightv1.ModelSpec) (lines string, notices []string, err error) {
	table, err := dataset.NewTable(strings.NewReader(text), name, 0)
	if err != nil {
		return "", nil, err
	}
	targets, err := table.Targets(o.Target)
	if err != nil {
		return "", nil, err
	}
	declared := slices.Clone(spec.GetInputs())
	for _, in := range declared {
		if i, err := table.Column(in.GetName()); err != nil {
			return "", nil, err
		} else if slices.Contains(targets, i) {
			return "", nil, table.AtColumn(i, fmt.Errorf("%q is an input and a target", in.GetName()))
		}
	}
	if spec.GetClasses() == nil {
		for _, i := range targets {
			declared = append(declared, LabelOf(table.Columns()[i], spec.GetLabel()))
		}
	}
	again, err := dataset.NewTable(strings.NewReader(text), name, 0)
	if err != nil {
		return "", nil, err
	}
	how, err := Declared(again, declared)
	if err != nil {
		return "", nil, err
	}
	for _, in := range declared {
		if notice := how.Columns[in.GetName()].Notice(); notice != "" {
			notices = append(notices, notice)
		}
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	for {
		record, err := table.Read()
		if errors.Is(err, io.EOF) {
			return out.String(), notices, nil
		}
		if err != nil {
			return "", nil, err
		}
		values, err := how.row(table, targets, record)
		if err != nil {
			return "", nil, err
		}
		if err := encoder.Encode(values); err != nil {
			return "", nil, fmt.Errorf("encode a row: %w", err)
		}
	}
}

// row returns the values of a row. Targets that are no inputs are classes.
func (c *Conventions) row(table *dataset.Table, targets []int, record []string) ([]any, error) {
	values := make([]any, len(record))
	for i, cell := range record {
		column := c.Columns[table.Columns()[i]]
		if column == nil {
			if class, err := dataset.Class(cell); err == nil && slices.Contains(targets, i) {
				values[i] = class
			}
			continue
		}
		v, err := column.Value(cell)
		if err != nil {
			return nil, table.AtField(i, err)
		}
		values[i] = v
	}
	return values, nil
}

// LabelOf declares the labels of a column as a number of their unit.
func LabelOf(name string, label *hindsightv1.Label) *hindsightv1.Input {
	in := &hindsightv1.NumericInput{}
	if label != nil {
		in.Unit = label.Unit
	}
	return &hindsightv1.Input{Name: name, Kind: &hindsightv1.Input_Numeric{Numeric: in}}
}
