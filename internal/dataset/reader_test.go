package dataset_test

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/dataset"
)

// readerOf reads a CSV file.
func readerOf(r io.Reader, target string, delimiter rune) (*dataset.Reader, error) {
	table, err := dataset.NewTable(r, "a.csv", delimiter)
	if err != nil {
		return nil, err
	}
	return dataset.NewReader(table, dataset.Selection{Target: target})
}

func TestErrorsNameTheirPlace(t *testing.T) {
	for text, says := range map[string][]string{
		"":                 {"a.csv"},
		"x1,x2\n1,2\n":     {`"y"`},
		"y\n1\n":           {"a.csv"},
		"x1,y\n1,2\n3,a\n": {"line 3", "column 2", "(y)", `"a"`},
		"x1,y\n,2\n":       {"line 2", "column 1", "(x1)"},
		"x1,y\n1\n":        {"line 2"},
		"x1,y\nNaN,1\n":    {"line 2", "(x1)"},
		"x1,y\n1,Inf\n":    {"line 2", "(y)"},
		"x1;y\n1;a\n":      {"line 2", "column 2", "(y)", `"a"`},
		"x1,y\n1,NA\n":     {"line 2", "(y)", "no label"},
		"x1,y\r1,2\r":      {"line 1", "CR alone"},
	} {
		r, err := readerOf(strings.NewReader(text), "y", 0)
		for err == nil {
			_, err = r.Read(nil, make([]float64, r.Outputs()))
		}
		if errors.Is(err, io.EOF) {
			t.Errorf("%q is read without an error", text)
			continue
		}
		for _, w := range says {
			assert.Contains(t, err.Error(), w, "%v %v", text, err)
		}
	}
}

func TestLabelsHaveTheUnitOfTheSpec(t *testing.T) {
	table, err := dataset.NewTable(strings.NewReader("x1,y\n1,3000 g\n2,4 s\n"), "a.csv", 0)
	require.NoError(t, err)
	r, err := dataset.NewReader(table, dataset.Selection{Target: "y", Unit: "kg"})
	require.NoError(t, err)
	y := make([]float64, 1)
	_, err = r.Read(nil, y)
	assert.True(t, err == nil && y[0] == 3, "%v, %v", y, err)
	_, err = r.Read(nil, y)
	assert.ErrorContains(t, err, `"4 s" is not a number of kg, the unit of the spec`)
}

// A blank line of a file of one column is a row without a value. Blank lines at its end are none.
func TestBlankLinesOfOneColumn(t *testing.T) {
	table, err := dataset.NewTable(strings.NewReader("\nx\n1\n\n\r\n\"2\n3\"\n\n4\n\n\n"), "a.csv", 0)
	require.NoError(t, err)
	type row struct {
		line int
		cell string
	}
	var rows []row
	for {
		record, err := table.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		rows = append(rows, row{table.Line(), record[0]})
		if place := fmt.Sprintf("line %d, ", table.Line()); !strings.Contains(table.AtField(0, io.EOF).Error(), place) {
			t.Errorf("%v, want %s", table.AtField(0, io.EOF), place)
		}
	}
	assert.Equal(t, []row{{3, "1"}, {4, ""}, {5, ""}, {6, "2\n3"}, {8, ""}, {9, "4"}}, rows)
}

// The delimiter is that of which the header has most, or the one that is asked for.
func TestDelimiters(t *testing.T) {
	for _, c := range []struct {
		text      string
		delimiter rune
	}{
		{"x1,y\n1.5,2\n", 0},
		{"x1;y\n1.5;2\n", 0},
		{"x1;y\n1,5;2,0\n", 0},
		{"x1\ty\n1.5\t2\n", 0},
		{"\xef\xbb\xbfx1;y\r\n1,5;2\r\n", 0},
		{"\"x1,,,\";y\n1,5;2\n", 0},
		{"x1;y\n1.5;2\n", ';'},
		{"x1|y\n1.5|2\n", '|'},
		{"x1|y\n1.5|2\n", 0},
		{"x1|y\n1,5|2\n", 0},
		{"x1\ty\n1,5\t2\n", 0},
		{"sep=;\nx1;y\n1,5;2\n", 0},
		{"\"sep=\t\"\r\nx1\ty\r\n1.5\t2\r\n", 0},
		{",x1,y\n0,1.5,2\n", 0},
		{"Unnamed: 0,x1,y\n0,1.5,2\n", 0},
	} {
		r, err := readerOf(strings.NewReader(c.text), "y", c.delimiter)
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		var y [1]float64
		x, err := r.Read(nil, y[:])
		assert.True(t, err == nil && x[0] == 1.5 && y[0] == 2, "%q: %v, %v, %v", c.text, x, y, err)
	}
}

// A header of numbers is one if pandas writes it for a table without names, or if the target is in it.
func TestHeadersOfNumbers(t *testing.T) {
	for text, target := range map[string]string{"0,1,2\n5,6,7\n": "2", ",0,1,2\n0,5,6,7\n": "2", "2019,2020,2021\n5,6,7\n": "2021", "a,a,a\n5,6,7\n": "a.2", "a,a.1,a\n5,6,7\n": "a.2"} {
		r, err := readerOf(strings.NewReader(text), target, 0)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		var y [1]float64
		x, err := r.Read(nil, y[:])
		assert.True(t, err == nil && len(x) == 2 && x[0] == 5 && y[0] == 7, "%q: %v, %v, %v", text, x, y, err)
	}
	for text, says := range map[string]string{
		"3.5,5.1,7\n1,2,3\n": "a.csv: line 1, column 1: the first line holds numbers, not the names of the columns; if they are the names, --target names one of them",
		",\n1,2\n":           "no column has a name",
		"PK\x03\x04\x14":     "a.csv: the file is a zip file, as a workbook of Excel is",
	} {
		_, err := readerOf(strings.NewReader(text), "y", 0)
		assert.True(t, err != nil && strings.Contains(err.Error(), says), "%q: %v, want %s", text, err, says)
	}
}

// A first line of numbers that are in no order is a row, of a file whose columns have no names.
func TestFilesWithoutNames(t *testing.T) {
	for text, rows := range map[string]int{
		"5.1,3.5,1.4,0.2,setosa\n4.9,3,1.4,0.2,setosa\n": 2, "1.5,1.5,a\n2,3,b\n": 2, "39,x,77516,13,40\n50,y,83311,13,13\n": 2,
		"1100.5,1102.5,1104.5,fat\n1,2,3,4\n": 1, "id,2021,2020,2019\n1,2,3,4\n": 1, "name,1,10,2,3\na,1,2,3,4\n": 1, "a,1\nb,2\n": 1, "a,it,39\nb,it,50\n": 2, "p,x,s\ne,x,s\n": 2,
	} {
		table, err := dataset.NewTable(strings.NewReader(text), "a.csv", 0)
		require.NoError(t, err)
		n, lines := 0, []int{}
		for {
			record, err := table.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			require.True(t, err == nil && len(record) == len(table.Columns()), "%q: %q, %v", text, record, err)
			n, lines = n+1, append(lines, table.Line())
		}
		if named := table.Columns()[0] != "column 1"; n != rows || named != (rows == 1) || lines[n-1] != 2 || len(table.Notes()) != rows-1 {
			t.Errorf("%q: %d rows in the lines %v of %q, %q", text, n, lines, table.Columns(), table.Notes())
		}
	}
}

// Titles before the header and lines of few fields behind the rows are left out; lines count from the first of the file.
func TestTitlesAndFooters(t *testing.T) {
	for text, want := range map[string]string{
		"Report\n\na,b,c\n1,x,2\n3,y,4\n":                                "a b c/4:1 x 2/5:3 y 4/1",
		"Report, 2024\nFrom;1.1.2024\n\na;b;c;d\n1,5;x;2;2\n3,5;y;4;4\n": "a b c d/5:1,5 x 2 2/6:3,5 y 4 4/1",
		"Report,,\n,,\na,b,c\n1,x,2\n3,y,4\n":                            "a b c/4:1 x 2/5:3 y 4/1",
		"# a, b\n#\na,b,c\n1,x,2\n3,y,4\n":                               "a b c/4:1 x 2/5:3 y 4/1",
		"#group,x,y\n#datatype,s,n\n,a,b\n,x,2\n,y,4\n":                  "column 1 a b/4: x 2/5: y 4/1",
		"TOA5,1,CR\nt,x,y\nTS,m,s\n,Avg,Smp\n1,2,3\n4,5,6\n":             "t x y/5:1 2 3/6:4 5 6/2",
		"q,a,b\nAge?,Sum?,Why?\n1,2,x\n3,4,y\n":                          "q a b/3:1 2 x/4:3 4 y/1",
		"sep=;\na;b\n1;2\n":                                              "a b/3:1 2/0",
		"a,b,c\n1,x,2\n\n3 rows\n\nSource: x\n":                          "a b c/2:1 x 2/1",
		" a | b | c\n---+---+---\n 1 | x | 2\n(1 row)\n":                 "a b c/3: 1   x   2/1",
		"| a | b |\n|---|---|\n| 1 | 2 |\n":                              "column 1 a b column 4/3:  1   2  /0",
		"+---+---+\n| a | b |\n+---+---+\n| 1 | 2 |\n+---+---+\n1 row\n": "column 1 a b column 4/4:  1   2  /2",
		",Hi,Wind\nday,t,dir\n1,2,x\n2,3,y\n":                            "day Hi t Wind dir/3:1 2 x/4:2 3 y/1",
		"a,b,c\n1,x,2\n3\n5,y,6\n":                                       "a b c/2:1 x 2/a.csv: line 3, column 2: 1 fields where the header has 3",
		"x\n1;2\n3;4\n":                                                  "x/2:1;2/3:3;4/0",
		"name\nSmith; Jo\nDoe; Al\n":                                     "name/2:Smith; Jo/3:Doe; Al/0",
		"x,y\n--,--\n1,2\n":                                              "x y/2:-- --/3:1 2/0",
		"day,x\n---,---\n1,2\n":                                          "day x/3:1 2/0",
		"a|b\n-|-\n1|2\n":                                                "a b/2:- -/3:1 2/0",
		"y\n---\n1\n":                                                    "y/2:---/3:1/0",
		"y,,,,\nNA,1,2,3,a\n1,2,3,4,b\n2,3,4,5,c\n":                      "y column 2 column 3 column 4 column 5/2:NA 1 2 3 a/3:1 2 3 4 b/4:2 3 4 5 c/0",
		"v\nNA|NA\n3|1\n4|2\n":                                           "v/2:NA|NA/3:3|1/4:4|2/0",
		"\"a, b\"\nc;d\ne\n":                                             "a, b/2:c;d/3:e/0",
		"\r\n\r\na;b\r\n1;2\r\n":                                         "a b/4:1 2/0",
		"a,b\nx,y,z\n1,2\n1,2\n":                                         "a b/a.csv: line 2, column 3: 3 fields where the header has 2",
		"##f=1\n##g\n#k\tv\nx\t1.5\ny\t2.5\n":                            "#k v/4:x 1.5/5:y 2.5/1",
		"name,y,z\nBob,n/a\n":                                            "name y z/a.csv: line 2, column 3: 2 fields where the header has 3",
	} {
		table, err := dataset.NewTable(strings.NewReader(text), "a.csv", 0)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		parts := []string{strings.Join(table.Columns(), " ")}
		for err == nil {
			var record []string
			if record, err = table.Read(); err == nil {
				parts = append(parts, fmt.Sprintf("%d:%s", table.Line(), strings.Join(record, " ")))
			}
		}
		end := err.Error()
		if errors.Is(err, io.EOF) {
			end = strconv.Itoa(len(table.Notes()))
		}
		assert.Equal(t, want, strings.Join(append(parts, end), "/"), text)
	}
}

// The last row is left out if it begins with a word for a total and has a gap.
func TestTotals(t *testing.T) {
	for text, last := range map[string]string{
		"store,n,y\na,1,2\nTotal,,2\n": "a", "store,n,y\na,1,2\nSumme:,,2\n": "a", "store,n,y\nTotal,,2\na,1,2\n": "a",
		"store,n,y\na,1,2\nTotal,1,2\n": "Total", "store,n,y\na,1,2\n Total: all, --,2\n": "a", "store,n,y\na,1,2\nTotally,,2\n": "Totally", "store,n,y\nTotal,,2\nTotal,,3\n": "Total",
	} {
		table, err := dataset.NewTable(strings.NewReader(text), "a.csv", 0)
		require.NoError(t, err)
		got, line := "", 0
		for {
			record, err := table.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			got = record[0]
			if line++; table.Line() != line+1 {
				t.Errorf("%q: row %d in line %d", text, line, table.Line())
			}
		}
		if left := strings.Count(text, "\n")-1 > line; got != last || left != (len(table.Notes()) > 0) {
			t.Errorf("%q: the last row is that of %q, want %q; %q", text, got, last, table.Notes())
		}
	}
}

// A text that is not UTF-8 is Windows-1252. One with some UTF-8 stays as it is.
func TestWindows1252(t *testing.T) {
	for text, want := range map[string]string{"Gr\xf6\xdfe,y\n\x80,1\n": "Größe €", "ö,y\n\xff,1\n": "ö \xff", "a,y\né,1\n": "a é"} {
		table, err := dataset.NewTable(strings.NewReader(text), "a.csv", 0)
		require.NoError(t, err)
		record, err := table.Read()
		got := table.Columns()[0] + " " + record[0]
		assert.True(t, err == nil && got == want, "%q: %q, %v", text, got, err)
	}
}

// A row without a label has features, and an error that says so.
func TestNoLabel(t *testing.T) {
	for _, label := range []string{"", "NA", "nan", "null", "?", "none", "-", "inf", "-Infinity"} {
		r, err := readerOf(strings.NewReader("x1,y,x2\n1,"+label+",2\n3,4,5\n"), "y", 0)
		require.NoError(t, err)
		var y [1]float64
		x, err := r.Read(nil, y[:])
		assert.True(t, errors.Is(err, dataset.ErrNoLabel) && len(x) == 2 && x[0] == 1 && x[1] == 2, "%q: %v, %v", label, x, err)
		_, err = r.Read(nil, y[:])
		assert.True(t, err == nil && y[0] == 4, "%q: the next row: %v, %v", label, y, err)
	}
	for text, want := range map[string]string{"none": "none", "-": "-", "NA": "", "": "", "?": "", "nan": ""} {
		class, err := dataset.Class(text)
		assert.True(t, class == want && (want == "") == errors.Is(err, dataset.ErrNoLabel), "class %q is %q, %v", text, class, err)
	}
}

// FuzzReader checks that every row of every file is finite and has the dimension
// of the header, or is an error.
func FuzzReader(f *testing.F) {
	f.Add([]byte("x1,y,x2\n1,10,5\n3,20,5\n2,30,5\n"))
	f.Add([]byte("x1,y\n1,\"2\n"))
	f.Add([]byte{0x1f, 0x8b, 8})
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := readerOf(bytes.NewReader(data), "y", 0)
		if err != nil {
			return
		}
		for range 1000 {
			y := make([]float64, r.Outputs())
			x, err := r.Read(nil, y)
			if err != nil {
				return
			}
			require.Equal(t, r.Dimension(), len(x))
			for _, v := range append(x, y...) {
				require.True(t, !math.IsNaN(v) && !math.IsInf(v, 0), "row %v, %v", x, y)
			}
		}
	})
}

// Files of spreadsheets may be in UTF-16.
func TestUTF16(t *testing.T) {
	text := "by;y\nBodø;1,5\n"
	for _, name := range [][3]int{{0, 8, 1}, {8, 0, 1}, {0, 8, 0}, {8, 0, 0}} {
		var file []byte
		for _, c := range strings.Repeat("\ufeff", name[2]) + text {
			file = append(file, byte(c>>name[0]), byte(c>>name[1]))
		}
		table, err := dataset.NewTable(bytes.NewReader(file), "a.csv", 0)
		require.NoError(t, err, name)
		record, err := table.Read()
		if err != nil || !slices.Equal(table.Columns(), []string{"by", "y"}) || !slices.Equal(record, []string{"Bodø", "1,5"}) {
			t.Errorf("%v: %q, %q, %v", name, table.Columns(), record, err)
		}
		v, err := table.Number(1, record[1])
		assert.True(t, err == nil && v == 1.5, "%v: %v, %v", name, v, err)
	}
}

// A table is read out of what surrounds it: the lines of loggers and clients, a header that repeats, and long names.
func TestSurroundedTables(t *testing.T) {
	long := strings.Repeat("ö", 40)
	for name, tt := range map[string]struct{ text, columns, rows, notes string }{
		"a header that repeats": {"a,b,\n1,2,\na,b,\n3,4,\na,b,\n", "a|b|column 3", "1|2| 3|4|", "line 3, and each later line that repeats the names of the columns, is left out"},
		"a row like its name":   {"a\na\n1\n", "a", "a 1", ""},
		"two columns of psql":   {" a | b \n---+---\n 1 | 2 \n(1 row)\n", "a|b", " 1 | 2 ", "the table ends with line 3: what follows is left out"},
		"totals among rows":     {"a,b,c,d\nx,,1,\n# y\nx total,,1,\nTotal,,,\n1,2,3,4\n", "a|b|c|d", "x||1| 1|2|3|4", "line 4, and each later line of totals, is left out"},
		"broken names":          {"a\xf8\u00f8,b\n1,2\n", "a ø|b", "1|2", "the names of the columns are not UTF-8: convert the file"},
		"long names":            {long + "," + long + "\n1,2\n", strings.Repeat("ö", 32) + "|" + strings.Repeat("ö", 29) + ".1", "1|2", `names of columns of more than 64 bytes are cut, such as "` + strings.Repeat("ö", 32) + `"`},
		"a name of two lines":   {"\"a\nb\",c\x01d\n1,2\n", "a b|c d", "1|2", ""},
		"tables of R":           {"a\tb\n1\t2\t3\n4\t5\t6\n", "column 1|a|b", "1|2|3 4|5|6", ""},
		"a comma too many":      {"a,b\n1,2,\n3,4,\n", "a|b", "1|2 3|4", ""},
		"quotes inside cells":   {"a\tb\n1\t5'11\"\n", "a|b", `1|5'11"`, ""},
	} {
		table, err := dataset.NewTable(strings.NewReader(tt.text), "a.csv", 0)
		require.NoError(t, err, name)
		assert.Equal(t, tt.columns, strings.Join(table.Columns(), "|"), name)
		_, err = table.Column(long)
		assert.Equal(t, strings.HasPrefix(name, "long"), err == nil, name)
		var rows []string
		for {
			record, err := table.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err, name)
			rows = append(rows, strings.Join(record, "|"))
		}
		assert.Equal(t, tt.rows, strings.Join(rows, " "), name)
		assert.Equal(t, tt.notes, strings.Join(table.Notes(), ";"), name)
	}
	table, err := dataset.NewTable(strings.NewReader("a,b\n1,2\n3\n"), "a.csv", 0)
	require.NoError(t, err)
	_, _ = table.Read()
	_, err = table.Read()
	assert.ErrorContains(t, err, "line 3, column 2: 1 fields where the header has 2")
}

// fileOf writes a file with a column x of these cells, which follows a column of texts.
func fileOf(t *testing.T, delimiter rune, cells ...string) string {
	t.Helper()
	var b strings.Builder
	w := csv.NewWriter(&b)
	w.Comma = delimiter
	rows := [][]string{{"name", "x"}}
	for _, cell := range cells {
		rows = append(rows, []string{"a", cell})
	}
	require.NoError(t, w.WriteAll(rows))
	return b.String()
}

// numbersOf reads the cells of column x as numbers, up to the first error.
func numbersOf(t *testing.T, r io.Reader) (values []float64, err error) {
	t.Helper()
	table, err := dataset.NewTable(r, "a.csv", 0)
	require.NoError(t, err)
	for {
		record, err := table.Read()
		if errors.Is(err, io.EOF) {
			return values, nil
		}
		if err != nil {
			return values, err
		}
		v, err := table.Number(1, record[1])
		if err != nil {
			return values, table.AtField(1, err)
		}
		values = append(values, v)
	}
}

// The header of a request may be as long as the request: its time is linear, and its columns are bounded.
func TestHeadersOfManyColumns(t *testing.T) {
	table, err := dataset.NewTable(strings.NewReader(strings.Repeat("a,a.2,", 1<<16)+"\n"), "a.csv", 0)
	assert.Nil(t, table)
	assert.EqualError(t, err, "a.csv: line 1: 131073 columns, at most 131072 are possible")
	table, err = dataset.NewTable(strings.NewReader(strings.Repeat(",", 2<<20)+"\n"), "a.csv", 0)
	assert.Nil(t, table)
	assert.ErrorContains(t, err, "a.csv: line 1: a row of more than 1048576 delimiters")
	_, err = numbersOf(t, strings.NewReader("a,b\n1,2\n"+strings.Repeat(",", 2<<20)+"\n"))
	assert.ErrorContains(t, err, "a row of more than 1048576 delimiters")
	table, err = dataset.NewTable(strings.NewReader(strings.Repeat("a,a.2,", 1<<15)+"a\n"), "a.csv", 0)
	require.NoError(t, err)
	names := table.Columns()
	assert.Equal(t, []string{"a", "a.2", "a.1", "a.2.1", "a.3", "a.2.2", "a.4"}, names[:7])
	slices.Sort(names)
	assert.Len(t, slices.Compact(names), 1<<16+1)
}

// A number is read as people write it, and nothing else is a number.
func TestWrittenNumbers(t *testing.T) {
	for delimiter, texts := range map[rune]map[string]float64{
		',': {
			"$1,234": 1234, "-$1,234.50": -1234.5, "$-3": -3, "45%": 45, "45.5 %": 45.5, "€ 7": 7, "7€": 7, "1,234,567": 1234567,
			"12": 12, "-1e3": -1000, "1.234": 1.234, "+1,234": 1234, "1,5": 1.5, "1,23": 1.23, "12,3456": 12.3456, "0,123": 0.123, "-0,500": -0.5,
			"00,123": 0.123, "1.234,5": 1234.5, "1.234.567": 1234567, "1 234,5": 1234.5, "1'234.5": 1234.5, "1\u202f234\u00a0567": 1234567,
			"\u22125": -5, "1,5e2": 150,
		},
		'\t': {"0,123": 0.123, "12,5": 12.5, "1,234": 1234, "1.234": 1.234},
		'|':  {"0,123": 0.123, "12,5": 12.5},
		';': {
			"1,5": 1.5, "-0,25": -0.25, "1.5": 1.5, "3,5 %": 3.5, "1,234": 1.234, "1.234,5": 1234.5, "-1.234.567": -1234567, "0.123": 0.123,
			"12": 12, "1.5e3": 1500, "€ 1.234,50": 1234.5, "1,234.5": 1234.5, "1,234,567": 1234567,
		},
	} {
		for text, want := range texts {
			got, err := numbersOf(t, strings.NewReader(fileOf(t, delimiter, text)))
			assert.True(t, err == nil && got[0] == want, "%s between %q is %v, %v, want %v", text, delimiter, got, err, want)
		}
	}
	for delimiter, texts := range map[rune][]string{
		',': {
			",123", "1,,234", "1,234,5", "1.5,234", "$", "%", "$%", "--1", "$--1", "-$-1", "+-1", "5%%", "x%", "1 2", "1,", "12 34", "1,2,3",
		},
		';': {"1,2,3", "1.2.3", "0.123.456", "1.23,4", "1.234,567,8"},
	} {
		for _, text := range texts {
			got, err := numbersOf(t, strings.NewReader(fileOf(t, delimiter, text)))
			assert.Error(t, err, "%v %v %v", text, delimiter, got)
		}
	}
}

// The column decides of 1,234 and 1.234 too where no semicolons are, and 0,123 is never 123.
func TestTheColumnDecidesTheComma(t *testing.T) {
	for name, tt := range map[string]struct {
		text  string
		want  []float64
		fails string
	}{
		"decimals":                          {"name\tx\na\t1,234\na\t0,123\na\t1.234\n", []float64{1.234, 0.123, 1234}, ""},
		"thousands":                         {"name\tx\na\t1,234\na\t1.5\n", []float64{1234, 1.5}, ""},
		"plain decimal":                     {"name,x\na,1.234\na,2.345\n", []float64{1.234, 2.345}, ""},
		"quoted":                            {"name,x\na,\"1,234\"\na,\"12,5\"\n", []float64{1.234, 12.5}, ""},
		"one of many":                       {"name,x\na,\"12,5\"\na,1.234\n" + strings.Repeat("a,1.5\n", 40), nil, ""},
		"another has decimal commas":        {"x2\tx\n0,5\t1,234\n", []float64{1.234}, ""},
		"another has them, of a point":      {"x2;x\n0,5;1.234\n1,5;950\n", []float64{1234, 950}, ""},
		"another of them has a point":       {"x2\tx\tx3\n0,5\t1,234\t1.5\n", []float64{1234}, ""},
		"semicolons and another has points": {"x2;x;x3\n0,5;1.234;1.5\n", nil, `"1.234" is ambiguous: the column does not show whether the point is the decimal mark (want 1,234) or separates thousands (want 1234)`},
	} {
		got, err := numbersOf(t, strings.NewReader(tt.text))
		assert.True(t, (err == nil) == (tt.fails == "") && (err == nil || strings.Contains(err.Error(), tt.fails)), "%s: error %v, want %q", name, err, tt.fails)
		assert.True(t, tt.want == nil || slices.Equal(got, tt.want), "%s: %v, want %v", name, got, tt.want)
		if name == "one of many" && (got[0] != 12.5 || got[1] != 1.234) {
			t.Errorf("%s: %v", name, got[:2])
		}
	}
}

// Between semicolons the whole column decides what a point means, whatever the order of its cells.
func TestTheColumnDecidesThePoint(t *testing.T) {
	for name, tt := range map[string]struct {
		cells []string
		want  []float64
		fails string
	}{
		"thousands":         {[]string{"1.234", "950", "2.500", "12,5"}, []float64{1234, 950, 2500, 12.5}, ""},
		"several thousands": {[]string{"-1.234", "1.234.567"}, []float64{-1234, 1234567}, ""},
		"decimals":          {[]string{"1.234", "2.5", "0.123"}, []float64{1.234, 2.5, 0.123}, ""},
		"nothing decides": {
			[]string{"950", "1.234", "12.500"},
			[]float64{950},
			`a.csv: line 3, column 2 (x): "1.234" is ambiguous: the column does not show whether the point is the decimal mark (want 1,234) or separates thousands (want 1234)`,
		},
		"both":                {[]string{"1.5", "12,5", "1.234"}, []float64{1.5, 12.5}, `line 4, column 2 (x): "1.234" is ambiguous`},
		"texts do not decide": {[]string{"1.234", "a,b", "v1.5"}, nil, `line 2, column 2 (x): "1.234" is ambiguous`},
	} {
		text := fileOf(t, ';', tt.cells...)
		for source, r := range map[string]io.Reader{"a file": strings.NewReader(text), "a stream": iotest.OneByteReader(strings.NewReader(text))} {
			got, err := numbersOf(t, r)
			assert.True(t, (err == nil) == (tt.fails == "") && (err == nil || strings.Contains(err.Error(), tt.fails)), "%s of %s: error %v, want %q", name, source, err, tt.fails)
			require.True(t, len(got) == len(tt.want), "%s of %s: %v, want %v", name, source, got, tt.want)
			for i := range got {
				assert.Equal(t, tt.want[i], got[i], "%s of %s: %v, want %v", name, source, got, tt.want)
			}
		}
	}
	got, err := numbersOf(t, strings.NewReader("name;x\na;1,5\na;2;3\n"))
	assert.True(t, len(got) == 1 && err != nil && strings.Contains(err.Error(), "line 3"), "a file with a wrong row: %v, %v", got, err)
}

// Labels are read as the numbers of their column.
func TestLabelsOfDecimalCommas(t *testing.T) {
	r, err := readerOf(strings.NewReader("x1;y\n1;1.234\n2;12,5\n"), "y", 0)
	require.NoError(t, err)
	var y [1]float64
	_, err = r.Read(nil, y[:])
	assert.True(t, err == nil && y[0] == 1234, "label %v, %v, want 1234", y[0], err)
}

// The other columns decide for a column that does not show its decimal mark, whatever separates the
// fields.
func TestTheOtherColumnsDecide(t *testing.T) {
	for _, delimiter := range []rune{';', '|', '\t', ','} {
		for _, c := range []struct {
			x, other string
			want     float64
		}{{"1,690", "12.5", 1690}, {"1.690", "12.5", 1.69}, {"1,690", "12,5", 1.69}, {"1.690", "12,5", 1690}} {
			var b strings.Builder
			w := csv.NewWriter(&b)
			w.Comma = delimiter
			require.NoError(t, w.WriteAll([][]string{{"weight", "x"}, {c.other, c.x}, {c.other, c.x}}))
			got, err := numbersOf(t, strings.NewReader(b.String()))
			assert.True(t, err == nil && slices.Equal(got, []float64{c.want, c.want}), "%q beside %q with %q between: %g, %v, want %g", c.x, c.other, delimiter, got, err, c.want)
		}
	}
}
