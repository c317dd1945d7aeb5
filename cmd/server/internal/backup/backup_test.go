package backup_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/cmd/server/internal/backup"
)

// files are those of a data directory; what is not backed up is among them.
func files() map[string]string {
	return map[string]string{
		"LOCK": "", "log/LOCK": "", "control.sock": "", "log.async": "", "checkpoint/log/1.sst": "no",
		"log/000001.sst": "one", "log/MANIFEST-1": "", "pending/marker": "", "pending/000002.log": "one",
		"snapshots/7/00000000000000000009.hs": "nine", "snapshots/7/00000000000000000010.hs.tmp": "no",
	}
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		name = filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
}

func place(t *testing.T, dir string) *backup.Place {
	t.Helper()
	return must(backup.Open(dir, true))(t)
}

func at(minute int) backup.Manifest {
	return backup.Manifest{
		Created: time.Date(2026, 3, 1, 9, minute, 0, 0, time.UTC), Version: "test",
		Models: []backup.Model{{ID: "m", Sequence: 9}},
	}
}

// A backup has the files that belong to it, equal ones once, and what is fetched is what
// was taken.
func TestTakeAndFetch(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "place")
	write(t, from, files())
	p := place(t, to)
	var last backup.Progress
	taken, err := p.Take(t.Context(), "store", from, at(0), nil)
	require.True(t, err == nil && taken.NewFiles == 3 && taken.NewBytes == 7 && len(taken.Manifest.Files) == 5 && taken.Manifest.Bytes() == 10, "%+v, %v", taken, err)
	write(t, from, map[string]string{"log/000003.sst": "three"})
	again, err := p.Take(t.Context(), "store", from, at(1), nil)
	assert.True(t, err == nil && again.NewFiles == 1 && again.NewBytes == 5, "%+v, %v", again, err)
	m := must(p.Find(t.Context(), "20260301T090000.000Z"))(t)
	restored := t.TempDir()
	damaged, err := p.Fetch(t.Context(), m, restored, func(p backup.Progress) {
		if p.Files == p.TotalFiles {
			last = p
		}
	})
	assert.True(t, err == nil && len(damaged) == 0 && last.Bytes == 10 && last.TotalBytes == 10 && last.TotalFiles == 5, "%v, %v, %+v", damaged, err, last)
	for _, f := range m.Files {
		got, err := os.ReadFile(filepath.Join(restored, filepath.FromSlash(f.Path)))
		want := files()[f.Path]
		assert.True(t, err == nil && string(got) == want, "%s: %q, %v, want %q", f.Path, got, err, want)
	}
}

// The backup of a time is the first that was begun then or later.
func TestFind(t *testing.T) {
	from := t.TempDir()
	write(t, from, files())
	p := place(t, t.TempDir())
	_, err := p.Find(t.Context(), "")
	assert.ErrorIs(t, err, backup.ErrNoBackup)
	for minute := range 3 {
		must(p.Take(t.Context(), "store", from, at(10*minute), nil))(t)
	}
	for minute, want := range map[int]string{-5: "20260301T090000.000Z", 0: "20260301T090000.000Z", 1: "20260301T091000.000Z", 59: "20260301T092000.000Z"} {
		m, err := p.Since(t.Context(), at(minute).Created)
		assert.True(t, err == nil && m.Name == want, "%d: %+v, %v, want %s", minute, m, err, want)
	}
	for _, none := range []string{"20260301T093000.000Z", "x", "../objects"} {
		_, err := p.Find(t.Context(), none)
		assert.ErrorIs(t, err, backup.ErrNoBackup, none)
	}
}

// A backup that is taken after the clock was set back is the newest all the same: Retain
// keeps it.
func TestClockSetBack(t *testing.T) {
	from := t.TempDir()
	write(t, from, files())
	p := place(t, t.TempDir())
	for n, minute := range []int{30, 10, 10, 30, 31} {
		taken := must(p.Take(t.Context(), "store", from, at(minute), nil))(t)
		want := []string{"093000.000", "093000.001", "093000.002", "093000.003", "093100.000"}[n]
		assert.True(t, taken.Manifest.Name == "20260301T"+want+"Z" && taken.Manifest.Created.Equal(at(minute).Created), "%d: %s, created %v", minute, taken.Manifest.Name, taken.Manifest.Created)
		must(p.Retain(t.Context(), 1))(t)
		m, err := p.Find(t.Context(), "")
		assert.True(t, err == nil && m.Name == taken.Manifest.Name, "%d: %+v, %v", minute, m, err)
	}
}

// A backup that is removed while it is read is not called damaged.
func TestRemovedWhileItIsRead(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	write(t, from, files())
	p := place(t, to)
	taken := must(p.Take(t.Context(), "store", from, at(0), nil))(t)
	must(p.Retain(t.Context(), 0))(t)
	damaged, err := p.Fetch(t.Context(), taken.Manifest, t.TempDir(), nil)
	assert.True(t, errors.Is(err, backup.ErrNoBackup) && len(damaged) == 0, "%v, %v", damaged, err)
}

// A place is within a directory however it is spelled, and before it is there.
// A list of a directory passes over manifests that another process removes meanwhile.
func TestNamesWhileManifestsAreRemoved(t *testing.T) {
	dir := t.TempDir()
	p := place(t, dir)
	name := func(n int) string {
		return filepath.Join(dir, "backups", time.Date(2026, 3, 1, 9, n, 0, 0, time.UTC).Format("20060102T150405.000Z")+".json")
	}
	write(t, dir, map[string]string{"backups/20250101T000000.000Z.json": "{}"})
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		var err error
		for n := 0; err == nil; n++ {
			select {
			case <-stop:
				ended <- nil
				return
			default:
			}
			if err = os.WriteFile(name(n%50), []byte("{}"), 0o600); err == nil {
				err = os.Remove(name(n % 50))
			}
			time.Sleep(100 * time.Microsecond)
		}
		ended <- err
	}()
	for range 2000 {
		if names, err := p.Names(t.Context()); err != nil || len(names) == 0 || names[0] != "20250101T000000.000Z" {
			t.Errorf("%v, %v", names, err)
			break
		}
	}
	close(stop)
	assert.NoError(t, <-ended)
}

func TestWithin(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	link := filepath.Join(other, "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Skip(err)
	}
	for place, want := range map[string]bool{
		dir: true, filepath.Join(dir, "a", "b"): true, filepath.Join(link, "a", "b"): true, "file://" + filepath.ToSlash(link) + "/": true,
		filepath.Join(dir, "a", "..", "..", "x"): false, dir + "-backups": false, other: false, filepath.Dir(dir): false, "s3://bucket": false,
	} {
		got, err := backup.Within(place, dir)
		assert.True(t, err == nil && got == want, "%s: %v, %v", place, got, err)
	}
	_, err := backup.Within(other, filepath.Join(dir, "none"))
	assert.Error(t, err, "within a directory that is not there")
}

// A place that may not be read is not an empty one.
func TestPlaceThatMayNotBeRead(t *testing.T) {
	if os.Geteuid() <= 0 {
		t.Skip("this user may read everything")
	}
	from, to := t.TempDir(), t.TempDir()
	write(t, from, files())
	p := place(t, to)
	must(p.Take(t.Context(), "store", from, at(0), nil))(t)
	backups := filepath.Join(to, "backups")
	require.NoError(t, os.Chmod(backups, 0))
	_, err := p.Find(t.Context(), "")
	assert.ErrorIs(t, err, os.ErrPermission)
	require.NoError(t, os.Chmod(backups, 0o700))
}

// Retain keeps the newest backups whole. While one of them cannot be read it removes
// nothing, because it is not known what that needs.
func TestRetain(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	p := place(t, to)
	for minute := range 4 {
		write(t, from, map[string]string{"log/000001.sst": fmt.Sprint("table ", minute), "log/000002.sst": "all have it"})
		must(p.Take(t.Context(), "store", from, at(minute), nil))(t)
	}
	write(t, to, map[string]string{"objects/ab/unfinished.tmp": "left"})
	newest := filepath.Join(to, "backups", "20260301T090300.000Z.json")
	good := must(os.ReadFile(newest))(t)
	write(t, to, map[string]string{"backups/20260301T090300.000Z.json": "{}"})
	r, err := p.Retain(t.Context(), 2)
	assert.True(t, errors.Is(err, backup.ErrDamaged) && r == (backup.Retired{}), "%+v, %v", r, err)
	write(t, to, map[string]string{"backups/20260301T090300.000Z.json": string(good)})
	r, err = p.Retain(t.Context(), 2)
	assert.True(t, err == nil && r.Backups == 2 && r.Files == 3, "%+v, %v", r, err)
	names, err := p.Names(t.Context())
	assert.True(t, err == nil && len(names) == 2, "%v, %v", names, err)
	for _, name := range names {
		m := must(p.Find(t.Context(), name))(t)
		damaged, err := p.Fetch(t.Context(), m, t.TempDir(), nil)
		assert.True(t, err == nil && len(damaged) == 0, "%s: %v, %v", name, damaged, err)
	}
}

// A manifest with a good digest may still lie: what it names has to be within a data
// directory.
func TestManifestsThatAreRejected(t *testing.T) {
	to := t.TempDir()
	p := place(t, to)
	digest := strings.Repeat("ab", sha256.Size)
	good := func() map[string]any {
		return map[string]any{
			"format": 3, "name": "20260301T090000.000Z", "created": "2026-03-01T09:00:00Z", "version": "x", "models": nil,
			"files": []any{map[string]any{"path": "log/1.sst", "bytes": 3, "sha256": digest}},
		}
	}
	seal := func(body []byte) string {
		sum := sha256.Sum256(body)
		return fmt.Sprintf(`{"sha256":%q,"manifest":%s}`, hex.EncodeToString(sum[:]), body)
	}
	find := func(text string) error {
		write(t, to, map[string]string{"backups/20260301T090000.000Z.json": text})
		_, err := p.Find(t.Context(), "")
		return err
	}
	body := must(json.Marshal(good()))(t)
	require.NoError(t, find(seal(body)))
	for _, text := range []string{"", "{}", "[]", seal([]byte("7")), seal([]byte("null")), string(bytes.Replace([]byte(seal(body)), []byte("1.sst"), []byte("2.sst"), 1))} {
		assert.ErrorIs(t, find(text), backup.ErrDamaged, text)
	}
	for _, path := range []string{"", "log", "log/", "/etc/passwd", "../x", "log/../../x", "log/a/b", "snapshots/1.hs", "snapshots/../x.hs", "LOCK", "log/LOCK", "log//x"} {
		m := good()
		m["files"] = []any{map[string]any{"path": path, "bytes": 3, "sha256": digest}}
		assert.ErrorIs(t, find(seal(must(json.Marshal(m))(t))), backup.ErrDamaged, path)
	}
	for name, want := range map[string]error{"older": backup.ErrVersion, "newer": backup.ErrVersion, "another name": backup.ErrDamaged} {
		m := good()
		switch name {
		case "older":
			m["format"] = 2
		case "newer":
			m["format"] = 4
		default:
			m["name"] = "other"
		}
		assert.ErrorIs(t, find(seal(must(json.Marshal(m))(t))), want, name)
	}
}

// must returns the value of a call that must not fail.
func must[T any](v T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		require.NoError(tb, err)
		return v
	}
}

func TestPlaceOfAGroup(t *testing.T) {
	two := backup.Group{Number: 2, Of: 4}
	for place, want := range map[string]string{
		"place":                        filepath.Join("place", "group-2"),
		"file:///var/place":            "file:///var/place/group-2",
		"s3://b":                       "s3://b?prefix=group-2%2F",
		"s3://b?prefix=p/&region=here": "s3://b?prefix=p%2Fgroup-2%2F&region=here",
	} {
		assert.Equal(t, want, two.Place(place), place)
		assert.Equal(t, place, (backup.Group{}).Place(place))
	}
}

func TestGroupsOfAPlace(t *testing.T) {
	to := t.TempDir()
	write(t, to, map[string]string{
		"backups/20260301T090000.000Z.json": "", "group-2/backups/x": "", "group-11/backups/x": "", "group-0/x": "", "group-x/x": "", "group-3": "",
	})
	got, err := place(t, to).Groups(t.Context())
	assert.True(t, err == nil && slices.Equal(got, []uint32{2, 11}), "%v, %v", got, err)
}

// Until selects the newest backup of each group that is no newer than the time.
func TestUntil(t *testing.T) {
	from, p := t.TempDir(), place(t, t.TempDir())
	write(t, from, map[string]string{"log/1.sst": "x"})
	for _, minute := range []int{1, 3} {
		m := at(minute)
		m.Group = backup.Group{Number: 1, Of: 2}
		must(p.Take(t.Context(), "store", from, m, nil))(t)
	}
	for name, want := range map[string]string{
		"20260301T090100.000Z": "20260301T090100.000Z", "20260301T090259.999Z": "20260301T090100.000Z", "20260301T090300.000Z": "20260301T090300.000Z",
		"20270301T090000.000Z": "20260301T090300.000Z",
	} {
		m, err := p.Until(t.Context(), name)
		assert.True(t, err == nil && m.Name == want && m.Group == (backup.Group{Number: 1, Of: 2}), "%s: %v, %v", name, m, err)
	}
	for _, name := range []string{"20260301T090059.999Z", "", "x"} {
		_, err := p.Until(t.Context(), name)
		assert.ErrorIs(t, err, backup.ErrNoBackup, name)
	}
}

// Two stores back up to one place again and again, and remove older backups. One of them holds the place, the other is
// rejected by the name of the holder, and no object is missing.
func TestTwoStoresOnePlace(t *testing.T) {
	for range 20 {
		dir := t.TempDir()
		var taken, rejected [2]int
		var both sync.WaitGroup
		for k := range taken {
			from := filepath.Join(dir, fmt.Sprint("data", k))
			write(t, from, files())
			write(t, from, map[string]string{"log/000009.sst": fmt.Sprint("of store ", k)})
			both.Go(func() {
				p, err := backup.Open(filepath.Join(dir, "place"), true)
				for n := 0; n < 5 && err == nil; n++ {
					switch _, failed := p.Take(context.Background(), fmt.Sprint("store-", k), from, at(n), nil); {
					case failed == nil:
						taken[k]++
						_, err = p.Retain(context.Background(), 1)
					case errors.Is(failed, backup.ErrHeld) && strings.Contains(failed.Error(), fmt.Sprint("store-", 1-k, " of host")):
						rejected[k]++
					default:
						err = failed
					}
				}
				assert.NoError(t, err)
			})
		}
		both.Wait()
		if taken[0]+rejected[0] != 5 || taken[1]+rejected[1] != 5 || taken[0]*taken[1] > 0 || taken[0]+taken[1] != 5 {
			t.Errorf("taken %v, rejected %v: want all of one store and none of the other", taken, rejected)
		}
		p := place(t, filepath.Join(dir, "place"))
		m := must(p.Find(t.Context(), ""))(t)
		damaged := must(p.Fetch(t.Context(), m, filepath.Join(dir, "restored"), nil))(t)
		assert.LessOrEqual(t, len(damaged), 0, "damaged: %v", damaged)
	}
}

// A store whose predecessor is gone takes the place once the lease is removed.
func TestLeaseIsRemoved(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "data"), filepath.Join(dir, "place")
	write(t, from, files())
	p := place(t, to)
	must(p.Take(t.Context(), "old", from, at(0), nil))(t)
	_, err := p.Take(t.Context(), "new", from, at(1), nil)
	assert.ErrorIs(t, err, backup.ErrHeld)
	for _, damaged := range []string{"", "{}", "null", `{"store":1}`} {
		require.NoError(t, os.WriteFile(filepath.Join(to, "store.json"), []byte(damaged), 0o600))
		_, err := p.Take(t.Context(), "old", from, at(1), nil)
		assert.True(t, err != nil && strings.Contains(err.Error(), "remove it from the place"), "%q: %v", damaged, err)
	}
	require.NoError(t, os.Remove(filepath.Join(to, "store.json")))
	must(p.Take(t.Context(), "new", from, at(1), nil))(t)
}

// A backup whose object was removed before its publication is no backup.
func TestObjectRemovedMeanwhile(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "data"), filepath.Join(dir, "place")
	write(t, from, files())
	p := place(t, to)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := p.Take(ctx, "store", from, at(0), func(at backup.Progress) {
		if at.Files == at.TotalFiles {
			_ = os.RemoveAll(filepath.Join(to, "objects"))
		}
	})
	assert.True(t, err != nil && strings.Contains(err.Error(), "is not in the place"), "%v", err)
	names := must(p.Names(t.Context()))(t)
	assert.LessOrEqual(t, len(names), 0, "%v are backups", names)
}
