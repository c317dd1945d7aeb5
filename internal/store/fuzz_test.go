package store_test

import (
	"bytes"
	"testing"

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
		if err == nil && (r.First > r.Last || len(r.Data) != len(v)-12) {
			t.Errorf("decoded %+v", r)
		}
		if _, _, id, err := store.SplitAged(k); err == nil && len(id) != len(k)-17 {
			t.Errorf("id %q of %q", id, k)
		}
		if _, value, err := store.SplitTimed(v); err == nil && len(value) != len(v)-8 {
			t.Errorf("value %q of %q", value, v)
		}
		if _, value, err := store.SplitEntry(v); err == nil && len(value) != len(v)-8 {
			t.Errorf("value %q of %q", value, v)
		}
		if sequence, err := store.SplitRewind(v); err == nil && !bytes.Equal(numbered(0, sequence)[1:], v) {
			t.Errorf("sequence %d of %q", sequence, v)
		}
		if _, err := store.SplitModel(k); err == nil && len(k) < 9 {
			t.Errorf("a model out of %q", k)
		}
	})
}
