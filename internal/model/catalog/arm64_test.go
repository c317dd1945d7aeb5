package catalog_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// On arm64 the loops of NEON have the bits of Go, and all learners the states that this
// processor gives. The user emulation of qemu runs both.
func TestArm64GivesTheSameState(t *testing.T) {
	if os.Getenv("HINDSIGHT_E2E") == "" {
		t.Skip("compiles for arm64 and emulates it: set HINDSIGHT_E2E=1 to run")
	}
	emulator, err := exec.LookPath("qemu-aarch64-static")
	if err != nil {
		t.Skip("no qemu-aarch64-static: install qemu-user-static to run")
	}
	binary := filepath.Join(t.TempDir(), "learn")
	for _, args := range [][]string{
		{"test", "-short", "-exec", emulator, "hindsight/internal/model/loops", "hindsight/internal/model/trig", "hindsight/internal/model/qr"},
		{"test", "-c", "-o", binary, "."},
	} {
		command := exec.CommandContext(t.Context(), "go", args...)
		command.Env = append(os.Environ(), "GOARCH=arm64", "CGO_ENABLED=0")
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("go %q: %v\n%s", args, err, out)
		}
	}
	digests := func(name string, args ...string) string {
		run := exec.CommandContext(t.Context(), name, args...)
		run.Env = append(os.Environ(), printDigests+"=400")
		out, err := run.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		return string(out)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := digests(emulator, binary), digests(self); got != want || want == "" {
		t.Errorf("%s\nwant %s", got, want)
	}
}
