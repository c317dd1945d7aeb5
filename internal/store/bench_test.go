package store_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine/storage"
	"hindsight/internal/store"
)

func openReal(b *testing.B) *store.Store {
	b.Helper()
	s := must(store.Open(b.TempDir(), store.Options{}))(b)
	b.Cleanup(func() {
		assert.NoError(b, s.Close())
	})
	return s
}

// BenchmarkAppend is durable appends by so many models at once; an operation
// is one append.
func BenchmarkAppend(b *testing.B) {
	for _, writers := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprint("writers=", writers), func(b *testing.B) {
			s := openReal(b)
			data := make([]byte, 200)
			models := make([]storage.Model, writers)
			for n := range models {
				var err error
				if models[n], err = s.Create(b.Context(), fmt.Sprint("m", n), nil); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			b.ResetTimer()
			var group sync.WaitGroup
			for n, m := range models {
				group.Go(func() {
					for k := range uint64((b.N + n) / writers) {
						if err := m.Append(b.Context(), storage.Commit{Record: storage.Record{First: k + 1, Last: k + 1, Data: data}}); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			group.Wait()
		})
	}
}

// BenchmarkWriteSync is the peer: a bare write and fsync.
func BenchmarkWriteSync(b *testing.B) {
	f := must(os.Create(filepath.Join(b.TempDir(), "log")))(b)
	defer func() { _ = f.Close() }()
	data := make([]byte, 200)
	for b.Loop() {
		must(f.Write(data))(b)
		require.NoError(b, f.Sync())
	}
}

func BenchmarkPutWaiting(b *testing.B) {
	for name, minted := range map[string]bool{"minted": true, "looked up": false} {
		b.Run(name, func(b *testing.B) { benchmarkPutWaiting(b, minted) })
	}
}

func benchmarkPutWaiting(b *testing.B, minted bool) {
	b.Helper()
	s := openReal(b)
	m := must(s.Create(b.Context(), "m", nil))(b)
	value := make([]byte, 200)
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		require.NoError(b, m.PutPending([]storage.Prediction{{ID: strconv.Itoa(n), Value: value, Expiry: time.Unix(1, 0), Minted: minted}}))
	}
}

// BenchmarkID looks among many ids, most of which are in the last level of
// the database.
func BenchmarkID(b *testing.B) {
	s := openReal(b)
	m := must(s.Create(b.Context(), "m", nil))(b)
	const ids = 500_000
	entries := make([]storage.ID, 100)
	for n := 0; n < ids; n += len(entries) {
		for k := range entries {
			entries[k] = storage.ID{ID: fmt.Sprintf("%d-%d", (n+k)%256, (n+k)/256), At: time.Unix(1, int64(n)), Value: make([]byte, 80)}
		}
		require.NoError(b, m.PutIDs(b.Context(), entries))
	}
	for name, offset := range map[string]int{"hit": 0, "miss": ids} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n += 7919
				at := offset + n%ids
				_, ok, err := m.ID(fmt.Sprintf("%d-%d", at%256, at/256))
				if err != nil || ok != (offset == 0) {
					b.Fatal(ok, err)
				}
			}
		})
	}
}

// BenchmarkRaftLog is durable appends of so many entries of so many bytes, and a compaction now and then, as
// Raft does them; an operation is one append.
func BenchmarkRaftLog(b *testing.B) {
	for _, shape := range []struct{ entries, size int }{{1, 200}, {1, 64 << 10}, {1, 512 << 10}, {16, 64 << 10}} {
		b.Run(fmt.Sprintf("entries=%d/bytes=%d", shape.entries, shape.size), func(b *testing.B) {
			l := must(store.OpenRaftLog(filepath.Join(b.TempDir(), "groups", "0", "raft"), store.Options{}))(b)
			data, entries, index := make([]byte, shape.size), make([]store.RaftEntry, shape.entries), uint64(0)
			keep := uint64(64<<20) / uint64(shape.size)
			b.SetBytes(int64(shape.entries * shape.size))
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				for n := range entries {
					index++
					entries[n] = store.RaftEntry{Index: index, Term: 1, Data: data}
				}
				require.NoError(b, l.Append(entries))
				if first, err := l.FirstIndex(); err != nil || index-first >= 2*keep {
					require.NoError(b, errors.Join(err, l.DeleteRange(first, index-keep)))
				}
			}
			b.StopTimer()
			assert.NoError(b, l.Close())
		})
	}
}

// BenchmarkAppendPosition is appends of a replicated log's commands, one after the other.
func BenchmarkAppendPosition(b *testing.B) {
	s := openReal(b)
	m := must(s.Create(b.Context(), "m", nil))(b)
	data := make([]byte, 200)
	b.ReportAllocs()
	b.ResetTimer()
	for k := range uint64(b.N) {
		ctx := storage.At(b.Context(), storage.Position{Index: k + 1})
		require.NoError(b, m.Append(ctx, storage.Commit{Record: storage.Record{First: k + 1, Last: k + 1, Data: data}}))
	}
}
