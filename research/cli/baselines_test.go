package cli_test

import (
	"path/filepath"
	"strings"
	"testing"

	"hindsight/cmd/research/baselines"
)

// The baselines run without a server: every method with every step on every stream
// that has a file.
func TestBaselines(t *testing.T) {
	out, data := t.TempDir(), streams(t)
	d := document(t, 0, "papers", "baselines", "--data", data, "--rows", "150", "--out", out)
	all := d["entries"].([]any)
	want := len(baselines.NewOnline(false, 1).Courses()) + len(baselines.NewOnline(true, 1).Courses())
	if len(all) != want {
		t.Errorf("%d entries, not %d", len(all), want)
	}
	for _, e := range all {
		e := e.(map[string]any)
		signs := e["stream"] == "elec2"
		if e["rounds"] != 150.0 || signs != (e["errorRate"] != nil) || (e["factor"] == nil) != strings.HasPrefix(e["method"].(string), "M-Forgetron") {
			t.Errorf("%v", e)
		}
	}
	for _, name := range []string{"baselines/summary.csv", "baselines/air_regret.svg", "baselines/curves/air.csv"} {
		if content(t, out, filepath.FromSlash(name)) == "" {
			t.Errorf("%s is empty", name)
		}
	}
	r := run(t, "papers", "baselines", "--data", data, "--streams", "elec2", "--rows", "50", "--out", t.TempDir())
	if lines := strings.Split(strings.TrimSpace(r.out), "\n"); r.code != 0 || len(lines) != 1+11+3 || !strings.HasSuffix(lines[1], "%") {
		t.Errorf("%+v", r)
	}
}

// With --learners the papers leave the baselines out. Without a stream the command
// says where to get them. Mistakes in the flags are rejected.
func TestBaselinesUsage(t *testing.T) {
	data := streams(t)
	for want, args := range map[string][]string{
		`--streams: there is no "fire"`:      {"--data", data, "--streams", "fire"},
		"--rows -1 is negative":              {"--data", data, "--rows", "-1"},
		"there is no directory /nonexistent": {"--data", "/nonexistent"},
		"unknown flag: --server":             {"--server", "x"},
	} {
		if r := run(t, append([]string{"papers", "baselines", "--out", t.TempDir()}, args...)...); r.code != 2 || !strings.Contains(r.errors, want) {
			t.Errorf("%v: %+v, want %q", args, r, want)
		}
	}
	out := filepath.Join(t.TempDir(), "results")
	if r := run(t, "papers", "baselines", "--data", t.TempDir(), "--out", out); r.code != 0 || !strings.Contains(r.out, "No stream was run") || !isEmpty(t, out) {
		t.Errorf("%+v", r)
	}
}
