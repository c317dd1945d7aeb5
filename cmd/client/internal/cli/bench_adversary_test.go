package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestBenchAdversary(t *testing.T) {
	out := filepath.Join(t.TempDir(), "results")
	args := []string{"bench", "adversary", "--rounds", "5", "--dimension", "2", "--starts", "2", "--seed", "3", "--out", out}
	d := document(t, 0, args...)
	all := make(map[string]map[string]any)
	for _, v := range d["entries"].([]any) {
		e := v.(map[string]any)
		all[e["learner"].(string)] = e
	}
	if len(all) != 7 {
		t.Errorf("%v", all)
	}
	kernel := all["kernel_awv"]
	if regret := kernel["regret"].(float64); !(regret > 0 && regret <= kernel["kernelAwvCertificate"].(float64)+1e-9 && regret < all["pkawv_taylor M=2"]["regret"].(float64)) {
		t.Errorf("%v", all)
	}
	files := make(map[string]string)
	for _, name := range []string{"adversary.md", "adversary.csv", "adversary.svg"} {
		content, err := os.ReadFile(filepath.Join(out, name))
		if err != nil || len(content) == 0 || strings.Contains(string(content), out) {
			t.Errorf("%s: %d bytes, %v", name, len(content), err)
		}
		files[name] = string(content)
	}
	r := run(t, args...)
	if r.code != 0 || !strings.HasPrefix(r.out, "learner") || strings.Count(r.out, "\n") != 8 || !strings.Contains(r.errors, "fogd") {
		t.Errorf("%+v", r)
	}
	for name, before := range files {
		if content, err := os.ReadFile(filepath.Join(out, name)); err != nil || string(content) != before {
			t.Errorf("%s is another the second time, %v", name, err)
		}
	}
}

func TestBenchAdversaryUsage(t *testing.T) {
	for want, args := range map[string][]string{
		"rounds 0, want 1 to 4000":    {"--rounds", "0"},
		"starts 0, want 1 to 1000":    {"--starts", "0"},
		"dimension -1, want 1":        {"--dimension", "-1"},
		"unexpected argument \"now\"": {"now"},
	} {
		r := run(t, append([]string{"bench", "adversary", "--out", t.TempDir()}, args...)...)
		if r.code != 2 || !strings.Contains(r.errors, want) {
			t.Errorf("%v: %+v, want %q", args, r, want)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := run(t, "bench", "adversary", "--rounds", "1", "--dimension", "1", "--starts", "1", "--out", file)
	if r.code != 1 || !strings.Contains(r.errors, "--out") {
		t.Errorf("%+v", r)
	}
}
