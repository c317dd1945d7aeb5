package catalog_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
	// Other packages have no code of their own for arm64.
	loops := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-short", "-exec", emulator, "hindsight/internal/model/loops")
	loops.Env = append(os.Environ(), "GOARCH=arm64", "CGO_ENABLED=0")
	out, err := loops.CombinedOutput()
	require.NoError(t, err, "\n%s", out)
	assert.Equal(t, digests(t, nil, buildDigests(t, nil), "400"), digests(t, nil, emulator, buildDigests(t, []string{"GOARCH=arm64"}), "400"))
}
