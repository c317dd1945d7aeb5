package store_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"

	"hindsight/internal/store"
)

// FuzzStoredBytes: whatever the databases give back, reading it ends in a
// value or an error.
func FuzzStoredBytes(f *testing.F) {
	f.Add(numbered('l', 1, 3), append(numbered(0, 3)[1:], "checksum and data"...))
	f.Add(numbered('a', 7, 1), []byte{})
	f.Add([]byte{}, []byte{1})
	f.Fuzz(func(t *testing.T, k, v []byte) {
		r, err := store.DecodeRecord("m", k, v)
		assert.True(t, err != nil || (r.First <= r.Last && len(r.Data) == len(v)-12), "decoded %+v", r)
		_, _, id, err := store.SplitAged(k)
		assert.True(t, err != nil || len(id) == len(k)-17, "id %q of %q", id, k)
		_, value, err := store.SplitTimed(v)
		assert.True(t, err != nil || len(value) == len(v)-8, "value %q of %q", value, v)
		_, value, err = store.SplitEntry(v)
		assert.True(t, err != nil || len(value) == len(v)-8, "value %q of %q", value, v)
		sequence, err := store.SplitRewind(v)
		assert.True(t, err != nil || bytes.Equal(numbered(0, sequence)[1:], v), "sequence %d of %q", sequence, v)
		_, err = store.SplitModel(k)
		assert.True(t, err != nil || len(k) >= 9, "a model out of %q", k)
	})
}
