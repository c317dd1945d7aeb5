// Package internal_test checks the arithmetic of learners.
package internal_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// inexact are the functions of package math whose last bits differ between
// processors: there is assembly on some, which may choose when it runs, and Go that
// the compiler may fuse on others.
func inexact() []string {
	return []string{
		"Acos", "Acosh", "Asin", "Asinh", "Atan", "Atan2", "Atanh", "Cbrt", "Cos", "Cosh", "Erf", "Erfc", "Erfcinv", "Erfinv",
		"Exp", "Exp2", "Expm1", "Gamma", "Hypot", "J0", "J1", "Jn", "Lgamma", "Log", "Log10", "Log1p", "Log2",
		"Pow", "Pow10", "Sin", "Sincos", "Sinh", "Tan", "Tanh", "Y0", "Y1", "Yn",
	}
}

// harmless are the uses of them that no state depends on, file: function.
func harmless() map[string]string {
	const (
		figure    = "a figure of Stats or Report, which no state holds"
		rejection = "decides whether a spec or an input is accepted, before anything is learned"
		completes = "completes a spec, which holds the result"
		edge      = "answers NaN or an infinity alone"
	)
	return map[string]string{
		"model/auto/report.go: Stats":                figure,
		"model/awv/account.go: rounds":               figure,
		"model/awv/kernelawv.go: add":                figure,
		"model/catalog/kernels.go: keepsRidge":       rejection,
		"model/exponential/log.go: Log":              edge,
		"model/exponential/log.go: Log1p":            edge,
		"model/feature/nystrom.go: KernelInputLimit": rejection,
		"model/feature/taylor.go: TaylorError":       completes,
		"model/input/shift.go: index":                figure,
		"model/ledger/ledger.go: Sum":                figure,
		"model/qr/qr.go: LogDet":                     figure,
	}
}

// inexactDraws are the methods of math/rand/v2 that use them. Package ziggurat has those
// that do not.
func inexactDraws() []string { return []string{"NormFloat64", "ExpFloat64"} }

// inexactUses answers the places of a file, "name: function", that use inexact
// functions, and how: "Exp at line 3". What is called like an inexact draw is one.
func inexactUses(set *token.FileSet, name string, file *ast.File) map[string]string {
	local := ""
	for _, spec := range file.Imports {
		if path, err := strconv.Unquote(spec.Path.Value); err == nil && path == "math" {
			local = "math"
			if spec.Name != nil {
				local = spec.Name.Name
			}
		}
	}
	out := map[string]string{}
	for _, declaration := range file.Decls {
		in := "outside of functions"
		if f, ok := declaration.(*ast.FuncDecl); ok {
			in = f.Name.Name
		}
		ast.Inspect(declaration, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			p, ok := s.X.(*ast.Ident)
			if ok && p.Name == local && slices.Contains(inexact(), s.Sel.Name) || slices.Contains(inexactDraws(), s.Sel.Name) {
				out[name+": "+in] = fmt.Sprintf("%s at line %d", s.Sel.Name, set.Position(s.Pos()).Line)
			}
			return true
		})
	}
	return out
}

// A learner's state has the same bits on every processor: its arithmetic has no
// function of the standard library whose bits differ. Those that it needs are in
// internal/model/exponential, internal/model/trig and internal/model/ziggurat.
func TestStateArithmeticIsTheSameEverywhere(t *testing.T) {
	found := map[string]string{}
	read := 0
	for _, root := range []string{"model", "engine/account"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() && d.Name() == "modeltest" {
				return fs.SkipDir
			}
			if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			read++
			for place, use := range inexactUses(set, filepath.ToSlash(path), file) {
				found[place] = use
			}
			return nil
		})
		require.NoError(t, err)
	}
	require.True(t, read >= 50, "%d files were read", read)
	for place, use := range found {
		_, known := harmless()[place]
		assert.True(t, known, "internal/%s: %s: its bits differ between processors; internal/model/exponential, trig and ziggurat have the same everywhere", place, use)
	}
	for place := range harmless() {
		_, used := found[place]
		assert.True(t, used, "%s is said to be harmless and uses none of them", place)
	}
}
