package backup_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/cmd/server/internal/backup"
)

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
