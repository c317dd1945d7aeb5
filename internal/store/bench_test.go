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

func BenchmarkGetSeen(b *testing.B) {
	s := openReal(b)
	for n := range 10_000 {
		if err := s.PutSeen(1, time.Unix(1, 0), []store.Seen{{ID: strconv.Itoa(n), Value: make([]byte, 80)}}); err != nil {
			b.Fatal(err)
		}
	}
	for name, format := range map[string]string{"hit": "%d", "miss": "no-%d"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n++
				if _, _, err := s.GetSeen(1, fmt.Sprintf(format, n%10_000)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
