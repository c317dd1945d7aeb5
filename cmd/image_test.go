package cmd_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var buildImage = flag.Bool("image", false, "TestImageHasItsSources also builds the programs, as the Dockerfile does")

// instructions returns the instructions of the first stage of a Dockerfile.
func instructions(dockerfile string) []string {
	var found []string
	line, stages := "", 0
	for text := range strings.Lines(dockerfile) {
		if strings.HasPrefix(text, "#") {
			continue
		}
		begin, more := strings.CutSuffix(strings.TrimSpace(text), `\`)
		line += begin
		if more || line == "" {
			continue
		}
		if strings.HasPrefix(line, "FROM ") {
			stages++
		}
		if stages == 1 {
			found = append(found, line)
		}
		line = ""
	}
	return found
}

// copyContext copies what COPY of one source takes of the build context, to its place in
// the image.
func copyContext(t *testing.T, root, dir, source, destination string, ignored *patternmatcher.PatternMatcher) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(root, source), func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		inContext, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		if skip, err := ignored.MatchesOrParentMatches(inContext); err != nil || skip {
			return err
		}
		below, err := filepath.Rel(source, inContext)
		if err != nil {
			return err
		}
		to := filepath.Join(dir, destination, below)
		if destination == "./" {
			to = filepath.Join(dir, filepath.Base(source))
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		write(t, to, string(data))
		return nil
	})
	require.NoError(t, err, source)
}

// sources returns the files of the module, below dir, that the programs are built from.
func sources(t *testing.T, dir string) []string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=Dir,Standard,Module,GoFiles,SFiles,EmbedFiles", "./cmd/server", "./cmd/client")
	list.Dir = dir
	list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOWORK=off")
	var problems bytes.Buffer
	list.Stderr = &problems
	out, err := list.Output()
	require.NoError(t, err, "the programs cannot be built from what the Dockerfile copies: %v\n%s", err, problems.String())
	files := map[string]bool{}
	for packages := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			Dir                         string
			Standard                    bool
			Module                      struct{ Main bool }
			GoFiles, SFiles, EmbedFiles []string
		}
		if err := packages.Decode(&p); errors.Is(err, io.EOF) {
			return slices.Sorted(maps.Keys(files))
		} else if err != nil {
			t.Fatal(err)
		}
		if p.Standard || !p.Module.Main {
			continue
		}
		below, err := filepath.Rel(dir, p.Dir)
		require.NoError(t, err)
		for _, file := range slices.Concat(p.GoFiles, p.SFiles, p.EmbedFiles) {
			files[path.Join(filepath.ToSlash(below), filepath.ToSlash(file))] = true
		}
	}
}

// TestVersion checks that the image and the changelog have the version that make and Python read.
func TestVersion(t *testing.T) {
	_, version, _ := strings.Cut(read(t, "../clients/python/hindsight/_version.py"), `VERSION = "`)
	version, _, _ = strings.Cut(version, `"`)
	for file, lines := range map[string]int{"../Dockerfile": 2, "../CHANGELOG.md": 1} {
		line := map[string]string{"../Dockerfile": "\nARG VERSION=", "../CHANGELOG.md": "\n## Unreleased: "}[file] + version + "\n"
		n := strings.Count(read(t, file), line)
		assert.True(t, n == lines && version != "", "%s has the version %q %d times, want %d", file, version, n, lines)
	}
}

// TestImageHasItsSources replays the first stage of the Dockerfile on exactly the files
// that it copies: they are those that the repository builds the programs from. With
// -image it also runs the stage's commands, and the server that they build.
func TestImageHasItsSources(t *testing.T) {
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	patterns, err := ignorefile.ReadAll(strings.NewReader(read(t, filepath.Join(root, ".dockerignore"))))
	require.NoError(t, err)
	ignored, err := patternmatcher.New(patterns)
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "src")
	var commands []string
	for _, line := range instructions(read(t, filepath.Join(root, "Dockerfile"))) {
		words := strings.Fields(line)
		switch words[0] {
		case "COPY":
			last := len(words) - 1
			for _, source := range words[1:last] {
				copyContext(t, root, dir, source, words[last], ignored)
			}
		case "RUN":
			commands = append(commands, strings.Join(slices.DeleteFunc(words[1:], func(word string) bool {
				return strings.HasPrefix(word, "--mount=")
			}), " "))
		}
	}
	assert.Len(t, commands, 2)
	tree, image := sources(t, root), sources(t, dir)
	assert.Equal(t, image, tree)
	assert.GreaterOrEqual(t, len(tree), 100, "the programs have %d files: they were not found", len(tree))
	if !*buildImage {
		return
	}
	out := filepath.Join(filepath.Dir(dir), "out")
	for _, line := range commands {
		run := exec.CommandContext(t.Context(), "sh", "-e", "-c", strings.ReplaceAll(line, " /out", " "+out))
		run.Dir = dir
		run.Env = append(os.Environ(), "VERSION=v0.0.0-replayed", "GOWORK=off")
		text, err := run.CombinedOutput()
		require.NoError(t, err, "%v %v", line, string(text))
	}
	for _, program := range []string{"hindsight-server", "hindsight"} {
		text, err := exec.CommandContext(t.Context(), filepath.Join(out, program), "--version").CombinedOutput()
		assert.True(t, err == nil && strings.Contains(string(text), "v0.0.0-replayed"), "%s --version prints %q, %v", program, text, err)
	}
}
