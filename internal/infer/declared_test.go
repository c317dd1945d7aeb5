package infer_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/infer"
)

// inputs are declarations in JSON.
func inputs(t *testing.T, text string) []*hindsightv1.Input {
	t.Helper()
	spec := new(hindsightv1.ModelSpec)
	require.NoError(t, protojson.Unmarshal([]byte(`{"inputs":`+text+`}`), spec))
	return spec.GetInputs()
}

const everyKind = `[{"name": "n", "numeric": {}}, {"name": "b", "boolean": {}}, {"name": "c", "categorical": {}},
	{"name": "hour", "categorical": {}}, {"name": "at", "time": {}}, {"name": "v", "vector": {"length": 2}}]`

func TestDeclaredValues(t *testing.T) {
	const text = "v,at,n,b,c,other,hour,\xc3\xa5\n" +
		"1 2,21.11.2026 18:00,1.5,yes,NA,x,7.0,q\n" +
		"\"[1, -2.5]\",22.11.2026 9:30,-2e3,0,07,y,NA,q\n" +
		"1;3,,NA,,,,,q\n" +
		"-,?,,n/a,Oslo,,23,q\n"
	c, err := declaredCSV(strings.NewReader(text), inputs(t, everyKind))
	require.NoError(t, err)
	assert.True(t, c.Rows == 4 && len(c.Columns) == 6, "%d rows, %d columns", c.Rows, len(c.Columns))
	for name, want := range map[string]map[string]any{
		"n":    {"1.5": 1.5, "-2e3": -2000.0, "NA": nil, "": nil},
		"b":    {"yes": true, "0": false, "True": true, "n/a": nil},
		"c":    {"NA": nil, "none": "none", "07": "07", "7.0": "7", "-3.00": "-3", "0.0": "0", "07.0": "07.0", "7.5": "7.5", "1.": "1.", "Oslo\t": "Oslo", "": nil},
		"hour": {"7.0": 7.0, "23": 23.0, "NA": nil},
		"at":   {"21.11.2026 18:00": "2026-11-21T18:00:00Z", "?": nil},
		"v":    {"1 2": []any{1.0, 2.0}, "[1, -2.5]": []any{1.0, -2.5}, "1;3": []any{1.0, 3.0}, "-": nil},
	} {
		for cell, value := range want {
			got, err := c.Columns[name].Value(cell)
			assert.True(t, err == nil && reflect.DeepEqual(got, value), "%s: %q is %v, %v, want %v", name, cell, got, err, value)
		}
	}
	for name, cell := range map[string]string{"n": "x", "b": "2", "hour": "noon", "at": "11/21/2026", "v": "[1 2"} {
		got, err := c.Columns[name].Value(cell)
		assert.Error(t, err, "%v %v %v", name, cell, got)
	}
}

// Declared inputs of a file with decimal commas are read as their whole column writes them.
func TestDeclaredDecimalCommas(t *testing.T) {
	const declared = `[{"name": "n", "numeric": {}}, {"name": "c", "categorical": {}}]`
	c, err := declaredCSV(strings.NewReader("n;c;q\n1.234;1.000;1.234\n12,5;2.000.000;1\n"), inputs(t, declared))
	require.NoError(t, err)
	for name, want := range map[string]any{"n": 1234.0, "c": 1234.0} {
		v, err := c.Columns[name].Value("1.234")
		assert.True(t, err == nil && v == want, "%s: %v, %v, want %v", name, v, err, want)
	}
	c, err = declaredCSV(strings.NewReader("n;c\n1.234;x\n"), inputs(t, declared))
	require.NoError(t, err)
	v, err := c.Columns["n"].Value("1.234")
	assert.True(t, err != nil && strings.Contains(err.Error(), "ambiguous"), "an ambiguous number is %v, %v", v, err)
}

// The unit and the order of dates that a file teaches a model are those by which a later file is read.
func TestLaterFiles(t *testing.T) {
	for _, c := range []struct {
		learned, later string
		want           any
		says           string
	}{
		{"12 kg,8 kg", "5000 g,5 kg", 5.0, ""},
		{"500 g,2 kg", "5 kg,1 kg", 5000.0, ""},
		{"800 m,2 km", "5 km,1 km", 5000.0, ""},
		{"1 hr 12 min,50 min", "45 min,50 min", 2700.0, ""},
		{"50 min,72 min", "1:12:30,50 min", 72.5, ""},
		{"50 min,1:12:30", "50 min,72 min", 3000.0, ""},
		{"1.5 h,2 h", "9:15,1:30:00", 9.25, ""},
		{"1:12:30,0:50:00", "2 min,3 min", 120.0, ""},
		{"9:15 min,8:30 min", "2 min,3 min", 120.0, ""},
		{"PT1H30M,PT5M", "P1D,1 h", 86400.0, ""},
		{"10pm,9 am", "3:30 pm,4 am", 55800.0, ""},
		{"9 kg,8 kg", "9 kg,7 kg,6 kg,5 kg,1:30:00", 9.0, `"1:30:00" in line 6 is no number of the unit kg`},
		{"1,2,3,4,2 kg,500 g", "2 kg,1,2,3", 2000.0, ""},
		{"1'53,2'10.5\"", "1'05,1'07", 65.0, ""},
		{"9 °C,8 °C", "50 °F,60 °F", 0.0, `"50 °F" is no number of °C, the unit of the spec`},
		{"9 °C,8 °C", "9 °C,7 °C,6 °C,5 °C,50 °F", 9.0, `"50 °F" in line 6 is no number of the unit °C, and is taken for a missing value`},
		{"$5,$7", "€5,€6", 5.0, "its cells are of €, and the spec is of $: they are taken as they are"},
		{"9 kg,8 Kg", "5 KG,11 LBS", 5.0, ""},
		{"9 °C,8 °C", "5 ℃,4 ºC", 5.0, ""},
		{"$9,$8", "5M $,$4 K", 5e6, ""},
		{"$9 M,$8 M", "$5,$4", 5.0, ""},
		{"9 Mio €,8 Mio €", "5k €,4 k €", 5000.0, ""},
		{"9 ms,8 ms", "5000 μs,3 µs", 5.0, ""},
		{"9 %,8 %", "5 pct,4 percent", 5.0, ""},
		{"5 MB,7 MB", "5 Mb,6 MB,7 MB,8 MB,9 MB", nil, `"5 Mb" in line 2 is no number of the unit MB`},
		{"9 kg,8 kg", "€5", 0.0, `"€5" is no number of kg, the unit of the spec`},
		{"5,7", "5 g,6 g", 5.0, "its cells are of g, and the spec names no unit: they are taken as they are"},
		{"25/12/2024,03/04/2024", "03/04/2024,05/06/2024", "2024-04-03T00:00:00Z", ""},
		{"12/25/2024,03/04/2024", "03/04/2024,05/06/2024", "2024-03-04T00:00:00Z", ""},
		{"12/25/2024,03/04/2024", "25/04/2024,05/06/2024", "2024-04-25T00:00:00Z", "read as day/month/year, because not all are dates with the month first, as the spec has it"},
		{"03/2024,04/2024", "25/04/2024,05/06/2024", "2024-04-25T00:00:00Z", ""},
		{"1 lb 4 oz,2 lb 1 oz", "1 lb,3 lb 8 oz", 453.59237, ""},
		{"1/2 cup,1 1/4 cups,1 cup", "3/4 cup,2 cups", 0.75, ""},
		{"1.5h,90 min", "2 h,30 min", 7200.0, ""},
		{"5 M,5M,300 K", "300 K,5 M", 300000.0, ""},
		{"5 M,6 M", "5M,4 M", 5.0, ""},
	} {
		spec := read(t, "c\n"+strings.ReplaceAll(c.learned, ",", "\n")+"\n", infer.Options{}).Spec
		later, err := declaredCSV(strings.NewReader("c\n"+strings.ReplaceAll(c.later, ",", "\n")+"\n"), spec.GetInputs())
		require.NoError(t, err, c)
		got, err := later.Columns["c"].Value(strings.Split(c.later, ",")[0])
		assert.Equal(t, c.want, got, c)
		assert.Contains(t, fmt.Sprint(later.Columns["c"].Notice(), err), c.says, c)
		if spec.GetInputs()[0].GetNumeric() == nil {
			continue
		}
		label := infer.Options{Target: "c"} // Labels are read as inputs are.
		spec = read(t, "x,c\n1,"+strings.ReplaceAll(c.learned, ",", "\n1,")+"\n", label).Spec
		lines, notices, err := infer.Values("x,c\n1,"+strings.ReplaceAll(c.later, ",", "\n1,")+"\n", "a.csv", label, spec)
		first, _, _ := strings.Cut(lines, "\n")
		want, _ := json.Marshal([]any{1, c.want})
		assert.True(t, err != nil || first == string(want), "%v: %s", c, lines)
		assert.Contains(t, fmt.Sprint(notices, err), c.says, c)
	}
	for unit, cells := range map[string]string{"lbs": "5 lb,16 oz", "Hours": "5 h,60 min", "furlongs": "5 furlongs,1", "US$": "US$5,1"} {
		spec := &hindsightv1.ModelSpec{Inputs: inputs(t, fmt.Sprintf(`[{"name": "c", "numeric": {"unit": %q}}]`, unit))}
		got, notices, err := infer.Values("c,y\n"+strings.ReplaceAll(cells, ",", ",1\n")+",1\n", "csv", infer.Options{Target: "y"}, spec)
		assert.True(t, err == nil && got == "[5,1]\n[1,1]\n" && notices == nil, "%s: %s, %v, %v", unit, got, notices, err)
	}
	odd := &hindsightv1.ModelSpec{Inputs: inputs(t, `[{"name": "c", "numeric": {"unit": "$"}}]`)}
	_, notices, err := infer.Values("c,y\n€5,1\n", "csv", infer.Options{Target: "y"}, odd)
	require.NoError(t, err)
	assert.Equal(t, []string{"c is a number: its cells are of €, and the spec is of $: they are taken as they are"}, notices)
	two := read(t, "a,b\n03/04/2024,25/12/2024\n", infer.Options{}).Columns
	v, err := two[0].Value("03/04/2024")
	assert.True(t, err == nil && v == "2024-04-03T00:00:00Z" && strings.Contains(two[0].Reason, ", as other dates of the file"), "%v %+v", v, two[0])
}

func TestDeclaredTimes(t *testing.T) {
	const at = `[{"name": "at", "time": {}}]`
	for text, says := range map[string]string{
		"at,y\n2026-11-21,1\n,1\n2026-11-22,1\nsoon,1\n": `a.csv: column 1 (at): "soon" in line 5 is no time of the form year-month-day, as 2 other cells are`,
		"at,y\nsoon,1\nlater,1\n":                        `a.csv: column 1 (at): "soon" in line 2 is no time of a known form`,
		"at,y\n" + strings.Repeat("soon,1\n", 300):       `a.csv: column 1 (at): "soon" in line 2 is no time of a known form`,
	} {
		_, err := declaredCSV(strings.NewReader(text), inputs(t, at))
		assert.True(t, err != nil && err.Error() == says, "%.20q: %v, want %s", text, err, says)
	}
	for cell, says := range map[string]string{
		"03/09/2023": "at is a time: its cells are read as month/day/year, and day and month could also be swapped", "13/09/2023": "", "09/09/2023": "",
	} {
		c, err := declaredCSV(strings.NewReader("at,y\n"+cell+",1\n"), inputs(t, at))
		require.NoError(t, err)
		assert.Equal(t, says, c.Columns["at"].Notice(), cell)
	}
}

// A few cells that are not of the kind of a declared input are missing values, unless it rejects such.
func TestDeclaredOddCells(t *testing.T) {
	text := "n,at,y\n" + strings.Repeat("1.5,2026-11-21,1\n", 40) + "oops,soon,1\n"
	const declared = `[{"name": "n", "numeric": {}%s}, {"name": "at", "time": {}%s}]`
	c, err := declaredCSV(strings.NewReader(text), inputs(t, fmt.Sprintf(declared, "", "")))
	require.NoError(t, err)
	for name, says := range map[string]string{
		"n": `n is a number: "oops" in line 42 is no number, and is taken for a missing value`, "at": `at is a time: "soon" in line 42 is no time, and is taken for a missing value`,
	} {
		column := c.Columns[name]
		for _, cell := range []string{"oops", "soon"} {
			v, err := column.Value(cell)
			assert.True(t, v == nil && err == nil, "%s: %q is %v, %v", name, cell, v, err)
		}
		assert.Equal(t, says, column.Notice(), name)
	}
	const reject = `, "missing": "MISSING_REJECT"`
	if _, err := declaredCSV(strings.NewReader(text), inputs(t, fmt.Sprintf(declared, "", reject))); err == nil || !strings.Contains(err.Error(), `"soon" in line 42`) {
		t.Error(err)
	}
	c, err = declaredCSV(strings.NewReader(text), inputs(t, fmt.Sprintf(declared, reject, "")))
	require.NoError(t, err)
	v, err := c.Columns["n"].Value("oops")
	assert.True(t, err != nil && c.Columns["n"].Notice() == "", "%v is read as a number that is rejected if it is missing", v)
}

func TestTargets(t *testing.T) {
	const xs = "x,y\n"
	many := strings.Join(each(1100, func(i int) string { return fmt.Sprintf("%d,t%d", i, i) }), "\n")
	hundred := func(last string) string {
		return strings.Join(each(99, func(i int) string { return fmt.Sprintf("%d,%d.5", i, i) }), "\n") + "\n1," + last + "\n"
	}
	for name, c := range map[string]struct {
		text, spec, says string
		options          infer.Options
	}{
		"numbers":     {xs + "1.5,2.5\n2,3.5\n", `]}`, "y  label   numbers from 2.5 to 3.5\n", infer.Options{Target: "y"}},
		"a class":     {xs + "1.5,2\n2,3\n", `]}`, "2 different integers: if they are classes, ask for --classes\n", infer.Options{Target: "y"}},
		"asked":       {xs + "1.5,2\n2,3\n1,4\n", `],"classes":{"max_classes":3}}`, "class   texts, 3 classes\n", infer.Options{Target: "y", Classes: true}},
		"texts":       {xs + "1.5,up\n2,down\n", `],"classes":{"max_classes":2}}`, "texts, 2 classes\n", infer.Options{Target: "y"}},
		"one":         {xs + "1.5,up\n2,up\n", `],"classes":{"max_classes":2}}`, "the same class in every row", infer.Options{Target: "y"}},
		"unlabelled":  {xs + "1.5,NA\n2,1\n1,\n", `]}`, "2 rows have no label: replay predicts them", infer.Options{Target: "y"}},
		"one inf":     {xs + hundred("inf"), `]}`, "numbers from 0.5 to 98.5; 1 row has no label", infer.Options{Target: "y"}},
		"money":       {xs + "1.5,\"$1,000\"\n2,$3\n", `],"label":{"unit":"$"}}`, "numbers from 3 to 1000 of the unit $", infer.Options{Target: "y"}},
		"0 and 1":     {xs + "1.5,0\n2,1\n3,1\n", `]}`, "Is y a class? Its labels are the two numbers 0 and 1.", infer.Options{Target: "y"}},
		"no class":    {xs + "1.5,up\n2,NA\n3,\n1,none\n", `],"classes":{"max_classes":2}}`, "texts, 2 classes; 2 rows have no label", infer.Options{Target: "y"}},
		"one odd":     {xs + hundred("oops"), `]}`, `numbers from 0.5 to 98.5; "oops" in line 101 is no number, and is taken for a missing value; 1 row has no label`, infer.Options{Target: "y"}},
		"unclear":     {"x;y\n" + strings.Repeat("1;1.234\n", 30) + "1;k.A.\n", "", `y): "1.234" is ambiguous`, infer.Options{Target: "y"}},
		"mixed":       {xs + "1.5,x\n2,1\n1,2\n", `],"classes":{"max_classes":3}}`, `2 of 3 cells are numbers, and "x" in line 2 is none`, infer.Options{Target: "y"}},
		"two":         {"y1,x,y2\n1,2,3\n4,5,6\n", "{\"outputs\":2,\"inputs\":[\n  {\"name\":\"x\",\"numeric\":{}}]}", "y2  label   numbers from 3 to 6", infer.Options{Target: "y"}},
		"none":        {xs + "1.5,2\n2,3\n", `]}`, "y  number", infer.Options{}},
		"two classes": {"y1,x,y2\n1,2,a\n4,5,b\n", "", "column 3 (y2): a classifier has one target", infer.Options{Target: "y"}},
		"empty":       {xs + "1,\n", "", "every cell is empty", infer.Options{Target: "y"}},
		"too many":    {xs + many + "\n", "", "different texts, at most 1000 classes", infer.Options{Target: "y"}},
		"long":        {xs + "1," + strings.Repeat("y", 300) + "\n", "", "at most 256", infer.Options{Target: "y"}},
		"not UTF-8":   {xs + "1,ø\n2,\xf8\n", "", "not UTF-8", infer.Options{Target: "y"}},
	} {
		r, err := readCSV(strings.NewReader(c.text), c.options)
		if c.spec == "" {
			assert.True(t, err != nil && strings.Contains(err.Error(), c.says), "%s: %v, want %s", name, err, c.says)
			continue
		}
		require.NoError(t, err, name)
		var why strings.Builder
		require.NoError(t, r.Explain(&why))
		if spec := specOf(t, r); !strings.HasSuffix(spec, c.spec+"\n") || !strings.Contains(why.String(), c.says) {
			t.Errorf("%s: %s\n%s, want %s\n%s", name, spec, why.String(), c.spec, c.says)
		}
	}
}

// FuzzDeclared: every cell of every file has a value of its declared kind, or an
// error.
func FuzzDeclared(f *testing.F) {
	f.Add("n,b,c,hour,at,v\n1,yes,x,7.0,2026-11-21,1 2\n")
	f.Add("at,v\n21.11.2026 18:00,\"[1;2, -3e5]\"\n,[]\n")
	declarations := new(hindsightv1.ModelSpec)
	require.NoError(f, protojson.Unmarshal([]byte(`{"inputs":`+everyKind+`}`), declarations))
	f.Fuzz(func(t *testing.T, text string) {
		c, err := declaredCSV(strings.NewReader(text), declarations.GetInputs())
		if err != nil {
			return
		}
		for _, column := range c.Columns {
			for cell := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == '\n' }) {
				v, err := column.Value(cell)
				if err != nil || v == nil {
					continue
				}
				var ok bool
				switch column.Kind {
				case infer.Number:
					_, ok = v.(float64)
				case infer.Boolean:
					_, ok = v.(bool)
				case infer.Vector:
					_, ok = v.([]any)
				case infer.Moment:
					_, ok = v.(string)
				default:
					ok = true
				}
				require.True(t, ok, "%q of %+v is %v", cell, column, v)
			}
		}
	})
}

// The Python client reads the same cases.
func TestCategoriesAndKeys(t *testing.T) {
	raw, err := os.ReadFile("testdata/categories.json")
	require.NoError(t, err)
	var cases []struct {
		Case, Name, Kind string
		Cells, Labels    []any
	}
	require.NoError(t, json.Unmarshal(raw, &cases))
	for _, c := range cases {
		var b strings.Builder
		w := csv.NewWriter(&b)
		o := infer.Options{}
		for i, cell := range c.Cells {
			row, head := []string{fmt.Sprint(cell), "0.5"}, []string{c.Name, "other"}
			if len(c.Labels) > 0 {
				row, head, o.Target = append(row, fmt.Sprint(c.Labels[i])), append(head, "y"), "y"
			}
			if i == 0 {
				_ = w.Write(head)
			}
			_ = w.Write(row)
		}
		w.Flush()
		column := read(t, b.String(), o).Columns[0]
		got := string(column.Kind)
		if column.Input.GetCategorical().GetKey() {
			got = "key"
		}
		assert.Equal(t, c.Kind, got, "%v %v", c.Case, column.Reason)
	}
}

// Learners without keys have the same inputs by their first categories.
func TestForALearner(t *testing.T) {
	spec := &hindsightv1.ModelSpec{Inputs: []*hindsightv1.Input{
		{Name: "user", Kind: &hindsightv1.Input_Categorical{Categorical: &hindsightv1.CategoricalInput{Key: true}}, Missing: hindsightv1.Input_MISSING_REJECT},
		{Name: "x", Kind: &hindsightv1.Input_Numeric{}},
	}}
	if got := infer.For(spec, "auto"); got != spec {
		t.Errorf("for auto: %v", got)
	}
	got := infer.For(spec, "linear_awv")
	user := got.GetInputs()[0]
	assert.False(t, user.GetCategorical().GetKey() || user.GetCategorical().GetMaxCategories() != 64 || user.GetName() != "user" || user.GetMissing() == 0, "for linear_awv: %v", got)
	assert.True(t, spec.GetInputs()[0].GetCategorical().GetKey(), "the spec has changed")
	got = infer.For(&hindsightv1.ModelSpec{Inputs: spec.GetInputs()[1:]}, "linear_awv")
	assert.Len(t, got.GetInputs(), 1, "without keys: %v", got)
}

// Texts of which most do not repeat are keys if labels depend on them, and a quarter of the cells repeat one.
func TestSeldomTexts(t *testing.T) {
	for _, c := range []struct {
		texts  int
		effect float64
		want   infer.Kind
	}{{800, 1, infer.Category}, {800, 0, infer.LeftOut}, {1600, 1, infer.LeftOut}} {
		var b strings.Builder
		b.WriteString("id,y\n")
		rng := rand.New(rand.NewPCG(1, 36))
		for range 1000 {
			id := rng.IntN(c.texts)
			fmt.Fprintf(&b, "t%d,%g\n", id, c.effect*math.Sin(float64(id))+.3*rng.NormFloat64())
		}
		column := read(t, b.String(), infer.Options{Target: "y"}).Columns[0]
		assert.Equal(t, c.want, column.Kind, "%v %v", c, column.Reason)
	}
}

// The cells of a column are read as the table of cells says, as an inferred and as a declared input, and by Values.
func TestCells(t *testing.T) {
	raw, err := os.ReadFile("testdata/cells.json")
	require.NoError(t, err)
	var cases []struct {
		Case, Kind    string
		Cells, Values []any
	}
	require.NoError(t, json.Unmarshal(raw, &cases))
	for _, c := range cases {
		var cells []string
		for _, cell := range c.Cells {
			cells = append(cells, cell.(string))
		}
		text := "c\tother\n" + strings.Join(cells, "\t0.5\n") + "\t0.5\n"
		r := read(t, text, infer.Options{})
		inferred := r.Columns[0]
		if string(inferred.Kind) != c.Kind || inferred.Notice() != "" && inferred.Kind != infer.LeftOut && !slices.Contains([]string{"beyond 1e100", "two units", "percent beside a number", "one word among times"}, c.Case) &&
			!strings.Contains(c.Case, "several units") {
			t.Errorf("%s: %s (%s), want %s", c.Case, inferred.Kind, inferred.Reason, c.Kind)
			continue
		}
		if c.Values != nil {
			lines, _, err := infer.Values(text, "a.csv", infer.Options{}, r.Spec)
			var want strings.Builder
			for _, v := range c.Values {
				row := json.NewEncoder(&want)
				row.SetEscapeHTML(false)
				_ = row.Encode([]any{v, 0.5}) // Texts, numbers and booleans.
			}
			assert.True(t, err == nil && lines == want.String(), "%s: the values %s, %v, want %s", c.Case, lines, err, want.String())
		}
		declared, err := declaredCSV(strings.NewReader(text), r.Spec.GetInputs())
		if err != nil {
			t.Errorf("%s: %v", c.Case, err)
			continue
		}
		for i, want := range c.Values {
			for _, column := range []*infer.Column{inferred, declared.Columns["c"]} {
				got, err := column.Value(cells[i])
				assert.True(t, err == nil && got == want, "%s: %q is %v, %v, want %v", c.Case, cells[i], got, err, want)
			}
		}
	}
}

func TestTextsOfSeveralWords(t *testing.T) {
	message := func(i int) string { return fmt.Sprintf("call %d now to win a prize", i) }
	for name, c := range map[string]struct {
		cells []string
		kind  infer.Kind
	}{
		"messages":         {each(100, message), infer.Text},
		"long messages":    {each(100, func(i int) string { return strings.Repeat(message(i)+" ", 20) }), infer.Text},
		"names":            {each(100, func(i int) string { return fmt.Sprintf("Ann %d Doe", i) }), infer.LeftOut},
		"ids":              {each(100, func(i int) string { return fmt.Sprintf("x%d", i) }), infer.LeftOut},
		"repeated phrases": {each(400, func(i int) string { return message(i % 5) }), infer.Category},
		"too long":         {each(100, func(i int) string { return strings.Repeat(message(i)+" ", 1000) }), infer.LeftOut},
	} {
		got := column(t, c.cells...)
		assert.Equal(t, c.kind, got.Kind, "%s: a, want a: %s", name, got.Reason)
		if c.kind != infer.Text {
			continue
		}
		assert.True(t, got.Input.GetText() != nil && infer.KindOf(got.Input) == infer.Text, "%s: declared as %v", name, got.Input)
		v, err := got.Value(c.cells[3])
		assert.True(t, err == nil && v == strings.TrimSpace(c.cells[3]), "%s: the value %v, %v", name, v, err)
	}
}

// Values follow the spec that is given, and are null for what is missing or left out.
func TestValues(t *testing.T) {
	const text = "at,n,id,y\n21.11.2026 18:00,\"1,5\",a,up\n22.11.2026 18:00,NA,b,\n23.11.2026 18:00,2.5,c,none\n"
	classes := &hindsightv1.ModelSpec{Inputs: inputs(t, `[{"name": "at", "time": {}}, {"name": "n", "numeric": {}}]`), Classes: &hindsightv1.Classes{}}
	numbers := &hindsightv1.ModelSpec{Inputs: inputs(t, `[{"name": "id", "categorical": {}}]`)}
	for _, c := range []struct {
		target string
		spec   *hindsightv1.ModelSpec
		want   string
	}{
		{"y", classes, `["2026-11-21T18:00:00Z",1.5,null,"up"] ["2026-11-22T18:00:00Z",null,null,null] ["2026-11-23T18:00:00Z",2.5,null,"none"] `},
		{"n", numbers, `[null,1.5,"a",null] [null,null,"b",null] [null,2.5,"c",null] `},
	} {
		got, _, err := infer.Values(text, "csv", infer.Options{Target: c.target}, c.spec)
		got = strings.ReplaceAll(got, "\n", " ")
		assert.True(t, err == nil && got == c.want, "%s: %s, %v, want %s", c.target, got, err, c.want)
	}
	for says, spec := range map[string]*hindsightv1.ModelSpec{
		`csv: line 1: there is no column "x" among at, n, id, y`: {Inputs: inputs(t, `[{"name": "x", "numeric": {}}]`)},
		`"y" is an input and a target`:                           {Inputs: inputs(t, `[{"name": "y", "categorical": {}}]`)},
		`csv: line 2, column 3 (id): "a" is no number`:           {Inputs: inputs(t, `[{"name": "id", "numeric": {}}]`), Classes: &hindsightv1.Classes{}},
		`csv: line 2, column 4 (y): "up" is no number`:           {Inputs: inputs(t, `[{"name": "n", "numeric": {}}]`)},
	} {
		got, _, err := infer.Values(text, "csv", infer.Options{Target: "y"}, spec)
		assert.True(t, err != nil && strings.Contains(err.Error(), says), "%s, %v, want %s", got, err, says)
	}
}
