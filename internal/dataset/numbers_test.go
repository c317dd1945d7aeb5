package dataset_test

import (
	"encoding/csv"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/dataset"
)

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
