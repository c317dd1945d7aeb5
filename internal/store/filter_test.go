package store_test

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine/storage"
	"hindsight/internal/store"
)

// Every acknowledged id is found while the filter is renewed again and again, and after a start.
// Few ids that are new need a look-up.
func TestFilterHasEveryID(t *testing.T) {
	fs := vfs.NewMem()
	s := open(t, fs, store.SmallFilter)
	const models, rounds = 4, 600
	id := func(model, round int) string { return fmt.Sprintf("%d of %d", round, model) }
	var writers, sweeper sync.WaitGroup
	var ended atomic.Bool
	errs := make([]error, models+1)
	sweeper.Go(func() {
		for !ended.Load() {
			errs[models] = errors.Join(errs[models], s.Forget(t.Context(), time.Unix(0, 0), 0), s.Expire(t.Context(), time.Unix(0, 0), func(storage.Model) {}))
		}
	})
	for n := range models {
		m := must(s.Create(t.Context(), strconv.Itoa(n), nil))(t)
		writers.Go(func() {
			for round := range rounds {
				ids := []storage.ID{{ID: id(n, round), At: time.Unix(1, int64(round)), Value: []byte{1}}}
				waiting := []storage.Prediction{{ID: id(n, round), Expiry: time.Unix(1, 0), Minted: round%3 == 0}}
				err := errors.Join(m.PutIDs(t.Context(), ids), m.PutPending(waiting), m.PutPending([]storage.Prediction{{ID: id(n, round), Expiry: time.Unix(2, 0)}}))
				if round%2 == 0 {
					at := uint64(round/2 + 1)
					ids[0].ID += " in the log"
					err = errors.Join(err, m.Append(t.Context(), storage.Commit{Record: storage.Record{First: at, Last: at, Data: []byte{1}}, IDs: ids}))
				}
				for earlier := round; earlier >= 0 && earlier > round-40; earlier-- {
					_, ok, failed := m.ID(id(n, earlier))
					p, waits, unread := m.GetPending(id(n, earlier))
					if failed = errors.Join(failed, unread); !ok || !waits || p.Expiry != time.Unix(2, 0) {
						failed = errors.Join(failed, fmt.Errorf("id %d of model %d is forgotten at round %d", earlier, n, round))
					}
					err = errors.Join(err, failed)
				}
				if err != nil {
					errs[n] = err
					return
				}
			}
		})
	}
	writers.Wait()
	ended.Store(true)
	sweeper.Wait()
	require.NoError(t, errors.Join(errs...))
	check := func(s *store.Store) {
		t.Helper()
		wrong := 0
		err := s.Models(t.Context(), func(e storage.RegistryEntry) error {
			n := int(e.Name[0] - '0')
			m, ok := e.Model.(*store.Model)
			if !ok {
				return e.Err
			}
			for round := range rounds {
				_, ok, err := m.ID(id(n, round))
				_, waits, unread := m.GetPending(id(n, round))
				err = errors.Join(err, unread)
				require.True(t, err == nil && ok && waits, "id %d of model %d: %v, waits %v, %v", round, n, ok, waits, err)
				if m.MayRemember(id(n+models, round)) {
					wrong++
				}
			}
			assert.EqualValues(t, rounds, m.CountPending())
			return nil
		})
		require.NoError(t, err)
		assert.LessOrEqual(t, wrong, int(models*rounds/20), "the filter lets %d of %d new ids through", wrong, models*rounds)
	}
	require.NoError(t, s.Forget(t.Context(), time.Unix(0, 0), 0))
	check(s)
	closed(t, s)
	s = open(t, fs, store.SmallFilter)
	check(s)
	closed(t, s)
}
