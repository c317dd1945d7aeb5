package engine

import (
	"slices"
	"sync"
	"sync/atomic"

	"hindsight/internal/engine/record"
	"hindsight/internal/engine/recovery"
	"hindsight/internal/engine/storage"
)

// recent are the ids of the newest record: they are in memory and not in the
// store, which gets them together with the next record. A crash loses nothing:
// recovery derives the ids of the last record from the log.
//
// Only the model's turn changes them; lookUp may be called at any time.
type recent struct {
	mu struct {
		sync.Mutex
		places map[string]int
	}
	// generation counts the records whose ids were here. What was not known at
	// one generation is, at the next, known only if it is here.
	generation atomic.Uint64
	rows       []storage.ID
	values     []byte
}

// fewRows are looked through without a map, which would cost an idle model more
// memory than all the rest.
const fewRows = 8

// keptIDs is the size of values, in bytes, whose memory a model keeps between two
// commits.
const keptIDs = 64 << 10

// lookUp gives the value that is remembered under an id.
func (r *recent) lookUp(id string) (value []byte, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.mu.places[id]
	if len(r.rows) <= fewRows {
		at = slices.IndexFunc(r.rows, func(row storage.ID) bool { return row.ID == id })
		ok = at >= 0
	}
	if !ok {
		return nil, false
	}
	return append([]byte(nil), r.rows[at].Value...), true
}

// clear forgets the ids at a commit: the store has them.
func (r *recent) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.mu.places)
	clear(r.rows)
	r.rows, r.values = r.rows[:0], r.values[:0]
	if cap(r.values) > keptIDs {
		r.mu.places, r.rows, r.values = nil, nil, nil
	}
}

// add takes the ids of a record that was learned. Digest lends its memory.
func (r *recent) add(learned *record.Record, answers []record.Answer, digest *record.Digester) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows, r.values = recovery.AppendIDs(r.rows, r.values, digest, learned, answers)
	if len(r.rows) > fewRows {
		if r.mu.places == nil {
			r.mu.places = make(map[string]int, len(r.rows))
		}
		for n := range r.rows {
			r.mu.places[r.rows[n].ID] = n
		}
	}
	r.generation.Add(1)
}

// renew forgets the ids outside of a commit: what was looked up before is looked
// up again.
func (r *recent) renew() {
	r.clear()
	r.generation.Add(2)
}
