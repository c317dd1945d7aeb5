package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// goTest is a command that runs some tests of some packages.
var goTest = regexp.MustCompile(`go test ((?:-\S+ (?:\d+ )?)*)-run '?([^'\s]+)'?((?: \./\S*[^\s` + "`" + `.,|]|\.\.\.)+)`)

// Every "go test -run" of the book names tests of the packages that it names. The tests
// themselves run with all others.
func TestCommandsOfTests(t *testing.T) {
	found := 0
	for name := range markdown(t) {
		text, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(name)))
		require.NoError(t, err)
		for _, command := range goTest.FindAllStringSubmatch(string(text), -1) {
			found++
			pattern, err := regexp.Compile(command[2])
			if err != nil {
				t.Errorf("%s: %s: %v", name, command[0], err)
				continue
			}
			for _, packages := range strings.Fields(command[3]) {
				assert.True(t, hasTest(t, packages, pattern), "%s: %s: %s has no test of this name", name, command[0], packages)
			}
		}
	}
	assert.GreaterOrEqual(t, found, 10, "%d commands found", found)
}

// hasTest reports whether a directory, or one below ./directory/..., has a test of a name.
func hasTest(t *testing.T, packages string, name *regexp.Regexp) bool {
	t.Helper()
	directory, below := strings.CutSuffix(packages, "/...")
	directories := []string{filepath.Join("..", directory)}
	for depth := 1; below && depth < 4; depth++ {
		found, err := filepath.Glob(filepath.Join("..", directory, strings.Repeat("*/", depth)))
		require.NoError(t, err)
		directories = append(directories, found...)
	}
	for _, d := range directories {
		files, err := filepath.Glob(filepath.Join(d, "*_test.go"))
		require.NoError(t, err)
		for _, file := range files {
			source, err := os.ReadFile(filepath.Clean(file))
			require.NoError(t, err)
			for _, test := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(source, -1) {
				if name.Match(test[1]) {
					return true
				}
			}
		}
	}
	return false
}
