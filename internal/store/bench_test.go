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

	"hindsight/internal/engine/storage"
	"hindsight/internal/store"
)

func openReal(b *testing.B) *store.Store {
	b.Helper()
	s, err := store.Open(b.TempDir(), store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
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
	f, err := os.Create(filepath.Join(b.TempDir(), "log"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	data := make([]byte, 200)
	for b.Loop() {
		if _, err := f.Write(data); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
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
	m, err := s.Create(b.Context(), "m", nil)
	if err != nil {
		b.Fatal(err)
	}
	value := make([]byte, 200)
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		if err := m.PutPending([]storage.Prediction{{ID: strconv.Itoa(n), Value: value, Expiry: time.Unix(1, 0), Minted: minted}}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkID looks among many ids, most of which are in the last level of
// the database.
func BenchmarkID(b *testing.B) {
	s := openReal(b)
	m, err := s.Create(b.Context(), "m", nil)
	if err != nil {
		b.Fatal(err)
	}
	const ids = 500_000
	entries := make([]storage.ID, 100)
	for n := 0; n < ids; n += len(entries) {
		for k := range entries {
			entries[k] = storage.ID{ID: fmt.Sprintf("%d-%d", (n+k)%256, (n+k)/256), At: time.Unix(1, int64(n)), Value: make([]byte, 80)}
		}
		if err := m.PutIDs(b.Context(), entries); err != nil {
			b.Fatal(err)
		}
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
			l, err := store.OpenRaftLog(filepath.Join(b.TempDir(), "groups", "0", "raft"), store.Options{})
			if err != nil {
				b.Fatal(err)
			}
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
				if err := l.Append(entries); err != nil {
					b.Fatal(err)
				}
				if first, err := l.FirstIndex(); err != nil || index-first >= 2*keep {
					if err := errors.Join(err, l.DeleteRange(first, index-keep)); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.StopTimer()
			if err := l.Close(); err != nil {
				b.Error(err)
			}
		})
	}
}

// BenchmarkAppendPosition is appends of a replicated log's commands, one after the other.
func BenchmarkAppendPosition(b *testing.B) {
	s := openReal(b)
	m, err := s.Create(b.Context(), "m", nil)
	if err != nil {
		b.Fatal(err)
	}
	data := make([]byte, 200)
	b.ReportAllocs()
	b.ResetTimer()
	for k := range uint64(b.N) {
		ctx := storage.At(b.Context(), storage.Position{Index: k + 1})
		if err := m.Append(ctx, storage.Commit{Record: storage.Record{First: k + 1, Last: k + 1, Data: data}}); err != nil {
			b.Fatal(err)
		}
	}
}
