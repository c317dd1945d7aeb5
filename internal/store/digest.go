package store

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"

	"hindsight/internal/engine/storage"
)

// RowsEnd implements storage.Contents.
func (m *Model) RowsEnd(from string, limit int) (to string, err error) {
	for _, family := range []byte{familyID, familyPending} {
		err := m.scanRows(family, from, func() func(id string, at int64, value []byte) bool {
			rows := 0
			return func(id string, _ int64, _ []byte) bool {
				if rows++; rows <= limit {
					return true
				}
				if to == "" || id < to {
					to = id
				}
				return false
			}
		})
		if err != nil {
			return "", m.failed("count its rows", err)
		}
	}
	return to, nil
}

// DigestRows implements storage.Contents.
func (m *Model) DigestRows(r storage.Rows) (digest string, err error) {
	value, err := m.Value()
	if err != nil {
		return "", err
	}
	whole, since := sha256.New(), nanoseconds(r.Since)
	add(whole, value)
	if r.From == "" {
		err := m.store.EachAlias(context.Background(), func(name string, value []byte) error {
			add(whole, []byte(name), value)
			return nil
		})
		if err != nil {
			return "", err
		}
	}
	for _, family := range []byte{familyID, familyPending} {
		var rows hash.Hash
		err := m.scanRows(family, r.From, func() func(id string, at int64, value []byte) bool {
			rows = sha256.New()
			return func(id string, at int64, value []byte) bool {
				if r.To != "" && id >= r.To {
					return false
				}
				if family == familyPending || at >= since && !r.Without(value) {
					add(rows, []byte(id), binary.BigEndian.AppendUint64(nil, uint64(at)), value)
				}
				return true
			}
		})
		if err != nil {
			return "", m.failed("digest its rows", err)
		}
		add(whole, rows.Sum(nil))
	}
	return hex.EncodeToString(whole.Sum(nil)), nil
}

// add adds parts to a hash, each after its length.
func add(h hash.Hash, parts ...[]byte) {
	for _, p := range parts {
		h.Write(binary.AppendUvarint(nil, uint64(len(p)))) // A hash never fails.
		h.Write(p)
	}
}

// scanRows calls a function for the rows of a family from an id on, until the function returns false. If the database is
// replaced meanwhile, scanRows begins again with the next function of begin.
func (m *Model) scanRows(family byte, from string, begin func() func(id string, at int64, value []byte) bool) error {
	if err := m.gone(); err != nil {
		return err
	}
	_, upper := modelRange(family, m.number)
	scan := func(db *database) error {
		each := begin()
		return db.scan(idKey(family, m.number, from), upper, func(k, v []byte) (bool, error) {
			at, value, err := splitTimed(v)
			return err == nil && each(string(k[modelKeyLength:]), at, value), err
		})
	}
	if family == familyPending {
		return m.store.finishPending(scan)
	}
	return scan(m.store.logDB)
}
