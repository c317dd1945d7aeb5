package mailbox_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine/mailbox"
)

// recorder notes what it is handed. While it is held, Handle waits.
type recorder struct {
	mu       sync.Mutex
	batches  [][]int
	rejected []int
	hold     chan struct{}
	// posted is called by Posted.
	posted func()
	alone  bool
}

func (r *recorder) Posted()      { r.posted() }
func (r *recorder) Shares() bool { return !r.alone }

func handle(turns []mailbox.Turn[int]) {
	for _, t := range turns {
		r := t.Handler.(*recorder)
		if r.hold != nil {
			<-r.hold
		}
		r.mu.Lock()
		r.batches = append(r.batches, append([]int(nil), t.Items...))
		r.mu.Unlock()
	}
}

func (r *recorder) Reject(item int, _ error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rejected = append(r.rejected, item)
}

func newBox(r *recorder, limit, batch int) (*mailbox.Box[int], *sync.WaitGroup) {
	turns := mailbox.NewTurns(handle)
	return mailbox.New[int](r, turns, mailbox.Options{Limit: limit, Batch: batch}), &turns.WaitGroup
}

// Boxes that get items while a batch is handled are handled together, unless they have tasks, many rows or a handler that
// does not share.
func TestBoxesShareACall(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, func(t *testing.T) {
		var calls []string
		hold := make(chan struct{})
		turns := mailbox.NewTurns(func(turns []mailbox.Turn[int]) {
			<-hold
			var call [][]int
			for _, turn := range turns {
				call = append(call, slices.Clone(turn.Items))
			}
			calls = append(calls, fmt.Sprint(call))
		})
		var boxes []*mailbox.Box[int]
		for n := range 6 {
			boxes = append(boxes, mailbox.New[int](&recorder{alone: n == 3}, turns, mailbox.Options{Limit: 1000, Batch: 1000}))
		}
		for n, rows := range []int{1, 1, 1, 1, 1000, 1} {
			require.NoError(t, boxes[n].Put(n, rows))
			if n == 0 {
				synctest.Wait()
			}
		}
		require.NoError(t, boxes[2].Put(6, 1))
		boxes[1].Drop(errors.New("gone"))
		synctest.Wait()
		for range 4 {
			hold <- struct{}{}
			synctest.Wait()
		}
		slices.Sort(calls)
		assert.Equal(t, []string{"[[0]]", "[[2 6] [5]]", "[[3]]", "[[4]]"}, calls)
	})
}

func TestItemsWaitTogetherAndInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{hold: make(chan struct{})}
		box, group := newBox(r, 100, 3)
		put := func(item, rows int) {
			t.Helper()
			require.NoError(t, box.Put(item, rows))
		}
		put(1, 1)
		synctest.Wait() // The first is being handled.
		for item := 2; item <= 5; item++ {
			put(item, 1)
		}
		put(6, 9) // Larger than a batch: alone.
		put(7, 1)
		close(r.hold)
		group.Wait()
		assert.Equal(t, "[[1] [2 3 4] [5] [6] [7]]", fmt.Sprint(r.batches))
	})
}

func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{hold: make(chan struct{})}
		box, group := newBox(r, 4, 100)
		if err := box.Put(0, 50); err != nil { // Larger than the limit: taken while none wait.
			t.Fatal(err)
		}
		synctest.Wait()
		require.NoError(t, box.Put(1, 3))
		assert.ErrorIs(t, box.Put(2, 2), mailbox.ErrFull)
		assert.NoError(t, box.Put(3, 1))
		close(r.hold)
		group.Wait()
		assert.Equal(t, "[[0] [1 3]]", fmt.Sprint(r.batches))
	})
}

// A task that gives up while it waits is skipped, and what is behind it runs.
func TestTaskWhoseCallerHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		box, group := newBox(r, 100, 100)
		ctx, leave := context.WithCancel(t.Context())
		release := make(chan struct{})
		var callers sync.WaitGroup
		callers.Go(func() { _ = box.Do(t.Context(), func(context.Context) error { <-release; return nil }) })
		synctest.Wait()
		callers.Go(func() {
			assert.ErrorIs(t, box.Do(ctx, func(context.Context) error { t.Error("it ran"); return nil }), context.Canceled)
		})
		synctest.Wait()
		require.NoError(t, box.Put(1, 1))
		leave()
		synctest.Wait()
		close(release)
		callers.Wait()
		group.Wait()
		assert.Equal(t, "[[1]]", fmt.Sprint(r.batches))
	})
}

// A task that runs when its caller leaves goes on, and the caller is let go.
func TestTaskThatRunsWithoutACaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box, group := newBox(&recorder{}, 1, 1)
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		release, ended := make(chan struct{}), false
		assert.ErrorIs(t, box.Do(ctx, func(context.Context) error { <-release; ended = true; return nil }), context.DeadlineExceeded)
		close(release)
		group.Wait()
		assert.True(t, ended, "it did not end")
	})
}

func TestTryDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{hold: make(chan struct{})}
		box, group := newBox(r, 100, 100)
		require.NoError(t, box.Put(1, 1))
		assert.False(t, box.TryDo(func() { t.Error("it ran beside a job") }), "it says that it ran")
		close(r.hold)
		group.Wait()
		// What comes meanwhile waits, and is run afterwards.
		if !box.TryDo(func() {
			assert.NoError(t, box.Put(2, 1))
			synctest.Wait()
			assert.Len(t, r.batches, 1)
		}) {
			t.Error("it did not run")
		}
		group.Wait()
		assert.Equal(t, "[[1] [2]]", fmt.Sprint(r.batches))
	})
}

func TestCloseAndDrop(t *testing.T) {
	gone := errors.New("gone")
	for name, drop := range map[string]bool{"close": false, "drop": true} {
		synctest.Test(t, func(t *testing.T) {
			r := &recorder{}
			box, group := newBox(r, 100, 100)
			release := make(chan struct{})
			var callers sync.WaitGroup
			callers.Go(func() {
				_ = box.Do(t.Context(), func(context.Context) error {
					<-release
					if drop {
						box.Drop(gone)
					} else {
						box.Close(gone)
					}
					return nil
				})
			})
			synctest.Wait()
			require.NoError(t, box.Put(1, 1))
			var behind error
			callers.Go(func() { behind = box.Do(t.Context(), func(context.Context) error { return nil }) })
			synctest.Wait()
			close(release)
			callers.Wait()
			group.Wait()
			want, rejected := "[[1]] []", error(nil)
			if drop {
				want, rejected = "[] [1]", gone
			}
			got := fmt.Sprint(r.batches, r.rejected)
			assert.True(t, got == want && errors.Is(behind, rejected), "%s: handled and rejected %s, want %s; the task behind got %v", name, got, want, behind)
			assert.ErrorIs(t, box.Put(2, 1), gone, name)
			assert.ErrorIs(t, box.Do(t.Context(), nil), gone, name)
		})
	}
}

// Whatever callers do, and whenever they leave: every item that was taken is
// handled once, in the order of its caller, and no two jobs run at once.
func TestRandomCallers(t *testing.T) {
	const callers, calls = 8, 500
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	busy := make(chan struct{}, 1)
	r := &recorder{}
	box, group := newBox(r, 50, 7)
	alone := func() {
		select {
		case busy <- struct{}{}:
		default:
			t.Error("two jobs at once")
		}
		<-busy
	}
	taken := make([][]int, callers)
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(c)))
			for n := range calls {
				item := c*calls + n
				switch rng.IntN(4) {
				case 0:
					ctx, leave := context.WithCancel(t.Context())
					if rng.IntN(2) == 0 {
						leave()
					}
					_ = box.Do(ctx, func(context.Context) error { alone(); return nil })
					leave()
				case 1:
					box.TryDo(alone)
				default:
					if box.Put(item, 1+rng.IntN(5)) == nil {
						taken[c] = append(taken[c], item)
					}
				}
			}
		})
	}
	all.Wait()
	group.Wait()
	handled := make([][]int, callers)
	for _, batch := range r.batches {
		for _, item := range batch {
			handled[item/calls] = append(handled[item/calls], item)
		}
	}
	assert.Equal(t, fmt.Sprint(taken), fmt.Sprint(handled), "handled is not what was taken")
}

// Posts before their turn are one, behind what was queued before; a post during the turn is another one, and a closed box drops it.
func TestPost(t *testing.T) {
	r := &recorder{hold: make(chan struct{})}
	b, group := newBox(r, 10, 10)
	turns := 0
	r.posted = func() {
		if turns++; turns == 1 {
			b.Post()
		}
		assert.Len(t, r.batches, 1, turns)
	}
	require.NoError(t, b.Put(1, 1))
	b.Post()
	b.Post()
	close(r.hold)
	group.Wait()
	b.Close(errors.New("closed"))
	b.Post()
	group.Wait()
	assert.Equal(t, 2, turns, "turns, want 2")
}

// answering is a handler whose items are callers that wait.
type answering struct{ batches int }

func (*answering) Posted()                     {}
func (*answering) Reject(chan struct{}, error) {}
func (*answering) Shares() bool                { return true }

func (a *answering) handle(turns []mailbox.Turn[chan struct{}]) {
	a.batches++
	for _, done := range turns[0].Items {
		done <- struct{}{}
	}
}

// Callers that send their next item when they have their answer share every batch. One processor keeps them from
// sending while the batch is answered.
func TestAnsweredCallersShareTheNextBatch(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const callers, calls = 200, 50
	var all sync.WaitGroup
	a := &answering{}
	turns := mailbox.NewTurns(a.handle)
	box := mailbox.New[chan struct{}](a, turns, mailbox.Options{Limit: callers, Batch: callers})
	for range callers {
		all.Go(func() {
			done := make(chan struct{}, 1)
			for range calls {
				if err := box.Put(done, 1); err != nil {
					t.Error(err)
					return
				}
				<-done
			}
		})
	}
	all.Wait()
	turns.Wait()
	assert.LessOrEqual(t, a.batches, int(2*calls), "%d batches for %d calls of each caller", a.batches, calls)
}
