package web_test

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/servertest"
	"hindsight/web"
)

func TestFilesHaveThePage(t *testing.T) {
	files := web.Files()
	require.NotNil(t, files, "the page was not built: make web")
	page, err := files.Open("index.html")
	require.NoError(t, err)
	assert.NoError(t, page.Close())
}

// program finds a program that the tests in the browser need, or skips them.
func program(t *testing.T, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skipf("%s is not installed: the console is not looked at", names[0])
	return ""
}

// browserLimit is far above what the tests take, and below the limit of go test, which shows no
// output of theirs.
const browserLimit = 15 * time.Minute

// result is a line of the Test Anything Protocol.
var result = regexp.MustCompile(`^(ok|not ok) \d+ - (.*)$`)

// TestConsole looks at the console of a real server in headless Chromium. The tests are in
// the directory test; each is a subtest here.
func TestConsole(t *testing.T) {
	if os.Getenv("HINDSIGHT_E2E") == "" {
		t.Skip("make test-e2e runs it: the console in a browser")
	}
	node, chromium := program(t, "node"), program(t, "chromium", "chromium-browser")
	if _, err := os.Stat("node_modules"); err != nil {
		t.Skip("web/node_modules is absent: npm ci in web installs it; the console is not looked at")
	}
	scripts, err := filepath.Glob("test/*.test.mjs")
	require.True(t, err == nil && len(scripts) != 0, "no tests in web/test: %v", err)
	ctx, cancel := context.WithTimeout(t.Context(), browserLimit)
	defer cancel()
	server, err := servertest.Program(ctx, "..", t.TempDir())
	require.NoError(t, err)
	// A file has a server and a browser of its own, and much of its time waits for them.
	args := append([]string{"--test", "--test-concurrency=3", "--test-reporter=tap"}, scripts...)
	cmd := exec.CommandContext(ctx, node, args...)
	cmd.Env = append(os.Environ(), "HINDSIGHT_SERVER="+server, "CHROMIUM="+chromium)
	cmd.WaitDelay = 10 * time.Second // A browser that outlives node holds the output open.
	out, failed := cmd.CombinedOutput()
	count := report(t, out)
	t.Logf("%d tests in the browser", count)
	assert.True(t, failed == nil || t.Failed(), "%v\n%s", failed, out)
	assert.NotEqual(t, 0, count, out)
}

// report makes a subtest of each test of the output that failed, and answers how many tests the output has. The lines
// after a test that failed, up to the next test, say why.
func report(t *testing.T, out []byte) int {
	t.Helper()
	count, name := 0, ""
	why := map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		if found := result.FindStringSubmatch(lines.Text()); found != nil {
			count++
			if name = ""; found[1] != "ok" {
				name = found[2]
			}
		}
		if name != "" {
			why[name] += lines.Text() + "\n"
		}
	}
	require.NoError(t, lines.Err())
	for name, why := range why {
		t.Run(name, func(t *testing.T) { t.Error(why) })
	}
	return count
}
