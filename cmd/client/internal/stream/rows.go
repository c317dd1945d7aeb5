package stream

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/dataset"
	"hindsight/internal/dataset/parquet"
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
	// Label has the unit of labels that are numbers, nil if it is not known.
	Label *hindsightv1.Label
	// Offset is how many rows to skip.
	Offset int
	// Limit is how many rows to take at most; 0 takes all.
	Limit int
}

// AllOthers stands for every column that is not named otherwise.
const AllOthers = "*"

// Ignores reports whether a column is ignored.
func (o *FileOptions) Ignores(column string) bool {
	return slices.Contains(o.Ignore, column) || slices.Contains(o.Ignore, AllOthers)
}

var (
	errClasses = errors.New("a classifier has one target")
	errNoRow   = errors.New("there is no row below the header")
)

func (o *FileOptions) end() int {
	if o.Limit <= 0 || o.Limit > math.MaxInt-o.Offset {
		return math.MaxInt
	}
	return o.Offset + o.Limit
}

// rows are the rows of a CSV file, from an offset to a limit.
type rows struct {
	path     string
	options  FileOptions
	file     *os.File
	total    int // rows that Next yields in all, -1 if not known
	position int

	read func() (Round, error) // the next row of the file
}

func newRows(path string, o FileOptions) (rows, error) {
	if o.Offset < 0 || o.Limit < 0 {
		return rows{}, fmt.Errorf("offset %d and limit %d cannot be negative", o.Offset, o.Limit)
	}
	return rows{path: path, options: o, total: -1}, nil
}

// Total returns the number of rows that Next yields in all, or -1 if the file was not read to
// its end.
func (r *rows) Total() int { return r.total }

func (r *rows) Close() error {
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	return err
}

func (r *rows) Next() (Round, error) {
	if r.position >= r.options.end() {
		return Round{}, io.EOF
	}
	row, err := r.read()
	if err == nil {
		r.position++
	}
	return row, err
}

func (r *rows) begin() error {
	for ; r.position < r.options.Offset; r.position++ {
		if _, err := r.read(); errors.Is(err, io.EOF) {
			r.position = r.options.end() // The file is shorter.
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

func (r *rows) count(rows int) { r.total = max(0, min(rows, r.options.end())-r.options.Offset) }

// NoRow is the error of a file that has a header and no row.
func NoRow(path string) error { return &dataset.Error{File: path, Err: errNoRow} }

// WithTable calls do with the table of a file; see parquet.NewTable.
func WithTable(path string, delimiter rune, do func(*dataset.Table) error) error {
	file, table, err := openTable(path, delimiter)
	if err != nil {
		return err
	}
	return errors.Join(do(table), file.Close())
}

// openTable opens a file and reads its header. If it returns no error, file.Close must be called.
func openTable(path string, delimiter rune) (file *os.File, table *dataset.Table, err error) {
	if file, err = os.Open(path); err != nil { //nolint:gosec // the user names the file
		return nil, nil, err
	}
	if table, err = parquet.NewTable(file, path, delimiter); err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, table, nil
}
