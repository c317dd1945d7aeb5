package docs_test

import (
	"bytes"
	"os"
	"path"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// part is a part of the book, as nav.yaml has it.
type part struct {
	Part  string
	Pages []string
}

// book reads nav.yaml.
func book(t *testing.T) []part {
	t.Helper()
	raw, err := os.ReadFile("nav.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var parts []part
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	decoder.KnownFields(true)
	if err := decoder.Decode(&parts); err != nil {
		t.Fatal(err)
	}
	return parts
}

// Every page of docs/ has one place in the book, and the book has no other pages.
func TestEveryPageIsInTheBook(t *testing.T) {
	pages := markdown(t)
	places := map[string]int{}
	var patterns []string
	for _, part := range book(t) {
		for _, name := range part.Pages {
			if strings.Contains(name, "*") {
				patterns = append(patterns, name)
				continue
			}
			places[name]++
			if _, ok := pages[name]; !ok {
				t.Errorf("nav.yaml has %s, which is not there", name)
			}
		}
	}
	for name := range pages {
		for _, pattern := range patterns {
			if found, err := path.Match(pattern, name); err != nil {
				t.Error(err)
			} else if found && (path.Base(name) != "README.md" || places[name] == 0) {
				places[name]++
			}
		}
		if n := places[name]; n > 1 || n == 0 && strings.HasPrefix(name, "docs/") {
			t.Errorf("%s has %d places in nav.yaml, want one", name, n)
		}
	}
}

// A page begins with its title, which is the only heading of its level.
func TestEveryPageHasOneTitle(t *testing.T) {
	for name, p := range markdown(t) {
		raw, err := os.ReadFile("../" + name)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.titles) != 1 || !bytes.HasPrefix(raw, []byte("# ")) {
			t.Errorf("%s: titles %q, want one in the first line", name, p.titles)
		}
	}
}
