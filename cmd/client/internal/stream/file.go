package stream

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"hindsight/cmd/internal/dataset"
)

// File yields rows of a CSV file whose features are numbers. Scaling needs a first pass over
// the file. A shuffle holds the whole file in memory. It is not safe for concurrent use.
type File struct {
	rows[Round]

	reader    *dataset.Reader
	low, high []float64 // the ranges of the features
}

// OpenFile opens a file. Close must be called.
func OpenFile(path string, o FileOptions) (*File, error) {
	if slices.Contains(o.Ignore, AllOthers) && len(o.Features) == 0 {
		return nil, fmt.Errorf("--ignore %q leaves no feature: the model has no named inputs; name columns with --features", AllOthers)
	}
	r, err := newRows[Round](path, o)
	if err != nil {
		return nil, err
	}
	f := &File{rows: r}
	f.read, f.round = f.readRow, f.scaled
	if err := f.open(); err != nil {
		return nil, err
	}
	switch {
	case o.Classes && f.Outputs() > 1:
		err = &dataset.Error{File: path, Line: 1, Err: errClasses}
	case o.MinMax && o.Shuffle == nil:
		err = f.survey()
	}
	if err == nil {
		err = f.begin()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if o.Shuffle != nil {
		for _, i := range f.order[:min(len(f.order), o.end())] {
			f.widen(f.shuffled[i])
		}
	}
	return f, nil
}

// open opens the file and reads its header.
func (f *File) open() error {
	file, err := os.Open(f.path)
	if err != nil {
		return err
	}
	reader, err := dataset.NewSelected(file, f.path, dataset.Selection{
		Delimiter: f.options.Delimiter, Target: f.options.Target, Features: f.options.Features, Ignore: f.options.Ignore,
	})
	if err != nil {
		return errors.Join(err, file.Close())
	}
	f.file, f.reader = file, reader
	return nil
}

// Dimension returns the number of features.
func (f *File) Dimension() int { return f.reader.Dimension() }

// Outputs returns the number of labels.
func (f *File) Outputs() int { return f.reader.Outputs() }

// readRow reads the next row of the file.
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

// survey reads the file once to find the range of every feature, and opens the file again.
func (f *File) survey() error {
	count, err := f.each(f.options.end(), f.widen)
	if err == nil && count == 0 {
		err = NoRow(f.path)
	}
	if err != nil {
		return err
	}
	f.count(count)
	if err := f.Close(); err != nil {
		return err
	}
	return f.open()
}

// widen extends the ranges by one row.
func (f *File) widen(r Round) {
	if f.low == nil {
		f.low, f.high = slices.Clone(r.Features), slices.Clone(r.Features)
		return
	}
	for i, v := range r.Features {
		f.low[i], f.high[i] = min(f.low[i], v), max(f.high[i], v)
	}
}

// scaled maps the features onto [0, 1] with MinMax. The terms are halved first: a range wider
// than the largest number stays finite, and the quotient is the same.
func (f *File) scaled(r Round) (Round, error) {
	if !f.options.MinMax {
		return r, nil
	}
	for i, v := range r.Features {
		if f.high[i] > f.low[i] {
			r.Features[i] = (v/2 - f.low[i]/2) / (f.high[i]/2 - f.low[i]/2)
		} else {
			r.Features[i] = 0
		}
	}
	return r, nil
}
