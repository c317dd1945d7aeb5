package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

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
			models := make([]store.Model, writers)
			for n := range models {
				var err error
				if models[n], err = s.CreateModel(fmt.Sprint("m", n), nil); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			b.ResetTimer()
			var group sync.WaitGroup
			for n, m := range models {
				group.Go(func() {
					for k := range uint64((b.N + n) / writers) {
						if err := s.Append(m, store.Record{First: k + 1, Last: k + 1, Data: data}); err != nil {
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

func BenchmarkPutPending(b *testing.B) {
	s := openReal(b)
	value := make([]byte, 200)
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		if err := s.PutPending(1, []store.Pending{{ID: strconv.Itoa(n), Value: value, Expiry: time.Unix(1, 0)}}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkGetSeen looks among many ids, most of which are in the last level of
// the database.
func BenchmarkGetSeen(b *testing.B) {
	s := openReal(b)
	const ids = 500_000
	entries := make([]store.Seen, 100)
	for n := 0; n < ids; n += len(entries) {
		for k := range entries {
			entries[k] = store.Seen{ID: fmt.Sprintf("%d-%d", (n+k)%256, (n+k)/256), Value: make([]byte, 80)}
		}
		if err := s.AddSeen(1, time.Unix(1, int64(n)), entries); err != nil {
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
				_, ok, err := s.GetSeen(1, fmt.Sprintf("%d-%d", at%256, at/256))
				if err != nil || ok != (offset == 0) {
					b.Fatal(ok, err)
				}
			}
		})
	}
}
