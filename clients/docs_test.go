package clients_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The table of docs/reference/errors.md says what to do on each reason of the server.
func TestEveryReasonIsDocumented(t *testing.T) {
	document, err := os.ReadFile("../docs/reference/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for row := range strings.Lines(string(document)) {
		if cells := strings.Split(row, "|"); len(cells) == 6 {
			for name := range strings.SplitSeq(cells[1], ",") {
				documented[strings.Trim(name, " `")] = true
			}
		}
	}
	found := 0
	for _, source := range []struct{ files, pattern string }{
		{"../internal/rpc/*.go", `reason: +"([A-Z_]+)"`},
		{"../internal/gateway/*.go", `"([A-Z]+(?:_[A-Z]+)+|OVERLOADED)"`},
	} {
		files, err := filepath.Glob(source.files)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			text, err := os.ReadFile(filepath.Clean(name))
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range regexp.MustCompile(source.pattern).FindAllStringSubmatch(string(text), -1) {
				found++
				if !documented[match[1]] {
					t.Errorf("docs/reference/errors.md does not say what to do on %s, of %s", match[1], name)
				}
			}
		}
	}
	if found < 40 {
		t.Errorf("%d reasons found, want 40 or more: where are they now?", found)
	}
}
