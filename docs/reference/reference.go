// Package reference keeps the pages of this directory what the code says. A test beside the
// code makes the text of its page; make reference runs these tests with -update.
package reference

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Compare returns an error if a page of this directory differs from the text. The page is its path from
// the package of the test, such as "../docs/reference/errors.md". With update, Compare writes the text instead.
func Compare(page, text string, update bool) error {
	if update {
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil { //nolint:gosec // a page is for everybody
			return fmt.Errorf("write the reference: %w", err)
		}
		return nil
	}
	raw, err := os.ReadFile(filepath.Clean(page))
	if err != nil {
		return fmt.Errorf("read the reference: %w", err)
	}
	got, want := strings.Split(string(raw), "\n"), strings.Split(text, "\n")
	for i := range max(len(got), len(want)) {
		had, has := "nothing", "nothing"
		if i < len(got) {
			had = got[i]
		}
		if i < len(want) {
			has = want[i]
		}
		if had != has {
			return fmt.Errorf("docs/reference/%s is not what the code says; run: make reference\nline %d is\n%s\nand should be\n%s", filepath.Base(page), i+1, had, has)
		}
	}
	return nil
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
