package stream

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/dataset"
	"hindsight/internal/infer"
)

// Times are two columns of a CSV file: when the input of a row is known, and when its label is.
// A column has numbers, or times of a form that infer knows. Times reads them beside the rows
// of the same file. It is not safe for concurrent use.
type Times struct {
	file    *os.File
	table   *dataset.Table
	columns [2]*moments
}

type moments struct {
	at      int
	numbers bool
	column  *infer.Column // of times that are no numbers
}

var errNoTime = errors.New("the time is missing")

// OpenTimes opens a file beside its rows. The rows must be the rows of the file in their
// order, offset of them skipped. Close must be called.
func OpenTimes(path, column, labelColumn string, delimiter rune, offset int) (*Times, error) {
	t := &Times{}
	for i, name := range []string{column, labelColumn} {
		m, err := surveyTimes(path, name, delimiter)
		if err != nil {
			return nil, err
		}
		t.columns[i] = m
	}
	if t.columns[0].numbers != t.columns[1].numbers {
		return nil, fmt.Errorf("one of the columns %q and %q has numbers, the other times", column, labelColumn)
	}
	var err error
	if t.file, t.table, err = openTable(path, delimiter); err != nil {
		return nil, err
	}
	for i := 0; i < offset && err == nil; i++ {
		_, err = t.table.Read()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// Close closes the file.
func (t *Times) Close() error { return t.file.Close() }

// Add adds its times to the next row.
func (t *Times) Add(r *Round) error {
	record, err := t.table.Read()
	if err != nil {
		return err
	}
	for i, to := range []*float64{&r.Time, &r.LabelTime} {
		m := t.columns[i]
		if r.Unlabelled && to == &r.LabelTime {
			continue
		}
		if *to, err = m.parse(t.table, record[m.at]); err != nil {
			return t.table.AtField(m.at, err)
		}
	}
	return nil
}

// parse reads a time: the number, or the seconds since 1970.
func (m *moments) parse(table *dataset.Table, cell string) (float64, error) {
	if m.numbers {
		return table.Number(m.at, cell)
	}
	v, err := m.column.Value(cell)
	if err != nil {
		return 0, err
	}
	text, ok := v.(string)
	if !ok {
		return 0, errNoTime
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return 0, err
	}
	return float64(at.Unix()) + float64(at.Nanosecond())/1e9, nil
}

func surveyTimes(path, name string, delimiter rune) (*moments, error) {
	m := &moments{numbers: true}
	err := WithTable(path, delimiter, func(table *dataset.Table) (err error) {
		if m.at, err = table.Column(name); err != nil {
			return err
		}
		name = table.Columns()[m.at]
		for m.numbers {
			record, err := table.Read()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			_, err = table.Number(m.at, record[m.at])
			m.numbers = err == nil || strings.TrimSpace(record[m.at]) == ""
		}
		return nil
	})
	if err != nil || m.numbers {
		return m, err
	}
	err = WithTable(path, delimiter, func(table *dataset.Table) error {
		how, err := infer.Declared(table, []*hindsightv1.Input{{
			Name: name, Kind: &hindsightv1.Input_Time{Time: &hindsightv1.TimeInput{}},
		}})
		if err == nil {
			m.column = how.Columns[name]
		}
		return err
	})
	return m, err
}
