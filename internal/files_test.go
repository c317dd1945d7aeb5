package internal_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// order lists the files of a package so that each uses only what is declared
// in itself and in the files before it.
func order() map[string][]string {
	return map[string][]string{
		"engine": {
			"api", "changes", "engine", "claims", "targets", "update", "replicas", "aliases", "create", "import", "delete", "restore", "read", "changed",
			"upkeep", "start",
		},
		"engine/hosted": {
			"errors", "trace", "rate", "signal", "memory", "residents", "env", "call", "journal", "pending", "snapshots", "figures", "model", "residency", "capture", "digest",
			"predict", "commit", "foreign", "writer", "observe", "export", "follow", "restore",
		},
		"engine/figures": {"info", "report", "stats", "list"},
	}
}

// nothing imports every package as an empty one: what a file uses of others
// says nothing of its place in its own.
type nothing struct{}

func (nothing) Import(path string) (*types.Package, error) {
	p := types.NewPackage(path, path[strings.LastIndexByte(path, '/')+1:])
	p.MarkComplete()
	return p, nil
}

// uses answers which file of a package uses which other, with one example of
// each.
func uses(files []*ast.File, set *token.FileSet) map[[2]string]string {
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}}
	config := types.Config{Importer: nothing{}, Error: func(error) {}}
	_, _ = config.Check("engine", set, files, info) // What is of other packages is in error.
	out := map[[2]string]string{}
	note := func(at ast.Node, used types.Object) {
		if used == nil || !used.Pos().IsValid() {
			return
		}
		from, to := set.Position(at.Pos()), set.Position(used.Pos())
		pair := [2]string{base(from.Filename), base(to.Filename)}
		if pair[0] != pair[1] {
			out[pair] = fmt.Sprintf("%s:%d uses %s", filepath.Base(from.Filename), from.Line, used.Name())
		}
	}
	for ident, used := range info.Uses {
		// Fields and locals belong to a declaration that is counted itself.
		switch v := used.(type) {
		case *types.Var:
			if v.Parent() != nil && v.Parent().Parent() == types.Universe {
				note(ident, used)
			}
		default:
			note(ident, used)
		}
	}
	return out
}

func base(file string) string { return strings.TrimSuffix(filepath.Base(file), ".go") }

// backward answers the uses that go against an order, and the files that are
// not in it.
func backward(found map[[2]string]string, ordered []string) []string {
	var out []string
	for pair, example := range found {
		from, to := slices.Index(ordered, pair[0]), slices.Index(ordered, pair[1])
		if from < to || from < 0 || to < 0 {
			out = append(out, example)
		}
	}
	slices.Sort(out)
	return out
}

func TestFilesPointOneWay(t *testing.T) {
	for name, ordered := range order() {
		set := token.NewFileSet()
		var files []*ast.File
		paths, err := filepath.Glob(filepath.Join(name, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
		}
		if len(files) != len(ordered) {
			t.Errorf("%s has %d files, %d are in its order", name, len(files), len(ordered))
		}
		found := uses(files, set)
		if len(found) < len(ordered) {
			t.Errorf("%s: %d arrows between its files: they were not read", name, len(found))
		}
		for _, use := range backward(found, ordered) {
			t.Errorf("%s: %s, which is declared in a file behind it", name, use)
		}
		t.Logf("%s: %d files, %d arrows between them", name, len(ordered), len(found))
	}
}

func TestBackwardUsesAreFound(t *testing.T) {
	set := token.NewFileSet()
	var files []*ast.File
	for name, source := range map[string]string{
		"a.go": "package p\n\ntype thing struct{ other }\n\nfunc (t *thing) up() { t.down() }\n",
		"b.go": "package p\n\nimport \"zap\"\n\ntype other struct{ l zap.Logger }\n\nfunc (o *other) down() { o.l.Info() }\n",
	} {
		file, err := parser.ParseFile(set, name, source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	found := uses(files, set)
	if got := backward(found, []string{"b", "a"}); len(got) > 0 {
		t.Errorf("in order: %q", got)
	}
	if got := backward(found, []string{"a", "b"}); len(got) != 1 || !strings.HasPrefix(got[0], "a.go:") {
		t.Errorf("against the order: %q", got)
	}
	if got := backward(found, []string{"a"}); len(got) != 1 {
		t.Errorf("a file that is not in the order: %q", got)
	}
}
