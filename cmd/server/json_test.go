package main_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// The round of docs/using.md, as a reader types it.
func TestJSONRound(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	document, err := os.ReadFile("../../docs/using.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)\n## JSON over HTTP\n.*?\n```sh\n(.*?)\n```\n").FindSubmatch(document)
	if block == nil {
		t.Fatal("docs/using.md has no commands for JSON over HTTP")
	}
	p := launch(t, t.TempDir())
	script := strings.ReplaceAll(string(block[1]), "http://localhost:9464", p.http)
	if !strings.Contains(script, p.http) {
		t.Fatal("the commands call another server")
	}
	command := exec.CommandContext(t.Context(), "/bin/sh", "-e", "-c", script)
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var answers []map[string]any
	for decoder := json.NewDecoder(strings.NewReader(string(out))); decoder.More(); {
		var a map[string]any
		if err := decoder.Decode(&a); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if a["error"] != nil {
			t.Errorf("rejected: %v", a)
		}
		answers = append(answers, a)
	}
	if len(answers) != strings.Count(script, "curl ") {
		t.Errorf("%d answers to %q: %s", len(answers), script, out)
	}
	stats, err := p.models.GetModelStats(t.Context(), &hindsightv1.GetModelStatsRequest{Model: "energy"})
	if err != nil || stats.GetStats().GetObservations() != 1 {
		t.Errorf("after the round: %v, %v", stats, err)
	}
	p.refusesOtherHosts(t)
	p.terminate(t)
}

// refusesOtherHosts asks for what a page could read whose name points to this machine.
func (p *process) refusesOtherHosts(t *testing.T) {
	t.Helper()
	for _, path := range []string{"/v1/models", "/metrics", "/server.json"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.http+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = "rebound.example:9464"
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := answer.Body.Close(); err != nil || answer.StatusCode != http.StatusForbidden {
			t.Errorf("%s of another host: %s, %v", path, answer.Status, err)
		}
	}
}

// A client that never sends the rest of its body keeps no server from ending, and
// further requests are told that it ends.
func TestShutdownWithHalfARequest(t *testing.T) {
	p := launch(t, t.TempDir())
	dialer := net.Dialer{}
	connection, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(p.http, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	const body = "POST /v1/models HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
	if _, err := io.WriteString(connection, body); err != nil {
		t.Fatal(err)
	}
	// The server asks for the body: the call has begun.
	if _, err := connection.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	p.terminate(t)
}

// Over HTTP a call is counted as over gRPC, and --cors-origins lets pages call.
func TestGatewayIsCounted(t *testing.T) {
	const page = "https://page.example"
	p := launch(t, t.TempDir(), "--cors-origins", page)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.http+"/v1/models", strings.NewReader(`{"id":"m","spec":{"dimension":1}}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Origin", page)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK || response.Header.Get("Access-Control-Allow-Origin") != page {
		t.Errorf("%d %v", response.StatusCode, response.Header)
	}
	_, families := p.scrape(t, "", "text/plain", "")
	var counted strings.Builder
	for _, m := range families["grpc_server_handled_total"].GetMetric() {
		if m.GetCounter().GetValue() == 1 {
			fmt.Fprint(&counted, m.GetLabel())
		}
	}
	if !strings.Contains(counted.String(), "CreateModel") {
		t.Errorf("the metrics count %s", counted.String())
	}
	if _, err := p.models.GetModel(t.Context(), &hindsightv1.GetModelRequest{Model: "m"}); err != nil {
		t.Error(err)
	}
	p.terminate(t)
}

// Who watches a model by server-sent events sees what it learns, until the server ends.
func TestEventsOfAModel(t *testing.T) {
	p := launch(t, t.TempDir())
	p.create(t)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.http+"/v1/models/m/events", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == http.StatusNotImplemented {
		t.Skip("this server has no WatchModel")
	}
	lines := bufio.NewScanner(response.Body)
	event := func(name string) string {
		for lines.Scan() {
			if lines.Text() == "event: "+name && lines.Scan() && lines.Scan() {
				return lines.Text()
			}
		}
		t.Fatalf("the stream ended without %s: %v", name, lines.Err())
		return ""
	}
	if data := event("stats"); !strings.HasPrefix(data, `data: {"model":"m",`) || !strings.Contains(data, `"observations":"0"`) {
		t.Errorf("statistics %q", data)
	}
	p.learn(t, 0, 1)
	if data := event("outcome"); !strings.HasPrefix(data, `data: {"outcome":{"sequence":"1",`) {
		t.Errorf("an outcome %q", data)
	}
	p.terminate(t)
	for lines.Scan() {
	}
	if err := lines.Err(); err != nil {
		t.Errorf("the stream broke off: %v", err)
	}
}
