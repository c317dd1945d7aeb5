package store_test

import (
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"hindsight/internal/engine/storage"
	"hindsight/internal/store"
	"hindsight/internal/store/storetest"
)

var (
	_ storage.Store = (*store.Store)(nil)
	_ storage.Model = (*store.Model)(nil)
)

func TestContract(t *testing.T) {
	kinds := map[string]func(*store.Options){"usual": func(*store.Options) {}}
	if isLong() {
		kinds["small tables"] = store.SmallMemTables
	}
	for name, set := range kinds {
		t.Run(name, func(t *testing.T) {
			open := func(t *testing.T) storetest.Backend {
				t.Helper()
				return backend(t, vfs.NewCrashableMem(), set)
			}
			storetest.Run(t, open)
			storetest.RunPositions(t, open)
		})
	}
}

// backend opens a directory of a file system for the suite. A killed process
// leaves what it wrote, a power cut what it synced.
func backend(t *testing.T, fs *vfs.MemFS, set ...func(*store.Options)) storetest.Backend {
	t.Helper()
	s := open(t, fs, set...)
	t.Cleanup(func() { closed(t, s) })
	again := func(c vfs.CrashCloneCfg) func(*testing.T) storetest.Backend {
		return func(t *testing.T) storetest.Backend {
			t.Helper()
			left := fs.CrashClone(c)
			closed(t, s)
			return backend(t, left, set...)
		}
	}
	return storetest.Backend{
		Store: s,
		Kill:  again(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(0, 0))}),
		Cut:   again(vfs.CrashCloneCfg{}),
	}
}
