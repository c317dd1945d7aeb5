package cli_test

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// nowhere returns an address at which nothing listens.
func nowhere(t *testing.T) string {
	t.Helper()
	var listen net.ListenConfig
	l, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // only its address was needed
	return l.Addr().String()
}

// served starts a fake with one model of two inputs called m.
func served(t *testing.T) *fake {
	t.Helper()
	f := newFake()
	t.Setenv("HINDSIGHT_ADDRESS", f.start(t))
	document(t, 0, "model", "create", "m", "--spec", `{"dimension": 2, "pkawv_taylor": {"degree": 2}}`)
	return f
}

func TestModelCommands(t *testing.T) {
	served(t)
	created := document(t, 0, "model", "create", "m2", "--spec", `{"dimension": 2, "seed": "7", "pkawvTaylor": {}}`)
	if created["id"] != "m2" || created["sequence"] != 0.0 || created["createTime"] == nil {
		t.Errorf("created %v", created)
	}
	spec, _ := created["spec"].(map[string]any)
	if spec["dimension"] != 2.0 || spec["seed"] != 7.0 {
		t.Errorf("spec %v: want the seed as a number", spec)
	}
	document(t, 0, "model", "create", "other", "--spec", `{"dimension": 1, "linear_awv": {}}`)
	list := func(args ...string) int {
		models, _ := document(t, 0, append([]string{"model", "list"}, args...)...)["models"].([]any)
		return len(models)
	}
	if all, some, none := list(), list("--prefix", "m"), list("--prefix", "x"); all != 3 || some != 2 || none != 0 {
		t.Errorf("listed %d, %d and %d models, want 3, 2 and 0", all, some, none)
	}
	if r := run(t, "model", "list"); !strings.Contains(r.out, "other") || !strings.HasPrefix(r.out, "ID ") {
		t.Errorf("list prints %q", r.out)
	}
	for _, args := range [][]string{
		{"model", "get", "m2"}, {"model", "create", "m3", "--validate-only", "--spec", `{"dimension": 2, "pkawv_taylor": {}}`},
	} {
		if r := run(t, args...); !strings.Contains(strings.ReplaceAll(r.out, " ", ""), `{"dimension":2`) {
			t.Errorf("%v prints no spec that people read: %q", args, r.out)
		}
	}
	if d := document(t, 0, "model", "delete", "m2", "--yes"); d["deleted"] != true {
		t.Errorf("deleted %v", d)
	}
	if d := document(t, 1, "model", "get", "m2"); d["error"].(map[string]any)["reason"] != "MODEL_NOT_FOUND" {
		t.Errorf("get of a deleted model answers %v", d)
	}
	v := document(t, 0, "model", "create", "m3", "--validate-only", "--spec", `{"dimension": 2, "pkawv_taylor": {}}`)
	if v["stateBytes"] != float64(1<<60) || v["features"] != 1.0 {
		t.Errorf("validate answers %v", v)
	}
	stats := document(t, 0, "model", "stats", "m", "--effective-dimension")
	for _, key := range []string{"observations", "lossSum", "regret", "regretBound", "certificateOk", "stateDigest", "pendingLabels", "effectiveDimension"} {
		if _, ok := stats[key]; !ok {
			t.Errorf("statistics without %s", key)
		}
	}
	for _, args := range [][]string{
		{"model", "get", "m"},
		{"model", "stats", "m"},
		{"model", "delete", "m", "--yes"},
		{"model", "create", "m3", "--validate-only", "--spec", `{"dimension": 2}`},
		{"--help"},
		{"model"},
		{"completion", "bash"},
	} {
		if r := run(t, args...); r.code != 0 || r.out == "" {
			t.Errorf("%v: exit code %d, %q, %q", args, r.code, r.out, r.errors)
		}
	}
}

func TestSpecFromFile(t *testing.T) {
	served(t)
	file := filepath.Join(t.TempDir(), "spec.json")
	if err := os.WriteFile(file, []byte(`{"dimension": 2, "pkawv_taylor": {"degree": 2}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	// Create with the same spec answers the existing model.
	if r := run(t, "model", "create", "m", "--spec", "@"+file); r.code != 0 {
		t.Errorf("from a file: %+v", r)
	}
	if r := runWith(t.Context(), `{"dimension": 3, "pkawv_taylor": {}}`, "model", "create", "n", "--spec", "@-"); r.code != 0 {
		t.Errorf("from standard input: %+v", r)
	}
}

func TestPredictAndObserve(t *testing.T) {
	served(t)
	p := document(t, 0, "predict", "--model", "m", "--features", "0.1,-0.4")
	if p["value"] != 0.0 || p["stateSequence"] != 0.0 || p["predictionId"] == "" {
		t.Errorf("predicted %v", p)
	}
	id, _ := p["predictionId"].(string)
	o := document(t, 0, "observe", "--model", "m", "--prediction-id", id, "--label", "0")
	if o["sequence"] != 1.0 || o["loss"] != 0.0 || o["duplicate"] != false || o["servedPrediction"] != 0.0 {
		t.Errorf("observed %v", o)
	}
	if o := document(t, 0, "observe", "--model", "m", "--prediction-id", id, "--label", "0"); o["duplicate"] != true {
		t.Errorf("observed again %v", o)
	}
	o = document(t, 0, "observe", "--model=m", "--features=-1,-2", "--observation-id", "x", "--label", "-3", "--weight", "2")
	if o["sequence"] != 2.0 || o["loss"] != 9.0 {
		t.Errorf("observed %v", o)
	}
	for _, args := range [][]string{
		{"predict", "--model", "m", "--features", "-0.1,-0.4"},
		{"predict", "m", "--features", "-0.1,-.4e-3", "--prediction-id", "-5"},
		{"--timeout", "5s", "predict", "--model", "m", "--features", "-0.1, 2"},
		{"predict", "--model", "m", "--no-remember", "--features", "-1,1"},
		{"predict", "--model", "m", "--label-ttl", "1h", "--features", "1,-1"},
		{"-o", "json", "predict", "--features", "-1,1", "--model", "m"},
		{"observe", "--model", "m", "--features", "-1,1", "--label", "-1"},
	} {
		if r := run(t, args...); r.code != 0 || r.errors != "" {
			t.Errorf("%v: %+v", args, r)
		}
	}
	if p := document(t, 0, "predict", "--model", "m", "--no-remember", "--features", "1,1"); p["predictionId"] != "" {
		t.Errorf("predicted %v: want no id", p)
	}
}

func TestExitCodes(t *testing.T) {
	served(t)
	bad := filepath.Join(t.TempDir(), "bad.csv")
	if err := os.WriteFile(bad, []byte("x1,x2,y\n1,2,3\n1,two,3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	here, away := "127.0.0.1:1", nowhere(t)
	usage := [][]string{
		{"nonsense"},
		{"model", "nonsense"},
		{"model", "get"},
		{"model", "get", "a", "b"},
		{"--nonsense"},
		{"model", "create", "m"},
		{"model", "create", "m", "--spec", "{"},
		{"model", "create", "m", "--spec", `{"nonsense": 1}`},
		{"model", "create", "m", "--spec", "@/nonexistent/spec"},
		{"--timeout", "0s", "model", "get", "m"},
		{"--address", "", "model", "get", "m"},
		{"model", "list", "extra"},
		{"model", "create", "m", "--spec", "{}", "--validate-only", "--follows", "other"},
		{"model", "restore", "m", "--undelete=false", "--yes"},
		{"model", "restore", "m", "--undelete", "--sequence", "0", "--yes"},
		{"cluster", "move", "--from", ""},
		{"cluster", "move", ""},
		{"cluster", "move", "--from", "a", "b"},
		{"predict", "--features", "1,2"},
		{"predict", "--model", "m"},
		{"predict", "--model", "m", "one"},
		{"predict", "--model", "m", "--features", "1,x"},
		{"predict", "--model", "m", "--features", "1,2", "3"},
		{"predict", "--model", "m", "-x"},
		{"observe", "--model", "m", "--features", "1,2"},
		{"observe", "--model", "m", "--label", "1"},
		{"observe", "--model", "m", "--label", "x", "--features", "1,2"},
		{"observe", "--label", "1", "--features", "1,2"},
		{"observe", "--model", "m", "--label", "1", "--features", "1,2", "--prediction-id", "p"},
		{"observe", "--model", "m", "--label", "1", "--observation-id", "o", "--prediction-id", "p"},
		{"replay", "--model", "m"},
		{"replay", "--csv", bad},
		{"replay", "--csv", "/nonexistent", "--model", "m"},
		{"replay", "--csv", bad, "--model", "m", "--limit", "-1"},
		{"replay", "--csv", bad, "--model", "m", "--target", "z"},
		{"replay", "--csv", bad, "--model", "m", "--run", "A B"},
		{"replay", "--csv", bad, "--model", "m", "--out", "/nonexistent/file"},
		{"replay", "--csv", bad, "--model", "m", "--offset", "-1"},
		{"replay", "--csv", bad, "--model", "m", "--retries", "-1"},
		{"replay", "--csv", bad, "--model", "m", "--create", "{"},
		{"replay", "--csv", bad, "--model", "m"},
		{"demo"},
		{"demo", "--server", "x", "--rounds", "0"},
	}
	refused := [][]string{
		{"model", "get", "none"},
		{"predict", "--model", "none", "--features", "1"},
		{"predict", "--model", "m", "--features", "1,2,3"},
		{"model", "create", "m", "--spec", `{"dimension": 3}`},
		{"model", "create", "n", "--spec", "{}"},
		{"observe", "--model", "m", "--prediction-id", "none", "--label", "1"},
	}
	unreachable := [][]string{
		{"--address", away, "model", "get", "m"},
		{"--address", here, "model", "list"},
		{"--address", away, "predict", "--model", "m", "--features", "1"},
		{"--address", away, "observe", "--model", "m", "--features", "1", "--label", "1"},
	}
	for want, lines := range map[int][][]string{1: refused, 2: usage, 3: unreachable} {
		for _, args := range lines {
			r := run(t, args...)
			if r.code != want {
				t.Errorf("%v: exit code %d, want %d: %s", args, r.code, want, r.errors)
			}
			if !strings.HasPrefix(r.errors, "hindsight: ") || strings.Count(r.errors, "\n") != 1 {
				t.Errorf("%v: want one line on standard error, not %q", args, r.errors)
			}
			d := document(t, want, args...)
			if e, _ := d["error"].(map[string]any); e["exitCode"] != float64(want) || e["message"] == "" {
				t.Errorf("%v: document %v", args, d)
			}
		}
	}
}

// TestConnectingForever asks a listener that never answers.
func TestConnectingForever(t *testing.T) {
	var listen net.ListenConfig
	l, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // only its address was needed
	if r := run(t, "--address", l.Addr().String(), "--timeout", "200ms", "model", "get", "m"); r.code != 3 {
		t.Errorf("exit code %d, want 3: %s", r.code, r.errors)
	}
}

func TestErrorLine(t *testing.T) {
	served(t)
	r := run(t, "predict", "--model", "m", "--features", "1")
	want := "hindsight: 1 features where the model has 2 (INVALID_ARGUMENT, DIMENSION_MISMATCH); features: not so\n"
	if r.errors != want {
		t.Errorf("error line %q, want %q", r.errors, want)
	}
	if r := run(t, "model", "create", "n", "--spec", `{"dimension": "x"}`); !strings.Contains(r.errors, "dimension") {
		t.Errorf("error line %q does not name the field", r.errors)
	}
}

func TestCompletion(t *testing.T) {
	served(t)
	document(t, 0, "model", "create", "other", "--spec", `{"dimension": 1}`)
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"model", "get", ""}, []string{"m", "other"}},
		{[]string{"model", "delete", "o"}, []string{"other"}},
		{[]string{"predict", "--model", ""}, []string{"m", "other"}},
		{[]string{"model", "get", "m", ""}, nil},
	} {
		r := run(t, append([]string{"__complete"}, c.args...)...)
		lines := strings.Fields(r.out)
		if i := slices.IndexFunc(lines, func(s string) bool { return strings.HasPrefix(s, ":") }); i >= 0 {
			lines = lines[:i]
		}
		if r.code != 0 || !slices.Equal(lines, c.want) {
			t.Errorf("%q completes to %q, want %q", c.args, lines, c.want)
		}
	}
}
