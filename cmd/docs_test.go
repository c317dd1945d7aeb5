// Package cmd_test runs what the documents show.
package cmd_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/cmd/internal/child"
	"hindsight/internal/servertest"
)

// limit bounds one command.
const limit = 5 * time.Minute

// notRun has the beginnings of the commands and programs that do not run here, and why.
var notRun = []struct{ begin, why string }{
	{"make ", "a target of the Makefile; it exists"},
	{"docker ", "it asks a daemon; TestImageHasItsSources replays the build, and deploy/tools loads the compose file"},
	{"sudo ", "it changes the machine; TestPackage installs into a directory of its own"},
	{"go install ", "it asks the network"},
	{"pip install ", "it asks the network; the tests of clients/python build the package"},
	{"cd examples/node && npm ci", "it asks the network; the tests in examples run it"},
	{"go test ", "make test and make test-e2e run them; TestCommandsOfTests of docs looks for what they name"},
	{"go mod ", "TestOutsideModule of cmd/client does it"},
	{"hindsight-server --data-dir /var/lib/hindsight --cluster-address", "it takes three machines; TestThreeServersAreOneService of cmd/server starts three servers"},
}

// tested names the documents whose Python another test runs.
var tested = map[string]string{
	"clients/python/README.md": "clients/python/tests/test_readme.py",
}

// command is how a line begins that is a command.
var command = regexp.MustCompile(`^(bin/\S+|hindsight(-server|-bench)?|make|curl|grpcurl|openssl|go|pip|npm|node|python3|protoc|cd|mkdir|git|docker|systemctl|apt-get|sudo) `)

// serve is a command that starts a server.
var serve = regexp.MustCompile(`^(?:bin/)?hindsight-server((?: --\S+ \S+)*)(?: &)?$`)

// addresses are those of a server with default settings.
var addresses = regexp.MustCompile(`(localhost|127\.0\.0\.1):(50051|9464)`)

// imports is a module of others that a program in Python imports, or that hindsight needs for one
// of its modules.
var imports = regexp.MustCompile(`(?m)^(?:import |from |from hindsight\.)(pandas|sklearn)\b`)

// block is a piece of code of a document. An indented one has no language.
type block struct {
	document, language, text string
}

// blocks returns the pieces of code of a document.
func blocks(document, text string) []block {
	var found []block
	var lines []string
	end := func(language string) {
		if joined := strings.TrimSpace(strings.Join(lines, "\n")); joined != "" {
			found = append(found, block{document, language, joined + "\n"})
		}
		lines = nil
	}
	fence, blank := "", true
	for line := range strings.SplitSeq(text, "\n") {
		code, indented := strings.CutPrefix(line, "    ")
		switch {
		case fence != "" && strings.HasPrefix(line, "```"):
			end(fence[3:])
			fence = ""
		case fence != "":
			lines = append(lines, line)
		case strings.HasPrefix(line, "```"):
			end("")
			fence = line
		case indented && (blank || len(lines) > 0):
			lines = append(lines, code)
		case line == "" && len(lines) > 0:
			lines = append(lines, "")
		default:
			end("")
		}
		blank = line == ""
	}
	end("")
	return found
}

// step is a command, and what it is said to print.
type step struct {
	command, wanted string
}

// steps returns the commands of a block. The comment lines after a command are its answer.
func steps(text string) []step {
	var all []step
	open := false // The command goes on in the next line.
	for line := range strings.Lines(text) {
		switch answer, comment := strings.CutPrefix(line, "#"); {
		case open:
			all[len(all)-1].command += line
		case comment && len(all) > 0:
			all[len(all)-1].wanted += answer
			continue
		case strings.TrimSpace(line) == "":
			continue
		default:
			all = append(all, step{command: line})
		}
		quotes := strings.Count(all[len(all)-1].command, "'")
		open = strings.HasSuffix(line, "\\\n") || quotes%2 == 1
	}
	return all
}

// isCommand says whether a block has commands.
func (b block) isCommand() bool {
	for line := range strings.Lines(b.text) {
		if command.MatchString(line) {
			return b.language == "" || b.language == "sh"
		}
	}
	return b.language == "sh"
}

// reader is somebody who does what the documents say, in a directory of their own.
type reader struct {
	root, dir string
	server    *child.Server
	// data is the directory of the server.
	data string
	stop []func() error
}

// run runs a program as the reader and returns what it prints.
func (r *reader) run(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.WaitDelay = r.dir, 10*time.Second
	home := filepath.Join(r.dir, "home")
	c.Env = append(os.Environ(), "HINDSIGHT_ADDRESS="+r.server.GRPC, "HOME="+home,
		"PATH="+filepath.Join(r.dir, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"),
		"PYTHONPATH="+filepath.Join(r.root, "clients", "python"), "PYTHONDONTWRITEBYTECODE=1")
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out.String())
	}
	return out.String()
}

// localize replaces the addresses and the data directory in a text by the addresses and the data directory of the server.
func (r *reader) localize(text string) string {
	text = strings.ReplaceAll(text, "--data-dir /var/lib/hindsight ", "--data-dir "+r.data+" ")
	return addresses.ReplaceAllStringFunc(text, func(address string) string {
		if strings.HasSuffix(address, ":9464") {
			return r.server.HTTP
		}
		return r.server.GRPC
	})
}

// serve starts the server that a document starts, in another directory and on free ports.
func (r *reader) serve(t *testing.T, flags []string) {
	t.Helper()
	dir, err := os.MkdirTemp(r.dir, "data-") //nolint:usetesting // the server outlives the subtest that starts it
	require.NoError(t, err)
	for i, f := range flags {
		if i > 0 && flags[i-1] == "--audit-log" {
			flags[i] = filepath.Join(r.dir, f)
		} else if file := filepath.Join(r.dir, f); filepath.IsLocal(f) && exists(file) {
			flags[i] = file
		}
	}
	flags = append(flags, "--data-dir", dir, "--grpc-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0")
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	server, err := child.Start(ctx, filepath.Join(r.dir, "bin", "hindsight-server"), flags...)
	require.NoError(t, err)
	r.server, r.data = server, dir
	r.stop = append(r.stop, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		return server.Stop(ctx)
	})
}

// do does a command of a document and compares its answer.
func (r *reader) do(t *testing.T, s step) {
	t.Helper()
	line := strings.TrimSpace(s.command)
	for _, n := range notRun {
		if strings.HasPrefix(line, n.begin) {
			t.Logf("not run: %s: %s", line, n.why)
			return
		}
	}
	if match := serve.FindStringSubmatch(line); match != nil {
		r.serve(t, strings.Fields(match[1]))
		return
	}
	program, _, _ := strings.Cut(line, " ")
	if _, err := exec.LookPath(program); err != nil && !strings.Contains(program, "hindsight") {
		t.Skipf("%s is not installed", program)
	}
	out := r.run(t, "bash", "-e", "-o", "pipefail", "-c", r.localize(s.command))
	if s.wanted == "" {
		return
	}
	assert.True(t, answers(out, s.wanted), "%s\nprints\n%s\nand not\n%s", line, out, s.wanted)
}

// answers says whether a program's output has what a document shows of it. Spaces do not
// count, and "…" stands for anything.
func answers(out, wanted string) bool {
	bare := func(text string) string { return strings.Join(strings.Fields(text), "") }
	pattern := strings.ReplaceAll(regexp.QuoteMeta(bare(wanted)), "…", `.*?`)
	return regexp.MustCompile(pattern).MatchString(bare(out))
}

// python runs a program in Python.
func (r *reader) python(t *testing.T, b block) {
	t.Helper()
	if by, ok := tested[b.document]; ok {
		t.Logf("not run: %s runs it", by)
		return
	}
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(t.Context(), python, "-c", "import grpc").Run() == nil {
			for _, imported := range imports.FindAllStringSubmatch(b.text, -1) {
				if exec.CommandContext(t.Context(), python, "-c", "import "+imported[1]).Run() != nil {
					t.Skipf("%s is not installed: on Debian, apt-get install python3-pandas python3-sklearn", imported[1])
				}
			}
			r.compare(t, b, r.run(t, python, "-c", r.localize(b.text)))
			return
		}
	}
	t.Skip("no Python with grpcio: on Debian, apt-get install python3-grpcio")
}

// golang runs a program in Go in a module of its own.
func (r *reader) golang(t *testing.T, b block) {
	t.Helper()
	for _, n := range notRun {
		if strings.HasPrefix(b.text, n.begin) {
			t.Logf("not run: %s", n.why)
			return
		}
	}
	module := filepath.Join(r.dir, "module")
	sums, err := os.ReadFile(filepath.Join(r.root, "go.sum"))
	require.NoError(t, err)
	mod := "module outside\n\ngo 1.26\n\nrequire hindsight v0.0.0\n\nreplace hindsight => " + r.root + "\n"
	for name, text := range map[string]string{"main.go": r.localize(b.text), "go.mod": mod, "go.sum": string(sums)} {
		write(t, filepath.Join(module, name), text)
	}
	r.compare(t, b, r.run(t, "bash", "-e", "-c", "cd module && GOWORK=off GOFLAGS=\"$GOFLAGS -mod=mod\" GOCACHE="+goEnv(t, "GOCACHE")+
		" GOMODCACHE="+goEnv(t, "GOMODCACHE")+" go run ."))
}

// compare compares the output of a program with the comments at its end.
func (*reader) compare(t *testing.T, b block, out string) {
	t.Helper()
	var wanted strings.Builder
	for line := range strings.Lines(b.text) {
		for _, mark := range []string{"# ", "// "} {
			if answer, ok := strings.CutPrefix(line, mark); ok {
				wanted.WriteString(answer)
			}
		}
	}
	assert.True(t, answers(out, wanted.String()), "the program prints\n%s\nand not\n%s", out, wanted.String())
}

// json reads JSON, and lets the server check what is a spec.
func (r *reader) json(t *testing.T, b block) {
	t.Helper()
	for documents := json.NewDecoder(strings.NewReader(b.text)); ; {
		var document map[string]json.RawMessage
		err := documents.Decode(&document)
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err, b.text)
		if inputs := document["inputs"]; len(inputs) > 0 && inputs[0] == '[' {
			spec, err := json.Marshal(document)
			require.NoError(t, err)
			r.run(t, "bin/hindsight", "model", "create", "checked", "--validate-only", "--spec", string(spec))
		}
	}
}

// TestDocuments does what README and the documents show, in their order, with one server.
func TestDocuments(t *testing.T) {
	if os.Getenv("HINDSIGHT_E2E") == "" {
		t.Skip("make test-e2e runs it: every command of the documents")
	}
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	r := &reader{root: root, dir: t.TempDir()}
	write(t, filepath.Join(r.dir, "home", ".curlrc"), "fail-with-body\n") // A rejection is an error.
	for _, name := range []string{"examples", "clients", "api", "third_party"} {
		require.NoError(t, os.Symlink(filepath.Join(root, name), filepath.Join(r.dir, name)))
	}
	client := filepath.Join(r.dir, "bin", "hindsight")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", client, "./client").CombinedOutput()
	require.NoError(t, err, "build the command line\n%s", out)
	server, err := servertest.Program(t.Context(), "..", t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.Symlink(server, filepath.Join(r.dir, "bin", "hindsight-server")))
	r.serve(t, nil)
	defer func() {
		for _, stop := range r.stop {
			assert.NoError(t, stop())
		}
	}()
	t.Run("demo", func(t *testing.T) { demo(t, filepath.Join(r.dir, "bin")) })
	targets := makeTargets(t, root)
	ran := 0
	for _, document := range documents(t, root) {
		before := r.server
		for _, b := range blocks(document, read(t, filepath.Join(root, document))) {
			name, _, _ := strings.Cut(b.text, "\n")
			t.Run(document+": "+name, func(t *testing.T) {
				switch {
				case b.language == "python":
					r.python(t, b)
				case b.language == "go":
					r.golang(t, b)
				case b.text[0] == '{':
					r.json(t, b)
				case b.isCommand():
					ran++
					for _, s := range steps(b.text) {
						target, ok := strings.CutPrefix(s.command, "make ")
						assert.False(t, ok && !targets[strings.Fields(target)[0]], "the Makefile has no target for %s", s.command)
						r.do(t, s)
					}
				default: // It shows an output, a formula or files.
				}
			})
		}
		if document == "docs/tls.md" || document == "docs/security.md" { // The others are about a server without TLS and tokens.
			r.server = before
		}
	}
	assert.GreaterOrEqual(t, ran, 10, "%d blocks of commands found, want 10 or more", ran)
}

// demo is what "make demo ARGS=--keep" runs, of fewer rounds: the model learns on after
// the stream, so that its page moves, until an interrupt.
func demo(t *testing.T, bin string) {
	t.Helper()
	const rounds = 100
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	c := exec.CommandContext(ctx, filepath.Join(bin, "hindsight"), "demo", "--server", filepath.Join(bin, "hindsight-server"), "--keep", "--rounds", "100")
	c.WaitDelay = 10 * time.Second
	messages, err := c.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	moved := false
	for lines := bufio.NewScanner(messages); lines.Scan(); {
		match := regexp.MustCompile(`^.*the model learns on: .*(http://\S+/);`).FindStringSubmatch(lines.Text())
		if match == nil {
			continue
		}
		moved = learns(ctx, t, match[1]+"v1/models/demo/stats", rounds)
		assert.NoError(t, c.Process.Signal(os.Interrupt))
	}
	assert.NoError(t, c.Wait())
	assert.True(t, moved, "the model does not learn on")
}

// learns waits until a model has learned more observations than so many.
func learns(ctx context.Context, t *testing.T, url string, observations float64) bool {
	t.Helper()
	for ctx.Err() == nil {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		require.NoError(t, err)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Error(err)
			return false
		}
		var answer struct {
			Stats struct {
				Observations float64 `json:"observations,string"`
			} `json:"stats"`
		}
		err = errors.Join(json.NewDecoder(response.Body).Decode(&answer), response.Body.Close())
		if err != nil {
			t.Error(err)
			return false
		}
		if answer.Stats.Observations > observations {
			return true
		}
	}
	return false
}

// documents returns the documents for users and contributors, README first.
func documents(t *testing.T, root string) []string {
	t.Helper()
	found := []string{"README.md"}
	for _, pattern := range []string{"docs/using.md", "docs/*.md", "client/*.md", "clients/*/*.md", "examples/*/*.md", "CONTRIBUTING.md"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		for _, file := range files {
			name, err := filepath.Rel(root, file)
			require.NoError(t, err)
			if pattern != "docs/*.md" || name != filepath.FromSlash("docs/using.md") {
				found = append(found, filepath.ToSlash(name))
			}
		}
	}
	return found
}

// makeTargets returns the targets of the Makefile.
func makeTargets(t *testing.T, root string) map[string]bool {
	t.Helper()
	targets := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^\.PHONY: (\S+)$`).FindAllStringSubmatch(read(t, filepath.Join(root, "Makefile")), -1) {
		targets[match[1]] = true
	}
	return targets
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// read returns the text of a file.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Clean(name))
	require.NoError(t, err)
	return string(text)
}

// write writes a file and the directory above it.
func write(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
}

// goEnv returns a setting of the go command, which may depend on the home directory.
func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}
