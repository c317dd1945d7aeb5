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
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"

	"hindsight/docs/reference"
	"hindsight/internal/rpc"
)

var update = flag.Bool("update", false, "write the reference of the errors anew")

// refusal is what the reference says of a reason.
type refusal struct {
	code codes.Code
	http int
	// wait is the delay of the RetryInfo.
	wait string
	// again and remedy are written by hand in the page.
	again, remedy string
}

// The reference of the errors has every reason of the table and of the gateway, and no other.
// Two of its columns are written by hand: whether to send again, and what to do.
func TestErrorReference(t *testing.T) {
	refusals := refusalsOfHTTP(t)
	for _, err := range rpc.Sentinels() {
		s := rpc.StatusOf(err)
		r := refusal{code: s.Code(), http: runtime.HTTPStatusFromCode(s.Code())}
		for _, detail := range s.Details() {
			if info, ok := detail.(*errdetails.RetryInfo); ok {
				r.wait = info.GetRetryDelay().AsDuration().String()
			}
		}
		refusals[reason(s)] = r // The table says more than HTTP.
	}
	remedies(t, refusals)
	var b strings.Builder
	b.WriteString(`# Errors

The columns "again" and "what to do" are written here; ` + "`make reference`" + ` writes the others.

A refusal is a ` + "`google.rpc.Status`" + ` whose ErrorInfo has the domain ` + "`hindsight`" + ` and one of these reasons: in
gRPC in the trailer ` + "`grpc-status-details-bin`" + `, in JSON in ` + "`error`" + `. Decide by the
reason; messages are for people. A BadRequest lists every wrong field. A duration is the RetryInfo. Send again
with the same ids. Treat an unknown reason by its code, and send again only with a RetryInfo. Without a reason:

- UNAVAILABLE: no server answered. Check the address; send again.
- DEADLINE_EXCEEDED: too little time, or too much load. Send again.
- UNIMPLEMENTED: the server is older than the client.
- INTERNAL: a defect; see the server's log.

| reason | gRPC, HTTP | again | what to do |
|---|---|---|---|
`)
	var answers []string
	names := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(refusals)) {
		r := refusals[name]
		if r.wait != "" {
			r.again = strings.TrimSpace(r.again + " " + r.wait)
		}
		answer := fmt.Sprintf("%s %d | %s | %s |\n", code.Code(r.code), r.http, r.again, r.remedy)
		if names[answer] == nil {
			answers = append(answers, answer)
		}
		names[answer] = append(names[answer], "`"+name+"`")
	}
	for _, answer := range answers {
		fmt.Fprintf(&b, "| %s | %s", strings.Join(names[answer], ", "), answer)
	}
	if err := reference.Compare("errors.md", b.String(), *update); err != nil {
		t.Error(err)
	}
}

// remedies adds what the page says to do.
func remedies(t *testing.T, refusals map[string]refusal) {
	t.Helper()
	text := must(os.ReadFile("../../docs/reference/errors.md"))(t)
	for row := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(row), "|")
		if len(cells) != 6 {
			continue
		}
		for name := range strings.SplitSeq(cells[1], ",") {
			name = strings.Trim(name, " `")
			if r, ok := refusals[name]; ok {
				r.again, _, _ = strings.Cut(strings.TrimSpace(cells[3]), " ")
				r.remedy = strings.TrimSpace(cells[4])
				refusals[name] = r
			}
		}
	}
	for name, r := range refusals {
		if r.again != "yes" && r.again != "no" || r.remedy == "" {
			t.Errorf("docs/reference/errors.md does not say whether to send again and what to do on %s", name)
		}
	}
}

// refusalsOfHTTP are those that the gateway finds itself: the calls of refuse in its source.
func refusalsOfHTTP(t *testing.T) map[string]refusal {
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
	found := map[string]refusal{}
	for _, name := range files {
		file := must(parser.ParseFile(token.NewFileSet(), name, nil, 0))(t)
		constants := map[string]string{}
		ast.Inspect(file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.ValueSpec: // const reason = "…"
				for i, value := range node.Values {
					constants[node.Names[i].Name] = literal(value, nil)
				}
			case *ast.CallExpr:
				if f, ok := node.Fun.(*ast.Ident); !ok || f.Name != "refuse" || len(node.Args) < 4 {
					return true
				}
				reason := literal(node.Args[2], constants)
				code, known := grpc[selected(node.Args[1])]
				if reason == "" || !known {
					t.Errorf("%s: a refusal that the reference cannot read", name)
				}
				status, known := statuses[selected(node.Args[0])]
				if !known { // That of the code.
					status = runtime.HTTPStatusFromCode(code)
				}
				found[reason] = refusal{code: code, http: status}
			}
			return true
		})
	}
	if len(found) < 8 {
		t.Errorf("%d refusals of HTTP found", len(found))
	}
	return found
}

// literal is the text of a string or of a constant of the file.
func literal(e ast.Expr, constants map[string]string) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil {
			return text
		}
	case *ast.Ident:
		return constants[e.Name]
	}
	return ""
}

// selected is b of a.b.
func selected(e ast.Expr) string {
	if s, ok := e.(*ast.SelectorExpr); ok {
		return s.Sel.Name
	}
	return ""
}
