// Package examples_test runs the examples against a server.
package examples_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
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

// browser is a headless Chromium. It is driven by the DevTools protocol over pipes:
// JSON, with a zero byte at the end of each message.
type browser struct {
	to      io.Writer
	from    *bufio.Reader
	last    int
	session string
}

// openBrowser runs a browser until the test ends.
func openBrowser(t *testing.T) *browser {
	t.Helper()
	commandsRead, commandsWrite, err := os.Pipe()
	require.NoError(t, err)
	answersRead, answersWrite, err := os.Pipe()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), limit)
	command := exec.CommandContext(ctx, "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--user-data-dir="+t.TempDir(), "--remote-debugging-pipe", "about:blank")
	command.ExtraFiles, command.WaitDelay = []*os.File{commandsRead, answersWrite}, 10*time.Second
	// Wait waits until every process of the browser has closed its copy of the pipe behind Stderr: a
	// process that is left would still write to the directory.
	command.Stderr = new(bytes.Buffer)
	if err := command.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = command.Wait() // It is killed.
		for _, f := range []*os.File{commandsWrite, answersRead} {
			_ = f.Close() // A pipe that nobody reads any more.
		}
	})
	for _, f := range []*os.File{commandsRead, answersWrite} {
		if err := f.Close(); err != nil { // The browser has its own.
			t.Fatal(err)
		}
	}
	return &browser{to: commandsWrite, from: bufio.NewReader(answersRead)}
}

// call calls a method of the DevTools protocol. The end of the browser ends it.
func (b *browser) call(method string, params map[string]any, result any) error {
	b.last++
	message, err := json.Marshal(map[string]any{"id": b.last, "method": method, "params": params, "sessionId": b.session})
	if b.session == "" {
		message, err = json.Marshal(map[string]any{"id": b.last, "method": method, "params": params})
	}
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	if _, err := b.to.Write(append(message, 0)); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	for {
		text, err := b.from.ReadBytes(0)
		if err != nil {
			return fmt.Errorf("%s: the browser has ended: %w", method, err)
		}
		var answer struct {
			ID     int             `json:"id"`
			Result json.RawMessage `json:"result"`
			Error  *struct {
				Message string `json:"message"`
			} `json:"error"`
		}
		if err := json.Unmarshal(text[:len(text)-1], &answer); err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		switch {
		case answer.ID != b.last: // An event.
		case answer.Error != nil:
			return fmt.Errorf("%s: %s", method, answer.Error.Message)
		case result == nil:
			return nil
		default:
			return json.Unmarshal(answer.Result, result)
		}
	}
}

// visit opens a page in a tab of its own.
func (b *browser) visit(t *testing.T, url string) {
	t.Helper()
	b.session = ""
	var target struct {
		ID string `json:"targetId"`
	}
	require.NoError(t, b.call("Target.createTarget", map[string]any{"url": url}, &target))
	var attached struct {
		Session string `json:"sessionId"`
	}
	require.NoError(t, b.call("Target.attachToTarget", map[string]any{"targetId": target.ID, "flatten": true}, &attached))
	b.session = attached.Session
}

// await evaluates an expression in the page until it has the value.
func (b *browser) await(t *testing.T, expression, value string) {
	t.Helper()
	var seen string
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); {
		var evaluated struct {
			Result struct {
				Value any `json:"value"`
			} `json:"result"`
			Exception json.RawMessage `json:"exceptionDetails"`
		}
		// The next frame ends the wait, so that the page has time to change.
		script := "new Promise(r => setTimeout(r, 20)).then(() => " + expression + ")"
		err := b.call("Runtime.evaluate", map[string]any{"expression": script, "awaitPromise": true, "returnByValue": true}, &evaluated)
		seen = fmt.Sprint(evaluated.Result.Value, " ", err, " ", string(evaluated.Exception))
		if err == nil && evaluated.Exception == nil && fmt.Sprint(evaluated.Result.Value) == value {
			return
		}
	}
	t.Fatalf("%s is %s, want %q", expression, seen, value)
}

// decision is what the services answer to a departure.
type decision struct {
	Wait     bool
	Expected *float64
	AtMost   *float64 `json:"at_most"`
}

// The service decides and learns every trip once, though the server is killed and stays away for a while, and though
// the service is killed and its callers repeat requests.
func TestService(t *testing.T) {
	need(t)
	python := withGRPC(t)
	at, journal := free(t), filepath.Join(t.TempDir(), "journal.jsonl")
	s, startServer := restartable(t)
	startService := func() func() {
		c := exec.CommandContext(context.WithoutCancel(t.Context()), python, "service/service.py", at, journal, s.grpc)
		c.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join("..", "clients", "python"), "PYTHONDONTWRITEBYTECODE=1")
		_, kill := launch(t, c, "serving")
		return kill
	}
	survive(t, "http://"+at, s, startServer, startService, journal)
}

// withGRPC returns a Python that has grpcio.
func withGRPC(t *testing.T) string {
	t.Helper()
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(t.Context(), python, "-c", "import grpc").Run() == nil {
			return python
		}
	}
	t.Skip("no Python with grpcio: on Debian, apt-get install python3-grpcio")
	return ""
}

// survive sends trips to a service, each arrival five departures later.
func survive(t *testing.T, service string, s server, startServer, startService func() func(), journal string) {
	t.Helper()
	const trips, late = 300, 5
	rows := rowsOf(t, trips+1)
	killServer, killService := startServer(), startService()
	var decisions []decision
	send := func(n int) {
		if n < trips {
			var d decision
			post(t, service+"/departures", rows[n].departure, http.StatusOK, &d)
			decisions = append(decisions[:n], d)
		}
		if n >= late && n-late < trips {
			post(t, service+"/arrivals", rows[n-late].arrival, http.StatusOK, nil)
		}
	}
	for n := range trips + late {
		switch n {
		case 100:
			killServer()
		case 105:
			killServer = startServer()
			settled(t, service, n-late)
		case 200:
			before := decisions[n-1]
			killService()
			torn(t, journal)
			killService = startService()
			send(n - 1) // Its answer may have been lost.
			after := decisions[n-1]
			assert.True(t, *after.AtMost == *before.AtMost && after.Wait == before.Wait, "the repeated departure is answered %v, before %v", after, before)
		}
		send(n)
	}
	settled(t, service, trips)
	killService()
	startService()
	settled(t, service, trips)

	var stats struct {
		Stats struct {
			Observations int `json:",string"`
		}
	}
	get(t, s.http+"/v1/models/connections/stats", &stats)
	assert.EqualValues(t, trips, stats.Stats.Observations)
	waits, kept, blind := 0, 0, 0
	for n, d := range decisions {
		if d.AtMost == nil {
			blind++
		}
		if d.Wait {
			waits++
			if rows[n].delay <= 9 {
				kept++
			}
		}
	}
	assert.True(t, blind >= 5 && blind <= 100 && waits >= 20 && kept >= waits*85/100, "%d decisions without a forecast; %d connections wait, %d of them for long enough", blind, waits, kept)
	post(t, service+"/departures", map[string]any{"trip": "wrong", "inputs": map[string]any{"city": "Oslo"}}, http.StatusBadRequest, nil)
	post(t, service+"/arrivals", map[string]any{"trip": "unknown", "delay": 1}, http.StatusNotFound, nil)
	post(t, service+"/arrivals", map[string]any{"trip": "1", "delay": 99}, http.StatusConflict, nil)
}

// torn leaves a line without an end in a journal, as a power cut does.
func torn(t *testing.T, journal string) {
	t.Helper()
	file, err := os.OpenFile(filepath.Clean(journal), os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = file.WriteString(`{"trip": "to`)
	}
	require.NoError(t, err)
	require.NoError(t, file.Close())
}

// settled waits until a service has taken so many labels to the server.
func settled(t *testing.T, service string, want int) {
	t.Helper()
	var health map[string]int
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); <-time.After(20 * time.Millisecond) {
		if get(t, service+"/healthz", &health); health["settled"] == want {
			return
		}
	}
	t.Fatalf("health %v, want %d settled", health, want)
}

type row struct {
	departure, arrival map[string]any
	delay              float64
}

// rowsOf returns the first trips of trips.csv as requests.
func rowsOf(t *testing.T, count int) []row {
	t.Helper()
	file, err := os.Open("trips.csv")
	require.NoError(t, err)
	defer file.Close() //nolint:errcheck // it is read
	records, err := csv.NewReader(file).ReadAll()
	require.NoError(t, err)
	var rows []row
	for n, r := range records[1 : count+1] {
		id, inputs := strconv.Itoa(n), map[string]any{"at": r[0][:10] + "T" + r[0][11:] + ":00Z", "city": r[1], "rain": r[2] == "yes", "temp": nil}
		if temp, err := strconv.ParseFloat(r[3], 64); err == nil {
			inputs["temp"] = temp
		}
		delay, err := strconv.ParseFloat(r[4], 64)
		require.NoError(t, err)
		rows = append(rows, row{map[string]any{"trip": id, "inputs": inputs}, map[string]any{"trip": id, "delay": delay}, delay})
	}
	return rows
}

func post(t *testing.T, url string, body any, status int, answer any) {
	t.Helper()
	content, err := json.Marshal(body)
	require.NoError(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(content))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	exchange(t, request, status, answer)
}

func get(t *testing.T, url string, answer any) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	exchange(t, request, http.StatusOK, answer)
}

func exchange(t *testing.T, request *http.Request, status int, answer any) {
	t.Helper()
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close() //nolint:errcheck // it is read
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, status, response.StatusCode, "%v %v", request.URL, text)
	if answer != nil {
		require.NoError(t, json.Unmarshal(text, answer), "%v %v", request.URL, text)
	}
}
