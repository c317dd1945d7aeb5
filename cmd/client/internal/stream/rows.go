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
	// Ignore names columns that are neither targets nor features. AllOthers among them
	// stands for every column that is not named otherwise.
	Ignore []string
	// Classes: the texts of the target are classes.
	Classes bool
	// MinMax maps every feature onto [0, 1] by its smallest and largest value. The range
	// covers the rows up to the last row taken, with the skipped rows, so that a continued
	// replay scales as the first replay did. A constant becomes 0.
	MinMax bool
	// Shuffle is the seed of a permutation of all rows of the file. Offset and Limit count
	// permuted rows. Nil keeps the order.
	Shuffle *uint64
	// Offset is how many rows to skip.
	Offset int
	// Limit is how many rows to take at most; 0 takes all.
	Limit int
}

// AllOthers stands for every column that is not named otherwise.
const AllOthers = "*"

// Ignores tells whether a column is ignored.
func (o *FileOptions) Ignores(column string) bool {
	return slices.Contains(o.Ignore, column) || slices.Contains(o.Ignore, AllOthers)
}

var (
	errClasses = errors.New("a classifier has one target")
	errNoRow   = errors.New("there is no row below the header")
)

// end returns the position after the last row that may be taken.
func (o *FileOptions) end() int {
	if o.Limit <= 0 || o.Limit > math.MaxInt-o.Offset {
		return math.MaxInt
	}
	return o.Offset + o.Limit
}

// rows are the rows of a CSV file as T, from an offset to a limit. A shuffle holds the whole
// file in memory.
type rows[T any] struct {
	path     string
	options  FileOptions
	file     *os.File
	total    int // rows that Next yields in all, -1 if not known
	position int

	read  func() (T, error)      // the next row of the file
	round func(T) (Round, error) // converts a row

	shuffled []T
	order    []int // the permutation of shuffled
}

// newRows checks the options.
func newRows[T any](path string, o FileOptions) (rows[T], error) {
	if o.Offset < 0 || o.Limit < 0 {
		return rows[T]{}, fmt.Errorf("offset %d and limit %d cannot be negative", o.Offset, o.Limit)
	}
	return rows[T]{path: path, options: o, total: -1}, nil
}

// Total returns the number of rows that Next yields in all, or -1 if the file was not read to
// its end.
func (r *rows[T]) Total() int { return r.total }

// Close closes the file.
func (r *rows[T]) Close() error {
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	return err
}

// Next returns the next row, or io.EOF after the last.
func (r *rows[T]) Next() (Round, error) {
	if r.position >= r.options.end() {
		return Round{}, io.EOF
	}
	row, err := r.row()
	if err != nil {
		return Round{}, err
	}
	r.position++
	return r.round(row)
}

// row returns the row at the position.
func (r *rows[T]) row() (row T, err error) {
	switch {
	case r.options.Shuffle == nil:
		return r.read()
	case r.position >= len(r.order):
		return row, io.EOF
	default:
		return r.shuffled[r.order[r.position]], nil
	}
}

// begin goes to the offset. Of a shuffled file it reads all rows and draws the permutation.
func (r *rows[T]) begin() error {
	if r.options.Shuffle == nil {
		skipped, err := r.each(r.options.Offset, func(T) {})
		if r.position = skipped; skipped < r.options.Offset {
			r.position = r.options.end() // The file is shorter.
		}
		return err
	}
	count, err := r.each(math.MaxInt, func(row T) { r.shuffled = append(r.shuffled, row) })
	if err == nil && count == 0 {
		err = NoRow(r.path)
	}
	r.order = rand.New(rand.NewPCG(*r.options.Shuffle, 0)).Perm(count)
	r.count(count)
	r.position = r.options.Offset
	return err
}

// each calls do with the next rows of the file, at most so many, and returns how many there
// were.
func (r *rows[T]) each(most int, do func(T)) (n int, err error) {
	for ; n < most; n++ {
		row, err := r.read()
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		do(row)
	}
	return n, nil
}

// count sets the total by the number of rows of the file.
func (r *rows[T]) count(rows int) { r.total = max(0, min(rows, r.options.end())-r.options.Offset) }

// NoRow is the error of a file that has a header and no row.
func NoRow(path string) error { return &dataset.Error{File: path, Err: errNoRow} }

// withFile calls do with an open file.
func withFile(path string, do func(*os.File) error) error {
	file, err := os.Open(path) //nolint:gosec // the user names the file
	if err != nil {
		return err
	}
	return errors.Join(do(file), file.Close())
}
