package cluster_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hindsight/internal/engine/storage"
)

// A pending prediction that was put before or while the ownership moves is at the next owner.
func TestMoveKeepsPendingPredictions(t *testing.T) {
	t.Parallel()
	servers := startAll(t, 3)
	learn(t, "m", 1, servers...)
	haveAll(t, map[string]uint64{"m": 1}, servers...)
	for round := range 3 {
		first := owner(t, servers...)
		m, _, err := findOrCreate(t.Context(), first.node().Store(), "m")
		if err != nil {
			t.Fatal(err)
		}
		term := first.node().Status().Log.Term
		put := make(chan string, 1<<20)
		var moved atomic.Bool
		var writers sync.WaitGroup
		for w := range 4 {
			writers.Go(func() {
				for k := 0; !moved.Load(); k++ {
					id := fmt.Sprintf("%d-%d-%d", round, w, k)
					if err := m.PutWaiting([]storage.Prediction{{ID: id, Expiry: time.Now().Add(time.Hour), Minted: true}}); err != nil {
						if !errors.Is(err, storage.ErrNotOwner) {
							t.Error(err)
						}
						return
					}
					put <- id
					time.Sleep(100 * time.Microsecond)
				}
			})
		}
		err = first.node().Move(t.Context(), "")
		moved.Store(true)
		writers.Wait()
		close(put)
		last := owner(t, servers...).node()
		if err != nil || last.Status().Log.Term != term+1 {
			t.Logf("round %d: an election came before the move: %v", round, err)
			continue
		}
		next, _, err := findOrCreate(t.Context(), last.Store(), "m")
		if err != nil {
			t.Fatal(err)
		}
		all, lost := len(put), 0
		for id := range put {
			if _, ok, err := next.GetWaiting(id); err != nil {
				t.Fatal(err)
			} else if !ok {
				lost++
			}
		}
		if lost > 0 || all == 0 {
			t.Errorf("the next owner lacks %d of %d predictions", lost, all)
		}
	}
}
