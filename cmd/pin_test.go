package cmd_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestPin pins the images of the real files, with a docker that gives each image a digest
// of its own, and then again with other digests.
func TestPin(t *testing.T) {
	if _, err := exec.LookPath("sed"); err != nil {
		t.Skip("sed is not installed")
	}
	dir := t.TempDir()
	files := []string{"Dockerfile", "compose.yaml"}
	before := map[string]string{}
	for _, name := range files {
		from := filepath.Join("..", name)
		if name == "compose.yaml" {
			from = filepath.Join("..", "deploy", name)
		}
		before[name] = read(t, from)
		write(t, filepath.Join(dir, name), before[name])
	}
	pin := func(salt string) string {
		write(t, filepath.Join(dir, "bin/docker"), "#!/bin/sh\n[ \"$1 $2 $3\" = 'buildx imagetools inspect' ] || exit 1\n"+
			"echo \"sha256:$(printf '%s' \"$4"+salt+"\" | sha256sum | cut -d' ' -f1)\"\n")
		if err := os.Chmod(filepath.Join(dir, "bin/docker"), 0o700); err != nil {
			t.Fatal(err)
		}
		script, err := filepath.Abs("../deploy/image/pin.sh")
		if err != nil {
			t.Fatal(err)
		}
		run := exec.CommandContext(t.Context(), script, files...)
		run.Dir = dir
		run.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
		out, err := run.CombinedOutput()
		if err != nil {
			t.Fatalf("pin.sh: %v\n%s", err, out)
		}
		return string(out)
	}
	said := pin("")
	first := read(t, filepath.Join(dir, "Dockerfile"))
	for _, wanted := range []string{"ARG GO_IMAGE=golang:", "ARG BASE_IMAGE=gcr.io/distroless/static-debian12:nonroot", "# syntax=docker/dockerfile:"} {
		_, line, found := strings.Cut(first, wanted)
		line, _, _ = strings.Cut(line, "\n")
		if !found || !strings.Contains(line, "@sha256:") {
			t.Errorf("%s… has no digest: %q", wanted, line)
		}
	}
	if compose := read(t, filepath.Join(dir, "compose.yaml")); strings.Count(compose, "@sha256:") != 2 || !strings.Contains(compose, "image: hindsight\n") {
		t.Errorf("prometheus and grafana, and not the image that is built here, get digests:\n%s", said)
	}
	pin("later")
	second := read(t, filepath.Join(dir, "Dockerfile"))
	if second == first || strings.Count(second, "@sha256:") != strings.Count(first, "@sha256:") || strings.Contains(second, "@sha256:@") {
		t.Errorf("pinned again:\n%s", second)
	}
	// But for the digests, nothing has changed.
	for _, name := range files {
		var bare []string
		for line := range strings.Lines(read(t, filepath.Join(dir, name))) {
			line, _, pinned := strings.Cut(line, "@sha256:")
			if pinned {
				line += "\n"
			}
			bare = append(bare, line)
		}
		if strings.Join(bare, "") != before[name] && !strings.Contains(before[name], "@sha256:") {
			t.Errorf("%s has changed in more than its digests", name)
		}
	}
}
