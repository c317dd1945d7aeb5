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
