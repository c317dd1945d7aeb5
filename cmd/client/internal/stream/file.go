package stream

import (
	"errors"
	"fmt"
	"slices"

	"hindsight/internal/dataset"
)

// File yields rows of a CSV file whose features are numbers. It is not safe for concurrent use.
type File struct {
	rows

	table  *dataset.Table
	reader *dataset.Reader
}

// OpenFile opens a file. Close must be called.
func OpenFile(path string, o FileOptions) (*File, error) {
	if slices.Contains(o.Ignore, AllOthers) && len(o.Features) == 0 {
		return nil, fmt.Errorf("--ignore %q leaves no feature: the model has no named inputs; name columns with --features", AllOthers)
	}
	r, err := newRows(path, o)
	if err != nil {
		return nil, err
	}
	f := &File{rows: r}
	f.read = f.readRow
	if f.file, f.table, err = openTable(path, o.Delimiter); err != nil {
		return nil, err
	}
	f.reader, err = dataset.NewReader(f.table, dataset.Selection{Target: o.Target, Unit: o.Label.GetUnit(), Features: o.Features, Ignore: o.Ignore})
	if err == nil && o.Classes && f.Outputs() > 1 {
		err = f.table.AtHeader(errClasses)
	}
	if err == nil {
		err = f.begin()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Dimension returns the number of features.
func (f *File) Dimension() int { return f.reader.Dimension() }

// Outputs returns the number of labels.
func (f *File) Outputs() int { return f.reader.Outputs() }

// Notes are the notes of the table on the rows that were read.
func (f *File) Notes() []string { return f.table.Notes() }

func (f *File) readRow() (r Round, err error) {
	x := make([]float64, 0, f.Dimension())
	if f.options.Classes {
		r.Features, r.Class, err = f.reader.ReadClass(x)
	} else {
		r.Labels = make([]float64, f.Outputs())
		r.Features, err = f.reader.Read(x, r.Labels)
	}
	if errors.Is(err, dataset.ErrNoLabel) {
		return Round{Features: r.Features, Unlabelled: true}, nil
	}
	return r, err
}
