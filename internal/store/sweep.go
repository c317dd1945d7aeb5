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

// dropAged deletes entries of an index and their rows in one batch. It returns the model of each deleted row. A row that
// was put again has another time and stays. A row that is too short to have a time is deleted.
func (db *database) dropAged(row, index byte, old []aged) (models []uint64, err error) {
	err = db.commit(pebble.NoSync, func(b *pebble.Batch) error {
		for _, e := range old {
			k := idKey(row, e.model, e.id)
			at, ok, err := db.timeOf(k)
			if err == nil {
				err = b.Delete(agedKey(index, e.at, e.model, e.id), nil)
			}
			if err == nil && ok && (at < 0 || at == e.at) {
				models, err = append(models, e.model), b.Delete(k, nil)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return models, err
}
