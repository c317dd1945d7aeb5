package stream

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"

	"hindsight/cmd/internal/dataset"
)

// FileOptions say which rows of a file to take, and how.
type FileOptions struct {
	// Delimiter separates the fields; see dataset.NewTable.
	Delimiter rune
	// Target names the columns with the labels; see dataset.Table.Targets.
	Target string
	// Features names the columns that are features, in their order; see
	// dataset.Selection.
	Features []string
	// Ignore names columns that are neither. AllOthers among them stands for every column
	// that is not named otherwise.
	Ignore []string
	// Classes says that the texts of the target are classes.
	Classes bool
	// MinMax maps every feature onto [0, 1] by its smallest and largest value.
	// The range covers the rows up to the last one taken, skipped ones included:
	// a replay that is continued scales as the first one did. A constant
	// becomes 0.
	MinMax bool
	// Shuffle is the seed of a permutation of all rows of the file. Offset and
	// Limit count permuted rows. Nil keeps the order.
	Shuffle *uint64
	// Offset is how many rows to skip.
	Offset int
	// Limit is how many rows to take at most; 0 takes all.
	Limit int
}

// AllOthers stands for every column that is not named otherwise.
const AllOthers = "*"

// end returns the position after the last row that may be taken.
func (o FileOptions) end() int {
	if o.Limit <= 0 || o.Limit > math.MaxInt-o.Offset {
		return math.MaxInt
	}
	return o.Offset + o.Limit
}

// File yields rows of a CSV file whose features are numbers. Scaling needs a first pass over the file. A
// shuffle holds the whole file in memory; without one the rows are read one by
// one. It is not safe for concurrent use.
type File struct {
	path      string
	options   FileOptions
	dimension int
	outputs   int
	total     int // rows that Next yields in all, -1 if not known
	position  int
	low, high []float64

	file   *os.File
	reader *dataset.Reader

	// Of a shuffled file: features and labels, row by row; the classes of the rows;
	// the rows without a label; and the permutation.
	values     []float64
	classes    []string
	unlabelled map[int]bool
	order      []int
}

var (
	errClasses = errors.New("a classifier has one target")
	errNoRow   = errors.New("there is no row below the header")
)

// OpenFile opens a file. Close must be called.
func OpenFile(path string, o FileOptions) (*File, error) {
	if o.Offset < 0 || o.Limit < 0 {
		return nil, fmt.Errorf("offset %d and limit %d cannot be negative", o.Offset, o.Limit)
	}
	f := &File{path: path, options: o, total: -1}
	if slices.Contains(o.Ignore, AllOthers) && len(o.Features) == 0 {
		return nil, fmt.Errorf("--ignore %q leaves no feature: the model has no named inputs; name columns with --features", AllOthers)
	}
	if err := f.open(); err != nil {
		return nil, err
	}
	f.dimension, f.outputs = f.reader.Dimension(), f.reader.Outputs()
	var err error
	switch {
	case o.Classes && f.outputs > 1:
		err = &dataset.Error{File: path, Line: 1, Err: errClasses}
	case o.Shuffle != nil:
		err = f.load()
	case o.MinMax:
		err = f.survey()
	}
	if err == nil {
		err = f.skip()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
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
func (f *File) Dimension() int { return f.dimension }

// Outputs returns the number of labels.
func (f *File) Outputs() int { return f.outputs }

// Total returns the number of rows that Next yields in all, or -1 if the file
// was not read to its end.
func (f *File) Total() int { return f.total }

// Close closes the file.
func (f *File) Close() error {
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.file = nil
	return err
}

// Next returns the next row, or io.EOF after the last.
func (f *File) Next() (Round, error) {
	if f.position >= f.options.end() {
		return Round{}, io.EOF
	}
	r, err := f.row()
	if err != nil {
		return Round{}, err
	}
	f.position++
	if f.options.MinMax {
		f.scale(r.Features)
	}
	return r, nil
}

// row returns the next row.
func (f *File) row() (Round, error) {
	if f.options.Shuffle == nil {
		return f.read(make([]float64, 0, f.dimension))
	}
	if f.position >= len(f.order) {
		return Round{}, io.EOF
	}
	at := f.order[f.position]
	row := slices.Clone(f.at(at))
	r := Given(row[:f.dimension:f.dimension], row[f.dimension:]...)
	if f.options.Classes {
		r = Round{Features: r.Features, Class: f.classes[at]}
	}
	if f.unlabelled[at] {
		r = Round{Features: r.Features, Unlabelled: true}
	}
	return r, nil
}

// read reads the next row of the file into the memory of x.
func (f *File) read(x []float64) (Round, error) {
	var r Round
	var err error
	if f.options.Classes {
		r.Features, r.Class, err = f.reader.ReadClass(x[:0])
	} else {
		r.labels = make([]float64, f.outputs)
		r.Features, err = f.reader.Read(x[:0], r.labels)
	}
	if errors.Is(err, dataset.ErrNoLabel) {
		return Round{Features: r.Features, Unlabelled: true}, nil
	}
	return r, err
}

// at returns row i of a shuffled file.
func (f *File) at(i int) []float64 {
	width := f.dimension + f.outputs
	return f.values[i*width : (i+1)*width]
}

// load reads the whole file and draws the permutation.
func (f *File) load() error {
	rows := 0
	f.unlabelled = make(map[int]bool)
	var x []float64
	for {
		r, err := f.read(x)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		x = r.Features
		f.values = append(append(f.values, x...), r.labels...)
		if r.Unlabelled || f.options.Classes {
			f.values = append(f.values, make([]float64, f.outputs)...) // Every row has the same length.
		}
		if f.options.Classes {
			f.classes = append(f.classes, r.Class)
		}
		f.unlabelled[rows] = r.Unlabelled
		rows++
	}
	if rows == 0 {
		return NoRow(f.path)
	}
	seed := *f.options.Shuffle
	f.order = rand.New(rand.NewPCG(seed, 0)).Perm(rows)
	taken := min(rows, f.options.end())
	f.total = max(0, taken-f.options.Offset)
	for _, i := range f.order[:taken] {
		f.widen(f.at(i)[:f.dimension])
	}
	return nil
}

// survey reads the file once to find the range of every feature, and opens it
// again.
func (f *File) survey() error {
	rows := 0
	var x []float64
	for rows < f.options.end() {
		r, err := f.read(x)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		x = r.Features
		f.widen(x)
		rows++
	}
	if rows == 0 {
		return NoRow(f.path)
	}
	f.total = max(0, rows-f.options.Offset)
	if err := f.Close(); err != nil {
		return err
	}
	return f.open()
}

// widen extends the ranges by one input.
func (f *File) widen(x []float64) {
	if f.low == nil {
		f.low, f.high = slices.Clone(x), slices.Clone(x)
		return
	}
	for i, v := range x {
		f.low[i], f.high[i] = min(f.low[i], v), max(f.high[i], v)
	}
}

// scale maps x onto [0, 1]. The terms are halved first: a range wider than the
// largest number stays finite, and the quotient is the same.
func (f *File) scale(x []float64) {
	for i, v := range x {
		if f.high[i] > f.low[i] {
			x[i] = (v/2 - f.low[i]/2) / (f.high[i]/2 - f.low[i]/2)
		} else {
			x[i] = 0
		}
	}
}

// skip skips the rows before the offset.
func (f *File) skip() error {
	if f.options.Shuffle != nil {
		f.position = f.options.Offset
		return nil
	}
	var x []float64
	for ; f.position < f.options.Offset; f.position++ {
		r, err := f.read(x)
		if errors.Is(err, io.EOF) {
			f.position = f.options.end()
			return nil
		}
		if err != nil {
			return err
		}
		x = r.Features
	}
	return nil
}

// NoRow is the error of a file that has a header and no row.
func NoRow(path string) error { return &dataset.Error{File: path, Err: errNoRow} }
