package peers_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The committed tables belong to the committed numbers.
func TestTables(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	const results = "../results"
	for program, table := range map[string]string{"peers.py": "peers.md", "keys.py": "keys.md"} {
		t.Run(table, func(t *testing.T) {
			files, err := filepath.Glob(filepath.Join(results, "*.csv"))
			if err != nil || len(files) == 0 {
				t.Fatal(files, err)
			}
			out := t.TempDir()
			for _, file := range files {
				data, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(out, filepath.Base(file)), data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if output, err := exec.CommandContext(t.Context(), python, program, "--table", "--out", out).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, output)
			}
			want, err := os.ReadFile(filepath.Join(out, table))
			if err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(filepath.Join(results, table))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("results/%s does not belong to the committed numbers; run: python3 research/peers/%s --table", table, program)
			}
		})
	}
}
