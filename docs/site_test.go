package docs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
)

// site is what make docs writes.
type site struct {
	dir string
	// ids are those of the elements of each page.
	ids map[string]map[string]bool
}

// build makes the site by the generator of the Makefile.
func build(t *testing.T) site {
	t.Helper()
	if os.Getenv("HINDSIGHT_E2E") == "" {
		t.Skip("make test-e2e runs it: the site by its generator")
	}
	hugo, err := filepath.Abs(filepath.FromSlash("../.tools/hugo"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(hugo); err != nil {
		t.Skip("the generator of the site is not built: make docs builds it")
	}
	s := site{dir: t.TempDir(), ids: map[string]map[string]bool{}}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, hugo, "--source", "site", "--quiet", "--panicOnWarning", "--noBuildLock", "--destination", s.dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return s
}

// Every page of the book is a page of the site. Its links lead to files and elements that
// are there; it asks no other host, and has no script or style of its own, which a server
// that is careful forbids.
func TestSite(t *testing.T) {
	s := build(t)
	pages := map[string][]*html.Node{}
	err := filepath.WalkDir(s.dir, func(file string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(file) != ".html" {
			return err
		}
		text, err := os.Open(filepath.Clean(file))
		if err != nil {
			return err
		}
		defer text.Close() //nolint:errcheck // it is read
		document, err := html.Parse(text)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(s.dir, file)
		name = filepath.ToSlash(name)
		s.ids[name] = map[string]bool{"top": true, "": true}
		for node := range document.Descendants() {
			if node.Type == html.ElementNode {
				pages[name] = append(pages[name], node)
				s.ids[name][attribute(node, "id")] = true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := len(entries(t)); len(pages) < want {
		t.Errorf("%d pages of the site, want %d or more", len(pages), want)
	}
	for name, nodes := range pages {
		for _, node := range nodes {
			for _, wrong := range s.wrong(name, node) {
				t.Errorf("%s: <%s>: %s", name, node.Data, wrong)
			}
		}
	}
	s.checkIndex(t)
}

// entries are the pages of the book that are there.
func entries(t *testing.T) []string {
	t.Helper()
	var there []string
	for _, part := range book(t) {
		for _, name := range part.Pages {
			found, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(name)))
			if err != nil {
				t.Fatal(err)
			}
			there = append(there, found...)
		}
	}
	slices.Sort(there)
	return slices.Compact(there)
}

func attribute(node *html.Node, key string) string {
	for _, a := range node.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

// wrong says what is wrong with an element of a page.
func (s site) wrong(name string, node *html.Node) []string {
	var all []string
	for _, a := range node.Attr {
		switch {
		case a.Key == "style", strings.HasPrefix(a.Key, "on"):
			all = append(all, "the attribute "+a.Key)
		case a.Key == "src", a.Key == "href":
			if wrong := s.follow(name, a.Val, node.Data == "a"); wrong != "" {
				all = append(all, a.Val+": "+wrong)
			}
		}
	}
	if node.Data == "style" || node.Data == "script" && attribute(node, "src") == "" {
		all = append(all, "it is in the page")
	}
	return all
}

// follow says what is wrong with an address in a page.
func (s site) follow(from, address string, link bool) string {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return err.Error()
	case u.Host != "" && link:
		return ""
	case u.Host != "" || u.Scheme != "" || path.IsAbs(u.Path):
		return "it leads away from the site"
	}
	target := from
	if u.Path != "" {
		target = path.Join(path.Dir(from), u.Path)
	}
	if ids, page := s.ids[target]; page {
		if !ids[u.Fragment] {
			return "there is no element " + u.Fragment
		}
		return ""
	}
	if info, err := os.Stat(filepath.Join(s.dir, filepath.FromSlash(target))); err != nil || info.IsDir() {
		return "there is no file"
	}
	return ""
}

// checkIndex checks what the search reads: every page is in it, and leads somewhere.
func (s site) checkIndex(t *testing.T) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(s.dir, "search.json"))
	if err != nil {
		t.Fatal(err)
	}
	var sections []struct{ ID, Page, Heading, Text string }
	if err := json.Unmarshal(raw, &sections); err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"RMSE", "sklearn", "semicolon", "river", "Vowpal Wabbit", "Personalizer", "XGBoost"} {
		if !bytes.Contains(bytes.ToLower(raw), []byte(strings.ToLower(word))) {
			t.Errorf("the search finds nothing for %s", word)
		}
	}
	found, twice := map[string]bool{}, map[string]bool{}
	for _, section := range sections {
		name, _, _ := strings.Cut(section.ID, "#")
		found[name] = true
		if wrong := s.follow("index.html", section.ID, true); wrong != "" || twice[section.ID] || section.Page == "" {
			t.Errorf("the index of the search: %s, page %q: %s", section.ID, section.Page, wrong)
		}
		twice[section.ID] = true
		if strings.ContainsAny(section.Heading, "<>") {
			t.Errorf("the index of the search: %s: heading %q", section.ID, section.Heading)
		}
	}
	for name := range s.ids {
		if !found[name] && name != "format/index.html" && name != "reference/index.html" {
			t.Errorf("the index of the search does not have %s", name)
		}
	}
}
