package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every comparison is measured, and has a ratio for each of its columns.
func TestPerformance(t *testing.T) {
	program, temp := server(t), t.TempDir()
	t.Setenv("TMPDIR", temp)
	out := filepath.Join(t.TempDir(), "performance.md")
	d := document(t, 0, "performance", "--server", program, "--rounds", "1", "--slice", "20ms", "--out", out)
	tables := d["tables"].([]any)
	if len(tables) != 10 {
		t.Errorf("%d tables", len(tables))
	}
	page, err := os.ReadFile(out)
	if err != nil || strings.Count(string(page), "\n## ") != len(tables) {
		t.Errorf("%v in %s", err, page)
	}
	for _, table := range tables {
		table := table.(map[string]any)
		for _, row := range table["rows"].([]any) {
			row := row.(map[string]any)
			if n := len(row["ratios"].([]any)); n != len(table["columns"].([]any))-1 {
				t.Errorf("%s, %s: %d ratios", table["title"], row["name"], n)
			}
		}
	}
	if !isEmpty(t, temp) {
		t.Error("a temporary directory is left")
	}
}

func TestPerformanceMistakes(t *testing.T) {
	for wanted, args := range map[string][]string{
		"--server is missing": nil,
		"--rounds must be":    {"--server", "s", "--rounds", "0"},
		"at least 1ms":        {"--server", "s", "--slice", "0s"},
	} {
		if r := run(t, append([]string{"performance"}, args...)...); r.code != 2 || !strings.Contains(r.errors, wanted) {
			t.Errorf("%v: %+v, want %q", args, r, wanted)
		}
	}
}
