package infer

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/dataset"
)

// Conventions are how a file writes the inputs of a spec.
type Conventions struct {
	Columns map[string]*Column // The inputs of the file, by name.
	Rows    int
}

// Declared reads a table, of which no row was read, and finds out how it writes inputs that are declared: the
// form of its times, whether its categories are integers, and whether a few of its numbers and times are none.
func Declared(table *dataset.Table, inputs []*hindsightv1.Input) (_ *Conventions, err error) {
	declared := make(map[string]*hindsightv1.Input, len(inputs))
	for _, in := range inputs {
		declared[in.GetName()] = in
	}
	out := &Conventions{Columns: make(map[string]*Column)}
	columns := make(map[int]*column)
	for i, name := range table.Columns() {
		in := declared[name]
		if in == nil {
			continue
		}
		column := &Column{Name: name, Kind: KindOf(in), Input: in, numbers: table.Numbers(i)}
		if column.Kind == Number {
			column.numbers.Declare(in.GetNumeric().GetUnit())
		}
		column.gaps = column.Kind != Category
		out.Columns[name] = column
		if columns[i] = newColumn(table, i); column.Kind != Moment {
			columns[i].times = nil
		}
		if t := in.GetTime(); t != nil {
			columns[i].ordered = t.DayFirst
		}
	}
	if out.Rows, err = survey(table, columns); err != nil {
		return nil, err
	}
	agree(slices.Collect(maps.Values(columns)))
	for i, c := range columns {
		if err := c.declare(out.Columns[c.name]); err != nil {
			return nil, table.InColumn(i, err)
		}
	}
	return out, nil
}

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
			c.line = table.Line()
			c.count(strings.TrimSpace(record[i]))
		}
	}
}

// declare sets how a column writes an input. It fails if many of its times are none.
func (c *column) declare(out *Column) error {
	values := c.cells - c.gaps
	rejects := out.Input.GetMissing() == hindsightv1.Input_MISSING_REJECT
	switch out.Kind {
	case Category:
		out.gaps = c.integers > 0 && c.integers == values && c.codes.count == 0
		out.integers = out.gaps && c.huge.count == 0
	case Vector:
		text, f := c.bestFrame()
		out.frame = text
		if odd := values - f.count; odd > 0 && areFew(odd, values) && !rejects {
			out.lenient, out.odd, out.Reason = true, true, oddForms(odd, values)
		}
	case Number:
		c.declareNumber(out, values, rejects)
	case Moment:
		best := c.bestTime()
		switch {
		case values == 0:
			return nil
		case best == nil && c.untimed.count > 0:
			return fmt.Errorf("%s is no time of a known form", c.place(&c.untimed))
		case best == nil:
			return fmt.Errorf("the %d times have different forms", values)
		}
		out.Form = best.form
		switch odd := &best.odd; {
		case odd.count == 0:
		case (areFew(odd.count, values) || !odd.mixed && best.fits > fewFractions) && !rejects:
			out.lenient, out.odd, out.Reason = true, true, c.missing(odd, values, "time")
		default:
			return fmt.Errorf("%s is no time of the form %s, as %d other cells are", c.place(odd), best.form, best.fits+best.open)
		}
		if c.ordered == nil && c.swappable(best) { // A file of another order may have taught the model.
			swap := fmt.Sprintf("its cells are read as %s, and day and month could also be swapped", best.form)
			out.odd, out.Reason = true, strings.TrimPrefix(out.Reason+"; "+swap, "; ")
		}
		if c.ordered != nil && best.daily && best.form.isOrdered(!*c.ordered) {
			first := map[bool]string{false: "month", true: "day"}[*c.ordered]
			other := fmt.Sprintf("its cells are read as %s, because not all are dates with the %s first, as the spec has it", best.form, first)
			out.odd, out.Reason = true, strings.TrimPrefix(out.Reason+"; "+other, "; ")
		}
	default:
	}
	return nil
}

func (c *column) declareNumber(out *Column, values int, rejects bool) {
	if odd := c.words.count; odd > 0 && (areSome(odd-c.beyond, values) || c.hasOtherUnits() || !c.words.mixed && c.numbers > fewFractions) && !rejects {
		out.lenient, out.odd, out.Reason = true, true, c.oddNumbers(values)
	}
	if c.leavesHuge(values) && !rejects {
		out.lenient, out.odd, out.exact, out.Reason = true, true, true, c.missing(&c.huge, values, "number below 2^53")
	}
	switch unit, other, unlike := c.written.Units(); {
	case out.odd:
	case unlike > 0 && c.words.count == 0 && out.Input.GetNumeric().GetUnit() != "":
		out.odd, out.Reason = true, fmt.Sprintf("its cells are of %s, and the spec is of %s: they are taken as they are", other, unit)
	case out.Input.GetNumeric().Unit == nil && c.written.Unit() != "":
		out.odd, out.Reason = true, fmt.Sprintf("its cells are of %s, and the spec names no unit: they are taken as they are", unit)
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
	case *hindsightv1.Input_Text:
		return Text
	default:
		return ""
	}
}

// Value converts a cell of an input into the value of a record: nil, a number, a boolean, a text,
// or a list of numbers. It fails if the cell is not of the column's kind.
func (c *Column) Value(cell string) (any, error) {
	cell = strings.TrimSpace(cell)
	if dataset.IsUnknown(cell) || (c.gaps && dataset.IsGap(cell)) {
		return nil, nil
	}
	v, err := c.value(cell)
	if odd := (*kindError)(nil); c.lenient && errors.As(err, &odd) {
		return nil, nil
	}
	return v, err
}

func (c *Column) value(cell string) (any, error) {
	switch c.Kind {
	case Number:
		return c.number(cell)
	case Boolean:
		if _, v, ok := parseBoolean(cell); ok {
			return v, nil
		}
	case Moment:
		t, ok := c.Form.Parse(cell)
		switch {
		case ok && isOpen(t):
			return nil, nil
		case ok:
			return t.Format(rfc3339), nil
		}
	case Category:
		if !c.integers {
			return whole(cell), nil
		}
		return c.number(cell)
	case Text:
		return cell, nil
	case Vector:
		if v, ok := parseVector(cell); ok && (!c.lenient || len(v) == int(c.Input.GetVector().GetLength())) {
			return v, nil
		}
		if v, frame := framed(cell, c.numbers); frame != "" && frame == c.frame {
			return v, nil
		}
	default:
		return nil, fmt.Errorf("column %s is no input", c.Name)
	}
	return nil, c.wrong(cell)
}

func (c *Column) number(cell string) (any, error) {
	v, plain, err := parseWritten(cell, c.numbers)
	if errors.Is(err, errNoNumber) || c.exact && isHuge(plain, v) {
		err = c.wrong(cell)
	}
	return v, err
}

type kindError struct {
	cell, kind string
}

func (e *kindError) Error() string {
	if isBeyond(e.cell) {
		return fmt.Sprintf("%.40q is out of range, want a magnitude of at most %g", e.cell, largest)
	}
	return fmt.Sprintf("%.40q is no %s", e.cell, e.kind)
}

func (c *Column) wrong(cell string) error {
	kind := string(c.Kind)
	if unit := c.Input.GetNumeric().GetUnit(); unit != "" {
		kind += fmt.Sprintf(" of %s, the unit of the spec", unit)
	}
	return &kindError{cell, kind}
}
