package main_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// answered is what a command of the server printed, and its exit code.
type answered struct {
	code        int
	out, errors string
}

// execute runs a command of the server.
func execute(t *testing.T, arguments ...string) answered {
	t.Helper()
	command := exec.CommandContext(t.Context(), binary, arguments...)
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	err := command.Run()
	var exit *exec.ExitError
	require.True(t, err == nil || errors.As(err, &exit), err)
	return answered{command.ProcessState.ExitCode(), out.String(), errs.String()}
}

// succeed runs a command that has to succeed, and reads the JSON that it printed.
func succeed[T any](t *testing.T, arguments ...string) (out T) {
	t.Helper()
	a := execute(t, append(arguments, "--json")...)
	require.Equal(t, 0, a.code, "%v %v %v", arguments, a.out, a.errors)
	require.NoError(t, json.Unmarshal([]byte(a.out), &out), "%v %v", arguments, a.out)
	return out
}

type backedUp struct {
	Backup       string `json:"backup"`
	Models       int    `json:"models"`
	Files        int    `json:"files"`
	NewFiles     int    `json:"new_files"`
	Backups      int    `json:"removed_backups"`
	RemovedFiles int    `json:"removed_files"`
}

type manifest struct {
	Models []struct {
		ID       string `json:"id"`
		Sequence uint64 `json:"sequence"`
	} `json:"models"`
	Files []struct {
		Path   string `json:"path"`
		SHA256 string `json:"sha256"`
	} `json:"files"`
}

func manifestOf(t *testing.T, place, name string) (m manifest) {
	t.Helper()
	data := must(os.ReadFile(filepath.Join(place, "backups", name+".json")))(t)
	var sealed struct {
		Manifest *manifest `json:"manifest"`
	}
	sealed.Manifest = &m
	require.NoError(t, json.Unmarshal(data, &sealed))
	return m
}

// objectsOf are the digests of what a place holds.
func objectsOf(t *testing.T, place string) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	err := filepath.WalkDir(filepath.Join(place, "objects"), func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out[d.Name()] = true
		}
		return err
	})
	require.NoError(t, err)
	return out
}

func (m manifest) digests() map[string]bool {
	out := map[string]bool{}
	for _, f := range m.Files {
		out[f.SHA256] = true
	}
	return out
}

// observe sends the observations from one to another, and counts those that were
// acknowledged. It ends when the server is gone.
func (p *process) observe(t *testing.T, from, to int, acknowledged *atomic.Int64) (duplicates int) {
	t.Helper()
	for n := from; n < to; n++ {
		r, err := p.predictor.Observe(t.Context(), observation(n))
		if c := status.Code(err); c == codes.Unavailable || c == codes.Canceled { // The server or the connection has ended.
			return duplicates
		}
		if err != nil {
			t.Error(err)
			return duplicates
		}
		if r.GetOutcome().GetDuplicate() {
			duplicates++
		}
		acknowledged.Store(int64(n + 1))
	}
	return duplicates
}

// A backup is taken while a client observes. What is restored has every observation that
// was acknowledged before the backup, each once, and is bit for bit the state of a server
// that has learned as many. A client that sends all again ends with the state of the
// server that went on. A second backup writes new files alone.
func TestBackupUnderLoad(t *testing.T) {
	t.Parallel()
	dir, place := t.TempDir(), t.TempDir()
	p := launch(t, dir, "--snapshot-replay", "1ms", "--snapshots-kept", "1")
	p.create(t)
	var acknowledged atomic.Int64
	p.observe(t, 0, 50, &acknowledged)
	var client sync.WaitGroup
	const all = 1500
	client.Go(func() { p.observe(t, 50, all, &acknowledged) })
	var before [2]int64
	var taken [2]backedUp
	for n := range taken {
		before[n] = acknowledged.Load()
		taken[n] = succeed[backedUp](t, "backup", "--data-dir", dir, "--to", place)
	}
	client.Wait()
	want := p.stats(t)
	p.terminate(t)
	known := map[string]bool{}
	for n, b := range taken {
		m := manifestOf(t, place, b.Backup)
		assert.True(t, len(m.Models) == 1 && m.Models[0].Sequence >= uint64(before[n]) && b.Files == len(m.Files), "backup %d after %d observations: %+v", n, before[n], m.Models)
		fresh := 0
		for digest := range m.digests() {
			if !known[digest] {
				fresh++
			}
			known[digest] = true
		}
		assert.Equal(t, fresh, b.NewFiles, "%v %v", n, b.Files)
	}
	restored := filepath.Join(t.TempDir(), "data")
	succeed[struct{}](t, "restore", "--from", place, "--backup", taken[0].Backup, "--data-dir", restored)
	sequence := int(manifestOf(t, place, taken[0].Backup).Models[0].Sequence)
	t.Logf("backups of %d to %d of %d observations; %+v", before[0], sequence, all, taken)
	calm := launch(t, t.TempDir(), "--durability", "async")
	calm.create(t)
	calm.observe(t, 0, sequence, new(atomic.Int64))
	p = launch(t, restored)
	if got, want := p.stats(t), calm.stats(t); got.GetObservations() != uint64(sequence) || got.GetStateDigest() != want.GetStateDigest() {
		t.Errorf("restored %v, want %v", got, want)
	}
	assert.Equal(t, sequence, p.observe(t, 0, all, new(atomic.Int64)))
	got := p.stats(t)
	assert.True(t, got.GetObservations() == all && got.GetStateDigest() == want.GetStateDigest(), "after all was sent again %v, want %v", got, want)
}

// Files that two backups share are written once: all tables, if nothing was learned. --keep removes older backups and what
// they alone had. A backup is the same with a server and without.
func TestBackupIsIncremental(t *testing.T) {
	dir, place := t.TempDir(), t.TempDir()
	p := launch(t, dir)
	p.create(t)
	var acknowledged atomic.Int64
	p.observe(t, 0, 200, &acknowledged)
	first := succeed[backedUp](t, "backup", "--data-dir", dir, "--to", place)
	assert.True(t, first.NewFiles == len(objectsOf(t, place)) && first.Models == 1, "the first backup: %+v", first)
	second := succeed[backedUp](t, "backup", "--data-dir", dir, "--to", "file://"+filepath.ToSlash(place))
	one, two := manifestOf(t, place, first.Backup), manifestOf(t, place, second.Backup)
	fresh, tables := 0, 0
	for digest := range two.digests() {
		if !one.digests()[digest] {
			fresh++
		}
	}
	for _, f := range two.Files {
		if one.digests()[f.SHA256] && strings.HasSuffix(f.Path, ".sst") {
			tables++
		}
	}
	assert.True(t, second.NewFiles == fresh && tables != 0, "the second backup wrote %d files of %d, %d are new; it shares %d tables", second.NewFiles, second.Files, fresh, tables)
	p.observe(t, 200, 220, &acknowledged)
	p.terminate(t)
	third := succeed[backedUp](t, "backup", "--data-dir", dir, "--to", place, "--keep", "2")
	assert.True(t, third.Backups == 1 && third.RemovedFiles != 0, "the third backup: %+v", third)
	three := manifestOf(t, place, third.Backup)
	wanted := two.digests()
	for digest := range three.digests() {
		wanted[digest] = true
	}
	if objects := objectsOf(t, place); len(objects) != len(wanted) || slices.ContainsFunc(three.Files, func(f struct {
		Path   string `json:"path"`
		SHA256 string `json:"sha256"`
	},
	) bool {
		return !objects[f.SHA256]
	}) {
		t.Errorf("%d objects, want %d", len(objects), len(wanted))
	}
	for _, name := range []string{second.Backup, third.Backup} {
		a := execute(t, "verify", "--from", place, "--backup", name)
		assert.Equal(t, 0, a.code, "%v %v %v", name, a.out, a.errors)
	}
	a := execute(t, "verify", "--from", place, "--backup", first.Backup)
	assert.True(t, a.code == 1 && strings.Contains(a.errors, "no such backup"), "the removed backup: %+v", a)
	a = execute(t, "restore", "--list", "--from", place)
	assert.Equal(t, second.Backup+"\n"+third.Backup+"\n", a.out)
}

// A server that is killed at any moment of a backup leaves no half backup: it exists, and is good,
// or not at all. The next start removes what was left.
func TestServerKilledDuringBackup(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 7))
	dir, place := t.TempDir(), t.TempDir()
	ended := map[int]int{}
	for range 6 {
		p := launch(t, dir, "--snapshot-replay", "1ms")
		p.create(t)
		var client sync.WaitGroup
		client.Go(func() { p.observe(t, 0, 1<<20, new(atomic.Int64)) })
		victim := p.command.Process
		timer := time.AfterFunc(time.Duration(20+rng.IntN(100))*time.Millisecond, func() { _ = victim.Kill() })
		a := execute(t, "backup", "--data-dir", dir, "--to", place)
		timer.Stop()
		p.kill(t)
		client.Wait()
		ended[a.code]++
		assert.True(t, a.code != 1 || a.errors != "", "a backup failed without a word")
	}
	p := launch(t, dir)
	left, err := filepath.Glob(filepath.Join(dir, "checkpoint"))
	assert.True(t, err == nil && len(left) == 0, "left %v, %v", left, err)
	last := succeed[backedUp](t, "backup", "--data-dir", dir, "--to", place, "--keep", "100")
	p.terminate(t)
	names := strings.Fields(execute(t, "restore", "--list", "--from", place).out)
	assert.True(t, len(names) == ended[0]+1 && names[len(names)-1] == last.Backup, "backups %v after exits %v", names, ended)
	for _, name := range names {
		a := execute(t, "verify", "--from", place, "--backup", name)
		assert.Equal(t, 0, a.code, "%v %v %v", name, a.out, a.errors)
	}
	t.Logf("exit codes %v", ended)
}

// The checkpoint is held until older backups are removed, so that no other backup of the
// directory writes files meanwhile that no manifest names yet.
func TestCheckpointIsHeldUntilOlderBackupsAreRemoved(t *testing.T) {
	dir := t.TempDir()
	p := launch(t, dir)
	p.create(t)
	var mu sync.Mutex
	objects := map[string]string{"objects/ab/left": "x"}
	removed := 0
	s3 := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		key := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/bucket"), "/")
		data, exists := objects[key]
		switch {
		case r.Method == http.MethodPut:
			body, err := io.ReadAll(r.Body)
			assert.NoError(t, err)
			objects[key] = string(body)
		case r.Method == http.MethodDelete:
			removed++
			delete(objects, key)
			_, err := os.Stat(filepath.Join(dir, "checkpoint", "log"))
			assert.NoError(t, err)
			w.WriteHeader(http.StatusNoContent)
		case exists:
			w.Header().Set("Last-Modified", "Sun, 01 Mar 2026 09:30:00 GMT")
			_, _ = io.WriteString(w, data)
		case key == "":
			_, _ = io.WriteString(w, `<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><IsTruncated>false</IsTruncated>`)
			for key, data := range objects {
				if strings.HasPrefix(key, r.URL.Query().Get("prefix")) {
					_, _ = fmt.Fprintf(w, "<Contents><Key>%s</Key><Size>%d</Size><LastModified>2026-03-01T09:30:00.000Z</LastModified></Contents>", key, len(data))
				}
			}
			_, _ = io.WriteString(w, "</ListBucketResult>")
		default:
			http.NotFound(w, r)
		}
	}))
	defer s3.Close()
	t.Setenv("AWS_ACCESS_KEY_ID", "x")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "x")
	url := "s3://bucket?region=r&use_path_style=true&endpoint=" + s3.URL
	a := execute(t, "backup", "--data-dir", dir, "--to", url, "--keep", "1")
	assert.True(t, a.code == 0 && removed == 1, "%+v, removed %d", a, removed)
}

// A place within the data directory would be lost with it, or be taken for a part of it.
func TestBackupIntoTheDataDirectoryIsRejected(t *testing.T) {
	dir := t.TempDir()
	p := launch(t, dir)
	p.create(t)
	for _, place := range []string{"", "backups", "checkpoint", "log/x"} {
		a := execute(t, "backup", "--data-dir", dir, "--to", filepath.Join(dir, place))
		assert.True(t, a.code == 2 && strings.Contains(a.errors, "is in the data directory"), "%q: %+v", place, a)
	}
	made, err := filepath.Glob(filepath.Join(dir, "backups"))
	assert.True(t, err == nil && len(made) == 0, "made %v, %v", made, err)
}

// Of a restore that goes on the directory is left alone by another one.
func TestRestoreIntoAnUnfinishedRestore(t *testing.T) {
	dir, place := t.TempDir(), t.TempDir()
	p := launch(t, dir)
	p.create(t)
	succeed[backedUp](t, "backup", "--data-dir", dir, "--to", place)
	to := t.TempDir()
	for _, name := range []string{"restoring", "LOCK"} {
		require.NoError(t, os.WriteFile(filepath.Join(to, name), nil, 0o600))
	}
	a := execute(t, "restore", "--from", place, "--data-dir", to)
	assert.True(t, a.code == 1 && strings.Contains(a.errors, "did not end, or goes on"), "%+v", a)
	left, err := os.ReadDir(to)
	assert.True(t, err == nil && len(left) == 2, "left %v, %v", left, err)
}

// A damaged backup is rejected by verify and by restore, which names the file and leaves
// the directory empty.
func TestDamagedBackupIsRejected(t *testing.T) {
	t.Parallel()
	dir, place := t.TempDir(), t.TempDir()
	p := launch(t, dir)
	p.create(t)
	p.observe(t, 0, 100, new(atomic.Int64))
	p.terminate(t)
	b := succeed[backedUp](t, "backup", "--data-dir", dir, "--to", place)
	m := manifestOf(t, place, b.Backup)
	wanted := filepath.Join(t.TempDir(), "restored")
	rejected := func(what, named string) {
		t.Helper()
		a := execute(t, "verify", "--from", place)
		assert.True(t, a.code == 1 && strings.Contains(a.out+a.errors, named), "%s: verify: %+v", what, a)
		a = execute(t, "restore", "--from", place, "--data-dir", wanted)
		assert.True(t, a.code == 1 && strings.Contains(a.errors, named), "%s: restore: %+v", what, a)
		left, err := os.ReadDir(wanted)
		assert.True(t, err != nil || len(left) == 0, "%s: left %v", what, left)
	}
	for _, kind := range []string{".sst", ".hs", "MANIFEST-"} {
		at := slices.IndexFunc(m.Files, func(f struct {
			Path   string `json:"path"`
			SHA256 string `json:"sha256"`
		},
		) bool {
			return strings.Contains(f.Path, kind)
		})
		require.GreaterOrEqual(t, at, 0, "no %s among %v", kind, m.Files)
		f := m.Files[at]
		object := filepath.Join(place, "objects", f.SHA256[:2], f.SHA256)
		good := must(os.ReadFile(object))(t)
		for what, bad := range map[string][]byte{
			"flipped": append(append(slices.Clone(good[:len(good)/2]), good[len(good)/2]^1), good[len(good)/2+1:]...),
			"short":   good[:len(good)-1], "empty": {},
		} {
			if kind != ".sst" && what != "flipped" {
				continue // What is wrong of a file is one matter of its digest.
			}
			require.NoError(t, os.WriteFile(object, bad, 0o600))
			rejected(kind+" "+what, f.Path)
		}
		require.NoError(t, os.Remove(object))
		rejected(kind+" missing", f.Path)
		require.NoError(t, os.WriteFile(object, good, 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "more"), nil, 0o600))
	a := execute(t, "restore", "--from", place, "--data-dir", dir)
	assert.True(t, a.code == 1 && strings.Contains(a.errors, "not empty"), "a directory that is not empty: %+v", a)
	name := filepath.Join(place, "backups", b.Backup+".json")
	data := must(os.ReadFile(name))(t)
	require.NoError(t, os.WriteFile(name, bytes.Replace(data, []byte(`"sequence":100`), []byte(`"sequence":101`), 1), 0o600))
	rejected("manifest", "damaged")
	require.NoError(t, os.WriteFile(name, data, 0o600))
	a = execute(t, "restore", "--from", place, "--data-dir", wanted)
	assert.Equal(t, 0, a.code, a)
}
