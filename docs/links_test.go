// Package docs_test checks the book: its pages, their links, and the site that is made of them.
package docs_test

import (
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

// page is a Markdown file.
type page struct {
	// links are the destinations in the order of the file; titles the headings of level one.
	links, titles []string
	// anchors are those of the headings.
	anchors map[string]bool
}

// markdown returns the Markdown files of the repository by their paths.
func markdown(t *testing.T) map[string]page {
	t.Helper()
	pages := map[string]page{}
	err := filepath.WalkDir("..", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{".git", ".tools", "bin", "data", "node_modules", "streams"}, entry.Name()) {
			return filepath.SkipDir
		}
		if entry.IsDir() || filepath.Ext(file) != ".md" {
			return nil
		}
		source, err := os.ReadFile(filepath.Clean(file))
		if err != nil {
			return err
		}
		name, err := filepath.Rel("..", file)
		pages[filepath.ToSlash(name)] = parse(t, source)
		return err
	})
	require.NoError(t, err)
	return pages
}

// embedded are the links of HTML in Markdown.
var embedded = regexp.MustCompile(`\s(?:src|href)="([^"]*)"`)

// parse reads a Markdown file as GitHub does, and the site.
func parse(t *testing.T, source []byte) page {
	t.Helper()
	p := page{anchors: map[string]bool{}}
	document := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(source))
	err := ast.Walk(document, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch node := node.(type) {
		case *ast.Link:
			p.links = append(p.links, string(node.Destination))
		case *ast.Image:
			p.links = append(p.links, string(node.Destination))
		case *ast.RawHTML:
			p.embed(node.Segments, source)
		case *ast.HTMLBlock:
			p.embed(node.Lines(), source)
		case *ast.Heading:
			title := plain(node, source)
			if node.Level == 1 {
				p.titles = append(p.titles, title)
			}
			p.anchor(title)
		}
		return ast.WalkContinue, nil
	})
	require.NoError(t, err)
	return p
}

// embed adds the links of HTML.
func (p *page) embed(lines *text.Segments, source []byte) {
	for i := range lines.Len() {
		line := lines.At(i)
		for _, link := range embedded.FindAllSubmatch(line.Value(source), -1) {
			p.links = append(p.links, string(link[1]))
		}
	}
}

// anchor adds the anchor of a heading: letters and digits in lower case, hyphens for spaces,
// and a number if another heading has it already.
func (p *page) anchor(title string) {
	var b strings.Builder
	for _, c := range strings.ToLower(strings.TrimSpace(title)) {
		switch {
		case unicode.IsLetter(c), unicode.IsNumber(c), c == '-', c == '_':
			b.WriteRune(c)
		case c == ' ':
			b.WriteByte('-')
		}
	}
	name := b.String()
	for n := 1; p.anchors[name]; n++ {
		name = b.String() + "-" + strconv.Itoa(n)
	}
	p.anchors[name] = true
}

// plain is the text of a node without its marks.
func plain(node ast.Node, source []byte) string {
	var b strings.Builder
	for child := node.FirstChild(); child != nil; child = child.NextSibling() {
		switch child := child.(type) {
		case *ast.Text:
			b.Write(child.Segment.Value(source))
		case *ast.String:
			b.Write(child.Value)
		default:
			b.WriteString(plain(child, source))
		}
	}
	return b.String()
}

// Every link between files leads to a file and a heading that are there. Links to other
// hosts are not asked.
func TestLinks(t *testing.T) {
	pages := markdown(t)
	checked := 0
	for name, p := range pages {
		for _, link := range p.links {
			wrong := follow(pages, name, link)
			assert.True(t, wrong == "", "%s: %s: %s", name, link, wrong)
			checked++
		}
	}
	assert.GreaterOrEqual(t, checked, 150, "%d links found", checked)
}

// follow says what is wrong with a link of a page; nothing if it leads somewhere.
func follow(pages map[string]page, from, link string) string {
	u, err := url.Parse(link)
	switch {
	case err != nil:
		return err.Error()
	case u.Scheme == "http" || u.Scheme == "https" || u.Scheme == "mailto":
		return ""
	case u.Scheme != "" || u.Host != "" || path.IsAbs(u.Path):
		return "it is neither a path from this file nor the address of a page in the web"
	}
	target := from
	if u.Path != "" {
		target = path.Join(path.Dir(from), u.Path)
	}
	if _, ok := pages[target]; !ok {
		if _, err := os.Stat(filepath.Join("..", filepath.FromSlash(target))); err != nil {
			return "there is no " + target
		}
	}
	if u.Fragment != "" && !pages[target].anchors[u.Fragment] {
		return target + " has no heading " + u.Fragment
	}
	return ""
}
