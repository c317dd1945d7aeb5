// Package internal_test keeps the import graph of the module: which package
// may know which.
package internal_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "hindsight"

// edge is one import. Paths inside the module are without its name.
type edge struct {
	from, to string
	// own says that to is a package of the module.
	own bool
	// test says that a _test.go file imports.
	test bool
	// at is the place of the import, file:line.
	at string
}

// layer lists what the packages of the module that from matches may import of
// it. A package belongs to the first layer that matches, tests to none: a test
// may import what it likes, as far as rules allow. A pattern that ends in dots
// matches a package and all below it.
type layer struct {
	from string
	may  []string
}

func layers() []layer {
	learner := []string{
		"internal/model", "internal/model/codec", "internal/model/compensated", "internal/model/exponential", "internal/model/feature",
		"internal/model/kernel", "internal/model/ledger", "internal/model/loops", "internal/model/losses", "internal/model/mix",
		"internal/model/qr",
	}
	return []layer{
		{"api/openapi/finish", []string{"api/openapi", "api/proto/..."}},
		{"api/...", nil},
		{"internal/metrics", []string{"internal/engine/account/...", "internal/engine/figures"}},
		{"internal/engine/storage", nil},
		{"internal/store/...", []string{"internal/engine/storage", "internal/store/..."}},
		{"internal/cluster/command", []string{"internal/engine/storage"}},
		{"internal/cluster/replicated/logtest", []string{"internal/engine/storage"}},
		{"internal/cluster/replicated", []string{"internal/cluster/command", "internal/engine/storage"}},
		{"internal/model", nil},
		{"internal/model/codec", []string{"internal/model"}},
		{"internal/model/loops", nil},
		{"internal/model/trig", nil},
		{"internal/model/exponential", nil},
		{"internal/model/ziggurat", []string{"internal/model/exponential"}},
		{"internal/model/losses", []string{"internal/model", "internal/model/exponential"}},
		{"internal/model/qr", []string{"internal/model/codec", "internal/model/compensated", "internal/model/loops"}},
		{"internal/model/compensated", nil},
		{"internal/model/bounds", []string{"internal/model", "internal/model/codec", "internal/model/compensated"}},
		{"internal/model/moments", []string{"internal/model/compensated"}},
		{"internal/model/ledger", []string{"internal/model", "internal/model/codec", "internal/model/compensated"}},
		{"internal/model/kernel", []string{"internal/model/exponential", "internal/model/trig", "internal/model/ziggurat"}},
		{"internal/model/feature", []string{
			"internal/model", "internal/model/codec", "internal/model/exponential", "internal/model/kernel", "internal/model/loops", "internal/model/qr", "internal/model/trig",
			"internal/model/ziggurat",
		}},
		{"internal/model/awv", learner},
		{"internal/model/raker", learner},
		{"internal/model/kons", learner},
		{"internal/model/mix", []string{"internal/model/codec", "internal/model/exponential"}},
		{"internal/model/auto", append([]string{
			"internal/model/moments", "internal/model/neighbors", "internal/model/partitions", "internal/model/trees", "internal/model/trig", "internal/model/window", "internal/model/ziggurat",
		}, learner...)},
		{"internal/model/neighbors", []string{"internal/model", "internal/model/loops", "internal/model/window"}},
		{"internal/model/partitions", []string{"internal/model/codec", "internal/model/ziggurat"}},
		{"internal/model/window", []string{"internal/model", "internal/model/codec"}},
		{"internal/model/trees", []string{"internal/model", "internal/model/codec", "internal/model/window"}},
		{"internal/model/input", []string{
			"internal/model", "internal/model/codec", "internal/model/compensated", "internal/model/exponential", "internal/model/moments", "internal/model/trig",
		}},
		{"internal/model/calibration", []string{"internal/model/codec", "internal/model/exponential", "internal/model/mix"}},
		{"internal/model/classifier", []string{
			"internal/model", "internal/model/awv", "internal/model/calibration", "internal/model/codec", "internal/model/exponential",
		}},
		{"internal/model/scaling", []string{"internal/model", "internal/model/codec", "internal/model/compensated", "internal/model/moments"}},
		{"internal/model/gate", []string{"internal/model", "internal/model/codec", "internal/model/compensated"}},
		{"internal/model/catalog", append([]string{
			"internal/model/auto", "internal/model/awv", "internal/model/bounds", "internal/model/classifier", "internal/model/gate", "internal/model/input", "internal/model/kons",
			"internal/model/raker", "internal/model/scaling",
		}, learner...)},
		{"internal/model/modeltest", []string{"internal/model/..."}},
		{"internal/engine/mailbox", nil},
		{"internal/engine/record", []string{"internal/engine/storage", "internal/model", "internal/model/codec", "internal/model/input"}},
		{"internal/engine/account", []string{
			"internal/engine/account/confidence", "internal/engine/account/drift", "internal/engine/account/interval", "internal/engine/account/recent",
			"internal/model", "internal/model/codec",
		}},
		{"internal/engine/account/history", []string{"internal/engine/account", "internal/engine/account/classes", "internal/model/codec"}},
		{"internal/engine/machine", []string{"internal/engine/account/...", "internal/engine/record", "internal/model", "internal/model/codec", "internal/model/input"}},
		{"internal/engine/account/recent", []string{"internal/model/codec"}},
		{"internal/engine/account/confidence", []string{"internal/model/codec", "internal/model/exponential"}},
		{"internal/engine/account/drift", []string{"internal/model/codec"}},
		{"internal/engine/account/interval", []string{"internal/model", "internal/model/codec", "internal/model/compensated", "internal/model/exponential", "internal/model/mix"}},
		{"internal/engine/account/classes", []string{"internal/engine/account/recent", "internal/model", "internal/model/codec", "internal/model/exponential"}},
		{"internal/engine/recovery", []string{
			"internal/engine/machine", "internal/engine/record", "internal/engine/storage",
			"internal/model", "internal/model/catalog", "internal/model/codec",
		}},
		{"internal/offline/check", []string{
			"internal/engine/machine", "internal/engine/record", "internal/engine/recovery", "internal/engine/storage",
			"internal/model/catalog", "internal/model/codec",
		}},
		{"internal/offline/pitr", []string{
			"internal/engine/record", "internal/engine/recovery", "internal/engine/storage", "internal/model/catalog",
		}},
		{"internal/engine/hosted", []string{
			"internal/engine/account/...", "internal/engine/machine", "internal/engine/mailbox", "internal/engine/record", "internal/engine/recovery",
			"internal/engine/storage", "internal/model", "internal/model/codec", "internal/model/input",
		}},
		{"internal/engine/alias", []string{
			"internal/engine/hosted", "internal/engine/record", "internal/engine/recovery", "internal/engine/storage", "internal/model",
		}},
		{"internal/engine/watch", []string{"internal/engine/account/history", "internal/engine/machine", "internal/engine/record"}},
		{"internal/engine/figures", []string{
			"internal/engine/account/...", "internal/engine/hosted", "internal/engine/machine", "internal/engine/record",
			"internal/model", "internal/model/codec", "internal/model/input",
		}},
		{"internal/engine/replica", []string{
			"internal/engine/account/...", "internal/engine/hosted", "internal/engine/record", "internal/model", "internal/model/codec",
		}},
		{"internal/engine", []string{
			"internal/engine/alias", "internal/engine/figures", "internal/engine/hosted", "internal/engine/machine", "internal/engine/record",
			"internal/engine/recovery", "internal/engine/replica", "internal/engine/storage", "internal/engine/watch",
			"internal/model", "internal/model/catalog", "internal/model/codec", "internal/model/input",
		}},
		{"internal/cluster/consensus", []string{"internal/engine/storage", "internal/store"}},
		{"internal/cluster/placement", nil},
		{"internal/cluster", []string{
			"api/...", "internal/cluster/consensus", "internal/cluster/placement", "internal/cluster/replicated", "internal/engine/storage", "internal/store",
		}},
		{"internal/auth", nil},
		{"internal/rpc", []string{"api/...", "internal/auth", "internal/engine", "internal/engine/account/...", "internal/model", "internal/model/input"}},
		{"internal/gateway/...", []string{"api/...", "internal/auth", "internal/gateway/..."}},
		{"web", nil},
		{"docs/reference", nil},
		{"internal/clock", nil},
		{"cmd/server", []string{
			"api/...", "cmd/server/internal/...", "internal/auth", "internal/clock", "internal/cluster", "internal/engine", "internal/engine/account/...",
			"internal/engine/figures", "internal/engine/recovery", "internal/engine/storage", "internal/gateway", "internal/metrics", "internal/offline/...", "internal/rpc", "internal/store", "web",
		}},
		{"cmd/server/internal/access", []string{"internal/auth"}},
		{"cmd/server/internal/...", []string{"cmd/server/internal/..."}},
		{"client", []string{"api/..."}},
		{"examples/service", []string{"api/proto/...", "client"}},
		{"cmd/internal/...", []string{"api/...", "client", "cmd/internal/..."}},
		{"cmd/client/...", []string{"api/...", "client", "cmd/client/internal/...", "cmd/internal/..."}},
		// It measures learners and the store without a server.
		{"cmd/bench/internal/performance", []string{
			"api/proto/...", "client", "cmd/bench/internal/...", "cmd/internal/...", "internal/engine/storage", "internal/model", "internal/model/catalog",
			"internal/model/loops", "internal/model/qr", "internal/store",
		}},
		// It simulates servers that place groups as the server does.
		{"cmd/bench/internal/simulation", []string{"internal/cluster/placement"}},
		{"cmd/bench/...", []string{"api/...", "client", "cmd/bench/internal/...", "cmd/internal/..."}},
	}
}

// rule forbids imports, of the module or not, that a layer does not speak of.
type rule struct {
	name string
	// why is what to tell one who breaks it.
	why string
	// from and except match the packages that the rule is for.
	from, except []string
	// to matches what they must not import.
	to []string
	// tests says that it holds for test files too.
	tests bool
	// broken is an import that breaks this rule alone.
	broken [2]string
}

func rules() []rule {
	return []rule{
		{
			name: "one store",
			why:  "Pebble is an affair of internal/store; ask the store",
			from: []string{"..."}, except: []string{"internal/store/..."},
			to:     []string{"github.com/cockroachdb/..."},
			broken: [2]string{"internal/engine", "github.com/cockroachdb/pebble/v2"},
		},
		{
			name: "one toucher of the disk",
			why:  "only internal/store touches the disk; a command may do so on its user's behalf, and a test its streams",
			from: []string{"internal/..."}, except: []string{"internal/store/...", "internal/model/modeltest", "api/openapi/finish"},
			to:     []string{"os/...", "io/ioutil", "syscall"},
			broken: [2]string{"internal/rpc", "os"},
		},
		{
			name: "no templates",
			why:  "a template calls methods by name, so the linker keeps every exported method: 9 MB of the server",
			from: []string{"..."}, except: []string{"api/openapi/finish"},
			to:     []string{"html/template", "text/template"},
			broken: [2]string{"internal/gateway", "html/template"},
		},
		{
			name: "one listener",
			why:  "only internal/rpc speaks to the network, internal/gateway HTTP, and internal/cluster to other servers",
			from: []string{"internal/..."}, except: []string{"internal/rpc", "internal/gateway/...", "internal/cluster", "internal/cluster/consensus"},
			to:     []string{"net/..."},
			broken: [2]string{"internal/engine", "net/http"},
		},
		{
			name: "one translator",
			why:  "protobuf and gRPC end at internal/rpc, which translates; internal/gateway is a client of it, and internal/cluster has its own calls",
			from: []string{"internal/..."}, except: []string{"internal/rpc", "internal/gateway/...", "internal/cluster"},
			to:     []string{"google.golang.org/...", "github.com/grpc-ecosystem/..."},
			broken: [2]string{"internal/store", "google.golang.org/protobuf/proto"},
		},
		{
			name: "one log",
			why:  "Raft is an affair of internal/cluster/consensus",
			from: []string{"..."}, except: []string{"internal/cluster/consensus"},
			to:     []string{"github.com/hashicorp/..."},
			broken: [2]string{"internal/cluster", "github.com/hashicorp/raft"},
		},
		{
			name: "one set of instruments",
			why:  "only internal/metrics has instruments; declare what you tell it, cmd/server adapts",
			from: []string{"internal/..."}, except: []string{"internal/metrics"},
			to:     []string{"github.com/prometheus/..."},
			broken: [2]string{"internal/engine", "github.com/prometheus/client_golang/prometheus"},
		},
		{
			name: "pure learners",
			why:  "a learner is a state machine: it logs nothing and knows no time; randomness comes from math/rand/v2 and the spec's seed",
			from: []string{"internal/model/..."},
			to: []string{
				"log/...", "go.uber.org/...", "github.com/...", "crypto/rand", "expvar", "runtime/trace",
			},
			broken: [2]string{"internal/model/awv", "go.uber.org/zap"},
		},
		{
			name: "injected randomness",
			why:  "math/rand has a global source; use math/rand/v2 with a source of its own",
			from: []string{"..."}, to: []string{"math/rand"},
			broken: [2]string{"internal/store", "math/rand"},
		},
		{
			name: "no clock",
			why:  "a learner is a state machine and reads no clock; internal/model/input has the calendar of package time",
			from: []string{"internal/model/..."}, except: []string{"internal/model/input"}, to: []string{"time"},
			broken: [2]string{"internal/model/awv", "time"},
		},
		{
			name: "silent instruments",
			why:  "metrics hold numbers and log nothing",
			from: []string{"internal/metrics"}, to: []string{"go.uber.org/...", "log/..."},
			broken: [2]string{"internal/metrics", "log/slog"},
		},
		{
			name: "the oracles are for tests",
			why: "internal/model/modeltest, internal/store/storetest, internal/cluster/replicated/logtest and cmd/internal/authority are " +
				"imported by tests only",
			from: []string{"..."}, except: []string{"internal/model/modeltest", "internal/store/storetest", "cmd/internal/authority"},
			to: []string{
				"internal/model/modeltest", "internal/store/storetest", "internal/cluster/replicated/logtest", "cmd/internal/authority", "testing/...",
			},
			broken: [2]string{"internal/store", "testing"},
		},
		{
			name: "no drawer of figures",
			why:  "only the module in research draws figures",
			from: []string{"..."},
			to:   []string{"gonum.org/v1/plot/..."}, tests: true,
			broken: [2]string{"cmd/client/internal/cli", "gonum.org/v1/plot"},
		},
		{
			name: "the client is a client",
			why:  "the clients, and what the commands share, import the API alone, in tests too",
			from: []string{"client/...", "cmd/client/...", "cmd/internal/..."},
			to:   []string{"internal/...", "cmd/server/...", "cmd/bench/..."}, tests: true,
			broken: [2]string{"cmd/client/internal/cli", "internal/model/catalog"},
		},
	}
}

// match tells whether a pattern matches a path; "..." matches all.
func match(pattern, p string) bool {
	prefix, tree := strings.CutSuffix(pattern, "...")
	if !tree {
		return p == pattern
	}
	return strings.HasPrefix(p+"/", prefix)
}

func matchAny(patterns []string, p string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return match(pattern, p) })
}

// check answers what is wrong with a graph, one line for each breach.
func check(graph []edge) []string {
	var breaches []string
	report := func(e edge, format string, args ...any) {
		breaches = append(breaches, fmt.Sprintf("%s: %s imports %s: ", e.at, e.from, e.to)+fmt.Sprintf(format, args...))
	}
	for _, e := range graph {
		for _, r := range rules() {
			if e.test && !r.tests {
				continue
			}
			if matchAny(r.from, e.from) && !matchAny(r.except, e.from) && matchAny(r.to, e.to) {
				report(e, "%s: %s", r.name, r.why)
			}
		}
		if !e.own || e.test {
			continue
		}
		i := slices.IndexFunc(layers(), func(l layer) bool { return match(l.from, e.from) })
		switch {
		case i < 0:
			report(e, "no layer has %s: give it one in layers, beside what it may import", e.from)
		case len(layers()[i].may) == 0:
			report(e, "layers: it may import nothing of the module")
		case !matchAny(layers()[i].may, e.to):
			report(e, "layers: it may import only %s", strings.Join(layers()[i].may, ", "))
		}
	}
	return breaches
}

// readGraph reads the imports of every Go file below root, for whatever
// system it is. It parses instead of asking the go command, so that the test
// cache sees what was read.
func readGraph(root string) ([]edge, error) {
	var graph []edge
	files := token.NewFileSet()
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return enter(root, name, d)
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		relative = filepath.ToSlash(relative)
		file, err := parser.ParseFile(files, name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			to, own := strings.CutPrefix(imported, module+"/")
			from := path.Dir(relative)
			if own && to == from {
				continue // a test of a package from outside
			}
			graph = append(graph, edge{
				from: from, to: to, own: own,
				test: strings.HasSuffix(name, "_test.go"),
				at:   fmt.Sprintf("%s:%d", relative, files.Position(spec.Pos()).Line),
			})
		}
		return nil
	})
	return graph, err
}

// enter skips the directories that the go command skips.
func enter(root, name string, d fs.DirEntry) error {
	if name == root {
		return nil
	}
	if base := d.Name(); base == "testdata" || base == "vendor" || base[0] == '.' || base[0] == '_' {
		return fs.SkipDir
	}
	if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}

func TestImports(t *testing.T) {
	graph, err := readGraph("..")
	if err != nil {
		t.Fatal(err)
	}
	// Of a graph that was not found nothing is wrong.
	for _, known := range [][2]string{
		{"cmd/server", "internal/rpc"},
		{"internal/rpc", "internal/engine"},
		{"internal/engine", "internal/model/catalog"},
		{"internal/model/catalog", "internal/model/awv"},
	} {
		if !slices.ContainsFunc(graph, func(e edge) bool { return e.from == known[0] && e.to == known[1] }) {
			t.Errorf("%s does not import %s: the graph was not read, or the drawing is out of date", known[0], known[1])
		}
	}
	for _, breach := range check(graph) {
		t.Error(breach)
	}
}

// The module in research runs learners, and calls servers through the API.
func TestResearchImports(t *testing.T) {
	graph, err := readGraph("../research")
	if err != nil || len(graph) == 0 {
		t.Fatal(len(graph), err)
	}
	for _, e := range graph {
		if e.own && !matchAny([]string{"api/...", "client", "cmd/internal/...", "cmd/research/...", "internal/model/..."}, e.to) {
			t.Errorf("%s: research imports %s", e.at, e.to)
		}
	}
}

// made makes an edge of a made-up graph.
func made(from, to string) edge {
	own := matchAny([]string{"api/...", "client", "cmd/...", "internal/..."}, to)
	return edge{from: from, to: to, own: own, at: "made/up.go:7"}
}

func TestEveryRuleFindsItsBreach(t *testing.T) {
	for _, r := range rules() {
		breaches := slices.DeleteFunc(check([]edge{made(r.broken[0], r.broken[1])}), func(b string) bool {
			return strings.Contains(b, ": layers: ")
		})
		want := fmt.Sprintf("made/up.go:7: %s imports %s: %s: %s", r.broken[0], r.broken[1], r.name, r.why)
		if len(breaches) != 1 || breaches[0] != want {
			t.Errorf("rule %q\ngot  %q\nwant %q", r.name, breaches, want)
		}
		inTest := made(r.broken[0], r.broken[1])
		inTest.test = true
		if got := len(check([]edge{inTest})); (got == 1) != r.tests {
			t.Errorf("rule %q: %d breaches by a test file, holds for tests: %v", r.name, got, r.tests)
		}
	}
}

func TestLayersFindABreach(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"internal/store", "internal/engine", "may import only internal/engine/storage, internal/store/..."},
		{"internal/store/memory", "internal/engine", "may import only internal/engine/storage, internal/store/..."},
		{"internal/engine/storage", "internal/model", "may import nothing of the module"},
		{"internal/model", "internal/store", "may import nothing of the module"},
		{"internal/store", "internal/metrics", "may import only"},
		{"internal/metrics", "internal/model", "may import only"},
		{"internal/engine", "internal/metrics", "may import only"},
		{"internal/engine", "internal/model/awv", "may import only"},
		{"internal/engine", "internal/rpc", "may import only"},
		{"internal/engine", "internal/store", "may import only"},
		{"internal/engine/machine", "internal/engine/storage", "may import only"},
		{"internal/engine/mailbox", "internal/model", "may import nothing of the module"},
		{"internal/rpc", "internal/store", "may import only"},
		{"internal/rpc", "internal/model/catalog", "may import only"},
		{"internal/gateway", "internal/rpc", "may import only"},
		{"internal/model/feature", "internal/model/awv", "may import only"},
		{"internal/model/awv", "internal/model/catalog", "may import only"},
		{"internal/model/awv", "internal/model/raker", "may import only"},
		{"cmd/bench/internal/load", "internal/engine", "may import only"},
		{"cmd/bench/internal/cli", "cmd/client/internal/drive", "may import only"},
		{"internal/cluster/consensus", "internal/cluster", "may import only"},
		{"internal/cluster", "internal/engine", "may import only"},
		{"internal/util", "internal/model", "no layer has internal/util"},
	} {
		breaches := check([]edge{made(c.from, c.to)})
		if len(breaches) != 1 || !strings.Contains(breaches[0], c.want) {
			t.Errorf("%s -> %s: %q, want one with %q", c.from, c.to, breaches, c.want)
		}
	}
}

func TestAGoodGraphHasNoBreach(t *testing.T) {
	good := []edge{
		made("cmd/server", "internal/rpc"),
		made("cmd/server", "internal/metrics"),
		made("cmd/server", "net/http"),
		made("cmd/client/internal/cli", "api/proto/hindsight/v1"),
		made("cmd/client/internal/cli", "cmd/internal/command"),
		made("cmd/bench/internal/capacity", "cmd/internal/sizing"),
		made("internal/rpc", "google.golang.org/grpc"),
		made("internal/engine", "internal/engine/storage"),
		made("internal/engine", "time"),
		made("internal/store", "github.com/cockroachdb/pebble/v2/vfs"),
		made("internal/store", "os"),
		made("internal/store", "internal/engine/storage"),
		made("internal/store/memory", "internal/engine/storage"),
		made("internal/store/storetest", "testing"),
		made("internal/model/catalog", "internal/model/awv"),
		made("internal/model/awv", "internal/model/qr"),
		made("internal/model/modeltest", "testing"),
		made("internal/model/qr", "math/rand/v2"),
		made("internal/model/qr", "gonum.org/v1/gonum/mat"),
	}
	test := made("internal/engine", "internal/model/modeltest")
	test.test = true
	if breaches := check(append(good, test)); len(breaches) != 0 {
		t.Errorf("found %q", breaches)
	}
}

func TestReadGraph(t *testing.T) {
	root := t.TempDir()
	for name, content := range map[string]string{
		"internal/a/a.go":      "package a\n\nimport (\n\t\"os\"\n\n\tother \"hindsight/internal/b\"\n)\n",
		"internal/a/a_test.go": "package a_test\n\nimport _ \"hindsight/internal/a\"\nimport _ \"hindsight/internal/c\"\n",
		// Built nowhere, and read all the same.
		"internal/a/a_plan9.go":         "//go:build never\n\npackage a\n\nimport \"net\"\n",
		"internal/a/testdata/t.go":      "package t\n\nimport \"skipped\"\n",
		"internal/.hidden/h.go":         "package h\n\nimport \"skipped\"\n",
		"internal/nested/go.mod":        "module nested\n",
		"internal/nested/n.go":          "package n\n\nimport \"skipped\"\n",
		"internal/nested/deep/n.go":     "package n\n\nimport \"skipped\"\n",
		"internal/a/hindsight/notgo.md": "import \"skipped\"\n",
	} {
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	graph, err := readGraph(root)
	if err != nil {
		t.Fatal(err)
	}
	want := []edge{
		{from: "internal/a", to: "os", at: "internal/a/a.go:4"},
		{from: "internal/a", to: "internal/b", own: true, at: "internal/a/a.go:6"},
		{from: "internal/a", to: "net", at: "internal/a/a_plan9.go:5"},
		{from: "internal/a", to: "internal/c", own: true, test: true, at: "internal/a/a_test.go:4"},
	}
	if !slices.Equal(graph, want) {
		t.Errorf("got  %+v\nwant %+v", graph, want)
	}
}
