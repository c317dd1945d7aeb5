package cli_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A command with --local starts a server, and leaves neither the server nor its directory.
func TestLocal(t *testing.T) {
	t.Setenv(actAsServer, "yes")
	t.Setenv("HINDSIGHT_ADDRESS", nowhere(t))
	dir := temporary(t)
	text, labels, _ := sales(60)
	path := written(t, "sales.csv", text)
	d := document(t, 0, "replay", "--csv", path, "--local", "--server", program(t))
	if d["model"] != "local" || d["acknowledged"] != float64(len(labels)) || d["unlabelled"] != float64(60-len(labels)) {
		t.Errorf("replay: %v", d)
	}
	d = document(t, 0, "compare", "--csv", path, "--local", "--server", program(t), "--delay", "3")
	if len(d["learners"].([]any)) != 4 {
		t.Errorf("compare: %v", d)
	}
	d = document(t, 0, "predict", "--local", "--server", program(t), "--train", path, "--inputs", `{"hour": 3, "price": 2}`)
	var sum float64
	for _, y := range labels {
		sum += y
	}
	if v, _ := d["value"].(float64); !near(v, sum/float64(len(labels))) {
		t.Errorf("predict: %v, want the mean of the file", d)
	}
	if r := run(t, "infer", "--csv", path, "--target", "sold", "--local"); r.code != 0 || !strings.Contains(r.out, `"price"`) {
		t.Errorf("infer: %+v", r)
	}
	if !isEmpty(t, dir) {
		t.Error("the temporary directory is left")
	}
	for says, args := range map[string][]string{
		"--local and --train need each other": {"predict", "--local", "1"},
		"exclude each other":                  {"predict", "--local", "--train", path, "--model", "m", "1"},
		"ended before it was ready":           {"replay", "--local", "--server", "/bin/false", "--csv", path},
		"the target has no label":             {"predict", "--local", "--server", program(t), "--train", written(t, "n.csv", "x,sold\n1,\n2,\n"), "--inputs", "{}"},
	} {
		if r := run(t, args...); r.code == 0 || !strings.Contains(r.errors, says) {
			t.Errorf("%v: want %q: %+v", args, says, r)
		}
	}
	// Without --server the program is looked up beside this one, then on the PATH.
	t.Setenv("PATH", t.TempDir())
	if r := run(t, "compare", "--local", "--csv", path); r.code != 2 || !strings.Contains(r.errors, "neither beside this program nor on the PATH") {
		t.Errorf("%+v", r)
	}
	if err := os.Symlink(program(t), filepath.Join(os.Getenv("PATH"), "hindsight-server")); err != nil {
		t.Fatal(err)
	}
	if r := run(t, "compare", "--local", "--csv", path); r.code != 0 {
		t.Errorf("%+v", r)
	}
}

// predict --csv writes a line for each row, in CSV.
func TestPredictFile(t *testing.T) {
	f := served(t)
	document(t, 0, "observe", "m", "--features", "1,2", "--label", "3")
	path := written(t, "rows.csv", "x1,y,x2\n1,,2\n3,7,4\n5,?,6\n")
	want := "row,prediction\n1,3\n2,3\n3,3\n"
	if r := run(t, "predict", "m", "--csv", path); r.code != 0 || r.out != want {
		t.Errorf("%+v, want %s", r, want)
	}
	if r := runWith(t.Context(), "a;b\n1,5;2\n", "predict", "--model", "m", "--csv", "-"); r.code != 0 || r.out != "row,prediction\n1,3\n" {
		t.Errorf("%+v", r)
	}
	if want := [][]float64{{1, 2}, {3, 4}, {5, 6}, {1.5, 2}}; !slices.EqualFunc(f.batched, want, func(a fakeInput, b []float64) bool { return slices.Equal(a.features, b) }) {
		t.Errorf("asked for %v, want %v", f.batched, want)
	}
	out := filepath.Join(t.TempDir(), "out.csv")
	if d := document(t, 0, "predict", "m", "--csv", path, "--out", out); d["rows"] != 3.0 || read(t, out) != want {
		t.Errorf("%v, %s", d, read(t, out))
	}
	for says, args := range map[string][]string{
		"want the 2 of the model":        {"m", "--csv", written(t, "more.csv", "a,b,c\n1,2,3\n")},
		"--csv and another input":        {"m", "--csv", path, "--features", "1,2"},
		"--out needs --csv":              {"m", "--features", "1,2", "--out", out},
		"name a file with --out":         {"m", "--csv", path, "--json"},
		"would be lost":                  {"m", "--csv", path, "--out", path},
		"--prediction-id, --explain and": {"m", "--csv", path, "--explain"},
		`line 2, column 2 (b): "z"`:      {"m", "--csv", written(t, "text.csv", "a,b\n1,z\n"), "--out", out},
		"give the model once":            {"--csv", path},
		"its id as the argument or":      {"--model", "m", "energy"},
	} {
		if r := run(t, append([]string{"predict"}, args...)...); r.code != 2 || !strings.Contains(r.errors, says) {
			t.Errorf("%v: want %q: %+v", args, says, r)
		}
	}
	// A file that could not be written is as before.
	if got := read(t, out); got != want {
		t.Errorf("after an error the file is %q", got)
	}
	if left, err := filepath.Glob(out + ".*"); err != nil || len(left) != 0 {
		t.Errorf("%v are left: %v", left, err)
	}
}

// Records have intervals, classes and several outputs in columns of their own.
func TestPredictFileOfRecords(t *testing.T) {
	f := serving(t)
	path := written(t, "trips.csv", trips(6))
	document(t, 0, "model", "create", "c", "--spec", `{"inputs": [{"name": "temp", "numeric": {}}], "classes": {"max_classes": 3}}`)
	document(t, 0, "observe", "c", "--inputs", `{"temp": 1}`, "--class", "late")
	document(t, 0, "observe", "c", "--inputs", `{"temp": 1}`, "--class", "on time")
	document(t, 0, "observe", "c", "--inputs", `{"temp": 1}`, "--class", "late")
	document(t, 0, "observe", "c", "--inputs", `{"temp": 1}`, "--class", "late")
	r := run(t, "predict", "c", "--csv", path)
	if lines := strings.Split(r.out, "\n"); r.code != 0 || lines[0] != "row,prediction,probability_late,probability_on time" || lines[6] != "6,late,0.75,0.25" || len(lines) != 8 {
		t.Errorf("%+v", r)
	}
	document(t, 0, "model", "create", "r", "--spec", `{"inputs": [{"name": "temp", "numeric": {}}]}`)
	f.prediction = withIntervals
	if r := run(t, "predict", "r", "--csv", path); r.code != 0 || !strings.HasPrefix(r.out, "row,prediction,lower_90,upper_90,probability\n1,0,-1,1,0.5\n") {
		t.Errorf("%+v", r)
	}
	f.prediction = withOutputs
	if r := run(t, "predict", "r", "--csv", path); r.code != 0 ||
		!strings.HasPrefix(r.out, "row,prediction1,prediction2,lower_50_1,lower_50_2,upper_50_1,upper_50_2\n1,1,2,0,1,2,3\n") {
		t.Errorf("%+v", r)
	}
}

// model export and import take the name of the file as an argument.
func TestExportArguments(t *testing.T) {
	served(t)
	for says, args := range map[string][]string{
		"ID is missing":             {"model", "export"},
		"FILE is missing":           {"model", "export", "m"},
		"unexpected argument":       {"model", "export", "m", "a", "b"},
		"both write to standard":    {"model", "export", "m", "-", "--json"},
		"no such file or directory": {"model", "import", "m", "/nonexistent"},
	} {
		if r := run(t, args...); r.code != 2 || !strings.Contains(r.errors, says) {
			t.Errorf("%v: want %q: %+v", args, says, r)
		}
	}
}
