// Package prometheus_test tests the rules.
package prometheus_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const rules, unitTests, runbooks = "hindsight.rules.yml", "hindsight.rules.test.yml", "../../docs/runbooks"

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// found are the first groups of a pattern, sorted.
func found(pattern, text string) (names []string) {
	for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		names = append(names, match[1])
	}
	slices.Sort(names)
	return names
}

func TestPromtool(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed: the rules are not tested; it is in Debian's package prometheus")
	}
	for _, arguments := range [][]string{{"check", "rules", rules}, {"test", "rules", unitTests}} {
		if out, err := exec.CommandContext(t.Context(), promtool, arguments...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(arguments, " "), err, out)
		}
	}
}

// Every alert is tested once in each direction, and has a runbook; there is no other
// runbook.
func TestEveryAlertHasATestAndARunbook(t *testing.T) {
	alerts := found(`- alert: (\w+)`, read(t, rules))
	if len(alerts) == 0 {
		t.Fatal("there are no alerts")
	}
	if tested := found(`alertname=\\"(\w+)\\", instance=\\"sick\\"`, read(t, unitTests)); !slices.Equal(tested, alerts) {
		t.Errorf("tested are %v, want %v", tested, alerts)
	}
	if named := found(`runbook_url: docs/runbooks/(\w+)\.md`, read(t, rules)); !slices.Equal(named, alerts) {
		t.Errorf("runbooks are named for %v, want %v", named, alerts)
	}
	files, err := filepath.Glob(runbooks + "/*.md")
	if err != nil {
		t.Fatal(err)
	}
	var pages []string
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".md")
		pages = append(pages, name)
		text := read(t, file)
		for _, want := range []string{"# " + name + "\n", "\n## Look at\n", "\n## Do\n"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s has no %q", file, want)
			}
		}
	}
	if slices.Sort(pages); !slices.Equal(pages, alerts) {
		t.Errorf("there are runbooks for %v, want %v", pages, alerts)
	}
}
