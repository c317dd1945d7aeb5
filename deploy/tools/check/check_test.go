// Package check_test checks the manifests of deploy with the types and the rules of the
// programs that read them.
package check_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// root is the repository.
const root = "../../.."

// read returns the text of a file of the repository.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	require.NoError(t, err)
	return string(text)
}

// settings are the environment variables that the server reads.
func settings(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{"HINDSIGHT_CONFIG": true}
	files, err := filepath.Glob(filepath.Join(root, "cmd/server/internal/config/*.go"))
	require.NoError(t, err)
	for _, file := range files {
		table, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, row := range regexp.MustCompile(`(?m)^\t\t\{\w+, "([a-z-]+)", `).FindAllStringSubmatch(string(table), -1) {
			found["HINDSIGHT_"+strings.ToUpper(strings.ReplaceAll(row[1], "-", "_"))] = true
		}
	}
	require.True(t, len(found) >= 20, "%d settings found: the table was not read", len(found))
	return found
}

// TestPackagedSettings checks the settings that a package installs, also those that are
// comments.
func TestPackagedSettings(t *testing.T) {
	known, found := settings(t), 0
	for _, row := range regexp.MustCompile(`(?m)^#?([a-z-]+): `).FindAllStringSubmatch(read(t, "deploy/package/hindsight-server.yaml"), -1) {
		assert.True(t, known["HINDSIGHT_"+strings.ToUpper(strings.ReplaceAll(row[1], "-", "_"))], "the server has no setting %s", row[1])
		found++
	}
	assert.True(t, found >= 4, "%d settings found: the file was not read", found)
}
