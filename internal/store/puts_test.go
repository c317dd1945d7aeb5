package store_test

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"

	"hindsight/internal/engine/storage"
)

// Concurrent callers that look at the count first keep to a limit, except for the rows of one commit.
func TestPutsCountWhileTheyWait(t *testing.T) {
	s := open(t, vfs.NewMem())
	defer closed(t, s)
	m := create(t, s, "m")
	const callers, rows, limit = 64, 30, 300
	var group sync.WaitGroup
	for c := range callers {
		group.Go(func() {
			put := make([]storage.Prediction, rows)
			for k := range put {
				put[k] = storage.Prediction{ID: fmt.Sprint(c, "-", k), Expiry: time.Unix(9, 0), Minted: true}
			}
			if m.CountPending()+rows <= limit {
				assert.NoError(t, m.PutPending(put))
			}
		})
	}
	group.Wait()
	assert.Less(t, m.CountPending(), int64(callers*rows*2/3)) // Calls between the look and the put may exceed the limit.
	assert.Equal(t, m.CountPending(), s.CountPending())
}

// Goroutines that keep the processors do not delay the predictions of one caller, nor of several.
func TestPutBesideWork(t *testing.T) {
	s := open(t, vfs.NewMem())
	defer closed(t, s)
	m := create(t, s, "m")
	var stop atomic.Bool
	var group sync.WaitGroup
	defer group.Wait()
	defer stop.Store(true)
	for range 2 * runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for !stop.Load() {
			}
		})
	}
	for _, callers := range []int{1, 4} {
		took := make([][]time.Duration, callers)
		var calls sync.WaitGroup
		for c := range callers {
			calls.Go(func() {
				for n := range 60 {
					began := time.Now()
					assert.NoError(t, m.PutPending([]storage.Prediction{{ID: fmt.Sprint(callers, c, n), Expiry: began, Minted: true}}))
					took[c] = append(took[c], time.Since(began))
				}
			})
		}
		calls.Wait()
		all := slices.Concat(took...)
		slices.Sort(all)
		assert.Less(t, all[len(all)/2], 5*time.Millisecond, "%d callers: the median", callers)
	}
}
