package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAdversary(t *testing.T) {
	out := filepath.Join(t.TempDir(), "results")
	args := []string{"adversary", "--rounds", "5", "--dimension", "2", "--starts", "2", "--seed", "3", "--out", out}
	all := entries(t, document(t, 0, args...))
	if len(all) != 7 {
		t.Errorf("%v", all)
	}
	kernel := all["kernel_awv"]
	if regret := kernel["regret"].(float64); !(regret > 0 && regret <= kernel["kernelAwvCertificate"].(float64)+1e-9 && regret < all["pkawv_taylor M=2"]["regret"].(float64)) {
		t.Errorf("%v", all)
	}
	files := make(map[string]string)
	for _, name := range []string{"adversary.csv", "adversary.svg"} {
		files[name] = content(t, out, name)
		if files[name] == "" || strings.Contains(files[name], out) {
			t.Errorf("%s: %d bytes", name, len(files[name]))
		}
	}
	r := run(t, args...)
	if r.code != 0 || !strings.HasPrefix(r.out, "learner") || strings.Count(r.out, "\n") != 8 || !strings.Contains(r.errors, "fogd") {
		t.Errorf("%+v", r)
	}
	for name, before := range files {
		if content(t, out, name) != before {
			t.Errorf("the second run writes another %s", name)
		}
	}
}

func TestAdversaryUsage(t *testing.T) {
	for want, args := range map[string][]string{
		"rounds 0, want 1 to 4000":    {"--rounds", "0"},
		"starts 0, want 1 to 1000":    {"--starts", "0"},
		"dimension -1, want 1":        {"--dimension", "-1"},
		"unexpected argument \"now\"": {"now"},
		"unknown flag: --address":     {"--address", "127.0.0.1:1"},
	} {
		r := run(t, append([]string{"adversary", "--out", t.TempDir()}, args...)...)
		if r.code != 2 || !strings.Contains(r.errors, want) {
			t.Errorf("%v: %+v, want %q", args, r, want)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := run(t, "adversary", "--rounds", "1", "--dimension", "1", "--starts", "1", "--out", file)
	if r.code != 1 || !strings.HasPrefix(r.errors[strings.LastIndex(strings.TrimSpace(r.errors), "\n")+1:], "hindsight-research: --out") {
		t.Errorf("%+v", r)
	}
}
