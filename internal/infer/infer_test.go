package infer_test

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/dataset"
	"hindsight/internal/infer"
)

// readCSV infers a CSV file.
func readCSV(r io.Reader, o infer.Options) (*infer.Result, error) {
	table, err := dataset.NewTable(r, "a.csv", 0)
	if err != nil {
		return nil, err
	}
	return infer.Read(table, o)
}

// declaredCSV finds out how a CSV file writes inputs.
func declaredCSV(r io.Reader, inputs []*hindsightv1.Input) (*infer.Conventions, error) {
	table, err := dataset.NewTable(r, "a.csv", 0)
	if err != nil {
		return nil, err
	}
	return infer.Declared(table, inputs)
}

func read(t *testing.T, text string, o infer.Options) *infer.Result {
	t.Helper()
	r, err := readCSV(strings.NewReader(text), o)
	require.NoError(t, err)
	return r
}

// specOf is the JSON of the spec, which the API reads back.
func specOf(t *testing.T, r *infer.Result) string {
	t.Helper()
	raw, err := r.SpecJSON()
	require.NoError(t, err)
	spec := new(hindsightv1.ModelSpec)
	err = protojson.Unmarshal(raw, spec)
	require.True(t, err == nil && proto.Equal(spec, r.Spec), "%s is read as %v, %v", raw, spec, err)
	return string(raw)
}

// column reads a file of one column with these cells, beside one of numbers.
func column(t *testing.T, cells ...string) *infer.Column {
	t.Helper()
	var b strings.Builder
	w := csv.NewWriter(&b)
	rows := [][]string{{"c", "other"}}
	for i, cell := range cells {
		rows = append(rows, []string{cell, strconv.Itoa(i)})
	}
	require.NoError(t, w.WriteAll(rows))
	return read(t, b.String(), infer.Options{}).Columns[0]
}

// each are n cells.
func each(n int, f func(i int) string) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = f(i)
	}
	return out
}

func TestAWholeSpec(t *testing.T) {
	var b strings.Builder
	b.WriteString("at,temp,city,rain,zip,y\n")
	start := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 20000 {
		temp := fmt.Sprint(float64(i%70) / 2)
		if i%9 == 0 {
			temp = ""
		}
		fmt.Fprintf(&b, "%s,%s,%s,%v,%05d,%d\n", start.Add(time.Duration(i)*time.Hour).Format("2006-01-02 15:04"), temp, []string{"Oslo", "Bergen", "Å"}[i%3], i%5 == 0, i%100, i)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := io.WriteString(z, b.String()); err != nil {
		t.Fatal(err)
	}
	require.NoError(t, z.Close())
	r, err := readCSV(&packed, infer.Options{Target: "y"})
	require.NoError(t, err)
	want := `{"inputs":[
  {"name":"at","time":{"cycles":["CYCLE_HOUR_OF_DAY","CYCLE_DAY_OF_WEEK","CYCLE_DAY_OF_YEAR"],"trend":true}},
  {"name":"temp","numeric":{}},
  {"name":"city","categorical":{"max_categories":3}},
  {"name":"rain","boolean":{}},
  {"name":"zip","categorical":{"key":true}}],"label":{"min":0}}
`
	assert.Equal(t, want, specOf(t, r))
	var why strings.Builder
	require.NoError(t, r.Explain(&why))
	for _, says := range []string{
		"at    time      times as year-month-day from 2024-01-01 to 2026-04-13, 833 days: hour_of_day, day_of_week, day_of_year and a trend; records have RFC 3339, into which replay converts them",
		"temp  number    numbers from 0 to 34.5; 2223 cells are missing values", "rain  boolean   4000 cells are true and 16000 false",
		"zip   category  codes with a leading 0, 100 categories; more than 64, so that each is a key, whose effect auto learns", "y     label     numbers from 0 to 19999; whole numbers from 0 on, so that label.min of the spec is 0",
	} {
		assert.Contains(t, why.String(), says)
	}
}

func TestKinds(t *testing.T) {
	for name, c := range map[string]struct {
		cells []string
		kind  infer.Kind
		says  string
	}{
		"numbers":            {[]string{"1.5", "-2e3", " 7 "}, infer.Number, "from -2000 to 7"},
		"gaps":               {[]string{"1", "NA", "", "?", "2.5"}, infer.Number, "3 cells are missing values"},
		"codes":              {[]string{"1", "2", "3", "2"}, infer.Number, "3 different integers: if they are codes"},
		"hours":              {each(800, func(i int) string { return strconv.Itoa(i % 24) }), infer.Number, "from 0 to 23, 24 different integers: if they are codes"},
		"hours with gaps":    {each(800, func(i int) string { return []string{"1", "2.0", "NA", "3"}[i%4] }), infer.Number, "if they are codes without an order, make it categorical; 200 cells are missing values"},
		"many integers":      {each(2000, func(i int) string { return strconv.Itoa(i % 32) }), infer.Number, "from 0 to 31"},
		"leading 0":          {[]string{"01", "02", "10"}, infer.Category, "codes with a leading 0, 3 categories"},
		"constant":           {[]string{"3", "3"}, infer.Number, "tells nothing"},
		"blood pressures":    {each(300, func(i int) string { return fmt.Sprintf("%d/%d", 90+i%60, 50+i/5) }), infer.Vector, `2 numbers in each cell, such as "90/50"`},
		"torques":            {each(300, func(i int) string { return fmt.Sprintf("%dNm@ %drpm", 100+i, 1500+7*i) }), infer.Vector, "2 numbers in each cell"},
		"points":             {each(300, func(i int) string { return fmt.Sprintf("POINT (-%d.25 %d.5)", i%90, i) }), infer.Vector, "2 numbers in each cell"},
		"lists":              {each(300, func(i int) string { return fmt.Sprintf("[%d,%d, 0.5]", i%90, i) }), infer.Vector, "3 numbers in each cell"},
		"fractions":          {each(300, func(i int) string { return fmt.Sprintf("%d/%d", i%100, 100) }), infer.Number, "from 0 to 0.99"},
		"fractions and not":  {each(300, func(i int) string { return fmt.Sprintf("%d/%d", i, 100) }), infer.Vector, "2 numbers in each cell"},
		"objects":            {each(300, func(i int) string { return fmt.Sprintf(`{"a": "x%d", "b": [%d]}`, i, i) }), infer.Text, "cells are objects of JSON: take their fields apart"},
		"few objects":        {each(300, func(i int) string { return fmt.Sprintf(`{"a": %d}`, i%3) }), infer.Category, "cells are objects of JSON"},
		"objects of numbers": {each(300, func(i int) string { return fmt.Sprintf(`{"a": %d, "b": %d.5}`, i%3, i) }), infer.Vector, "2 numbers in each cell"},
		"ranges":             {each(300, func(i int) string { return fmt.Sprintf("%d%%–%d%%", 10+i%40, 50+i/7) }), infer.Vector, `2 numbers in each cell`},
		"phones":             {each(300, func(i int) string { return fmt.Sprintf("%d-%d", 555+i%3, 1000+7*i) }), infer.LeftOut, "codes of one length"},
		"invoices":           {each(300, func(i int) string { return fmt.Sprintf("INV-2024-%05d", i) }), infer.LeftOut, "it names the row"},
		"parts and versions": {each(300, func(i int) string { return fmt.Sprintf("A%d-B%d", i%7, i) }), infer.LeftOut, "it names the row"},
		"addresses of hosts": {each(300, func(i int) string { return fmt.Sprintf("10.0.%d.%d", i%7, i) }), infer.LeftOut, "it names the row"},
		"numbers in forms":   {each(300, func(i int) string { return fmt.Sprintf([]string{"%d at %d", "%d or %d"}[i%2], i, i*i) }), infer.LeftOut, "most cells have several numbers"},
		"few sizes":          {each(300, func(i int) string { return fmt.Sprintf("%d-%d", 10*(i%5), 10*(i%5)+10) }), infer.Category, "5 categories"},
		"no decimal":         {[]string{"0x10", "0x11"}, infer.Category, "2 categories"},
		"infinite":           {[]string{"1", "Inf", "2.5", "-inf"}, infer.Number, "from 1 to 2.5; 2 cells are missing values"},
		"money":              {[]string{"$1,234", "$5.50", "-$7", ""}, infer.Number, "from -7 to 1234 of the unit $; 1 cell is a missing value; records have the numbers alone, such as 1234 of \"$1,234\", into which replay"},
		"percent":            {[]string{"45%", "12.5 %", "0"}, infer.Number, "from 0 to 45 of the unit %;"},
		"too large":          {[]string{"1", "1e101"}, infer.Number, `"1e101" in line 3 is no number of a magnitude of at most 1e+100`},
		"0 and 1":            {[]string{"0", "1", "1"}, infer.Boolean, "2 cells are true and 1 false"},
		"only 1":             {[]string{"1", "1"}, infer.Number, ""},
		"true and false":     {[]string{"TRUE", "false", "null"}, infer.Boolean, "1 cell is a missing value"},
		"yes and no":         {[]string{"yes", "No"}, infer.Boolean, ""},
		"two pairs":          {[]string{"yes", "false"}, infer.Category, ""},
		"texts":              {[]string{"Oslo", "NA", "Bergen", ""}, infer.Category, "2 categories; 2 cells are missing values"},
		"empty":              {[]string{"", " "}, infer.LeftOut, "every cell is empty"},
		"names":              {each(300, func(i int) string { return fmt.Sprint("id", i) }), infer.LeftOut, "most cells do not repeat another"},
		"many names":         {each(3000, func(i int) string { return fmt.Sprint("id", i) }), infer.LeftOut, "most cells do not repeat another"},
		"many categories":    {each(9000, func(i int) string { return fmt.Sprint("id", i*i%7919) }), infer.Category, "texts, about 3776 categories; more than 64, so that each is a key"},
		"some categories":    {each(5000, func(i int) string { return fmt.Sprint("id", i%500) }), infer.Category, "500 categories; more than 64, so that each is a key"},
		"partly UTF-8":       {[]string{"Tromsø", "Troms\xf8"}, infer.LeftOut, "not UTF-8"},
		"long":               {[]string{strings.Repeat("x", 257)}, infer.LeftOut, "up to 257 bytes"},
		"RFC 3339":           {[]string{"2026-11-21T18:00:00Z", "2026-11-22T18:00:00+01:00"}, infer.Moment, "times as year-month-day from 2026-11-21 to 2026-11-22, 0 days: and a trend"},
		"date":               {[]string{"2026-11-21", "2026-12-21", ""}, infer.Moment, "30 days: day_of_week; 1 cell is a missing value"},
		"short":              {[]string{"2026-11-21", "2026-11-22"}, infer.Moment, "1 days: and a trend"},
		"compact":            {[]string{"20261121", "20261122"}, infer.Moment, "as yearmonthday from"},
		"a number of 8":      {[]string{"20261121", "20261199"}, infer.Number, ""},
		"the month first":    {[]string{"01/31/2026", "02/01/2026"}, infer.Moment, "as month/day/year from 2026-01-31 to 2026-02-01"},
		"the day first":      {[]string{"31/01/2026", "01/02/2026"}, infer.Moment, "as day/month/year from 2026-01-31 to 2026-02-01"},
		"either, by order":   {[]string{"11/02/2026", "12/02/2026", "01/03/2026"}, infer.Moment, "as day/month/year from 2026-02-11 to 2026-03-01"},
		"either, same ends":  {[]string{"01/01/2024", "12/12/2024", "05/03/2024", "10/02/2024"}, infer.Moment, "as month/day/year from 2024-01-01 to 2024-12-12, where day and month could also be swapped"},
		"either":             {[]string{"01/02/2026", "02/03/2026"}, infer.Moment, "as month/day/year from 2026-01-02 to 2026-02-03, where day and month could also be swapped"},
		"a name of a zone":   {[]string{"2026-11-21 18:00:00 XYZ", "2026-11-22 18:00:00 XYZ"}, infer.Category, ""},
		"a date and no date": {[]string{"2026-11-21", "soon"}, infer.Category, ""},
	} {
		got := column(t, c.cells...)
		assert.True(t, got.Kind == c.kind && strings.Contains(got.Reason, c.says), "%s: %s (%s), want %s (%s)", name, got.Kind, got.Reason, c.kind, c.says)
		assert.Equal(t, (c.kind == infer.LeftOut), (got.Input == nil), "%v %v", name, got.Input)
		if got.Input == nil {
			continue
		}
		for _, cell := range c.cells {
			_, err := got.Value(cell)
			assert.NoError(t, err, name)
		}
	}
}

// swapped are n cells, the one at a place another.
func swapped(n, at int, odd string, f func(i int) string) []string {
	cells := each(n, f)
	cells[at] = odd
	return cells
}

// A column that one cell keeps from being one of numbers or times names the cell.
func TestOddCells(t *testing.T) {
	number := func(i int) string { return fmt.Sprintf("%d.5", i) }
	day := func(i int) string {
		return time.Date(2024, 1, 1+i/24, i%24, 0, 0, 0, time.UTC).Format(time.DateTime)
	}
	for name, c := range map[string]struct {
		cells []string
		kind  infer.Kind
		says  string
	}{
		"a word":          {swapped(100, 50, "oops", number), infer.Number, `numbers from 0.5 to 99.5; "oops" in line 52 is no number, and is taken for a missing value`},
		"words":           {each(100, func(i int) string { return []string{"oops", number(i)}[min(1, i%25)] }), infer.Number, `4 of 100 cells are no number and are taken for missing values, such as "oops" in line 2`},
		"many words":      {each(100, func(i int) string { return []string{"oops", number(i)}[min(1, i%12)] }), infer.Number, `9 of 100 cells are no number and are taken for missing values, such as "oops" in line 2`},
		"too many words":  {each(100, func(i int) string { return []string{[]string{"oops", "eek"}[i/4%2], number(i)}[min(1, i%4)] }), infer.LeftOut, `75 of 100 cells are numbers, and "oops" in line 2 is none`},
		"one word":        {each(1000, func(i int) string { return []string{"varies", fmt.Sprintf("%dk", i/2)}[min(1, i%9)] }), infer.Number, `112 of 1000 cells are no number and are taken for missing values, such as "varies" in line 2`},
		"a short column":  {[]string{"1", "2", "x"}, infer.Category, `texts, 3 categories; 2 of 3 cells are numbers, and "x" in line 4 is none`},
		"hours":           {swapped(800, 3, "noon", func(i int) string { return strconv.Itoa(i % 24) }), infer.Number, `"noon" in line 5 is no number`},
		"a time":          {swapped(100, 50, "soon", day), infer.Moment, `"soon" in line 52 is no time, and is taken for a missing value`},
		"a day too many":  {swapped(100, 0, "2023-02-29", day), infer.Moment, `"2023-02-29" in line 2 is no time`},
		"a code":          {swapped(100, 4, "007", number), infer.Number, `"007" in line 6 begins with a 0, and is taken for a number`},
		"codes":           {each(100, func(i int) string { return fmt.Sprintf("%05d", 9990+i) }), infer.LeftOut, `90 of 100 cells are numbers, and "09990" in line 2 is a code, because it begins with a 0`},
		"too large":       {swapped(100, 4, "1e101", number), infer.Number, `"1e101" in line 6 is no number`},
		"a huge integer":  {swapped(100, 4, "9007199254740993", strconv.Itoa), infer.Number, `from 0 to 99; "9007199254740993" in line 6 is no number below 2^53, and is taken for a missing value`},
		"not UTF-8":       {swapped(100, 4, "ø\xf8", number), infer.Number, `"ø\xf8" in line 6 is no number`},
		"long":            {swapped(100, 4, strings.Repeat("x", 300), number), infer.Number, `" in line 6 is no number`},
		"two forms":       {each(600, func(i int) string { return []string{"2024-01-10", "10.01.2024", "10.01.2024"}[i%3] }), infer.Moment, "as several forms, the day before the month"},
		"texts":           {each(100, func(i int) string { return []string{"1", "a", "b"}[i%3] }), infer.Category, "texts, 3 categories"},
		"texts and times": {each(100, func(i int) string { return []string{"a", "b", "2024-01-10", "c"}[i%4] }), infer.Category, "texts, 4 categories"},
		"users":           {each(400, func(i int) string { return []string{"guest", strconv.Itoa(7 * (i % 80))}[min(1, i%100)] }), infer.Number, `such as "guest" in line 2`},
	} {
		got := column(t, c.cells...)
		assert.True(t, got.Kind == c.kind && strings.Contains(got.Reason, c.says), "%s: %s (%s), want %s (%s)", name, got.Kind, got.Reason, c.kind, c.says)
		if odd := strings.Contains(c.says, " in line "); odd == (got.Notice() == "") {
			t.Errorf("%s: notice %q", name, got.Notice())
		}
	}
	y := read(t, "x,y\n1,1\n2,2\n3,oops\n", infer.Options{Target: "y"}).Columns[1]
	assert.Equal(t, `y is a class: texts, 3 classes; 2 of 3 cells are numbers, and "oops" in line 4 is none`, y.Notice())
	for _, c := range read(t, "x,y\n$1,£1\n€2,£2\n$3,USD 3\n", infer.Options{Target: "y"}).Columns {
		assert.Regexp(t, "amounts in several currencies, such as [$£] and (€|USD), are taken as they are", c.Notice())
	}
}

// Digits that begin with a 0 and hardly repeat are numbers if labels follow their order.
func TestPaddedNumbers(t *testing.T) {
	for kind, label := range map[infer.Kind]func(v int) int{
		infer.Number: func(v int) int { return v*v/1000 + v*7919%101 }, infer.LeftOut: func(v int) int { return v * v * 7919 % 1009 },
	} {
		c := read(t, "c,y\n"+strings.Join(each(900, func(i int) string { return fmt.Sprintf("%08d,%d", i*7907%1000, label(i*7907%1000)) }), "\n"), infer.Options{Target: "y"}).Columns[0]
		assert.Equal(t, kind, c.Kind, c.Reason)
		assert.Regexp(t, `"00000000" in line 2 begins with a 0, and is taken for a number|codes with a leading 0, of which most do not repeat`, c.Notice())
	}
	for name, kind := range map[string]infer.Kind{"row_id": infer.LeftOut, "PassengerId": infer.LeftOut, "orderid": infer.LeftOut, "zip_code": infer.LeftOut, "amount_paid": infer.Number, "bid": infer.Number, "grid": infer.Number} {
		ids := read(t, name+",x,y\n"+strings.Join(each(300, func(i int) string { return fmt.Sprintf("%d,%d,%d", 7000+13*i, i%7, i*7919%101) }), "\n"), infer.Options{Target: "y"}).Columns[0]
		assert.Equal(t, kind, ids.Kind, "%s: %s", name, ids.Reason)
	}
}

// Numbers are seconds since 1970 if the name of the column says that they are times.
func TestSecondsSince1970(t *testing.T) {
	for name, kind := range map[string]infer.Kind{"ts": infer.Moment, "created_ts_ms": infer.Moment, "unixReviewTime": infer.Moment, "order": infer.Number} {
		for text, want := range map[string]string{"1704067200": "2024-01-01T00:00:00Z", "1704067200250": "2024-01-01T00:00:00.25Z", "1704067200.5": "2024-01-01T00:00:00.5Z", "1704067200250000": "2024-01-01T00:00:00.25Z"} {
			c := read(t, name+",y\n1704153600,1\n"+text+",2\n", infer.Options{}).Columns[0]
			v, err := c.Value(text)
			assert.True(t, c.Kind == kind && err == nil && (kind != infer.Moment || v == want), "%s, %s: %s, %v, %v", name, text, c.Kind, v, err)
		}
	}
}

// What other programs write for a missing value is an empty cell.
func TestMissingMarkers(t *testing.T) {
	for _, marker := range []string{
		"#N/A", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#NULL!", "#NV", "#WERT!", "########", "0000-00-00 00:00:00", "<NA>", "1.#QNAN", "-1.#IND00", "1.#INF", `\N`, "n.a.", "NaT", "-nan", "-nan(ind)",
	} {
		for kind, cells := range map[infer.Kind][]string{
			infer.Number: {"1.5", marker, "3"}, infer.Moment: {"2026-11-21", marker, "2026-12-21"}, infer.Boolean: {"yes", marker, "no"},
		} {
			c := column(t, cells...)
			v, err := c.Value(marker)
			assert.True(t, c.Kind == kind && c.Notice() == "" && v == nil && err == nil && strings.Contains(c.Reason, "1 cell is a missing value"), "%s: %+v, %v, %v, want %s", marker, c, v, err, kind)
		}
		y := read(t, "x,y\n1,up\n2,"+marker+"\n3,down\n", infer.Options{Target: "y"}).Columns[1]
		assert.Contains(t, y.Reason, "2 classes; 1 row has no label", marker)
	}
}

// Integers that a number does not tell apart are ids: categories by their digits.
func TestHugeIntegers(t *testing.T) {
	ids := []string{"9007199254740992", "9007199254740993", "-9007199254740993", "NA", "7"}
	c := column(t, each(500, func(i int) string { return ids[i%5] })...)
	if c.Kind != infer.Category || !strings.Contains(c.Reason, "ids, because no number has all integers from 2^53 on, 4 categories; 100 cells are missing values") || c.Notice() != "" {
		t.Errorf("%+v", c)
	}
	declared, err := declaredCSV(strings.NewReader("id,n\n"+strings.Join(ids, ",1\n")+",1\n"), inputs(t, `[{"name": "id", "categorical": {}}]`))
	require.NoError(t, err)
	for _, c := range []*infer.Column{c, declared.Columns["id"]} {
		for _, id := range ids {
			v, err := c.Value(id)
			want := any(id)
			assert.True(t, err == nil && (v == want || id == "NA") && (id != "NA" || v == nil), "%s is %v, %v", id, v, err)
		}
	}
	for _, cells := range [][]string{{"1e16", "9007199254740993"}, {"0.5", "9007199254740993"}, {"9007199254740991", "-9007199254740991"}} {
		want := infer.Number
		if cells[0] == "1e16" {
			want = infer.Category
		}
		c := column(t, cells...)
		assert.Equal(t, want, c.Kind, "%v %v", cells, c.Reason)
	}
}

func TestColumnValues(t *testing.T) {
	for _, c := range []struct {
		cells []string
		want  []any
	}{
		{[]string{"1.5", " 2 ", "NA", ""}, []any{1.5, 2.0, nil, nil}},
		{[]string{"yes", "NO", ""}, []any{true, false, nil}},
		{[]string{"NA", "Oslo", "none", ""}, []any{nil, "Oslo", "none", nil}},
		{[]string{"$1,234.50", "-$2", "inf"}, []any{1234.5, -2.0, nil}},
		{[]string{"45%", "7"}, []any{45.0, 7.0}},
		{[]string{"21.11.2026 18:00", "22.11.2026 9:30", "-"}, []any{"2026-11-21T18:00:00Z", "2026-11-22T09:30:00Z", nil}},
		{[]string{"2026-11-21T18:00:00.25+02:00"}, []any{"2026-11-21T18:00:00.25+02:00"}},
	} {
		column := column(t, c.cells...)
		for i, cell := range c.cells {
			got, err := column.Value(cell)
			assert.True(t, err == nil && got == c.want[i], "%q: %v, %v, want %v", cell, got, err, c.want[i])
		}
	}
	for first, want := range map[string][]any{"120/80": {120.0, 80.0}, "POINT (-1.5 -2)": {-1.5, -2.0}, "2,700 at 3 - 4": {2700.0, 3.0, 4.0}, "1;2;3e2": {1.0, 2.0, 300.0}} {
		list := column(t, append(each(90, func(i int) string { return strings.Replace(first, "2", strconv.Itoa(i+200), 1) }), first, "n/a", "wild")...)
		for cell, want := range map[string]any{first: want, "n/a": nil, "wild": nil} {
			got, err := list.Value(cell)
			assert.True(t, err == nil && assert.ObjectsAreEqual(want, got), "%q: %v, %v, want %v (%s)", cell, got, err, want, list.Reason)
		}
	}
	hours := column(t, each(800, func(i int) string { return strconv.Itoa(i % 24) })...)
	v, err := hours.Value("7.0")
	assert.True(t, v == 7.0 && err == nil, "the hour 7.0 is %v, %v", v, err)
	v, err = column(t, "1", "2.5").Value("x")
	assert.Error(t, err, v)
}

// Between semicolons a comma is the decimal mark.
func TestSemicolons(t *testing.T) {
	r := read(t, "a;b;y\n1,5;x;2,5\n-2;y;1,25\n", infer.Options{Target: "y"})
	if v, err := r.Columns[0].Value("1,5"); r.Columns[0].Kind != infer.Number || v != 1.5 || err != nil {
		t.Errorf("%+v: %v, %v", r.Columns[0], v, err)
	}
	assert.Contains(t, r.Columns[2].Reason, "numbers from 1.25 to 2.5", r.Columns[2])
	for text, want := range map[string]any{"1.234": 1234.0, "12,5": 12.5} {
		c := read(t, "a;y\n1.234;1\n950;2\n12,5;3\n", infer.Options{Target: "y"}).Columns[0]
		v, err := c.Value(text)
		assert.True(t, c.Kind == infer.Number && strings.Contains(c.Reason, "numbers from 12.5 to 1234") && v == want && err == nil, "%+v: %v, %v", c, v, err)
	}
	const ambiguous = `"1.234" is ambiguous: the column does not show whether the point is the decimal mark (want 1,234) or separates thousands (want 1234), in line 3`
	c := read(t, "a;y\n950;1\n1.234;2\n", infer.Options{Target: "y"}).Columns[0]
	assert.True(t, c.Kind == infer.LeftOut && c.Reason == ambiguous, "%+v", c)
	_, err := readCSV(strings.NewReader("a;y\n1;950\n2;1.234\n"), infer.Options{Target: "y"})
	assert.True(t, err != nil && err.Error() == "a.csv: column 2 (y): "+ambiguous, "an ambiguous label: %v", err)
	r = read(t, "a|y\n1|2\n3|4\n", infer.Options{Target: "y"})
	assert.Len(t, r.Columns, 2, "columns")
}

func TestErrorsNameTheirPlace(t *testing.T) {
	for text, says := range map[string]string{
		"":              "a.csv: the file is empty",
		"a,b\n1,2\n3\n": "line 3, column 2: 1 fields where the header has 2",
		"a,b\n1,\"2\n":  "line 2",
		strings.Join(each(4097, strconv.Itoa), "x,") + "x\n": "4097 columns",
		"\x1f\x8b\x08\x00": "a.csv",
	} {
		_, err := readCSV(strings.NewReader(text), infer.Options{})
		assert.True(t, err != nil && strings.Contains(err.Error(), says), "%.20q: %v, want %s", text, err, says)
	}
	labels := "x,y\n" + strings.Join(each(90, func(i int) string { return fmt.Sprintf("%d,%d.5", i, i) }), "\n") + strings.Repeat("\n1,oops", 10)
	_, err := readCSV(strings.NewReader(labels), infer.Options{Target: "y"})
	assert.True(t, err != nil && strings.Contains(err.Error(), `90 of 100 labels are numbers, and "oops" in line 92 is none`), err)
	_, err = readCSV(strings.NewReader("a,b\n1,2\n"), infer.Options{Target: "y"})
	assert.True(t, err != nil && strings.Contains(err.Error(), `no target column "y"`), err)
	_, err = readCSV(strings.NewReader("x  y\n1  2\n"), infer.Options{Target: "y"})
	assert.True(t, err != nil && strings.HasSuffix(err.Error(), `among x  y; no comma, semicolon, tab or bar separates the fields of the first line`), err)
}

// endless is a text again and again.
type endless struct {
	text string
	at   int
	read int
}

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = e.text[(e.at+i)%len(e.text)]
	}
	e.at = (e.at + len(p)) % len(e.text)
	e.read += len(p)
	return len(p), nil
}

// A quote that is never closed takes no more than a row may have.
func TestAnOpenQuoteEnds(t *testing.T) {
	tail := &endless{text: "x,\n"}
	_, err := readCSV(io.MultiReader(strings.NewReader("a,b\n1,\"2"), tail), infer.Options{})
	assert.True(t, err != nil && strings.Contains(err.Error(), "is a quote not closed?") && tail.read <= 20<<20, "%v after %d bytes", err, tail.read)
}

// different are n rows of columns in which every cell is another text. Before the
// last it measures the memory in use.
type different struct {
	n, columns int
	rest       []byte
	used       uint64
}

func (d *different) Read(p []byte) (int, error) {
	if len(d.rest) == 0 {
		if d.n == 0 {
			return 0, io.EOF
		}
		d.n--
		for c := range d.columns {
			d.rest = fmt.Appendf(d.rest, "%d %0200d,", c, d.n)
		}
		d.rest[len(d.rest)-1] = '\n'
	}
	if d.n == 0 && d.used == 0 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		d.used = m.HeapAlloc
	}
	n := copy(p, d.rest)
	d.rest = d.rest[n:]
	return n, nil
}

func TestMemoryIsBounded(t *testing.T) {
	const columns = 30
	header := strings.Join(each(columns, func(i int) string { return fmt.Sprint("c", i) }), ",") + "\n"
	used := func(rows int) uint64 {
		d := &different{n: rows, columns: columns}
		r, err := readCSV(io.MultiReader(strings.NewReader(header), d), infer.Options{})
		require.NoError(t, err)
		for _, c := range r.Columns {
			require.Equal(t, infer.LeftOut, c.Kind, "%v %v", c.Name, c.Reason)
		}
		return d.used
	}
	few, many := used(400), used(2000)
	if many > few+(4<<20) { // The texts alone have 12 MB.
		t.Errorf("%d bytes for 400 rows, %d for 2000", few, many)
	}
}

// A column without a name is no input, nor is the index of pandas.
func TestUnnamedColumns(t *testing.T) {
	for _, text := range []string{",x,y\n0,1.5,2\n1,2.5,3\n", "Unnamed: 0,x,y\n0,1.5,2\n1,2.5,3\n", "__index_level_0__,x,y\n0,1.5,2\n1,2.5,3\n"} {
		r := read(t, text, infer.Options{Target: "y"})
		c := r.Columns[0]
		assert.True(t, c.Kind == infer.LeftOut && strings.Contains(c.Reason, "the file gives it no name, as pandas does for the index") && len(r.Spec.GetInputs()) == 1, "%q: %+v", text, c)
	}
}

// FuzzRead: any file is an error, or every cell of it is a value of its column.
func FuzzRead(f *testing.F) {
	f.Add([]byte("a,b,c\n1,yes,2026-11-21\n,no,2026-11-22\nNA,,x\n"))
	f.Add([]byte("t\n21.11.2026 18:00\n\"3.2.26\"\n"))
	f.Add([]byte("z,q\n007,1e5\n0,\"-\"\n01/02/2026,Jan 2, 2006\n"))
	f.Add([]byte{0x1f, 0x8b, 8})
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := readCSV(bytes.NewReader(data), infer.Options{})
		if err != nil {
			return
		}
		specOf(t, r)
		if len(data) > 1 && data[0] == 0x1f && data[1] == 0x8b {
			return
		}
		rows, err := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))).ReadAll()
		require.True(t, err == nil && len(rows) == r.Rows+1, "%d rows, %v, want %d", len(rows)-1, err, r.Rows)
		for _, row := range rows[1:] {
			for i, c := range r.Columns {
				if c.Input == nil {
					continue
				}
				v, err := c.Value(row[i])
				require.True(t, err == nil && (v != nil || c.Input.GetMissing() == hindsightv1.Input_MISSING_UNSPECIFIED), "%q of %+v: %v, %v", row[i], c, v, err)
			}
		}
	})
}

// FuzzForm: a time of any form is read back from what a record has of it.
func FuzzForm(f *testing.F) {
	f.Add("year-month-day", "2026-11-21 18:00")
	f.Add("day/month/year", "3.4.69")
	f.Add("month-name day time year", "Sat Nov 21 18:00:00 GMT+3 2026")
	f.Add("year-month-day", "0001-01-01T00:00:00.123456789+23:59")
	f.Fuzz(func(t *testing.T, form, text string) {
		at, ok := infer.Form(form).Parse(text)
		if !ok {
			return
		}
		written := at.Format("2006-01-02T15:04:05.999999999Z07:00")
		again, err := time.Parse(time.RFC3339, written)
		require.True(t, err == nil && again.Equal(at), "%q is %v, written as %s, read as %v (%v)", text, at, written, again, err)
	})
}
