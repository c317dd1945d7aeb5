package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// written writes a file and returns its path.
func written(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// serving starts a fake without a model.
func serving(t *testing.T) *fake {
	t.Helper()
	f := newFake()
	t.Setenv("HINDSIGHT_ADDRESS", f.start(t))
	return f
}

// record is a record in JSON.
func record(t *testing.T, text string) *structpb.Struct {
	t.Helper()
	s := new(structpb.Struct)
	if err := protojson.Unmarshal([]byte(text), s); err != nil {
		t.Fatal(err)
	}
	return s
}

// trips are rows with every kind of column, in which the classes are late, early and
// on time.
func trips(rows int) string {
	var b strings.Builder
	b.WriteString("arrival,at,rain,temp,city\n")
	for i := range rows {
		rain := []string{"yes", "no", ""}[i%3]
		fmt.Fprintf(&b, "%s,%d.3.2026 %d:30,%s,%g,%s\n", tripClass(i), 1+i%28, i%24, rain, float64(i)/2, []string{"Oslo", "Bergen, Norway", "NA"}[i%3])
	}
	return strings.ReplaceAll(b.String(), "Bergen, Norway", `"Bergen, Norway"`)
}

func tripClass(i int) string { return []string{"late", "early", "on time", "late", "late"}[i%5] }

func TestInfer(t *testing.T) {
	path := written(t, "trips.csv", trips(100))
	r := run(t, "infer", "--csv", path, "--target", "arrival")
	want := `{"inputs": [
  {"name":"at","time":{"cycles":["CYCLE_HOUR_OF_DAY","CYCLE_DAY_OF_WEEK"]},"missing":"MISSING_REFUSE"},
  {"name":"rain","boolean":{}},
  {"name":"temp","numeric":{},"missing":"MISSING_REFUSE"},
  {"name":"city","categorical":{"max_categories":3},"missing":"MISSING_REFUSE"}
], "classes": {"max_classes":3}}
`
	if r.code != 0 || r.out != want {
		t.Errorf("%+v, want %s", r, want)
	}
	for _, says := range []string{"arrival  class     texts, 3 classes\n", "times as 2.1.2006 15:04 from 2026-03-01", "records have RFC 3339", "33 cells are empty"} {
		if !strings.Contains(r.errors, says) {
			t.Errorf("no %q in %s", says, r.errors)
		}
	}
	d := document(t, 0, "infer", "--csv", path, "--target", "arrival")
	columns, _ := d["columns"].([]any)
	spec, _ := d["spec"].(map[string]any)
	if len(columns) != 5 || d["rows"] != 100.0 || spec["classes"] == nil {
		t.Errorf("%v", d)
	}
	for _, args := range [][]string{
		{"infer"},
		{"infer", "--csv", "/nonexistent"},
		{"infer", "--csv", path},
		{"infer", "--csv", path, "extra"},
		{"infer", "--csv", written(t, "empty.csv", "")},
		{"infer", "--csv", written(t, "names.csv", "x,y\n,1\n")},
	} {
		if r := run(t, args...); r.code != 2 || !strings.Contains(r.errors, "hindsight: ") || r.out != "" {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

// TestReplayRecords sends what infer says of a file as records, whatever the order of
// the columns.
func TestReplayRecords(t *testing.T) {
	const rows = 60
	for _, delay := range []string{"0", "7"} {
		f := serving(t)
		path := written(t, "trips.csv", trips(rows))
		spec := written(t, "spec.json", run(t, "infer", "--csv", path, "--target", "arrival").out)
		out := filepath.Join(t.TempDir(), "out.csv")
		args := []string{
			"replay", "--csv", path, "--target", "arrival", "--model", "trips", "--create", "@" + spec,
			"--run", "r", "--serve", "--delay", delay, "--out", out,
		}
		d := document(t, 0, args...)
		m := f.models["trips"]
		if d["acknowledged"] != float64(rows) || d["lossSum"] != m.lossSum || m.lossSum == 0 {
			t.Errorf("%v", d)
		}
		if s := m.model.GetSpec(); s.GetDimension() != 0 || s.GetOutputs() != 0 || len(s.GetInputs()) != 4 {
			t.Errorf("the spec %v", s)
		}
		for i, want := range map[int]string{
			1: `{"at": "2026-03-01T00:30:00Z", "rain": true, "temp": 0, "city": "Oslo"}`,
			3: `{"at": "2026-03-03T02:30:00Z", "rain": null, "temp": 1, "city": "NA"}`,
			5: `{"at": "2026-03-05T04:30:00Z", "rain": false, "temp": 2, "city": "Bergen, Norway"}`,
		} {
			if got := m.outcomes["r-"+strconv.Itoa(i)].inputs; !proto.Equal(got, record(t, want)) {
				t.Errorf("row %d is %v, want %s", i, got, want)
			}
		}
		lines := strings.Split(read(t, out), "\n")
		if lines[0] != "t,y,prediction,loss,regret" || lines[1] != "1,late,,1," || lines[3] != "3,on time,late,1," || len(lines) != rows+2 {
			t.Errorf("outcomes %q", lines)
		}
		// The same rows with their columns in another order are the same calls.
		again := written(t, "again.csv", turned(t, trips(rows)))
		d = document(t, 0, "replay", "--csv", again, "--target", "arrival", "--model", "trips", "--run", "r", "--serve")
		if d["duplicates"] != float64(rows) {
			t.Errorf("%v", d)
		}
	}
}

// turned has the last column first.
func turned(t *testing.T, text string) string {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range lines {
		at := strings.LastIndexByte(line, ',')
		if strings.HasSuffix(line, `"`) {
			at = strings.LastIndex(line, `,"`)
		}
		lines[i] = line[at+1:] + "," + line[:at]
	}
	return strings.Join(lines, "\n") + "\n"
}

// TestReplayRecordsAfterLoss sends the records again to a server that lost the
// predictions.
func TestReplayRecordsAfterLoss(t *testing.T) {
	f := serving(t)
	f.fault = func(call string, n int, done bool) error {
		switch {
		case call == "observe" && n == 3 && !done:
			clear(f.models["m"].predictions)
		case call == "observe" && n == 9 && done:
			return status.Error(codes.Unavailable, "lost")
		}
		return nil
	}
	path := written(t, "trips.csv", trips(30))
	d := document(t, 0, "replay", "--csv", path, "--target", "arrival", "--model", "m", "--serve",
		"--create", run(t, "infer", "--csv", path, "--target", "arrival").out)
	if classes := f.models["m"].classes; d["acknowledged"] != 30.0 || len(classes) != 30 {
		t.Errorf("%v, %q", d, classes)
	}
	for i, class := range f.models["m"].classes {
		if class != tripClass(i) {
			t.Errorf("class %d is %q", i+1, class)
		}
	}
}

// TestReplayClassesOfFeatures takes vectors through a classifier.
func TestReplayClassesOfFeatures(t *testing.T) {
	f := serving(t)
	path := written(t, "rows.csv", "x1,kind,x2\n1,up,5\n2,down,6\n3, up ,7\n")
	document(t, 0, "replay", "--csv", path, "--target", "kind", "--model", "m", "--run", "r", "--create", `{"classes": {}}`)
	m := f.models["m"]
	want := map[float64]string{1: "up", 2: "down", 3: "up"}
	for id, o := range m.outcomes {
		if x := o.features; o.class != want[x[0]] || x[1] != x[0]+4 {
			t.Errorf("%s: %q of %v", id, o.class, x)
		}
	}
	if len(m.outcomes) != 3 || m.model.GetSpec().GetDimension() != 2 {
		t.Errorf("%d outcomes, %v", len(m.outcomes), m.model.GetSpec())
	}
}

func TestReplayRecordsMistakes(t *testing.T) {
	f := serving(t)
	const spec = `{"inputs": [{"name": "wind_speed", "numeric": {}}, {"name": "at", "time": {}}]}`
	document(t, 0, "model", "create", "m", "--spec", spec)
	document(t, 0, "model", "create", "plain", "--spec", `{"dimension": 2}`)
	for text, says := range map[string]string{
		"at,windspeed,y\n2026-11-21,1,2\n":             `line 1: there is no column "wind_speed", which is an input; is it "windspeed"?`,
		"at,y\n2026-11-21,2\n":                         `line 1: there is no column "wind_speed", which is an input`,
		"at,wind_speed,y,gust\n2026-11-21,1,2,3\n":     `line 1, column 4: "gust" is neither an input nor a target: --ignore gust leaves it out`,
		"at,wind_speed,y\n2026-11-21,1,2\nsoon,1,2\n":  `line 3, column 1 (at): "soon" is no time`,
		"at,wind_speed,y\n2026-11-21,fast,2\n":         `line 2, column 2 (wind_speed): "fast" is no number`,
		"at,wind_speed,y,a gust\n2026-11-21,1,2,3\n":   `--ignore 'a gust' leaves it out`,
		"at,wind_speed,y\n2026-11-21,1,fine\n":         `line 2, column 3 (y): "fine" is not a number`,
		"at,wind_speed,z\n2026-11-21,1,2\n":            `there is no target column "y"`,
		"at,wind_speed,y\n2026-11-21,1,2\n2026-11-22,": "line 3",
	} {
		r := run(t, "replay", "--csv", written(t, "a.csv", text), "--model", "m")
		if r.code != 2 || !strings.Contains(r.errors, says) {
			t.Errorf("%q: %+v, want %s", text, r, says)
		}
	}
	good := written(t, "a.csv", "at,wind_speed,y\n2026-11-21,1,2\n")
	for says, args := range map[string][]string{
		"is an input and a target":     {"--model", "m", "--target", "at"},
		"leaves no feature":            {"--model", "plain", "--ignore", "*"},
		"which are the features":       {"--model", "m", "--features", "at"},
		`"2026-11-21" is not a number`: {"--model", "plain"},
		"a classifier has one target":  {"--model", "c", "--target", "y,wind_speed", "--create", `{"classes": {}}`},
	} {
		if r := run(t, append([]string{"replay", "--csv", good}, args...)...); r.code != 2 || !strings.Contains(r.errors, says) {
			t.Errorf("%v: %+v", args, r)
		}
	}
	if r := run(t, "replay", "--csv", good, "--model", "none"); r.code != 1 || !strings.Contains(r.errors, "MODEL_NOT_FOUND") {
		t.Errorf("%+v", r)
	}
	if n := f.calls["observe"]; n != 0 {
		t.Errorf("%d labels were sent", n)
	}
}

// TestReplayWithoutLabels predicts rows without a label, observes the others, and counts
// both. What infer leaves out is left out.
func TestReplayWithoutLabels(t *testing.T) {
	var b strings.Builder
	b.WriteString("order id;price;share;y\n")
	for i := range 100 {
		label := fmt.Sprintf("%d,5", i)
		if i%4 == 1 {
			label = []string{"", "NA", "inf"}[i%3]
		}
		fmt.Fprintf(&b, "order %d;$%d,25;%d%%;%s\n", i, i, i, label)
	}
	path := written(t, "orders.csv", b.String())
	inferred := run(t, "infer", "--csv", path)
	if inferred.code != 0 || !strings.Contains(inferred.errors, "25 rows have no label: replay predicts them") {
		t.Fatalf("%+v", inferred)
	}
	for _, args := range [][]string{nil, {"--serve"}, {"--delay", "3"}, {"--delimiter", ";"}} {
		f := serving(t)
		args = append([]string{"replay", "--csv", path, "--model", "m", "--run", "r", "--create", inferred.out}, args...)
		r := run(t, args...)
		if r.code != 0 || !strings.Contains(r.errors, "order id is left out: most cells are texts of their own") ||
			!strings.Contains(r.out, "without a label") || strings.Contains(r.out, "next offset") {
			t.Errorf("%v: %+v", args, r)
		}
		d := document(t, 0, append(args[:len(args):len(args)], "--model", "m2")...)
		// Two runs. Batches ask for the predictions of rows without a label alone.
		calls := 200
		_, batches := d["batches"]
		if batches {
			calls = 50
		}
		if d["rounds"] != 100.0 || d["acknowledged"] != 75.0 || d["unlabelled"] != 25.0 || d["nextOffset"] != 100.0 || f.calls["predict"] != calls {
			t.Errorf("%v: %v, %d predictions", args, d, f.calls["predict"])
		}
		for id, o := range f.models["m"].outcomes {
			inputs := o.inputs.GetFields()
			if !batches {
				inputs = f.models["m"].predictions[id].inputs.GetFields()
			}
			if price := inputs["price"].GetNumberValue(); price != o.label-0.25 || inputs["share"].GetNumberValue() != o.label-0.5 {
				t.Errorf("%s: label %v of %v", id, o.label, inputs)
			}
		}
	}
	if r := run(t, "replay", "--csv", path, "--model", "m", "--delimiter", ";;"); r.code != 2 || !strings.Contains(r.errors, "want one character") {
		t.Errorf("%+v", r)
	}
}

func TestPredictAndObserveRecords(t *testing.T) {
	serving(t)
	document(t, 0, "model", "create", "m", "--spec", `{"classes": {}, "inputs": [{"name": "city", "categorical": {}}, {"name": "n", "numeric": {}}]}`)
	const inputs = `{"city": "Oslo", "n": -1.5}`
	if r := run(t, "predict", "--model", "m", "--inputs", inputs, "--no-remember"); r.code != 0 || strings.Contains(r.out, "probability") {
		t.Errorf("%+v", r)
	}
	for i, class := range []string{"late", "early", "early"} {
		id := strconv.Itoa(i)
		document(t, 0, "observe", "--model", "m", "--inputs", inputs, "--class", class, "--observation-id", id)
		if d := document(t, 0, "observe", "--model", "m", "--inputs", inputs, "--class", class, "--observation-id", id); d["duplicate"] != true {
			t.Errorf("%v", d)
		}
	}
	file := written(t, "record.json", inputs)
	d := document(t, 0, "predict", "--model", "m", "--inputs", "@"+file)
	if scores, _ := d["scores"].(map[string]any); d["class"] != "early" || len(scores) != 2 {
		t.Errorf("%v", d)
	}
	r := runWith(t.Context(), inputs, "predict", "--model", "m", "--inputs", "@-", "--prediction-id", "p")
	want := "class                 early\nprobability of early  0.667\nprobability of late   0.333\n"
	if r.code != 0 || !strings.HasPrefix(r.out, want) {
		t.Errorf("%+v, want %s", r, want)
	}
	r = run(t, "observe", "--model", "m", "--prediction-id", "p", "--class", "late")
	if r.code != 0 || !strings.Contains(r.out, "\nclass, served ") || !strings.Contains(squeeze(r.out), "\nloss, served 1\n") {
		t.Errorf("%+v", r)
	}
	for says, args := range map[string][]string{
		"want a JSON object":           {"predict", "--model", "m", "--inputs", "[1]"},
		"no such file":                 {"predict", "--model", "m", "--inputs", "@/nonexistent"},
		"--inputs and --features":      {"observe", "--model", "m", "--inputs", "{}", "--features", "1", "--label", "1"},
		"exclude each":                 {"observe", "--model", "m", "--inputs", "{}", "--prediction-id", "p", "--label", "1"},
		"or --class for a classifier":  {"observe", "--model", "m", "--inputs", "{}", "--label", "1", "--class", "x"},
		"--features or --inputs":       {"observe", "--model", "m", "--class", "x"},
		"the input is missing":         {"predict", "--model", "m"},
		"needs --features or --inputs": {"observe", "--model", "m", "--prediction-id", "p", "--observation-id", "o", "--class", "x"},
	} {
		if r := run(t, args...); r.code != 2 || !strings.Contains(r.errors, says) {
			t.Errorf("%v: %+v", args, r)
		}
	}
	r = run(t, "predict", "--model", "m", "--inputs", `{"citty": "Oslo", "n": 1}`)
	if r.code != 1 || !strings.Contains(r.errors, "inputs.city") {
		t.Errorf("%+v", r)
	}
}
