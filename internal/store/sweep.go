package store

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// portion bounds how many rows a sweep goes through while writers wait.
const portion = 256

// aged is an entry of an index by time.
type aged struct {
	at    int64
	model uint64
	id    string
}

// agedBefore reads entries of an index from lower to below upper, the oldest
// first, at most limit.
func (db *database) agedBefore(lower, upper []byte, limit int) (out []aged, err error) {
	err = db.scan(lower, upper, func(k, _ []byte) (bool, error) {
		at, model, id, err := splitAged(k)
		if err != nil {
			return false, err
		}
		out = append(out, aged{at, model, id})
		return len(out) < limit, nil
	})
	return out, err
}

// deleteAged removes an entry of an index, and the row that it belongs to. A
// row that was written again has another time: it stays. A row that is too
// short to have a time goes.
func (db *database) deleteAged(b *pebble.Batch, row, index byte, e aged) (dropped bool, err error) {
	if err := b.Delete(agedKey(index, e.at, e.model, e.id), nil); err != nil {
		return false, fmt.Errorf("fill a batch: %w", err)
	}
	k := idKey(row, e.model, e.id)
	at, ok, err := db.timeOf(k)
	if err != nil || !ok || (at >= 0 && at != e.at) {
		return false, err
	}
	if err := b.Delete(k, nil); err != nil {
		return false, fmt.Errorf("fill a batch: %w", err)
	}
	return true, nil
}
