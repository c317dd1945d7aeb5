package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// squeeze makes one space of several.
func squeeze(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		b.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
	}
	return b.String()
}

// TestReplayCreatesOutputs takes the outputs from the file too.
func TestReplayCreatesOutputs(t *testing.T) {
	f := served(t)
	path := filepath.Join(t.TempDir(), "several.csv")
	require.NoError(t, os.WriteFile(path, []byte("x1,y1,x2,y2,x3\n1,2,3,4,5\n"), 0o600))
	r := run(t, "replay", "--csv", path, "--model", "new", "--create", "{}", "--limit", "1")
	spec := f.models["new"].model.GetSpec()
	if spec.GetDimension() != 3 || spec.GetOutputs() != 2 {
		t.Errorf("spec %v, %s", spec, fmt.Sprint(r))
	}
}
