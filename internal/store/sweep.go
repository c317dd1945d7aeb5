package store

import (
	"github.com/cockroachdb/pebble/v2"
)

// portion bounds the rows that a sweep reads while writers wait.
const portion = 256

type aged struct {
	at    int64
	model uint64
	id    string
}

// agedBefore reads at most limit entries of an index from lower to below upper, the oldest first.
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

// deleteAged deletes an entry of an index and its row. A row that was put again has another time
// and stays. A row that is too short to have a time is deleted.
func (db *database) deleteAged(b *pebble.Batch, row, index byte, e aged) (dropped bool, err error) {
	if err := b.Delete(agedKey(index, e.at, e.model, e.id), nil); err != nil {
		return false, err
	}
	k := idKey(row, e.model, e.id)
	at, ok, err := db.timeOf(k)
	if err != nil || !ok || (at >= 0 && at != e.at) {
		return false, err
	}
	return true, b.Delete(k, nil)
}
