package metrics_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"
)

// copied is when a copy was done.
var copied = time.Unix(1, 0)

// names are the metrics of the server's own that m shows, sorted.
func names(t *testing.T, m prometheus.Gatherer) []string {
	t.Helper()
	families, err := m.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "hindsight_") {
			all = append(all, f.GetName())
		}
	}
	return all
}

// named are the metrics that a text names, sorted.
func named(text string) []string {
	all := regexp.MustCompile(`\bhindsight_\w+`).FindAllString(text, -1)
	slices.Sort(all)
	return slices.Compact(all)
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The table of docs/operating.md has every metric and nothing else, and the
// rest of the document names no other.
func TestDocsNameEveryMetric(t *testing.T) {
	want := names(t, everyNumber(t))
	text := read(t, "../../docs/operating.md")
	_, section, found := strings.Cut(text, "\n## Metrics\n")
	if !found {
		t.Fatal("docs/operating.md has no section on metrics")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	if got := named(section); !slices.Equal(got, want) {
		t.Errorf("the table names\n%s\nand the server shows\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, name := range named(text) {
		if !slices.Contains(want, name) {
			t.Errorf("docs/operating.md names %s, which the server does not show", name)
		}
	}
}

// The alerting rules name only metrics that exist.
func TestRulesNameMetricsThatExist(t *testing.T) {
	m := everyNumber(t)
	shown := names(t, m)
	families, err := m.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetType() == dto.MetricType_HISTOGRAM {
			shown = append(shown, f.GetName()+"_bucket", f.GetName()+"_sum", f.GetName()+"_count")
		}
	}
	rules := named(read(t, "../../deploy/prometheus/hindsight.rules.yml"))
	if len(rules) == 0 {
		t.Fatal("the rules name no metric")
	}
	for _, name := range rules {
		if !slices.Contains(shown, name) {
			t.Errorf("the rules name %s, which the server does not show", name)
		}
	}
}

// Every alert can be loaded, and says what it is, how bad and what to do.
func TestRulesAreComplete(t *testing.T) {
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	decoder := yaml.NewDecoder(strings.NewReader(read(t, "../../deploy/prometheus/hindsight.rules.yml")))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			if seen[rule.Alert] || !strings.HasPrefix(rule.Alert, "Hindsight") {
				t.Errorf("group %s: %q is no name, or is given twice", group.Name, rule.Alert)
			}
			seen[rule.Alert] = true
			if len(named(rule.Expr)) == 0 || strings.Count(rule.Expr, "(") != strings.Count(rule.Expr, ")") {
				t.Errorf("%s: expression %q", rule.Alert, rule.Expr)
			}
			if rule.For != "" {
				if _, err := model.ParseDuration(rule.For); err != nil {
					t.Errorf("%s: %v", rule.Alert, err)
				}
			}
			if s := rule.Labels["severity"]; !slices.Contains([]string{"page", "ticket", "info"}, s) {
				t.Errorf("%s: severity %q", rule.Alert, s)
			}
			if rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
				t.Errorf("%s: annotations %q", rule.Alert, rule.Annotations)
			}
		}
	}
	for _, want := range []string{"HindsightCertificateBroken", "HindsightWorseThanTrivial", "HindsightClassifierWorseThanTrivial", "HindsightInputMoved", "HindsightCoverageLow", "HindsightDriftDetected"} {
		if !seen[want] {
			t.Errorf("there is no %s", want)
		}
	}
}
