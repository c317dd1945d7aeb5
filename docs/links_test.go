// Package docs_test checks the book: its pages, their links, and the site that is made of them.
package docs_test

import (
	"flag"
	"fmt"
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

	"github.com/bufbuild/protocompile"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"hindsight/docs/reference"
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

var update = flag.Bool("update", false, "write the reference of the API anew")

// api writes the reference of the API.
type api struct {
	strings.Builder
	// said has the message that first has a field, by the line of the field.
	said map[string]protoreflect.Descriptor
}

// The reference of the API is what the proto files say.
func TestAPIReference(t *testing.T) {
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{"../api/proto", "../third_party/googleapis"}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	const directory = "hindsight/v1/"
	files, err := compiler.Compile(t.Context(), directory+"prediction.proto", directory+"model.proto", directory+"cluster.proto", directory+"spec.proto")
	require.NoError(t, err)
	a := api{said: map[string]protoreflect.Descriptor{}}
	a.WriteString(`# API

Generated from the proto files by ` + "`make reference`" + `; do not edit.

The package is ` + "`hindsight.v1`" + `. Each call has its gRPC name and its method and path in
[JSON over HTTP](../using.md#json-over-http). JSON writes ` + "`predictionId`" + ` and also reads
` + "`prediction_id`" + `. ` + "`[]`" + ` marks a list, ` + "`?`" + ` a
field whose absence differs from 0. Every request about a model has the
field ` + "`model`" + ` (string), an id or an alias; it is listed where it differs. Field numbers are in the proto files, rejections in
[errors](errors.md).

`)
	for _, file := range files {
		for n := range file.Services().Len() {
			a.service(t, file.Services().Get(n))
		}
	}
	for _, file := range files {
		fmt.Fprintf(&a, "## Messages of %s\n\n", strings.TrimPrefix(file.Path(), directory))
		for n := range file.Messages().Len() {
			a.message(file.Messages().Get(n))
		}
		for n := range file.Enums().Len() {
			a.enum(file.Enums().Get(n))
		}
	}
	assert.NoError(t, reference.Compare("reference/api.md", strings.TrimRight(a.String(), "\n")+"\n", *update))
}

// comment is what the source says before a descriptor.
func comment(d protoreflect.Descriptor) string {
	return reference.Plain(d.ParentFile().SourceLocations().ByDescriptor(d).LeadingComments)
}

// name is that of a descriptor without the package.
func name(d protoreflect.Descriptor) string {
	return strings.TrimPrefix(string(d.FullName()), string(d.ParentFile().Package())+".")
}

// link leads to a message, an enum or a call of this API, and only names others.
func link(d protoreflect.Descriptor) string {
	if d.ParentFile().Package() != "hindsight.v1" {
		return "`" + string(d.FullName()) + "`"
	}
	call := strings.TrimSuffix(strings.TrimSuffix(name(d), "Request"), "Response")
	return fmt.Sprintf("[%s](#%s)", call, strings.ReplaceAll(strings.ToLower(call), ".", ""))
}

func (a *api) service(t *testing.T, s protoreflect.ServiceDescriptor) {
	t.Helper()
	fmt.Fprintf(a, "## %s\n\n%s\n\n", s.Name(), comment(s))
	for n := range s.Methods().Len() {
		m := s.Methods().Get(n)
		fmt.Fprintf(a, "### %s\n\n", m.Name())
		if method, path := route(t, m); path != "" {
			fmt.Fprintf(a, "`%s %s`\n\n", method, path)
		}
		fmt.Fprintf(a, "%s\n\n", comment(m))
		a.half("Request", m.Input(), m.IsStreamingClient())
		a.half("Response", m.Output(), m.IsStreamingServer())
	}
}

// half writes what one side of a call sends.
func (a *api) half(title string, m protoreflect.MessageDescriptor, stream bool) {
	if stream {
		title += " stream"
	}
	if m.Fields().Len() == 0 || m.Fields().Len() == 1 && comment(m.Fields().Get(0)) == anyName {
		return
	}
	fmt.Fprintf(a, "%s:\n\n", title)
	a.fields(m)
}

// anyName is the comment of a field that the introduction explains.
const anyName = "Model id or alias."

// fields writes the fields of a message. Fields that another message has with the same words
// are only named.
func (a *api) fields(m protoreflect.MessageDescriptor) {
	var others []string
	same := map[string][]string{}
	for n := range m.Fields().Len() {
		f := m.Fields().Get(n)
		if comment(f) == anyName {
			continue
		}
		line := fmt.Sprintf("- `%s` (%s)%s\n", f.Name(), kind(f), explanation(f))
		if other := a.elsewhere(f, line); other != "" {
			if same[other] == nil {
				others = append(others, other)
			}
			same[other] = append(same[other], fmt.Sprintf("`%s`", f.Name()))
			continue
		}
		a.WriteString(line)
	}
	for _, other := range others {
		fmt.Fprintf(a, "- as in %s: %s\n", other, strings.Join(same[other], ", "))
	}
	a.WriteString("\n")
}

// pointer is the comment of a field that another message explains.
var pointer = regexp.MustCompile(`(?:^As in|: see) (\w+)\.`)

// elsewhere links to the message that explains a field of another message, empty if none does.
func (a *api) elsewhere(f protoreflect.FieldDescriptor, line string) string {
	if found := pointer.FindStringSubmatch(comment(f)); found != nil {
		if m := f.ParentFile().Messages().ByName(protoreflect.Name(found[1])); m != nil && m.Fields().ByName(f.Name()) != nil {
			return link(m)
		}
	}
	if len(line) < 60 {
		return ""
	}
	if m, ok := a.said[line]; ok {
		return link(m)
	}
	a.said[line] = f.Parent()
	return ""
}

// route is the method and the path of a call over HTTP, empty if it has none.
func route(t *testing.T, m protoreflect.MethodDescriptor) (method, path string) {
	t.Helper()
	// The compiler does not know the extension as Go's type; its bytes do.
	raw, err := proto.Marshal(m.Options())
	require.NoError(t, err)
	options := new(descriptorpb.MethodOptions)
	require.NoError(t, proto.Unmarshal(raw, options))
	rule, ok := proto.GetExtension(options, annotations.E_Http).(*annotations.HttpRule)
	if !ok || rule == nil {
		return "", ""
	}
	for verb, path := range map[string]string{
		"GET": rule.GetGet(), "POST": rule.GetPost(), "PUT": rule.GetPut(), "PATCH": rule.GetPatch(), "DELETE": rule.GetDelete(),
	} {
		if path != "" {
			return verb, path
		}
	}
	t.Fatalf("%s: a route of another kind", m.FullName())
	return "", ""
}

// message writes a message that no call sends by itself: service writes the others.
func (a *api) message(m protoreflect.MessageDescriptor) {
	if m.IsMapEntry() || strings.HasSuffix(string(m.Name()), "Request") || strings.HasSuffix(string(m.Name()), "Response") {
		return
	}
	fmt.Fprintf(a, "### %s\n\n%s\n\n", name(m), comment(m))
	a.fields(m)
	for n := range m.Messages().Len() {
		a.message(m.Messages().Get(n))
	}
	for n := range m.Enums().Len() {
		a.enum(m.Enums().Get(n))
	}
}

// explanation is the comment of a field, empty where the field's name says the same.
func explanation(f protoreflect.FieldDescriptor) string {
	text := comment(f)
	word := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(text, "The "), "Its "), ".")
	if strings.EqualFold(strings.ReplaceAll(word, " ", "_"), string(f.Name())) {
		return ""
	}
	return ": " + text
}

// kind is the type of a field.
func kind(f protoreflect.FieldDescriptor) string {
	scalar := func(f protoreflect.FieldDescriptor) string {
		switch {
		case f.Enum() != nil:
			return link(f.Enum())
		case f.Message() != nil:
			return link(f.Message())
		}
		return f.Kind().String()
	}
	switch one := f.ContainingOneof(); {
	case f.IsMap():
		return "map of " + scalar(f.MapKey()) + " to " + scalar(f.MapValue())
	case f.IsList():
		return scalar(f) + "[]"
	case f.HasOptionalKeyword():
		return scalar(f) + "?"
	case one != nil:
		return scalar(f) + ", in `" + string(one.Name()) + "`"
	}
	return scalar(f)
}

func (a *api) enum(e protoreflect.EnumDescriptor) {
	fmt.Fprintf(a, "### %s\n\n%s\n\n", name(e), comment(e))
	for n := range e.Values().Len() {
		v := e.Values().Get(n)
		fmt.Fprintf(a, "- `%s`: %s\n", v.Name(), comment(v))
	}
	a.WriteString("\n")
}

// goTest is a command that runs some tests of some packages.
var goTest = regexp.MustCompile(`go test ((?:-\S+ (?:\d+ )?)*)-run '?([^'\s]+)'?((?: \./\S*[^\s` + "`" + `.,|]|\.\.\.)+)`)

// Every "go test -run" of the book names tests of the packages that it names. The tests
// themselves run with all others.
func TestCommandsOfTests(t *testing.T) {
	found := 0
	for name := range markdown(t) {
		text, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(name)))
		require.NoError(t, err)
		for _, command := range goTest.FindAllStringSubmatch(string(text), -1) {
			found++
			pattern, err := regexp.Compile(command[2])
			if err != nil {
				t.Errorf("%s: %s: %v", name, command[0], err)
				continue
			}
			for _, packages := range strings.Fields(command[3]) {
				assert.True(t, hasTest(t, packages, pattern), "%s: %s: %s has no test of this name", name, command[0], packages)
			}
		}
	}
	assert.GreaterOrEqual(t, found, 10, "%d commands found", found)
}

// hasTest reports whether a directory, or one below ./directory/..., has a test of a name.
func hasTest(t *testing.T, packages string, name *regexp.Regexp) bool {
	t.Helper()
	directory, below := strings.CutSuffix(packages, "/...")
	directories := []string{filepath.Join("..", directory)}
	for depth := 1; below && depth < 4; depth++ {
		found, err := filepath.Glob(filepath.Join("..", directory, strings.Repeat("*/", depth)))
		require.NoError(t, err)
		directories = append(directories, found...)
	}
	for _, d := range directories {
		files, err := filepath.Glob(filepath.Join(d, "*_test.go"))
		require.NoError(t, err)
		for _, file := range files {
			source, err := os.ReadFile(filepath.Clean(file))
			require.NoError(t, err)
			for _, test := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(source, -1) {
				if name.Match(test[1]) {
					return true
				}
			}
		}
	}
	return false
}
