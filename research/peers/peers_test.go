package peers_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The committed table belongs to the committed numbers.
func TestTable(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	const results = "../results"
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
	if output, err := exec.CommandContext(t.Context(), python, "peers.py", "--table", "--out", out).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	want, err := os.ReadFile(filepath.Join(out, "peers.md"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(results, "peers.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("results/peers.md does not belong to the committed numbers; run: python3 research/peers/peers.py --table")
	}
}
