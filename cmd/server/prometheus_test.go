package main_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	main "hindsight/cmd/server"
	"hindsight/docs/reference"
	"hindsight/internal/engine/account"
	"hindsight/internal/engine/account/classes"
	"hindsight/internal/engine/account/interval"
	"hindsight/internal/engine/figures"
	"hindsight/internal/metrics"
	"hindsight/internal/model/input"
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
	panels := dashboardQueries(t)
	eventually(t, "observations of a commit", func() bool {
		got, _ := m.value(t, variables.Replace(panels["hindsight: storage, Observations of a commit"][0]))
		return got != ""
	})
	for panel, queries := range panels {
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

// everyNumber shows all metrics there are.
func everyNumber(t *testing.T) prometheus.Gatherer {
	t.Helper()
	registry := prometheus.NewRegistry()
	m := must(metrics.New(registry, metrics.Options{MaxModels: 10}))(t)
	_, rejections := m.Rejections([]string{"OVERLOADED"})
	require.NoError(t, errors.Join(rejections, main.WatchAll(m, everyModel{}.Each)))
	everyModel{}.Each(func(live *figures.Live) { m.Timings(live.ID, live.Learner) })
	return registry
}

// everyModel shows a regression and a classifier, of which every number is known.
type everyModel struct{}

func (everyModel) Each(yield func(*figures.Live)) {
	regression := figures.Live{ID: "regression", Learner: "auto"}
	regression.Certified, regression.Gate.On, regression.PendingLimit = true, true, 1
	regression.SnapshotTime = time.Unix(1, 0)
	better := account.Figures{RunningMean: 1, LastLabel: 1}
	regression.Whole.Prequential, regression.Served = better, better
	regression.Recent.Observations, regression.Recent.Served = 1000, better
	regression.Intervals = []interval.Statistics{{Level: 0.9, Scored: 1000}}
	regression.Inputs = []figures.InputStatistics{{Name: "load", Statistics: input.Statistics{ShiftKnown: true}}}
	yield(&regression)
	s := new(figures.ClassStatistics)
	s.Recent.Served, s.Recent.Observations = classes.Figures{Majority: 1, Last: 1}, 1000
	yield(&figures.Live{ID: "classifier", Learner: "rlsc", ClassAccount: s})
}

// names are the metrics of the server's own that m shows, sorted.
func names(t *testing.T, m prometheus.Gatherer) []string {
	t.Helper()
	families := must(m.Gather())(t)
	var all []string
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "hindsight_") {
			all = append(all, f.GetName())
		}
	}
	return all
}

// ruleName is the name of a series that a rule records, level:metric:operation.
var ruleName = regexp.MustCompile(`\b\w+:\w+:\w+\b`)

// named are the metrics that a text names, sorted.
func named(text string) []string {
	all := regexp.MustCompile(`\bhindsight_\w+`).FindAllString(ruleName.ReplaceAllString(text, ""), -1)
	slices.Sort(all)
	return slices.Compact(all)
}

func read(t *testing.T, path string) string {
	t.Helper()
	text := must(os.ReadFile(path))(t)
	return string(text)
}

var update = flag.Bool("update", false, "write docs/reference/metrics.md")

const metricsHead = `# Metrics

Generated from what the server shows by "make reference"; do not edit. [Metrics](../metrics.md) says how to read them.
`

func TestMetricsReference(t *testing.T) {
	assert.NoError(t, reference.Compare("../../docs/reference/metrics.md", strings.ReplaceAll(metricsHead, `"`, "`")+tables(t), *update))
}

// tables are a list of the metrics of models and one of those of the server.
func tables(t *testing.T) string {
	t.Helper()
	families := must(everyNumber(t).Gather())(t)
	var rows [2]strings.Builder
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "hindsight_") {
			continue
		}
		values := map[string][]string{}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if !slices.Contains(values[l.GetName()], l.GetValue()) {
					values[l.GetName()] = append(values[l.GetName()], l.GetValue())
				}
			}
		}
		at := 1
		if values["model"] != nil {
			at = 0
		}
		delete(values, "model")
		delete(values, "learner")
		var labels []string
		for _, name := range slices.Sorted(maps.Keys(values)) {
			label := "`" + name + "`"
			if name == "kind" || name == "baseline" || name == "direction" {
				label += ": " + strings.Join(slices.Sorted(slices.Values(values[name])), ", ")
			}
			labels = append(labels, label)
		}
		kind := labels
		if f.GetType() == dto.MetricType_HISTOGRAM {
			kind = append(kind, "histogram")
		}
		name := "`" + f.GetName() + "`"
		if kind != nil {
			name += " (" + strings.Join(kind, "; ") + ")"
		}
		fmt.Fprintf(&rows[at], "- %s: %s\n", name, f.GetHelp())
	}
	return "\n## Of each model\n\n" + rows[0].String() + "\n## Of the server\n\n" + rows[1].String()
}

// The documents and the dashboards name no metric that does not exist.
func TestDocsNameMetricsThatExist(t *testing.T) {
	shown := shownNames(t)
	paths := []string{"../../docs/operating.md", "../../docs/metrics.md", "../../docs/reference/metrics.md", "../../docs/runbooks.md"}
	const dashboards = "../../deploy/grafana/dashboards/*.json"
	more, err := filepath.Glob(dashboards)
	require.True(t, err == nil && len(more) != 0, "nothing is at %s (%v)", dashboards, err)
	paths = append(paths, more...)
	for _, path := range paths {
		for _, name := range named(read(t, path)) {
			assert.True(t, slices.Contains(shown, name), "%s names %s, which the server does not show", path, name)
		}
	}
}

// shownNames are the names of the metrics and those of the series of histograms.
func shownNames(t *testing.T) []string {
	t.Helper()
	m := everyNumber(t)
	shown := names(t, m)
	families := must(m.Gather())(t)
	for _, f := range families {
		if f.GetType() == dto.MetricType_HISTOGRAM {
			shown = append(shown, f.GetName()+"_bucket", f.GetName()+"_sum", f.GetName()+"_count")
		}
	}
	return shown
}

// The alerting rules name only metrics that exist.
func TestRulesNameMetricsThatExist(t *testing.T) {
	shown := shownNames(t)
	rules := named(read(t, "../../deploy/prometheus/hindsight.rules.yml"))
	require.True(t, len(rules) != 0, "the rules name no metric")
	for _, name := range rules {
		assert.True(t, slices.Contains(shown, name), "the rules name %s, which the server does not show", name)
	}
}

// Every alert can be loaded, and says what it is, how bad and what to do.
func TestRulesAreComplete(t *testing.T) {
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Record, Expr, For string
				Labels, Annotations      map[string]string
			}
		}
	}
	decoder := yaml.NewDecoder(strings.NewReader(read(t, "../../deploy/prometheus/hindsight.rules.yml")))
	decoder.KnownFields(true)
	require.NoError(t, decoder.Decode(&file))
	seen := map[string]bool{}
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			if rule.Record != "" {
				continue
			}
			assert.False(t, seen[rule.Alert] || !strings.HasPrefix(rule.Alert, "Hindsight"), "group %s: %q is no name, or is given twice", group.Name, rule.Alert)
			seen[rule.Alert] = true
			assert.True(t, rule.Expr != "" && strings.Count(rule.Expr, "(") == strings.Count(rule.Expr, ")"), "%s: expression %q", rule.Alert, rule.Expr)
			if rule.For != "" {
				_, err := model.ParseDuration(rule.For)
				assert.NoError(t, err, rule.Alert)
			}
			s := rule.Labels["severity"]
			assert.True(t, slices.Contains([]string{"page", "ticket", "info"}, s), "%s: severity %q", rule.Alert, s)
			assert.True(t, rule.Annotations["summary"] != "" && rule.Annotations["description"] != "", "%s: annotations %q", rule.Alert, rule.Annotations)
		}
	}
	for _, want := range []string{"HindsightCertificateBroken", "HindsightWorseThanTrivial", "HindsightInputMoved", "HindsightCoverageLow", "HindsightDriftDetected"} {
		assert.True(t, seen[want], "there is no %s", want)
	}
}

// scrape asks for /metrics and decodes the answer.
func (p *process) scrape(t *testing.T, accept string) map[string]*dto.MetricFamily {
	t.Helper()
	request := must(http.NewRequestWithContext(t.Context(), http.MethodGet, p.http+"/metrics", http.NoBody))(t)
	request.Header.Set("Accept", accept)
	response := must(http.DefaultClient.Do(request))(t)
	defer func() { _ = response.Body.Close() }() // It was only read.
	require.EqualValues(t, http.StatusOK, response.StatusCode)
	if !strings.HasPrefix(response.Header.Get("Content-Type"), "application/") {
		parser := expfmt.NewTextParser(model.UTF8Validation)
		return must(parser.TextToMetricFamilies(response.Body))(t)
	}
	families := make(map[string]*dto.MetricFamily)
	decoder := expfmt.NewDecoder(response.Body, expfmt.NewFormat(expfmt.TypeProtoDelim))
	for {
		f := new(dto.MetricFamily)
		if err := decoder.Decode(f); errors.Is(err, io.EOF) {
			return families
		} else if err != nil {
			t.Fatal(err)
		}
		families[f.GetName()] = f
	}
}
