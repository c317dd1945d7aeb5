// Package reference keeps the pages of this directory what the code says. A test beside the
// code makes the text of its page; make reference runs these tests with -update.
package reference

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Compare fails the test if a page of this directory, such as errors.md, is not the text.
// With update it writes the text instead.
func Compare(t *testing.T, page, text string, update bool) {
	t.Helper()
	_, here, _, ok := runtime.Caller(0)
	if !ok {
		t.Fatal("the directory of the reference is not known")
	}
	name := filepath.Join(filepath.Dir(here), page)
	if update {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil { //nolint:gosec // a page is for everybody
			t.Fatal(err)
		}
		return
	}
	raw, err := os.ReadFile(filepath.Clean(name))
	if err != nil {
		t.Fatal(err)
	}
	got, want := strings.Split(string(raw), "\n"), strings.Split(text, "\n")
	for i, line := range want {
		if i >= len(got) || got[i] != line {
			had := "nothing"
			if i < len(got) {
				had = got[i]
			}
			t.Fatalf("docs/reference/%s is not what the code says; run: make reference\nline %d is\n%s\nand should be\n%s", page, i+1, had, line)
		}
	}
	if len(got) > len(want) {
		t.Fatalf("docs/reference/%s has more lines than the code says; run: make reference", page)
	}
}

// Plain writes a text of the code, which is on one or several lines, as Markdown on one line
// in which no character is a mark. It may stand in the cell of a table.
func Plain(text string) string {
	var b strings.Builder
	for n, word := range strings.Fields(text) {
		if n > 0 {
			b.WriteByte(' ')
		}
		if strings.Contains(word, "://") { // It is an example; as a link it would lead nowhere.
			bare := strings.TrimRight(word, ".,;:)")
			b.WriteString("`" + bare + "`")
			word = word[len(bare):]
		}
		b.WriteString(escape(word))
	}
	return b.String()
}

func escape(word string) string {
	return strings.NewReplacer(
		`\`, `\\`, "|", `\|`, "*", `\*`, "<", "&lt;", ">", "&gt;", "[", `\[`, "]", `\]`, "`", "\\`", "~", `\~`,
	).Replace(word)
}
