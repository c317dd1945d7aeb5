// Package prometheus_test tests the rules.
package prometheus_test

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const rules, unitTests, runbooks = "hindsight.rules.yml", "hindsight.rules.test.yml", "../../docs/runbooks.md"

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
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
	if os.Getenv("HINDSIGHT_E2E") == "" {
		t.Skip("make test-e2e runs it: promtool")
	}
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

// Every alert is tested once in each direction, and links to its section of
// docs/runbooks.md. No other section exists.
func TestEveryAlertHasATestAndARunbook(t *testing.T) {
	alerts := found(`- alert: (\w+)`, read(t, rules))
	require.True(t, len(alerts) != 0, "there are no alerts")
	assert.Equal(t, alerts, found(`alertname=\\"(\w+)\\", instance=\\"sick\\"`, read(t, unitTests)))
	text := read(t, runbooks)
	sections := regexp.MustCompile(`(?m)^## (\w+)$`).FindAllStringSubmatchIndex(text, -1)
	var titles, anchors []string
	for n, at := range sections {
		title, end := text[at[2]:at[3]], len(text)
		if n+1 < len(sections) {
			end = sections[n+1][0]
		}
		titles, anchors = append(titles, title), append(anchors, strings.ToLower(title))
		for _, want := range []string{"\n- **Look at**", "\n- **Do**"} {
			assert.True(t, strings.Count(text[at[0]:end], want) == 1, "%s: want one %q", title, want)
		}
	}
	assert.Equal(t, alerts, titles)
	named := found(`runbook_url: "{{ with \$externalLabels\.runbooks }}{{ \. }}{{ else }}docs/runbooks\.md{{ end }}#(\w+)"\n`, read(t, rules))
	assert.Equal(t, anchors, named)
}
