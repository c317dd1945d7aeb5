// Package examples_test runs the examples against a server.
package examples_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/servertest"
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
		if binary, err = servertest.Program(context.Background(), "..", dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
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
	lines, _ := launch(t, exec.CommandContext(context.WithoutCancel(t.Context()), binary, flags...), `"msg":"serving"`)
	var entry struct {
		GRPC string `json:"grpc_address"`
		HTTP string `json:"http_address"`
	}
	require.NoError(t, json.Unmarshal([]byte(lines), &entry))
	return server{grpc: entry.GRPC, http: "http://" + entry.HTTP}
}

// launch runs a program until the test ends or kill is called, and returns the line of stderr
// that says that the program serves.
func launch(t *testing.T, command *exec.Cmd, serving string) (line string, kill func()) {
	t.Helper()
	stderr, err := command.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	serves, ended := make(chan string, 1), make(chan string, 1)
	go func() {
		var log strings.Builder
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			log.WriteString(lines.Text() + "\n")
			if strings.Contains(lines.Text(), serving) {
				select {
				case serves <- lines.Text():
				default:
				}
			}
		}
		_ = command.Wait() // It is killed.
		ended <- log.String()
	}()
	kill = sync.OnceFunc(func() {
		_ = command.Process.Kill() // It may have ended.
		if log := <-ended; t.Failed() {
			t.Logf("%s:\n%s", command.Path, log)
		}
	})
	t.Cleanup(kill)
	select {
	case line = <-serves:
		return line, kill
	case log := <-ended:
		ended <- log
		t.Fatalf("%s ended:\n%s", command.Path, log)
	case <-time.After(limit):
		t.Fatalf("%s does not serve", command.Path)
	}
	return "", nil
}

// free returns a free address of 127.0.0.1 whose port no outgoing connection is given, so that a
// program may start there again.
func free(t *testing.T) string {
	t.Helper()
	for range 1000 {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", fmt.Sprint("127.0.0.1:", 12_000+rand.IntN(18_000)))
		if err != nil {
			continue
		}
		require.NoError(t, l.Close())
		return l.Addr().String()
	}
	t.Fatal("no port is free")
	return ""
}

// restartable starts a server at the same addresses and with the same data at each call.
func restartable(t *testing.T, flags ...string) (s server, again func() (kill func())) {
	t.Helper()
	s = server{grpc: free(t), http: free(t)}
	flags = append([]string{"--data-dir", t.TempDir(), "--grpc-address", s.grpc, "--http-address", s.http}, flags...)
	s.http = "http://" + s.http
	return s, func() func() {
		t.Helper()
		_, kill := launch(t, exec.CommandContext(context.WithoutCancel(t.Context()), binary, flags...), `"msg":"serving"`)
		return kill
	}
}

// run runs a command and returns what it prints.
func run(t *testing.T, dir, name string, arguments ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	command := exec.CommandContext(ctx, name, arguments...)
	command.Dir, command.WaitDelay = dir, 10*time.Second
	out, err := command.CombinedOutput()
	require.NoError(t, err, "%v %v", command, string(out))
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
		assert.Contains(t, out, w)
	}
}

func TestCurl(t *testing.T) {
	need(t, "curl", "bash")
	out := run(t, ".", "curl/round.sh", start(t).http)
	wants(t, out, `"sequence":"3"`, `"duplicate":true`, `"reason":"UNKNOWN_INPUT"`, `"observations":"3"`)
}

func TestNode(t *testing.T) {
	need(t, "node", "npm")
	dir := install(t)
	out := run(t, filepath.Join(dir, "examples", "node"), "node", "round.mjs", start(t).grpc)
	wants(t, out, "200: predicted", "a batch: 100 observations, the last is number 300", "rejected: INVALID_ARGUMENT")
}

// install copies what the Node example needs, and installs its packages.
func install(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	node := filepath.Join(dir, "examples", "node")
	for _, from := range []string{"api/proto", "third_party"} {
		require.NoError(t, os.CopyFS(filepath.Join(dir, from), os.DirFS(filepath.Join("..", from))))
	}
	require.NoError(t, os.MkdirAll(node, 0o750))
	for _, name := range []string{"round.mjs", "package.json", "package-lock.json", ".npmrc"} {
		content, err := os.ReadFile(filepath.Join("node", name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(node, name), content, 0o600))
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

// The page decides, and learns every trip once, though the server is killed and the page closed
// before a label is learned.
func TestBrowser(t *testing.T) {
	need(t, "chromium")
	page := httptest.NewServer(http.FileServer(http.Dir("browser")))
	defer page.Close()
	b := openBrowser(t)
	// A page of an origin that is named may call, another one may not.
	named, again := restartable(t, "--cors-origins", page.URL)
	kill := again()
	b.visit(t, page.URL+"/?server="+named.http)
	events := `document.getElementById("events").textContent`
	b.await(t, events, "0 observations")
	const learned = 60
	for n, r := range rowsOf(t, learned) {
		post(t, named.http+"/v1/models/connections:observe", map[string]any{"inputs": r.departure["inputs"], "observation_id": strconv.Itoa(n), "label": r.delay}, http.StatusOK, nil)
	}
	b.await(t, events, "60 observations")

	list, alert := `document.getElementById("trips").textContent`, `document.getElementById("error").textContent`
	depart := `document.querySelector("#departure button").click()`
	arrive := `(document.querySelector("#trips input").value = 4, document.querySelector("#trips button").click())`
	b.await(t, `(`+depart+`, true)`, "true")
	b.await(t, list+`.replace(/[0-9.]+ minutes/, "N minutes").replace(/(nobody|the connection) waits/, "X")`, "Oslo: X, at most N minutes. Arrived")
	kill()
	b.await(t, `(`+arrive+`, `+depart+`, true)`, "true")
	b.await(t, list+`.replace(/^.*minutes[.] /, "")`, "It was 4 minutes late, to be learned.Oslo: nobody waits, without a forecast. Arrived")
	b.visit(t, page.URL+"/?server="+named.http)
	b.await(t, `(`+arrive+`, document.querySelectorAll("#trips form").length)`, "0")
	kill = again()
	b.await(t, list+"+"+alert, "")
	b.await(t, events, "62 observations")
	kill()

	b.visit(t, page.URL+"/?server="+start(t).http)
	b.await(t, alert+`.replace(/127.0.0.1:[0-9]+/, "SERVER")`, "http://SERVER: Failed to fetch")
}
