package rpc_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/stretchr/testify/assert"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"

	"hindsight/docs/reference"
	"hindsight/internal/rpc"
)

var update = flag.Bool("update", false, "write the reference of the errors anew")

// rejection is what the reference says of a reason.
type rejection struct {
	code codes.Code
	http int
	// wait is the delay of the RetryInfo.
	wait string
	// remedy is the comment of the reason in the proto file.
	remedy string
}

// The reference of the errors has every reason of the API. The table or the gateway has each, and no other.
func TestErrorReference(t *testing.T) {
	rejections := rejectionsOfHTTP(t)
	for _, err := range rpc.Sentinels() {
		s := rpc.StatusOf(err)
		r := rejection{code: s.Code(), http: runtime.HTTPStatusFromCode(s.Code())}
		for _, detail := range s.Details() {
			if info, ok := detail.(*errdetails.RetryInfo); ok {
				r.wait = info.GetRetryDelay().AsDuration().String()
			}
		}
		rejections[reason(s)] = r // The table says more than HTTP.
	}
	remedies(t, rejections)
	var b strings.Builder
	b.WriteString(`# Errors

Generated from the proto files by ` + "`make reference`" + `; do not edit.

A rejection is a ` + "`google.rpc.Status`" + ` whose ErrorInfo has the domain ` + "`hindsight`" + `, and as reason the name of an
ErrorReason: in gRPC in the trailer ` + "`grpc-status-details-bin`" + `, in JSON in ` + "`error`" + `. Decide by the reason; messages are for
people. A BadRequest lists every wrong field. A duration is the RetryInfo. Send again with the same ids. Treat an
unknown reason by its code, and send again only with a RetryInfo. Without a reason:

- UNAVAILABLE: no server answered. Check the address; send again.
- DEADLINE_EXCEEDED: too little time, or too much load. Send again.
- UNIMPLEMENTED: the server is older than the client.
- INTERNAL: a defect; see the server's log.

| reason | gRPC, HTTP | again | what to do |
|---|---|---|---|
`)
	var answers []string
	names := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(rejections)) {
		r := rejections[name]
		again := "no"
		if r.wait != "" {
			again = "yes " + r.wait
		}
		answer := fmt.Sprintf("%s %d | %s | %s |\n", code.Code(r.code), r.http, again, r.remedy)
		if names[answer] == nil {
			answers = append(answers, answer)
		}
		names[answer] = append(names[answer], "`"+name+"`")
	}
	for _, answer := range answers {
		fmt.Fprintf(&b, "| %s | %s", strings.Join(names[answer], ", "), answer)
	}
	assert.NoError(t, reference.Compare("../../docs/reference/errors.md", b.String(), *update))
}

// remedies adds the comments of the reasons.
func remedies(t *testing.T, rejections map[string]rejection) {
	t.Helper()
	text := must(os.ReadFile("../../api/proto/hindsight/v1/error.proto"))(t)
	for _, found := range regexp.MustCompile(`((?:  // .*\n)+)  ([A-Z_]+) = [1-9]`).FindAllStringSubmatch(string(text), -1) {
		r, ok := rejections[found[2]]
		assert.True(t, ok, "no call is rejected with %s", found[2])
		words := strings.Fields(strings.ReplaceAll(strings.TrimSuffix(found[1], ".\n"), "  // ", ""))
		words[0] = strings.ToLower(words[0][:1]) + words[0][1:]
		r.remedy = strings.Join(words, " ")
		rejections[found[2]] = r
	}
	for name, r := range rejections {
		assert.NotEqual(t, "", r.remedy, name)
	}
}

// rejectionsOfHTTP are those that the gateway finds itself: the calls of reject in its source.
func rejectionsOfHTTP(t *testing.T) map[string]rejection {
	t.Helper()
	statuses, grpc := map[string]int{}, map[string]codes.Code{}
	for n := 400; n < 600; n++ {
		letters := func(c rune) rune {
			if unicode.IsLetter(c) {
				return c
			}
			return -1
		}
		statuses["Status"+strings.Map(letters, http.StatusText(n))] = n
	}
	for c := range codes.Code(17) {
		grpc[c.String()] = c
	}
	files := must(filepath.Glob("../gateway/*.go"))(t)
	found := map[string]rejection{}
	for _, name := range files {
		file := must(parser.ParseFile(token.NewFileSet(), name, nil, 0))(t)
		constants := map[string]string{}
		ast.Inspect(file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.ValueSpec: // const reason = hindsightv1.ErrorReason_…
				for i, value := range node.Values {
					constants[node.Names[i].Name] = reasonOf(value, nil)
				}
			case *ast.CallExpr:
				if f, ok := node.Fun.(*ast.Ident); !ok || f.Name != "reject" || len(node.Args) < 4 {
					return true
				}
				reason := reasonOf(node.Args[2], constants)
				code, known := grpc[selected(node.Args[1])]
				assert.True(t, reason != "" && known, "%s: a rejection that the reference cannot read", name)
				status, known := statuses[selected(node.Args[0])]
				if !known { // That of the code.
					status = runtime.HTTPStatusFromCode(code)
				}
				found[reason] = rejection{code: code, http: status}
			}
			return true
		})
	}
	assert.GreaterOrEqual(t, len(found), 8, "%d rejections of HTTP found", len(found))
	return found
}

// reasonOf is the name of a reason, or of a constant of the file.
func reasonOf(e ast.Expr, constants map[string]string) string {
	if name, ok := e.(*ast.Ident); ok {
		return constants[name.Name]
	}
	name, _ := strings.CutPrefix(selected(e), "ErrorReason_")
	return name
}

// selected is b of a.b.
func selected(e ast.Expr) string {
	if s, ok := e.(*ast.SelectorExpr); ok {
		return s.Sel.Name
	}
	return ""
}
