package dataset

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"

	"hindsight/cmd/client/internal/stream"
)

// Options say which rows of a file to take, and how.
type Options struct {
	// Target is the name of the column with the labels, or several, see
	// NewReader.
	Target string
	// MinMax maps every feature onto [0, 1] by its smallest and largest value
	// among the rows up to the last one taken, skipped ones included, so that a
	// continued replay scales as the whole one did. A constant becomes 0.
	MinMax bool
	// Shuffle permutes the rows of the whole file before any are skipped or
	// left out; nil leaves them in order.
	Shuffle *uint64
	// Offset is how many rows to skip.
	Offset int
	// Limit is how many rows to take at most; 0 takes all.
	Limit int
}

// end returns the position after the last row that may be taken.
func (o Options) end() int {
	if o.Limit <= 0 || o.Limit > math.MaxInt-o.Offset {
		return math.MaxInt
	}
	return o.Offset + o.Limit
}

// Source yields the chosen rows of a file. Without a shuffle it reads them
// while they are taken, after a first pass for the scaling if there is one;
// a shuffle holds the whole file in memory. It is not safe for concurrent use.
type Source struct {
	path      string
	options   Options
	dimension int
	outputs   int
	total     int // rows that will be taken, -1 when not known
	position  int
	low, high []float64

	file   *os.File
	reader *Reader

	values []float64 // of a shuffled file: rows of features and labels
	order  []int
}

// Open opens a file. Close must be called.
func Open(path string, o Options) (*Source, error) {
	if o.Offset < 0 || o.Limit < 0 {
		return nil, fmt.Errorf("offset %d and limit %d cannot be negative", o.Offset, o.Limit)
	}
	s := &Source{path: path, options: o, total: -1}
	if err := s.open(); err != nil {
		return nil, err
	}
	s.dimension, s.outputs = s.reader.Dimension(), s.reader.Outputs()
	var err error
	switch {
	case o.Shuffle != nil:
		err = s.load()
	case o.MinMax:
		err = s.survey()
	}
	if err == nil {
		err = s.skip()
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// open begins to read the file.
func (s *Source) open() error {
	file, err := os.Open(s.path)
	if err != nil {
		return err
	}
	reader, err := NewReader(file, s.path, s.options.Target)
	if err != nil {
		return errors.Join(err, file.Close())
	}
	s.file, s.reader = file, reader
	return nil
}

// Dimension returns the number of features.
func (s *Source) Dimension() int { return s.dimension }

// Outputs returns the number of labels.
func (s *Source) Outputs() int { return s.outputs }

// Total returns the number of rows that Next will yield in all, or -1 as long
// as the file has not been read to its end.
func (s *Source) Total() int { return s.total }

// Close closes the file.
func (s *Source) Close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	return err
}

// Next returns the next row, or io.EOF after the last.
func (s *Source) Next() (stream.Round, error) {
	if s.position >= s.options.end() {
		return stream.Round{}, io.EOF
	}
	x, y, err := s.row()
	if err != nil {
		return stream.Round{}, err
	}
	s.position++
	if s.options.MinMax {
		s.scale(x)
	}
	return stream.Given(x, y...), nil
}

// row returns the row at the position.
func (s *Source) row() (x, y []float64, err error) {
	if s.options.Shuffle == nil {
		y = make([]float64, s.outputs)
		x, err = s.reader.Read(make([]float64, 0, s.dimension), y)
		return x, y, err
	}
	if s.position >= len(s.order) {
		return nil, nil, io.EOF
	}
	row := slices.Clone(s.at(s.order[s.position]))
	return row[:s.dimension:s.dimension], row[s.dimension:], nil
}

// at returns row i of a file that was loaded.
func (s *Source) at(i int) []float64 {
	width := s.dimension + s.outputs
	return s.values[i*width : (i+1)*width]
}

// load reads the whole file and draws the permutation.
func (s *Source) load() error {
	rows, y := 0, make([]float64, s.outputs)
	for {
		x, err := s.reader.Read(s.values, y)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		s.values = x
		s.values = append(s.values, y...)
		rows++
	}
	if rows == 0 {
		return s.noRows()
	}
	seed := *s.options.Shuffle
	s.order = rand.New(rand.NewPCG(seed, 0)).Perm(rows)
	taken := min(rows, s.options.end())
	s.total = max(0, taken-s.options.Offset)
	for _, i := range s.order[:taken] {
		s.widen(s.at(i)[:s.dimension])
	}
	return nil
}

// survey finds the range of every feature in a first pass, and begins anew.
func (s *Source) survey() error {
	rows, y := 0, make([]float64, s.outputs)
	var x []float64
	for rows < s.options.end() {
		var err error
		x, err = s.reader.Read(x[:0], y)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		s.widen(x)
		rows++
	}
	if rows == 0 {
		return s.noRows()
	}
	s.total = max(0, rows-s.options.Offset)
	if err := s.Close(); err != nil {
		return err
	}
	return s.open()
}

// widen takes one input into the ranges.
func (s *Source) widen(x []float64) {
	if s.low == nil {
		s.low, s.high = slices.Clone(x), slices.Clone(x)
		return
	}
	for i, v := range x {
		s.low[i], s.high[i] = min(s.low[i], v), max(s.high[i], v)
	}
}

// scale maps x onto [0, 1]. Halving first changes no bit of the quotient and
// keeps a range wider than the largest number finite.
func (s *Source) scale(x []float64) {
	for i, v := range x {
		if s.high[i] > s.low[i] {
			x[i] = (v/2 - s.low[i]/2) / (s.high[i]/2 - s.low[i]/2)
		} else {
			x[i] = 0
		}
	}
}

// skip passes over the rows before the offset.
func (s *Source) skip() error {
	if s.options.Shuffle != nil {
		s.position = s.options.Offset
		return nil
	}
	var x []float64
	y := make([]float64, s.outputs)
	for ; s.position < s.options.Offset; s.position++ {
		var err error
		x, err = s.reader.Read(x[:0], y)
		if errors.Is(err, io.EOF) {
			s.position = s.options.end()
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// noRows says that there is a header and nothing below.
func (s *Source) noRows() error {
	return &Error{File: s.path, Err: errors.New("there is no row below the header")}
}
