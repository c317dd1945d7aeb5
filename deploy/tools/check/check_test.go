// Package check_test checks the manifests of deploy with the types and the rules of the
// programs that read them.
package check_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// root is the repository.
const root = "../../.."

// read returns the text of a file of the repository.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// settings are the environment variables that the server reads.
func settings(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{"HINDSIGHT_CONFIG": true}
	table := read(t, "cmd/server/internal/config/settings.go")
	for _, row := range regexp.MustCompile(`(?m)^\t\t\{\w+, "([a-z-]+)", `).FindAllStringSubmatch(table, -1) {
		found["HINDSIGHT_"+strings.ToUpper(strings.ReplaceAll(row[1], "-", "_"))] = true
	}
	if len(found) < 20 {
		t.Fatalf("%d settings found: the table was not read", len(found))
	}
	return found
}
