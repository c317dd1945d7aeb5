package dataset

import (
	"bytes"
	"encoding/csv"
	"slices"
	"strings"
	"unicode"
)

// shape is the head of a file, split into records by one delimiter.
type shape struct {
	delimiter rune
	records   [][]string
	ends      []int // The offset of the end of each record.
	width     int   // The most frequent number of fields.
	fields    int   // The fields of all records of that width.
}

func shapeOf(head []byte, whole bool, delimiter rune) shape {
	s := shape{delimiter: delimiter}
	r := csv.NewReader(bytes.NewReader(head))
	r.Comma, r.LazyQuotes, r.FieldsPerRecord = delimiter, true, -1
	for {
		record, err := r.Read()
		if err != nil {
			break
		}
		s.records, s.ends = append(s.records, record), append(s.ends, int(r.InputOffset()))
	}
	if n := len(s.records); !whole && n > 0 { // The last record may be cut.
		s.records = s.records[:n-1]
	}
	counts := make(map[int]int)
	for _, record := range s.records {
		counts[len(record)] += len(record)
		if n := counts[len(record)]; n > s.fields || n == s.fields && len(record) > s.width {
			s.width, s.fields = len(record), n
		}
	}
	return s
}

// isTitle reports whether a record before the header may be a title: at most half of the table's cells are filled, or the
// record is a comment, as the types of InfluxDB, or the first line of a logger.
func (s *shape) isTitle(record []string) bool {
	if len(record) == s.width {
		return 2*filled(record) < s.width || record[0] == "TOA5" || strings.HasPrefix(record[0], "#")
	}
	return 2*len(record) <= s.width || len(record) > s.width || strings.HasPrefix(record[0], "#")
}

// titles counts the bytes of the titles before the header. A line is the header only if most columns of numbers have a
// name that is neither a number nor a missing value.
func (s *shape) titles() int {
	at := 0
	for at < len(s.records) && s.isTitle(s.records[at]) {
		at++
	}
	for ; at > 0; at-- {
		if s.isHeader(at) {
			return s.ends[at-1]
		}
		if !strings.HasPrefix(s.records[at-1][0], "#") { // Or the last comment is the header.
			break
		}
	}
	return 0
}

func (s *shape) isHeader(at int) bool {
	if at >= len(s.records)-1 || len(s.records[at]) != s.width {
		return false
	}
	header, named := s.records[at], 0
	for i, name := range header {
		if !s.isOfNumbers(i, at+1) {
			continue
		}
		if isNumeric(name) || IsGap(strings.TrimSpace(name)) {
			named--
		} else {
			named++
		}
	}
	return named > 0 && !isRow(header, &shape{records: s.records[at:]})
}

// descriptions counts the rows below the header, at most three, that describe columns, as surveys and loggers write
// questions and units: at least two cells in columns of numbers are texts, and none is a number. The head is as shapeOf
// leaves it without titles.
func (s *shape) descriptions() (n int) {
	const most = 3
	for n < min(most, len(s.records)-2) {
		words := 0
		for i, cell := range s.records[n+1] {
			switch cell = strings.TrimSpace(cell); {
			case IsGap(cell) || !s.isOfNumbers(i, n+2):
			case isNumeric(cell):
				return n
			default:
				words++
			}
		}
		if words < 2 {
			return n
		}
		n++
	}
	return n
}

// describe counts the descriptions. The first completes the header if it names each column that the header does not, as
// loggers write Wind above Speed.
func (s *shape) describe(header []string) int {
	n := s.descriptions()
	if n == 0 || !slices.Contains(header, "") || len(s.records[1]) < len(header) {
		return n
	}
	names := slices.Clone(header)
	for i := range header {
		if names[i] = strings.TrimSpace(header[i] + " " + s.records[1][i]); names[i] == "" {
			return n
		}
	}
	copy(header, names)
	return n
}

// isOfNumbers reports whether most cells of a column, from a record on, are numbers.
func (s *shape) isOfNumbers(i, from int) bool {
	numbers, cells := 0, 0
	for _, record := range s.records[from:] {
		if len(record) == s.width && i < s.width && record[i] != "" {
			cells++
			if isNumeric(record[i]) {
				numbers++
			}
		}
	}
	return 2*numbers > cells
}

// hasRowNames reports whether the header names all columns but the first, as R writes a table.
func (s *shape) hasRowNames() bool {
	for _, record := range s.records[min(1, len(s.records)):] {
		if len(record) != len(s.records[0])+1 || record[len(record)-1] == "" {
			return false
		}
	}
	return len(s.records) > 1
}

func filled(record []string) (n int) {
	for _, cell := range record {
		if strings.TrimSpace(cell) != "" {
			n++
		}
	}
	return n
}

// isNumeric reports whether a cell has digits and no letters, as numbers and most times do.
func isNumeric(cell string) bool {
	return strings.ContainsAny(cell, "0123456789") && !strings.ContainsFunc(cell, unicode.IsLetter)
}

// preamble returns how many bytes of titles precede the header, and the delimiter of the table. Without titles the
// delimiter is first.
func preamble(head []byte, whole bool, first rune, fixed bool) (titles int, delimiter rune) {
	best := shapeOf(head, whole, first)
	if len(best.records) == 0 {
		return 0, first
	}
	titles = best.titles()
	if n := len(best.records[0]); titles == 0 && (fixed || n > 1 && (len(best.records) == 1 || len(best.records[1]) == n)) {
		return 0, first
	}
	for _, d := range ",;\t|" {
		s := shapeOf(head, whole, d)
		if n := s.titles(); !fixed && n > 0 && s.fields > best.fields {
			best, titles = s, n
		}
	}
	return titles, best.delimiter
}
