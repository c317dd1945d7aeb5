package main_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	main "hindsight/cmd/server"
	"hindsight/docs/reference"
	"hindsight/internal/engine/account"
	"hindsight/internal/engine/account/classes"
	"hindsight/internal/engine/account/interval"
	"hindsight/internal/engine/figures"
	"hindsight/internal/metrics"
	"hindsight/internal/model/input"
)

// everyNumber shows all metrics there are.
func everyNumber(t *testing.T) prometheus.Gatherer {
	t.Helper()
	registry := prometheus.NewRegistry()
	m := must(metrics.New(registry, metrics.Options{}))(t)
	_, rejections := m.Rejections([]string{"OVERLOADED", "OTHER"})
	require.NoError(t, errors.Join(rejections, main.WatchAll(m, everyModel{})))
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
	for _, want := range []string{"HindsightCertificateBroken", "HindsightWorseThanTrivial", "HindsightClassifierWorseThanTrivial", "HindsightInputMoved", "HindsightCoverageLow", "HindsightDriftDetected"} {
		assert.True(t, seen[want], "there is no %s", want)
	}
}
