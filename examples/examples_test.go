// Package examples_test runs the examples against a server.
package examples_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// limit bounds an example, and the start of a server.
const limit = 3 * time.Minute

// binary is the server, built once.
var binary string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		if os.Getenv("HINDSIGHT_E2E") == "" {
			return m.Run()
		}
		dir, err := os.MkdirTemp("", "hindsight-examples-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(dir) }()
		binary = filepath.Join(dir, "hindsight-server")
		build := exec.CommandContext(context.Background(), "go", "build", "-o", binary, "../cmd/server")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build the server: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// server is a running server.
type server struct {
	grpc, http string
}

// start runs a server until the test ends.
func start(t *testing.T, flags ...string) server {
	t.Helper()
	flags = append([]string{"--data-dir", t.TempDir(), "--grpc-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0"}, flags...)
	command := exec.CommandContext(context.WithoutCancel(t.Context()), binary, flags...)
	stderr, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	serving, ended := make(chan server, 1), make(chan string, 1)
	go func() {
		var log strings.Builder
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			log.WriteString(lines.Text() + "\n")
			var entry struct {
				Msg  string `json:"msg"`
				GRPC string `json:"grpc_address"`
				HTTP string `json:"http_address"`
			}
			if json.Unmarshal(lines.Bytes(), &entry) == nil && entry.Msg == "serving" {
				serving <- server{grpc: entry.GRPC, http: "http://" + entry.HTTP}
			}
		}
		_ = command.Wait() // It is killed.
		ended <- log.String()
	}()
	t.Cleanup(func() {
		_ = command.Process.Kill() // It may have ended.
		<-ended
	})
	select {
	case s := <-serving:
		return s
	case log := <-ended:
		ended <- log
		t.Fatalf("the server ended:\n%s", log)
	case <-time.After(limit):
		t.Fatal("the server does not serve")
	}
	return server{}
}

// run runs a command and returns what it prints.
func run(t *testing.T, dir, name string, arguments ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	command := exec.CommandContext(ctx, name, arguments...)
	command.Dir, command.WaitDelay = dir, 10*time.Second
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return string(out)
}

// need skips the test outside make test-e2e, and where a program is absent.
func need(t *testing.T, programs ...string) {
	t.Helper()
	if os.Getenv("HINDSIGHT_E2E") == "" {
		t.Skip("make test-e2e runs it: an example")
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("%s is not installed", p)
		}
	}
}

func wants(t *testing.T, out string, wanted ...string) {
	t.Helper()
	for _, w := range wanted {
		if !strings.Contains(out, w) {
			t.Errorf("the output has no %s:\n%s", w, out)
		}
	}
}

func TestCurl(t *testing.T) {
	need(t, "curl", "bash")
	out := run(t, ".", "curl/round.sh", start(t).http)
	wants(t, out, `"sequence":3`, `"duplicate":true`, `"reason":"UNKNOWN_INPUT"`, `"observations":3`)
}

func TestNode(t *testing.T) {
	need(t, "node", "npm")
	dir := install(t)
	out := run(t, filepath.Join(dir, "examples", "node"), "node", "round.mjs", start(t).grpc)
	wants(t, out, "200: predicted", "a session: 100 observations, the last is number 300", "refused: INVALID_ARGUMENT")
}

// install copies what the Node example needs, and installs its packages.
func install(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	node := filepath.Join(dir, "examples", "node")
	for _, from := range []string{"api/proto", "third_party"} {
		if err := os.CopyFS(filepath.Join(dir, from), os.DirFS(filepath.Join("..", from))); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(node, 0o750); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"round.mjs", "package.json", "package-lock.json", ".npmrc"} {
		content, err := os.ReadFile(filepath.Join("node", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(node, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	command := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries", "1")
	command.Dir, command.WaitDelay = node, 10*time.Second
	if out, err := command.CombinedOutput(); err != nil {
		t.Skipf("npm cannot install the packages of the example: %v\n%s", err, out)
	}
	return dir
}

func TestBrowser(t *testing.T) {
	need(t, "chromium")
	page := httptest.NewServer(http.FileServer(http.Dir("browser")))
	defer page.Close()
	b := openBrowser(t)
	// A page of an origin that is named may call, another one may not.
	named := start(t, "--cors-origins", page.URL)
	b.visit(t, page.URL+"/?server="+named.http)
	b.await(t, `document.getElementById("outcome").textContent`, "observation 1, loss 16")
	b.await(t, `document.getElementById("error").textContent`, "")
	b.await(t, `(document.getElementById("predict").click(), document.getElementById("observe").disabled)`, "false")
	b.await(t, `(document.getElementById("observe").click(), document.getElementById("outcome").textContent.split(",")[0])`, "observation 2")
	b.await(t, `document.getElementById("events").textContent.replace(/[0-9]+/, "N")`, "observation N")
	b.visit(t, page.URL+"/?server="+start(t).http)
	b.await(t, `document.getElementById("error").textContent.split(":")[0]`, "no answer of http")
}
