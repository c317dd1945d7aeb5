package store

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"hindsight/internal/engine/storage"
)

// puts are calls of PutPending that wait. One call at a time commits the rows of all calls that wait, so that they share
// the fixed costs of a batch.
type puts struct {
	sync.Mutex
	waiting []*put
	// rows counts the rows of the waiting calls.
	rows atomic.Int64
	// led: a call commits, or is about to.
	led bool
	// shared: the last commit had the rows of several calls.
	shared bool
	// pause is the number of commits that do not wait for others after a slow gather. left counts those still to come.
	pause, left int
}

// sharedRows bounds the rows of calls that are committed together. A call of more rows does not wait for others, nor
// others for it.
const sharedRows = 64

const (
	// A gather that takes longer than slowGather costs more than it saves: other goroutines keep the processors.
	slowGather = 5 * time.Millisecond
	// Each slow gather in a row makes the pause pauseFactor times as long, at most maxPause.
	pauseFactor, maxPause = 8, 1 << 15
)

// put is a call of PutPending.
type put struct {
	model *Model
	rows  []storage.Prediction
	// stripes are of the rows without a minted id.
	stripes       stripeSet
	minted, fresh int64
	err           error
	// turn receives true if the call is to commit, and false when its rows are committed.
	turn chan bool
}

func (m *Model) newPut(rows []storage.Prediction) (*put, error) {
	p := &put{model: m, rows: rows}
	for n := range rows {
		if err := checkID(rows[n].ID); err != nil {
			return nil, err
		}
		if rows[n].Minted {
			p.minted++
		} else {
			m.store.rows.add(&p.stripes, m.number, rows[n].ID)
		}
	}
	return p, nil
}

// putTogether commits the rows of a call, in one batch with the rows of other calls that wait.
func (s *Store) putTogether(p *put) error {
	if len(p.rows) > sharedRows {
		s.putAll(context.Background(), []*put{p})
		return p.err
	}
	q := &s.puts
	q.Lock()
	q.waiting = append(q.waiting, p)
	q.count(p, len(p.rows))
	if q.led {
		p.turn = make(chan bool, 1)
		q.Unlock()
		if !<-p.turn {
			return p.err
		}
		q.Lock()
	}
	q.led = true
	if q.shared { // A call alone has no others to wait for.
		q.gather()
	}
	group := q.take()
	q.shared = len(group) > 1
	q.Unlock()
	defer func() {
		for _, other := range group[1:] {
			other.turn <- false
		}
		q.pass()
	}()
	s.putAll(context.Background(), group)
	return p.err
}

// gather yields to other calls as long as they join. The caller holds the lock, and gather gives it up meanwhile.
func (q *puts) gather() {
	if q.left > 0 {
		q.left--
		return
	}
	began := time.Now() //nolint:forbidigo // No result depends on it.
	for before := 0; before < len(q.waiting) && before < sharedRows; {
		before = len(q.waiting)
		q.Unlock()
		runtime.Gosched()
		q.Lock()
		if time.Since(began) > slowGather {
			q.pause = min(pauseFactor*(q.pause+1), maxPause)
			q.left = q.pause
			return
		}
	}
	q.pause = 0
}

// take removes the first calls from the queue: at most sharedRows rows, and no two calls with a common stripe, because both
// may have the same row. The caller holds the lock.
func (q *puts) take() (group []*put) {
	var stripes stripeSet
	n, rows := 0, 0
	for ; n < len(q.waiting) && stripes.disjoint(&q.waiting[n].stripes); n++ {
		if rows += len(q.waiting[n].rows); rows > sharedRows {
			break
		}
		stripes.join(&q.waiting[n].stripes)
		q.count(q.waiting[n], -len(q.waiting[n].rows))
	}
	group = append(group, q.waiting[:n]...)
	rest := copy(q.waiting, q.waiting[n:])
	clear(q.waiting[rest:])
	q.waiting = q.waiting[:rest]
	return group
}

// count counts rows of a waiting call as pending, so that concurrent calls do not exceed a limit together.
func (q *puts) count(p *put, rows int) {
	p.model.waiting.Add(int64(rows))
	q.rows.Add(int64(rows))
}

// pass lets the first waiting call commit.
func (q *puts) pass() {
	q.Lock()
	defer q.Unlock()
	if q.led = len(q.waiting) > 0; q.led {
		q.waiting[0].turn <- true
	}
}

// putAll commits the rows of calls without common rows, and sets the errors of the calls.
func (s *Store) putAll(ctx context.Context, group []*put) {
	var stripes stripeSet
	for _, p := range group {
		stripes.join(&p.stripes)
	}
	err := s.usePending(ctx, func(db *database) error {
		if err := db.room(ctx); err != nil {
			return err
		}
		defer s.rows.lock(stripes)()
		s.pendingFilter.committing.RLock()
		defer s.pendingFilter.committing.RUnlock()
		for _, p := range group {
			if p.err = p.model.gone(); p.err == nil {
				p.model.countPending(p.minted) // A minted row counts before another call can find and remove it.
			}
		}
		err := db.commit(pebble.Sync, func(b *pebble.Batch) (err error) {
			for n := 0; n < len(group) && err == nil; n++ {
				if p := group[n]; p.err == nil {
					p.fresh, err = p.model.fillPending(db, b, p.rows, p.minted)
				}
			}
			return err
		})
		for _, p := range group {
			switch {
			case p.err != nil:
			case err != nil:
				p.model.countPending(-p.minted)
			default:
				p.model.countPending(p.fresh)
			}
		}
		return err
	})
	for n := 0; n < len(group) && err != nil; n++ {
		group[n].err = err
	}
}
