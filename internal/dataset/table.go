package dataset

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
	utf16 "golang.org/x/text/encoding/unicode"

	"hindsight/internal/nearest"
)

// maxRow is how many bytes a row may have: a quote that is never closed would take
// the whole file for one field.
const maxRow = 16 << 20

// maxFields bounds the delimiters of a row: the fields of a row take many times its bytes.
const maxFields = 1 << 20

var (
	errRow    = errors.New("a row of more than 16 MiB: is a quote not closed?")
	errFields = errors.New("a row of more than 1048576 delimiters: is a quote not closed?")
)

// ParquetMagic is what a Parquet file begins with.
const ParquetMagic = "PAR1"

// Table reads the rows of one file as text, one after another: a CSV file, or one of another format, whose
// rows are counted and not its lines.
// It is not safe for concurrent use.
type Table struct {
	name    string
	csv     *csv.Reader // nil for a file of another format
	meter   *meter
	next    func() ([]string, error) // of a file of another format
	columns []string
	numbers []Numbers // of the columns, nil before the first call of Numbers
	line    int       // of the row that was read last; of a file of another format the row
	end     int       // the last line of the row that was read last, of a file of one column
	held    []string  // the next row of a file of one column, behind a blank line

	delimiter     rune
	again         func() (*Table, error) // opens the file once more, nil if it can be read once only
	surveyed      bool                   // again was read
	decimalCommas bool                   // a column has them, and none has decimal points
	decimalPoints bool                   // a column has them, and none has decimal commas
	unnamed       []bool                 // of the columns: the file gives them no name, or the name of an index of pandas
	numbered      bool                   // the names are numbers, and may be data
	notes         []string               // see Notes
	repeated      int                    // lines that repeat the header
	totals        int                    // lines of totals before others
	described     int                    // rows below the header that describe columns, before the first row
	cut           string                 // the first name that is cut
}

// semicolon is the delimiter of spreadsheets of the languages with decimal commas.
const semicolon = ';'

// NewTable reads the header of a CSV file, whose fields name the columns. A gzip file
// is recognised by its content, UTF-16 by its byte order mark, and a text that is not UTF-8 is read as Windows-1252. A first
// line of numbers that are no names is a row. Fields are separated by the
// delimiter; if it is 0, by the delimiter of a first line like sep=; or by the comma, semicolon, tab or bar
// that the header has most of. A file with numbers such as 1,234 is read twice. Errors call the file
// name.
func NewTable(r io.Reader, name string, delimiter rune) (*Table, error) {
	again := reopened(r)
	plain, err := PlainText(r)
	if err != nil {
		return nil, &Error{File: name, Err: err}
	}
	t := &Table{name: name}
	head, _ := plain.Peek(plain.Size())
	if isWindows1252(head) {
		plain = bufio.NewReaderSize(charmap.Windows1252.NewDecoder().Reader(plain), 1<<16)
		t.notes = append(t.notes, "the file is not UTF-8 and is read as Windows-1252: if letters are wrong, convert it to UTF-8")
	}
	if bytes.HasPrefix(head, []byte(ParquetMagic)) {
		return nil, &Error{File: name, Err: errors.New("the file is Parquet where CSV is expected; unpack a compressed Parquet file")}
	}
	declaration, declared := cutDeclaration(plain)
	fixed := delimiter != 0 || declared != 0
	head, whole := plain.Peek(plain.Size())
	titles, delimiter := preamble(head, whole != nil, cmp.Or(delimiter, declared, sniff(head)), fixed)
	bare := hasBareQuotes(head[titles:], delimiter)
	table := shapeOf(head[titles:], whole != nil, delimiter)
	lines := declaration + bytes.Count(head[:titles], []byte("\n"))
	if again == nil && delimiter == semicolon {
		all, err := io.ReadAll(plain)
		if err != nil {
			return nil, &Error{File: name, Err: err}
		}
		plain, again = bufio.NewReader(bytes.NewReader(all)), bytes.NewReader(all)
	}
	if _, err := plain.Discard(titles); err != nil {
		return nil, &Error{File: name, Err: err}
	}
	// Blank lines take the place of the titles, so that errors count all lines.
	t.meter, t.delimiter = &meter{from: io.MultiReader(strings.NewReader(strings.Repeat("\n", lines)), plain), delimiter: []byte(string(delimiter))}, delimiter
	t.meter.begin()
	if again != nil {
		t.again = func() (*Table, error) { return NewTable(again, name, delimiter) }
	}
	t.csv = csv.NewReader(t.meter)
	t.csv.ReuseRecord, t.csv.Comma, t.csv.LazyQuotes = true, delimiter, bare
	header, err := t.csv.Read()
	if errors.Is(err, io.EOF) {
		return nil, &Error{File: name, Err: errors.New("the file is empty")}
	}
	if err != nil {
		return nil, t.syntax(nil, err)
	}
	if n := len(header); n > maxColumns {
		return nil, t.AtHeader(fmt.Errorf("%d columns, at most %d are possible", n, maxColumns))
	}
	t.described = table.describe(header)
	if table.hasRowNames() {
		t.csv.FieldsPerRecord, header = len(header)+1, slices.Concat([]string{""}, header)
	}
	if strings.Contains(strings.Join(header, ""), "\r") {
		return nil, &Error{File: name, Line: 1, Err: errors.New("the lines end in CR alone: save the file with LF or CR LF")}
	}
	line, _ := t.csv.FieldPos(0)
	t.end = line + strings.Count(header[0], "\n")
	if t.described > 0 {
		t.notes = append(t.notes, fmt.Sprintf("rows below the names of the columns are left out, because numbers follow their texts: %d", t.described))
	}
	if titles > 0 {
		t.notes = append(t.notes, fmt.Sprintf("the first line of the table is line %d: what precedes it is left out", line))
	}
	if isRow(header, &table) {
		t.notes = append(t.notes, fmt.Sprintf("the first line holds no names: the columns are called column 1 to column %d", len(header)))
		t.held, t.line = slices.Clone(header), line
		for i := range header {
			header[i] = columnName(i)
		}
		if err := t.header(header); err != nil {
			return nil, err
		}
		clear(t.unnamed)
		return t, nil
	}
	return t, t.header(header)
}

// hasBareQuotes reports whether the first wrong quote of the head of a file is a letter of a cell, as in 5'11".
func hasBareQuotes(head []byte, delimiter rune) bool {
	r := csv.NewReader(bytes.NewReader(head))
	r.Comma, r.FieldsPerRecord, r.ReuseRecord = delimiter, -1, true
	for {
		if _, err := r.Read(); err != nil {
			return errors.Is(err, csv.ErrBareQuote)
		}
	}
}

// isWindows1252 reports whether the head of a text has bytes above ASCII and no UTF-8.
func isWindows1252(head []byte) bool {
	broken := false
	for len(head) >= utf8.UTFMax { // The last letter may be cut.
		r, size := utf8.DecodeRune(head)
		if size > 1 {
			return false
		}
		broken = broken || r == utf8.RuneError
		head = head[size:]
	}
	return broken
}

// Notes say what a user should know of the rows that were read so far, beside what belongs to a column.
func (t *Table) Notes() []string { return t.notes }

// NewRowTable returns a table of a file that is no CSV file. Next returns the fields of the next row, which are
// valid until the next call, or io.EOF; again opens the file once more.
func NewRowTable(name string, columns []string, next func() ([]string, error), again func() (*Table, error)) (*Table, error) {
	t := &Table{name: name, next: next, again: again}
	return t, t.header(columns)
}

// cutDeclaration skips a first line like sep=; of a spreadsheet, and returns the number of skipped lines and the
// declared delimiter. Both are 0 without this line.
func cutDeclaration(r *bufio.Reader) (lines int, delimiter rune) {
	const longest = len("sep=") + utf8.UTFMax + len("\r\n")
	head, _ := r.Peek(longest)
	line, _, ended := strings.Cut(string(head), "\n")
	after, ok := strings.CutPrefix(strings.ToLower(strings.Trim(line, "\"\r")), "sep=")
	c, size := utf8.DecodeRuneInString(after)
	if !ended || !ok || size != len(after) || size == 0 {
		return 0, 0
	}
	_, _ = r.Discard(len(line) + 1) // These bytes were peeked.
	return 1, c
}

// reopened reads r once more from where r is, without moving r. It is nil if r can be read once only.
func reopened(r io.Reader) io.Reader {
	from, ok := r.(interface {
		io.ReaderAt
		io.Seeker
	})
	if !ok {
		return nil
	}
	at, err := from.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil // A pipe.
	}
	return io.NewSectionReader(from, at, math.MaxInt64-at)
}

// Columns are the names of the columns, to be read only.
func (t *Table) Columns() []string { return t.columns }

// Column finds a column by its name. Call it before the first Read.
func (t *Table) Column(name string) (int, error) {
	i := slices.Index(t.columns, nameOf(name))
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
	if t.next != nil {
		return &Error{File: t.name, Row: t.line, Column: i + 1, Name: column, Err: err}
	}
	line, _ := t.csv.FieldPos(i)
	if t.held != nil {
		line = t.line
	}
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
	if t.next != nil {
		return &Error{File: t.name, Err: err}
	}
	line, _ := t.csv.FieldPos(0)
	return &Error{File: t.name, Line: line, Err: err}
}

// Line is the line of the row that was read last, of a file without lines the row, from 1.
func (t *Table) Line() int { return t.line }

// Unit is what Line counts: line or row.
func (t *Table) Unit() string {
	if t.next != nil {
		return "row"
	}
	return "line"
}

// Targets finds the columns that target names, with commas between them. Without a column y, the
// target "y" means y1, y2 and so on. Targets rejects a further column y1, y2 and so on beside such
// targets. An empty target names no column. Call it before the first Read.
func (t *Table) Targets(target string) ([]int, error) {
	if target == "" {
		return nil, nil
	}
	if err := t.CheckNamed(target); err != nil {
		return nil, err
	}
	names := strings.Split(target, ",")
	if target == "y" && !slices.Contains(t.columns, target) {
		for n := 1; slices.Contains(t.columns, "y"+strconv.Itoa(n)); n++ {
			names = append(names[:n-1], "y"+strconv.Itoa(n))
		}
	}
	var places []int
	for _, name := range names {
		i := slices.Index(t.columns, nameOf(name))
		switch {
		case i < 0:
			says := append([]string{fmt.Sprintf("there is no target column %q among %s", name, strings.Join(t.columns, ", "))}, t.notes...)
			if len(t.columns) == 1 {
				says = append(says, "no comma, semicolon, tab or bar separates the fields of the first line")
			}
			return nil, t.AtHeader(errors.New(strings.Join(says, "; ")))
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

// isTargetName reports whether a column is called y1, y2 and so on.
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
	if t.next != nil {
		record, err := t.next()
		if t.line++; err != nil && !errors.Is(err, io.EOF) {
			err = &Error{File: t.name, Row: t.line, Err: err}
		}
		return record, err
	}
	record := t.held
	if record == nil {
		var err error
		if record, err = t.record(); err != nil {
			return nil, err
		}
	}
	t.line, _ = t.csv.FieldPos(0)
	if len(t.columns) == 1 { // A blank line, which the reader skips, is a row without a value.
		if t.end++; t.end < t.line {
			t.line, t.held = t.end, record
			return []string{""}, nil
		}
		t.held, t.end = nil, t.line+strings.Count(record[0], "\n")
		return record, nil
	}
	t.held = nil
	if !isTotal(record, 1) {
		return record, nil
	}
	record = slices.Clone(record)
	next, err := t.record()
	if errors.Is(err, io.EOF) {
		t.notes = append(t.notes, fmt.Sprintf("line %d, the last, is left out: it holds totals", t.line))
	}
	if err != nil {
		return nil, err
	}
	t.held = next
	return record, nil
}

// record reads the next row. It skips drawn lines, and lines of few fields if no row follows them.
func (t *Table) record() ([]string, error) {
	var footer error // The first line of few fields is an error if a row follows.
	for {
		t.meter.begin()
		record, err := t.csv.Read()
		width := len(t.columns)
		switch odd := errors.Is(err, csv.ErrFieldCount); {
		case errors.Is(err, io.EOF):
			if footer != nil {
				t.notes = append(t.notes, fmt.Sprintf("the table ends with line %d: what follows is left out", t.line))
			}
			return nil, io.EOF
		case footer != nil && (!odd || 2*len(record) >= width):
			return nil, footer
		case odd && (isDrawn(record) || strings.HasPrefix(record[0], "#")), err == nil && t.line == 0 && t.underlines(record):
		case err == nil && t.described > 0:
			t.described--
		case err == nil && t.repeats(record):
			t.noteFirst(&t.repeated, "that repeats the names of the columns")
		case err == nil && isTotal(record, 2):
			t.noteFirst(&t.totals, "of totals")
		case err == nil:
			return record, nil
		case odd && len(record) == width+1 && record[width] == "":
			return record[:width], nil
		case odd && (2*len(record) < width || rowCount.MatchString(record[0])) && t.line > 0:
			footer = cmp.Or(footer, t.syntax(record, err))
		default:
			return nil, t.syntax(record, err)
		}
	}
}

// noteFirst counts a line that is left out, and notes the first.
func (t *Table) noteFirst(count *int, which string) {
	if *count++; *count == 1 {
		line, _ := t.csv.FieldPos(0)
		t.notes = append(t.notes, fmt.Sprintf("line %d, and each later line %s, is left out", line, which))
	}
}

// rowCount is how clients of databases end a table.
var rowCount = regexp.MustCompile(`^\(?[0-9]+ rows?\b`)

// repeats reports whether a row is the header once more, as in files that follow one another.
func (t *Table) repeats(record []string) bool {
	if len(record) == 1 || t.unnamed[0] || nameOf(record[0]) != t.columns[0] {
		return false
	}
	for i, cell := range record {
		if !t.unnamed[i] && nameOf(cell) != t.columns[i] {
			return false
		}
	}
	return true
}

// isDrawn reports whether a line is drawn below or around a table, as databases and Markdown do.
func isDrawn(record []string) bool {
	line := strings.Join(record, "")
	return strings.Contains(line, "--") && strings.Trim(line, "-+=|: ") == ""
}

// underlines reports whether the line below the header is drawn: of bars, or below each name a line that is as long as the
// name. Other dashes are missing values.
func (t *Table) underlines(record []string) bool {
	for i, cell := range record {
		cell, shortest := strings.TrimSpace(cell), 3
		if t.delimiter != '|' {
			shortest = max(shortest, utf8.RuneCountInString(t.columns[i]))
		} else if cell == "" { // Beside the table.
			continue
		}
		if len(cell) < shortest {
			return false
		}
	}
	return len(record) > 1 && isDrawn(record)
}

// total matches the first cell of a row of totals of a spreadsheet.
var total = regexp.MustCompile(`(?i)^(?:(?:grand |sub-?|sous-)total.*|.+ (?:sub)?total|.+ ergebnis|gesamt(?:summe|ergebnis)?|insgesamt|(?:zwischen)?summe|` +
	`totals?:.*|(?:sub)?totale?s?(?: g[eé]n?[eé]ral| geral| generale)?|totaa?l|sum|suma|итого|всего|合計|小計) *:?$`)

// isTotal reports whether a row has at least so many gaps and begins with a word for a total, as the last row of a spreadsheet does.
func isTotal(record []string, gaps int) bool {
	for _, cell := range record {
		if cell == "" || len(cell) <= len(" ---") && IsGap(strings.TrimSpace(cell)) {
			gaps--
		}
	}
	for _, cell := range record {
		if cell = strings.TrimSpace(cell); cell != "" {
			return gaps <= 0 && cell[0] > '9' && total.MatchString(cell)
		}
	}
	return false
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
	if parse.StartLine < parse.Line {
		return &Error{File: t.name, Line: parse.StartLine, Err: fmt.Errorf("a quote is not closed before line %d, byte %d: %w", parse.Line, parse.Column, parse.Err)}
	}
	// The column of a syntax error counts bytes, not fields.
	return &Error{File: t.name, Line: parse.Line, Err: fmt.Errorf("byte %d: %w", parse.Column, parse.Err)}
}

// meter is a reader of a row: it fails when a row is too long.
type meter struct {
	from         io.Reader
	delimiter    []byte
	left, fields int
}

// begin begins a row.
func (m *meter) begin() { m.left, m.fields = maxRow, maxFields }

// Read implements io.Reader.
func (m *meter) Read(p []byte) (int, error) {
	if m.left <= 0 {
		return 0, errRow
	}
	if m.fields <= 0 {
		return 0, errFields
	}
	n, err := m.from.Read(p)
	m.left -= n
	m.fields -= bytes.Count(p[:n], m.delimiter)
	return n, err
}

// sniff returns the most frequent delimiter of the first line that is not blank, the comma if several are. Delimiters
// in quoted text do not count.
func sniff(head []byte) rune {
	counts := make(map[byte]int)
	quoted := false
	for _, c := range head {
		switch {
		case c == '"':
			quoted = !quoted
			counts[c]++
		case quoted, c == '\r', c == '\n' && len(counts) == 0:
		case c == '\n':
			return mostFrequent(counts)
		default:
			counts[c]++
		}
	}
	return mostFrequent(counts)
}

func mostFrequent(counts map[byte]int) rune {
	best := byte(',')
	for _, c := range []byte{';', '\t', '|'} {
		if counts[c] > counts[best] {
			best = c
		}
	}
	return rune(best)
}

// PlainText undoes gzip, skips a byte order mark, and converts UTF-16. It rejects other archives.
func PlainText(r io.Reader) (*bufio.Reader, error) {
	in := bufio.NewReaderSize(r, 1<<16)
	for magic, says := range map[string]string{
		"PK\x03\x04":          "a zip file, as a workbook of Excel is: unpack it, or save the sheet as CSV",
		"\xd0\xcf\x11\xe0":    "a workbook of Excel: save the sheet as CSV",
		"BZh91AY&SY":          "compressed with bzip2: unpack it, or compress it with gzip",
		"\xfd7zXZ":            "compressed with xz: unpack it, or compress it with gzip",
		"\x28\xb5\x2f\xfd":    "compressed with zstd: unpack it, or compress it with gzip",
		"SQLite format 3\x00": "a database of SQLite: export the table as CSV",
	} {
		if head, _ := in.Peek(len(magic)); string(head) == magic {
			return nil, errors.New("the file is " + says)
		}
	}
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
	order := utf16.LittleEndian
	switch mark, _ := in.Peek(4); {
	case len(mark) < 4:
	case mark[0] == 0 && mark[2] == 0: // Two letters of ASCII without a mark.
		order = utf16.BigEndian
		fallthrough
	case mark[1] == 0 && mark[3] == 0, mark[0] == 0xff && mark[1] == 0xfe, mark[0] == 0xfe && mark[1] == 0xff:
		in = bufio.NewReaderSize(utf16.UTF16(order, utf16.UseBOM).NewDecoder().Reader(in), 1<<16)
	}
	return in, nil
}
