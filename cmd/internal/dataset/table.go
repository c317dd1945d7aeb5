package dataset

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/text/encoding/unicode"

	"hindsight/cmd/internal/nearest"
)

// maxRow is how many bytes a row may have: a quote that is never closed would take
// the whole file for one field.
const maxRow = 16 << 20

var errRow = errors.New("a row of more than 16 MiB: is a quote not closed?")

// Table reads the rows of one file as text, one after another: a CSV file, or a Parquet file.
// It is not safe for concurrent use.
type Table struct {
	name    string
	csv     *csv.Reader // nil for a Parquet file
	meter   *meter
	parquet *parquetRows // nil for a CSV file
	columns []string
	numbers []Numbers // of the columns, nil before the first call of Numbers
	again   io.Reader // the file once more, nil if no column has decimal commas
	line    int       // of the row that was read last; of a Parquet file the row
}

// decimalCommas is the delimiter of the files with decimal commas.
const decimalCommas = ';'

// NewTable reads the header of r, whose fields name the columns. A gzip file and a Parquet file
// are recognised by their content, UTF-16 by its byte order mark. Fields are separated by the
// delimiter; if it is 0, by the comma, semicolon, tab or bar that the header has most of. A file
// with decimal commas is read twice, from memory if r cannot be. Errors call the file name.
func NewTable(r io.Reader, name string, delimiter rune) (*Table, error) {
	again := reopened(r)
	plain, err := PlainText(r)
	if err != nil {
		return nil, &Error{File: name, Err: err}
	}
	rows, err := openParquet(r, plain)
	if err != nil {
		return nil, &Error{File: name, Err: err}
	}
	if rows != nil {
		t := &Table{name: name, parquet: rows}
		return t, t.header(rows.names())
	}
	if delimiter == 0 {
		delimiter = sniff(plain)
	}
	switch {
	case delimiter != decimalCommas:
		again = nil
	case again == nil:
		all, err := io.ReadAll(plain)
		if err != nil {
			return nil, &Error{File: name, Err: err}
		}
		plain, again = bufio.NewReader(bytes.NewReader(all)), bytes.NewReader(all)
	}
	t := &Table{name: name, meter: &meter{from: plain, left: maxRow}, again: again}
	t.csv = csv.NewReader(t.meter)
	t.csv.ReuseRecord, t.csv.Comma = true, delimiter
	header, err := t.csv.Read()
	if errors.Is(err, io.EOF) {
		return nil, &Error{File: name, Err: errors.New("the file is empty")}
	}
	if err != nil {
		return nil, t.syntax(nil, err)
	}
	return t, t.header(header)
}

// reopened reads r once more from where r is, without moving r. It is nil if r can be read once only.
func reopened(r io.Reader) io.Reader {
	from, ok := r.(randomAccess)
	if !ok {
		return nil
	}
	at, err := from.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil // A pipe.
	}
	return io.NewSectionReader(from, at, math.MaxInt64-at)
}

// header checks the names of the columns.
func (t *Table) header(fields []string) error {
	seen := make(map[string]int, len(fields))
	numbers := 0
	for i, f := range fields {
		f = strings.TrimSpace(f)
		if f == "" {
			return t.AtColumn(i, errors.New("the column has no name"))
		}
		if first, twice := seen[f]; twice {
			return t.AtColumn(i, fmt.Errorf("column %d is called %q already", first+1, f))
		}
		if _, err := strconv.ParseFloat(f, 64); err == nil {
			numbers++
		}
		seen[f] = i
		t.columns = append(t.columns, f)
	}
	if numbers == len(fields) {
		return t.AtColumn(0, errors.New("the first line holds numbers, not the names of the columns"))
	}
	return nil
}

// Columns are the names of the columns, to be read only.
func (t *Table) Columns() []string { return t.columns }

// Column finds a column by its name. Call it before the first Read.
func (t *Table) Column(name string) (int, error) {
	i := slices.Index(t.columns, strings.TrimSpace(name))
	if i < 0 {
		return 0, t.AtHeader(fmt.Errorf("there is no column %q among %s%s", name, strings.Join(t.columns, ", "), nearest.Meant(name, t.columns)))
	}
	return i, nil
}

// AtColumn adds to an error the place of column i in the header. Call it before the first Read.
func (t *Table) AtColumn(i int, err error) error {
	return t.at(i, "", err)
}

// at adds to an error the place of field i of the row that was read last, or of the header.
func (t *Table) at(i int, column string, err error) error {
	if t.parquet != nil {
		return &Error{File: t.name, Row: t.line, Column: i + 1, Name: column, Err: err}
	}
	line, _ := t.csv.FieldPos(i)
	return &Error{File: t.name, Line: line, Column: i + 1, Name: column, Err: err}
}

// AtField adds to an error the place of field i of the row that was read last.
func (t *Table) AtField(i int, err error) error {
	return t.at(i, t.columns[i], err)
}

// InColumn adds to an error about all cells of column i the name of the column.
func (t *Table) InColumn(i int, err error) error {
	return &Error{File: t.name, Column: i + 1, Name: t.columns[i], Err: err}
}

// AtHeader adds to an error the place of the header.
func (t *Table) AtHeader(err error) error {
	if t.parquet != nil {
		return &Error{File: t.name, Err: err}
	}
	return &Error{File: t.name, Line: 1, Err: err}
}

// Line is the line of the row that was read last, of a Parquet file the row, from 1.
func (t *Table) Line() int { return t.line }

// Unit is what Line counts: line, of a Parquet file row.
func (t *Table) Unit() string {
	if t.parquet != nil {
		return "row"
	}
	return "line"
}

// Targets finds the columns that target names, with commas between them. Without a column y, the
// target "y" means y1, y2 and so on. Targets refuses a further column y1, y2 and so on beside such
// targets. An empty target names no column. Call it before the first Read.
func (t *Table) Targets(target string) ([]int, error) {
	if target == "" {
		return nil, nil
	}
	names := strings.Split(target, ",")
	if target == "y" && !slices.Contains(t.columns, target) {
		for n := 1; slices.Contains(t.columns, "y"+strconv.Itoa(n)); n++ {
			names = append(names[:n-1], "y"+strconv.Itoa(n))
		}
	}
	var places []int
	for _, name := range names {
		i := slices.Index(t.columns, strings.TrimSpace(name))
		switch {
		case i < 0:
			return nil, t.AtHeader(fmt.Errorf("there is no target column %q among %s", name, strings.Join(t.columns, ", ")))
		case slices.Contains(places, i):
			return nil, t.AtColumn(i, fmt.Errorf("the target %q is named twice", name))
		}
		places = append(places, i)
	}
	if !isTargetName(names[0]) {
		return places, nil
	}
	for i, c := range t.columns {
		if isTargetName(c) && !slices.Contains(places, i) {
			return nil, t.AtColumn(i, fmt.Errorf("%s looks like a target beside %q: name all of them, with commas between them", c, target))
		}
	}
	return places, nil
}

// isTargetName tells whether a column is called y1, y2 and so on.
func isTargetName(s string) bool {
	digits, ok := strings.CutPrefix(s, "y")
	if !ok {
		return false
	}
	_, err := strconv.ParseUint(digits, 10, 32)
	return err == nil
}

// Read returns the fields of the next row, which are valid until the next call. It
// returns io.EOF after the last row and *Error for a wrong row.
func (t *Table) Read() ([]string, error) {
	if t.parquet != nil {
		record, err := t.parquet.next()
		if t.line++; err != nil && !errors.Is(err, io.EOF) {
			err = &Error{File: t.name, Row: t.line, Err: err}
		}
		return record, err
	}
	t.meter.left = maxRow
	record, err := t.csv.Read()
	if errors.Is(err, io.EOF) {
		return nil, io.EOF
	}
	if err != nil {
		return nil, t.syntax(record, err)
	}
	t.line, _ = t.csv.FieldPos(0)
	return record, nil
}

// syntax adds the place to an error of the CSV or gzip reader.
func (t *Table) syntax(record []string, err error) error {
	var parse *csv.ParseError
	if !errors.As(err, &parse) {
		return &Error{File: t.name, Line: t.line + 1, Err: err} // The line at which reading stopped.
	}
	if errors.Is(err, csv.ErrFieldCount) {
		column := min(len(record), len(t.columns)) + 1
		return &Error{
			File: t.name, Line: parse.StartLine, Column: column,
			Err: fmt.Errorf("%d fields where the header has %d", len(record), len(t.columns)),
		}
	}
	// The column of a syntax error counts bytes, not fields.
	return &Error{File: t.name, Line: parse.Line, Err: fmt.Errorf("byte %d: %w", parse.Column, parse.Err)}
}

// meter is a reader of a row: it fails when a row is too long.
type meter struct {
	from io.Reader
	left int
}

// Read implements io.Reader.
func (m *meter) Read(p []byte) (int, error) {
	if m.left <= 0 {
		return 0, errRow
	}
	n, err := m.from.Read(p)
	m.left -= n
	return n, err
}

// sniff finds the delimiter of a file by its first line, without consuming the line. It ignores
// quoted text and prefers the comma.
func sniff(r *bufio.Reader) rune {
	head, _ := r.Peek(r.Size()) // Of a shorter file, all of it.
	counts := make(map[byte]int)
	quoted := false
	for _, c := range head {
		switch {
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '\n' && len(counts) > 0:
			return most(counts)
		default:
			counts[c]++
		}
	}
	return most(counts)
}

// most is the delimiter that was counted most often.
func most(counts map[byte]int) rune {
	best := byte(',')
	for _, c := range []byte{';', '\t', '|'} {
		if counts[c] > counts[best] {
			best = c
		}
	}
	return rune(best)
}

// PlainText undoes gzip, skips a byte order mark, and converts UTF-16 that has such a mark.
func PlainText(r io.Reader) (*bufio.Reader, error) {
	in := bufio.NewReaderSize(r, 1<<16)
	if magic, err := in.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, err
		}
		in = bufio.NewReaderSize(z, 1<<16)
	}
	if mark, err := in.Peek(3); err == nil && bytes.Equal(mark, []byte("\xef\xbb\xbf")) {
		if _, err := in.Discard(len(mark)); err != nil {
			return nil, err
		}
	}
	if mark, err := in.Peek(2); err == nil && (bytes.Equal(mark, []byte("\xff\xfe")) || bytes.Equal(mark, []byte("\xfe\xff"))) {
		decoder := unicode.UTF16(unicode.LittleEndian, unicode.ExpectBOM).NewDecoder()
		in = bufio.NewReaderSize(decoder.Reader(in), 1<<16)
	}
	return in, nil
}
