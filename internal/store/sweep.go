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

// after returns the key behind the entry in an index.
func (e *aged) after(index byte) []byte { return append(agedKey(index, e.at, e.model, e.id), 0) }

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

// dropAged deletes entries of an index and their rows in one batch, and looks no row up. An entry has a row with its time,
// or its model is deleted: both are put and deleted in one batch. The caller keeps others from putting the rows again since
// it read the entries.
func (db *database) dropAged(row, index byte, old []aged) error {
	return db.commit(pebble.NoSync, func(b *pebble.Batch) (err error) {
		for n := 0; n < len(old) && err == nil; n++ {
			err = deleteTimed(b, row, index, old[n].model, old[n].id, old[n].at)
		}
		return err
	})
}
