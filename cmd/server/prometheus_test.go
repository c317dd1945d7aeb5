package main_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// watcher is a running Prometheus.
type watcher struct{ url string }

// watchBy starts a Prometheus that scrapes a server each second, with the rules that are
// committed.
func watchBy(t *testing.T, program string, p *process) watcher {
	t.Helper()
	dir := t.TempDir()
	rules := must(filepath.Abs("../../deploy/prometheus/hindsight.rules.yml"))(t)
	settings := fmt.Sprintf(`{global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}, rule_files: [%q],
		scrape_configs: [{job_name: hindsight, static_configs: [{targets: [%q]}]}]}`, rules, strings.TrimPrefix(p.http, "http://"))
	file := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(file, []byte(settings), 0o600))
	// Prometheus does not tell which port it took, so that it is given one that was free.
	address := freePort(t)
	command := exec.CommandContext(t.Context(), program, "--config.file", file, "--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", address)
	command.SysProcAttr = attributes()
	var log strings.Builder
	command.Stderr = &log
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill()
		if err := command.Wait(); t.Failed() {
			t.Logf("Prometheus ended (%v); its log:\n%s", err, log.String())
		}
	})
	return watcher{"http://" + address}
}

// get reads an answer of the API into data, and reports whether it was a success.
func (m watcher) get(t *testing.T, path string, data any) error {
	t.Helper()
	request := must(http.NewRequestWithContext(t.Context(), http.MethodGet, m.url+path, http.NoBody))(t)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", response.Status, text)
	}
	return json.Unmarshal(text, data)
}

// value is the newest value of a query with one series, "" if it has none.
func (m watcher) value(t *testing.T, query string) (string, error) {
	t.Helper()
	var answer struct {
		Data struct {
			Result []struct{ Value []any }
		}
	}
	if err := m.get(t, "/api/v1/query?query="+url.QueryEscape(query), &answer); err != nil || len(answer.Data.Result) != 1 {
		return "", err
	}
	return fmt.Sprint(answer.Data.Result[0].Value[1]), nil
}

// firing are the alerts that fire.
func (m watcher) firing(t *testing.T) (names []string) {
	t.Helper()
	var answer struct {
		Data struct {
			Alerts []struct {
				Labels map[string]string
				State  string
			}
		}
	}
	require.NoError(t, m.get(t, "/api/v1/alerts", &answer))
	for _, a := range answer.Data.Alerts {
		if a.State == "firing" {
			names = append(names, a.Labels["alertname"])
		}
	}
	return names
}

// dashboardQueries are the queries of every panel of the committed dashboards, by the panel's title.
func dashboardQueries(t *testing.T) map[string][]string {
	t.Helper()
	paths, err := filepath.Glob("../../deploy/grafana/dashboards/*.json")
	require.True(t, err == nil && len(paths) != 0, "no dashboards (%v)", err)
	queries := map[string][]string{}
	for _, path := range paths {
		var dashboard struct {
			Title  string
			Panels []struct {
				Title, Type string
				Targets     []struct{ Expr string }
			}
		}
		require.NoError(t, json.Unmarshal([]byte(read(t, path)), &dashboard), path)
		for _, panel := range dashboard.Panels {
			name := dashboard.Title + ", " + panel.Title
			for _, target := range panel.Targets {
				queries[name] = append(queries[name], target.Expr)
			}
			assert.True(t, panel.Type == "row" || (panel.Title != "" && len(queries[name]) != 0), "%s: a panel without a title or a query: %q", path, name)
		}
	}
	return queries
}

// The rules record each recorded series that a panel reads.
func TestRulesRecordTheSeriesOfDashboards(t *testing.T) {
	rules, seen := read(t, "../../deploy/prometheus/hindsight.rules.yml"), 0
	for panel, queries := range dashboardQueries(t) {
		for _, name := range ruleName.FindAllString(strings.Join(queries, "\n"), -1) {
			seen++
			assert.Contains(t, rules, "record: "+name+"\n", "%v %v", panel, name)
		}
	}
	assert.NotEqual(t, 0, seen, "no panel reads a recorded series")
}

// A real Prometheus scrapes a real server. Its numbers are those of the server, it
// understands every query of every dashboard, and when the disk is full the alert fires.
func TestPrometheus(t *testing.T) {
	endToEnd(t)
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("prometheus is not installed: the server is not scraped; it is in Debian's package prometheus")
	}
	// A full disk is imitated by a limit of 2 MiB for a file.
	p := launchBy(t, t.TempDir(), []string{"/bin/sh", "-c", `ulimit -f 4096; exec "$0" "$@"`, binary})
	m := watchBy(t, program, p)
	const dimension = 50
	spec := &hindsightv1.ModelSpec{Dimension: dimension, Learner: &hindsightv1.ModelSpec_LinearAwv{LinearAwv: &hindsightv1.LinearAwv{}}}
	must(p.models.CreateModel(t.Context(), &hindsightv1.CreateModelRequest{Id: "m", Spec: spec}))(t)
	observe := func() error {
		r := &hindsightv1.ObserveBatchRequest{Model: "m"}
		for range 100 {
			r.Observations = append(r.Observations, &hindsightv1.ObserveRequest{Features: make([]float64, dimension), Target: &hindsightv1.ObserveRequest_Label{Label: 1}})
		}
		_, err := p.predictor.ObserveBatch(t.Context(), r)
		return err
	}
	require.NoError(t, observe())
	eventually(t, "100 observations of m", func() bool {
		got, _ := m.value(t, `hindsight_observations_total{model="m"}`) // It may not listen yet.
		return got == "100"
	})
	eventually(t, "one call of ObserveBatch", func() bool {
		got, _ := m.value(t, `sum(grpc_server_handled_total{grpc_method="ObserveBatch", grpc_code="OK"})`)
		return got == "1"
	})
	names := m.firing(t)
	assert.LessOrEqual(t, len(names), 0, "of a server that is well: %v", names)
	variables := strings.NewReplacer("$instance", ".*", "$model", "m", "$__rate_interval", "1m")
	for panel, queries := range dashboardQueries(t) {
		for _, query := range queries {
			assert.NoError(t, m.get(t, "/api/v1/query?query="+url.QueryEscape(variables.Replace(query)), new(any)), panel)
		}
	}
	for n := 0; observe() == nil; n++ {
		require.NotEqual(t, 200, n, "the disk does not become full")
	}
	eventually(t, "HindsightStoreFailed", func() bool { return slices.Contains(m.firing(t), "HindsightStoreFailed") })
	p.kill(t)
}
