package main_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// fsck runs it and tells how it exits and what it says.
func fsck(t *testing.T, dir string, flags ...string) (code int, out string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), binary, append([]string{"fsck", "--data-dir", dir}, flags...)...)
	said, err := command.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), string(said)
	}
	require.NoError(t, err)
	return 0, string(said)
}

// contents is what every file of a directory holds.
func contents(t *testing.T, dir string) map[string][32]byte {
	t.Helper()
	out := map[string][32]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		out[path] = sha256.Sum256(data)
		return err
	})
	require.NoError(t, err)
	return out
}

func TestFsck(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if code, out := fsck(t, dir); code != 2 || !strings.Contains(out, "not a data directory") {
		t.Errorf("an empty directory: %d, %s", code, out)
	}
	p := launch(t, dir, "--snapshots-kept", "2")
	p.create(t)
	for n := range 2 {
		p.learn(t, n*10, (n+1)*10)
		must(p.models.SnapshotModel(t.Context(), &hindsightv1.SnapshotModelRequest{Model: "m"}))(t)
	}
	p.learn(t, 20, 25)
	if code, out := fsck(t, dir); code != 2 || !strings.Contains(out, "in use") {
		t.Errorf("while a server runs: %d, %s", code, out)
	}
	digest := p.stats(t).GetStateDigest()
	p.kill(t)
	before := contents(t, dir)
	code, out := fsck(t, dir, "--json")
	var report struct {
		Findings     []map[string]any
		Models       int
		Observations int
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != 0 || report.Models != 1 || report.Observations != 25 || len(report.Findings) > 0 {
		t.Errorf("after a kill: %d, %s (%v)", code, out, err)
	}
	snapshots, err := filepath.Glob(filepath.Join(dir, "snapshots", "1", "*.hs"))
	require.True(t, err == nil && len(snapshots) != 0, "%v %v", snapshots, err)
	newest := snapshots[len(snapshots)-1]
	data := must(os.ReadFile(newest))(t)
	data[len(data)/2] ^= 1
	require.NoError(t, os.WriteFile(newest, data, 0o600))
	before[newest] = sha256.Sum256(data)
	code, out = fsck(t, dir)
	assert.True(t, code == 1 && strings.Contains(out, newest) && strings.Contains(out, `model "m"`) && strings.Contains(out, "1 problems"), "a bad snapshot: %d, %s", code, out)
	after := contents(t, dir)
	assert.Equal(t, fmt.Sprint(before), fmt.Sprint(after), "looking changed the directory")
	code, out = fsck(t, dir, "--truncate")
	assert.True(t, code == 1 && strings.Contains(out, "repaired: renamed"), "truncate: %d, %s", code, out)
	code, out = fsck(t, dir)
	assert.Equal(t, 0, code, "after the repair, %s", out)
	p = launch(t, dir)
	assert.Equal(t, digest, p.stats(t).GetStateDigest())
	p.kill(t)
	// A table of the database itself, of which there is one after a start.
	tables, err := filepath.Glob(filepath.Join(dir, "log", "*.sst"))
	require.True(t, err == nil && len(tables) != 0, "%v %v", tables, err)
	data = must(os.ReadFile(tables[0]))(t)
	copy(data[len(data)/4:], bytes.Repeat([]byte{0xff}, len(data)/4))
	require.NoError(t, os.WriteFile(tables[0], data, 0o600))
	code, out = fsck(t, dir)
	assert.True(t, code == 1 && !strings.Contains(out, "panic"), "a bad table: %d, %s", code, out)
}

// flipIn changes a bit of a file, n bytes from its end.
func flipIn(t *testing.T, path string, n int) {
	t.Helper()
	data := must(os.ReadFile(path))(t)
	data[len(data)-n] ^= 1
	require.NoError(t, os.WriteFile(path, data, 0o600))
}

// newest is the last of the files of a pattern.
func newest(t *testing.T, pattern ...string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(pattern...))
	require.True(t, err == nil && len(paths) != 0, "%v %v %v", pattern, paths, err)
	return paths[len(paths)-1]
}

// mended checks that fsck finds a problem, changes nothing, and mends it when asked.
func mended(t *testing.T, dir, problem, repaired string) {
	t.Helper()
	before := contents(t, dir)
	code, out := fsck(t, dir)
	assert.True(t, code == 1 && strings.Contains(out, problem), "fsck: %d, %s; want the problem %q", code, out, problem)
	after := contents(t, dir)
	assert.Equal(t, fmt.Sprint(before), fmt.Sprint(after), "looking changed the directory")
	code, out = fsck(t, dir, "--truncate")
	assert.True(t, code == 1 && strings.Contains(out, "repaired: "+repaired), "fsck --truncate: %d, %s; want %q", code, out, repaired)
	code, out = fsck(t, dir)
	assert.Equal(t, 0, code, out)
}

// A bit flips in the last commit of the newest write-ahead log. The server does not go on
// without the commit unless fsck has cut it off.
func TestFsckDamagedTail(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := launch(t, dir)
	p.create(t)
	p.learn(t, 0, 25)
	p.kill(t)
	log := newest(t, dir, "log", "*.log")
	flipIn(t, log, 50)
	p, err := tryLaunch(t, dir, []string{binary})
	if err == nil {
		t.Fatalf("the server serves %d of 25 observations", p.stats(t).GetObservations())
	}
	for _, want := range []string{log, "acknowledged commits are lost", "fsck --truncate"} {
		assert.Contains(t, err.Error(), want, err)
	}
	mended(t, dir, log, "cut at byte ")
	p = launch(t, dir)
	at := p.stats(t).GetObservations()
	assert.True(t, at != 0 && at < 25, "%d of 25 observations are left", at)
	p.learn(t, int(at), 30)
	assert.EqualValues(t, 30, p.stats(t).GetObservations())
}
