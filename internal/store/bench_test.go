package store_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

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
				models[n], err = s.Create(b.Context(), fmt.Sprint("m", n), nil)
				require.NoError(b, err)
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
