package store

import (
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"
)

// filter rejects most ids that a database does not have without a look-up: a new id costs a read of one
// word of memory. The filter has every id of the database, so that "no" is certain. It says "yes" for
// an id that was removed, and for about one other id in 200.
type filter struct {
	seed   maphash.Seed
	minIDs int64
	now    atomic.Pointer[words]
	// committing: a commit holds it shared from add to its end. Renew holds it exclusively to begin, so
	// that it scans the database after every commit that next has not.
	committing sync.RWMutex
	// next is under construction, nil as a rule.
	next atomic.Pointer[words]
}

// words is a Bloom filter of one word an id.
type words struct {
	bits  []atomic.Uint64
	added atomic.Int64
}

const (
	// A word has four ids in the mean when as many ids have been added as the filter has room for.
	idsPerWord = 4
	// The minimum room of a filter, which then takes 2 MiB.
	minRoom = 1 << 20
)

// room returns words with room for twice so many ids, and for minIDs at least.
func (f *filter) room(ids int64) *words {
	return &words{bits: make([]atomic.Uint64, max(f.minIDs, 2*ids)/idsPerWord)}
}

// full reports whether more ids were added than the filter has room for: it says "yes" too often.
func (w *words) full() bool { return w.added.Load() > int64(len(w.bits))*idsPerWord }

func (f *filter) hash(model uint64, id string) uint64 {
	// An odd factor keeps the ids of the models apart, a second multiplication mixes the bits.
	high, low := bits.Mul64(maphash.String(f.seed, id)^model*0x9e3779b97f4a7c15, 0xd6e8feb86659fd93)
	return high ^ low
}

// place returns the word of a hash and the five bits of the hash in the word.
func (w *words) place(hash uint64) (word *atomic.Uint64, mask uint64) {
	at, _ := bits.Mul64(hash, uint64(len(w.bits)))
	for n := range 5 {
		mask |= 1 << (hash >> (6 * n) & 63)
	}
	return &w.bits[at], mask
}

func (w *words) add(hash uint64) {
	word, mask := w.place(hash)
	word.Or(mask)
	w.added.Add(1)
}

// add adds an id before its commit. The caller holds committing, or is the only one.
func (f *filter) add(model uint64, id string) {
	hash := f.hash(model, id)
	f.now.Load().add(hash)
	if next := f.next.Load(); next != nil {
		next.add(hash)
	}
}

// may reports whether the database may have an id. A filter that has not begun says "yes".
func (f *filter) may(model uint64, id string) bool {
	now := f.now.Load()
	if now == nil {
		return true
	}
	word, mask := now.place(f.hash(model, id))
	return word.Load()&mask == mask
}

func (f *filter) begin(hashes []uint64) {
	now := f.room(int64(len(hashes)))
	for _, hash := range hashes {
		now.add(hash)
	}
	f.now.Store(now)
}

// renew replaces a full filter. The function each calls its argument for every id.
func (f *filter) renew(ids int64, each func(add func(model uint64, id string)) error) error {
	if !f.now.Load().full() {
		return nil
	}
	next := f.room(ids)
	f.committing.Lock()
	begun := f.next.CompareAndSwap(nil, next)
	f.committing.Unlock()
	if !begun { // Another call is at it.
		return nil
	}
	err := each(func(model uint64, id string) { next.add(f.hash(model, id)) })
	f.committing.Lock()
	defer f.committing.Unlock()
	if f.next.Store(nil); err == nil {
		f.now.Store(next)
	}
	return err
}
