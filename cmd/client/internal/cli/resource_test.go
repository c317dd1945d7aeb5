package cli_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// wantRow checks that a table has a row with these words.
func wantRow(t *testing.T, table string, words ...string) {
	t.Helper()
	for line := range strings.Lines(table) {
		if slices.Equal(strings.Fields(line), words) {
			return
		}
	}
	t.Errorf("no row %q in\n%s", words, table)
}

// rejected checks that a command fails for a reason.
func rejected(t *testing.T, reason string, args ...string) {
	t.Helper()
	if r := run(t, args...); r.code != 1 || !strings.Contains(r.errors, reason+")") {
		t.Errorf("%q is not %s: %+v", args, reason, r)
	}
}

// completions are what the shell is offered after args.
func completions(t *testing.T, args ...string) []string {
	t.Helper()
	lines := strings.Fields(run(t, append([]string{"__complete"}, args...)...).out)
	return slices.DeleteFunc(lines, func(s string) bool { return strings.HasPrefix(s, ":") })
}

// On the real server the champion is followed and compared, its alias changes over, and
// what is deleted is brought back.
func TestResourcesWithTheServer(t *testing.T) {
	realServer(t)
	const spec = `{"dimension": 1, "linear_awv": {}}`
	document(t, 0, "model", "create", "first", "--spec", spec, "--label", "stage=live", "--display-name", "The first")
	if d := document(t, 0, "model", "create", "second", "--spec", spec, "--follows", "first"); d["follows"] != "first" {
		t.Errorf("the follower is %v", d)
	}
	rejected(t, "MODEL_FOLLOWS", "observe", "--model", "second", "--features", "1", "--label", "1")
	if d := document(t, 0, "alias", "set", "champion", "first", "--expected", "-"); d["model"] != "first" {
		t.Errorf("the alias is %v", d)
	}
	for i := range 20 {
		n := strconv.Itoa(i)
		document(t, 0, "observe", "--model", "champion", "--features", n, "--label", n, "--observation-id", n)
	}
	table := run(t, "model", "get", "champion").out
	wantRow(t, table, "aliases", "champion")
	wantRow(t, table, "labels", "stage=live")
	wantRow(t, table, "display", "name", "The", "first")

	// Statistics of what was learned come at once; the follower has learned the same in time.
	if r := run(t, "model", "stats", "first", "--watch", "--events", "1"); r.code != 0 || !strings.Contains(r.out, "\n20 ") {
		t.Errorf("watched %+v", r)
	}
	for tries := 0; document(t, 0, "model", "get", "second")["sequence"] != "20"; tries++ {
		if tries == 10_000 {
			t.Fatal("the follower does not learn")
		}
	}
	compared := document(t, 0, "model", "compare", "first")["comparisons"].([]any)
	if len(compared) != 2 {
		t.Fatalf("compared %v", compared)
	}
	champion, challenger := compared[0].(map[string]any), compared[1].(map[string]any)
	if champion["model"] != "first" || challenger["model"] != "second" || challenger["observations"] != "20" {
		t.Errorf("compared %v", compared)
	}

	rejected(t, "ALIAS_MISMATCH", "alias", "set", "champion", "second", "--expected", "second")
	rejected(t, "MODEL_NOT_FOUND", "alias", "set", "champion", "nobody")
	if d := document(t, 0, "alias", "set", "champion", "second", "--expected", "first"); d["previousModel"] != "first" {
		t.Errorf("the alias is %v", d)
	}
	list := run(t, "alias", "list")
	if fields := strings.Fields(list.out); list.code != 0 || len(fields) != 11 || !slices.Equal(fields[7:10], []string{"champion", "second", "first"}) {
		t.Errorf("the aliases are %+v", list)
	}
	rejected(t, "MODEL_HAS_ALIASES", "model", "delete", "second", "--yes")
	if got := completions(t, "alias", "set", ""); !slices.Equal(got, []string{"champion"}) {
		t.Errorf("aliases complete to %q", got)
	}
	if got := completions(t, "alias", "set", "champion", "s"); !slices.Equal(got, []string{"second"}) {
		t.Errorf("models complete to %q", got)
	}
	document(t, 0, "alias", "delete", "champion")
	rejected(t, "ALIAS_NOT_FOUND", "alias", "delete", "champion")

	// The figures of top are those of the statistics.
	var top map[string]any
	for _, m := range document(t, 0, "top", "--order-by", "id")["models"].([]any) {
		if m := m.(map[string]any); m["id"] == "first" {
			top = m["summary"].(map[string]any)
		}
	}
	if top["state"] != "STATE_LOADED" || top["regret"] != document(t, 0, "model", "stats", "first")["regret"] {
		t.Errorf("top shows %v", top)
	}
}

func TestUpdateAndUndeleteWithTheServer(t *testing.T) {
	realServer(t)
	m := document(t, 0, "model", "create", "m", "--spec", `{"dimension": 1, "linear_awv": {}}`, "--label", "stage=live")
	document(t, 0, "model", "create", "kept", "--spec", `{"dimension": 1, "linear_awv": {}}`)
	tag := m["etag"].(string)
	if d := document(t, 0, "model", "update", "m", "--display-name", "North", "--validate-only"); d["displayName"] != "North" {
		t.Errorf("it would be %v", d)
	}
	table := run(t, "model", "update", "m", "--etag", tag, "--without-label", "stage", "--label", "region=north,tier=2", "--annotation", "note=ours", "--label-ttl", "5m", "--max-pending-labels", "7").out
	wantRow(t, table, "labels", "region=north,", "tier=2")
	wantRow(t, table, "annotations", "note=ours")
	wantRow(t, table, "label", "ttl", "5m0s")
	wantRow(t, table, "pending", "labels", "at", "most", "7")
	if strings.Contains(table, "North") {
		t.Errorf("a request to validate alone changed it:\n%s", table)
	}
	rejected(t, "ETAG_MISMATCH", "model", "update", "m", "--etag", tag, "--display-name", "South")

	document(t, 0, "observe", "--model", "m", "--features", "1", "--label", "1")
	if r := run(t, "model", "delete", "m", "--yes"); r.code != 0 || !strings.Contains(r.out, "model restore m --undelete") {
		t.Errorf("deleted: %+v", r)
	}
	rejected(t, "MODEL_NOT_FOUND", "predict", "--model", "m", "--features", "1")
	if r := run(t, "model", "list", "--deleted"); !strings.Contains(r.out, "DELETED\n") || strings.Contains(run(t, "model", "list").out, "m ") {
		t.Errorf("the deleted model is not reported: %+v", r)
	}
	if got := completions(t, "model", "restore", ""); !slices.Equal(got, []string{"kept", "m"}) {
		t.Errorf("restore completes to %q", got)
	}
	if d := document(t, 0, "model", "restore", "m", "--undelete"); d["sequence"] != "1" || d["labels"].(map[string]any)["region"] != "north" {
		t.Errorf("brought back %v", d)
	}
	document(t, 0, "model", "delete", "m", "--yes", "--purge")
	rejected(t, "MODEL_NOT_FOUND", "model", "restore", "m", "--undelete")
}
