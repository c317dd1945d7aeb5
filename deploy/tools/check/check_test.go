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
	files, err := filepath.Glob(filepath.Join(root, "cmd/server/internal/config/*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		table, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range regexp.MustCompile(`(?m)^\t\t\{\w+, "([a-z-]+)", `).FindAllStringSubmatch(string(table), -1) {
			found["HINDSIGHT_"+strings.ToUpper(strings.ReplaceAll(row[1], "-", "_"))] = true
		}
	}
	if len(found) < 20 {
		t.Fatalf("%d settings found: the table was not read", len(found))
	}
	return found
}

// TestPackagedSettings checks the settings that a package installs, also those that are
// comments.
func TestPackagedSettings(t *testing.T) {
	known, found := settings(t), 0
	for _, row := range regexp.MustCompile(`(?m)^#?([a-z-]+): `).FindAllStringSubmatch(read(t, "deploy/package/hindsight-server.yaml"), -1) {
		if !known["HINDSIGHT_"+strings.ToUpper(strings.ReplaceAll(row[1], "-", "_"))] {
			t.Errorf("the server has no setting %s", row[1])
		}
		found++
	}
	if found < 4 {
		t.Errorf("%d settings found: the file was not read", found)
	}
}
