package dataset

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// isRow reports whether the first line is a row, not names of columns: two of its numbers are equal, at least half of its
// fields are numbers that neither rise, nor are sorted as texts, nor are integers that fall, or texts of it are cells of
// their columns: one beside numbers, or half of the fields. Years, wavelengths and quantiles are names.
func isRow(fields []string, table *shape) bool {
	var numbers []float64
	var texts []string
	whole, repeated := true, 0
	for i, f := range fields {
		f = strings.TrimSpace(f)
		if v, err := Number(f); err == nil {
			numbers, texts, whole = append(numbers, v), append(texts, f), whole && v == math.Trunc(v)
		} else if f != "" && table.repeats(i, f) {
			repeated++
		}
	}
	sorted := slices.IsSorted(numbers) || slices.IsSorted(texts) || whole && slices.IsSortedFunc(numbers, func(a, b float64) int { return cmp.Compare(b, a) })
	distinct := slices.Compact(slices.Sorted(slices.Values(numbers)))
	return len(distinct) < len(numbers) || 2*len(numbers) >= len(fields) && !sorted ||
		repeated > 0 && len(numbers) > 0 || len(fields) > 2 && 2*repeated >= len(fields)
}

// repeats reports whether a text of column i of the first record is a cell of two others, or of the only other, that do not
// repeat the first: one may be the header of a second table.
func (s *shape) repeats(i int, text string) bool {
	n := 0
	for _, record := range s.records {
		if i < len(record) && strings.TrimSpace(record[i]) == text && !slices.Equal(record, s.records[0]) {
			n++
		}
	}
	return n >= max(1, min(2, len(s.records)-1))
}

func columnName(i int) string { return fmt.Sprintf("column %d", i+1) }

func (t *Table) header(fields []string) error {
	seen, repeats := make(map[string]bool, len(fields)), map[string]int{}
	numbers, counted := 0, 0
	if !utf8.ValidString(strings.Join(fields, "")) {
		t.notes = append(t.notes, "the names of the columns are not UTF-8: convert the file")
	}
	for i, f := range fields {
		if len(f) > maxName && t.cut == "" && f != nameOf(f) {
			t.cut = nameOf(f)
			t.notes = append(t.notes, fmt.Sprintf("names of columns of more than %d bytes are cut, such as %q", maxName, t.cut))
		}
		f = nameOf(f)
		unnamed := f == "" || isIndexName(f)
		if f == "" {
			f = columnName(i)
		}
		for name := cut(f, maxName-len(".4096")); seen[f]; {
			repeats[name]++                               // What precedes it is seen.
			f = fmt.Sprintf("%s.%d", name, repeats[name]) // As pandas does.
		}
		if _, err := strconv.ParseFloat(f, 64); err == nil {
			numbers++
		}
		if !unnamed && f == strconv.Itoa(counted) {
			counted++
		}
		seen[f] = true
		t.columns, t.unnamed = append(t.columns, f), append(t.unnamed, unnamed)
	}
	t.numbered = t.csv != nil && numbers == len(fields) && counted < len(fields)
	if !slices.Contains(t.unnamed, false) {
		return t.AtColumn(0, errors.New("no column has a name"))
	}
	return nil
}

const (
	// The bytes of the name of a column.
	maxName = 64
	// The columns of a CSV file.
	maxColumns = 1 << 17
)

// nameOf cuts a name of a column, and replaces its line breaks and other characters that are no text.
func nameOf(field string) string {
	name := strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(field, " ")))
	return strings.TrimSpace(cut(name, maxName))
}

func cut(name string, bytes int) string {
	for len(name) > bytes {
		_, last := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-last]
	}
	return name
}

var indexName = regexp.MustCompile(`^(__index_level_[0-9]+__|Unnamed: [0-9]+)$`)

// isIndexName reports whether pandas gives the name to a column without one.
func isIndexName(name string) bool { return indexName.MatchString(name) }

// Unnamed reports whether column i has no name, or one that pandas gives an index. It is neither a feature nor a label,
// unless it is asked for.
func (t *Table) Unnamed(i int) bool { return t.unnamed[i] }

// LikelyTarget is the target of a file whose user names none: y, which also means y1, y2 and so on, or
// without these columns the last column that has a name.
func (t *Table) LikelyTarget() (string, error) {
	if err := t.CheckNamed(""); err != nil {
		return "", err
	}
	if slices.Contains(t.columns, "y") || slices.Contains(t.columns, "y1") {
		return "y", nil
	}
	last := len(t.columns) - 1
	for t.unnamed[last] { // One column has a name.
		last--
	}
	return t.columns[last], nil
}

// CheckNamed fails if the first line seems to have numbers for the names of the columns, and the target is not among
// them. A table without names has the header 0,1,2 and so on.
func (t *Table) CheckNamed(target string) error {
	if !t.numbered || target != "" && slices.Contains(t.columns, strings.TrimSpace(strings.Split(target, ",")[0])) {
		return nil
	}
	return t.AtColumn(0, errors.New("the first line holds numbers, not the names of the columns; if they are the names, --target names one of them"))
}
