package catalog_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/cpu"

	"hindsight/internal/model/modeltest"
)

// buildDigests builds the command that prints the digests of all learners.
func buildDigests(t *testing.T, environment []string, flags ...string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "digests")
	build := exec.CommandContext(t.Context(), "go", append(append([]string{"build", "-o", binary}, flags...), "hindsight/internal/model/modeltest/digests")...)
	build.Env = append(append(os.Environ(), "CGO_ENABLED=0"), environment...)
	out, err := build.CombinedOutput()
	require.NoError(t, err, "build digests with %v %v\n%s", environment, flags, out)
	return binary
}

// digests runs a command that prints the digests.
func digests(t *testing.T, environment []string, name string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	command.Env = append(os.Environ(), environment...)
	out, err := command.CombinedOutput()
	require.True(t, err == nil && len(strings.Fields(string(out))) >= 60, "%v %s %v: %v\n%s", environment, name, args, err, out)
	return string(out)
}

// The same observations give the same state whether or not the compiler may
// fuse a product with a sum, with assembly and without, on any number of processors,
// and whether or not they have fused instructions, which the standard library looks for when it runs.
// After 1,200 rows every limit of observations and window is passed, and trees have been replaced.
func TestOneSourceGivesOneState(t *testing.T) {
	if testing.Short() || modeltest.RaceDetector || runtime.GOARCH != "amd64" || !cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
		t.Skip("builds a program for GOAMD64=v1 and v3: not in short mode, not with the race detector, and only where both run")
	}
	type run struct{ processors, lacks string }
	first := ""
	for _, way := range []struct {
		level, tags string
		runs        []run
	}{
		{"v1", "", []run{{"1", ""}, {"8", "cpu.fma=off"}}}, {"v3", "", []run{{"8", ""}}}, {"v3", "purego", []run{{"8", ""}}},
	} {
		binary := buildDigests(t, []string{"GOAMD64=" + way.level}, "-tags", way.tags)
		for _, r := range way.runs {
			got := digests(t, []string{"GOMAXPROCS=" + r.processors, "GODEBUG=" + r.lacks}, binary, "1200")
			if first == "" {
				first = got
			} else if got != first {
				t.Errorf("%s %s %+v: %s\nwant %s", way.level, way.tags, r, got, first)
			}
		}
	}
}
