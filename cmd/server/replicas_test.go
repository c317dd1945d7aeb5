package main_test

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"hindsight/internal/engine/record"
	"hindsight/internal/engine/recovery"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model/catalog"
	"hindsight/internal/store"
)

// readDisk reads the logs and the rows of all models of a directory that no server has open. The remembered ids replace
// records that a snapshot has cut off the log.
func readDisk(t *testing.T, dir string) (logs map[string][]placed, rows map[string]map[string]string) {
	t.Helper()
	disk, pending, err := store.Inspect(dir, store.Options{})
	require.True(t, err == nil && pending == nil, "%s: %v, %v", dir, err, pending)
	logs, rows = map[string][]placed{}, map[string]map[string]string{}
	err = disk.Models(t.Context(), func(e storage.RegistryEntry) error {
		log, err := readLog(t, e)
		logs[e.Name] = log
		if err == nil {
			rows[e.Name], err = readRows(t, e)
		}
		return err
	})
	require.NoError(t, errors.Join(err, disk.Close()), dir)
	return logs, rows
}

// readRows reads the value, the pending predictions and the remembered ids of a model. A server may derive the ids of the
// last record from its log, so they are left out.
func readRows(t *testing.T, e storage.RegistryEntry) (rows map[string]string, err error) {
	t.Helper()
	last, err := e.Model.Last()
	through := uint64(math.MaxUint64)
	if err == nil && last > 0 {
		err = e.Model.Replay(t.Context(), last-1, func(r storage.Record) error {
			through = r.First - 1
			return nil
		})
	}
	if err != nil {
		return nil, err
	}
	rows = map[string]string{"value": fmt.Sprintf("%x", sha256.Sum256(e.Value))}
	err = e.Model.EachPending(t.Context(), func(p storage.Prediction) error {
		rows[pendingRow+p.ID] = fmt.Sprintf("until %v: %x", p.Expiry, sha256.Sum256(p.Value))
		return nil
	})
	if err != nil {
		return nil, err
	}
	after := recovery.Undone(through)
	return rows, e.Model.EachID(t.Context(), func(id storage.ID) error {
		if !after(id.Value) {
			rows["id "+id.ID] = fmt.Sprintf("at %v: %x", id.At, sha256.Sum256(id.Value))
		}
		return nil
	})
}

// pendingRow begins the names of the pending predictions among the rows of a model.
const pendingRow = "pending "

func readLog(t *testing.T, e storage.RegistryEntry) (log []placed, err error) {
	t.Helper()
	from, _, err := recovery.DecodeRegistryEntry(e, catalog.New)
	if err != nil {
		return nil, err
	}
	first, err := e.Model.First()
	if err != nil || first == 0 {
		return nil, err
	}
	inLog := map[string]uint64{}
	err = e.Model.Replay(t.Context(), first-1, func(logged storage.Record) error {
		r, err := record.Decode(logged.Data)
		if err != nil {
			return err
		}
		if logged.Last-logged.First+1 != uint64(len(r.Observations)) {
			return fmt.Errorf("%d observations in the record from %d to %d", len(r.Observations), logged.First, logged.Last)
		}
		for n, o := range r.Observations {
			log = append(log, placed{logged.First + uint64(n), o.ID})
			inLog[o.ID] = logged.First + uint64(n)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = e.Model.EachID(t.Context(), func(id storage.ID) error {
		seen, err := record.DecodeSeen(id.Value, max(1, from.Spec.Outputs))
		at := seen.Answer.Sequence
		if at < first {
			log = append(log, placed{at, id.ID})
		} else if err == nil && inLog[id.ID] != at {
			err = fmt.Errorf("the id %s is remembered at %d, and in the log at %d", id.ID, at, inLog[id.ID])
		}
		return err
	})
	slices.SortStableFunc(log, func(a, b placed) int { return cmp.Compare(a.sequence, b.sequence) })
	return log, err
}
